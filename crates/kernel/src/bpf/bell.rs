//! How a BPF program wakes a thread: a ring buffer that it writes to from anywhere, and of which nobody
//! reads more than that something is in it.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use libbpf_rs::{MapCore, MapFlags as Update, MapHandle, MapType, libbpf_sys};
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{SysconfVar, sysconf};

use crate::{Error, Result};

/// A part of a map, shared with the kernel.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is shared memory, of which only atomics are given out.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps that many bytes of a map, from `offset` on.
    ///
    /// # Errors
    /// Where the kernel does not map it.
    ///
    /// # Panics
    /// For no bytes.
    pub fn of(
        map: &impl MapCore,
        bytes: usize,
        offset: usize,
        protection: ProtFlags,
    ) -> Result<Self> {
        let bytes = NonZeroUsize::new(bytes).expect("a map is not empty");
        // SAFETY: a new mapping of a map that the kernel allows to be mapped; nothing of this
        // process is replaced.
        let mapped = unsafe {
            let flags = MapFlags::MAP_SHARED;
            mmap(None, bytes, protection, flags, map, offset as libc::off_t)
        };
        let at = mapped.map_err(Error::system("mapping a BPF map"))?;
        Ok(Self { at, bytes })
    }

    /// Where it begins.
    pub fn start(&self) -> NonNull<c_void> {
        self.at
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it any more.
        let _ = unsafe { munmap(self.at, self.bytes.get()) };
    }
}

/// A bell, which a BPF program rings by `bpf_ringbuf_output(..., BPF_RB_FORCE_WAKEUP)`. Its descriptor is
/// readable until [`Bell::silence`].
///
/// The ring buffer's first page has how far it was read, and the second one how far it was written.
#[derive(Debug)]
pub struct Bell {
    map: MapHandle,
    read: Mapping,
    written: Mapping,
}

impl Bell {
    /// A bell for each element of an array of ring buffers.
    ///
    /// # Errors
    /// Where the kernel has no memory for them, or this process may open no more files.
    pub fn all(array: &impl MapCore) -> Result<Vec<Self>> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let page = page_bytes();
        let bell = |index: u32| {
            let (kind, name) = (MapType::RingBuf, Some("bell"));
            let map = MapHandle::create(kind, name, 0, 0, page as u32, &options)?;
            let descriptor = map.as_fd().as_raw_fd();
            let (key, value) = (index.to_ne_bytes(), descriptor.to_ne_bytes());
            array.update(&key, &value, Update::ANY)?;
            let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            Ok(Self {
                read: Mapping::of(&map, page, 0, both)?,
                written: Mapping::of(&map, page, page, ProtFlags::PROT_READ)?,
                map,
            })
        };
        (0..array.max_entries()).map(bell).collect()
    }

    /// Until it is rung again.
    pub fn silence(&self) {
        // SAFETY: both are pages of a mapping that lives as long as `self`; they begin with such a
        // number, which the kernel, too, reads and writes as a whole.
        let [read, written] = unsafe {
            [&self.read, &self.written].map(|page| page.at.cast::<AtomicUsize>().as_ref())
        };
        read.store(written.load(Ordering::Acquire), Ordering::Release);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Of a page of memory, and of the smallest ring buffer.
fn page_bytes() -> usize {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page.map_or(4096, |bytes| bytes as usize)
}

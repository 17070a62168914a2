//! Memory that BPF programs and this process share: an array map, or an object's variables.
//!
//! The kernel and other threads may write it at any time. So Rust references to it are to atomics only:
//! each number is read and written whole; several that belong together need a protocol (a sequence
//! count, an order of writing).

use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapCore;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// The kernel rounds an element up to this, and programs keep their numbers aligned.
const WORD: usize = size_of::<u64>();

/// Plain data: integers, and arrays and structs of these alone.
///
/// # Safety
/// Any bits, in whatever order they were written, are a value of the type.
pub unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for u64 {}

/// A record of a map or a ring buffer from its bytes, which padding may follow.
///
/// # Panics
/// If there are too few bytes.
pub fn record<T: Plain>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "the record is whole");
    // SAFETY: there are as many bytes, and any bits are a value; the read needs no alignment.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// An integer that is read and written whole.
///
/// # Safety
/// `Atomic` is the atomic of the same size and bits.
pub unsafe trait Word: Copy {
    /// As which the shared memory is read and written.
    type Atomic;
}

macro_rules! words {
    ($($integer:ty: $atomic:ty),+) => {
        $(
            // SAFETY: as the standard library has them.
            unsafe impl Word for $integer {
                type Atomic = $atomic;
            }
        )+
    };
}
words!(u8: AtomicU8, u32: AtomicU32, i32: AtomicI32, u64: AtomicU64, i64: AtomicI64);

/// A mapping of `length` elements in the kernel. It may outlive its skeleton, and threads may share it.
#[derive(Debug)]
pub struct Shared<T> {
    start: NonNull<T>,
    length: usize,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to no thread; what is in it is reached by atomics only.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Maps the first `length` elements of a map with the flag `BPF_F_MMAPABLE`, such as an object's
    /// variables (`skel.maps.bss`: one element).
    ///
    /// # Errors
    /// Where the kernel does not map it (before Linux 5.5).
    ///
    /// # Panics
    /// Where the map's elements are not of the size of `T`, or it has fewer.
    pub fn of(map: &impl MapCore, length: usize) -> Result<Self> {
        let (size, elements) = (map.value_size() as usize, map.max_entries() as usize);
        assert!(length <= elements, "the map has {elements} elements");
        let size = size.next_multiple_of(WORD);
        match elements {
            // The programs' static variables may follow the others.
            1 => assert!(size >= size_of::<T>()),
            _ => assert_eq!(size, size_of::<T>()),
        }
        let bytes = NonZeroUsize::new(length * size_of::<T>()).expect("an element has a size");
        // SAFETY: a new mapping without another owner; the kernel's memory lives as long as it.
        let start = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                map.as_fd(),
                0,
            )
        };
        Ok(Self {
            start: start.map_err(Error::system("mapping a BPF array"))?.cast(),
            length,
            bytes,
        })
    }

    /// An element.
    ///
    /// # Panics
    /// Where there is none of that index.
    pub fn at(&self, index: usize) -> Place<'_, T> {
        assert!(index < self.length, "there is such an element");
        Place {
            // SAFETY: within the mapping.
            start: unsafe { self.start.add(index) },
            _mapping: std::marker::PhantomData,
        }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `of` with this length; places in it have borrowed `self`.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

/// An element of the shared memory.
#[derive(Debug)]
pub struct Place<'a, T> {
    start: NonNull<T>,
    _mapping: std::marker::PhantomData<&'a Shared<T>>,
}

impl<'a, T> Place<'a, T> {
    /// One number of it, by its offset; [`word!`](crate::word) has the offset and the type of a
    /// field by its name.
    ///
    /// # Panics
    /// Where that does not lie in the element, aligned.
    pub fn word<W: Word>(&self, offset: usize, _type: fn(&T) -> &W) -> &'a W::Atomic {
        &self.atomics::<W>(offset, 1)[0]
    }

    /// The numbers of an array in it; see [`words!`](crate::words).
    ///
    /// # Panics
    /// Where they do not lie in the element, aligned.
    pub fn words<W: Word, const N: usize>(
        &self,
        offset: usize,
        _type: fn(&T) -> &[W; N],
    ) -> &'a [W::Atomic] {
        self.atomics::<W>(offset, N)
    }

    fn atomics<W: Word>(&self, offset: usize, count: usize) -> &'a [W::Atomic] {
        assert!(offset.is_multiple_of(align_of::<W::Atomic>()));
        assert!(offset + count * size_of::<W::Atomic>() <= size_of::<T>());
        // SAFETY: within the mapping, which is aligned to a page and lives for `'a`; aligned (above,
        // and `T` begins at a multiple of its own alignment or of a word); atomics allow for others
        // that write, this process's threads and the kernel.
        unsafe {
            let first = self.start.cast::<u8>().add(offset).cast::<W::Atomic>();
            std::slice::from_raw_parts(first.as_ptr(), count)
        }
    }
}

impl<T: Plain> Place<'_, T> {
    /// A copy of the element, word by word; the kernel may write it meanwhile.
    ///
    /// # Panics
    /// Where it is not made of whole words.
    pub fn read(&self) -> T {
        assert!(size_of::<T>().is_multiple_of(WORD));
        let mut copy = MaybeUninit::<T>::uninit();
        let words = self.atomics::<u64>(0, size_of::<T>() / WORD);
        for (index, word) in words.iter().enumerate() {
            // SAFETY: within `copy`, which may be aligned to less than a word.
            unsafe {
                let to = copy.as_mut_ptr().cast::<u64>().add(index);
                to.write_unaligned(word.load(Ordering::Relaxed));
            }
        }
        // SAFETY: all of it was written, and any bits are a value.
        unsafe { copy.assume_init() }
    }
}

/// A number in the shared memory by its field's name, as an atomic:
/// `word!(shared.at(0), types::bss, hot.armed.pending)`.
#[macro_export]
macro_rules! word {
    ($place:expr, $type:ty, $($field:ident).+) => {
        $place.word(
            ::std::mem::offset_of!($type, $($field).+),
            |of: &$type| &of.$($field).+,
        )
    };
}

/// An array of numbers in the shared memory by its field's name, as atomics.
#[macro_export]
macro_rules! words {
    ($place:expr, $type:ty, $($field:ident).+) => {
        $place.words(
            ::std::mem::offset_of!($type, $($field).+),
            |of: &$type| &of.$($field).+,
        )
    };
}

#[cfg(test)]
mod tests {
    use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
    use libbpf_rs::{MapFlags, MapHandle, MapType};

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    #[repr(C)]
    struct Pair {
        small: u32,
        table: [u32; 3],
        large: u64,
    }

    // SAFETY: only integers, without padding.
    unsafe impl Plain for Pair {}

    /// `None`, with a message, if this user or kernel cannot create such a map.
    fn array(test: &str) -> Option<MapHandle> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            map_flags: BPF_F_MMAPABLE,
            ..Default::default()
        };
        let size = size_of::<Pair>() as u32;
        let made = MapHandle::create(MapType::Array, Some("shared"), 4, size, 3, &options);
        made.map_err(|error| println!("skipped: {test}: {error}"))
            .ok()
    }

    fn stored(map: &MapHandle, index: u32) -> Vec<u8> {
        let value = map.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap();
        value.expect("arrays have all their elements")
    }

    #[test]
    fn user_space_and_kernel_see_each_others_writes() {
        let Some(map) = array("user_space_and_kernel_see_each_others_writes") else {
            return;
        };
        let shared = Shared::<Pair>::of(&map, 3).unwrap();
        let place = shared.at(2);
        word!(place, Pair, large).store(7, Ordering::Relaxed);
        words!(place, Pair, table)[1].store(5, Ordering::Relaxed);
        let bytes = stored(&map, 2);
        assert_eq!(bytes[8..12], 5u32.to_ne_bytes());
        assert_eq!(bytes[16..], 7u64.to_ne_bytes());
        assert!(stored(&map, 1).iter().all(|byte| *byte == 0));
        let value: Vec<u8> = (1..=24).collect();
        map.update(&1u32.to_ne_bytes(), &value, MapFlags::ANY)
            .unwrap();
        let read = shared.at(1).read();
        assert_eq!(read.small, u32::from_ne_bytes([1, 2, 3, 4]));
        assert_eq!(read.large.to_ne_bytes(), [17, 18, 19, 20, 21, 22, 23, 24]);
        assert_eq!(
            word!(shared.at(1), Pair, small).load(Ordering::Relaxed),
            read.small
        );
    }

    #[test]
    fn the_mapping_outlives_the_map_and_is_shared_by_threads() {
        let Some(map) = array("the_mapping_outlives_the_map_and_is_shared_by_threads") else {
            return;
        };
        let shared = Shared::<Pair>::of(&map, 3).unwrap();
        drop(map);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        word!(shared.at(0), Pair, large).fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(shared.at(0).read().large, 4000);
    }

    #[test]
    #[should_panic(expected = "there is such an element")]
    fn an_index_beyond_the_end_panics() {
        let Some(map) = array("an_index_beyond_the_end_panics") else {
            panic!("there is such an element: none");
        };
        let _ = Shared::<Pair>::of(&map, 2).unwrap().at(2);
    }
}

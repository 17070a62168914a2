//! Latency bounds that a service changes often: without the journal's lock, and restored all the same.
//!
//! The journal has a claim on each CPU's bound; the value of that claim is in a file that the process
//! maps, so it survives the process (`kill -9`) and costs no system call. A word for each CPU holds the
//! bound that the process wants, and the one that it wanted before: one of the two is in the setting,
//! unless another program has written it.

use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};

use crate::pm_qos::{file_of, text_of};
use crate::{Error, Result, Root};

/// No bound, in a word.
const NONE: u32 = u32::MAX;
/// What a setting without a bound holds.
pub(super) const NO_BOUND: &str = "0";
/// Names of the files begin with it.
pub(super) const PREFIX: &str = "live-";

/// Where the value of a claim is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The file's name in the journal's folder.
    pub page: String,
    /// Which of its words.
    pub index: usize,
}

/// The values that the setting may have by this process, of the file's bytes: the wanted one first.
pub(super) fn values(page: &[u8], index: usize) -> Option<[String; 2]> {
    let word = page.get(index * 8..index * 8 + 8)?;
    let word = u64::from_ne_bytes(word.try_into().ok()?);
    Some([wanted(word), before(word)].map(text))
}

fn wanted(word: u64) -> u32 {
    word as u32
}

fn before(word: u64) -> u32 {
    (word >> 32) as u32
}

fn text(bound: u32) -> String {
    match bound {
        NONE => NO_BOUND.to_owned(),
        us => text_of(us),
    }
}

/// A file of words, mapped.
#[derive(Debug)]
struct Page {
    start: NonNull<AtomicU64>,
    bytes: NonZeroUsize,
}

// SAFETY: shared memory of which only atomics are given out.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(file: &File, words: usize) -> Result<Self> {
        let bytes = NonZeroUsize::new(words * 8).expect("there are CPUs");
        for nth in 0..words {
            let none = [u8::MAX; 8];
            file.write_all_at(&none, nth as u64 * 8)
                .map_err(Error::system("writing the bounds' file"))?;
        }
        let flags = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a file of that length, which only this process and, after its end,
        // the journal's readers use.
        let start = unsafe { mmap(None, bytes, flags, MapFlags::MAP_SHARED, file, 0) };
        let start = start.map_err(Error::system("mapping the bounds' file"))?;
        Ok(Self {
            start: start.cast(),
            bytes,
        })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.bytes.get());
        // SAFETY: within the mapping, which begins at a page.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: made in `map` with that length; references into it have borrowed `self`.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

/// The latency bound of one CPU (`power/pm_qos_resume_latency_us`). One thread sets it.
#[derive(Debug)]
pub struct LiveBound {
    /// The CPU's number.
    pub cpu: u32,
    setting: File,
    page: Arc<Page>,
    index: usize,
}

/// Whose value the setting has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// The bound that was set.
    Ours,
    /// Another program's, as the setting has it (`20`, `n/a`); it was left alone.
    Anothers(String),
}

impl LiveBound {
    /// Sets the bound, µs (0: no sleep), or takes it back. A value that another program wrote stays.
    ///
    /// # Errors
    /// Where the setting cannot be read or written; then the bound is as before.
    pub fn set(&self, bound_us: Option<u32>) -> Result<Slot> {
        let word = self.page.word(self.index);
        let old = word.load(Ordering::Relaxed);
        let bound = bound_us.unwrap_or(NONE);
        let next = u64::from(wanted(old)) << 32 | u64::from(bound);
        // First: after `kill -9` the value is known as ours from the moment that it is written.
        word.store(next, Ordering::Release);
        let written = self.write(&text(wanted(old)), &text(bound));
        if written.is_err() {
            word.store(old, Ordering::Release);
        }
        written
    }

    fn write(&self, old: &str, new: &str) -> Result<Slot> {
        let path = || file_of(self.cpu).into();
        let failed = |source| Error::Io {
            path: path(),
            source,
        };
        let mut text = [0; 16];
        let length = self.setting.read_at(&mut text, 0).map_err(failed)?;
        let present = str::from_utf8(&text[..length])
            .unwrap_or_default()
            .trim_end();
        if present == new {
            return Ok(Slot::Ours);
        }
        if present != old && present != NO_BOUND {
            return Ok(Slot::Anothers(present.to_owned()));
        }
        let failed = |source| Error::Io {
            path: path(),
            source,
        };
        self.setting
            .write_all_at(new.as_bytes(), 0)
            .map_err(failed)?;
        Ok(Slot::Ours)
    }
}

/// Opens the CPUs' settings.
///
/// # Errors
/// [`Error::Cannot`] where a CPU has no such setting, or this user may not write it.
pub(super) fn open(root: &Root, cpus: &[u32]) -> Result<Vec<File>> {
    let open = |&cpu: &u32| {
        let path = root.path(&file_of(cpu));
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::Cannot(format!(
                "{}: CPU {cpu} has no separate latency bound on this kernel",
                path.display()
            )),
            _ => Error::at_setting(&path)(error).by_root("a CPU's latency bound can only be set"),
        })
    };
    cpus.iter().map(open).collect()
}

/// The bounds of these CPUs, by their settings; their words are in `page`, in this order.
pub(super) fn bounds(cpus: &[u32], settings: Vec<File>, page: &File) -> Result<Vec<LiveBound>> {
    let page = Arc::new(Page::map(page, cpus.len())?);
    let bounds = settings.into_iter().zip(cpus).enumerate();
    let bounds = bounds.map(|(index, (setting, &cpu))| LiveBound {
        cpu,
        setting,
        page: page.clone(),
        index,
    });
    Ok(bounds.collect())
}

//! Latency bounds that a service changes often: without the journal's lock, and restored all the same.
//!
//! The journal has a claim on each CPU's bound, whose value is in a file that the process maps: it survives
//! the process (`kill -9`) and costs no system call. While no other run has a claim on the setting, the
//! process writes it without the lock; the file has what it wrote. While others have one, the setting is
//! written under the lock, as every other setting.

use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};

use crate::pm_qos::{file_of, text_of};
use crate::{Error, Result, Root};

/// No bound, as a number.
pub(super) const NONE: u32 = u32::MAX;
/// What a setting without a bound holds.
pub(super) const NO_BOUND: &str = "0";
/// Names of the files begin with it.
pub(super) const PREFIX: &str = "live-";

/// Where the value of a claim is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The file's name in the journal's folder.
    pub page: String,
    /// Which CPU's numbers in it.
    pub index: usize,
}

/// Numbers of a CPU in the file.
const NUMBERS: usize = 8;
/// The bound that the process wants, µs, or [`NONE`].
const WANT: usize = 0;
/// The value that it wrote last and that it may replace; [`NONE`]: no bound is its own.
const OWNED: usize = 1;
/// The one before, until the write is done.
const BEFORE: usize = 2;
/// Other runs have claims, so the setting is written under the journal's lock only.
const SHARED: usize = 3;
/// The process is writing the setting without the lock.
const BUSY: usize = 4;

pub(super) fn text(bound: u32) -> String {
    match bound {
        NONE => NO_BOUND.to_owned(),
        us => text_of(us),
    }
}

/// The number of a setting's text.
fn number(text: &str) -> u32 {
    match text {
        NO_BOUND => NONE,
        "n/a" => 0,
        us => us.parse().unwrap_or(NONE),
    }
}

/// A CPU's numbers in the file of another process, for whoever has the journal's lock.
pub(super) struct Numbers<'a> {
    pub page: &'a File,
    pub index: usize,
}

impl Numbers<'_> {
    fn place(&self, which: usize) -> u64 {
        ((self.index * NUMBERS + which) * 4) as u64
    }

    fn get(&self, which: usize) -> Option<u32> {
        let mut number = [0; 4];
        self.page
            .read_exact_at(&mut number, self.place(which))
            .ok()?;
        Some(u32::from_ne_bytes(number))
    }

    fn put(&self, which: usize, number: u32) {
        // A file that cannot be written is read as before: its values are still known.
        let _ = self
            .page
            .write_all_at(&number.to_ne_bytes(), self.place(which));
    }

    /// The value that its process wants.
    pub fn wanted(&self) -> Option<String> {
        self.get(WANT).map(text)
    }

    /// The values that the setting may have by its process, without "no bound", which is nobody's.
    pub fn owned(&self) -> Vec<String> {
        let owned = [OWNED, BEFORE]
            .into_iter()
            .filter_map(|which| self.get(which));
        owned.filter(|owned| *owned != NONE).map(text).collect()
    }

    /// From now on the setting is written under the lock only. Waits for a write that has begun; a process
    /// that was killed in one is waited for in vain, for some milliseconds.
    pub fn share(&self) {
        const TRIES: u32 = 200;
        const PAUSE: Duration = Duration::from_micros(100);
        self.put(SHARED, 1);
        for _ in 0..TRIES {
            if self.get(BUSY) != Some(1) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The setting has this value by its process alone, or none.
    pub fn owns(&self, value: Option<&str>) {
        let owned = value.map_or(NONE, number);
        self.put(OWNED, owned);
        self.put(BEFORE, owned);
    }

    /// Its process may write the setting without the lock again.
    pub fn unshare(&self) {
        self.put(SHARED, 0);
    }
}

/// A file of numbers, mapped.
#[derive(Debug)]
struct Page {
    start: NonNull<AtomicU32>,
    bytes: NonZeroUsize,
}

// SAFETY: shared memory of which only atomics are given out.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(file: &File, cpus: usize) -> Result<Self> {
        let bytes = NonZeroUsize::new(cpus * NUMBERS * 4).expect("there are CPUs");
        let mut none = [NONE; NUMBERS];
        none[SHARED] = 0;
        none[BUSY] = 0;
        let none: Vec<u8> = none
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        file.write_all_at(&none.repeat(cpus), 0)
            .map_err(Error::system(
                "writing the bounds' file in the journal's folder",
            ))?;
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

    fn number(&self, cpu: usize, which: usize) -> &AtomicU32 {
        let index = cpu * NUMBERS + which;
        assert!((index + 1) * 4 <= self.bytes.get());
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
    pub(super) root: Root,
    /// The journal's.
    pub(super) folder: PathBuf,
    setting: File,
    page: Arc<Page>,
    index: usize,
}

/// Whose value the setting has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// The bound that was set, or one that is as tight by the journal's other claims.
    Ours,
    /// Another program's, as the setting has it (`20`, `n/a`); it was left alone.
    Anothers(String),
}

impl Slot {
    /// Another program's value where `bound` is wanted. Equal to that, it is in force, and stays when the bound is taken
    /// back.
    pub(super) fn of_anothers(present: &str, bound: u32) -> Self {
        match present == text(bound) {
            true => Self::Ours,
            false => Self::Anothers(present.to_owned()),
        }
    }
}

/// Whether the process that wrote `owned` last, without the lock, may replace the setting's value.
pub(super) fn may_replace(present: &str, owned: u32) -> bool {
    present == text(owned) || present == NO_BOUND
}

impl LiveBound {
    fn number(&self, which: usize) -> &AtomicU32 {
        self.page.number(self.index, which)
    }

    /// Sets the bound, µs, or takes it back, without the lock; `None` if other runs have claims: then it has
    /// to be done under the lock.
    pub(super) fn set_alone(&self, bound_us: Option<u32>) -> Option<Result<Slot>> {
        self.number(WANT)
            .store(bound_us.unwrap_or(NONE), Ordering::SeqCst);
        self.number(BUSY).store(1, Ordering::SeqCst);
        let is_shared = self.number(SHARED).load(Ordering::SeqCst) != 0;
        let written = (!is_shared).then(|| self.write(bound_us.unwrap_or(NONE)));
        self.number(BUSY).store(0, Ordering::SeqCst);
        written
    }

    fn write(&self, bound: u32) -> Result<Slot> {
        let failed = |source| Error::Io {
            path: file_of(self.cpu).into(),
            source,
        };
        let mut read = [0; 16];
        let length = self.setting.read_at(&mut read, 0).map_err(failed)?;
        let present = str::from_utf8(&read[..length]).unwrap_or_default();
        let present = present.trim_end();
        let owned = self.number(OWNED).load(Ordering::SeqCst);
        if !may_replace(present, owned) {
            return Ok(Slot::of_anothers(present, bound));
        }
        // First: after `kill -9` the value is known as ours from the moment that it is written.
        self.number(BEFORE).store(number(present), Ordering::SeqCst);
        self.number(OWNED).store(bound, Ordering::SeqCst);
        let written = match present == text(bound) {
            true => Ok(()),
            false => self.setting.write_all_at(text(bound).as_bytes(), 0),
        };
        match written {
            Ok(()) => self.number(BEFORE).store(bound, Ordering::SeqCst),
            Err(_) => self.number(OWNED).store(owned, Ordering::SeqCst),
        }
        written.map_err(failed)?;
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

/// The bounds of these CPUs, by their settings; their numbers are in `page`, in this order.
pub(super) fn bounds(
    root: &Root,
    folder: &Path,
    cpus: &[u32],
    settings: Vec<File>,
    page: &File,
) -> Result<Vec<LiveBound>> {
    let page = Arc::new(Page::map(page, cpus.len())?);
    let bounds = settings.into_iter().zip(cpus).enumerate();
    let bounds = bounds.map(|(index, (setting, &cpu))| LiveBound {
        cpu,
        root: root.clone(),
        folder: folder.to_owned(),
        setting,
        page: page.clone(),
        index,
    });
    Ok(bounds.collect())
}

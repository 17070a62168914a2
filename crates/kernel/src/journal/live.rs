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

use super::file::{JournalFile, Record};
use super::owner::Owner;
use super::{Journal, places, remove_ended};
use crate::requests::{file_of, text_of};
use crate::{Error, Result};

/// No bound, in a word.
const NONE: u32 = u32::MAX;
/// What a setting without a bound holds.
const NO_BOUND: &str = "0";
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

impl Journal {
    /// Bounds of these CPUs that may be set at any time, each by a thread of its own. [`Journal::restore`]
    /// takes them back, and so does the next start of any command after `kill -9`.
    ///
    /// # Errors
    /// [`Error::Cannot`] where a CPU has no such setting, or this user may not write it; those of the
    /// journal.
    pub fn live_bounds(&mut self, cpus: &[u32]) -> Result<Vec<LiveBound>> {
        let owner = Owner::this()?;
        let open = |&cpu: &u32| {
            let path = self.root.path(&file_of(cpu));
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            opened.map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Error::Cannot(format!(
                    "{}: CPU {cpu} has no separate latency bound on this kernel",
                    path.display()
                )),
                _ => {
                    Error::at_setting(&path)(error).by_root("a CPU's latency bound can only be set")
                }
            })
        };
        let settings = cpus.iter().map(open).collect::<Result<Vec<File>>>()?;
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let name = format!("{PREFIX}{}-{}", owner.unique(), self.number);
        let page = Arc::new(Page::map(&file.new_page(&name)?, cpus.len())?);
        let mut known = places(&file.records);
        for (index, &cpu) in cpus.iter().enumerate() {
            let mut claim = self.claim(&owner, NO_BOUND);
            claim.live = Some(Place {
                page: name.clone(),
                index,
            });
            let path = file_of(cpu);
            match known.get(&path) {
                Some(&place) => file.records[place].claims.push(claim),
                None => {
                    known.insert(path.clone(), file.records.len());
                    file.records.push(Record {
                        path,
                        original: NO_BOUND.to_owned(),
                        ours: vec![NO_BOUND.to_owned()],
                        claims: vec![claim],
                        settled: true,
                    });
                }
            }
        }
        self.has_claims = true;
        self.remember(&file, &owner);
        JournalFile::save(&file)?;
        let bounds = settings.into_iter().zip(cpus).enumerate();
        let bounds = bounds.map(|(index, (setting, &cpu))| LiveBound {
            cpu,
            setting,
            page: page.clone(),
            index,
        });
        Ok(bounds.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::journal::recover;
    use crate::{Root, requests};

    /// A machine of two CPUs, and its journal's folder.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for cpu in [0, 1] {
            let path = root.path(&file_of(cpu));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "0\n").unwrap();
        }
        (folder, root)
    }

    /// The setting; a file of a test keeps what a shorter value leaves of a longer one, as sysfs does not.
    fn setting(root: &Root, cpu: u32) -> String {
        let text = root.text(&file_of(cpu)).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    }

    fn put(root: &Root, cpu: u32, value: &str) {
        fs::write(root.path(&file_of(cpu)), format!("{value}\n")).unwrap();
    }

    fn run(folder: &Path) -> std::path::PathBuf {
        folder.join("run")
    }

    /// As if the process of the claims had been killed.
    fn killed(folder: &Path, root: &Root, value: &str) {
        let (run, copy) = (run(folder), folder.join("copy"));
        fs::create_dir(&copy).unwrap();
        let mut journal = Journal::new(root, &run);
        let bounds = journal.live_bounds(&[0]).unwrap();
        assert_eq!(bounds[0].set(Some(50)).unwrap(), Slot::Ours);
        put(root, 0, value);
        for entry in fs::read_dir(&run).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
        drop(bounds);
        drop(journal);
        put(root, 0, value);
        for entry in fs::read_dir(&copy).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, run.join(path.file_name().unwrap())).unwrap();
        }
        let file = run.join("settings.json");
        let text = fs::read_to_string(&file).unwrap();
        let started = text.split("\"started\":").nth(1).unwrap();
        let started = started.split(',').next().unwrap();
        let text = text.replace(&format!("\"started\":{started}"), "\"started\":1");
        let pidfd = text.split("\"pidfd\":").nth(1).unwrap();
        let pidfd = pidfd.split(',').next().unwrap().to_owned();
        let text = text.replace(&format!("\"pidfd\":{pidfd}"), "\"pidfd\":null");
        fs::write(file, text).unwrap();
    }

    #[test]
    fn a_bound_is_set_and_taken_back_without_the_journals_lock() {
        let (folder, root) = machine();
        let mut journal = Journal::new(&root, &run(folder.path()));
        let bounds = journal.live_bounds(&[0, 1]).unwrap();
        assert_eq!(bounds[1].set(Some(0)).unwrap(), Slot::Ours);
        assert_eq!(setting(&root, 1), "n/a");
        assert_eq!(setting(&root, 0), "0");
        put(&root, 1, "n/a");
        assert_eq!(bounds[1].set(None).unwrap(), Slot::Ours);
        assert!(setting(&root, 1).starts_with('0'));
    }

    #[test]
    fn anothers_value_is_left_alone() {
        let (folder, root) = machine();
        let mut journal = Journal::new(&root, &run(folder.path()));
        let bounds = journal.live_bounds(&[0]).unwrap();
        put(&root, 0, "20");
        let anothers = Slot::Anothers("20".into());
        assert_eq!(bounds[0].set(Some(50)).unwrap(), anothers);
        assert_eq!(bounds[0].set(None).unwrap(), anothers);
        drop(bounds);
        journal.restore();
        assert_eq!(setting(&root, 0), "20");
    }

    #[test]
    fn after_kill_9_the_next_start_takes_the_bound_back() {
        let (folder, root) = machine();
        killed(folder.path(), &root, "50");
        let restored = recover(&root, &run(folder.path())).unwrap();
        assert_eq!(restored.undone.len(), 1, "{restored:?}");
        assert_eq!(setting(&root, 0), "0");
        let left = fs::read_dir(run(folder.path())).unwrap().count();
        assert_eq!(left, 0, "nothing is left in the folder");
    }

    #[test]
    fn after_kill_9_anothers_value_stays() {
        let (folder, root) = machine();
        killed(folder.path(), &root, "20");
        recover(&root, &run(folder.path())).unwrap();
        assert_eq!(setting(&root, 0), "20");
    }

    #[test]
    fn a_hold_of_another_run_ends_with_the_bound_that_the_service_wants() {
        let (folder, root) = machine();
        let run = run(folder.path());
        let mut service = Journal::new(&root, &run);
        let bounds = service.live_bounds(&[0]).unwrap();
        bounds[0].set(Some(50)).unwrap();
        put(&root, 0, "50");
        let mut hold = Journal::new(&root, &run);
        requests::bound_cpus(&mut hold, &root, &[0], 20).unwrap();
        assert_eq!(setting(&root, 0), "20");
        drop(hold);
        assert_eq!(setting(&root, 0), "50");
        bounds[0].set(None).unwrap();
        assert!(setting(&root, 0).starts_with('0'));
    }
}

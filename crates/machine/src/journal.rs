//! Settings that are changed for a while and put back in every case.
//!
//! Before a setting is changed, the journal writes down what stood there. [`Journal::restore`],
//! or dropping the journal, puts everything back, newest first. After `kill -9` the file is still
//! there: [`recover`] undoes what programs left that run no more.
//!
//! A setting that somebody else has changed in the meantime is left as it is: putting back the
//! older value would undo their change, not ours.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Where journals of the running machine are kept; empty after a boot, as the settings are.
pub const FOLDER: &str = "/run/reveille";

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: PathBuf,
    pub before: String,
    pub set: String,
}

/// What a restore did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Put back to `before`.
    pub undone: Vec<Change>,
    /// Found at another value than ours: somebody else's now, with what stands there.
    pub foreign: Vec<(Change, String)>,
    /// Could not be put back (an offline CPU's file, say), with the reason; still in the journal.
    pub failed: Vec<(Change, String)>,
}

impl Restored {
    pub fn is_empty(&self) -> bool {
        self.undone.is_empty() && self.foreign.is_empty() && self.failed.is_empty()
    }

    fn add(&mut self, other: Restored) {
        self.undone.extend(other.undone);
        self.foreign.extend(other.foreign);
        self.failed.extend(other.failed);
    }
}

/// The program that changed the settings: a process is the same one only if it also started at the
/// same time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Field 22 of /proc/PID/stat, clock ticks since boot (proc(5)).
    started: u64,
}

impl Owner {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command in field 2 may hold spaces and parentheses: count from its last one.
        let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
        Some(Self {
            pid,
            started: started.parse().ok()?,
        })
    }

    fn runs(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Page {
    owner: Owner,
    changes: Vec<Change>,
}

/// The changes of this process.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    changes: Vec<Change>,
}

impl Journal {
    /// A journal below `folder` ([`FOLDER`]). Nothing is written before the first change.
    pub fn new(folder: &Path) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("journal-{}-{number}.json", std::process::id());
        Self {
            file: folder.join(name),
            changes: Vec::new(),
        }
    }

    /// Writes `value` to the setting at `path`, after what stands there was written down. A
    /// setting that has that value already is left alone.
    ///
    /// # Errors
    /// Where the setting cannot be read or written, does not take the value, or the journal cannot
    /// be written; then the setting is as before.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<()> {
        let before = read(path)?;
        if before == value {
            return Ok(());
        }
        self.changes.push(Change {
            path: path.to_owned(),
            before: before.clone(),
            set: value.to_owned(),
        });
        let done = self.save().and_then(|()| write(path, value));
        if done.is_err() {
            self.changes.pop();
            // The file may name a change that was not made; undoing that one changes nothing.
            let _ = self.save();
        }
        done
    }

    /// Puts everything back, newest first. What fails stays in the journal for the next time.
    pub fn restore(&mut self) -> Restored {
        let restored = undo(std::mem::take(&mut self.changes));
        self.changes = restored
            .failed
            .iter()
            .rev()
            .map(|(change, _)| change.clone())
            .collect();
        // Where the file cannot be written, it still names changes that are undone: harmless.
        let _ = self.save();
        restored
    }

    fn save(&self) -> Result<()> {
        if self.changes.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(io(&self.file)(error))
                }
                _ => Ok(()),
            };
        }
        let page = Page {
            owner: Owner::of(std::process::id()).ok_or_else(|| Error::Content {
                path: "/proc/self/stat".into(),
                expected: "this process's start time",
                found: String::new(),
            })?,
            changes: self.changes.clone(),
        };
        save(&self.file, &page)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Undoes what programs left behind that run no more. No journal, nothing to do.
///
/// # Errors
/// Where the folder exists but cannot be read. A journal that is damaged or not ours is reported
/// as failed and left where it is.
pub fn recover(folder: &Path) -> Result<Restored> {
    let mut all = Restored::default();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(io(folder)(error)),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("journal-") || !name.ends_with(".json") {
            continue;
        }
        let page: Page = match fs::read(&file).map(|text| serde_json::from_slice(&text)) {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                all.failed.push((unreadable(&file), error.to_string()));
                continue;
            }
            Err(error) => {
                all.failed.push((unreadable(&file), error.to_string()));
                continue;
            }
        };
        if page.owner.runs() {
            continue;
        }
        let restored = undo(page.changes);
        if restored.failed.is_empty() {
            let _ = fs::remove_file(&file);
        } else {
            let changes = restored
                .failed
                .iter()
                .rev()
                .map(|(change, _)| change.clone());
            let _ = save(
                &file,
                &Page {
                    owner: page.owner,
                    changes: changes.collect(),
                },
            );
        }
        all.add(restored);
    }
    Ok(all)
}

fn unreadable(file: &Path) -> Change {
    Change {
        path: file.to_owned(),
        before: String::new(),
        set: String::new(),
    }
}

fn undo(changes: Vec<Change>) -> Restored {
    let mut restored = Restored::default();
    for change in changes.into_iter().rev() {
        match read(&change.path) {
            Ok(present) if present == change.before => restored.undone.push(change),
            Ok(present) if present != change.set => restored.foreign.push((change, present)),
            Ok(_) => match write(&change.path, &change.before) {
                Ok(()) => restored.undone.push(change),
                Err(error) => restored.failed.push((change, error.to_string())),
            },
            Err(error) => restored.failed.push((change, error.to_string())),
        }
    }
    restored
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(io(path))?;
    Ok(text.trim_end().to_owned())
}

fn write(path: &Path, value: &str) -> Result<()> {
    // Not fs::write: a setting that is not there must not be made.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(io(path))?;
    file.write_all(value.as_bytes()).map_err(io(path))?;
    drop(file);
    let present = read(path)?;
    match present == value {
        true => Ok(()),
        false => Err(Error::Content {
            path: path.to_owned(),
            expected: "the value just written to stay",
            found: present,
        }),
    }
}

/// Whole or not at all: a rename replaces the file in one step.
fn save(file: &Path, page: &Page) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(io(folder))?;
    let text = serde_json::to_vec(page).expect("a journal page is plain data");
    let next = file.with_extension("next");
    fs::write(&next, text).map_err(io(&next))?;
    fs::rename(&next, file).map_err(io(file))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("disable");
        fs::write(&setting, "0\n").unwrap();
        let journals = folder.path().join("run");
        (folder, setting, journals)
    }

    fn journal_files(journals: &Path) -> usize {
        fs::read_dir(journals).map_or(0, |entries| entries.count())
    }

    #[test]
    fn a_dropped_journal_puts_settings_back_and_leaves_no_file() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        assert_eq!(read(&setting).unwrap(), "1");
        assert_eq!(journal_files(&journals), 1);
        drop(journal);
        assert_eq!(read(&setting).unwrap(), "0");
        assert_eq!(journal_files(&journals), 0);
    }

    #[test]
    fn a_setting_set_twice_returns_to_what_stood_there_first() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        journal.set(&setting, "2").unwrap();
        assert_eq!(journal.restore().undone.len(), 2);
        assert_eq!(read(&setting).unwrap(), "0");
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_is_left_to_them() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        fs::write(&setting, "7\n").unwrap();
        let restored = journal.restore();
        assert_eq!(restored.foreign.len(), 1);
        assert_eq!(read(&setting).unwrap(), "7");
    }

    #[test]
    fn the_next_start_undoes_what_a_killed_program_left() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        let file = journal.file.clone();
        std::mem::forget(journal);
        // As long as the program runs, its changes stand.
        assert!(recover(&journals).unwrap().is_empty());
        let mut page: Page = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        page.owner.started += 1; // a process that is no more: same number, other start
        save(&file, &page).unwrap();
        assert_eq!(recover(&journals).unwrap().undone.len(), 1);
        assert_eq!(read(&setting).unwrap(), "0");
        assert_eq!(journal_files(&journals), 0);
    }

    #[test]
    fn what_cannot_be_put_back_stays_in_the_journal() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        fs::remove_file(&setting).unwrap();
        assert_eq!(journal.restore().failed.len(), 1);
        assert_eq!(journal_files(&journals), 1);
        fs::write(&setting, "1\n").unwrap();
        assert_eq!(journal.restore().undone.len(), 1);
        assert_eq!(journal_files(&journals), 0);
    }

    #[test]
    fn a_setting_that_is_not_there_is_an_error_and_is_not_made() {
        let (folder, _setting, journals) = settings();
        let absent = folder.path().join("absent");
        assert!(Journal::new(&journals).set(&absent, "1").is_err());
        assert!(!absent.exists());
    }

    #[test]
    fn a_damaged_journal_is_reported_and_kept() {
        let (_folder, _setting, journals) = settings();
        fs::create_dir_all(&journals).unwrap();
        fs::write(journals.join("journal-1-0.json"), b"{\"owner\":").unwrap();
        assert_eq!(recover(&journals).unwrap().failed.len(), 1);
        assert_eq!(journal_files(&journals), 1);
    }
}

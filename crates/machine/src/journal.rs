//! Settings that are changed for a while and put back in every case.
//!
//! Before a setting is changed, the journal writes down what stood there. [`Journal::restore`],
//! or dropping the journal, puts everything back, newest first. After `kill -9` the file is still
//! there: [`recover`] undoes what programs left that run no more.
//!
//! A setting that somebody else has changed in the meantime is left as it is: putting back the
//! older value would undo their change, not ours. Programs of ours that want the same value at the
//! same time share it: the last one to end puts it back.
//!
//! [`Journal::keep`] leaves the changes standing after the program's end, until [`release`].

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Where journals of the running machine are kept; empty after a boot, as the settings are.
pub const FOLDER: &str = "/run/reveille";

/// One changed setting, or one folder that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: PathBuf,
    pub before: String,
    pub set: String,
}

/// What stands before and after where a folder is made in place of a setting that is written.
const ABSENT: &str = "absent";
const FOLDER_MADE: &str = "a folder of reveille's";

impl Change {
    fn folder(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            before: ABSENT.to_owned(),
            set: FOLDER_MADE.to_owned(),
        }
    }

    fn is_folder(&self) -> bool {
        self.before == ABSENT && self.set == FOLDER_MADE
    }
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
    /// The changes are to stand after the owner's end.
    #[serde(default)]
    kept: bool,
    changes: Vec<Change>,
}

impl Page {
    /// Are the changes wanted at present?
    fn stands(&self) -> bool {
        self.kept || self.owner.runs()
    }
}

/// The changes of this process.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    kept: bool,
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
            kept: false,
            changes: Vec::new(),
        }
    }

    /// Writes `value` to the setting at `path`, after what stands there was written down. A
    /// setting that has that value already is left alone; where that is another program's doing, it
    /// stays until both have ended.
    ///
    /// # Errors
    /// Where the setting cannot be read or written, does not take the value, or the journal cannot
    /// be written; then the setting is as before.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<()> {
        let mut change = Change {
            path: path.to_owned(),
            before: read(path)?,
            set: value.to_owned(),
        };
        if change.before == value {
            let pages = other_pages(&self.file);
            let Some((_, theirs)) = claims(&pages, path).find(|(_, theirs)| theirs.set == value)
            else {
                return Ok(());
            };
            change.before = theirs.before.clone();
            if self.changes.contains(&change) {
                return Ok(());
            }
        }
        self.changes.push(change);
        let done = self.save().and_then(|()| match read(path)? == value {
            true => Ok(()),
            false => write(path, value),
        });
        if done.is_err() {
            self.changes.pop();
            // The file may name a change that was not made; undoing that one changes nothing.
            let _ = self.save();
        }
        done
    }

    /// Makes a folder in a file system of the kernel's (an instance of the tracer, say), where
    /// taking it down again undoes it with all that is in it.
    ///
    /// # Errors
    /// Where it is there already or cannot be made, or the journal cannot be written.
    pub fn make_folder(&mut self, path: &Path) -> Result<()> {
        self.changes.push(Change::folder(path));
        let done = match path.exists() {
            true => Err(io(path)(std::io::ErrorKind::AlreadyExists.into())),
            false => self
                .save()
                .and_then(|()| fs::create_dir(path).map_err(io(path))),
        };
        if done.is_err() {
            self.changes.pop();
            let _ = self.save();
        }
        done
    }

    /// Leaves the changes standing when this program ends, until [`release`] (or the next boot,
    /// which forgets both them and the journal).
    ///
    /// # Errors
    /// Where the journal cannot be written; then everything is put back.
    pub fn keep(mut self) -> Result<()> {
        self.kept = true;
        let saved = self.save();
        self.kept = saved.is_ok();
        saved
    }

    /// Puts everything back, newest first. What fails stays in the journal for the next time.
    pub fn restore(&mut self) -> Restored {
        let changes = std::mem::take(&mut self.changes);
        let restored = match changes.is_empty() {
            true => return Restored::default(),
            false => undo(changes, &other_pages(&self.file)),
        };
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
            kept: self.kept,
            changes: self.changes.clone(),
        };
        save(&self.file, &page)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.kept {
            self.restore();
        }
    }
}

/// Undoes what programs left behind that run no more, unless they meant to keep it. No journal,
/// nothing to do.
///
/// # Errors
/// Where the folder exists but cannot be read. A journal that is damaged or not ours is reported
/// as failed and left where it is.
pub fn recover(folder: &Path) -> Result<Restored> {
    undo_pages(folder, |page| !page.stands())
}

/// As [`recover`], and undoes what was meant to be kept.
///
/// # Errors
/// As [`recover`].
pub fn release(folder: &Path) -> Result<Restored> {
    undo_pages(folder, |page| page.kept || !page.stands())
}

fn undo_pages(folder: &Path, is_over: impl Fn(&Page) -> bool) -> Result<Restored> {
    let mut all = Restored::default();
    // Newest first: a later one may stand upon an earlier one.
    for file in files(folder)? {
        let page = match page(&file) {
            Ok(page) => page,
            // Its program has ended meanwhile.
            Err(_) if !file.exists() => continue,
            Err(why) => {
                all.failed.push((unreadable(&file), why));
                continue;
            }
        };
        if !is_over(&page) {
            continue;
        }
        let restored = undo(page.changes, &other_pages(&file));
        if restored.failed.is_empty() {
            let _ = fs::remove_file(&file);
        } else {
            let failed = restored.failed.iter().rev();
            let changes = failed.map(|(change, _)| change.clone()).collect();
            let _ = save(&file, &Page { changes, ..page });
        }
        all.add(restored);
    }
    Ok(all)
}

/// The journals in the folder, newest first; none where there is no folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(folder)(error)),
    };
    let is_journal = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("journal-") && name.ends_with(".json")
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(is_journal).collect();
    let written = |file: &PathBuf| fs::metadata(file).and_then(|about| about.modified()).ok();
    files.sort_by_cached_key(|file| std::cmp::Reverse((written(file), file.clone())));
    Ok(files)
}

fn page(file: &Path) -> std::result::Result<Page, String> {
    let text = fs::read(file).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// The pages beside `file` whose changes are wanted at present, newest first.
fn other_pages(file: &Path) -> Vec<Page> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let others = files(folder).unwrap_or_default().into_iter();
    let pages = others
        .filter(|other| other != file)
        .filter_map(|other| page(&other).ok());
    pages.filter(Page::stands).collect()
}

/// Who else has changed that setting, and how, newest first.
fn claims<'a>(pages: &'a [Page], path: &'a Path) -> impl Iterator<Item = (&'a Page, &'a Change)> {
    pages.iter().flat_map(move |page| {
        let changes = page.changes.iter().rev();
        let claims = changes.filter(move |change| change.path == path);
        claims.map(move |change| (page, change))
    })
}

fn unreadable(file: &Path) -> Change {
    Change {
        path: file.to_owned(),
        before: String::new(),
        set: String::new(),
    }
}

/// Undoes the changes, newest first, but leaves to the other pages what they want as well.
fn undo(changes: Vec<Change>, others: &[Page]) -> Restored {
    let mut restored = Restored::default();
    for change in changes.into_iter().rev() {
        if change.is_folder() {
            match fs::remove_dir(&change.path) {
                Err(error) if change.path.exists() => {
                    restored.failed.push((change, error.to_string()));
                }
                _ => restored.undone.push(change),
            }
            continue;
        }
        match read(&change.path) {
            Ok(present) => undo_one(change, present, others, &mut restored),
            Err(error) => restored.failed.push((change, error.to_string())),
        }
    }
    restored
}

fn undo_one(change: Change, present: String, others: &[Page], restored: &mut Restored) {
    let shared = |(_, theirs): &(&Page, &Change)| {
        (&theirs.before, &theirs.set) == (&change.before, &change.set)
    };
    if claims(others, &change.path).any(|claim| shared(&claim)) {
        return; // the other one puts it back when it ends
    }
    if present == change.set {
        match write(&change.path, &change.before) {
            Ok(()) => restored.undone.push(change),
            Err(error) => restored.failed.push((change, error.to_string())),
        }
        return;
    }
    // One that stands upon our value will put that back when it ends.
    let upon = claims(others, &change.path).find(|(_, theirs)| theirs.before == change.set);
    if let Some(pid) = upon.map(|(page, _)| page.owner.pid) {
        let why = format!("process {pid} of reveille has set it for a while");
        restored.failed.push((change, why));
    } else if present == change.before {
        restored.undone.push(change);
    } else {
        restored.foreign.push((change, present));
    }
}

/// What stands there; of a list of choices (`s2idle [deep]`) the chosen one, in the form in which
/// it is written.
fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(io(path))?;
    let text = text.trim_end();
    let mut chosen = text
        .split(' ')
        .filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(match (chosen.next(), chosen.next()) {
        (Some(only), None) => only.to_owned(),
        _ => text.to_owned(),
    })
}

fn write(path: &Path, value: &str) -> Result<()> {
    // Not fs::write: a setting that is not there must not be made.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(io(path))?;
    // A write of nothing does not reach the kernel: what reads as nothing is unset by 0.
    // Source: Documentation/ABI/testing/sysfs-class-rtc, wakealarm.
    let written = if value.is_empty() { "0" } else { value };
    file.write_all(written.as_bytes()).map_err(io(path))?;
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
        // As long as the program runs, its changes stand.
        assert!(recover(&journals).unwrap().is_empty());
        kill(journal);
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

    /// Writes the journal's page as if its program had been killed: same number, other start.
    fn kill(journal: Journal) {
        let file = journal.file.clone();
        std::mem::forget(journal);
        let mut page = page(&file).unwrap();
        page.owner.started += 1;
        save(&file, &page).unwrap();
    }

    #[test]
    fn what_is_kept_stands_until_it_is_released() {
        let (_folder, setting, journals) = settings();
        let mut journal = Journal::new(&journals);
        journal.set(&setting, "1").unwrap();
        journal.keep().unwrap();
        assert_eq!(read(&setting).unwrap(), "1");
        assert!(recover(&journals).unwrap().is_empty());
        assert_eq!(read(&setting).unwrap(), "1");
        assert_eq!(release(&journals).unwrap().undone.len(), 1);
        assert_eq!(read(&setting).unwrap(), "0");
        assert_eq!(journal_files(&journals), 0);
    }

    #[test]
    fn two_that_want_the_same_put_it_back_when_both_have_ended() {
        for first_ends_first in [true, false] {
            let (_folder, setting, journals) = settings();
            let mut first = Journal::new(&journals);
            let mut second = Journal::new(&journals);
            first.set(&setting, "1").unwrap();
            second.set(&setting, "1").unwrap();
            let (one, other) = match first_ends_first {
                true => (first, second),
                false => (second, first),
            };
            drop(one);
            assert_eq!(read(&setting).unwrap(), "1");
            drop(other);
            assert_eq!(read(&setting).unwrap(), "0");
            assert_eq!(journal_files(&journals), 0);
        }
    }

    #[test]
    fn what_is_kept_outlives_another_that_wanted_the_same() {
        let (_folder, setting, journals) = settings();
        let mut other = Journal::new(&journals);
        other.set(&setting, "1").unwrap();
        let mut kept = Journal::new(&journals);
        kept.set(&setting, "1").unwrap();
        kept.keep().unwrap();
        kill(other);
        recover(&journals).unwrap();
        assert_eq!(read(&setting).unwrap(), "1");
        release(&journals).unwrap();
        assert_eq!(read(&setting).unwrap(), "0");
    }

    #[test]
    fn what_is_kept_is_released_newest_first() {
        let (_folder, setting, journals) = settings();
        for value in ["1", "2", "3"] {
            let mut journal = Journal::new(&journals);
            journal.set(&setting, value).unwrap();
            journal.keep().unwrap();
            // Files are told apart by their time, which a kernel counts in ticks.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(release(&journals).unwrap().undone.len(), 3);
        assert_eq!(read(&setting).unwrap(), "0");
    }

    #[test]
    fn what_a_running_program_stands_upon_is_not_released_under_it() {
        let (_folder, setting, journals) = settings();
        let mut kept = Journal::new(&journals);
        kept.set(&setting, "1").unwrap();
        kept.keep().unwrap();
        let mut running = Journal::new(&journals);
        running.set(&setting, "2").unwrap();
        let released = release(&journals).unwrap();
        assert_eq!(released.failed.len(), 1);
        assert!(released.failed[0].1.contains("reveille"));
        assert_eq!(read(&setting).unwrap(), "2");
        drop(running);
        assert_eq!(read(&setting).unwrap(), "1");
        release(&journals).unwrap();
        assert_eq!(read(&setting).unwrap(), "0");
    }

    #[test]
    fn of_a_list_of_choices_the_chosen_one_is_put_back() {
        let (_folder, setting, journals) = settings();
        fs::write(&setting, "s2idle [deep]\n").unwrap();
        let mut journal = Journal::new(&journals);
        // A file is no kernel: it holds what was written, and not the list.
        journal.set(&setting, "s2idle").unwrap();
        assert_eq!(journal.restore().undone.len(), 1);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "deep");
        fs::write(&setting, "[a] [b]\n").unwrap();
        assert_eq!(read(&setting).unwrap(), "[a] [b]");
    }

    #[test]
    fn a_folder_that_was_made_is_taken_down_also_after_a_kill() {
        let (folder, _setting, journals) = settings();
        let made = folder.path().join("instance");
        let mut journal = Journal::new(&journals);
        journal.make_folder(&made).unwrap();
        assert!(made.is_dir());
        assert!(Journal::new(&journals).make_folder(&made).is_err());
        kill(journal);
        assert_eq!(recover(&journals).unwrap().undone.len(), 1);
        assert!(!made.exists());
        assert_eq!(journal_files(&journals), 0);
        // One that somebody else took down needs nothing.
        let mut journal = Journal::new(&journals);
        journal.make_folder(&made).unwrap();
        fs::remove_dir(&made).unwrap();
        assert!(journal.restore().failed.is_empty());
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

//! Settings that are changed temporarily and always restored.
//!
//! One file below [`FOLDER`] has a record of each changed setting: its original value, the value that
//! was written, and the claims on it, each of one process's [`Journal`]. To add or remove a claim a
//! process takes the file's lock and writes the value that the remaining claims resolve to; without
//! claims that is the original. So processes may end in any order, and in any way.
//!
//! [`Journal::restore`], or dropping the journal, removes its claims. After `kill -9` they are still
//! there: [`recover`] removes those of processes that have ended. [`Journal::keep`] keeps them after
//! the program's end, until [`release`].
//!
//! A setting with a value that no run wrote was changed by another program, and is left as it is:
//! restoring the original would undo that program's change.
//!
//! Only known settings are written ([`Journal::set`]), whatever the file holds. Records are valid for
//! one boot, which resets all settings; and a claim is judged only in its owner's PID namespace, where
//! the owner's PID is valid.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{Error, Result, Root, cpulist, pm_qos, timer_slack};

mod file;
mod kind;
mod live;
mod owner;
mod ownership;
mod settle;

use file::JournalFile;
use kind::{Kind, PRESENT};
use owner::Owner;
use ownership::{Claim, Record};
use settle::{Outcome, write_settings};

pub use live::{LiveBound, Slot};

/// Where the journal of the running machine is; empty after a boot, as the settings are.
pub const FOLDER: &str = "/run/reveille";

/// The longest wait for the lock: taking a hundred CPUs offline and back takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest wait at a command's start, which does not need the lock.
const PATIENCE_AT_START: Duration = Duration::from_millis(500);

/// One setting that was restored, or was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The setting's file as it was opened, root and all.
    pub path: PathBuf,
    /// The value before the first claim.
    pub before: String,
    /// What it was set to.
    pub set: String,
}

/// The result of removing claims.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Restored to `before`, without those that had that value already.
    pub undone: Vec<Change>,
    /// Had `before` again already: another program, or the kernel (a CPU that went off and on), undid what was set.
    pub gone: Vec<Change>,
    /// With another program's value, the present one. `before` is that too where the value may have been there
    /// before the first claim, which did not look ([`Journal::live_bounds`]).
    pub foreign: Vec<(Change, String)>,
    /// Not restored (such as an offline CPU's file), with the reason; still in the journal.
    pub failed: Vec<(Change, String)>,
    /// The number of settings with claims of another PID namespace, which are not touched.
    pub elsewhere: usize,
    /// Unusable content of the journal's file, as text.
    pub refused: Vec<String>,
}

impl Restored {
    /// Whether nothing was done or remains to be done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings that were not restored, a line each.
    pub fn complaints(&self) -> Vec<String> {
        let failed = self.failed.iter().map(|(change, why)| {
            let path = change.path.display();
            format!("{path} is not restored ({why}); `sudo reveille restore` tries again")
        });
        let refused = self.refused.iter().cloned();
        let foreign = self.foreign.iter().map(|(change, present)| {
            let path = change.path.display();
            let before = match change.before == *present {
                true => String::new(),
                false => format!(" (before it was {})", change.before),
            };
            format!("{path} has another program's value, {present}; left as it is{before}")
        });
        let gone = self.gone.iter().map(|change| {
            let path = change.path.display();
            let (set, before) = (&change.set, &change.before);
            format!("{path} was set to {set}, and something else has set it to {before} since")
        });
        failed.chain(refused).chain(gone).chain(foreign).collect()
    }
}

/// The changes of one part of this process.
#[derive(Debug)]
pub struct Journal {
    root: Root,
    folder: PathBuf,
    /// Among this process's journals.
    number: u32,
    has_claims: bool,
    /// The records with its claims, as they were last written: the file may be gone in the end.
    remembered: Vec<Record>,
    kept: bool,
}

impl Journal {
    /// A journal in `folder` ([`FOLDER`]) for the settings below `root`. Nothing is written before
    /// the first change.
    pub fn new(root: &Root, folder: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            root: root.clone(),
            folder: folder.to_owned(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            has_claims: false,
            remembered: Vec::new(),
            kept: false,
        }
    }

    /// Claims `value` for the setting at `path` below the root. Of a CPU's latency bound the tightest
    /// counts, the original included; of other settings the last claim. A setting that has
    /// that value already, and is not in the journal, is left alone.
    ///
    /// # Errors
    /// If the setting is unknown to the journal, cannot be read or written, or rejects the value, or if the
    /// journal cannot be written. The setting is then as before, or restored at the end.
    pub fn set(&mut self, path: &str, value: &str) -> Result<()> {
        self.set_all(&[(path.to_owned(), value.to_owned())])
    }

    /// As [`Journal::set`], of several settings in this order.
    ///
    /// # Errors
    /// As [`Journal::set`], of the first that fails; those after it are not changed.
    pub(crate) fn set_all(&mut self, changes: &[(String, String)]) -> Result<()> {
        let owner = Owner::this()?;
        let mut changes = changes.to_vec();
        for (path, value) in &mut changes {
            *path = format!("/{}", path.trim_start_matches('/'));
            // The setting's own error, before the journal's.
            self.read(path, value)?;
        }
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let mut claimed = Vec::new();
        let mut places = places(&file.records);
        for (path, value) in &changes {
            let claim = self.claim(&owner, value);
            let place = match places.get(path) {
                Some(&place) => {
                    let record = &mut file.records[place];
                    record.claims.push(claim);
                    record.settled = false;
                    place
                }
                None => {
                    let present = self.read(path, value)?;
                    let record = Record::of(path.clone(), present.clone(), claim);
                    if record.wanted() == Some(present) {
                        continue; // by another program
                    }
                    let place = file.records.len();
                    places.insert(path.clone(), place);
                    file.records.push(record);
                    place
                }
            };
            claimed.push(place);
        }
        self.has_claims |= !claimed.is_empty();
        let enforced = self.enforce(&mut file, &claimed, &owner);
        self.remember(&file, &owner);
        enforced
    }

    fn remember(&mut self, file: &JournalFile, owner: &Owner) {
        let mine = |claim: &Claim| claim.journal == self.number && claim.owner == *owner;
        let records = file.records.iter();
        self.remembered = records
            .filter(|record| record.claims.iter().any(mine))
            .cloned()
            .collect();
    }

    /// Writes the settings at these places, where this journal has just added its last claim.
    fn enforce(&self, file: &mut JournalFile, claimed: &[usize], owner: &Owner) -> Result<()> {
        let mine = |claim: &Claim| claim.journal == self.number && claim.owner == *owner;
        let mut failure = None;
        for (nth, outcome) in write_settings(&self.root, file, claimed, true)? {
            if let Outcome::Failed(error) = outcome {
                failure = Some((nth, error));
            }
        }
        if let Some((nth, error)) = failure {
            let failed = &claimed[nth..];
            for &place in failed {
                let claims = &mut file.records[place].claims;
                if let Some(last) = claims.iter().rposition(mine) {
                    claims.remove(last);
                }
                file.records[place].settled = false;
            }
            write_settings(&self.root, file, failed, false)?;
            file.close()?;
            return Err(error);
        }
        // This journal's earlier claims are replaced.
        for &place in claimed {
            let claims = &mut file.records[place].claims;
            let last = claims.iter().rposition(mine);
            let mut index = 0;
            claims.retain(|claim| {
                index += 1;
                !mine(claim) || last == Some(index - 1)
            });
        }
        let waiting = unsettled(&file.records);
        write_settings(&self.root, file, &waiting, false)?;
        file.close()
    }

    /// Creates a folder in a kernel file system (such as a tracing instance); removing it undoes everything
    /// in it.
    ///
    /// # Errors
    /// As [`Journal::set`], and if it exists.
    pub fn make_folder(&mut self, path: &str) -> Result<()> {
        let full = self.root.path(path);
        match full.symlink_metadata().is_ok() {
            true => Err(Error::at_setting(&full)(std::io::ErrorKind::AlreadyExists)),
            false => self.set(path, PRESENT),
        }
    }

    /// Claims a setting that this program switches on and off by itself, as often as it likes, and that is to be off in
    /// the end: what a card's clock puts out, a timer slack
    /// ([`crate::timer_slack::setting`]), a frozen cgroup ([`crate::freezer::setting`]).
    ///
    /// # Errors
    /// If the setting is unknown, or the journal cannot be written.
    pub fn will_switch_off(&mut self, path: &str) -> Result<()> {
        let owner = Owner::this()?;
        self.read(path, kind::ON)?;
        let path = format!("/{}", path.trim_start_matches('/'));
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let claim = self.claim(&owner, kind::ON);
        match places(&file.records).get(&path) {
            Some(&place) => file.records[place].claims.push(claim),
            None => file.records.push(Record {
                ours: vec![kind::ON.to_owned()],
                settled: true,
                ..Record::of(path, kind::OFF.to_owned(), claim)
            }),
        }
        // What is not recorded is not switched on either.
        file.save()?;
        self.has_claims = true;
        self.remember(&file, &owner);
        Ok(())
    }

    /// The process that has a claim on this setting; `None` without one.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn owner_of(&self, path: &str) -> Result<Option<u32>> {
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let path = format!("/{}", path.trim_start_matches('/'));
        let place = places(&file.records).get(&path).copied();
        let claim = place.and_then(|place| file.records[place].claims.first());
        Ok(claim.map(|claim| claim.owner.pid))
    }

    /// Takes these CPUs offline. The interrupts that only they took, which the kernel then sends
    /// elsewhere and leaves there, are restored with them.
    ///
    /// # Errors
    /// As [`Journal::set`], of the first that fails; those after it stay online.
    pub fn take_offline(&mut self, cpus: &[u32]) -> Result<()> {
        let owner = Owner::this()?;
        let changes: Vec<_> = cpus
            .iter()
            .map(|&cpu| (online(cpu), "0".to_owned()))
            .collect();
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let places = places(&file.records);
        for (path, cpus_taken) in interrupts(&self.root) {
            let taken = cpulist::parse(&cpus_taken).unwrap_or_default();
            if !taken.iter().any(|cpu| cpus.contains(cpu)) {
                continue;
            }
            let claim = self.claim(&owner, &cpus_taken);
            match places.get(&path) {
                Some(&place) => {
                    file.records[place].ours.clear();
                    file.records[place].claims.push(claim);
                }
                None => file.records.push(Record {
                    ours: Vec::new(),
                    // There is nothing to write: the kernel does.
                    settled: true,
                    ..Record::of(path, cpus_taken, claim)
                }),
            }
        }
        self.has_claims = true;
        file.save()?;
        drop(file);
        let taken = self.set_all(&changes);
        self.read_interrupts_back(&owner).and(taken)
    }

    /// Notes where the kernel sends the interrupts now, and forgets those that it did not move.
    fn read_interrupts_back(&mut self, owner: &Owner) -> Result<()> {
        let mut file = self.file()?;
        file.records.retain_mut(|record| {
            let mine = |claim: &Claim| claim.journal == self.number && claim.owner == *owner;
            if record.kind() != Kind::Interrupt || !record.claims.iter().any(mine) {
                return true;
            }
            match Kind::Interrupt.read(&self.root.path(&record.path)) {
                Ok(present) => {
                    if present == record.original {
                        record.claims.retain(|claim| !mine(claim));
                    }
                    record.ours = vec![present];
                }
                Err(_) => record.claims.retain(|claim| !mine(claim)),
            }
            !record.claims.is_empty()
        });
        self.remember(&file, owner);
        file.save()
    }

    /// Notes that the kernel may have moved the interrupts of this journal, since this CPU has gone offline or is about
    /// to: they are restored whatever they are then. Returns when the kernel has finished, for it would move those
    /// that are restored before.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn interrupts_may_have_moved(&mut self, cpu: u32) -> Result<()> {
        if !self.has_claims {
            return Ok(());
        }
        // Both hold the device's lock (drivers/base/core.c, online_show and online_store). It may be gone.
        let _ = self.root.text(&online(cpu));
        let owner = Owner::this()?;
        let mut file = self.file()?;
        for record in &mut file.records {
            let mine = |claim: &Claim| claim.journal == self.number && claim.owner == owner;
            if record.kind() == Kind::Interrupt && record.claims.iter().any(mine) {
                record.ours.clear();
            }
        }
        self.remember(&file, &owner);
        file.save()
    }

    /// Bounds of these CPUs that may be set at any time, each by a thread of its own. [`Journal::restore`]
    /// takes them back, and so does the next start of any command after `kill -9`.
    ///
    /// # Errors
    /// [`Error::Cannot`] where a CPU has no such setting, or this user may not write it; those of the
    /// journal.
    pub fn live_bounds(&mut self, cpus: &[u32]) -> Result<Vec<LiveBound>> {
        let owner = Owner::this()?;
        let settings = live::open(&self.root, cpus)?;
        let mut file = self.file()?;
        remove_ended(&mut file.records);
        let page = format!("{}{}-{}", live::PREFIX, owner.unique(), self.number);
        let page_file = file.new_page(&page)?;
        let bounds = live::bounds(&self.root, &self.folder, cpus, settings, &page_file);
        if bounds.is_err() {
            // Nobody has a claim in it.
            let _ = file.remove_pages();
        }
        let bounds = bounds?;
        let known = places(&file.records);
        for (index, &cpu) in cpus.iter().enumerate() {
            let mut claim = self.claim(&owner, live::NO_BOUND);
            let page = page.clone();
            claim.live = Some(live::Place { page, index });
            let path = pm_qos::file_of(cpu);
            match known.get(&path) {
                Some(&place) => {
                    file.records[place].claims.push(claim);
                    file.share(place);
                }
                None => file.records.push(Record {
                    settled: true,
                    ..Record::of(path, live::NO_BOUND.to_owned(), claim)
                }),
            }
        }
        self.has_claims = true;
        self.remember(&file, &owner);
        file.save()?;
        Ok(bounds)
    }

    /// Keeps the changes when this program ends, until [`release`] (or the next boot,
    /// which forgets both them and the journal).
    ///
    /// # Errors
    /// Where the journal cannot be written; then everything is restored.
    pub fn keep(mut self) -> Result<()> {
        let owner = Owner::this()?;
        let mut file = self.file()?;
        let claims = file
            .records
            .iter_mut()
            .flat_map(|record| &mut record.claims);
        for claim in claims {
            claim.kept |= claim.journal == self.number && claim.owner == owner;
        }
        file.save()?;
        self.kept = true;
        Ok(())
    }

    /// Removes all claims. What cannot be restored stays in the journal for the next time.
    pub fn restore(&mut self) -> Restored {
        if !self.has_claims {
            return Restored::default();
        }
        let number = self.number;
        let restored = Owner::this().and_then(|owner| {
            let mine = |claim: &Claim| claim.journal == number && claim.owner == owner;
            give_up(&self.root, &self.folder, PATIENCE, &self.remembered, mine)
        });
        match restored {
            Ok(restored) => {
                self.has_claims = false;
                self.remembered.clear();
                restored
            }
            Err(error) => Restored {
                refused: vec![error.to_string()],
                ..Restored::default()
            },
        }
    }

    /// The present value of a known setting that takes `value`.
    fn read(&self, path: &str, value: &str) -> Result<String> {
        let kind = match kind::of(path) {
            Some(kind) if kind.takes(value) => kind,
            Some(_) => return Err(Error::Usage(format!("{path} takes no {value:?}"))),
            None => {
                return Err(Error::Usage(format!("{path} is unknown to reveille")));
            }
        };
        let path = self.root.path(path);
        let present = kind.read(&path)?;
        match kind.takes(&present) {
            true => Ok(present),
            // It could not be restored.
            false => Err(Error::Content {
                path,
                expected: "a value of this setting",
                found: present,
            }),
        }
    }

    fn file(&self) -> Result<JournalFile> {
        let file = JournalFile::open(&self.folder, true, PATIENCE)?;
        Ok(file.expect("it is made where it is not there"))
    }

    fn claim(&self, owner: &Owner, value: &str) -> Claim {
        Claim {
            owner: owner.clone(),
            journal: self.number,
            value: value.to_owned(),
            kept: false,
            overtaken: false,
            live: None,
        }
    }
}

impl LiveBound {
    /// Sets the bound, µs (0: no sleep), or takes it back. A value that another program wrote stays; of
    /// several runs' claims the tightest counts.
    ///
    /// # Errors
    /// Where the setting cannot be read or written, or the journal is in use for long.
    pub fn set(&self, us: Option<u32>) -> Result<Slot> {
        if let Some(set) = self.set_alone(us) {
            return set;
        }
        let Some(mut file) = JournalFile::open(&self.folder, false, PATIENCE_AT_START)? else {
            return Ok(Slot::Ours);
        };
        remove_ended(&mut file.records);
        let path = pm_qos::file_of(self.cpu);
        let Some(&place) = places(&file.records).get(&path) else {
            return Ok(Slot::Ours);
        };
        let mut slot = Slot::Ours;
        let bound = us.unwrap_or(live::NONE);
        for (_, outcome) in write_settings(&self.root, &mut file, &[place], false)? {
            let record = &file.records[place];
            let is_anothers = record.has_only_live() && record.original != live::NO_BOUND;
            match outcome {
                Outcome::Failed(error) => return Err(error),
                Outcome::Foreign(present) => slot = Slot::of_anothers(&present, bound),
                Outcome::Done(value) | Outcome::Present(value) if is_anothers => {
                    slot = Slot::of_anothers(&value, bound);
                }
                Outcome::Done(_) | Outcome::Present(_) | Outcome::Later => {}
            }
        }
        file.close()?;
        Ok(slot)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.kept {
            self.restore();
        }
    }
}

/// Removes the claims of programs that have ended, except kept ones.
///
/// # Errors
/// If the journal is not trusted, cannot be read, or is in use for long.
pub fn recover(root: &Root, folder: &Path) -> Result<Restored> {
    let mut ended = EndedOwners::default();
    give_up(root, folder, PATIENCE_AT_START, &[], |claim| {
        ended.has_ended(claim)
    })
}

/// As [`recover`], and removes kept claims. With `all`, also those of another PID namespace (a
/// container's), which may be in use there.
///
/// # Errors
/// As [`recover`].
pub fn release(root: &Root, folder: &Path, all: bool) -> Result<Restored> {
    let mut ended = EndedOwners::default();
    give_up(root, folder, PATIENCE, &[], |claim| {
        match claim.owner.is_known_here() {
            true => claim.kept || ended.has_ended(claim),
            false => all,
        }
    })
}

/// Which owners have ended, each asked once.
#[derive(Default)]
struct EndedOwners(HashMap<Owner, bool>);

impl EndedOwners {
    /// Whether the claim's owner is known to have ended, and the claim is not kept.
    fn has_ended(&mut self, claim: &Claim) -> bool {
        if claim.kept {
            return false;
        }
        let owner = &claim.owner;
        let asked = self.0.get(owner).copied();
        asked.unwrap_or_else(|| {
            let has_ended = owner.is_known_here() && !owner.runs();
            self.0.insert(owner.clone(), has_ended);
            has_ended
        })
    }
}

/// Removes the claims of owners that have ended.
fn remove_ended(records: &mut [Record]) {
    let mut ended = EndedOwners::default();
    for record in records {
        let before = record.claims.len();
        record.claims.retain(|claim| !ended.has_ended(claim));
        record.settled &= record.claims.len() == before;
    }
}

/// Removes the claims that `is_over` selects, and writes what the others resolve to.
/// `remembered` are records that a running program knows to have had such claims: what the file has
/// lost of them since (such as by removal of the file) is restored from memory.
fn give_up(
    root: &Root,
    folder: &Path,
    patience: Duration,
    remembered: &[Record],
    mut is_over: impl FnMut(&Claim) -> bool,
) -> Result<Restored> {
    let mut restored = Restored::default();
    let mut is_usable = true;
    let make = !remembered.is_empty();
    let mut opened = JournalFile::open(folder, make, patience.min(PATIENCE_AT_START));
    if let Err(Error::Cannot(_)) = opened {
        restored.undone = thaw_left(root, folder, &mut is_over);
        opened = JournalFile::open(folder, make, patience);
    }
    let mut file = match opened {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(restored),
        Err(Error::Io { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied && remembered.is_empty() =>
        {
            return only_look(root, folder, is_over);
        }
        Err(error) if remembered.is_empty() => return Err(error),
        Err(error) => {
            is_usable = false;
            let memory = "this run restores its settings from memory";
            restored.refused.push(format!("{error}; {memory}"));
            JournalFile::in_memory()
        }
    };
    restored.refused.append(&mut file.refused);
    let mut given_up: HashMap<usize, Claim> = HashMap::new();
    // What may have been undone by others: its last write succeeded.
    let mut written = HashSet::new();
    for (place, record) in file.records.iter_mut().enumerate() {
        let is_visible = record.kind() != Kind::Slack || timer_slack::sees_all_threads(root);
        let Record { claims, ours, .. } = record;
        claims.retain(|claim| {
            let over = is_over(claim) && (is_visible || claim.owner.is_known_here());
            if over {
                if ours.iter().eq([&claim.value]) && claim.live.is_none() {
                    written.insert(place);
                }
                given_up.insert(place, claim.clone());
            }
            !over
        });
        record.settled &= !given_up.contains_key(&place);
    }
    let is_lost = |known: &&Record| {
        let mut found = given_up.keys().map(|&place| &file.records[place].path);
        !found.any(|path| *path == known.path)
    };
    let lost: Vec<Record> = remembered.iter().filter(is_lost).cloned().collect();
    if is_usable && !lost.is_empty() {
        restored.refused.push(format!(
            "{}: the record of {} is missing; this run restores it from memory",
            folder.display(),
            match &lost[..] {
                [one] => one.path.clone(),
                all => format!("{} settings", all.len()),
            }
        ));
    }
    for known in lost {
        add_lost(&mut file.records, known);
    }
    remove_ended(&mut file.records);
    let mut touched = unsettled(&file.records);
    // Newest first, as one may stand upon another.
    touched.sort_unstable_by_key(|&place| {
        let is_cpu = file.records[place].kind() == Kind::Online;
        (!is_cpu, std::cmp::Reverse(place))
    });
    for (nth, outcome) in write_settings(root, &mut file, &touched, false)? {
        let (place, record) = (touched[nth], &file.records[touched[nth]]);
        let claim = given_up.get(&place);
        let set = claim.map(|claim| &claim.value).or(record.ours.first());
        let change = Change {
            path: root.path(&record.path),
            before: record.original.clone(),
            set: set.cloned().unwrap_or_default(),
        };
        match outcome {
            Outcome::Failed(error) => restored.failed.push((change, error.to_string())),
            Outcome::Foreign(present) if record.claims.is_empty() => {
                let mut change = change;
                if claim.is_some_and(|claim| claim.live.is_some()) {
                    change.before.clone_from(&present);
                }
                restored.foreign.push((change, present));
            }
            Outcome::Done(present) | Outcome::Present(present)
                if claim.is_some_and(|claim| claim.overtaken) =>
            {
                restored.foreign.push((change, present));
            }
            Outcome::Done(_) if record.claims.is_empty() => restored.undone.push(change),
            // Where a device is gone, nothing is present.
            Outcome::Present(present)
                if record.claims.is_empty()
                    && written.contains(&place)
                    && record.kind().stays()
                    && present == change.before
                    && present != change.set =>
            {
                restored.gone.push(change);
            }
            Outcome::Foreign(_) | Outcome::Done(_) | Outcome::Present(_) | Outcome::Later => {}
        }
    }
    let is_elsewhere = |claim: &Claim| !claim.owner.is_known_here();
    let left = file.records.iter();
    restored.elsewhere = left
        .filter(|record| record.claims.iter().any(is_elsewhere))
        .count();
    if let Err(error) = file.close() {
        // It lists what is restored already: the next start finds that, and removes it.
        restored.refused.push(error.to_string());
    }
    Ok(restored)
}

/// Thaws, without the lock, the cgroups that only claims that are over have frozen: whoever has the lock may be in one.
fn thaw_left(root: &Root, folder: &Path, is_over: &mut impl FnMut(&Claim) -> bool) -> Vec<Change> {
    let mut thawed = Vec::new();
    for record in JournalFile::look(folder).unwrap_or_default() {
        if record.kind() == Kind::Frozen && record.claims.iter().all(&mut *is_over) {
            let path = root.path(&record.path);
            let is_frozen = record.kind().read(&path).is_ok_and(|now| now == kind::ON);
            // What fails is tried again, and told, with the lock.
            if record.kind().write(&path, kind::OFF).is_ok() && is_frozen {
                thawed.push(Change {
                    path,
                    before: record.original,
                    set: kind::ON.to_owned(),
                });
            }
        }
    }
    thawed
}

/// A record that the file has lost, without its claims. Who has claimed the setting since took our
/// value for the original.
fn add_lost(records: &mut Vec<Record>, known: Record) {
    match records.iter_mut().find(|record| record.path == known.path) {
        Some(record) if known.ours.contains(&record.original) => {
            record.original = known.original;
            record.settled = false;
        }
        Some(_) => {}
        None => records.push(Record {
            claims: Vec::new(),
            settled: false,
            ..known
        }),
    }
}

/// What there is to restore, for a user who may not change settings.
fn only_look(
    root: &Root,
    folder: &Path,
    mut is_over: impl FnMut(&Claim) -> bool,
) -> Result<Restored> {
    let mut restored = Restored::default();
    for record in JournalFile::look(folder)? {
        let present = record.kind().read(&root.path(&record.path));
        if present.is_ok_and(|present| present == record.original) {
            continue;
        }
        if let Some(claim) = record.claims.iter().find(|claim| is_over(claim)) {
            let change = Change {
                path: root.path(&record.path),
                before: record.original.clone(),
                set: claim.value.clone(),
            };
            restored.failed.push((change, "only root can".into()));
        }
    }
    Ok(restored)
}

/// The setting that takes a CPU offline.
fn online(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// The settings of all interrupts, and the CPUs that each may go to.
fn interrupts(root: &Root) -> Vec<(String, String)> {
    let setting = |number: String| {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        let cpus = kind::of(&path)?.read(&root.path(&path)).ok()?;
        Some((path, cpus))
    };
    let numbers = root.names("/proc/irq").unwrap_or_default();
    numbers.into_iter().filter_map(setting).collect()
}

/// Where a setting's record is.
fn places(records: &[Record]) -> HashMap<String, usize> {
    let named = records.iter().enumerate();
    named
        .map(|(place, record)| (record.path.clone(), place))
        .collect()
}

/// The records whose settings are still to be written: claims were removed since, or a process was
/// killed or failed while writing.
fn unsettled(records: &[Record]) -> Vec<usize> {
    let all = records.iter().enumerate();
    all.filter(|(_, record)| !record.settled)
        .map(|(place, _)| place)
        .collect()
}

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;

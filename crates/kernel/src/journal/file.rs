//! The journal's file: all changed settings, under one lock.
//!
//! It is refused unless only root can write to the folder and its files: root writes their values into the
//! kernel.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat, renameat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};

use super::live;
use super::ownership::Record;
use crate::{Error, Result};

const FILE: &str = "settings.json";
/// The next version, until it is complete.
const NEXT: &str = "settings.json.next";
/// An unreadable file that was found there.
const DAMAGED: &str = "settings.json.damaged";
const LOCK: &str = "settings.lock";

const NO_FILE: &str = "is not a file";

const VERSION: u32 = 1;
/// With live claims, which a program that does not know them would take for plain ones.
const VERSION_LIVE: u32 = 2;
/// A thousand CPUs of ten states each, and five claims on each, take some 12 MB.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// The boot that the settings are of (proc(5), /proc/sys/kernel/random/boot_id).
    boot: String,
    records: Vec<Record>,
}

/// The records, and the lock while this value lives.
pub(super) struct JournalFile {
    pub records: Vec<Record>,
    /// Unusable content, and what was done with it.
    pub refused: Vec<String>,
    /// The lock's drop unlocks, also where a process that is about to be started has a copy. `None`
    /// where the records are in memory only.
    place: Option<(Folder, Flock<File>)>,
}

impl JournalFile {
    /// Takes the lock and reads the records. `None` if there are no files, unless `make`, which creates the
    /// folder.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the folder or a file in it has another owner, type or mode, or another process
    /// holds the lock for longer than `patience`; [`Error::Io`].
    pub fn open(path: &Path, make: bool, patience: Duration) -> Result<Option<Self>> {
        let folder = match Folder::open(path)? {
            Some(folder) => folder,
            None if make => Folder::make(path)?,
            None => return Ok(None),
        };
        if !make && ![FILE, NEXT, LOCK].iter().any(|name| folder.holds(name)) {
            return Ok(None);
        }
        let lock = folder.lock(patience)?;
        let mut refused = Vec::new();
        let records = folder.read(&mut refused)?;
        Ok(Some(Self {
            records,
            refused,
            place: Some((folder, lock)),
        }))
    }

    /// No records, and no file to write them to.
    pub fn in_memory() -> Self {
        Self {
            records: Vec::new(),
            refused: Vec::new(),
            place: None,
        }
    }

    /// Reads the records without the lock, those of unknown settings left out.
    pub fn look(path: &Path) -> Result<Vec<Record>> {
        let Some(folder) = Folder::open(path)? else {
            return Ok(Vec::new());
        };
        match folder.page()? {
            Some(Ok(page)) if page.boot == boot()? => {
                Ok(page.records.into_iter().filter(Record::is_valid).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Drops the records of restored settings, and writes the others.
    ///
    /// Who has the only claim on a setting, a live one, writes it alone again.
    pub fn close(&mut self) -> Result<()> {
        self.records
            .retain(|record| !record.claims.is_empty() || !record.settled);
        let is_again_alone = |record: &Record| record.locked && record.settled && record.is_alone();
        for record in &mut self.records {
            if is_again_alone(record) {
                record.leave_alone();
            }
        }
        self.save()?;
        if let Some((folder, _)) = &self.place {
            // Afterwards: what the record said is in the page by now.
            for record in self.records.iter().filter(|record| is_again_alone(record)) {
                folder.numbers(record, |_, numbers| numbers.unshare());
            }
        }
        self.remove_pages()
    }

    /// Has the setting at this place, if it has live claims, written under the lock only, and reads what they want.
    pub fn share(&mut self, place: usize) {
        if let Some((folder, _)) = &self.place {
            folder.numbers(&self.records[place], |_, numbers| numbers.share());
            folder.read_live(&mut self.records[place]);
            self.records[place].locked = true;
        }
    }

    /// Notes for live claims whose value the setting at this place has.
    pub fn settled(&self, place: usize) {
        if let Some((folder, _)) = &self.place {
            let record = &self.records[place];
            let owned = record.owned_alone();
            folder.numbers(record, |_, numbers| numbers.owns(owned.as_deref()));
        }
    }

    /// Makes a file for the values of live claims.
    pub fn new_page(&self, name: &str) -> Result<File> {
        let (folder, _) = self.place.as_ref().expect("it is open on disk");
        folder.remove(name)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let page = folder.file(name, flags, 0o600)?;
        page.ok_or_else(|| gone(&folder.path.join(name)))
    }

    /// Removes the files of live claims that no longer exist.
    pub fn remove_pages(&self) -> Result<()> {
        let Some((folder, _)) = &self.place else {
            return Ok(());
        };
        let claims = self.records.iter().flat_map(|record| &record.claims);
        let used: Vec<_> = claims.filter_map(|claim| claim.live.as_ref()).collect();
        let entries = std::fs::read_dir(&folder.path).map_err(Error::at_setting(&folder.path))?;
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let is_used = || used.iter().any(|place| place.page == name);
            if name.starts_with(live::PREFIX) && !is_used() {
                folder.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Writes the records atomically, by a rename.
    pub fn save(&self) -> Result<()> {
        let Some((folder, _)) = &self.place else {
            return Ok(());
        };
        folder.remove(NEXT)?;
        if self.records.is_empty() {
            return folder.remove(FILE);
        }
        let mut records = self.records.clone();
        let mut version = VERSION;
        for record in &mut records {
            match record.claims.iter().any(|claim| claim.live.is_some()) {
                true => version = VERSION_LIVE,
                // The claims and their files are gone; the setting may still have their values.
                false => record.ours.append(&mut record.live),
            }
        }
        let page = Content {
            version,
            boot: boot()?,
            records,
        };
        let text = serde_json::to_vec(&page).expect("records are plain data");
        let written = folder.replace(&text);
        if written.is_err() {
            let _ = folder.remove(NEXT);
        }
        written
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        if let (Some((folder, _)), true) = (&self.place, self.records.is_empty()) {
            // While it is held: a process that waits for it finds the file missing.
            let _ = folder.remove(LOCK);
        }
    }
}

/// The folder, open and checked.
struct Folder {
    path: PathBuf,
    file: File,
}

impl Folder {
    fn open(path: &Path) -> Result<Option<Self>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = nix::fcntl::open(path, flags, Mode::empty());
        let file = match opened {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                return Err(refused(path, "is not a folder"));
            }
            Err(errno) => return Err(Error::at_setting(path)(errno)),
        };
        let about = fstat(&file).map_err(Error::at_setting(path))?;
        trust(path, &about)?;
        Ok(Some(Self {
            path: path.to_owned(),
            file,
        }))
    }

    fn make(path: &Path) -> Result<Self> {
        let mode = Mode::from_bits_truncate(0o755);
        match mkdirat(nix::fcntl::AT_FDCWD, path, mode) {
            Ok(()) => {
                let folder = Self::open(path)?.ok_or_else(|| gone(path))?;
                // Whatever the umask: other users connect to the socket in it.
                fchmod(&folder.file, mode).map_err(Error::at_setting(path))?;
                Ok(folder)
            }
            Err(Errno::EEXIST) => Self::open(path)?.ok_or_else(|| gone(path)),
            Err(errno) => Err(Error::at_setting(path)(errno)),
        }
    }

    fn error(&self, name: &str) -> impl FnOnce(Errno) -> Error {
        let path = self.path.join(name);
        move |errno| Error::at_setting(&path)(errno)
    }

    fn holds(&self, name: &str) -> bool {
        self.about(name).is_some()
    }

    fn about(&self, name: &str) -> Option<FileStat> {
        fstatat(&self.file, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    /// Opens a file in the folder and checks it, without waiting (for a FIFO); `None` if it is missing.
    fn file(&self, name: &str, flags: OFlag, mode: u32) -> Result<Option<File>> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let path = self.path.join(name);
        let opened = openat(&self.file, name, flags, Mode::from_bits_truncate(mode));
        let file = match opened {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => {
                return Err(refused(&path, NO_FILE));
            }
            Err(errno) => return Err(Error::at_setting(&path)(errno)),
        };
        let about = fstat(&file).map_err(self.error(name))?;
        if about.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(refused(&path, NO_FILE));
        }
        trust(&path, &about)?;
        Ok(Some(file))
    }

    /// Waits for the lock, which is released with the process that holds it.
    fn lock(&self, patience: Duration) -> Result<Flock<File>> {
        let end = Instant::now() + patience;
        loop {
            // A process that cannot open it cannot delay others.
            let flags = OFlag::O_RDWR | OFlag::O_CREAT;
            let file = self.file(LOCK, flags, 0o600)?;
            let file = file.ok_or_else(|| gone(&self.path.join(LOCK)))?;
            let about = fstat(&file).map_err(self.error(LOCK))?;
            if about.st_mode & 0o077 != 0 {
                return Err(refused(&self.path.join(LOCK), "is open to others"));
            }
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                // Between opening and locking, its holder may have removed it.
                Ok(lock) if self.about(LOCK).is_some_and(|it| it.st_ino == about.st_ino) => {
                    return Ok(lock);
                }
                Ok(_) => {}
                Err((_, Errno::EWOULDBLOCK)) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err((_, Errno::EWOULDBLOCK)) => {
                    let who = match holder(&about) {
                        Some(pid) => format!("process {pid}"),
                        None => "another reveille".into(),
                    };
                    return Err(Error::Cannot(format!(
                        "{}: {who} has been changing settings for more than {patience:?}; try \
                         again, or end it",
                        self.path.join(LOCK).display()
                    )));
                }
                Err((_, errno)) => return Err(self.error(LOCK)(errno)),
            }
        }
    }

    /// The content, or why it is invalid; `None` without a file.
    fn page(&self) -> Result<Option<std::result::Result<Content, String>>> {
        let Some(file) = self.file(FILE, OFlag::O_RDONLY, 0)? else {
            return Ok(None);
        };
        let path = self.path.join(FILE);
        let mut text = Vec::new();
        let mut limited = file.take(BYTES_MAX + 1);
        limited
            .read_to_end(&mut text)
            .map_err(Error::at_setting(&path))?;
        if text.len() as u64 > BYTES_MAX {
            return Ok(Some(Err("is too long".into())));
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let page = match serde_json::from_slice(&text) {
            Ok(Versioned {
                version: VERSION | VERSION_LIVE,
            }) => serde_json::from_slice(&text),
            Ok(Versioned { version }) => {
                return Err(Error::Cannot(format!(
                    "{}: written by another version of reveille (format {version}, this one reads \
                     {VERSION_LIVE}); run its `reveille restore`",
                    path.display()
                )));
            }
            Err(error) => Err(error),
        };
        Ok(Some(page.map_err(|error| error.to_string())))
    }

    /// The records of this boot. Unusable content is listed in `refused`; a damaged file is renamed, so that
    /// it is listed once.
    fn read(&self, refused: &mut Vec<String>) -> Result<Vec<Record>> {
        let path = self.path.join(FILE);
        let page = match self.page()? {
            None => return Ok(Vec::new()),
            Some(Ok(page)) => page,
            Some(Err(why)) => {
                match renameat(&self.file, FILE, &self.file, DAMAGED) {
                    Err(Errno::EISDIR) => {
                        return Err(self::refused(&self.path.join(DAMAGED), NO_FILE));
                    }
                    renamed => renamed.map_err(self.error(FILE))?,
                }
                refused.push(format!(
                    "{}: damaged ({why}); its settings are not restored; renamed to {DAMAGED}",
                    path.display()
                ));
                return Ok(Vec::new());
            }
        };
        if page.boot != boot()? {
            // A boot resets all settings.
            return Ok(Vec::new());
        }
        let (mut valid, others): (Vec<_>, Vec<_>) =
            page.records.into_iter().partition(Record::is_valid);
        valid.iter_mut().for_each(|record| self.read_live(record));
        refused.extend(others.iter().map(|record| {
            format!(
                "{}: unknown setting {:?}; ignored",
                path.display(),
                record.path
            )
        }));
        Ok(valid)
    }

    /// The numbers of live claims on the setting.
    fn numbers<T>(&self, record: &Record, mut of: impl FnMut(usize, live::Numbers<'_>) -> T) {
        for (nth, claim) in record.claims.iter().enumerate() {
            let Some(place) = &claim.live else { continue };
            if let Ok(Some(page)) = self.file(&place.page, OFlag::O_RDWR, 0) {
                let (page, index) = (&page, place.index);
                of(nth, live::Numbers { page, index });
            }
        }
    }

    /// Reads the present values of live claims.
    fn read_live(&self, record: &mut Record) {
        let mut read = Vec::new();
        self.numbers(record, |nth, numbers| {
            read.push((nth, numbers.wanted(), numbers.owned()));
        });
        // Those of a process that has ended since stay.
        for (nth, wanted, owned) in read {
            if let Some(wanted) = wanted {
                record.claims[nth].value = wanted;
            }
            record.live.extend(owned);
        }
        record.live.sort_unstable();
        record.live.dedup();
    }

    fn replace(&self, text: &[u8]) -> Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = self
            .file(NEXT, flags, 0o644)?
            .ok_or_else(|| gone(&self.path.join(NEXT)))?;
        file.write_all(text)
            .map_err(Error::at_setting(&self.path.join(NEXT)))?;
        // Whatever the umask: other users may read it.
        fchmod(&file, Mode::from_bits_truncate(0o644)).map_err(self.error(NEXT))?;
        renameat(&self.file, NEXT, &self.file, FILE).map_err(self.error(FILE))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(self.file.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(Errno::EISDIR) => Err(refused(&self.path.join(name), NO_FILE)),
            Err(errno) => Err(self.error(name)(errno)),
        }
    }
}

/// The process that holds the lock of that file, as far as the kernel reports it (proc_locks(5)).
fn holder(about: &FileStat) -> Option<i32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (libc::major(about.st_dev), libc::minor(about.st_dev));
    let file = format!("{major:02x}:{minor:02x}:{}", about.st_ino);
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_held = words.next() == Some("FLOCK");
        let pid = words.nth(2)?.parse().ok()?;
        // Of a process in another PID namespace the number is 0.
        (is_held && words.next() == Some(&file) && pid > 0).then_some(pid)
    })
}

/// Owned by root or this user, and writable by no other.
fn trust(path: &Path, about: &FileStat) -> Result<()> {
    if about.st_uid != 0 && about.st_uid != Uid::effective().as_raw() {
        return Err(refused(path, &format!("belongs to user {}", about.st_uid)));
    }
    if about.st_mode & 0o022 != 0 {
        let mode = about.st_mode & 0o7777;
        return Err(refused(
            path,
            &format!("has mode {mode:04o}, so that others may write it"),
        ));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Cannot(format!(
        "{}: {why}; it is not trusted. End every reveille that runs, look at it, remove it, and run \
         again",
        path.display()
    ))
}

fn gone(path: &Path) -> Error {
    Error::at_setting(path)(std::io::ErrorKind::NotFound)
}

fn boot() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = std::fs::read_to_string(path).map_err(Error::at_setting(path))?;
    Ok(id.trim().to_owned())
}

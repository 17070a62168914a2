//! The one place that makes output files.
//!
//! What this run did not make is not touched. A file is made in an opened [`Folder`], under an
//! unpredictable name that did not exist (`O_EXCL`), and renamed when it is whole; no link
//! is followed. [`Folder::give_up`] removes what this run made, and nothing else.
//!
//! Under sudo, files are made with the rights of the user behind it, and are that user's from the
//! beginning: planted links then lead only to where the user could write anyway. Where that user may
//! not write, root does.

mod file;
mod rights;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, fsync, linkat, unlinkat};

use crate::{Error, Result};
pub use file::OutputFile;
use rights::{Rights, Taken};
pub use walk::Naming;
use walk::{MadeFolder, NOFOLLOW, Walk, is_named, is_same, kind, refused};

/// What becomes of a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Stays,
    /// A regular file of the same owner is replaced. Anything else stays.
    IsReplaced,
}

/// An opened folder for output, with the rights that it is written with. When it is dropped, folders that
/// were made on the way to it are removed if nothing is in them.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    dir: OwnedFd,
    rights: Rights,
    made_folders: Vec<MadeFolder>,
    made_files: Mutex<Vec<(OsString, File)>>,
}

const NEW_FILE: OFlag = OFlag::O_CREAT
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_RDWR);

/// Less what the umask takes.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o666);

impl Folder {
    /// Opens the folder; if it is missing it is made, with those above it.
    ///
    /// # Errors
    /// [`Error::Refused`] if something else has its name, or if root would follow another user's link, or
    /// write by default to a folder that others may change; [`Error::Io`] if it cannot be made or written.
    pub fn make(path: &Path, naming: Naming) -> Result<Self> {
        with_rights(|rights| Self::find(path, naming, rights, true)?.writable())
    }

    /// Opens the folder, which must exist. Errors as [`Folder::make`].
    pub fn open(path: &Path, naming: Naming) -> Result<Self> {
        with_rights(|rights| Self::find(path, naming, rights, false)?.writable())
    }

    fn find(path: &Path, naming: Naming, rights: Rights, make: bool) -> Result<Self> {
        let _taken = rights.take().map_err(Error::at(path))?;
        // A file without a folder in its path is in the current one.
        let shown = match path == Path::new("") {
            true => Path::new("."),
            false => path,
        };
        let mut walk = Walk::new(shown, naming, rights.owner());
        let end = walk.reach_end(make);
        if end.is_err() {
            remove_empty(&walk.made);
        }
        Ok(Self {
            path: path.to_owned(),
            dir: end?,
            made_folders: walk.made,
            made_files: Mutex::default(),
            rights,
        })
    }

    fn writable(self) -> Result<Self> {
        {
            let _taken = self.take_rights(&self.path)?;
            let needed = AccessFlags::W_OK | AccessFlags::X_OK;
            faccessat(&self.dir, ".", needed, AtFlags::AT_EACCESS)
                .map_err(Error::at(&self.path))?;
        }
        Ok(self)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// [`Error::Refused`] if the name is taken: asked before the work, which would be in vain.
    pub fn refuse_taken(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.replaces(name.as_ref(), Existing::Stays).map(drop)
    }

    /// Does the folder hold anything of that name?
    pub fn holds(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        Ok(self.stat(name.as_ref())?.is_some())
    }

    /// Makes a file that grows under its own name; [`Error::Refused`] if the name is taken.
    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<File> {
        let (name, path) = (name.as_ref(), self.path.join(name.as_ref()));
        let _taken = self.take_rights(&path)?;
        let file = match openat(&self.dir, name, NEW_FILE, FILE_MODE) {
            Err(Errno::EEXIST) => return Err(refused(&path, TAKEN)),
            file => file.map_err(Error::at(&path))?,
        };
        let file = File::from(file);
        match file.try_clone() {
            Ok(copy) => self.remember(name, copy),
            // Nobody would know of it.
            Err(error) => {
                self.unlink(name, &file);
                return Err(Error::at(&path)(error));
            }
        }
        Ok(file)
    }

    /// Begins a file that has its name only when it is whole. It replaces one of that name that this run
    /// made; [`Error::Refused`] if the name is taken by what is not to be replaced.
    pub fn begin(&self, name: impl AsRef<OsStr>, existing: Existing) -> Result<Unfinished<'_>> {
        let name = name.as_ref();
        let path = self.path.join(name);
        let replaces = self.replaces(name, existing)?;
        let _taken = self.take_rights(&path)?;
        let (temporary, file) = loop {
            let temporary = temporary_name();
            match openat(&self.dir, temporary.as_str(), NEW_FILE, FILE_MODE) {
                Err(Errno::EEXIST) => {}
                file => break (temporary, file.map_err(Error::at(&path))?),
            }
        };
        Ok(Unfinished {
            folder: self,
            name: name.to_owned(),
            path,
            replaces,
            temporary: Some(temporary),
            file: file.into(),
        })
    }

    /// As [`Folder::begin`], for text that is there. If it cannot be written (a full disk) nothing is left.
    pub fn write(
        &self,
        name: impl AsRef<OsStr>,
        existing: Existing,
        text: &[u8],
    ) -> Result<PathBuf> {
        let mut unfinished = self.begin(name, existing)?;
        let written = io::Write::write_all(&mut unfinished.file, text);
        written.map_err(|error| unfinished.failed(error))?;
        unfinished.place()
    }

    /// A file without a name, opened with these flags besides; if the file system has none such, one whose
    /// name is removed at once.
    pub fn nameless(&self, flags: OFlag) -> io::Result<File> {
        let _taken = self.rights.take()?;
        let private = Mode::from_bits_truncate(0o600);
        let base = OFlag::O_RDWR | OFlag::O_CLOEXEC | flags;
        match openat(&self.dir, ".", base | OFlag::O_TMPFILE, private) {
            Err(Errno::EOPNOTSUPP | Errno::EISDIR) => {}
            file => return Ok(file?.into()),
        }
        let name = temporary_name();
        let file = openat(&self.dir, name.as_str(), NEW_FILE | flags, private)?;
        self.unlink(OsStr::new(&name), &file);
        Ok(file.into())
    }

    /// Removes a file that this run made. One that somebody else has put there stays.
    pub fn remove(&self, name: impl AsRef<OsStr>) {
        let name = name.as_ref();
        let mut files = self.made_files();
        files.retain(|(made, file)| {
            if made == name {
                self.unlink(name, file);
            }
            made != name
        });
    }

    /// Removes what this run made: the files, and then the folders if nothing is left in them.
    pub fn give_up(&self) {
        let names: Vec<OsString> = {
            let files = self.made_files();
            files.iter().map(|(name, _)| name.clone()).collect()
        };
        names.iter().for_each(|name| self.remove(name));
        self.remove_made_folders();
    }

    /// Waits until the folder's names are on the disk.
    pub fn sync(&self) -> Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let synced = {
            let _taken = self.take_rights(&self.path)?;
            openat(&self.dir, ".", flags, Mode::empty())
        };
        match synced.and_then(fsync) {
            // A folder that may be written and not read; some file systems cannot sync a folder.
            Err(Errno::EACCES | Errno::EINVAL) => Ok(()),
            other => other.map_err(Error::at(&self.path)),
        }
    }

    /// Does this with the rights that the folder is written with: to read back what is in it.
    pub(crate) fn with_its_rights<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _taken = self.take_rights(&self.path)?;
        work()
    }

    fn take_rights(&self, path: &Path) -> Result<Taken> {
        self.rights.take().map_err(Error::at(path))
    }

    /// What has that name, links not followed; `None` if nothing has.
    fn stat(&self, name: &OsStr) -> Result<Option<FileStat>> {
        self.stat_at(name, NOFOLLOW)
    }

    fn stat_at(&self, name: &OsStr, flags: AtFlags) -> Result<Option<FileStat>> {
        let path = self.path.join(name);
        let _taken = self.take_rights(&path)?;
        match fstatat(&self.dir, name, flags) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
            Err(error) => Err(Error::at(&path)(error)),
        }
    }

    /// Would a file of that name replace one?
    fn replaces(&self, name: &OsStr, existing: Existing) -> Result<bool> {
        let Some(stat) = self.stat(name)? else {
            return Ok(false);
        };
        let is_ours = || {
            let files = self.made_files();
            let is_it = |made: &File| fstat(made).is_ok_and(|made| is_same(&made, &stat));
            files.iter().any(|(made, file)| made == name && is_it(file))
        };
        let why = match kind(&stat) {
            SFlag::S_IFREG if is_ours() => return Ok(true),
            SFlag::S_IFREG if existing == Existing::Stays => TAKEN.to_owned(),
            SFlag::S_IFREG if stat.st_uid == self.rights.owner() => return Ok(true),
            SFlag::S_IFREG => format!(
                "belongs to user {} and is not replaced, for this run writes as user {}; choose another \
                 name",
                stat.st_uid,
                self.rights.owner()
            ),
            SFlag::S_IFLNK => {
                "is a symbolic link, which is not followed; choose another name".to_owned()
            }
            SFlag::S_IFDIR => "is a folder; choose another name".to_owned(),
            _ => "is not a regular file; choose another name".to_owned(),
        };
        Err(refused(&self.path.join(name), &why))
    }

    fn made_files(&self) -> MutexGuard<'_, Vec<(OsString, File)>> {
        self.made_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: &OsStr, file: File) {
        let mut files = self.made_files();
        files.retain(|(made, _)| made != name);
        files.push((name.to_owned(), file));
    }

    /// Takes the name away if it still is that file's. unlinkat(2) follows no link.
    fn unlink(&self, name: &OsStr, file: &impl AsFd) {
        let Ok(_taken) = self.rights.take() else {
            return;
        };
        if is_named(file, &self.dir, name) {
            let _ = unlinkat(&self.dir, name, UnlinkatFlags::NoRemoveDir);
        }
    }

    fn remove_made_folders(&self) {
        if let Ok(_taken) = self.rights.take() {
            remove_empty(&self.made_folders);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove_made_folders();
    }
}

fn remove_empty(folders: &[MadeFolder]) {
    folders.iter().rev().for_each(MadeFolder::remove_empty);
}

/// A file that has not got its name yet. Dropped without [`Unfinished::place`], it is removed.
#[derive(Debug)]
pub struct Unfinished<'a> {
    folder: &'a Folder,
    name: OsString,
    path: PathBuf,
    replaces: bool,
    temporary: Option<String>,
    /// To be written; what is written shows under the name once it is placed.
    pub file: File,
}

impl Unfinished<'_> {
    /// What went wrong with it, with the path that it was to have.
    pub fn failed(&self, source: io::Error) -> Error {
        Error::at(&self.path)(source)
    }

    /// Gives the file its name; returns the path. [`Error::Refused`] if the name has been taken meanwhile.
    pub fn place(mut self) -> Result<PathBuf> {
        let folder = self.folder;
        // Before it has the name: without a descriptor left it could not be removed.
        let file = self.file.try_clone().map_err(Error::at(&self.path))?;
        let _taken = folder.take_rights(&self.path)?;
        let temporary = self.temporary.as_deref().expect("it is placed once");
        let (dir, name) = (&folder.dir, self.name.as_os_str());
        let placed = match self.replaces {
            true => renameat(dir, temporary, dir, name),
            false => {
                let flags = RenameFlags::RENAME_NOREPLACE;
                match renameat2(dir, temporary, dir, name, flags) {
                    // NFS and others do not know the flag.
                    Err(Errno::EINVAL) => linkat(dir, temporary, dir, name, AtFlags::empty())
                        .and_then(|()| unlinkat(dir, temporary, UnlinkatFlags::NoRemoveDir)),
                    placed => placed,
                }
            }
        };
        match placed {
            Err(Errno::EEXIST | Errno::EISDIR | Errno::ENOTDIR) => {
                return Err(refused(&self.path, TAKEN));
            }
            placed => placed.map_err(Error::at(&self.path))?,
        }
        self.temporary = None;
        folder.remember(&self.name, file);
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            self.folder.unlink(OsStr::new(temporary), &self.file);
        }
    }
}

/// Does it with the first rights that suffice.
fn with_rights<T>(work: impl Fn(Rights) -> Result<T>) -> Result<T> {
    let mut choices = Rights::choices().into_iter().peekable();
    while let Some(rights) = choices.next() {
        match work(rights) {
            Err(error) if is_denied(&error) && choices.peek().is_some() => {}
            done => return done,
        }
    }
    unreachable!("there is a last choice")
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// An unpredictable name: the hasher's keys are the kernel's random bytes.
fn temporary_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!(".{random:016x}.unfinished")
}

const TAKEN: &str = "is there already; choose another place";

#[cfg(test)]
mod tests;

//! From a path to its folder, step by step: which links are followed, and where folders are made.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::{Error, Result};

/// Who chose the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The user named it, with `--out` or the like.
    ByUser,
    /// The program did. Root then writes only to folders that are root's, and not writable by others
    /// unless sticky.
    ByDefault,
}

pub(super) const NOFOLLOW: AtFlags = AtFlags::AT_SYMLINK_NOFOLLOW;

/// As many links as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Is it the opened file that has this name now? While a file is open its number (`st_ino`) is not
/// given to another one.
pub(super) fn is_named(opened: &impl AsFd, dir: &OwnedFd, name: &OsStr) -> bool {
    match (fstat(opened), fstatat(dir, name, NOFOLLOW)) {
        (Ok(opened), Ok(named)) => is_same(&opened, &named),
        _ => false,
    }
}

pub(super) fn is_same(a: &FileStat, b: &FileStat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

pub(super) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// A folder that this run made.
#[derive(Debug)]
pub(super) struct MadeFolder {
    above: OwnedFd,
    name: OsString,
    opened: OwnedFd,
}

impl MadeFolder {
    /// Removes it if it is empty and still the one that was made.
    pub(super) fn remove_empty(&self) {
        let name = self.name.as_os_str();
        if is_named(&self.opened, &self.above, name) {
            let _ = unlinkat(&self.above, name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// The way to a folder.
pub(super) struct Walk<'a> {
    /// As it was named, for messages.
    path: &'a Path,
    naming: Naming,
    /// Whose rights it is walked with; root's own are held back by no mode of a file.
    owner: u32,
    links: usize,
    pub(super) made: Vec<MadeFolder>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(path: &'a Path, naming: Naming, owner: u32) -> Self {
        Self {
            path,
            naming,
            owner,
            links: 0,
            made: Vec::new(),
        }
    }

    /// Opens the folder; with `make`, those that are missing are made.
    pub(super) fn reach_end(&mut self, make: bool) -> Result<OwnedFd> {
        let here = open(".", FOLDER, Mode::empty()).map_err(Error::at(Path::new(".")))?;
        let end = self.along(here, self.path, make)?;
        if self.made.is_empty() {
            self.refuse_untrusted(&end)?;
        }
        Ok(end)
    }

    fn along(&mut self, mut here: OwnedFd, path: &Path, make: bool) -> Result<OwnedFd> {
        let mut walked = PathBuf::new();
        for component in path.components() {
            walked.push(component);
            here = match component {
                Component::RootDir => open("/", FOLDER, Mode::empty()),
                Component::ParentDir => openat(&here, "..", FOLDER, Mode::empty()),
                Component::Normal(name) => Ok(self.step(here, name, &walked, make)?),
                Component::CurDir | Component::Prefix(_) => Ok(here),
            }
            .map_err(Error::at(&walked))?;
        }
        Ok(here)
    }

    fn step(&mut self, here: OwnedFd, name: &OsStr, walked: &Path, make: bool) -> Result<OwnedFd> {
        let wrong = || Error::at::<Errno>(walked);
        let found = match openat(&here, name, STEP, Mode::empty()) {
            Err(Errno::ENOENT) if make => return self.make(here, name, walked),
            found => found.map_err(wrong())?,
        };
        let stat = fstat(&found).map_err(wrong())?;
        match kind(&stat) {
            SFlag::S_IFDIR => Ok(found),
            SFlag::S_IFLNK => {
                self.links += 1;
                if self.links > LINKS_MAX {
                    return Err(wrong()(Errno::ELOOP));
                }
                if !self.follows(&here, &stat).map_err(wrong())? {
                    return Err(refused(walked, &foreign_link(stat.st_uid)));
                }
                let target = readlinkat(&found, "").map_err(wrong())?;
                let end = self.along(here, Path::new(&target), false);
                end.map_err(|error| through_link(error, walked, Path::new(&target)))
            }
            _ => Err(refused(walked, NO_FOLDER)),
        }
    }

    fn make(&mut self, here: OwnedFd, name: &OsStr, walked: &Path) -> Result<OwnedFd> {
        if self.made.is_empty() {
            self.refuse_untrusted(&here)?;
        }
        let wrong = || Error::at::<Errno>(walked);
        match mkdirat(&here, name, Mode::from_bits_truncate(0o777)) {
            // Another process was faster: it is one that was there.
            Err(Errno::EEXIST) => return self.step(here, name, walked, false),
            made => made.map_err(wrong())?,
        }
        let made = openat(&here, name, STEP | OFlag::O_DIRECTORY, Mode::empty());
        let made = made.map_err(wrong())?;
        self.made.push(MadeFolder {
            above: here,
            name: name.to_owned(),
            opened: made.try_clone().map_err(Error::at(walked))?,
        });
        Ok(made)
    }

    /// May the link's owner decide where this leads? Root follows root's links alone;
    /// others follow those in sticky folders that all may write only where they are their own or the
    /// folder's owner's, as the kernel does (fs.protected_symlinks, proc(5)).
    fn follows(&self, folder: &OwnedFd, link: &FileStat) -> nix::Result<bool> {
        if link.st_uid == self.owner {
            return Ok(true);
        }
        if self.owner == 0 {
            return Ok(false);
        }
        let folder = fstat(folder)?;
        let mode = Mode::from_bits_truncate(folder.st_mode);
        let is_shared = mode.contains(Mode::S_ISVTX | Mode::S_IWOTH);
        Ok(!is_shared || folder.st_uid == link.st_uid)
    }

    /// A user who may rename or link in a folder decides what becomes of root's files there. That
    /// is for the user to decide, who does so by naming the folder.
    fn refuse_untrusted(&self, folder: &OwnedFd) -> Result<()> {
        if self.owner != 0 || self.naming == Naming::ByUser {
            return Ok(());
        }
        let stat = fstat(folder).map_err(Error::at(self.path))?;
        let mode = Mode::from_bits_truncate(stat.st_mode);
        let is_open = mode.intersects(Mode::S_IWGRP | Mode::S_IWOTH);
        let why = match stat.st_uid {
            0 if !is_open || mode.contains(Mode::S_ISVTX) => return Ok(()),
            0 => "may be written by others".to_owned(),
            uid => format!("belongs to user {uid}"),
        };
        Err(refused(
            self.path,
            &format!(
                "root writes into a folder that {why} only if you name it: give --out (-o for a report)"
            ),
        ))
    }
}

const NO_FOLDER: &str = "is not a folder; choose another place";

/// An error behind a link, reported for the link: the user named that and not its target.
fn through_link(error: Error, link: &Path, target: &Path) -> Error {
    match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            let target = target.display();
            let why = format!("is a symbolic link to {target}, which does not exist");
            Error::at(link)(io::Error::new(ErrorKind::NotFound, why))
        }
        Error::Io { source, .. } => Error::at(link)(source),
        Error::Refused { why, .. } if why == NO_FOLDER => refused(link, NO_FOLDER),
        other => other,
    }
}

/// Why a link is not followed.
pub(super) fn foreign_link(uid: u32) -> String {
    format!("is a symbolic link of user {uid}, which is not followed; name what it leads to")
}

/// A place, and no right to read what is there.
const FOLDER: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);
const STEP: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

pub(super) fn refused(path: &Path, why: &str) -> Error {
    Error::Refused {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

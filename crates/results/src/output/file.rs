//! A single file that the user names for output: a regular one, or a device or FIFO there is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{AccessFlags, faccessat};

use super::rights::Rights;
use super::walk::{Naming, refused};
use super::walk::{foreign_link, is_same, kind};
use super::{Existing, Folder, with_rights};
use crate::{Error, Result};

/// How long the reader of a FIFO may be late: both ends are started together.
const READER_WITHIN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Where a single file of output goes.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    existing: Existing,
    to: To,
}

#[derive(Debug)]
enum To {
    StandardOutput,
    /// A character device or a FIFO, which is written as it is.
    Stream(Folder, OsString),
    Regular(Folder, OsString),
}

impl OutputFile {
    /// Finds out where the file goes; nothing is made. `-` is standard output, and so is a link that leads
    /// there (`/dev/stdout`).
    ///
    /// # Errors
    /// [`Error::Refused`] if the name is taken by what is not to be replaced: a symbolic link, a folder, a
    /// block device, a socket, another user's file, or, as `existing` says, any file; [`Error::Io`] if its
    /// folder is missing or not writable.
    pub fn find(path: &Path, existing: Existing, naming: Naming) -> Result<Self> {
        let to = match path == Path::new("-") {
            true => To::StandardOutput,
            false => with_rights(|rights| To::find(path, existing, naming, rights))?,
        };
        Ok(Self {
            path: path.to_owned(),
            existing,
            to,
        })
    }

    /// Where it is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Is it standard output, and no file?
    pub fn is_standard_output(&self) -> bool {
        matches!(self.to, To::StandardOutput)
    }

    /// The regular file that would be replaced, to be read.
    pub fn replaced(&self) -> Result<Option<File>> {
        let To::Regular(folder, name) = &self.to else {
            return Ok(None);
        };
        let _taken = folder.take_rights(&self.path)?;
        // It may have become a FIFO meanwhile.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&folder.dir, name.as_os_str(), flags, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(Error::at(&self.path)(error)),
        }
    }

    /// Hands a file to `write`; only a whole one gets the name. Not for standard output. Errors are those of
    /// `write`; [`Error::Refused`] if the name has been taken meanwhile; [`Error::Io`] if a FIFO has no reader.
    pub fn write<E: From<crate::Error>>(
        &self,
        write: impl FnOnce(&mut File) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match &self.to {
            To::StandardOutput => unreachable!("standard output is the caller's"),
            To::Stream(folder, name) => write(&mut open_stream(folder, name, &self.path)?),
            To::Regular(folder, name) => {
                let mut unfinished = folder.begin(name, self.existing)?;
                write(&mut unfinished.file)?;
                unfinished.place()?;
                Ok(())
            }
        }
    }
}

impl To {
    fn find(path: &Path, existing: Existing, naming: Naming, rights: Rights) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(refused(path, "is a folder; name a file in it"));
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let folder = Folder::find(parent, naming, rights, false)?;
        let there = folder.stat(name)?;
        let is_link = there.is_some_and(|stat| kind(&stat) == SFlag::S_IFLNK);
        let end = match is_link {
            true => folder.stat_at(name, AtFlags::empty())?,
            false => there,
        };
        if is_link && end.is_some_and(|end| is_standard_output(&end)) {
            return Ok(Self::StandardOutput);
        }
        let stream = end.filter(|end| matches!(kind(end), SFlag::S_IFCHR | SFlag::S_IFIFO));
        // By default a name is a regular file's: a planted FIFO must not block the program.
        let (Some(stream), Some(there), Naming::ByUser) = (stream, there, naming) else {
            folder.replaces(name, existing)?;
            return Ok(Self::Regular(folder.writable()?, name.to_owned()));
        };
        if folder.rights.owner() == 0 {
            if there.st_uid != 0 && is_link {
                return Err(refused(path, &foreign_link(there.st_uid)));
            }
            if stream.st_uid != 0 && kind(&stream) == SFlag::S_IFIFO {
                let why = format!("is a FIFO of user {}; choose another name", stream.st_uid);
                return Err(refused(path, &why));
            }
        }
        {
            let _taken = folder.take_rights(path)?;
            faccessat(&folder.dir, name, AccessFlags::W_OK, AtFlags::AT_EACCESS)
                .map_err(Error::at(path))?;
        }
        Ok(Self::Stream(folder, name.to_owned()))
    }
}

fn is_standard_output(stat: &FileStat) -> bool {
    fstat(io::stdout().as_fd()).is_ok_and(|ours| is_same(&ours, stat))
}

/// Opens a device or a FIFO without making, emptying or waiting for one.
fn open_stream(folder: &Folder, name: &OsStr, path: &Path) -> Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let end = Instant::now() + READER_WITHIN;
    // A device answers ENXIO where there is none behind it (/dev/tty without a terminal).
    let is_fifo = || {
        let stat = folder.stat_at(name, AtFlags::empty()).ok().flatten();
        stat.is_some_and(|stat| kind(&stat) == SFlag::S_IFIFO)
    };
    let opened = loop {
        let opened = {
            let _taken = folder.take_rights(path)?;
            openat(&folder.dir, name, flags, Mode::empty())
        };
        match opened {
            Err(Errno::ENXIO) if is_fifo() && Instant::now() < end => std::thread::sleep(LOOK),
            Err(Errno::ENXIO) if is_fifo() => {
                let nobody = io::Error::other("this FIFO has no reader; start the reader first");
                return Err(Error::at(path)(nobody));
            }
            opened => break opened.map_err(Error::at(path))?,
        }
    };
    let stat = fstat(&opened).map_err(Error::at(path))?;
    if !matches!(kind(&stat), SFlag::S_IFCHR | SFlag::S_IFIFO) {
        return Err(refused(
            path,
            "has been replaced meanwhile; choose another name",
        ));
    }
    fcntl(&opened, FcntlArg::F_SETFL(OFlag::empty())).map_err(Error::at(path))?;
    Ok(opened.into())
}

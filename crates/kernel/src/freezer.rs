//! Stopping the tasks of a cgroup, and letting them go on.
//!
//! Freezing wakes each task once, and so does thawing: it pays for tasks that run, not for ones that sleep.
//! Source: Documentation/admin-guide/cgroup-v2.rst, `cgroup.freeze`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::workload::folder_of;
use crate::{Error, Result, Root};

/// The journal's name of the setting that the cgroup with this number is frozen.
pub fn setting(number: u64) -> String {
    format!("/sys/fs/cgroup/frozen@{number}")
}

/// A cgroup that is frozen and thawed: this one, and none that is made under its name later.
#[derive(Debug)]
pub struct Freezer(File, PathBuf);

impl Freezer {
    /// Of the cgroup of this folder, with its number.
    ///
    /// # Errors
    /// If the setting cannot be opened.
    pub fn of(folder: &Path) -> Result<(Self, u64)> {
        let file = folder.join(SETTING);
        // Not fs::write, which creates a missing file.
        let opened = fs::OpenOptions::new().write(true).open(&file);
        let opened = opened.map_err(Error::at_setting(&file))?;
        let number = fs::metadata(folder).map_err(Error::at(folder))?.ino();
        Ok((Self(opened, file), number))
    }

    /// Freezes the cgroup, or thaws it; false if it was removed. The kernel carries it out meanwhile.
    ///
    /// # Errors
    /// If the setting cannot be written.
    pub fn set(&self, frozen: bool) -> Result<bool> {
        let value: &[u8] = if frozen { b"1" } else { b"0" };
        match (&self.0).write_all(value) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(false),
            Err(error) => Err(Error::at_setting(&self.1)(error)),
        }
    }
}

/// Whether the cgroup itself is to be frozen, whatever those above it are.
///
/// # Errors
/// If the setting cannot be read.
pub fn is_set(folder: &Path) -> Result<bool> {
    let file = folder.join(SETTING);
    let text = fs::read_to_string(&file).map_err(Error::at_setting(&file))?;
    Ok(text.trim() == "1")
}

const SETTING: &str = "cgroup.freeze";

pub(crate) fn is_frozen(number: u64) -> Result<bool> {
    let folder = folder_of(&Root::default(), number)?;
    folder.map_or(Ok(false), |folder| is_set(&folder))
}

pub(crate) fn thaw(number: u64) -> Result<()> {
    match folder_of(&Root::default(), number)? {
        Some(folder) => Freezer::of(&folder)?.0.set(false).map(|_| ()),
        None => Ok(()),
    }
}

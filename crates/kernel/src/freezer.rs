//! Stopping the tasks of a cgroup, and letting them go on.
//!
//! Freezing wakes each task once, and so does thawing: it pays for tasks that run, not for ones that sleep.
//! Source: Documentation/admin-guide/cgroup-v2.rst, `cgroup.freeze`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::workload::{cgroup2, folders};
use crate::{Error, Result, Root};

/// The journal's name of the setting that the cgroup with this number is frozen.
pub fn setting(number: u64) -> String {
    format!("/sys/fs/cgroup/frozen@{number}")
}

/// Freezes the cgroup, or thaws it. The kernel carries it out meanwhile.
///
/// # Errors
/// If the setting cannot be written.
pub fn set(folder: &Path, frozen: bool) -> Result<()> {
    let file = folder.join(SETTING);
    // Not fs::write, which creates a missing file.
    let opened = fs::OpenOptions::new().write(true).open(&file);
    let value: &[u8] = if frozen { b"1" } else { b"0" };
    let written = opened.and_then(|mut open| std::io::Write::write_all(&mut open, value));
    written.map_err(Error::at_setting(&file))
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

/// The folder of the cgroup with this number, which is its inode's.
fn folder_of(number: u64) -> Option<PathBuf> {
    let all = folders(&cgroup2(&Root::default())?).into_iter();
    let mut found = all.filter(|folder| fs::metadata(folder).is_ok_and(|at| at.ino() == number));
    found.next()
}

pub(crate) fn is_frozen(number: u64) -> Result<bool> {
    folder_of(number).map_or(Ok(false), |folder| is_set(&folder))
}

pub(crate) fn thaw(number: u64) -> Result<()> {
    folder_of(number).map_or(Ok(()), |folder| set(&folder, false))
}

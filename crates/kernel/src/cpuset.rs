//! The CPUs that the tasks of a cgroup may use.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst, `cpuset.cpus`.

use std::fs;
use std::path::Path;

use crate::workload::folder_of;
use crate::{Error, Result, Root};

const SETTING: &str = "cpuset.cpus";

/// The journal's name of the setting, of the cgroup with this number: a list of CPUs, or nothing for those of the cgroup
/// above. The kernel does not take nothing back while tasks are in the cgroup (ENOSPC; seen with 6.1 and 6.12).
pub fn setting(number: u64) -> String {
    format!("/sys/fs/cgroup/cpuset@{number}")
}

/// The list of the cgroup of this folder; `None` without one: the cgroup above must have enabled the controller.
pub fn of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(SETTING)).ok()?;
    Some(text.trim_end().to_owned())
}

/// Of the list the CPUs that the kernel lets the tasks use.
pub fn effective(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("cpuset.cpus.effective")).ok()?;
    Some(text.trim_end().to_owned())
}

/// Is the cgroup a partition, whose CPUs no other cgroup may use?
pub fn is_partition(folder: &Path) -> bool {
    let kind = fs::read_to_string(folder.join("cpuset.cpus.partition"));
    kind.is_ok_and(|kind| kind.trim_end() != "member")
}

/// Whether there is no such cgroup any more, or none that has a list.
pub(crate) fn is_gone(number: u64) -> bool {
    let folder = folder_of(&Root::default(), number);
    folder.is_ok_and(|folder| folder.is_none_or(|folder| !folder.join(SETTING).exists()))
}

pub(crate) fn read(number: u64) -> Result<String> {
    let file = file(number)?;
    let text = fs::read_to_string(&file).map_err(Error::at_setting(&file))?;
    Ok(text.trim_end().to_owned())
}

pub(crate) fn write(number: u64, list: &str) -> Result<()> {
    let file = file(number)?;
    // Not fs::write, which creates a missing file.
    let opened = fs::OpenOptions::new().write(true).open(&file);
    // An empty write does not reach the kernel.
    let written = opened
        .and_then(|mut open| std::io::Write::write_all(&mut open, format!("{list}\n").as_bytes()));
    written.map_err(Error::at_setting(&file))
}

fn file(number: u64) -> Result<std::path::PathBuf> {
    let folder = folder_of(&Root::default(), number)?
        .ok_or_else(|| Error::Failed(format!("the cgroup with the number {number} was removed")))?;
    Ok(folder.join(SETTING))
}

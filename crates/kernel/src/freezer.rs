//! Stopping the tasks of a cgroup, and letting them go on.
//!
//! Freezing wakes each task once, and so does thawing: it pays for tasks that run, not for ones that sleep.
//! Source: Documentation/admin-guide/cgroup-v2.rst, `cgroup.freeze`.
//!
//! The file does not tell who froze a cgroup. So each freezing and thawing is also written into an extended attribute of the
//! cgroup, which is there as long as it is ours to freeze: a run that was killed while the cgroup ran has not frozen it,
//! and whoever did later meant it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;

use crate::workload::folder_of;
use crate::{Error, Result, Root};

/// The journal's name of the setting that the cgroup with this number is frozen.
pub fn setting(number: u64) -> String {
    format!("/sys/fs/cgroup/frozen@{number}")
}

/// A cgroup that is frozen and thawed: this one, and none that is made under its name later.
#[derive(Debug)]
pub struct Freezer {
    file: File,
    path: PathBuf,
    mark: Mark,
}

/// Whether we froze a cgroup or thawed it last; where the kernel keeps no attribute of a cgroup, nothing is known.
#[derive(Debug)]
struct Mark(File);

impl Mark {
    /// Only root reads and writes it.
    const NAME: &CStr = c"trusted.reveille.frozen";

    fn of(folder: &Path) -> Result<Self> {
        File::open(folder).map(Self).map_err(Error::at(folder))
    }

    fn set(&self, frozen: bool) {
        let value: &[u8] = if frozen { b"1" } else { b"0" };
        // SAFETY: an open file, a name that ends with 0, and as many bytes as are named.
        unsafe {
            libc::fsetxattr(
                self.0.as_raw_fd(),
                Self::NAME.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        };
    }

    fn remove(&self) {
        // SAFETY: as in `set`.
        unsafe { libc::fremovexattr(self.0.as_raw_fd(), Self::NAME.as_ptr()) };
    }

    fn is_thawed(&self) -> bool {
        let mut value = [0_u8];
        // SAFETY: as in `set`; the kernel writes no more than is named.
        let length = unsafe {
            libc::fgetxattr(
                self.0.as_raw_fd(),
                Self::NAME.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        };
        length == 1 && value == *b"0"
    }
}

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
        let freezer = Self {
            file: opened,
            path: file,
            mark: Mark::of(folder)?,
        };
        Ok((freezer, number))
    }

    /// The cgroup runs, and is ours to freeze from now on. After the claim in the journal: by that a killed run's mark
    /// is found.
    pub fn begin(&self) {
        self.mark.set(false);
    }

    /// Freezes the cgroup, or thaws it; false if it was removed. The kernel carries it out meanwhile.
    ///
    /// # Errors
    /// If the setting cannot be written.
    pub fn set(&self, frozen: bool) -> Result<bool> {
        let value: &[u8] = if frozen { b"1" } else { b"0" };
        // Before it is frozen and after it was thawed: what a killed run has frozen is thawed in any case.
        if frozen {
            self.mark.set(true);
        }
        let written = (&self.file).write_all(value);
        if !frozen && written.is_ok() {
            self.mark.set(false);
        }
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(false),
            Err(error) => Err(Error::at_setting(&self.path)(error)),
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.mark.remove();
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

/// Whether we have frozen the cgroup with this number.
pub(crate) fn is_frozen(number: u64) -> Result<bool> {
    match folder_of(&Root::default(), number)? {
        Some(folder) => Ok(is_set(&folder)? && !Mark::of(&folder)?.is_thawed()),
        None => Ok(false),
    }
}

/// Thaws the cgroup with this number, if we have frozen it.
pub(crate) fn thaw(number: u64) -> Result<()> {
    let Some(folder) = folder_of(&Root::default(), number)? else {
        return Ok(());
    };
    let is_ours = is_frozen(number)?;
    // Its end removes the mark.
    let (freezer, _) = Freezer::of(&folder)?;
    if is_ours {
        freezer.set(false)?;
    }
    Ok(())
}

/// Removes the mark of a killed run from the cgroup with this number.
pub(crate) fn unmark(number: u64) {
    if let Ok(Some(folder)) = folder_of(&Root::default(), number)
        && let Ok(mark) = Mark::of(&folder)
    {
        mark.remove();
    }
}

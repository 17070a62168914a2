//! The file descriptors that the engine and its applications take.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use reveille_expect::server::DESCRIPTORS_OF_A_CLIENT;

use crate::{Error, Result};

/// Besides one for each CPU: programs, their links, tables; some 40, by /proc/self/fd.
const ENGINE: u64 = 100;

/// Open for a moment: files of /sys and /proc, and what libraries open.
const BRIEFLY_OPEN: u64 = 64;

/// With the engine's on a machine of so many CPUs.
fn needed(cpus: u32) -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    open + u64::from(cpus) + ENGINE
}

/// The soft and the hard limit.
fn limits() -> Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| Error::System {
        what: "reading the limit of open files",
        source: errno.into(),
    })
}

/// Checks the limit of open files: without this check the error would not name it.
pub(super) fn check(cpus: u32) -> Result<()> {
    let ((limit, _), needed) = (limits()?, needed(cpus));
    match needed <= limit {
        true => Ok(()),
        false => Err(Error::Cannot(format!(
            "the engine needs {needed} open files on a machine of {cpus} CPUs, and this process may \
             open {limit}: raise the limit with `ulimit -n {needed}`"
        ))),
    }
}

/// Raises the limit of file descriptors, if it is too low for an engine with that many applications.
///
/// # Errors
/// [`Error::Cannot`] if this user may not have as many.
pub fn provide(applications: u32) -> Result<()> {
    let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten();
    let cpus = cpus.unwrap_or(1) as u32;
    let of_applications = u64::from(applications) * u64::from(DESCRIPTORS_OF_A_CLIENT);
    let needed = needed(cpus) + of_applications + BRIEFLY_OPEN;
    let (soft, hard) = limits()?;
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(());
    }
    Err(Error::Cannot(format!(
        "{applications} applications on {cpus} CPUs may take {needed} file descriptors, and this \
         process may have {hard}: raise that limit (ulimit -Hn; LimitNOFILE= of a service) or lower \
         --clients"
    )))
}

//! File descriptors: a process may have so many by default (often 1,024), and more if it asks.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::exit::Failure;

/// Open for a moment only: files of /sys and /proc, and what libraries open.
const BESIDES: u64 = 64;

/// Raises the limit, where that is needed, so that so many descriptors more fit beside those that
/// are open. Programs that this one starts inherit it.
///
/// # Errors
/// Where this user may not have so many: what takes them, and what to do.
pub fn provide(more: u64, what: &str) -> anyhow::Result<()> {
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let needed = open + more + BESIDES;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(());
    }
    Err(Failure::cannot(format!(
        "{what} may take {needed} file descriptors, and this process may have {hard}: raise that \
         limit (ulimit -Hn; LimitNOFILE= of a service) or lower --clients"
    )))
}

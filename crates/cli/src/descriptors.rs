//! File descriptors: a process may have so many by default (often 1,024), and more if it asks.

#[cfg(feature = "bpf")]
use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[cfg(feature = "bpf")]
use crate::exit::Failure;

/// As many as anything here takes: `cost --stacks` keeps a file open for each that a waker has mapped.
const MANY: u64 = 65_536;

/// Raises the limit to what this process may have. A command gets the former one back
/// ([`reveille_kernel::Inherited`]).
pub fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Who needs more reports what is missing.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(MANY)), hard);
    }
}

/// Open for a moment only: files of /sys and /proc, and what libraries open.
#[cfg(feature = "bpf")]
const BESIDES: u64 = 64;

/// Raises the limit, where that is needed, so that so many descriptors more fit beside those that
/// are open.
///
/// # Errors
/// Where this user may not have so many: what takes them, and what to do.
#[cfg(feature = "bpf")]
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

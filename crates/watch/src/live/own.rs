//! The cost of watching.

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// This process's use so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    pub cpu_s: f64,
    /// Voluntary context switches: how often it slept.
    pub sleeps: u64,
}

impl Spent {
    /// `None` if the kernel does not report it.
    pub fn so_far() -> Option<Self> {
        let cpu = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        Some(Self {
            cpu_s: cpu.tv_sec() as f64 + cpu.tv_nsec() as f64 / 1e9,
            sleeps: usage.voluntary_context_switches().try_into().ok()?,
        })
    }
}

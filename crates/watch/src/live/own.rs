//! What watching itself costs.

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// This process so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    pub cpu_s: f64,
    /// How often it slept and was woken: its voluntary context switches.
    pub sleeps: u64,
}

impl Spent {
    /// `None` where the kernel does not tell.
    pub fn so_far() -> Option<Self> {
        let cpu = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        Some(Self {
            cpu_s: cpu.tv_sec() as f64 + cpu.tv_nsec() as f64 / 1e9,
            sleeps: usage.voluntary_context_switches().try_into().ok()?,
        })
    }
}

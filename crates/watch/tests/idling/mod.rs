//! How idle a CPU was: tests of sleep need an idle CPU.

use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use reveille_kernel::{Root, load};

/// A CPU that is idle for this share of the time, %, gives the tests many times what they need: a few
/// in a hundred of the sleeps that they cause.
pub const ENOUGH: f64 = 20.0;

pub struct Idling {
    cpu: u32,
    begun: Instant,
    before_s: f64,
}

impl Idling {
    pub fn of(cpu: u32) -> Self {
        Self {
            cpu,
            begun: Instant::now(),
            before_s: idle_s(cpu),
        }
    }

    /// The idle share of the time since.
    pub fn percent(&self) -> f64 {
        let idle_s = idle_s(self.cpu) - self.before_s;
        idle_s / self.begun.elapsed().as_secs_f64() * 100.0
    }

    /// The message that the CPU was too busy to sleep.
    ///
    /// # Panics
    /// If it was idle for long enough, so that the expected events should have come.
    pub fn too_busy(&self, looked_for: &str) -> String {
        let (cpu, percent) = (self.cpu, self.percent());
        assert!(
            percent < ENOUGH,
            "{looked_for}, though CPU {cpu} was idle for {percent:.0}% of the time"
        );
        format!("{looked_for}: CPU {cpu} was idle for {percent:.0}% of the time")
    }
}

/// Idle time since boot; /proc/stat counts ticks of 10 ms.
fn idle_s(cpu: u32) -> f64 {
    load::idle_ticks(&Root::default()).unwrap()[&cpu] as f64 / 100.0
}

/// Of the CPUs that this thread may use.
pub fn last_cpu() -> u32 {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut cpus = (0..CpuSet::count()).rev();
    let last = cpus.find(|cpu| allowed.is_set(*cpu) == Ok(true));
    last.expect("it runs on one") as u32
}

//! How idle a CPU was: what a test sees of a CPU's sleep, it cannot see of a busy one.

use std::time::Instant;

use reveille_machine::{Root, load};

/// Of a CPU that is idle for so much of the time, %, the tests see many times what they need: a few
/// in a hundred of the sleeps that they bring about.
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

    /// In words that the CPU was too busy to sleep.
    ///
    /// # Panics
    /// Where it was idle for enough of the time since: what was looked for had to be there.
    pub fn too_busy(&self, looked_for: &str) -> String {
        let (cpu, percent) = (self.cpu, self.percent());
        assert!(
            percent < ENOUGH,
            "{looked_for}, though CPU {cpu} was idle for {percent:.0} % of the time"
        );
        format!("{looked_for}: CPU {cpu} was idle for {percent:.0} % of the time")
    }
}

/// Since boot; /proc/stat counts ticks of 10 ms.
fn idle_s(cpu: u32) -> f64 {
    load::idle_ticks(&Root::default()).unwrap()[&cpu] as f64 / 100.0
}

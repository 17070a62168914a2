//! The machine's load: a test cannot observe sleeping CPUs if none sleeps.

use std::collections::BTreeMap;
use std::time::Instant;

use reveille_kernel::{Root, load};

/// The start of the observation.
pub struct Load {
    begun: Instant,
    idle: BTreeMap<u32, u64>,
}

impl Load {
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            idle: load::idle_ticks(&Root::default()).unwrap(),
        }
    }

    /// Why no CPU could be seen asleep: none was idle for half of the time since. `None` if one
    /// was.
    pub fn busy(&self) -> Option<String> {
        let cpus = self.idle.keys();
        let most = cpus.map(|cpu| self.idle_percent(*cpu)).fold(0.0, f64::max);
        (most < 50.0).then(|| format!("the idlest CPU was idle for {most:.0}% of the time"))
    }

    /// The CPU's idle share of the time since.
    pub fn idle_percent(&self, cpu: u32) -> f64 {
        let now = load::idle_ticks(&Root::default()).unwrap();
        // One that is offline now was idle for no time that is known.
        let now = now.get(&cpu).copied().unwrap_or_default();
        let idled = now.saturating_sub(self.idle[&cpu]);
        // Ticks of 10 ms.
        idled as f64 / self.begun.elapsed().as_secs_f64()
    }
}

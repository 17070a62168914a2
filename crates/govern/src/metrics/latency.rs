//! Wake latencies as a histogram: only if the rules ask for them, because counting costs at each wake-up.

use std::collections::BTreeMap;

use reveille_kernel::{Idle, Root};
use reveille_watch::live::{Histogram, WakeLatencies};

use reveille_show::exposition::{Exposition, Kind};

/// From 1 µs to 17 ms, in powers of two: 2^10 to 2^24 ns.
const LIMITS: std::ops::RangeInclusive<u32> = 10..=24;

/// The count, from the first scrape at which it is wanted to the first one at which it is not.
#[derive(Default)]
pub enum Latency {
    /// Not wanted.
    #[default]
    Off,
    /// The programs count.
    On(WakeLatencies),
    /// It cannot be done here.
    Cannot,
}

impl Latency {
    /// Begins or ends; `say` gets a line if it cannot be done.
    pub fn switch(&mut self, wanted: bool, root: &Root, say: &dyn Fn(&str)) {
        match (wanted, &self) {
            (false, _) => *self = Self::Off,
            (true, Self::Off) => match WakeLatencies::start(root) {
                Ok(counting) => *self = Self::On(counting),
                Err(error) => {
                    say(&format!("metrics: wake latencies are not counted: {error}"));
                    *self = Self::Cannot;
                }
            },
            _ => {}
        }
    }

    /// Adds what was counted.
    pub fn write(&mut self, idle: &Idle, to: &mut Exposition) {
        if let Self::On(counting) = self {
            write(counting.read(idle), to);
        }
    }
}

/// Adds histograms by the state's name.
pub fn write(states: &BTreeMap<String, Histogram>, to: &mut Exposition) {
    let mut family = to.family(
        Kind::Histogram,
        "reveille_wake_latency_seconds",
        "From the expiry of the timer that woke a CPU until the CPU was awake.",
    );
    for (state, latencies) in states {
        let limits = LIMITS.map(|power| 1_u64 << power);
        let below = limits.map(|ns| (ns as f64 / 1e9, latencies.below_ns(ns)));
        let all = (latencies.sum_ns as f64 / 1e9, latencies.count());
        family.histogram(("state", state), below, all);
    }
}

//! The processor's counters (perf's cstate and msr PMUs), opened for each CPU so that the BPF
//! programs read them on that CPU: a read from another one would wake it.

use std::os::fd::OwnedFd;

use reveille_kernel::counters::{self, Counter, Scope};
use reveille_kernel::{Idle, Root};

/// The counters of this machine.
#[derive(Default)]
pub struct Hardware {
    pub counters: Vec<Counter>,
    /// CPU, index in `counters`, event.
    pub events: Vec<(u32, usize, OwnedFd)>,
}

impl Hardware {
    /// Opens the counters that the machine has and this user may open; none if there is only a TSC.
    pub fn open(root: &Root, idle: &Idle, most: usize) -> Self {
        let mut counters = counters::discover(root);
        counters.truncate(most);
        if counters.iter().all(|counter| counter.column == "tsc") {
            return Self::default();
        }
        let mut events = Vec::new();
        for cpu in idle.cpus.iter().filter(|cpu| cpu.online) {
            for (place, counter) in counters.iter().enumerate() {
                let here =
                    counter.counted_on.is_empty() || counter.counted_on.contains(&cpu.number);
                if here && let Ok(event) = counter.open(cpu.number) {
                    events.push((cpu.number, place, event));
                }
            }
        }
        match events.is_empty() {
            true => Self::default(),
            false => Self { counters, events },
        }
    }
}

/// The name of a residency counter's state, such as `CC6` or `PC2`; `None` for other counters.
pub fn state_name(counter: &Counter) -> Option<String> {
    Some(counter.column.strip_suffix("_percent")?.to_uppercase())
}

/// Whether a counter's share is shown for CPUs and cores; a package's is shown only for packages and
/// the machine.
pub fn is_for_cpus(counter: &Counter) -> bool {
    matches!(counter.scope, Scope::Cpu | Scope::Core)
}

//! How long the CPUs slept together, as far as counters tell, and what else ran.
//!
//! cpuidle counts each CPU's sleep apart. All slept together at most as long as the one that slept least, and at
//! least for what is left when the times awake of all do not overlap.

use std::collections::BTreeMap;

use reveille_kernel::asleep::{Cpus, Readings};
use reveille_kernel::{Idle, Root, load};
use reveille_trial::residency::{self, PackageStates};

/// The counters of a machine.
pub struct Watch {
    root: Root,
    cpus: Cpus,
    packages: PackageStates,
    /// A state's name, and the file of a CPU's entries.
    entries: Vec<(String, String)>,
}

/// The counters at one instant.
pub struct Reading {
    slept: Readings,
    packages: residency::Reading,
    entries: Vec<Option<u64>>,
    idle_ticks: Option<BTreeMap<u32, u64>>,
}

/// What happened between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// s.
    pub elapsed_s: f64,
    /// Entries to each idle state, all CPUs together.
    pub entries: BTreeMap<String, u64>,
    /// All CPUs slept at once at least and at most so long, per cent of the time; `None` if that is not counted.
    pub joint_percent: Option<(f64, f64)>,
    /// The packages' own sleep, a mean over packages; `None` without such counters.
    pub package_percent: Option<f64>,
    /// CPU time of others on CPUs that were to be idle, in CPUs; `None` if unknown.
    pub others: Option<f64>,
}

impl Watch {
    /// Of the CPUs that are online.
    pub fn new(root: &Root, idle: &Idle) -> Self {
        let online = idle.cpus.iter().filter(|cpu| cpu.online);
        let entries = online.flat_map(|cpu| {
            let number = cpu.number;
            cpu.states.iter().map(move |state| {
                let folder = format!("sys/devices/system/cpu/cpu{number}/cpuidle");
                (
                    state.name.clone(),
                    format!("{folder}/state{}/usage", state.index),
                )
            })
        });
        let entries = entries.collect();
        Self {
            root: root.clone(),
            cpus: Cpus::online(root, idle),
            packages: PackageStates::open(root),
            entries,
        }
    }

    /// The CPUs that are watched.
    pub fn cpus(&self) -> &[u32] {
        self.cpus.numbers()
    }

    /// Reads all, after a visit to every CPU: a stay is counted when it ends.
    pub fn read(&self) -> Reading {
        Reading {
            slept: self.cpus.read(),
            packages: self.packages.read(),
            entries: self
                .entries
                .iter()
                .map(|(_, file)| self.root.number(file))
                .collect(),
            idle_ticks: load::idle_ticks(&self.root),
        }
    }

    /// What happened between two readings while the CPUs of `busy` were kept busy.
    pub fn between(&self, before: &Reading, after: &Reading, busy: &[u32]) -> Between {
        let elapsed_s = after.slept.elapsed_s(&before.slept);
        let packages = self.packages.between(&before.packages, &after.packages);
        let mut entries: BTreeMap<String, u64> = BTreeMap::new();
        let counted = before.entries.iter().zip(&after.entries);
        for ((name, _), (before, after)) in self.entries.iter().zip(counted) {
            let more = before
                .zip(*after)
                .and_then(|(before, after)| after.checked_sub(before));
            *entries.entry(name.clone()).or_default() += more.unwrap_or(0);
        }
        Between {
            elapsed_s,
            entries,
            joint_percent: after.slept.together_percent(&before.slept),
            package_percent: (!packages.is_empty()).then(|| {
                packages
                    .iter()
                    .map(|one| one.percent)
                    .sum::<f64>()
                    .min(100.0)
            }),
            others: (before.idle_ticks.as_ref().zip(after.idle_ticks.as_ref()))
                .and_then(|(before, after)| others(before, after, busy, elapsed_s)),
        }
    }
}

/// By the idle ticks of each CPU.
fn others(
    before: &BTreeMap<u32, u64>,
    after: &BTreeMap<u32, u64>,
    busy: &[u32],
    elapsed_s: f64,
) -> Option<f64> {
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let idle_cpus = before.iter().filter(|(cpu, _)| !busy.contains(cpu));
    idle_cpus
        .map(|(cpu, ticks)| {
            let idle = after.get(cpu)?.checked_sub(*ticks)? as f64 / per_s as f64;
            Some((1.0 - idle / elapsed_s).max(0.0))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_is_that_of_cpus_that_were_to_be_idle() {
        let ticks = |ticks: [u64; 3]| (0..).zip(ticks).collect();
        let (before, after) = (ticks([0, 0, 0]), ticks([0, 150, 190]));
        let of = |busy: &[u32]| others(&before, &after, busy, 2.0).unwrap();
        assert!((of(&[0]) - 0.3).abs() < 1e-9, "a quarter and a twentieth");
        assert!((of(&[0, 1]) - 0.05).abs() < 1e-9);
    }
}

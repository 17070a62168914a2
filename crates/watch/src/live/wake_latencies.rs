//! Wake latencies alone, added up by idle state for who reads them now and then.

use std::collections::BTreeMap;

use reveille_kernel::{Idle, Root};

use crate::live::latencies::Latencies;
use crate::live::seen::Seen;
use crate::{Result, lower_edge};

/// Counts how long CPUs take to wake, from the expiry of the timer that wakes them, as the live view does. The
/// BPF programs add up events that happen anyway, and send nothing. Dropping it removes them.
pub struct WakeLatencies {
    /// What the programs have of a CPU.
    seen: Box<dyn Fn(u32) -> Seen>,
    /// Of each CPU's states, as last read: the programs' counts of 32 bits go from their end to zero.
    last: BTreeMap<(u32, usize), Latencies>,
    states: BTreeMap<String, Histogram>,
}

/// Wake latencies since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Their sum, ns.
    pub sum_ns: u64,
    /// How many there are in each bucket of the programs.
    buckets: Vec<u64>,
}

impl Histogram {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many are below a power of two, ns; the last bucket (134 ms) has all that are longer.
    pub fn below_ns(&self, limit_ns: u64) -> u64 {
        let buckets = self.buckets.iter().enumerate();
        let below = buckets.filter(|(bucket, _)| lower_edge(bucket + 1) <= limit_ns);
        below.map(|(_, count)| count).sum()
    }

    /// Adds what a CPU counted since the last time.
    fn add(&mut self, now: &Latencies, last: &Latencies) {
        self.sum_ns += now.sum_ns.saturating_sub(last.sum_ns);
        let length = self.buckets.len().max(now.buckets.len());
        self.buckets.resize(length, 0);
        for (bucket, (sum, now)) in self.buckets.iter_mut().zip(&now.buckets).enumerate() {
            let last = last.buckets.get(bucket).copied().unwrap_or(0);
            *sum += u64::from(now.wrapping_sub(last));
        }
    }
}

impl WakeLatencies {
    /// Starts counting on the running machine.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] where the kernel lacks what is needed or this user the right, or where this
    /// program was built without BPF.
    #[cfg(feature = "bpf")]
    pub fn start(root: &Root) -> Result<Self> {
        use crate::live::{kernel, programs};
        let idle = Idle::read(root)?;
        let kernel = kernel::Kernel::load(&kernel::Setup {
            cpus: programs::possible_cpus(root, &idle),
            polling_states: idle.polling_states(),
            symbols: None,
            counters: 0,
            wakers: false,
            joints: None,
            events: &[],
        })?;
        Ok(Self::of(move |cpu| kernel.seen(cpu)))
    }

    /// Cannot.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`].
    #[cfg(not(feature = "bpf"))]
    pub fn start(_: &Root) -> Result<Self> {
        let without = reveille_kernel::BUILT_WITHOUT_BPF;
        Err(crate::Error::Cannot(without.into()))
    }

    #[cfg_attr(not(feature = "bpf"), allow(dead_code))]
    fn of(seen: impl Fn(u32) -> Seen + 'static) -> Self {
        Self {
            seen: Box::new(seen),
            last: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    /// The latencies so far, by the state's name. Those of a state that `idle` does not name wait until it
    /// does: of a CPU that is offline, say.
    pub fn read(&mut self, idle: &Idle) -> &BTreeMap<String, Histogram> {
        for cpu in &idle.cpus {
            let seen = (self.seen)(cpu.number);
            for state in &cpu.states {
                let index = state.index as usize;
                let Some(now) = seen.states.get(index).map(|state| &state.latencies) else {
                    continue;
                };
                if now.count == 0 {
                    continue;
                }
                let last = self.last.insert((cpu.number, index), now.clone());
                let sum = self.states.entry(state.name.clone()).or_default();
                sum.add(now, &last.unwrap_or_default());
            }
        }
        &self.states
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::live::seen::SeenState;

    /// Latencies of 1024 to 1151 ns and of 5000 ns.
    fn latencies(short: u32, long: u32) -> Latencies {
        let mut buckets = vec![0; 200];
        (buckets[64], buckets[81]) = (short, long);
        let (short, long) = (u64::from(short), u64::from(long));
        Latencies {
            count: short + long,
            sum_ns: short * 1100 + long * 5000,
            max_ns: 5000,
            buckets,
        }
    }

    #[test]
    fn cpus_are_added_and_counts_of_32_bits_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = folder.path().join("sys/devices/system/cpu");
        for number in 0..2 {
            let state = cpu.join(format!("cpu{number}/cpuidle/state0"));
            std::fs::create_dir_all(&state).unwrap();
            std::fs::write(state.join("name"), "C6").unwrap();
        }
        std::fs::write(cpu.join("present"), "0-1").unwrap();
        std::fs::write(cpu.join("online"), "0-1").unwrap();
        let idle = Idle::read(&Root::at(folder.path())).unwrap();
        let now = Rc::new(RefCell::new([latencies(u32::MAX, 0), latencies(1, 2)]));
        let seen = now.clone();
        let mut watch = WakeLatencies::of(move |cpu| Seen {
            states: vec![SeenState {
                latencies: seen.borrow()[cpu as usize].clone(),
                ..SeenState::default()
            }],
            ..Seen::default()
        });
        let all = u64::from(u32::MAX);
        let first = watch.read(&idle)["C6"].clone();
        assert_eq!(first.count(), all + 3);
        assert_eq!(first.below_ns(1024), 0);
        assert_eq!(first.below_ns(2048), all + 1);
        assert_eq!(first.below_ns(8192), all + 3);
        // Four more, over the end of 32 bits.
        let mut wrapped = latencies(3, 0);
        wrapped.count = all + 4;
        wrapped.sum_ns = (all + 4) * 1100;
        now.borrow_mut()[0] = wrapped;
        let second = &watch.read(&idle)["C6"];
        assert_eq!(second.count(), all + 7);
        assert_eq!(second.sum_ns - first.sum_ns, 4400);
        assert_eq!(watch.read(&idle)["C6"].count(), all + 7, "nothing new");
    }
}

//! From a BPF event to a datapoint: corrections and shares.

use reveille_kernel::IdleState;
use reveille_results::{Datapoint, First, Source, WokenBy};

use crate::kernel::types::{self, vector};

/// Turns a counter's delta into a share of the period.
#[derive(Debug, Clone, Copy)]
pub struct Residency {
    /// Index of the counter among those read.
    pub counter: usize,
    /// Index of the TSC counter, the whole of the share.
    pub cycles: usize,
}

/// The constants of a run's datapoints.
#[derive(Debug)]
pub struct Conversion {
    pub cpu: u32,
    pub source: Source,
    /// CLOCK_MONOTONIC at the start of the run, ns.
    pub started_ns: u64,
    /// Subtracted from every latency, ns.
    pub overhead_ns: i64,
    /// cpuidle's indices and names; empty without cpuidle.
    pub states: Vec<(i32, String)>,
    /// For each column of the result; `None` if this source's probes do not read it.
    pub residencies: Vec<Option<Residency>>,
    pub smi_counter: Option<usize>,
    /// The kernel has nmi:nmi_handler.
    pub counts_nmis: bool,
}

impl Conversion {
    /// Names of the idle states by the index in power:cpu_idle.
    pub fn state_names(states: &[IdleState]) -> Vec<(i32, String)> {
        states
            .iter()
            .map(|state| (state.index as i32, state.name.clone()))
            .collect()
    }

    fn state_name(&self, index: i32) -> Option<String> {
        if index < 0 {
            return Some(reveille_results::schema::AWAKE.into());
        }
        if self.states.is_empty() {
            // cpu_idle_poll() of the kernel's idle loop traces 0, default_idle_call() 1.
            // Other numbers are a driver's whose table is hidden: one name would merge its states.
            return match index {
                0 => Some("POLL".into()),
                1 => Some(reveille_results::schema::DEFAULT_IDLE.into()),
                _ => None,
            };
        }
        let state = self.states.iter().find(|(i, _)| *i == index);
        state.map(|(_, name)| name.clone())
    }

    pub fn datapoint(&self, event: &types::event) -> Datapoint {
        let since_launch = |time: u64| time as i64 - event.launch as i64 - self.overhead_ns;
        let after_idle = (event.tai != 0).then(|| since_launch(event.tai));
        let interrupt = (event.tintr != 0).then(|| since_launch(event.tintr));
        let (wake_latency_ns, first) = match (after_idle, interrupt) {
            (Some(after), Some(interrupt)) if after < interrupt => (after, First::AfterIdle),
            (_, Some(interrupt)) => (interrupt, First::Interrupt),
            (Some(after), None) => (after, First::AfterIdle),
            (None, None) => unreachable!("the BPF program drops launches without a wake-up"),
        };
        Datapoint {
            time_ns: event.launch as i64 - self.started_ns as i64,
            cpu: self.cpu,
            source: self.source,
            woken_by: match (event.by_flag, event.vector) {
                (1, _) | (_, vector::VECTOR_NONE) => WokenBy::Flag,
                _ => WokenBy::Interrupt,
            },
            requested_state_index: Some(event.state),
            requested_state: self.state_name(event.state),
            launch_distance_ns: event.launch as i64 - event.armed_at as i64,
            launch_error_ns: (event.launch_error != 0).then_some(event.launch_error as i64),
            launch_clock: (event.launch_error != 0).then_some(event.launch_clock as i64),
            silent_time_ns: (event.tbi != 0).then(|| event.launch as i64 - event.tbi as i64),
            wake_latency_ns,
            interrupt_latency_ns: interrupt,
            first,
            smi_count: self.smi_counter.and_then(|index| smis(event, index)),
            nmi_count: self.counts_nmis.then_some(event.nmis.into()),
            interrupt_count: Some(event.interrupts.into()),
            softirq_count: Some(event.softirqs.into()),
            round: None,
            residency_percent: self
                .residencies
                .iter()
                .map(|one| one.map_or(f32::NAN, |residency| share(event, residency)))
                .collect(),
        }
    }
}

fn delta(event: &types::event, counter: usize) -> u64 {
    let counted = &event.counters[counter];
    counted.after.wrapping_sub(counted.before)
}

/// SMIs between TBI and TAI; `None` if the datapoint has no TAI (the counter's second value is then
/// an older one) or the counter cannot be read on this CPU.
fn smis(event: &types::event, counter: usize) -> Option<u32> {
    let readable = event.counters[counter].after != UNREADABLE;
    (event.tai != 0 && readable).then(|| delta(event, counter) as u32)
}

/// COUNTER_UNREADABLE of `intf.h`; BTF carries no macros.
const UNREADABLE: u64 = u64::MAX;

/// Per cent of the cycles between TBI and TAI; NaN if the datapoint has no TAI or the counter cannot
/// be read on this CPU.
fn share(event: &types::event, residency: Residency) -> f32 {
    let cycles = delta(event, residency.cycles);
    let readable = event.counters[residency.counter].after != UNREADABLE;
    if event.tai == 0 || cycles == 0 || !readable {
        return f32::NAN;
    }
    (100.0 * delta(event, residency.counter) as f64 / cycles as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversion() -> Conversion {
        Conversion {
            cpu: 1,
            source: Source::Timer,
            started_ns: 1_000,
            overhead_ns: 30,
            states: vec![(0, "POLL".into()), (2, "C6".into())],
            residencies: vec![Some(Residency {
                counter: 0,
                cycles: 1,
            })],
            smi_counter: None,
            counts_nmis: true,
        }
    }

    fn event() -> types::event {
        types::event {
            launch: 50_000,
            armed_at: 20_000,
            tbi: 30_000,
            tai: 52_030,
            tintr: 54_030,
            state: 2,
            vector: vector::VECTOR_LOCAL_TIMER,
            interrupts: 1,
            ..Default::default()
        }
    }

    #[test]
    fn the_wake_latency_ends_at_the_first_code_that_ran() {
        let datapoint = conversion().datapoint(&event());
        assert_eq!(datapoint.wake_latency_ns, 2_000);
        assert_eq!(datapoint.interrupt_latency_ns, Some(4_000));
        assert_eq!(datapoint.first, First::AfterIdle);
        let halt = types::event {
            tai: 60_000,
            ..event()
        };
        let datapoint = conversion().datapoint(&halt);
        assert_eq!(datapoint.wake_latency_ns, 4_000);
        assert_eq!(datapoint.first, First::Interrupt);
    }

    #[test]
    fn silent_time_and_distance_end_at_the_launch() {
        let datapoint = conversion().datapoint(&event());
        assert_eq!(datapoint.silent_time_ns, Some(20_000));
        assert_eq!(datapoint.launch_distance_ns, 30_000);
        assert_eq!(datapoint.launch_error_ns, None);
        let external = types::event {
            launch_error: 130,
            ..event()
        };
        assert_eq!(conversion().datapoint(&external).launch_error_ns, Some(130));
        assert_eq!(datapoint.time_ns, 49_000);
        assert_eq!(datapoint.requested_state.as_deref(), Some("C6"));
    }

    #[test]
    fn a_state_outside_the_table_has_no_name() {
        let hidden = Conversion {
            states: Vec::new(),
            ..conversion()
        };
        let named = |state| hidden.datapoint(&types::event { state, ..event() });
        assert_eq!(named(0).requested_state.as_deref(), Some("POLL"));
        assert_eq!(named(1).requested_state.as_deref(), Some("default_idle"));
        assert_eq!(named(2).requested_state, None);
        assert_eq!(named(2).requested_state_index, Some(2));
    }

    #[test]
    fn a_wake_up_by_polling_has_no_interrupt_latency() {
        let flag = types::event {
            tintr: 0,
            vector: vector::VECTOR_NONE,
            by_flag: 1,
            interrupts: 0,
            ..event()
        };
        let datapoint = conversion().datapoint(&flag);
        assert_eq!(datapoint.woken_by, WokenBy::Flag);
        assert_eq!(datapoint.interrupt_latency_ns, None);
        assert_eq!(datapoint.wake_latency_ns, 2_000);
    }

    #[test]
    fn smis_are_unknown_without_tai() {
        let counting = Conversion {
            smi_counter: Some(0),
            ..conversion()
        };
        let mut counted = event();
        counted.counters[0] = types::counted {
            before: 7,
            after: 9,
        };
        assert_eq!(counting.datapoint(&counted).smi_count, Some(2));
        counted.tai = 0;
        assert_eq!(counting.datapoint(&counted).smi_count, None);
    }

    #[test]
    fn a_residency_is_a_share_of_the_periods_cycles() {
        let mut counted = event();
        counted.counters[0] = types::counted {
            before: u64::MAX - 1,
            after: 248,
        };
        counted.counters[1] = types::counted {
            before: 1_000,
            after: 2_000,
        };
        assert_eq!(conversion().datapoint(&counted).residency_percent, [25.0]);
        counted.tai = 0;
        assert!(conversion().datapoint(&counted).residency_percent[0].is_nan());
    }

    #[test]
    fn an_unread_column_is_unknown_and_not_omitted() {
        let unread = Conversion {
            residencies: vec![None, None],
            ..conversion()
        };
        let shares = unread.datapoint(&event()).residency_percent;
        assert!(matches!(shares[..], [one, two] if one.is_nan() && two.is_nan()));
    }
}

//! The user probe: from the timer to the first instruction of a waiting thread, as cyclictest
//! measures. Scheduling and the return to user space are in the figure.
//!
//! The idle state is inferred: cpuidle counts how often each state was used, and if just one was
//! used between arming and waking, it was that one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use reveille_dataset::description::Cost;
use reveille_dataset::{Datapoint, First, Source, WokenBy};
use reveille_machine::{IdleState, Root};

use crate::placement::now_ns;

/// cpuidle's use counts of one CPU, kept open.
struct Uses(Vec<(i32, String, File)>);

impl Uses {
    fn open(root: &Root, cpu: u32, states: &[IdleState]) -> Self {
        let open = |state: &IdleState| {
            let index = state.index;
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{index}/usage");
            let file = File::open(root.path(&path)).ok()?;
            Some((index as i32, state.name.clone(), file))
        };
        Self(states.iter().filter_map(open).collect())
    }

    fn read(&self) -> Vec<Option<u64>> {
        let count = |file: &File| {
            let mut text = [0u8; 24];
            let length = file.read_at(&mut text, 0).ok()?;
            std::str::from_utf8(&text[..length])
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        self.0.iter().map(|(_, _, file)| count(file)).collect()
    }

    /// The one state that was used between the two readings.
    fn used(&self, before: &[Option<u64>], after: &[Option<u64>]) -> Option<(i32, String)> {
        let mut used = None;
        for ((state, before), after) in self.0.iter().zip(before).zip(after) {
            if (*before)? != (*after)? && used.replace(state).is_some() {
                return None;
            }
        }
        used.map(|(index, name, _)| (*index, name.clone()))
    }
}

/// What the waiting thread and the reader share; the reader comes by itself, in batches.
#[derive(Default)]
pub struct Waiting {
    gathered: Mutex<Vec<Datapoint>>,
    pub launched: AtomicU64,
    /// The launch time had passed before the thread slept.
    pub late: AtomicU64,
    pub stop: AtomicBool,
}

impl Waiting {
    /// What was gathered and not yet taken.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Datapoint>> {
        // A panic elsewhere leaves the datapoints whole.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the waiting thread needs to know.
pub struct Plan<'a> {
    pub root: &'a Root,
    pub cpu: u32,
    pub states: &'a [IdleState],
    pub distances: &'a [u64],
    pub started_ns: u64,
    pub overhead_ns: i64,
    /// The CPU is kept awake by another thread: this is the floor.
    pub awake: bool,
}

/// Waits for launches until told to stop; to be run on the measured CPU.
pub fn wait(plan: &Plan<'_>, waiting: &Waiting) {
    let uses = Uses::open(plan.root, plan.cpu, plan.states);
    for &distance in plan.distances.iter().cycle() {
        if waiting.stop.load(Ordering::Relaxed) {
            return;
        }
        let before = uses.read();
        let armed_at = now_ns();
        let launch = armed_at + distance;
        sleep_until(launch);
        let woken = now_ns();
        let after = uses.read();
        waiting.launched.fetch_add(1, Ordering::Relaxed);
        if woken <= launch {
            waiting.late.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let state = match plan.awake {
            true => Some((-1, reveille_dataset::schema::AWAKE.into())),
            false => uses.used(&before, &after),
        };
        let (requested_state_index, requested_state) = state.unzip();
        let datapoint = Datapoint {
            time_ns: launch as i64 - plan.started_ns as i64,
            cpu: plan.cpu,
            source: Source::Timer,
            woken_by: WokenBy::Interrupt,
            requested_state_index,
            requested_state,
            launch_distance_ns: distance as i64,
            silent_time_ns: None,
            wake_latency_ns: (woken - launch) as i64 - plan.overhead_ns,
            interrupt_latency_ns: None,
            first: First::Thread,
            smi_count: None,
            nmi_count: None,
            interrupt_count: None,
            softirq_count: None,
            residency_percent: Vec::new(),
        };
        waiting.lock().push(datapoint);
    }
}

fn sleep_until(time_ns: u64) {
    let time = nix::sys::time::TimeSpec::new(
        (time_ns / 1_000_000_000) as _,
        (time_ns % 1_000_000_000) as _,
    );
    while clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &time,
    ) == Err(nix::errno::Errno::EINTR)
    {}
}

/// What one reading of the clock costs.
pub fn cost_of_timestamp() -> Cost {
    let mut costs: Vec<u64> = Vec::with_capacity(1000);
    for _ in 0..1000 {
        let start = now_ns();
        costs.push(now_ns() - start);
    }
    Cost {
        count: costs.len() as u64,
        mean_ns: costs.iter().sum::<u64>() as f64 / costs.len() as f64,
        min_ns: *costs.iter().min().unwrap_or(&0) as f64,
        max_ns: *costs.iter().max().unwrap_or(&0) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_inferred_only_if_it_alone_was_used() {
        let file = || File::open("/dev/null").unwrap();
        let uses = Uses(vec![(0, "POLL".into(), file()), (1, "C1".into(), file())]);
        let read = |poll, c1| vec![Some(poll), Some(c1)];
        assert_eq!(uses.used(&read(5, 7), &read(5, 8)), Some((1, "C1".into())));
        assert_eq!(uses.used(&read(5, 7), &read(6, 8)), None);
        assert_eq!(uses.used(&read(5, 7), &read(5, 7)), None);
        assert_eq!(uses.used(&[None, Some(7)], &read(5, 8)), None);
    }
}

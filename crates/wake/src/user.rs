//! The user probe: from the timer to the first instruction of a waiting thread, as cyclictest
//! measures. Scheduling and the return to user space are in the figure.
//!
//! The idle state is inferred: cpuidle counts how often each state was used, and if just one was
//! used between arming and waking, it was that one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use reveille_dataset::description::Cost;
use reveille_dataset::{Datapoint, First, Source, WokenBy};
use reveille_machine::{IdleState, Root, load};

use crate::cost;
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

    /// What the CPU did between two readings.
    fn between(&self, before: &[Option<u64>], after: &[Option<u64>]) -> Slept {
        let mut slept = match self.0.is_empty() {
            true => Slept::Unknown,
            false => Slept::No,
        };
        for ((state, before), after) in self.0.iter().zip(before).zip(after) {
            let (Some(before), Some(after)) = (before, after) else {
                return Slept::Unknown;
            };
            if before != after {
                slept = match slept {
                    Slept::No => Slept::In(state.0, state.1.clone()),
                    _ => Slept::InSeveral,
                };
            }
        }
        slept
    }
}

/// What cpuidle's counts tell of the time between arming and waking.
#[derive(Debug, PartialEq)]
enum Slept {
    /// No idle state was entered: nothing woke.
    No,
    /// In one state alone.
    In(i32, String),
    InSeveral,
    /// There are no counts, or they cannot be read.
    Unknown,
}

/// Whether a CPU was idle, where no cpuidle counts it: by /proc/stat, for a while at a time.
pub struct Idling<'a> {
    root: &'a Root,
    cpu: u32,
    looked: Instant,
    ticks: Option<u64>,
    was_idle: bool,
}

impl<'a> Idling<'a> {
    /// A tick of /proc/stat.
    const TICK: Duration = Duration::from_millis(10);
    /// Shorter times have too few ticks to tell.
    const LEAST: Duration = Duration::from_millis(50);

    /// From now on.
    pub fn of(root: &'a Root, cpu: u32) -> Self {
        let mut idling = Self {
            root,
            cpu,
            looked: Instant::now(),
            ticks: None,
            was_idle: false,
        };
        idling.ticks = idling.read();
        idling
    }

    fn read(&self) -> Option<u64> {
        load::idle_ticks(self.root)?.get(&self.cpu).copied()
    }

    /// Was it idle for at least half of the time since this was asked last?
    pub fn was_idle(&mut self) -> bool {
        let elapsed = self.looked.elapsed();
        if elapsed >= Self::LEAST {
            let ticks = self.read();
            let idle = self
                .ticks
                .zip(ticks)
                .map(|(before, now)| now.saturating_sub(before));
            (self.looked, self.ticks) = (Instant::now(), ticks);
            self.was_idle = idle.is_some_and(|idle| Self::TICK * idle as u32 * 2 >= elapsed);
        }
        self.was_idle
    }
}

/// What the waiting thread and the reader share; the reader comes by itself, in batches.
#[derive(Default)]
pub struct Waiting {
    gathered: Mutex<Vec<Datapoint>>,
    pub launched: AtomicU64,
    /// The launch time had passed before the thread slept.
    pub late: AtomicU64,
    /// No idle state was entered between arming and waking.
    pub awake: AtomicU64,
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
        waiting.launched.fetch_add(1, Ordering::Relaxed);
        if now_ns() >= launch {
            waiting.late.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        sleep_until(launch);
        let woken = now_ns();
        let after = uses.read();
        let slept = match plan.awake {
            true => Slept::In(-1, reveille_dataset::schema::AWAKE.into()),
            false => uses.between(&before, &after),
        };
        let state = match slept {
            Slept::In(index, name) => Some((index, name)),
            Slept::InSeveral => None,
            // Without cpuidle the reader looks at the CPU's idle time.
            Slept::Unknown if plan.states.is_empty() => None,
            Slept::Unknown | Slept::No => {
                waiting.awake.fetch_add(1, Ordering::Relaxed);
                continue;
            }
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
    let costs = (0..1000).map(|_| {
        let start = now_ns();
        (now_ns() - start) as f64
    });
    cost::of(costs.collect()).expect("a thousand tries")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_inferred_only_if_it_alone_was_used() {
        let file = || File::open("/dev/null").unwrap();
        let uses = Uses(vec![(0, "POLL".into(), file()), (1, "C1".into(), file())]);
        let read = |poll, c1| vec![Some(poll), Some(c1)];
        let between = |before: &[_], after: &[_]| uses.between(before, after);
        let c1 = Slept::In(1, "C1".into());
        assert_eq!(between(&read(5, 7), &read(5, 8)), c1);
        assert_eq!(between(&read(5, 7), &read(6, 8)), Slept::InSeveral);
        assert_eq!(between(&read(5, 7), &read(5, 7)), Slept::No);
        assert_eq!(between(&[None, Some(7)], &read(5, 8)), Slept::Unknown);
        assert_eq!(Uses(Vec::new()).between(&[], &[]), Slept::Unknown);
    }

    #[test]
    fn a_launch_that_has_passed_before_the_thread_sleeps_is_dropped() {
        let waiting = Waiting::default();
        let root = Root::default();
        let plan = Plan {
            root: &root,
            cpu: 0,
            states: &[],
            // Reading the clock again takes longer.
            distances: &[1],
            started_ns: 0,
            overhead_ns: 0,
            awake: false,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| wait(&plan, &waiting));
            while waiting.launched.load(Ordering::Relaxed) < 1000 {
                std::thread::yield_now();
            }
            waiting.stop.store(true, Ordering::Relaxed);
        });
        let launched = waiting.launched.load(Ordering::Relaxed);
        let kept = waiting.lock().len() as u64;
        assert_eq!(waiting.late.load(Ordering::Relaxed) + kept, launched);
        assert!(kept * 10 < launched, "{kept} of {launched} were not late");
    }

    #[test]
    fn without_cpuidle_a_cpu_is_idle_that_was_so_for_half_of_the_time() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let set = |ticks: u64| {
            let stat = format!("cpu  1 1 1 1\ncpu3 9 0 0 {ticks} 0 0\n");
            std::fs::write(folder.path().join("proc/stat"), stat).unwrap();
        };
        set(100);
        let root = Root::at(folder.path());
        let mut idling = Idling::of(&root, 3);
        assert!(!idling.was_idle(), "nothing is known yet");
        idling.looked -= Duration::from_secs(1);
        set(149);
        assert!(!idling.was_idle(), "0.49 of 1 s");
        idling.looked -= Duration::from_secs(1);
        set(205);
        assert!(idling.was_idle(), "0.56 of 1 s");
        assert!(idling.was_idle(), "too short to tell: as before");
        assert!(!Idling::of(&root, 4).was_idle(), "no such CPU");
    }
}

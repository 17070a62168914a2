//! The user probe: from the timer to the first instruction of a waiting thread, as in cyclictest.
//! The latency includes scheduling and the return to user space.
//!
//! The idle state is inferred: cpuidle counts how often, and for how long, each state was used. If
//! only one was used between arming and waking, it was that one. If the CPU was awake during the
//! wait for longer than it takes to go idle, it may have been awake at the launch, which is dropped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use reveille_kernel::{IdleState, Root, load, now_ns};
use reveille_results::description::Cost;
use reveille_results::{Datapoint, First, Source, WokenBy};

use crate::cost;
use crate::placement;

/// cpuidle's open files of one state.
struct State {
    index: i32,
    name: String,
    usage: File,
    time: File,
}

/// How often a state was used, and its total time, µs. Both are counted at the end of idle.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Used {
    times: u64,
    us: u64,
}

/// cpuidle's open files of one CPU.
struct Uses(Vec<State>);

impl Uses {
    fn open(root: &Root, cpu: u32, states: &[IdleState]) -> Self {
        let open = |state: &IdleState| {
            let index = state.index;
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{index}");
            Some(State {
                index: index as i32,
                name: state.name.clone(),
                usage: File::open(root.path(&format!("{folder}/usage"))).ok()?,
                time: File::open(root.path(&format!("{folder}/time"))).ok()?,
            })
        };
        Self(states.iter().filter_map(open).collect())
    }

    fn read(&self) -> Vec<Option<Used>> {
        let number = |file: &File| {
            let mut text = [0u8; 24];
            let length = file.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..length]).ok()?;
            text.trim().parse().ok()
        };
        let used = |state: &State| {
            Some(Used {
                times: number(&state.usage)?,
                us: number(&state.time)?,
            })
        };
        self.0.iter().map(used).collect()
    }

    /// The CPU's idle state between two readings, before and after a wait of `distance_ns`.
    fn between(&self, before: &[Option<Used>], after: &[Option<Used>], distance_ns: u64) -> Slept {
        let mut slept = match self.0.is_empty() {
            true => Slept::Unknown,
            false => Slept::No,
        };
        let mut idle_ns = 0;
        for ((state, before), after) in self.0.iter().zip(before).zip(after) {
            let (Some(before), Some(after)) = (before, after) else {
                return Slept::Unknown;
            };
            if before.times != after.times {
                // Both are truncated to µs.
                idle_ns += (after.us.saturating_sub(before.us) + 1) * 1_000;
                slept = match slept {
                    Slept::No => Slept::In(state.index, state.name.clone()),
                    _ => Slept::InSeveral,
                };
            }
        }
        match slept {
            Slept::In(..) | Slept::InSeveral
                if idle_ns + going_idle_ns(distance_ns) < distance_ns =>
            {
                Slept::No
            }
            slept => slept,
        }
    }
}

/// How long a CPU that sleeps at the launch may be awake during the wait, ns: from arming to the
/// first idle entry, and at ticks.
fn going_idle_ns(distance_ns: u64) -> u64 {
    const GOING_IDLE_NS: u64 = 50_000;
    // Ticks wake it every 1 to 10 ms for some 5 µs.
    GOING_IDLE_NS.max(distance_ns / 50).min(distance_ns / 2)
}

/// The idle state between arming and waking, by cpuidle's counts.
#[derive(Debug, PartialEq)]
enum Slept {
    /// No idle state was entered, or the CPU was awake for part of the wait.
    No,
    /// In only one state.
    In(i32, String),
    InSeveral,
    /// The counts are missing or unreadable.
    Unknown,
}

/// Whether a CPU was idle, by /proc/stat, if there is no cpuidle.
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
    /// Shorter times have too few ticks.
    const LEAST: Duration = Duration::from_millis(50);

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

    /// Whether it was idle for at least half of the time since the last call.
    pub fn was_idle(&mut self) -> bool {
        let elapsed = self.looked.elapsed();
        if elapsed >= Self::LEAST {
            let ticks = self.read();
            let both = self.ticks.zip(ticks);
            let idle = both.map(|(before, now)| now.saturating_sub(before));
            (self.looked, self.ticks) = (Instant::now(), ticks);
            self.was_idle = idle.is_some_and(|idle| Self::TICK * idle as u32 * 2 >= elapsed);
        }
        self.was_idle
    }
}

/// Data shared by the waiting thread and the reader, which polls.
#[derive(Default)]
pub struct Waiting {
    gathered: Mutex<Vec<Datapoint>>,
    pub launched: AtomicU64,
    /// Launches whose time had passed before the thread slept.
    pub late: AtomicU64,
    /// Launches at which the CPU may have been awake.
    pub awake: AtomicU64,
    /// The waiting thread ended because it was moved: its CPU went offline.
    pub moved: AtomicBool,
    pub stop: AtomicBool,
}

impl Waiting {
    /// The datapoints that were not yet taken.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Datapoint>> {
        // The datapoints are intact even after a panic of another thread.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waiting thread's parameters.
pub struct Plan<'a> {
    pub root: &'a Root,
    pub cpu: u32,
    pub states: &'a [IdleState],
    pub distances: &'a [u64],
    pub started_ns: u64,
    pub overhead_ns: i64,
    /// Another thread keeps the CPU awake: this is the floor.
    pub awake: bool,
}

/// Waits for launches until `stop` is set; run it on the measured CPU.
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
        if !placement::is_on(plan.cpu) {
            waiting.awake.fetch_add(1, Ordering::Relaxed);
            waiting.moved.store(true, Ordering::Relaxed);
            return;
        }
        let after = uses.read();
        let slept = match plan.awake {
            true => Slept::In(-1, reveille_results::schema::AWAKE.into()),
            false => uses.between(&before, &after, distance),
        };
        let state = match slept {
            Slept::In(index, name) => Some((index, name)),
            Slept::InSeveral => None,
            // Without cpuidle the reader checks the CPU's idle time.
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
            launch_error_ns: None,
            launch_clock: None,
            silent_time_ns: None,
            wake_latency_ns: (woken - launch) as i64 - plan.overhead_ns,
            interrupt_latency_ns: None,
            first: First::Thread,
            smi_count: None,
            nmi_count: None,
            interrupt_count: None,
            softirq_count: None,
            round: None,
            residency_percent: Vec::new(),
        };
        waiting.lock().push(datapoint);
    }
}

/// Sleeps until that instant of CLOCK_MONOTONIC, ns.
pub fn sleep_until(time_ns: u64) {
    let time = TimeSpec::from_duration(Duration::from_nanos(time_ns));
    let (clock, absolute) = (ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME);
    while clock_nanosleep(clock, absolute, &time) == Err(Errno::EINTR) {}
}

/// The cost of one reading of the clock.
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
    fn a_state_is_inferred_only_if_no_other_was_used() {
        let uses = of_two();
        let read = |poll, c1| vec![used(poll, 0), used(c1, 1_000 * c1)];
        let between = |before: &[_], after: &[_]| uses.between(before, after, 1_000_000);
        let c1 = Slept::In(1, "C1".into());
        assert_eq!(between(&read(5, 7), &read(5, 8)), c1);
        assert_eq!(between(&read(5, 7), &read(6, 8)), Slept::InSeveral);
        assert_eq!(between(&read(5, 7), &read(5, 7)), Slept::No);
        assert_eq!(between(&[None, used(7, 0)], &read(5, 8)), Slept::Unknown);
        assert_eq!(Uses(Vec::new()).between(&[], &[], 1), Slept::Unknown);
    }

    fn of_two() -> Uses {
        let file = || File::open("/dev/null").unwrap();
        let state = |index, name: &str| State {
            index,
            name: name.into(),
            usage: file(),
            time: file(),
        };
        Uses(vec![state(0, "POLL"), state(1, "C1")])
    }

    fn used(times: u64, us: u64) -> Option<Used> {
        Some(Used { times, us })
    }

    #[test]
    fn a_cpu_that_was_partly_awake_during_the_wait_may_have_been_awake_at_the_launch() {
        let uses = of_two();
        // Idle for `us` of a wait of `of_us`.
        let slept = |us: u64, of_us: u64| {
            let before = [used(5, 100), used(7, 100)];
            let after = [used(5, 100), used(8, 100 + us)];
            uses.between(&before, &after, of_us * 1_000) != Slept::No
        };
        assert!(slept(1_000, 1_000) && slept(950, 1_000));
        assert!(!slept(940, 1_000) && !slept(500, 1_000));
        // Half of a short one, 2% of a long one.
        assert!(slept(10, 20) && !slept(5, 20));
        assert!(slept(980_000, 1_000_000) && !slept(979_000, 1_000_000));
        // Both states together.
        let several = uses.between(
            &[used(5, 0), used(7, 0)],
            &[used(6, 400), used(8, 580)],
            1_000_000,
        );
        assert_eq!(several, Slept::InSeveral);
    }

    #[test]
    fn a_launch_before_the_thread_sleeps_is_dropped() {
        let waiting = Waiting::default();
        let root = Root::default();
        let plan = Plan {
            root: &root,
            cpu: nix::sched::sched_getcpu().unwrap() as u32,
            states: &[],
            // Reading the clock again takes longer.
            distances: &[1],
            started_ns: 0,
            overhead_ns: 0,
            awake: false,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                placement::bind(plan.cpu).unwrap();
                wait(&plan, &waiting);
            });
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
    fn without_cpuidle_a_cpu_that_idles_half_of_the_time_is_idle() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let set = |ticks: u64| {
            let stat = format!("cpu  1 1 1 1\ncpu3 9 0 0 {ticks} 0 0\n");
            std::fs::write(folder.path().join("proc/stat"), stat).unwrap();
        };
        set(100);
        let root = Root::at(folder.path());
        let mut idling = Idling::of(&root, 3);
        assert!(!idling.was_idle(), "no data yet");
        idling.looked -= Duration::from_secs(1);
        set(149);
        assert!(!idling.was_idle(), "0.49 of 1 s");
        idling.looked -= Duration::from_secs(1);
        set(205);
        assert!(idling.was_idle(), "0.56 of 1 s");
        assert!(idling.was_idle(), "too short: as before");
        assert!(!Idling::of(&root, 4).was_idle(), "no such CPU");
    }
}

//! `cost` on the running kernel, with workloads of known cost. The tests need root and BPF; otherwise
//! each reports that it was skipped and why.

mod pair;

use std::time::Duration;

use crate::idling::{ENOUGH, Idling, last_cpu};
use pair::{Account, NAMES, Spinners, bind_to, may_be_prompt, wake_each_other};
use reveille_alone::{Part, Use, is_apart, take, while_spinning};
use reveille_kernel::{Idle, Root, load};
use reveille_watch::Error;
use reveille_watch::cost::{Cause, Follower, Pair, PairSums, Tallies, WaitSums, Workload};

/// `None`, with a message, if wake-ups cannot be followed.
fn alone(test: &str) -> Option<impl Sized> {
    // Two workloads would queue behind each other.
    let guard = take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)]);
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: {test}: it takes two CPUs");
        return None;
    }
    let idle = Idle::read(&Root::default()).unwrap();
    match Follower::start(&idle, &Workload::All, false) {
        Err(Error::Cannot(why)) => {
            println!("skipped: {test}: {why}");
            None
        }
        followed => followed
            .map(|_| guard)
            .map_err(|error| error.to_string())
            .ok(),
    }
}

/// As [`alone`], if the pair's threads may have real-time priority.
fn alone_with_pair(test: &str) -> Option<impl Sized> {
    if let Err(error) = may_be_prompt() {
        println!("skipped: {test}: no real-time priority: {error}");
        return None;
    }
    alone(test)
}

/// In a container a process has another ID than in the initial namespace.
#[test]
fn every_wake_up_is_counted_once_from_within_a_pid_namespace_too() {
    const TEST: &str = "cost::every_wake_up_is_counted_once_from_within_a_pid_namespace_too";
    if is_apart(TEST, &["unshare", "--pid", "--fork", "--mount-proc"]) {
        every_wake_up_is_counted_once();
    }
}

/// Pauses, µs: some leave a CPU hardly any time to sleep.
const SHORT: (u64, u64) = (30, 400);

/// The threads' own counts, and the followed ones.
struct Leg {
    accounts: [Account; 2],
    tallies: Tallies,
}

impl Leg {
    /// The range of the random pauses, µs.
    fn run(rounds: usize, pauses: (u64, u64)) -> Self {
        let idle = Idle::read(&Root::default()).unwrap();
        let workload = Workload::Process(std::process::id());
        let follower = Follower::start(&idle, &workload, false).unwrap();
        let [shortest, longest] = [pauses.0, pauses.1].map(Duration::from_micros);
        let accounts = wake_each_other(rounds, shortest, longest);
        let tallies = follower.finish().unwrap();
        Self { accounts, tallies }
    }

    /// Figures of the threads' wake-ups of each other.
    fn followed(&self) -> PairSums {
        let mut sums = PairSums::default();
        for waker in 0..2 {
            let pair = Pair {
                waker: NAMES[waker].to_owned(),
                wakee: NAMES[1 - waker].to_owned(),
                cause: Cause::Task,
            };
            if let Some(pair) = self.tallies.pairs.get(&pair) {
                sums.add(pair);
            }
        }
        sums
    }

    fn followed_mean_ns(&self) -> f64 {
        let sums = self.followed();
        let parts = sums.waited;
        let waited = parts.leaving_ns + parts.scheduling_ns + parts.queueing_ns;
        waited as f64 / sums.wakeups as f64
    }

    fn slept_besides(&self) -> u64 {
        let each = self.accounts.iter().map(|account| account.slept_besides);
        each.sum()
    }

    fn own_wakeups(&self) -> u64 {
        let each = self.accounts.iter().map(|account| account.waits.len());
        each.sum::<usize>() as u64
    }

    /// By the threads' clocks, of as many waits as were followed. A wake-up that was not followed went
    /// to a CPU that another thread took meanwhile, and mostly waited for it; on a busy machine so did
    /// others. So the true mean is between the means without the longest and without the shortest.
    fn own_means_ns(&self) -> (f64, f64) {
        let waits = self.accounts.iter().flat_map(|account| &account.waits);
        let mut waits: Vec<u64> = waits.map(|(woken, runs)| runs - woken).collect();
        waits.sort_unstable();
        let left_out = self.unfollowed() as usize;
        let mean = |waits: &[u64]| waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        (
            mean(&waits[..waits.len() - left_out]),
            mean(&waits[left_out..]),
        )
    }

    fn unfollowed(&self) -> u64 {
        self.own_wakeups().saturating_sub(self.followed().wakeups)
    }
}

#[test]
fn the_cost_of_following_is_counted_from_the_start() {
    let Some(_alone) = alone("the_cost_of_following_is_counted_from_the_start") else {
        return;
    };
    let leg = Leg::run(500, SHORT);
    let Some(counted) = leg.tallies.counted else {
        return println!("skipped: what following costs: the kernel does not count run times");
    };
    assert!(counted.elapsed <= leg.tallies.elapsed + Duration::from_secs(1));
    assert!(counted.machine_wakeups > 0 && counted.machine_wakeups <= leg.tallies.issued);
    // Each has at least sched_waking, sched_wakeup and sched_switch.
    assert!(counted.runs >= 2 * counted.machine_wakeups, "{counted:?}");
    let counting_ns = counted.runs * counted.counting_ns;
    assert!(counting_ns < counted.run_time_ns, "{counted:?}");
}

#[test]
fn every_wake_up_is_counted_once() {
    let Some(_alone) = alone_with_pair("every_wake_up_is_counted_once") else {
        return;
    };
    let leg = Leg::run(2000, SHORT);
    let (own, followed) = (leg.own_wakeups(), leg.followed().wakeups);
    let missed = leg.tallies.totals.missed.unseen;
    let besides = leg.slept_besides();
    // A few of another thread's may be among the unseen ones. A thread that is preempted on its way to sleep is
    // woken without having slept.
    let preempted = 1 + own / 1000;
    assert!(
        followed <= own + besides + preempted && own <= followed + missed + 1,
        "{own} by the threads' own count, {besides} besides, {followed} followed, {missed} unseen"
    );
    // If the host or real-time throttling takes a CPU away, the other's message is there already.
    if own < 400 {
        println!(
            "skipped: every_wake_up_is_counted_once: too few: the threads slept {own} times only"
        );
    }
    // Every wake-up is in exactly one table.
    let by_place: u64 = leg
        .tallies
        .waits
        .values()
        .map(|waits| waits.waited.queueing_ns)
        .sum();
    let by_pair: u64 = leg
        .tallies
        .pairs
        .values()
        .map(|sums| sums.waited.queueing_ns)
        .sum();
    assert_eq!(by_place, by_pair);
    let of_pairs: u64 = leg.tallies.pairs.values().map(|sums| sums.wakeups).sum();
    assert_eq!(of_pairs, leg.tallies.totals.wakeups);
}

#[test]
fn cpus_that_never_sleep_cost_nothing() {
    let Some(_alone) = alone_with_pair("cpus_that_never_sleep_cost_nothing") else {
        return;
    };
    for _ in 0..5 {
        let awake = Spinners::start();
        let before = idle_entries();
        let leg = Leg::run(1000, SHORT);
        let slept = idle_entries() - before;
        drop(awake);
        // A control group's quota may stop the spinners: then the CPUs do sleep.
        if slept > 0 {
            continue;
        }
        let followed = leg.followed();
        assert_eq!(
            (followed.asleep, followed.waited.leaving_ns),
            (0, 0),
            "{followed:?}"
        );
        let (own, missed) = (leg.own_wakeups(), leg.tallies.totals.missed.unseen);
        assert!(
            own > 0 && own <= followed.wakeups + missed + 1,
            "{own} {followed:?}"
        );
        return;
    }
    println!("skipped: cpus_that_never_sleep_cost_nothing: the CPUs are not kept awake here");
}

/// How often CPUs 0 and 1 have gone idle; if nothing counts it, their idle ticks.
fn idle_entries() -> u64 {
    let idle = Idle::read(&Root::default()).unwrap();
    let states = (0..2)
        .filter_map(|cpu| idle.cpu(cpu))
        .flat_map(|cpu| &cpu.states);
    let uses: Option<u64> = states.map(|state| state.usage).sum();
    let ticks = || load::idle_ticks(&Root::default()).unwrap();
    match uses {
        Some(uses @ 1..) => uses,
        _ => (0..2).filter_map(|cpu| ticks().get(&cpu).copied()).sum(),
    }
}

/// CPUs 0 and 1.
const CPUS: u32 = 2;
/// The share of the CPUs' time, %, above which the true cost is unknown.
const STOLEN_PERCENT: f64 = 1.0;

/// Ticks of a hundredth of a second that a hypervisor has taken from CPUs 0 and 1: the eighth figure
/// of their lines (proc_stat(5)).
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let lines = stat
        .lines()
        .filter(|line| line.starts_with("cpu0 ") || line.starts_with("cpu1 "));
    let figures = lines.filter_map(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    figures.sum()
}

/// A thread's own clock includes the way into and out of the kernel: that time is measured with both
/// CPUs awake, alternating with the compared legs.
#[test]
fn totals_are_within_5_percent_of_the_threads_own_clocks() {
    let Some(_alone) = alone_with_pair("totals_are_within_5_percent_of_the_threads_own_clocks")
    else {
        return;
    };
    let (mut tried, mut most_stolen) = (Vec::new(), 0.0_f64);
    // A shared machine may delay one leg and not the other.
    for _ in 0..8 {
        let (began, before) = (std::time::Instant::now(), stolen());
        let awake = Spinners::start();
        let with_awake_cpus = Leg::run(600, SHORT);
        drop(awake);
        let idling = [0, 1].map(Idling::of);
        let leg = Leg::run(1200, SHORT);
        // With other load, which both legs meet, the figures depend on what that load leaves.
        if idling.iter().any(|cpu| cpu.percent() < ENOUGH) {
            continue;
        }
        // Time that a hypervisor gives to others while a CPU wakes is in the threads' clocks only.
        let ticks = (stolen() - before) as f64;
        let percent = ticks / began.elapsed().as_secs_f64() / f64::from(CPUS);
        most_stolen = most_stolen.max(percent);
        if percent > STOLEN_PERCENT {
            continue;
        }
        let way = with_awake_cpus.own_means_ns().0 - with_awake_cpus.followed_mean_ns();
        let (least, most) = leg.own_means_ns();
        let truth = leg.followed_mean_ns().clamp(least - way, most - way);
        let off = leg.followed_mean_ns() / truth - 1.0;
        tried.push((
            (least - way, most - way),
            way,
            leg.followed_mean_ns(),
            leg.followed().asleep,
            leg.unfollowed(),
        ));
        if off.abs() <= 0.05 {
            println!("truth from and to, way, followed (ns), asleep, unfollowed: {tried:?}");
            return;
        }
    }
    if tried.is_empty() {
        println!(
            "skipped: totals_are_within_5_percent: CPUs 0 and 1 were too busy to sleep, or a \
             hypervisor took them ({most_stolen:.1}% of their time)"
        );
        return;
    }
    panic!("truth from and to, way, followed (ns), asleep, unfollowed: {tried:?}");
}

#[test]
fn a_child_is_followed_from_its_first_run() {
    let Some(_alone) = alone("a_child_is_followed_from_its_first_run") else {
        return;
    };
    let mut slept = Vec::new();
    // On a busy machine a child's time may be over before it sleeps.
    for _ in 0..10 {
        let (timers, unseen) = followed_naps();
        assert!(timers <= 6, "{timers} wake-ups of five sleeps");
        if timers + unseen >= 5 {
            return;
        }
        slept.push(timers);
    }
    panic!("wake-ups of five sleeps: {slept:?}");
}

/// Wake-ups by timers of five children that sleep once each, and the number of unseen ones.
fn followed_naps() -> (u64, u64) {
    let idle = Idle::read(&Root::default()).unwrap();
    let workload = Workload::Process(std::process::id());
    let follower = Follower::start(&idle, &workload, false).unwrap();
    let script = "for i in 1 2 3 4 5; do sleep 0.03; done";
    let done = std::process::Command::new("sh")
        .args(["-c", script])
        .status();
    assert!(done.unwrap().success());
    let tallies = follower.finish().unwrap();
    let timers = tallies
        .pairs
        .iter()
        .filter(|(pair, _)| pair.cause == Cause::Timer);
    let slept: u64 = timers
        .filter(|(pair, _)| pair.wakee == "sleep")
        .map(|(_, sums)| sums.wakeups)
        .sum();
    (slept, tallies.totals.missed.unseen)
}

/// The second method is cpuidle's clock of that CPU.
#[test]
fn a_stay_is_as_long_as_the_nap_and_no_longer_than_cpuidle_counts() {
    const TEST: &str = "a_stay_is_as_long_as_the_nap_and_no_longer_than_cpuidle_counts";
    const NAP: Duration = Duration::from_millis(5);
    let Some(_alone) = alone(TEST) else {
        return;
    };
    let cpu = last_cpu();
    let idle = Idle::read(&Root::default()).unwrap();
    let counted = || -> Option<u64> {
        let idle = Idle::read(&Root::default()).unwrap();
        let times = idle.cpu(cpu)?.states.iter().map(|state| state.time_us);
        // None without a driver.
        times.reduce(|sum, more| Some(sum? + more?))?
    };
    let before = counted();
    let workload = Workload::Process(std::process::id());
    let follower = Follower::start(&idle, &workload, false).unwrap();
    let sleeper = std::thread::spawn(move || {
        bind_to(cpu as usize);
        (0..100).for_each(|_| std::thread::sleep(NAP));
    });
    sleeper.join().unwrap();
    let tallies = follower.finish().unwrap();
    let after = counted();
    let mut slept = WaitSums::default();
    const OTHER: u32 = 2;
    let states = tallies.waits.iter();
    let states = states.filter(|((on, place), _)| *on == cpu && *place >= OTHER);
    states.for_each(|(_, waits)| slept.add(waits));
    if slept.count < 50 {
        return println!(
            "skipped: {TEST}: CPU {cpu} is busy: {} naps met it asleep",
            slept.count
        );
    }
    let mean = Duration::from_nanos(slept.stay_ns / slept.count);
    // Other interrupts end some idle periods before the nap is over.
    assert!(mean > NAP / 20 && mean <= NAP + NAP / 2, "{mean:?}");
    if let (Some(before), Some(after)) = (before, after) {
        // Counted from one idle exit to the next: the last may be missing.
        let counted = Duration::from_micros(after - before) + 2 * NAP;
        assert!(
            Duration::from_nanos(slept.stay_ns) <= counted,
            "{slept:?}, {counted:?}"
        );
    }
}

#[test]
fn on_a_cpu_that_never_sleeps_no_wake_up_meets_an_idle_state() {
    let Some(_alone) = alone("on_a_cpu_that_never_sleeps_no_wake_up_meets_an_idle_state") else {
        return;
    };
    let (cpu, idle) = (last_cpu(), Idle::read(&Root::default()).unwrap());
    let tallies = while_spinning(cpu, || {
        let (wake, woken) = std::sync::mpsc::channel();
        // Woken there by other CPUs, and by timers.
        let sleeper = std::thread::spawn(move || {
            bind_to(cpu as usize);
            while woken.recv().is_ok() {
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        wake.send(()).unwrap();
        let workload = Workload::Process(std::process::id());
        let follower = Follower::start(&idle, &workload, false).unwrap();
        for _ in 0..500 {
            std::thread::sleep(Duration::from_millis(1));
            wake.send(()).unwrap();
        }
        drop(wake);
        sleeper.join().unwrap();
        follower.finish().unwrap()
    });
    const BUSY: u32 = 1;
    let there = tallies.waits.iter().filter(|((on, _), _)| *on == cpu);
    let (busy, others): (Vec<_>, Vec<_>) = there.partition(|((_, place), _)| *place == BUSY);
    assert!(busy.iter().any(|(_, waits)| waits.count > 100), "{busy:?}");
    assert!(
        busy.iter().all(|(_, waits)| waits.waited.leaving_ns == 0),
        "{busy:?}"
    );
    assert!(others.is_empty(), "CPU {cpu} never slept: {others:?}");
}

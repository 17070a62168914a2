//! The live view on the running kernel. The tests need root and BPF; otherwise each reports that it
//! was skipped and why. They do not assume an idle machine: they compare the same events by two
//! methods.

mod recorded;
mod sources;
mod tracer;

use std::time::Duration;

use reveille_alone::{Part, Use, is_apart, is_apart_with_tracefs, take, while_spinning};
use reveille_kernel::Root;
use reveille_watch::live::{CountedBy, Snapshot, Unit, Waker, WakerKind, Watch};

use crate::idling::{Idling, last_cpu};
use sources::{Sleeper, Waking, calls, now_ns, online_cpus, uses};
use tracer::Tracer;

/// As [`started`], while nobody else watches or loads CPUs: tests would also watch each other's threads.
fn watch(test: &str) -> Option<(Watch, impl Sized)> {
    let alone = take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)]);
    Some((started(test)?, alone))
}

/// A watch with BPF; `None`, with a message, if BPF is unavailable.
fn started(test: &str) -> Option<Watch> {
    let mut watch = Watch::start(&Root::default()).unwrap();
    let snapshot = watch.snapshot().unwrap();
    if let Some(why) = snapshot
        .notes
        .iter()
        .find(|note| note.contains("without BPF"))
    {
        println!("skipped: {test}: {why}; {:?}", snapshot.notes);
        return None;
    }
    Some(watch)
}

fn cpu(snapshot: &Snapshot, number: u32) -> &Unit {
    let unit = snapshot.cpus.iter().find(|unit| unit.cpus == [number]);
    unit.expect("there is such a CPU")
}

/// Refreshes until `seen` is true, for at most 8 s: on a loaded machine a CPU may not sleep for seconds.
fn eventually<T>(watch: &mut Watch, mut seen: impl FnMut(&Snapshot) -> Option<T>) -> Option<T> {
    (0..40).find_map(|_| {
        std::thread::sleep(Duration::from_millis(200));
        seen(&watch.snapshot().unwrap())
    })
}

#[test]
fn the_shares_of_all_states_and_of_being_awake_are_the_whole_time() {
    // A CPU that goes offline meanwhile has no shares.
    let _online = take(&[Use::Beside(Part::IdleStates)]);
    let Some(mut watch) = started("shares") else {
        return;
    };
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        let snapshot = watch.snapshot().unwrap();
        for unit in snapshot.cpus.iter().chain([&snapshot.machine]) {
            if !unit.online {
                continue;
            }
            let asleep: f64 = unit
                .states
                .iter()
                .filter_map(|state| state.share_percent)
                .sum();
            let awake = unit.awake_percent.unwrap_or(0.0);
            assert!((asleep + awake - 100.0).abs() < 0.5, "{unit:#?}");
        }
    }
}

/// cpuidle counts the same stays when they end, between the same two tracepoints. Its counts are read
/// before and after each reading of the trace, because on a busy machine time passes in between.
#[test]
fn the_trace_has_the_stays_that_cpuidle_counts() {
    let Some((mut watch, _alone)) = watch("stays") else {
        return;
    };
    let _sleepers: Vec<Sleeper> = online_cpus().into_iter().map(Sleeper::on).collect();
    let counted = || (uses(), now_ns());
    let outer = counted();
    watch.snapshot().unwrap();
    let inner = counted();
    std::thread::sleep(Duration::from_secs(3));
    let inner_end = counted();
    let seen = watch.snapshot().unwrap();
    let outer_end = counted();
    if outer.0.is_empty() {
        return println!("skipped: stays: there is no cpuidle here to count them");
    }
    let stays: u64 = inner_end.0.values().sum::<u64>() - inner.0.values().sum::<u64>();
    if stays < 100 {
        return println!("skipped: stays: the CPUs were too busy to sleep, {stays} times only");
    }
    // A CPU may be in a stay, or between its end and its count, at either end.
    let on_the_way = 2.0 * online_cpus().len() as f64;
    for (name, before) in &outer.0 {
        let mut states = seen.machine.states.iter();
        let traced = states.find(|state| state.name == *name);
        let rate = traced
            .expect("both know the same states")
            .uses_per_s
            .unwrap();
        let most = (outer_end.0[name] - before) as f64;
        let least = (inner_end.0[name] - inner.0[name]) as f64;
        let seconds = |from: u64, to: u64| (to - from) as f64 / 1e9;
        // A rejected state is entered again.
        assert!(
            rate * seconds(inner.1, inner_end.1) <= most * 1.1 + on_the_way,
            "{name}: {rate} a second traced, {most} counted"
        );
        assert!(
            rate * seconds(outer.1, outer_end.1) >= least - on_the_way,
            "{name}: {rate} a second traced, {least} counted"
        );
    }
}

#[test]
fn a_thread_that_sleeps_shows_as_the_timer_that_wakes_its_cpu() {
    let Some((mut watch, _alone)) = watch("a sleeping thread") else {
        return;
    };
    let number = *online_cpus().last().unwrap();
    let sleeper = Sleeper::on(number);
    let (idling, slept) = (Idling::of(number), sleeper.slept());
    watch.snapshot().unwrap();
    let mut wakes = 0.0;
    let found = eventually(&mut watch, |snapshot| {
        // Interrupts that the kernel sends while it runs have its name, too; and before it was bound, its
        // timer was on another CPU.
        let mine = |waker: &&Waker| {
            let is_its = waker.command.as_deref() == Some(sleeper.name());
            waker.kind == WakerKind::Timer && waker.cpu == number && is_its
        };
        let waker = snapshot.wakers.iter().find(mine)?;
        assert_eq!(waker.pid, Some(std::process::id()), "{waker:?}");
        assert!(
            waker.name == "hrtimer_wakeup" || waker.name.starts_with("0x"),
            "{waker:?}"
        );
        wakes += waker.wakes_per_s.unwrap() * snapshot.elapsed_s;
        (wakes >= 50.0).then_some(())
    });
    let slept = (sleeper.slept() - slept) as f64;
    match found {
        // One may be in progress at either end.
        Some(()) => assert!(wakes <= slept + 2.0, "{wakes} wakes of {slept} sleeps"),
        None => {
            let found = format!("{wakes} wakes of {slept} sleeps");
            println!("skipped: a sleeping thread: {}", idling.too_busy(&found));
        }
    }
}

#[test]
fn a_thread_that_wakes_another_on_a_sleeping_cpu_shows_as_the_sender() {
    let Some((mut watch, _alone)) = watch("a sender") else {
        return;
    };
    let cpus = online_cpus();
    let [from, .., to] = cpus.as_slice() else {
        println!("skipped: a sender: one CPU cannot wake another");
        return;
    };
    let waking = Waking::start(*from, *to);
    let (idling, begun, called) = (Idling::of(*to), now_ns(), calls(*to));
    let found = eventually(&mut watch, |snapshot| {
        let unknown = snapshot
            .notes
            .iter()
            .find(|note| note.contains("this kernel does not report what sends"));
        if let Some(why) = unknown {
            return Some(Err(why.clone()));
        }
        // It sleeps in between, so the timer that wakes it has its name, too.
        let mine = |waker: &&Waker| {
            (waker.kind, waker.cpu) == (WakerKind::Ipi, *to)
                && waker.command.as_deref() == Some(waking.name())
        };
        let waker = snapshot.wakers.iter().find(mine)?;
        Some(Ok(waker.clone())).filter(|_| waker.wakes_per_s > Some(5.0))
    });
    match found {
        Some(Ok(waker)) => assert_eq!(waker.pid, Some(std::process::id()), "{waker:?}"),
        Some(Err(why)) => println!("skipped: a sender: {why}"),
        // A CPU that monitors a flag while it sleeps gets no interrupt.
        None if calls(*to) - called < (now_ns() - begun) / 20_000_000 => {
            println!("skipped: a sender: CPU {to} was hardly sent an interrupt");
        }
        None => println!("skipped: a sender: {}", idling.too_busy("no sender")),
    }
}

/// In a container a process has another ID than in the initial namespace.
#[test]
fn processes_have_the_numbers_of_the_pid_namespace_in_which_they_are_shown() {
    const TEST: &str =
        "live::processes_have_the_numbers_of_the_pid_namespace_in_which_they_are_shown";
    if is_apart(TEST, &["unshare", "--pid", "--fork", "--mount-proc"]) {
        a_thread_that_sleeps_shows_as_the_timer_that_wakes_its_cpu();
        a_thread_that_wakes_another_on_a_sleeping_cpu_shows_as_the_sender();
    }
}

#[test]
fn the_kernels_tracer_gives_the_same_latencies_of_the_same_wake_ups() {
    const TEST: &str = "live::the_kernels_tracer_gives_the_same_latencies_of_the_same_wake_ups";
    if !is_apart_with_tracefs(TEST) {
        return;
    }
    let Some((first, _alone)) = watch("the tracer") else {
        return;
    };
    drop(first);
    let number = *online_cpus().last().unwrap();
    let tracer = match Tracer::start(number) {
        Ok(tracer) => tracer,
        Err(why) => return println!("skipped: the tracer: {why}"),
    };
    let _sleeper = Sleeper::on(number);
    // Timers armed before the tracer started are unknown to it.
    std::thread::sleep(Duration::from_millis(500));
    // Events during its start and its reading may or may not be recorded.
    let outer = now_ns();
    let mut watch = Watch::start(&Root::default()).unwrap();
    let inner = now_ns();
    std::thread::sleep(Duration::from_secs(4));
    let inner_end = now_ns();
    let snapshot = watch.snapshot().unwrap();
    let outer_end = now_ns();
    let traced = tracer.stop();
    let mut compared = 0;
    for state in &cpu(&snapshot, number).states {
        let within = |from: u64, to: u64| -> Vec<u64> {
            let here = traced.iter().filter(|woken| {
                (from..to).contains(&woken.at_ns) && Some(woken.state) == state.index
            });
            here.map(|woken| woken.latency_ns).collect()
        };
        let mut latencies = within(inner, inner_end);
        let most = within(outer, outer_end).len() as f64;
        latencies.sort_unstable();
        if latencies.len() < 50 {
            continue;
        }
        let (count, median) = (
            latencies.len() as f64,
            latencies[latencies.len() / 2] as f64,
        );
        let seen = state.wake_latency.expect("the tracer saw some");
        let lost = count - seen.count as f64;
        assert!(lost <= 5.0 + 0.05 * count, "{seen:?}, {count} traced");
        let beyond = seen.count as f64 - most;
        assert!(beyond <= 5.0 + 0.05 * most, "{seen:?}, {most} traced");
        // A bucket's width, the tracer's truncation to µs, and part of its own record.
        let apart = (seen.median_ns - median).abs();
        assert!(
            apart <= 2_500.0 + 0.13 * median,
            "{seen:?}, {median} ns traced"
        );
        compared += 1;
    }
    if compared == 0 {
        let count = traced.len();
        println!("skipped: the tracer: it saw {count} wake-ups of CPU {number} by a timer");
    }
}

#[test]
fn a_state_that_is_entered_has_a_latency_and_a_time_for_leaving_it() {
    let Some((mut watch, _alone)) = watch("latencies") else {
        return;
    };
    let number = *online_cpus().last().unwrap();
    let _sleeper = Sleeper::on(number);
    let idling = Idling::of(number);
    let seen = eventually(&mut watch, |snapshot| {
        let unit = cpu(snapshot, number).clone();
        let count = unit.states.iter().filter_map(|state| state.wake_latency);
        (count.map(|latency| latency.count).sum::<u64>() >= 20).then_some(unit)
    });
    let Some(unit) = seen else {
        return println!("skipped: latencies: {}", idling.too_busy("not 20 of them"));
    };
    for state in &unit.states {
        if let Some(latency) = state.wake_latency {
            assert_eq!(state.counted_by, CountedBy::Trace);
            assert!(latency.median_ns <= latency.max_ns as f64, "{latency:?}");
            assert!(latency.mean_ns <= latency.max_ns as f64, "{latency:?}");
            assert!(latency.mean_ns > 0.0, "{latency:?}");
        }
    }
    // For a state without a latency the time to leave it is unknown.
    let mut known = unit.states.iter().filter(|s| s.wake_latency.is_some());
    assert_eq!(
        unit.leaving_percent.is_some_and(|share| share > 0.0),
        known.any(|state| state.uses_per_s > Some(0.0)),
        "{unit:?}"
    );
}

#[test]
fn without_bpf_the_counts_of_sysfs_and_proc_are_shown_and_the_rest_is_reported_missing() {
    // A recorded machine, which has no BPF; its recording is this one.
    let mut watch = Watch::start(&Root::at("/proc/..")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let snapshot = watch.snapshot().unwrap();
    assert!(
        snapshot
            .notes
            .iter()
            .any(|note| note.contains("without BPF"))
    );
    assert!(!snapshot.wakers.is_empty(), "interrupts are counted");
    for unit in &snapshot.cpus {
        assert_eq!((unit.wakeups_per_s, unit.leaving_percent), (None, None));
        for state in &unit.states {
            assert!(
                state
                    .share_percent
                    .is_none_or(|share| (0.0..=100.0).contains(&share))
            );
            assert_eq!(state.wake_latency, None);
        }
    }
}

#[test]
fn a_cpu_that_never_sleeps_is_woken_by_nothing() {
    let number = last_cpu();
    let Some((watch, _alone)) = watch("a CPU that never sleeps") else {
        return;
    };
    drop(watch);
    while_spinning(number, || {
        let mut watch = Watch::start(&Root::default()).unwrap();
        // Timers and messages that would wake it.
        let _sleeper = Sleeper::on(number);
        std::thread::sleep(Duration::from_secs(1));
        let snapshot = watch.snapshot().unwrap();
        let unit = cpu(&snapshot, number);
        assert_eq!(unit.wakeups_per_s, Some(0.0), "{unit:#?}");
        assert_eq!(unit.idle_entries_per_s, Some(0.0), "{unit:#?}");
        assert_eq!(unit.awake_percent, Some(100.0), "{unit:#?}");
        for state in &unit.states {
            let woke = state
                .wake_latency
                .as_ref()
                .map_or(0, |latency| latency.count);
            assert_eq!(woke, 0, "{state:#?}");
        }
        let woke = |waker: &&Waker| waker.cpu == number && waker.wakes_per_s > Some(0.0);
        assert_eq!(snapshot.wakers.iter().find(woke), None);
    });
}

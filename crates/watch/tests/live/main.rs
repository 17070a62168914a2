//! The live view on the running kernel, for real. It needs root and BPF; without, each test says
//! that it was skipped and why. Nothing here supposes a quiet machine: what is compared are the
//! same events by two witnesses.

mod recorded;
mod sources;
mod tracer;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use reveille_machine::Root;
use reveille_watch::live::{CountedBy, Options, Snapshot, Unit, Waker, WakerKind, Watch};

use sources::{Sleeper, Waking, now_ns, online_cpus};
use tracer::Tracer;

/// The tests watch each other's threads, and the machine has few CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// A watch that sees by BPF; `None`, with a word, where that cannot be had.
fn watch(test: &str) -> Option<(Watch, MutexGuard<'static, ()>)> {
    let alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
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
    Some((watch, alone))
}

fn cpu(snapshot: &Snapshot, number: u32) -> &Unit {
    let unit = snapshot.cpus.iter().find(|unit| unit.cpus == [number]);
    unit.expect("there is such a CPU")
}

/// Refreshes until `seen` finds what it looks for, for 20 s at most: on a loaded machine a CPU
/// may not sleep for seconds.
fn eventually<T>(watch: &mut Watch, mut seen: impl FnMut(&Snapshot) -> Option<T>) -> Option<T> {
    (0..40).find_map(|_| {
        std::thread::sleep(Duration::from_millis(500));
        seen(&watch.snapshot().unwrap())
    })
}

#[test]
fn the_shares_of_all_states_and_of_being_awake_are_the_whole_time() {
    let Some((mut watch, _alone)) = watch("shares") else {
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

/// cpuidle counts the same stays when they end, between the same two tracepoints.
#[test]
fn the_trace_tells_the_stays_that_cpuidle_counts() {
    let Some((mut watch, _alone)) = watch("stays") else {
        return;
    };
    let mut counted = Watch::start_with(&Root::default(), Options { bpf: false }).unwrap();
    let _sleepers: Vec<Sleeper> = online_cpus().into_iter().map(Sleeper::on).collect();
    watch.snapshot().unwrap();
    counted.snapshot().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let (seen, counted) = (watch.snapshot().unwrap(), counted.snapshot().unwrap());
    for state in &counted.machine.states {
        let traced = seen
            .machine
            .states
            .iter()
            .find(|other| other.name == state.name);
        let traced = traced.expect("both know the same states");
        let (Some(uses), Some(seen_uses)) = (state.uses_per_s, traced.uses_per_s) else {
            println!("skipped: stays: there is no cpuidle here to count them");
            return;
        };
        // A few happen between the two readings; a state that is turned down is entered again.
        let close = |a: f64, b: f64| (a - b).abs() <= 10.0 + 0.1 * b;
        assert!(close(seen_uses, uses), "{traced:?} {state:?}");
    }
}

#[test]
fn a_thread_that_sleeps_shows_as_the_timer_that_wakes_its_cpu() {
    let Some((mut watch, _alone)) = watch("a sleeping thread") else {
        return;
    };
    let number = *online_cpus().last().unwrap();
    let sleeper = Sleeper::on(number);
    let (begun, slept) = (now_ns(), sleeper.slept());
    watch.snapshot().unwrap();
    let mut wakes = 0.0;
    let found = eventually(&mut watch, |snapshot| {
        let mine = |command: &Option<String>| command.as_deref() == Some(sleeper.name());
        let waker = snapshot.wakers.iter().find(|waker| mine(&waker.command))?;
        assert_eq!((waker.kind, waker.cpu), (WakerKind::Timer, number));
        assert_eq!(waker.pid, Some(std::process::id()), "{waker:?}");
        assert!(
            waker.name == "hrtimer_wakeup" || waker.name.starts_with("0x"),
            "{waker:?}"
        );
        wakes += waker.wakes_per_s.unwrap() * snapshot.elapsed_s;
        (wakes >= 50.0).then_some(())
    });
    let slept = (sleeper.slept() - slept) as f64;
    let seconds = (now_ns() - begun) as f64 / 1e9;
    match found {
        // One may be on its way at either end.
        Some(()) => assert!(wakes <= slept + 2.0, "{wakes} wakes of {slept} sleeps"),
        None => println!("skipped: a sleeping thread: CPU {number} hardly slept in {seconds} s"),
    }
}

#[test]
fn a_thread_that_wakes_another_on_a_sleeping_cpu_shows_as_the_sender() {
    let Some((mut watch, _alone)) = watch("a sender") else {
        return;
    };
    let cpus = online_cpus();
    let [from, .., to] = cpus.as_slice() else {
        println!("skipped: a sender: one CPU has nobody to wake");
        return;
    };
    let waking = Waking::start(*from, *to);
    let found = eventually(&mut watch, |snapshot| {
        let unknown = snapshot
            .notes
            .iter()
            .find(|note| note.contains("not told by this kernel"));
        if let Some(why) = unknown {
            return Some(Err(why.clone()));
        }
        // It sleeps between, so the timer that wakes it has its name, too.
        let mine = |waker: &&Waker| {
            waker.kind == WakerKind::Ipi && waker.command.as_deref() == Some(waking.name())
        };
        let waker = snapshot.wakers.iter().find(mine)?;
        Some(Ok(waker.clone())).filter(|_| waker.wakes_per_s > Some(5.0))
    });
    match found {
        Some(Ok(waker)) => assert_eq!(waker.cpu, *to, "{waker:?}"),
        Some(Err(why)) => println!("skipped: a sender: {why}"),
        None => println!("skipped: a sender: CPU {to} hardly slept"),
    }
}

#[test]
fn the_kernels_tracer_tells_the_same_latencies_of_the_same_wake_ups() {
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
    // Timers that were armed before the tracer began expire unseen.
    std::thread::sleep(Duration::from_millis(500));
    let mut watch = Watch::start(&Root::default()).unwrap();
    let begun = now_ns();
    std::thread::sleep(Duration::from_secs(4));
    let snapshot = watch.snapshot().unwrap();
    let ended = now_ns();
    let traced = tracer.stop();
    let mut compared = 0;
    for state in &cpu(&snapshot, number).states {
        let traced = traced.iter().filter(|woken| {
            (begun..ended).contains(&woken.at_ns) && Some(woken.state) == state.index
        });
        let mut latencies: Vec<u64> = traced.map(|woken| woken.latency_ns).collect();
        latencies.sort_unstable();
        if latencies.len() < 50 {
            continue;
        }
        let (count, median) = (
            latencies.len() as f64,
            latencies[latencies.len() / 2] as f64,
        );
        let seen = state.wake_latency.expect("the tracer saw some");
        let lost = (seen.count as f64 - count).abs();
        assert!(lost <= 5.0 + 0.05 * count, "{seen:?}, {count} traced");
        // A bucket's width, what the tracer cuts off to the µs, and part of its own record.
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
fn a_state_that_is_entered_has_a_latency_and_the_time_for_leaving_it_is_told() {
    let Some((mut watch, _alone)) = watch("latencies") else {
        return;
    };
    let number = *online_cpus().last().unwrap();
    let _sleeper = Sleeper::on(number);
    let seen = eventually(&mut watch, |snapshot| {
        let unit = cpu(snapshot, number).clone();
        let count = unit.states.iter().filter_map(|state| state.wake_latency);
        (count.map(|latency| latency.count).sum::<u64>() >= 20).then_some(unit)
    });
    let Some(unit) = seen else {
        return println!("skipped: latencies: CPU {number} hardly slept");
    };
    for state in &unit.states {
        if let Some(latency) = state.wake_latency {
            assert_eq!(state.counted_by, CountedBy::Trace);
            assert!(latency.median_ns <= latency.max_ns as f64, "{latency:?}");
            assert!(latency.mean_ns <= latency.max_ns as f64, "{latency:?}");
            assert!(latency.mean_ns > 0.0, "{latency:?}");
        }
    }
    let uses: f64 = unit
        .states
        .iter()
        .filter_map(|state| state.uses_per_s)
        .sum();
    assert_eq!(
        unit.leaving_percent.is_some_and(|share| share > 0.0),
        uses > 0.0,
        "{unit:?}"
    );
}

#[test]
fn without_bpf_what_sysfs_and_proc_count_is_shown_and_the_rest_is_said_to_be_missing() {
    let mut watch = Watch::start_with(&Root::default(), Options { bpf: false }).unwrap();
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

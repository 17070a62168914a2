//! The probes on the running kernel. The tests need root and BPF; otherwise each reports that it
//! was skipped and why.

mod bounded;
mod gathered;
mod other_timers;
mod second_method;
mod short;
mod spinning;
mod tracefs;

use std::fs;
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use gathered::{gather, options};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use reveille_alone::{Part, Use, is_apart, take};
use reveille_kernel::{Idle, Root, load};
use reveille_measure::{Distances, Outcome, Protocol};
use reveille_results::description::{Ended, Probe};
use reveille_results::{Datapoint, First, Source, WokenBy};

/// One measurement at a time: two would disturb each other. It changes idle states, too: for its floor.
fn alone() -> impl Sized {
    take(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
}

/// Skips with a message if the probes cannot be loaded.
macro_rules! need_bpf {
    () => {{
        let guard = crate::alone();
        if let Err(why) = reveille_measure::try_bpf(0) {
            println!("skipped: {}: {why}", module_path!());
            return;
        }
        guard
    }};
}
pub(crate) use need_bpf;

/// A run of each probe, at whose facts several tests look; `None`, with a message, without it.
fn usual_run(test: &str, probe: Probe) -> Option<&'static (Vec<Datapoint>, Outcome)> {
    static BY_BPF: OnceLock<Option<(Vec<Datapoint>, Outcome)>> = OnceLock::new();
    static BY_THREAD: OnceLock<Option<(Vec<Datapoint>, Outcome)>> = OnceLock::new();
    let run = if probe == Probe::Bpf {
        &BY_BPF
    } else {
        &BY_THREAD
    };
    let run = run.get_or_init(|| {
        let _alone = alone();
        let mut options = options(300);
        options.probe = Some(probe);
        gather(test, &options, 250)
    });
    if run.is_none() {
        println!("skipped: {test}: too few datapoints");
    }
    run.as_ref()
}

#[test]
fn a_timer_wakes_an_idle_cpu_and_each_datapoint_is_whole() {
    drop(need_bpf!());
    let Some((datapoints, outcome)) = usual_run("a timer wakes an idle CPU", Probe::Bpf) else {
        return;
    };
    assert_eq!(outcome.ended, Ended::Completed);
    assert_eq!(outcome.counts.kept, datapoints.len() as u64);
    for datapoint in datapoints {
        assert_eq!(datapoint.source, Source::Timer);
        assert_eq!(datapoint.woken_by, WokenBy::Interrupt);
        let silent = datapoint.silent_time_ns.expect("the BPF probe sees it");
        assert!(
            silent > 0 && silent <= datapoint.launch_distance_ns + 1_000_000,
            "{datapoint:?}"
        );
        assert!(datapoint.wake_latency_ns > -1_000, "{datapoint:?}");
        assert!(datapoint.interrupt_latency_ns >= Some(datapoint.wake_latency_ns));
        assert!(datapoint.requested_state.is_some());
    }
}

/// By the scheduler's ticks, which count polling as idle.
#[test]
fn all_cpus_sleep_at_once_for_at_most_as_long_as_the_one_that_is_idle_least() {
    let _alone = need_bpf!();
    let mut options = options(1_000_000);
    options.duration = Some(Duration::from_secs(1));
    let (root, began) = (Root::default(), Instant::now());
    let before = load::idle_ticks(&root).unwrap();
    let (_, outcome) = gathered::run(&options);
    let after = load::idle_ticks(&root).unwrap();
    // Ticks are of 10 ms.
    let idle = before
        .iter()
        .map(|(cpu, ticks)| (after[cpu] - ticks) as f64 / began.elapsed().as_secs_f64());
    let idle_percent = idle.fold(100.0, f64::min);
    let (least, most) = outcome.counts.joint_percent.unwrap();
    println!("together {least:.1} to {most:.1}%, idle {idle_percent:.1}%");
    assert!(
        least <= most && most <= idle_percent + 10.0,
        "{least} {most}"
    );
    assert!(most > 5.0 || idle_percent < 50.0, "{most}");
}

#[test]
fn every_launch_is_a_datapoint_or_a_counted_drop() {
    let _alone = need_bpf!();
    let sources = match has_another_cpu() {
        true => &["timer", "remote"][..],
        false => &["timer"],
    };
    for (probe, sources) in [(Probe::Bpf, sources), (Probe::User, &["timer"])] {
        let mut options = options(300);
        options.probe = Some(probe);
        options.sources = sources.iter().map(|source| (*source).into()).collect();
        // Two phases: a launch between them is counted once.
        options.deepest = deepest_and_shallowest(options.cpu);
        let Some((_, outcome)) = gather("every launch", &options, 0) else {
            return;
        };
        let counts = outcome.counts;
        let accounted = counts.kept + counts.dropped.values().sum::<u64>();
        assert_eq!(accounted, counts.launched, "{counts:?}");
    }
}

#[test]
fn a_launch_whose_cpu_goes_offline_is_a_counted_drop() {
    const TEST: &str = "a_launch_whose_cpu_goes_offline_is_a_counted_drop";
    let _alone = need_bpf!();
    let mut options = options(1_000_000);
    let patience = Duration::from_secs(60);
    options.duration = Some(patience);
    let switch = format!("/sys/devices/system/cpu/cpu{}/online", options.cpu);
    if fs::write(&switch, "1").is_err() {
        return println!("skipped: {TEST}: CPU {} cannot go offline", options.cpu);
    }
    // Between two launches no timer is armed that could run elsewhere.
    const RUNS: usize = 5;
    for run in 1..=RUNS {
        let (measures, measuring) = mpsc::channel();
        let (_, outcome) = std::thread::scope(|scope| {
            let switch = &switch;
            scope.spawn(move || {
                let began = measuring.recv_timeout(patience);
                began.expect("a datapoint");
                fs::write(switch, "0").unwrap();
            });
            // It no longer listens when the second one comes.
            gathered::run_and(&options, &mut || {
                let _ = measures.send(());
            })
        });
        fs::write(&switch, "1").unwrap();
        assert!(
            matches!(outcome.ended, Ended::Disturbed(_)),
            "{:?}",
            outcome.ended
        );
        let counts = outcome.counts;
        let accounted = counts.kept + counts.dropped.values().sum::<u64>();
        assert_eq!(accounted, counts.launched, "{counts:?}");
        match counts.dropped.get("its interrupt came on another CPU") {
            None => println!("no timer was armed when the CPU went offline, run {run}"),
            strayed => return assert_eq!(strayed, Some(&1), "{counts:?}"),
        }
    }
    panic!("{RUNS} times no launch was in progress when the CPU went offline");
}

/// Names of states; none without cpuidle.
fn deepest_and_shallowest(cpu: u32) -> Vec<String> {
    let idle = Idle::read(&Root::default()).unwrap();
    let states = &idle.cpu(cpu).unwrap().states;
    let ends = states.last().into_iter().chain(states.first());
    ends.map(|state| state.name.clone()).collect()
}

#[test]
fn cpuidle_counts_at_least_one_idle_period_per_datapoint() {
    drop(need_bpf!());
    for probe in [Probe::Bpf, Probe::User] {
        let Some((_, outcome)) = usual_run("the second method", probe) else {
            return;
        };
        let counts = &outcome.counts;
        let Some(entries) = counts.cpuidle_entries else {
            return println!("skipped: the second method: no cpuidle here");
        };
        assert!(entries >= counts.idle_periods, "{counts:?}");
        // No datapoint without a period, but polling may give many of one.
        assert!(counts.idle_periods > 0, "{counts:?}");
        let contradicts = |note: &String| note.contains("second method contradicts");
        assert!(
            !outcome.notes.iter().any(contradicts),
            "{:?}",
            outcome.notes
        );
    }
}

fn has_another_cpu() -> bool {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let measured = gathered::last_cpu() as usize;
    (0..CpuSet::count()).any(|cpu| cpu != measured && allowed.is_set(cpu) == Ok(true))
}

#[test]
fn another_cpu_wakes_it_without_warning() {
    let _alone = need_bpf!();
    let mut options = options(200);
    options.sources = vec!["remote".into()];
    if !has_another_cpu() {
        println!(
            "skipped: {}: one CPU cannot wake itself from afar",
            module_path!()
        );
        return;
    }
    let Some((datapoints, outcome)) = gather("another CPU wakes it", &options, 100) else {
        return;
    };
    let idle = Idle::read(&Root::default()).unwrap();
    let siblings = &idle.cpu(options.cpu).unwrap().siblings;
    let all = (0..CpuSet::count() as u32).filter(|cpu| *cpu != options.cpu);
    let arming = &outcome.arming[0];
    let waking = all
        .clone()
        .find(|cpu| arming.contains(&format!("CPU {cpu} (")));
    let waking = waking.expect("it names the waking CPU");
    assert_eq!(
        arming.contains("another core"),
        !siblings.is_empty() && !siblings.contains(&waking),
        "{arming}"
    );
    for datapoint in &datapoints {
        assert_eq!(datapoint.source, Source::Remote);
        match datapoint.woken_by {
            WokenBy::Flag => assert_eq!(datapoint.first, First::AfterIdle),
            WokenBy::Interrupt => assert!(datapoint.interrupt_latency_ns.is_some()),
        }
    }
}

/// In a container a thread has another ID than in the initial namespace.
#[test]
fn another_cpu_wakes_it_from_within_a_pid_namespace() {
    const TEST: &str = "another_cpu_wakes_it_from_within_a_pid_namespace";
    if is_apart(TEST, &["unshare", "--pid", "--fork", "--mount-proc"]) {
        another_cpu_wakes_it_without_warning();
    }
}

#[test]
fn the_floor_is_below_the_latency_of_a_sleeping_cpu() {
    let _alone = need_bpf!();
    // The floor is measured before the run. A disturbance makes either longer, never shorter: the
    // minimum of several runs is closest to the undisturbed value.
    let (mut least_floor, mut least_median) = (i64::MAX, i64::MAX);
    for _ in 0..5 {
        let Some((mut datapoints, outcome)) = gather("the floor", &options(300), 250) else {
            return;
        };
        let floor = &outcome.characterisation.floors[0];
        // If the governor polls often, the floor's state is among them.
        datapoints.retain(|datapoint| datapoint.requested_state.as_ref() != Some(&floor.state));
        if datapoints.len() < 50 {
            println!("skipped: {}: the CPU polled nearly always", module_path!());
            return;
        }
        datapoints.sort_by_key(|datapoint| datapoint.wake_latency_ns);
        assert!(floor.median_ns > 0, "{floor:?}");
        least_floor = least_floor.min(floor.median_ns);
        least_median = least_median.min(datapoints[datapoints.len() / 2].wake_latency_ns);
        if least_floor <= least_median {
            return;
        }
    }
    panic!("the floor is {least_floor} ns, the median of a sleeping CPU {least_median} ns");
}

#[test]
fn caches_are_made_cold_before_each_idle_period() {
    let _alone = need_bpf!();
    let mut options = options(20);
    // Of one reading of 16 MiB the launches are beyond.
    options.distances = Distances::new(20_000_000, 40_000_000).unwrap();
    let mut probes_ns = Vec::new();
    for cold_bytes in [0, 16 << 20] {
        options.cold_bytes = cold_bytes;
        let Some((_, outcome)) = gather("cold caches", &options, 1) else {
            return;
        };
        probes_ns.push(outcome.characterisation.probe_cost_per_idle_ns);
    }
    // By the kernel's own account of what its programs take. No cache gives a line in less than 0.1 ns.
    let [Some(warm), Some(cold)] = probes_ns[..] else {
        return println!(
            "skipped: cold caches: the kernel does not count the time of BPF programs"
        );
    };
    let lines = f64::from((16 << 20) / 64);
    assert!(cold > warm + 0.1 * lines, "{warm} ns and {cold} ns");
}

#[test]
fn a_sweep_takes_the_requested_datapoints_at_each_distance() {
    let _alone = need_bpf!();
    let mut options = options(0);
    options.datapoints = None;
    options.distances = reveille_measure::Distances::new(300_000, 500_000).unwrap();
    options.protocol = Protocol::Sweep {
        datapoints: 20,
        factor: 1.2,
    };
    let Some((datapoints, _)) = gather("a sweep", &options, 60) else {
        return;
    };
    for step in [300_000, 360_000, 432_000] {
        let count = datapoints
            .iter()
            .filter(|d| d.launch_distance_ns == step)
            .count();
        assert_eq!(count, 20, "at {step} ns");
    }
}

//! A CPU that a thread keeps busy never sleeps: there are no wake-ups, with any source and probe.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use reveille_alone::{Over, while_spinning};
use reveille_kernel::{Idle, Root};
use reveille_measure::Outcome;
use reveille_results::description::{Ended, Probe};

use crate::gathered::{options, run};
use crate::{alone, has_another_cpu, need_bpf};

/// Measures a CPU that never sleeps.
fn measured(probe: Probe, source: &str) -> Outcome {
    let mut options = options(1_000_000);
    options.probe = Some(probe);
    options.sources = vec![source.into()];
    options.duration = Some(Duration::from_secs(1));
    let (datapoints, outcome) = while_spinning(options.cpu, || run(&options));
    assert_eq!(datapoints.len() as u64, outcome.counts.kept);
    assert!(
        datapoints.is_empty(),
        "{} datapoints of a CPU that never slept, the first {:?}",
        datapoints.len(),
        datapoints[0]
    );
    let counts = &outcome.counts;
    assert_eq!(counts.idle_periods, 0, "{counts:?}");
    let (_, most) = counts.joint_percent.unwrap();
    assert!(most < 5.0, "{most}");
    assert!(counts.launched > 0, "{counts:?} {:?}", outcome.notes);
    assert_eq!(
        counts.dropped.values().sum::<u64>(),
        counts.launched,
        "{counts:?}"
    );
    for floor in &outcome.characterisation.floors {
        assert_eq!(
            floor.state,
            reveille_results::schema::AWAKE,
            "no idle state was entered"
        );
    }
    outcome
}

#[test]
fn a_timer_gives_no_datapoint_of_a_cpu_that_never_sleeps() {
    let _alone = need_bpf!();
    measured(Probe::Bpf, "timer");
}

#[test]
fn another_cpu_gives_no_datapoint_of_a_cpu_that_never_sleeps() {
    let _alone = need_bpf!();
    if !has_another_cpu() {
        return println!(
            "skipped: {}: one CPU cannot wake itself from afar",
            module_path!()
        );
    }
    measured(Probe::Bpf, "remote");
}

#[test]
fn the_user_probe_gives_no_datapoint_of_a_cpu_that_never_sleeps() {
    let _alone = alone();
    measured(Probe::User, "timer");
}

#[test]
fn a_run_that_gave_up_is_not_completed() {
    let _alone = need_bpf!();
    for probe in [Probe::Bpf, Probe::User] {
        let mut options = options(1_000);
        options.probe = Some(probe);
        options.duration = None;
        options.patience = Duration::from_secs(1);
        let (_, outcome) = while_spinning(options.cpu, || run(&options));
        let Ended::Disturbed(why) = &outcome.ended else {
            panic!("{:?}: {:?}", outcome.ended, outcome.notes);
        };
        assert!(why.contains("0 of 1000 datapoints"), "{why}");
    }
}

/// The user probe checks the CPU only before and after a wait. The spinning thread records when it runs.
#[test]
fn the_user_probe_drops_launches_on_a_busy_cpu() {
    const BUSY: Duration = Duration::from_millis(2);
    /// The thread may be about to run, or just have gone to sleep.
    const EDGE_NS: u64 = 100_000;
    let idle = Idle::read(&Root::default()).unwrap();
    if idle.driver.is_none() {
        return println!(
            "skipped: launches on a busy CPU: without cpuidle only /proc/stat tells, for longer times"
        );
    }
    let _alone = alone();
    let mut options = options(1_000_000);
    options.probe = Some(Probe::User);
    options.duration = Some(Duration::from_secs(1));
    let stop = AtomicBool::new(false);
    let now = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    };
    let (datapoints, outcome, busy) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(options.cpu as usize).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            let mut busy = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let begun = now();
                while now() < begun + BUSY.as_nanos() as u64 {
                    std::hint::spin_loop();
                }
                busy.push(begun..now());
                std::thread::sleep(BUSY);
            }
            busy
        });
        let (datapoints, outcome) = {
            let _over = Over(&stop);
            run(&options)
        };
        (datapoints, outcome, worker.join().unwrap())
    });
    let met = |launch: u64| {
        let of = busy.partition_point(|busy| busy.start + EDGE_NS <= launch);
        of > 0 && launch + EDGE_NS < busy[of - 1].end
    };
    let launches = datapoints
        .iter()
        .map(|datapoint| outcome.started_ns + datapoint.time_ns as u64);
    let met = launches.filter(|launch| met(*launch)).count();
    println!("{met} of {} datapoints met a busy CPU", datapoints.len());
    assert_eq!(
        met,
        0,
        "of {} datapoints: {:?}",
        datapoints.len(),
        outcome.counts
    );
}

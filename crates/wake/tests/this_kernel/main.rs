//! The probes on the running kernel, for real. They need root and BPF; without, each test says
//! that it was skipped and why.

mod gathered;
mod second_method;
mod tracefs;

use std::sync::Mutex;

use gathered::{gather, options};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use reveille_dataset::description::Ended;
use reveille_dataset::{First, Source, WokenBy};
use reveille_wake::Protocol;

/// Two measurements at a time would be each other's noise.
static ALONE: Mutex<()> = Mutex::new(());

/// Skips with a word where the probes cannot be loaded.
macro_rules! need_bpf {
    () => {{
        let guard = crate::ALONE
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        if let Err(why) = reveille_wake::try_bpf(0) {
            println!("skipped: {}: {why}", module_path!());
            return;
        }
        guard
    }};
}
pub(crate) use need_bpf;

#[test]
fn a_timer_wakes_an_idle_cpu_and_each_datapoint_is_whole() {
    let _alone = need_bpf!();
    let Some((datapoints, outcome)) = gather("a timer wakes an idle CPU", &options(300), 250)
    else {
        return;
    };
    assert_eq!(outcome.ended, Ended::Completed);
    assert_eq!(outcome.counts.kept, datapoints.len() as u64);
    for datapoint in &datapoints {
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

#[test]
fn every_launch_is_a_datapoint_or_a_counted_drop() {
    let _alone = need_bpf!();
    let Some((_, outcome)) = gather("every launch", &options(300), 0) else {
        return;
    };
    let counts = outcome.counts;
    let accounted = counts.kept + counts.dropped.values().sum::<u64>();
    // One launch may be on its way when a phase begins, and one when it ends.
    assert!(accounted.abs_diff(counts.launched) <= 1, "{counts:?}");
}

#[test]
fn another_cpu_wakes_it_without_warning() {
    let _alone = need_bpf!();
    let mut options = options(200);
    options.sources = vec!["remote".into()];
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let is_other = |cpu: &usize| *cpu != options.cpu as usize && allowed.is_set(*cpu) == Ok(true);
    if !(0..CpuSet::count()).any(|cpu| is_other(&cpu)) {
        println!(
            "skipped: {}: one CPU cannot wake itself from afar",
            module_path!()
        );
        return;
    }
    let Some((datapoints, _)) = gather("another CPU wakes it", &options, 100) else {
        return;
    };
    for datapoint in &datapoints {
        assert_eq!(datapoint.source, Source::Remote);
        match datapoint.woken_by {
            WokenBy::Flag => assert_eq!(datapoint.first, First::AfterIdle),
            WokenBy::Interrupt => assert!(datapoint.interrupt_latency_ns.is_some()),
        }
    }
}

#[test]
fn the_floor_lies_below_what_a_sleeping_cpu_takes() {
    let _alone = need_bpf!();
    // The floor is found before the run. A disturbance makes either longer, and neither shorter:
    // of several runs the least of each is the nearest to what it would be without.
    let (mut least_floor, mut least_median) = (i64::MAX, i64::MAX);
    for _ in 0..5 {
        let Some((mut datapoints, outcome)) = gather("the floor", &options(300), 250) else {
            return;
        };
        let floor = &outcome.characterisation.floors[0];
        // Where the governor polls much, the floor's own state is among them.
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
fn a_sweep_takes_so_many_datapoints_at_each_distance() {
    let _alone = need_bpf!();
    let mut options = options(0);
    options.datapoints = None;
    options.distances = reveille_wake::Distances::new(300_000, 500_000).unwrap();
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

//! Launches so close together that the next one comes while the CPU is awake for the previous one.

use std::time::Duration;

use reveille_kernel::{Idle, Root, limits};
use reveille_measure::Distances;

use crate::gathered::{options, run};
use crate::need_bpf;

/// A CPU that halts takes the timer's interrupt, runs its callback, which arms the next launch, and
/// only then leaves idle: a launch in between wakes no CPU.
#[test]
fn a_halting_cpu_gives_at_most_one_datapoint_per_idle_entry() {
    let _alone = need_bpf!();
    let mut options = options(0);
    options.datapoints = None;
    options.duration = Some(Duration::from_secs(1));
    options.distances = Distances::new(5_000, 9_000).unwrap();
    let (datapoints, outcome) = run(&options);
    let counts = &outcome.counts;
    let Some(entries) = counts.cpuidle_entries else {
        return println!("skipped: short distances: no cpuidle here");
    };
    let states = Idle::read(&Root::default()).unwrap();
    let poll = limits::poll(&states.cpu(options.cpu).unwrap().states).map(|poll| &poll.name);
    let slept = datapoints
        .iter()
        .filter(|datapoint| datapoint.requested_state.as_ref() != poll);
    let slept = slept.count() as u64;
    println!(
        "{} datapoints, {slept} of states that sleep, {} idle periods, {entries} idle entries",
        datapoints.len(),
        counts.idle_periods
    );
    assert!(slept <= entries, "{slept} datapoints of {entries} entries");
    // The last datapoint's period may not be over when the run ends; it is not counted then.
    assert!(slept <= counts.idle_periods + 1, "{slept}: {counts:?}");
    let accounted = counts.kept + counts.dropped.values().sum::<u64>();
    assert_eq!(accounted, counts.launched, "{counts:?}");
}

//! Launches near other timers of the measured CPU, which expire at known instants.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use reveille_alone::Over;
use reveille_measure::Distances;
use reveille_results::Datapoint;

use crate::gathered::{last_cpu, options, run};
use crate::{has_another_cpu, need_bpf};

/// The timer slack, ns: the minimum.
const SLACK_NS: i64 = 1;

/// Sleeps on the measured CPU until `stop` is set; returns the instants for which it set its timer.
fn sleep_again_and_again(stop: &AtomicBool) -> Vec<i64> {
    let mut here = CpuSet::new();
    here.set(last_cpu() as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
    // SAFETY: it takes a number and changes only this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
    let clock = ClockId::CLOCK_MONOTONIC;
    let mut random = fastrand::Rng::with_seed(7);
    let mut expiries = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let expiry = clock_gettime(clock).unwrap().num_nanoseconds() + random.i64(150_000..450_000);
        expiries.push(expiry);
        let until = TimeSpec::from_duration(Duration::from_nanos(expiry as u64));
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        clock_nanosleep(clock, flags, &until).unwrap();
    }
    expiries
}

/// A timer that is due some µs before the launch begins to wake the CPU; the launch time passes
/// meanwhile, and one interrupt serves both.
#[test]
fn no_other_timer_is_due_between_idle_entry_and_launch_of_a_datapoint() {
    let _alone = need_bpf!();
    let mut sources = vec!["timer"];
    if has_another_cpu() {
        sources.push("remote");
    }
    for source in sources {
        let mut options = options(4000);
        options.sources = vec![source.into()];
        options.distances = Distances::new(100_000, 400_000).unwrap();
        let stop = AtomicBool::new(false);
        let (datapoints, outcome, expiries) = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_again_and_again(&stop));
            let (datapoints, outcome) = {
                let _over = Over(&stop);
                run(&options)
            };
            (datapoints, outcome, sleeper.join().unwrap())
        });
        println!("{source}: {:?}", outcome.counts);
        let came_first = |datapoint: &&Datapoint| {
            let launch = outcome.started_ns as i64 + datapoint.time_ns;
            let idle_entry = launch - datapoint.silent_time_ns.expect("the BPF probe sees it");
            let next = expiries.partition_point(|&expiry| expiry <= idle_entry);
            expiries
                .get(next)
                .is_some_and(|expiry| expiry + SLACK_NS < launch)
        };
        let woken: Vec<_> = datapoints.iter().filter(came_first).collect();
        assert!(
            woken.is_empty(),
            "{source}: {} of {} datapoints, such as {:?}",
            woken.len(),
            datapoints.len(),
            woken[0]
        );
        let accounted = outcome.counts.kept + outcome.counts.dropped.values().sum::<u64>();
        assert_eq!(accounted, outcome.counts.launched, "{:?}", outcome.counts);
    }
}

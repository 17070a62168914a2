//! A CPU that goes offline and comes back between two looks at it.

use std::fs;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use reveille_dataset::description::{Ended, Probe};
use reveille_wake::Outcome;

use crate::gathered::{options, run};
use crate::{has_another_cpu, need_bpf};

/// Measures `cpu` with its neighbour as the only other CPU, and takes `away` offline for a moment in
/// the middle. `None`, with a word, where that cannot be.
fn measured(probe: Probe, source: &str, cpu: u32, away: u32) -> Option<Outcome> {
    let switch = format!("/sys/devices/system/cpu/cpu{away}/online");
    if !has_another_cpu() || fs::write(&switch, "1").is_err() {
        println!("skipped: {}: CPU {away} cannot go offline", module_path!());
        return None;
    }
    let mut options = options(1_000_000);
    options.cpu = cpu;
    options.probe = Some(probe);
    options.sources = vec![source.into()];
    options.duration = Some(Duration::from_secs(12));
    let only_two = || {
        let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let other = (0..CpuSet::count()).rfind(|&n| n != cpu as usize && all.is_set(n) == Ok(true));
        let mut two = CpuSet::new();
        two.set(cpu as usize).unwrap();
        two.set(if away == cpu {
            other.unwrap()
        } else {
            away as usize
        })
        .unwrap();
        sched_setaffinity(Pid::from_raw(0), &two).unwrap();
        run(&options).1
    };
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(only_two);
        // Characterising takes some three seconds.
        std::thread::sleep(Duration::from_secs(7));
        fs::write(&switch, "0").unwrap();
        fs::write(&switch, "1").unwrap();
        run.join().unwrap()
    });
    println!(
        "{probe:?} {source}: {:?} {:?}",
        outcome.ended, outcome.counts
    );
    Some(outcome)
}

fn ended_early(outcome: &Outcome, word: &str) {
    match &outcome.ended {
        Ended::Disturbed(why) => assert!(why.contains(word), "{why}"),
        ended => panic!("{ended:?}: {:?}", outcome.notes),
    }
    assert!(outcome.counts.elapsed_s < 11.0, "{:?}", outcome.counts);
}

#[test]
fn a_measured_cpu_that_was_offline_for_a_moment_ends_the_run() {
    let _alone = need_bpf!();
    let cpu = crate::gathered::last_cpu();
    for (probe, source) in [
        (Probe::Bpf, "remote"),
        (Probe::Bpf, "timer"),
        (Probe::User, "timer"),
    ] {
        if let Some(outcome) = measured(probe, source, cpu, cpu) {
            ended_early(&outcome, &format!("CPU {cpu} went offline"));
        }
    }
}

#[test]
fn a_waking_cpu_that_was_offline_for_a_moment_ends_the_run() {
    let _alone = need_bpf!();
    let away = crate::gathered::last_cpu();
    if let Some(outcome) = measured(Probe::Bpf, "remote", 0, away) {
        ended_early(
            &outcome,
            &format!("CPU {away}, which woke it, went offline"),
        );
    }
}

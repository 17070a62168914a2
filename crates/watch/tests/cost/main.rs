//! `cost` on the running kernel, against workloads whose truth is known. They need root and BPF;
//! without, each test says that it was skipped and why.

mod pair;

use std::time::Duration;

use pair::{Account, NAMES, wake_each_other};
use reveille_machine::{Idle, Root};
use reveille_watch::cost::{Cause, Follower, Pair, PairSums, Tallies, Workload};

fn follow(workload: &Workload) -> Follower {
    let idle = Idle::read(&Root::default()).unwrap();
    Follower::start(&idle, workload, false).unwrap()
}

fn own_pair(tallies: &Tallies, waker: usize) -> PairSums {
    let pair = Pair {
        waker: NAMES[waker].to_owned(),
        wakee: NAMES[1 - waker].to_owned(),
        cause: Cause::Task,
    };
    tallies.pairs.get(&pair).copied().unwrap_or_default()
}

#[test]
fn look() {
    for round in 0..4 {
        let spin = (round % 2 == 1).then(pair::Spinners::start);
        let follower = follow(&Workload::Process(std::process::id()));
        let accounts = wake_each_other(3000, Duration::from_micros(30), Duration::from_micros(300));
        let tallies = follower.finish().unwrap();
        drop(spin);
        for n in 0..2 {
            let own: Account = accounts[1 - n];
            let seen = own_pair(&tallies, n);
            let all = seen.leaving_ns + seen.scheduling_ns + seen.queueing_ns;
            println!("{n}: own {own:?} seen {seen:?} all {all} diff per {} ratio {}",
              (own.waited_ns as f64 - all as f64) / own.wakeups as f64, all as f64 / own.waited_ns as f64);
        }
        println!("{:?} issued {} per wakeup {:?}", tallies.totals, tallies.issued, tallies.run_time_ns.map(|n| n as f64 / tallies.issued as f64));
    }
}

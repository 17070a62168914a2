//! An application that waits for a stand-in accelerator, with and without announcing when it is needed.
//!
//! `cargo run --release -p reveille-expect --example next_kernel [ROUNDS]`: runs 540 ± 25 µs long
//! (K-means in the paper), by a thread that spins on another CPU; turns of 200 with and without. It
//! prints how long after each run's end the application went on, and what a call costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use reveille_expect::{Waker, monotonic_ns};

const RUNS: usize = 200;

fn bind(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).expect("a CPU's number");
    sched_setaffinity(Pid::from_raw(0), &only).expect("a CPU that this process may use");
}

/// Spins for the time that it is sent, then writes when it was done.
fn accelerate(work: &Receiver<Duration>, done: &Sender<()>, done_ns: &AtomicU64) {
    bind(0);
    while let Ok(takes) = work.recv() {
        let begun = Instant::now();
        while begun.elapsed() < takes {
            std::hint::spin_loop();
        }
        done_ns.store(monotonic_ns(), Ordering::Relaxed);
        if done.send(()).is_err() {
            return;
        }
    }
}

fn quantile(sorted: &[u64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize] as f64 / 1_000.0
}

fn main() -> reveille_expect::Result<()> {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let done_ns = Arc::new(AtomicU64::new(0));
    let (work, works) = mpsc::channel();
    let (done, dones) = mpsc::channel();
    std::thread::spawn({
        let done_ns = done_ns.clone();
        move || accelerate(&works, &done, &done_ns)
    });
    bind(1);
    let mut waker = Waker::connect();
    println!("served: {:?}", waker.served());
    let mut after = [Vec::new(), Vec::new()];
    let mut calls = [0, 0];
    let mut took = [Duration::ZERO, Duration::ZERO];
    for round in 0..2 * rounds {
        let with = round % 2;
        let begun = Instant::now();
        for _ in 0..RUNS {
            let takes = Duration::from_nanos(fastrand::u64(515_000..565_000));
            let start = Instant::now();
            if let (1, Some(next)) = (with, waker.predict("assign")) {
                // What is refused is not needed to go on.
                let _ = waker.expect(start + next.early, next.late - next.early);
                calls[0] += start.elapsed().as_nanos();
                calls[1] += 1;
            }
            work.send(takes).expect("the accelerator is there");
            dones.recv().expect("the accelerator is there");
            after[with].push(monotonic_ns() - done_ns.load(Ordering::Relaxed));
            let _ = waker.cancel();
            waker.observe("assign", start.elapsed())?;
        }
        took[with] += begun.elapsed();
    }
    for (name, with) in [("as is", 0), ("expected", 1)] {
        after[with].sort_unstable();
        println!(
            "{name:>8}: after the end {:6.1} µs at the median, {:6.1} at p99; a run {:6.1} µs",
            quantile(&after[with], 0.5),
            quantile(&after[with], 0.99),
            took[with].as_secs_f64() * 1e6 / (rounds * RUNS) as f64,
        );
    }
    println!(
        "predict and expect: {} ns; {:?}; awake {:?} of {:?}, lead {:?}; accuracy {:?}",
        calls[0] / calls[1].max(1),
        waker.counts(),
        waker.awake(),
        took[1],
        waker.lead(),
        waker.predict("assign").and_then(|next| next.accuracy)
    );
    Ok(())
}

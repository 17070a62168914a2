//! A short measurement, gathered in memory.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use reveille_kernel::{Idle, Root, load};
use reveille_measure::{
    Distances, Notice, Options, Outcome, Progress, Protocol, Result, Sink, measure,
};
use reveille_results::Datapoint;
use reveille_results::description::Probe;

/// A CPU that is idle for this share of the time, %, gives thousands of datapoints in the time that
/// [`options`] allows.
const ENOUGH: f64 = 20.0;

/// Not from `available_cpus`, which a cgroup's quota reduces.
pub fn last_cpu() -> u32 {
    let idle = Idle::read(&Root::default()).unwrap();
    idle.cpus.iter().rfind(|cpu| cpu.online).unwrap().number
}

/// Options for this many datapoints on the last CPU, at distances of 0.2 to 2 ms.
pub fn options(datapoints: u64) -> Options {
    Options {
        cpu: last_cpu(),
        probe: Some(Probe::Bpf),
        sources: vec!["timer".into()],
        datapoints: Some(datapoints),
        // For a busy CPU: one that is idle for a fifth of the time needs half of it.
        duration: Some(Duration::from_secs(5)),
        patience: Options::DEFAULT_PATIENCE,
        distances: Distances::new(200_000, 2_000_000).unwrap(),
        protocol: Protocol::Random,
        deepest: Vec::new(),
        nic_pin: None,
        cold_bytes: 0,
        offline_others: false,
        seed: 7,
        journal_folder: std::env::temp_dir().join("reveille-test-journal"),
    }
}

struct Gathered<'a> {
    datapoints: Vec<Datapoint>,
    /// Called with each.
    look: &'a mut (dyn FnMut() + Send),
}

impl Sink for Gathered<'_> {
    fn begin(&mut self, _so_far: &Outcome) -> Result<()> {
        Ok(())
    }

    fn datapoint(&mut self, datapoint: &Datapoint) -> Result<()> {
        self.datapoints.push(datapoint.clone());
        (self.look)();
        Ok(())
    }

    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn notice(&mut self, _notice: Notice) {}
}

/// Measures on a new thread, because a run keeps its thread off the measured CPU.
pub fn run(options: &Options) -> (Vec<Datapoint>, Outcome) {
    run_and(options, &mut || {})
}

/// As [`run`]; calls `look` with each datapoint.
pub fn run_and(options: &Options, look: &mut (dyn FnMut() + Send)) -> (Vec<Datapoint>, Outcome) {
    let run = || {
        let mut gathered = Gathered {
            datapoints: Vec::new(),
            look,
        };
        let outcome = measure(
            &Root::default(),
            options,
            &mut gathered,
            &AtomicBool::new(false),
        )
        .unwrap();
        (gathered.datapoints, outcome)
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// As [`run`]. `None`, with a message, if fewer than `least` datapoints came because the CPU was busy.
///
/// # Panics
/// If fewer came although the CPU was idle for long enough.
pub fn gather(test: &str, options: &Options, least: usize) -> Option<(Vec<Datapoint>, Outcome)> {
    let idle_s = || load::idle_ticks(&Root::default()).unwrap()[&options.cpu] as f64 / 100.0;
    let (begun, before_s) = (Instant::now(), idle_s());
    let (datapoints, outcome) = run(options);
    let idle_percent = (idle_s() - before_s) / begun.elapsed().as_secs_f64() * 100.0;
    // Also on a busy CPU, where launches are dropped.
    assert!(
        outcome.counts.launched > 0,
        "nothing was launched: {:?}",
        outcome.notes
    );
    if datapoints.len() >= least {
        return Some((datapoints, outcome));
    }
    assert!(
        idle_percent < ENOUGH,
        "{} datapoints of a CPU that was idle for {idle_percent:.0}% of the time: {:?} {:?}",
        datapoints.len(),
        outcome.counts,
        outcome.notes
    );
    println!(
        "skipped: {test}: {} datapoints only, CPU {} was idle for {idle_percent:.0}% of the time",
        datapoints.len(),
        options.cpu
    );
    None
}

//! A short measurement, gathered in memory.

use std::sync::atomic::AtomicBool;

use reveille_dataset::Datapoint;
use reveille_dataset::description::Probe;
use reveille_machine::Root;
use reveille_wake::{
    Distances, Notice, Options, Outcome, Progress, Protocol, Result, Sink, measure,
};

/// So many datapoints on the last CPU, at distances of 0.2 to 2 ms.
pub fn options(datapoints: u64) -> Options {
    Options {
        cpu: reveille_wake::available_cpus() - 1,
        probe: Some(Probe::Bpf),
        sources: vec!["timer".into()],
        datapoints: Some(datapoints),
        // A bound, for a CPU that others keep busy.
        duration: Some(std::time::Duration::from_secs(20)),
        distances: Distances::new(200_000, 2_000_000).unwrap(),
        protocol: Protocol::Random,
        deepest: Vec::new(),
        offline_others: false,
        seed: 7,
        journal_folder: std::env::temp_dir().join("reveille-test-journal"),
    }
}

struct Gathered(Vec<Datapoint>);

impl Sink for Gathered {
    fn begin(&mut self, _so_far: &Outcome) -> Result<()> {
        Ok(())
    }

    fn datapoint(&mut self, datapoint: &Datapoint) -> Result<()> {
        self.0.push(datapoint.clone());
        Ok(())
    }

    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn notice(&mut self, _notice: Notice) {}
}

/// Measures on a thread of its own: a run keeps its thread off the measured CPU.
pub fn gather(options: &Options) -> (Vec<Datapoint>, Outcome) {
    let run = || {
        let mut gathered = Gathered(Vec::new());
        let outcome = measure(
            &Root::default(),
            options,
            &mut gathered,
            &AtomicBool::new(false),
        )
        .unwrap();
        (gathered.0, outcome)
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

//! The trial itself: one workload under every setting, once a round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::affinity;
use reveille_results::description::Ended;

use crate::observe::Watch;
use crate::result::Round;
use crate::rounds::{self, At, Plan, Progress, Turns};
use crate::setting::{InForce, Machine, Setting};
use crate::workload::{Gathered, Workload};
use crate::{Error, Result};

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// At least one; [`crate::setting::choose`] makes them.
    pub settings: Vec<Setting>,
    /// Turns of each setting; at least one.
    pub rounds: u32,
    /// How long a setting is in force before the workload counts.
    pub settle: Duration,
    /// Seed of the order.
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the order in which they were run.
    pub rounds: Vec<Round>,
    /// What ended the trial.
    pub ended: Ended,
    /// What a reader must know of how the machine was observed (one sentence each).
    pub notes: Vec<String>,
}

/// Runs the trial. Whatever ends it, the machine is as before.
///
/// # Errors
/// If a setting cannot be put in force or the workload does not work: before the first round, or if
/// the first turn gives no figure. Later, what was gathered is the result.
pub fn run(
    machine: &Machine,
    options: &Options,
    workload: &mut dyn Workload,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Run> {
    // What cannot be done is known before an hour of measuring.
    for setting in &options.settings {
        setting.kind.apply(machine)?.end()?;
    }
    workload.try_once()?;
    let watch = Watch::new(&machine.root, &machine.idle);
    let notes = watch.power_source().into_iter().collect();
    let online = machine.idle.cpus.iter().filter(|cpu| cpu.online);
    let mut trial = Trial {
        machine,
        options,
        workload,
        watch,
        online: online.map(|cpu| cpu.number).collect(),
        began: Instant::now(),
        is_first: true,
    };
    let plan = Plan {
        rounds: options.rounds,
        points: 1,
        settings: options.settings.len(),
        seed: options.seed,
        whole: false,
    };
    let (rounds, ended) = rounds::run(&mut trial, &plan, stop, progress)?;
    Ok(Run {
        rounds,
        ended,
        notes,
    })
}

struct Trial<'a> {
    machine: &'a Machine,
    options: &'a Options,
    workload: &'a mut dyn Workload,
    watch: Watch,
    online: Vec<u32>,
    began: Instant,
    is_first: bool,
}

impl Turns for Trial<'_> {
    type Turn = Round;

    fn name(&self, at: At) -> String {
        self.options.settings[at.setting].name.clone()
    }

    fn expected(&self, _: usize) -> Option<Duration> {
        let round = self.workload.expected()?;
        Some(round + self.options.settle)
    }

    fn begin(&self, setting: usize) -> Result<InForce> {
        self.options.settings[setting].kind.apply(self.machine)
    }

    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Round>> {
        // A CPU that sleeps in a state it may no longer use leaves it now.
        affinity::visit(&self.online);
        self.workload.settle(self.options.settle, stop);
        let began_s = self.began.elapsed().as_secs_f64();
        let before = self.watch.read();
        let gathered = self.workload.round(stop);
        let after = self.watch.read();
        let gathered = gathered?;
        let is_empty = gathered.figures.is_empty();
        if std::mem::take(&mut self.is_first) && is_empty && !stop.load(Ordering::Relaxed) {
            return Err(self.no_figure(at, &gathered));
        }
        Ok((!is_empty || gathered.failed > 0).then(|| Round {
            round: at.round,
            setting: at.setting,
            began_s,
            figures: gathered.figures,
            failed: gathered.failed,
            why_failed: gathered.why,
            reading_ns: gathered.reading_ns,
            observed: self.watch.between(&before, &after),
        }))
    }
}

impl Trial<'_> {
    fn no_figure(&self, at: At, gathered: &Gathered) -> Error {
        Error::Failed(format!(
            "{}: no figure in the first turn (setting `{}`): {}",
            self.workload.description().what,
            self.name(at),
            gathered.why.as_deref().unwrap_or("reason unknown")
        ))
    }
}

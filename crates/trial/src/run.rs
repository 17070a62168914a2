//! The trial itself: one workload under every setting, once a round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::affinity;
use reveille_results::description::Ended;

use crate::observe::Watch;
use crate::result::{Plan, Round};
use crate::rounds::{self, At, Progress, Turns};
use crate::setting::{InForce, Machine, Setting};
use crate::together;
use crate::workload::{Gathered, Workload};
use crate::{Error, Result};

/// The turns of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the order in which they were run.
    pub rounds: Vec<Round>,
    /// What ended the trial.
    pub ended: Ended,
    /// How the machine was observed, one sentence each.
    pub notes: Vec<String>,
}

/// What goes on beside a run.
pub struct Around<'a> {
    /// Counts the time in which all CPUs sleep at once.
    pub joint: Option<together::Counter<'a>>,
    /// Ends the run when it is set.
    pub stop: &'a AtomicBool,
    /// Is told how far it is.
    pub progress: &'a mut dyn FnMut(&Progress),
    /// Has the turns so far, and the notes, after each round but the last.
    pub keep: &'a mut dyn FnMut(&[Round], &[String]),
}

/// Runs the trial under at least one setting, and restores the machine.
///
/// # Errors
/// If a setting or the workload fails before the first round, or the first turn gives no figure. A later
/// failure ends the run, and its turns are the result.
pub fn run(
    machine: &Machine,
    settings: &[Setting],
    plan: &Plan,
    workload: &mut dyn Workload,
    around: Around<'_>,
) -> Result<Run> {
    let Around {
        joint,
        stop,
        progress,
        keep,
    } = around;
    // Fail now, and not after an hour of measuring.
    for setting in settings {
        setting.kind.apply(machine)?.end()?;
    }
    workload.try_once()?;
    let watch = Watch::new(&machine.root, &machine.idle, joint);
    let notes: Vec<String> = watch.power_source().into_iter().collect();
    let online = machine.idle.cpus.iter().filter(|cpu| cpu.online);
    let mut trial = Trial {
        machine,
        settings,
        settle: Duration::from_secs_f64(plan.settle_s),
        workload,
        watch,
        online: online.map(|cpu| cpu.number).collect(),
        began: Instant::now(),
        is_first: true,
        keep: &mut |rounds| keep(rounds, &notes),
    };
    let order = rounds::Plan {
        rounds: plan.rounds,
        points: 1,
        settings: settings.len(),
        seed: plan.seed,
        whole: false,
    };
    let (rounds, ended) = rounds::run(&mut trial, &order, stop, progress)?;
    Ok(Run {
        rounds,
        ended,
        notes,
    })
}

struct Trial<'a> {
    machine: &'a Machine,
    settings: &'a [Setting],
    settle: Duration,
    workload: &'a mut dyn Workload,
    watch: Watch<'a>,
    online: Vec<u32>,
    began: Instant,
    is_first: bool,
    keep: &'a mut dyn FnMut(&[Round]),
}

impl Turns for Trial<'_> {
    type Turn = Round;

    fn name(&self, at: At) -> String {
        self.settings[at.setting].name.clone()
    }

    fn expected(&self, _: usize) -> Option<Duration> {
        Some(self.workload.expected()? + self.settle)
    }

    fn begin(&self, setting: usize) -> Result<InForce> {
        self.settings[setting].kind.apply(self.machine)
    }

    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Round>> {
        // A CPU that sleeps in a state it may no longer use leaves it now.
        affinity::visit(&self.online);
        self.workload.settle(self.settle, stop);
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
            bursts: gathered.bursts,
            observed: self.watch.between(&before, &after),
        }))
    }

    fn after_round(&mut self, turns: &[Round]) {
        (self.keep)(turns);
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

//! The trial itself: one workload under every setting, once a round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::affinity;
use reveille_meter::Steady;
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
    /// Measures the power of each turn.
    pub meter: Option<Steady<'a>>,
    /// Ends the run when it is set.
    pub stop: &'a AtomicBool,
    /// Is told how far it is.
    pub progress: &'a mut dyn FnMut(&Progress),
    /// Has the turns so far, and the notes, after each round but the last.
    pub keep: &'a mut dyn FnMut(&[Round], &[String]),
}

/// Begins the message that turns are too short for the meter.
const TURN: &str = "a turn of";

/// Runs the trial under at least one setting, and restores the machine.
///
/// # Errors
/// If a setting or the workload fails before the first round, or the first turn gives no figure, or turns are too
/// short for the meter. A later failure ends the run, and its turns are the result.
pub fn run(
    machine: &Machine,
    settings: &[Setting],
    plan: &Plan,
    workload: &mut dyn Workload,
    around: Around<'_>,
) -> Result<Run> {
    let Around {
        joint,
        meter,
        stop,
        progress,
        keep,
    } = around;
    // Fail now, and not after an hour of measuring.
    for setting in settings {
        setting.kind.apply(machine)?.end()?;
    }
    if let Some((meter, turn)) = meter.as_ref().zip(workload.expected()) {
        meter.suits(TURN, turn)?;
    }
    workload.try_once()?;
    let watch = Watch::new(&machine.root, &machine.idle, joint);
    let source = watch.power_source();
    let source = source.filter(|_| meter.is_none() || watch.has_packages());
    let mut notes: Vec<String> = source.into_iter().collect();
    let online = machine.idle.cpus.iter().filter(|cpu| cpu.online);
    let mut trial = Trial {
        machine,
        settings,
        settle: Duration::from_secs_f64(plan.settle_s),
        workload,
        watch,
        meter,
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
    let is_metered = trial.meter.is_some();
    let (rounds, ended) = rounds::run(&mut trial, &order, stop, progress)?;
    let why = trial.meter.as_ref().and_then(Steady::why_failed);
    let why = why.map_or(String::new(), |why| {
        format!(", or the meter failed ({why})")
    });
    let is_unknown = |round: &&Round| round.observed.power_w.is_none();
    let unknown = rounds.iter().filter(is_unknown).count();
    if is_metered && unknown > 0 {
        notes.push(format!(
            "The power of {unknown} of {} turns is unknown: they were cut off, or too short for the meter{why}.",
            rounds.len()
        ));
    }
    Ok(Run {
        rounds,
        ended,
        notes,
    })
}

struct Trial<'a, 'm> {
    machine: &'a Machine,
    settings: &'a [Setting],
    settle: Duration,
    workload: &'a mut dyn Workload,
    watch: Watch<'a>,
    meter: Option<Steady<'m>>,
    online: Vec<u32>,
    began: Instant,
    is_first: bool,
    keep: &'a mut dyn FnMut(&[Round]),
}

impl Turns for Trial<'_, '_> {
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
        let Self {
            watch, workload, ..
        } = self;
        let mut work = || {
            let before = watch.read();
            let gathered = workload.round(stop)?;
            Ok::<_, Error>((watch.between(&before, &watch.read()), gathered))
        };
        let (observed, gathered) = match &mut self.meter {
            None => work()?,
            Some(meter) => {
                let (worked, power_w) = meter.during(stop, work);
                let (mut observed, gathered) = worked?;
                let power_w = power_w?;
                if self.is_first && power_w.is_none() && !stop.load(Ordering::Relaxed) {
                    meter.suits(TURN, Duration::from_secs_f64(observed.elapsed_s))?;
                }
                observed.by_meter(power_w, watch.has_packages());
                (observed, gathered)
            }
        };
        let is_empty = gathered.figures.is_empty();
        if std::mem::take(&mut self.is_first) && is_empty && !stop.load(Ordering::Relaxed) {
            return Err(self.no_figure(at, &gathered));
        }
        Ok((!is_empty || gathered.failed > 0).then_some(Round {
            round: at.round,
            setting: at.setting,
            began_s,
            figures: gathered.figures,
            failed: gathered.failed,
            why_failed: gathered.why,
            reading_ns: gathered.reading_ns,
            bursts: gathered.bursts,
            observed,
        }))
    }

    fn after_round(&mut self, turns: &[Round]) {
        (self.keep)(turns);
    }
}

impl Trial<'_, '_> {
    fn no_figure(&self, at: At, gathered: &Gathered) -> Error {
        Error::Failed(format!(
            "{}: no figure in the first turn (setting `{}`): {}",
            self.workload.description().what,
            self.name(at),
            gathered.why.as_deref().unwrap_or("reason unknown")
        ))
    }
}

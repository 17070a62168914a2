//! The trial itself: every setting once a round, in a new order each time.
//!
//! Settings take turns within seconds, so that what drifts (temperature, other people's work)
//! meets all of them; the order is shuffled, so that none of them always comes after the same
//! other one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::{Idle, Root, affinity};
use reveille_results::description::Ended;

use crate::observe::Watch;
use crate::result::Round;
use crate::setting::Setting;
use crate::workload::{Gathered, Workload};
use crate::{Error, Result};

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Options {
    /// At least one; [`crate::setting::choose`] makes them.
    pub settings: Vec<Setting>,
    /// How often each setting gets its turn; at least one.
    pub rounds: u32,
    /// How long the machine gets used to a setting before the workload counts.
    pub settle: Duration,
    /// Of the order.
    pub seed: u64,
    /// Where changes are kept until they are put back: `/run/reveille` but in tests.
    pub journal_folder: PathBuf,
}

/// Where the trial is. Told before each setting's turn, never while it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// From 0.
    pub round: u32,
    /// The name of the setting whose turn it is.
    pub setting: &'a str,
    /// 0 to 1.
    pub done: f64,
    /// `None` before the first turn of a workload of unknown length.
    pub left: Option<Duration>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the order in which they were run.
    pub rounds: Vec<Round>,
    /// What ended the trial.
    pub ended: Ended,
    /// What a reader must know of how the machine was watched (one sentence each).
    pub notes: Vec<String>,
}

/// Runs the trial. Whatever ends it, the machine is as before.
///
/// # Errors
/// Where a setting cannot be put in force or the workload does not work: before the first round, or
/// where the first turn gives no figure. Later, what was gathered is the result.
pub fn run(
    root: &Root,
    idle: &Idle,
    options: &Options,
    workload: &mut dyn Workload,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Run> {
    rehearse(root, idle, options)?;
    workload.try_once()?;
    let mut trial = Trial {
        root,
        idle,
        options,
        watch: Watch::new(root, idle),
        began: Instant::now(),
        rounds: Vec::new(),
    };
    let notes = trial.watch.power_source().into_iter().collect();
    let ended = trial.rounds(workload, stop, progress)?;
    Ok(Run {
        rounds: trial.rounds,
        ended,
        notes,
    })
}

/// Every setting once in force and back, so that what cannot be done is known before an hour of
/// measuring.
fn rehearse(root: &Root, idle: &Idle, options: &Options) -> Result<()> {
    for setting in &options.settings {
        let applied = setting.apply(root, idle, &options.journal_folder)?;
        if let Some(wrong) = applied.end() {
            return Err(Error::Failed(wrong));
        }
    }
    Ok(())
}

struct Trial<'a> {
    root: &'a Root,
    idle: &'a Idle,
    options: &'a Options,
    watch: Watch,
    began: Instant,
    rounds: Vec<Round>,
}

impl Trial<'_> {
    /// All rounds, or as many as there are before something ends the trial.
    fn rounds(
        &mut self,
        workload: &mut dyn Workload,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Ended> {
        let mut random = fastrand::Rng::with_seed(self.options.seed);
        let mut order: Vec<usize> = (0..self.options.settings.len()).collect();
        for round in 0..self.options.rounds {
            random.shuffle(&mut order);
            for (turn, &setting) in order.iter().enumerate() {
                progress(&self.progress(round, turn, setting, workload));
                if let Some(ended) = self.turn(round, setting, workload, stop)? {
                    return Ok(ended);
                }
            }
        }
        Ok(Ended::Completed)
    }

    /// One setting's turn. What ended the trial, if something did.
    fn turn(
        &mut self,
        round: u32,
        setting: usize,
        workload: &mut dyn Workload,
        stop: &AtomicBool,
    ) -> Result<Option<Ended>> {
        let chosen = &self.options.settings[setting];
        let applied = match chosen.apply(self.root, self.idle, &self.options.journal_folder) {
            Ok(applied) => applied,
            Err(error) if self.rounds.is_empty() => return Err(error),
            Err(error) => return Ok(Some(Ended::Disturbed(error.to_string()))),
        };
        let online: Vec<u32> = self
            .idle
            .cpus
            .iter()
            .filter(|cpu| cpu.online)
            .map(|cpu| cpu.number)
            .collect();
        // A CPU that sleeps in a state it may use no more leaves it now.
        affinity::visit(&online);
        workload.settle(self.options.settle, stop);
        let began_s = self.began.elapsed().as_secs_f64();
        let before = self.watch.read();
        let gathered = workload.round(stop);
        let after = self.watch.read();
        let interrupted = applied.interrupted();
        let left_by_others = applied.end();
        let gathered = match interrupted.map_or(gathered, |why| Err(Error::Failed(why))) {
            Ok(gathered) => gathered,
            Err(error) if self.rounds.is_empty() => return Err(error),
            Err(error) => return Ok(Some(Ended::Disturbed(error.to_string()))),
        };
        let interrupted = stop.load(Ordering::Relaxed);
        if self.rounds.is_empty() && gathered.figures.is_empty() && !interrupted {
            return Err(no_figure(workload, chosen, &gathered));
        }
        let observed = self.watch.between(&before, &after);
        if !gathered.figures.is_empty() || gathered.failed > 0 {
            self.rounds.push(Round {
                round,
                setting,
                began_s,
                figures: gathered.figures,
                failed: gathered.failed,
                why_failed: gathered.why,
                reading_ns: gathered.reading_ns,
                observed,
            });
        }
        if interrupted {
            return Ok(Some(Ended::Interrupted));
        }
        Ok(left_by_others.map(Ended::Disturbed))
    }

    fn progress<'a>(
        &'a self,
        round: u32,
        turn: usize,
        setting: usize,
        workload: &dyn Workload,
    ) -> Progress<'a> {
        let settings = self.options.settings.len();
        let all = f64::from(self.options.rounds) * settings as f64;
        let done = f64::from(round) * settings as f64 + turn as f64;
        // What turns have really taken; before the first one, what is expected.
        let one = match done > 0.0 {
            true => Some(self.began.elapsed().div_f64(done)),
            false => workload.expected().map(|round| round + self.options.settle),
        };
        Progress {
            round,
            setting: &self.options.settings[setting].name,
            done: done / all,
            left: one.map(|one| one.mul_f64(all - done)),
        }
    }
}

fn no_figure(workload: &dyn Workload, setting: &Setting, gathered: &Gathered) -> Error {
    Error::Failed(format!(
        "{}: gave no figure in the first turn (setting `{}`): {}",
        workload.description().what,
        setting.name,
        gathered.why.as_deref().unwrap_or("it said nothing of why")
    ))
}

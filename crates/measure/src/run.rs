//! A run's options, state and outcome. [`measure()`] is the whole run; [`by_bpf`] and [`by_thread`] are its
//! two probes.

mod bound;
#[cfg(feature = "bpf")]
mod by_bpf;
#[cfg(not(feature = "bpf"))]
mod without_bpf;
#[cfg(not(feature = "bpf"))]
use without_bpf as by_bpf;
mod by_thread;
mod measure;
#[cfg(feature = "bpf")]
mod periods;

pub use by_bpf::try_bpf;
pub use measure::measure;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::{Idle, IdleState, Journal, Root, limits};
use reveille_results::Datapoint;
use reveille_results::description::{Characterisation, Counts, Ended, Probe};

use self::bound::Bound;
use crate::distance::{DRAWN, LIMITS_NS};
use crate::placement::Elsewhere;
use crate::{Distances, Error, Result};

/// The reader's interval.
const BATCH: Duration = Duration::from_millis(100);

/// Reason of most drops on a busy CPU.
const NOT_IDLE: &str = "not idle at the launch";

/// Reason of a drop in the last batch.
const BEYOND: &str = "beyond the number asked for";

/// A phase without a time limit ends after this time without a datapoint: the CPU is never idle.
const NOTHING_KEPT: Duration = Duration::from_secs(20);

const FLOOR_GOAL: Goal = Goal {
    datapoints: Some(1000),
    duration: Some(Duration::from_secs(1)),
};
const FLOOR_PHASE: &str = "measuring the floor, without sleep";
/// Short distances: without sleep the silent time does not matter.
const FLOOR_DISTANCES: Distances = Distances {
    min_ns: 100_000,
    max_ns: 1_000_000,
};

/// How distances are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Protocol {
    /// Log-uniform over the range.
    Random,
    /// The thesis's: fixed distances, each `factor` times the previous one.
    Sweep {
        /// Datapoints at each distance.
        datapoints: u64,
        /// Above 1.
        factor: f64,
    },
}

impl Protocol {
    /// The launch distances by default; a sweep's are the thesis's (chapter 4.7).
    pub fn default_distances(&self) -> Distances {
        let min_ns = match self {
            Self::Random => 100_000,
            Self::Sweep { .. } => 300_000,
        };
        Distances {
            min_ns,
            max_ns: 8_000_000,
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of the CPU to measure.
    pub cpu: u32,
    /// [`Probe::Bpf`] or [`Probe::User`]; `None`: BPF if available.
    pub probe: Option<Probe>,
    /// Names of sources, measured in turn.
    pub sources: Vec<String>,
    /// The total number of datapoints after which the run ends.
    pub datapoints: Option<u64>,
    /// The time of measuring after which the run ends.
    pub duration: Option<Duration>,
    /// The time from arming an event to its launch time.
    pub distances: Distances,
    /// How a distance is chosen for each launch.
    pub protocol: Protocol,
    /// Deepest idle state allowed, by name, in turn; empty: as the machine is set.
    pub deepest: Vec<String>,
    /// Take all other CPUs offline meanwhile, except the reader's.
    pub offline_others: bool,
    /// Seed of the random distances.
    pub seed: u64,
    /// Where the journal of changed settings is kept.
    pub journal_folder: std::path::PathBuf,
}

impl Options {
    /// The time of measuring, unless a number of datapoints or a sweep ends the run.
    pub const DEFAULT_DURATION: Duration = Duration::from_secs(30);
}

/// The progress of a run.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// The current phase, in words.
    pub phase: &'a str,
    /// Datapoints so far, of all phases.
    pub kept: u64,
    /// Datapoints so far, by the requested idle state's name.
    pub by_state: &'a BTreeMap<String, u64>,
    /// The share of the run that is done, 0 to 1.
    pub done: f64,
    /// Datapoints per second of measuring, so far.
    pub rate: f64,
    /// Estimated time left.
    pub left: Option<Duration>,
}

/// A message for the user during the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(pub String);

/// Receives a run's datapoints and messages.
pub trait Sink {
    /// Called before the first datapoint, with the outcome so far, including the columns of shares.
    fn begin(&mut self, so_far: &Outcome) -> Result<()>;
    /// Called for each datapoint. An error ends the run; earlier datapoints are kept.
    fn datapoint(&mut self, datapoint: &Datapoint) -> Result<()>;
    /// Called about ten times a second during the measurement.
    fn progress(&mut self, progress: &Progress<'_>);
    /// Called for each notice.
    fn notice(&mut self, notice: Notice);
}

/// The outcome of a run, without its datapoints.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// [`Probe::Bpf`] or [`Probe::User`].
    pub probe: Probe,
    /// CLOCK_MONOTONIC at the start of the run, ns: the zero of the datapoints' times.
    pub started_ns: u64,
    /// Why the run ended.
    pub ended: Ended,
    /// The cost of the probes' own steps, measured before the run.
    pub characterisation: Characterisation,
    /// Launches, datapoints and drops by reason.
    pub counts: Counts,
    /// Columns of shares of time in hardware states: `cc6_percent`, ...; empty if none can be
    /// counted.
    pub residency_columns: Vec<String>,
    /// The driver's table of the measured CPU, as it was before the run.
    pub idle: Idle,
    /// How each source was armed, in the order of the sources.
    pub arming: Vec<String>,
    /// Notes for readers of the result, one sentence each.
    pub notes: Vec<String>,
}

struct Run<'a> {
    root: &'a Root,
    options: &'a Options,
    sink: &'a mut dyn Sink,
    interrupted: &'a AtomicBool,
    /// Settings changed for the whole run.
    journal: Journal,
    /// The idle states that a phase allows.
    limits: Journal,
    states: Vec<IdleState>,
    /// Where the run's own threads may be; empty if only the measured CPU is usable.
    elsewhere: Vec<u32>,
    /// Indices of the deepest states, in turn; `None`: as the machine is set.
    deepest: Vec<Option<u32>>,
    /// Since the first datapoint after the characterisation.
    measuring_since: Option<Instant>,
    /// Time spent in phases so far.
    measured: Duration,
    phases: usize,
    finished: usize,
    governor: Option<String>,
    /// The latency bound on the measured CPU before the run set anything.
    bound: Option<Bound>,
    by_state: BTreeMap<String, u64>,
    /// The sink failed, as on a full disk.
    sink_failed: bool,
    /// [`Sink::begin`] was called: from here on datapoints are kept.
    begun: bool,
    /// Why a phase ended before its goal. The others are measured nevertheless.
    gave_up: Option<String>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn prepare(
        root: &'a Root,
        options: &'a Options,
        sink: &'a mut dyn Sink,
        interrupted: &'a AtomicBool,
    ) -> Result<Self> {
        let idle = Idle::read(root)?;
        let states = check(&idle, options)?;
        let deepest = match options.deepest.as_slice() {
            [] => vec![None],
            names => names
                .iter()
                .map(|name| Ok(Some(limits::by_name(&states, options.cpu, name)?.index)))
                .collect::<Result<_>>()?,
        };
        let steps = match &options.protocol {
            Protocol::Random => 1,
            Protocol::Sweep { factor, .. } => options.distances.steps(*factor)?.len(),
        };
        let phases = options.sources.len() * deepest.len() * steps;
        let mut run = Self {
            root,
            options,
            sink,
            sink_failed: false,
            interrupted,
            journal: Journal::new(root, &options.journal_folder),
            limits: Journal::new(root, &options.journal_folder),
            states,
            elsewhere: Vec::new(),
            deepest,
            measuring_since: None,
            measured: Duration::ZERO,
            phases,
            finished: 0,
            governor: root.text("/sys/devices/system/cpu/cpuidle/current_governor"),
            bound: Bound::in_force(root, options.cpu),
            by_state: BTreeMap::new(),
            begun: false,
            gave_up: None,
            outcome: Outcome {
                probe: options.probe.unwrap_or(Probe::Bpf),
                started_ns: reveille_kernel::now_ns(),
                ended: Ended::Completed,
                characterisation: Characterisation::default(),
                counts: Counts::default(),
                residency_columns: Vec::new(),
                idle,
                arming: Vec::new(),
                notes: Vec::new(),
            },
        };
        if let Some(bound) = &run.bound {
            run.note(bound.note(options.cpu));
        }
        run.go_elsewhere()?;
        if options.offline_others {
            run.take_others_offline()?;
        }
        Ok(run)
    }

    /// Moves this thread off the measured CPU and its core.
    fn go_elsewhere(&mut self) -> Result<()> {
        let cpu = self.options.cpu;
        let elsewhere = Elsewhere::than(cpu, &self.outcome.idle);
        elsewhere.go()?;
        if elsewhere.cpus.is_empty() {
            self.note("the reader runs on the measured CPU: no other is usable");
        } else if elsewhere.same_core == Some(true) {
            self.note(format!(
                "the reader runs on CPU {}, which shares its core with CPU {cpu}, because no CPU \
                 of another core is usable: the core is awake when it reads, about ten times a \
                 second",
                reveille_kernel::cpulist::format(&elsewhere.cpus)
            ));
        }
        self.elsewhere = elsewhere.cpus;
        Ok(())
    }

    /// Ends the run normally if the error is a consequence of what ended it, or there are datapoints.
    fn failed(&mut self, error: Error) -> Result<()> {
        if !self.begun || self.sink_failed {
            return Err(error);
        }
        if matches!(self.outcome.ended, Ended::Disturbed(_)) {
            return Ok(());
        }
        // No thread can be bound to an offline CPU; report that cause.
        match self.disturbance() {
            Some(why) => self.end_early(why),
            None if self.outcome.counts.kept > 0 => self.end_early(error.to_string()),
            None => return Err(error),
        }
        Ok(())
    }

    /// Compares the latency bounds at the start and at the end, unless the CPU or the governor
    /// changed, because then no bound may be in force.
    fn compare_bounds(&mut self) {
        if matches!(self.outcome.ended, Ended::Disturbed(_)) {
            return;
        }
        let cpu = self.options.cpu;
        let end = Bound::in_force(self.root, cpu);
        if let Some(changed) = bound::change(cpu, self.bound.as_ref(), end.as_ref()) {
            self.note(changed);
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.sink.begin(&self.outcome)?;
        self.begun = true;
        Ok(())
    }

    /// Ends the run for a reason other than the user or the goal.
    fn end_early(&mut self, why: String) {
        if self.outcome.ended == Ended::Completed {
            self.note(format!("ended early: {why}"));
            self.outcome.ended = Ended::Disturbed(why);
        }
    }

    fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.outcome.notes.contains(&text) {
            self.sink.notice(Notice(text.clone()));
            self.outcome.notes.push(text);
        }
    }

    /// Takes all CPUs but the measured one and the reader's offline: an offline CPU rests in its
    /// deepest state and takes no interrupts.
    fn take_others_offline(&mut self) -> Result<()> {
        let keep = self.elsewhere.first().copied();
        let online = self.outcome.idle.cpus.iter().filter(|cpu| cpu.online);
        let others = online.map(|cpu| cpu.number);
        let others = others.filter(|&cpu| cpu != self.options.cpu && Some(cpu) != keep);
        // The boot CPU usually lacks the file.
        let file = |cpu: &u32| format!("/sys/devices/system/cpu/cpu{cpu}/online");
        let offline: Vec<u32> = others
            .filter(|cpu| self.root.path(&file(cpu)).exists())
            .collect();
        if offline.is_empty() {
            self.note("no other CPU was taken offline: only the reader's is left");
            return Ok(());
        }
        self.journal.take_offline(&offline)
    }

    fn report(&mut self, phase: &str, done: f64) {
        // Phases have equal durations or equal numbers of datapoints.
        let whole = self.phases.max(1) as f64;
        let done = (self.finished as f64 + done) / whole;
        let kept = self.outcome.counts.kept;
        let measured = self
            .measuring_since
            .map_or(Duration::ZERO, |since| since.elapsed());
        let left = measured.mul_f64((1.0 - done).max(0.0) / done.max(1e-3));
        self.sink.progress(&Progress {
            phase,
            kept,
            by_state: &self.by_state,
            done: done.min(1.0),
            rate: kept as f64 / measured.as_secs_f64().max(1e-3),
            left: (kept > 0).then_some(left),
        });
    }

    fn keep(&mut self, datapoint: &Datapoint) -> Result<()> {
        let kept = self.sink.datapoint(datapoint);
        self.sink_failed = kept.is_err();
        kept?;
        self.outcome.counts.kept += 1;
        self.measuring_since.get_or_insert_with(Instant::now);
        let state = datapoint.requested_state.as_deref().unwrap_or("unknown");
        match self.by_state.get_mut(state) {
            Some(count) => *count += 1,
            None => {
                self.by_state.insert(state.to_owned(), 1);
            }
        }
        Ok(())
    }

    /// Sets the deepest state of a phase and returns the phase's name.
    fn allow(&mut self, deepest: Option<u32>) -> Result<String> {
        let Some(index) = deepest else {
            return Ok("measuring".into());
        };
        self.limits.restore(); // of the previous phase; failures stay in the journal
        let cpu = self.options.cpu;
        limits::allow_up_to(&mut self.limits, self.root, cpu, &self.states, index)?;
        let state = self.states.iter().find(|state| state.index == index);
        let name = &state.expect("checked").name;
        Ok(format!("measuring, {name} is the deepest allowed"))
    }

    /// All phases of one source; true if the run is over.
    fn each_phase(
        &mut self,
        gather: &mut dyn FnMut(&mut Self, Step<'_>) -> Gathered,
    ) -> Result<bool> {
        for deepest in self.deepest.clone() {
            let phase = self.allow(deepest)?;
            for (distances, goal) in self.steps() {
                let entries = self.cpuidle_entries();
                let gathered = gather(self, (&phase, &distances, goal));
                // Read after the last period with a datapoint was over.
                self.compare(gathered.periods, entries, self.cpuidle_entries());
                if let Some(why) = &gathered.gave_up {
                    self.gave_up.get_or_insert(why.clone());
                }
                self.account(&gathered, mean(&distances));
                gathered.result?;
                if self.over() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Adds a step's launches, drops and possible launches to the counts.
    fn account(&mut self, gathered: &Gathered, mean_ns: f64) {
        self.measured += gathered.elapsed;
        self.finished += 1;
        let counts = &mut self.outcome.counts;
        counts.launched += gathered.launched;
        for (reason, count) in gathered.dropped.iter().filter(|(_, count)| *count > 0) {
            *counts.dropped.entry((*reason).into()).or_default() += count;
        }
        let possible = gathered.elapsed.as_nanos() as f64 / mean_ns;
        *counts.possible.get_or_insert(0) += possible as u64;
    }

    /// Idle entries of the measured CPU by cpuidle: `usage`, and `rejected` by hardware or firmware.
    fn cpuidle_entries(&self) -> Option<u64> {
        let cpu = self.options.cpu;
        let of = |state: &IdleState| {
            let folder = format!(
                "/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{}",
                state.index
            );
            let rejected = self.root.number(&format!("{folder}/rejected"));
            Some(self.root.number(&format!("{folder}/usage"))? + rejected.unwrap_or(0))
        };
        let entries = self.states.iter().map(of);
        entries.reduce(|sum, more| Some(sum? + more?))?
    }

    /// The second method: compares the idle periods with datapoints with the increase of cpuidle's
    /// counts over the phase.
    fn compare(&mut self, periods: u64, before: Option<u64>, after: Option<u64>) {
        let cpu = self.options.cpu;
        let counts = &mut self.outcome.counts;
        counts.idle_periods += periods;
        // Lower than before: the CPU was offline meanwhile, and the counts were reset.
        let rose = before
            .zip(after)
            .and_then(|(before, after)| after.checked_sub(before));
        let first = self.finished == 0;
        counts.cpuidle_entries = match counts.cpuidle_entries {
            None if first => rose,
            sum => sum.zip(rose).map(|(sum, rose)| sum + rose),
        };
        if let Some(why) = rose.and_then(|rose| contradiction(cpu, periods, rose)) {
            self.note(why);
        }
    }

    /// Whether the run ends here, because of the user or a disturbance.
    fn over(&mut self) -> bool {
        if self.interrupted.load(Ordering::Relaxed) {
            self.outcome.ended = Ended::Interrupted;
            return true;
        }
        if self.outcome.ended == Ended::Completed
            && let Some(why) = self.disturbance()
        {
            self.end_early(why);
        }
        self.outcome.ended != Ended::Completed
    }

    /// A change of the machine that ends the run.
    fn disturbance(&self) -> Option<String> {
        let cpu = self.options.cpu;
        let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        if self.root.number(&online) == Some(0) {
            return Some(format!("CPU {cpu} went offline"));
        }
        let governor = self
            .root
            .text("/sys/devices/system/cpu/cpuidle/current_governor");
        if governor.is_some() && governor != self.governor {
            return Some(format!(
                "the cpuidle governor changed from {} to {}",
                self.governor.as_deref().unwrap_or("none"),
                governor.as_deref().unwrap_or("none")
            ));
        }
        None
    }

    /// Distances and goal of each step of the protocol.
    fn steps(&self) -> Vec<(Vec<u64>, Goal)> {
        let share = |total: u64| total.div_ceil(self.phases as u64);
        let duration = self.options.duration;
        let duration = duration.map(|total| total / self.phases as u32);
        match &self.options.protocol {
            Protocol::Random => {
                let goal = Goal {
                    datapoints: self.options.datapoints.map(share),
                    duration,
                };
                vec![(self.options.distances.draw(DRAWN, self.options.seed), goal)]
            }
            Protocol::Sweep { datapoints, factor } => {
                let steps = self.options.distances.steps(*factor);
                let steps = steps.expect("checked").into_iter();
                let goal = Goal {
                    datapoints: Some(self.options.datapoints.map_or(*datapoints, share)),
                    duration,
                };
                steps.map(|step| (vec![step], goal)).collect()
            }
        }
    }
}

/// When a phase ends by itself.
#[derive(Debug, Clone, Copy)]
struct Goal {
    datapoints: Option<u64>,
    duration: Option<Duration>,
}

/// A step of a phase: the phase's name, the launch distances, and when it ends.
type Step<'a> = (&'a str, &'a [u64], Goal);

/// The outcome of a step.
struct Gathered {
    launched: u64,
    dropped: Vec<(&'static str, u64)>,
    /// Idle periods that are over and have datapoints.
    periods: u64,
    /// Why it ended before its goal, for lack of datapoints.
    gave_up: Option<String>,
    elapsed: Duration,
    result: Result<()>,
}

impl Goal {
    /// The share of it that is done.
    fn done(&self, taken: u64, elapsed: Duration) -> f64 {
        let by_count = self.datapoints.map(|goal| taken as f64 / goal as f64);
        let by_time = self.duration.map(|goal| elapsed.div_duration_f64(goal));
        by_count.unwrap_or(0.0).max(by_time.unwrap_or(0.0)).min(1.0)
    }

    /// Why a phase ended before its goal.
    fn missed(&self, taken: u64, why: &str) -> String {
        match self.datapoints {
            Some(goal) => format!("{taken} of {goal} datapoints: {why}"),
            None => why.to_owned(),
        }
    }

    /// How long to wait for the next batch.
    fn next_batch(&self, elapsed: Duration) -> Duration {
        self.duration
            .map_or(BATCH, |goal| BATCH.min(goal.saturating_sub(elapsed)))
    }
}

/// Waits for the next batch, unless the user has interrupted.
fn rest(time: Duration, interrupted: &AtomicBool) {
    if !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(time);
    }
}

/// Checks the options before anything is changed; returns the measured CPU's idle states.
fn check(idle: &Idle, options: &Options) -> Result<Vec<IdleState>> {
    let number = options.cpu;
    let Some(cpu) = idle.cpu(number) else {
        return Err(idle.no_cpu(number));
    };
    if !cpu.online {
        return Err(Error::Usage(format!(
            "CPU {number} is offline; choose another or bring it online"
        )));
    }
    let distances = options.distances;
    for distance in [distances.min_ns, distances.max_ns] {
        if !LIMITS_NS.contains(&distance) {
            return Err(Error::Usage(format!(
                "invalid launch distance {} µs: valid are {} µs to {} s",
                distance as f64 / 1e3,
                *LIMITS_NS.start() as f64 / 1e3,
                *LIMITS_NS.end() as f64 / 1e9
            )));
        }
    }
    if let Protocol::Sweep { datapoints, factor } = options.protocol {
        options.distances.steps(factor)?;
        if datapoints == 0 {
            return Err(Error::Usage(
                "invalid sweep: each step needs at least 1 datapoint".into(),
            ));
        }
    }
    if options.datapoints == Some(0) || options.duration == Some(Duration::ZERO) {
        return Err(Error::Usage(
            "0 datapoints or 0 seconds: there is nothing to measure".into(),
        ));
    }
    Ok(cpu.states.clone())
}

/// A note if cpuidle counts fewer idle entries than there are periods with datapoints.
fn contradiction(cpu: u32, periods: u64, rose: u64) -> Option<String> {
    (rose < periods).then(|| {
        format!(
            "the second method contradicts: there are datapoints of {periods} idle periods of CPU \
             {cpu}, but cpuidle counts {rose} idle entries; do not rely on this result unless the \
             kernel idles without cpuidle there (idle=poll)"
        )
    })
}

/// The mean distance, ns.
fn mean(distances: &[u64]) -> f64 {
    distances.iter().sum::<u64>() as f64 / distances.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_starts_at_300_us_by_default_and_other_distances_at_100_us() {
        let sweep = Protocol::Sweep {
            datapoints: 1500,
            factor: 1.1,
        };
        let range = |protocol: Protocol| {
            let Distances { min_ns, max_ns } = protocol.default_distances();
            (min_ns, max_ns)
        };
        assert_eq!(range(sweep), (300_000, 8_000_000));
        assert_eq!(range(Protocol::Random), (100_000, 8_000_000));
    }

    #[test]
    fn fewer_idle_entries_than_datapoints_is_reported() {
        assert_eq!(contradiction(1, 7, 7), None);
        assert_eq!(contradiction(1, 0, 0), None);
        let note = contradiction(1, 1000, 7).unwrap();
        assert!(note.contains("1000 idle periods of CPU 1"), "{note}");
        assert!(note.contains("counts 7 idle entries"), "{note}");
    }
}

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
mod so_far;
mod turns;

pub use by_bpf::try_bpf;
pub use measure::measure;
pub use so_far::SoFar;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::{Idle, IdleState, Journal, Root, interrupts, limits};
use reveille_results::Datapoint;
use reveille_results::description::{Characterisation, Counts, Ended, NOT_IDLE, Probe};
use reveille_show::{progress, quantity};

use self::bound::Bound;
use self::so_far::Launches;
use self::turns::Order;
use crate::distance::{DRAWN, LIMITS_NS};
use crate::placement::Elsewhere;
use crate::{Distances, Error, Result};

/// The reader's interval.
const BATCH: Duration = Duration::from_millis(100);

/// Reason of a drop in the last batch.
const BEYOND: &str = "beyond the number asked for";

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
    /// Names of sources. Several take turns in rounds, in each idle state or at each distance of a sweep.
    pub sources: Vec<String>,
    /// The total number of datapoints after which the run ends.
    pub datapoints: Option<u64>,
    /// The time of measuring after which the run ends.
    pub duration: Option<Duration>,
    /// The time without a datapoint after which a phase without a time limit ends: the CPU is never idle.
    pub patience: Duration,
    /// The time from arming an event to its launch time.
    pub distances: Distances,
    /// How a distance is chosen for each launch.
    pub protocol: Protocol,
    /// Deepest idle state allowed, by name, in turn; empty: as the machine is set.
    pub deepest: Vec<String>,
    /// The pin of the network card that may be switched for the source `nic`: an electrical output.
    pub nic_pin: Option<String>,
    /// How many bytes are read on the measured CPU before each of its idle periods, so that the wake-up meets cold
    /// caches; 0: none. At most [`Options::MOST_COLD_BYTES`], and only by BPF.
    pub cold_bytes: u64,
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
    /// Programs that take a CPU for seconds leave it again.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(20);
    /// Larger than any cache; interrupts are off while it is read, for tens of milliseconds.
    pub const MOST_COLD_BYTES: u64 = 1 << 30;
}

/// The progress of a run.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// The current phase, in words.
    pub phase: &'a str,
    /// Datapoints so far, of all phases.
    pub kept: u64,
    /// Datapoints so far, by the requested idle state's name.
    pub by_state: &'a BTreeMap<String, SoFar>,
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
    /// The order of the sources.
    order: Order,
    /// The number of the next round, from 0.
    next_round: u32,
    /// The current round, if there are several sources.
    round: Option<u32>,
    /// Settings changed for the whole run.
    journal: Journal,
    /// The idle states that a phase allows.
    limits: Journal,
    states: Vec<IdleState>,
    /// Where the run's own threads may be; empty if only the measured CPU is usable.
    elsewhere: Vec<u32>,
    /// Indices of the deepest states, in turn; `None`: as the machine is set.
    deepest: Vec<Option<u32>>,
    /// Time spent in phases so far.
    measured: Duration,
    phases: usize,
    finished: usize,
    /// How long measuring takes if every launch is kept.
    expected: Duration,
    /// How long the finished steps were expected to take, s.
    finished_s: f64,
    /// How long the current step is expected to take, s; 0 while nothing is measured.
    step_s: f64,
    /// Since the first step began.
    steps_since: Option<Instant>,
    /// The warning was given.
    has_warned: bool,
    governor: Option<String>,
    /// The latency bound on the measured CPU before the run set anything.
    bound: Option<Bound>,
    by_state: BTreeMap<String, SoFar>,
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
            order: Order::new(options.sources.len().max(1), options.seed),
            next_round: 0,
            round: None,
            journal: Journal::new(root, &options.journal_folder),
            limits: Journal::new(root, &options.journal_folder),
            states,
            elsewhere: Vec::new(),
            deepest,
            measured: Duration::ZERO,
            phases,
            finished: 0,
            expected: Duration::ZERO,
            finished_s: 0.0,
            step_s: 0.0,
            steps_since: None,
            has_warned: false,
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
        run.expected = run.expected();
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
        let done = self.done(done);
        let kept = self.outcome.counts.kept;
        self.sink.progress(&Progress {
            phase,
            kept,
            by_state: &self.by_state,
            done,
            rate: kept as f64 / self.elapsed().as_secs_f64().max(1e-3),
            left: self.left(done),
        });
    }

    /// The share of the run that is done, `of_step` of the current step.
    fn done(&self, of_step: f64) -> f64 {
        let all_s = self.expected.as_secs_f64().max(1e-9);
        ((self.finished_s + of_step * self.step_s) / all_s).min(1.0)
    }

    /// The time left at the pace so far, which is that of the datapoints kept.
    fn left(&self, done: f64) -> Option<Duration> {
        let left = self.elapsed().mul_f64((1.0 - done) / done.max(1e-3));
        (self.outcome.counts.kept > 0).then_some(left)
    }

    /// Since the first step, as `done` is: the first datapoint may be long in coming.
    fn elapsed(&self) -> Duration {
        self.steps_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn expected(&self) -> Duration {
        let steps = self.steps();
        let steps = steps
            .iter()
            .map(|(distances, goal)| goal.expected(distances));
        let turns = self.options.sources.len() * self.deepest.len();
        steps.sum::<Duration>() * turns as u32
    }

    /// Announces the duration of a long run.
    fn announce(&mut self) {
        let takes = match self.options.duration {
            Some(_) => "measuring takes up to",
            None => "measuring takes at least",
        };
        let words = progress::announcement(takes, self.expected);
        words
            .into_iter()
            .for_each(|words| self.sink.notice(Notice(words)));
    }

    /// Warns once that few launches are kept, and why. `launches` are those of the current step.
    fn warn_if_scarce(&mut self, of_step: f64, launches: impl FnOnce() -> Launches) {
        let is_early = self
            .steps_since
            .is_none_or(|since| since.elapsed() < so_far::JUDGED_AFTER);
        if is_early || self.step_s == 0.0 || self.has_warned {
            return;
        }
        let mut all = launches();
        let counts = &self.outcome.counts;
        all.kept = counts.kept;
        all.launched += counts.launched;
        for (reason, dropped) in &counts.dropped {
            *all.dropped.entry(reason.clone()).or_default() += dropped;
        }
        if all.are_scarcely_kept() {
            self.has_warned = true;
            let online = self.outcome.idle.cpus.iter().filter(|cpu| cpu.online);
            let online: Vec<u32> = online.map(|cpu| cpu.number).collect();
            let quieter = interrupts::quiet_cpu(self.root, &online);
            let left = self.left(self.done(of_step));
            let words = all.warning(self.options.cpu, quieter, left);
            self.sink.notice(Notice(words));
        }
    }

    fn keep(&mut self, mut datapoint: Datapoint) -> Result<()> {
        datapoint.round = self.round;
        let kept = self.sink.datapoint(&datapoint);
        self.sink_failed = kept.is_err();
        kept?;
        self.outcome.counts.kept += 1;
        let state = datapoint.requested_state.as_deref().unwrap_or("unknown");
        if !self.by_state.contains_key(state) {
            self.by_state.insert(state.to_owned(), SoFar::default());
        }
        let so_far = self.by_state.get_mut(state).expect("just inserted");
        so_far.add(datapoint.wake_latency_ns);
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

    /// All phases. In each step of one, the sources take turns: `gather` is given the number of the source.
    fn each_phase(
        &mut self,
        gather: &mut dyn FnMut(&mut Self, usize, Step<'_>) -> Result<Gathered>,
    ) -> Result<()> {
        for deepest in self.deepest.clone() {
            let phase = self.allow(deepest)?;
            self.steps_since.get_or_insert_with(Instant::now);
            let steps = self.steps();
            let of = steps.len();
            for (place, (distances, goal)) in steps.into_iter().enumerate() {
                let phase = match (&self.options.protocol, distances.first()) {
                    (Protocol::Sweep { .. }, Some(distance)) => {
                        let distance = quantity::duration(*distance as f64);
                        format!("{phase}, {distance} ahead ({}/{of})", place + 1)
                    }
                    _ => phase.clone(),
                };
                if self.rounds(&phase, &distances, goal, gather)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A step: one turn of each source in each round; true if the run is over.
    fn rounds(
        &mut self,
        phase: &str,
        distances: &[u64],
        goal: Goal,
        gather: &mut dyn FnMut(&mut Self, usize, Step<'_>) -> Result<Gathered>,
    ) -> Result<bool> {
        let names = &self.options.sources;
        // The steps of a sweep are short: each is a round.
        let rounds = match self.options.protocol {
            Protocol::Random => turns::rounds(names.len(), goal.expected(distances)),
            Protocol::Sweep { .. } => 1,
        };
        let mut gave_up = vec![false; names.len()];
        for round in 0..rounds {
            let turn = goal.of_round(round, rounds);
            if names.len() > 1 {
                self.round = Some(self.next_round);
                self.next_round += 1;
            }
            for source in self.order.next_round() {
                if gave_up[source] {
                    continue;
                }
                let phase = match self.round {
                    Some(_) => format!("{phase}, {} ({}/{rounds})", names[source], round + 1),
                    None => phase.to_owned(),
                };
                self.step_s = turn.expected(distances).as_secs_f64();
                let entries = self.cpuidle_entries();
                let gathered = gather(self, source, (&phase, distances, turn))?;
                // Read after the last period with a datapoint was over.
                self.compare(gathered.periods, entries, self.cpuidle_entries());
                gave_up[source] = gathered.gave_up.is_some();
                if let Some(why) = &gathered.gave_up {
                    self.gave_up.get_or_insert(why.clone());
                }
                self.account(&gathered, mean(distances));
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
        self.finished_s += std::mem::take(&mut self.step_s);
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
    /// That of round `round` of `rounds`: together they have the whole.
    fn of_round(&self, round: u64, rounds: u64) -> Self {
        let up_to = |all: u64, round: u64| {
            (u128::from(all) * u128::from(round) / u128::from(rounds)) as u64
        };
        Self {
            datapoints: (self.datapoints)
                .map(|all| (up_to(all, round + 1) - up_to(all, round)).max(1)),
            duration: self.duration.map(|all| all.div_f64(rounds as f64)),
        }
    }

    /// How long it takes to reach if every launch at these distances is kept.
    fn expected(&self, distances: &[u64]) -> Duration {
        let by_count = self
            .datapoints
            .map(|goal| Duration::from_nanos((goal as f64 * mean(distances)) as u64));
        let both = by_count.into_iter().chain(self.duration);
        both.min().unwrap_or_default()
    }

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

/// Drops by reason, without those that did not happen.
fn by_reason(dropped: Vec<(&'static str, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (reason, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
        *sums.entry(reason.to_owned()).or_default() += count;
    }
    sums
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
            "0 datapoints or 0 seconds: nothing to measure".into(),
        ));
    }
    for (kind, of_one) in [("reply:", "card and neighbour"), ("nic:", "card")] {
        let named = options.sources.iter();
        if named.filter(|name| name.starts_with(kind)).count() > 1 {
            let source = kind.trim_end_matches(':');
            return Err(Error::Usage(format!(
                "source {source}: only one {of_one} in a run, since results do not tell two apart"
            )));
        }
    }
    if options.cold_bytes > Options::MOST_COLD_BYTES {
        return Err(Error::Usage("cold caches: at most 1 GiB".into()));
    }
    if options.cold_bytes > 0 && options.probe == Some(Probe::User) {
        return Err(Error::Usage(
            "cold caches need the BPF probe; leave out --probe user".into(),
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
    fn a_step_takes_its_datapoints_times_its_distance_or_its_time_if_that_is_shorter() {
        let goal = |datapoints, seconds: Option<u64>| Goal {
            datapoints,
            duration: seconds.map(Duration::from_secs),
        };
        let distances = [1_000_000, 3_000_000];
        let of = |goal: Goal| goal.expected(&distances).as_secs_f64();
        assert_eq!(of(goal(Some(1000), None)), 2.0);
        assert_eq!(of(goal(None, Some(30))), 30.0);
        assert_eq!(of(goal(Some(1000), Some(30))), 2.0);
        assert_eq!(of(goal(Some(1000), Some(1))), 1.0);
        assert_eq!(of(goal(None, None)), 0.0);
    }

    #[derive(Default)]
    struct Said(Vec<String>, Vec<f64>, Vec<Option<Duration>>);

    impl Sink for Said {
        fn begin(&mut self, _: &Outcome) -> Result<()> {
            Ok(())
        }
        fn datapoint(&mut self, _: &Datapoint) -> Result<()> {
            Ok(())
        }
        fn progress(&mut self, progress: &Progress<'_>) {
            self.1.push(progress.done);
            self.2.push(progress.left);
        }
        fn notice(&mut self, notice: Notice) {
            self.0.push(notice.0);
        }
    }

    /// A machine of one CPU, with these options changed.
    fn with_run(change: impl FnOnce(&mut Options), look: impl FnOnce(&mut Run<'_>)) -> Said {
        let folder = tempfile::tempdir().unwrap();
        let cpus = folder.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpus).unwrap();
        for file in ["present", "online"] {
            std::fs::write(cpus.join(file), "0\n").unwrap();
        }
        let mut options = Options {
            cpu: 0,
            probe: Some(Probe::User),
            sources: vec!["timer".into()],
            datapoints: None,
            duration: None,
            patience: Options::DEFAULT_PATIENCE,
            distances: Protocol::Random.default_distances(),
            protocol: Protocol::Random,
            deepest: Vec::new(),
            nic_pin: None,
            cold_bytes: 0,
            offline_others: false,
            seed: 1,
            journal_folder: folder.path().join("journal"),
        };
        change(&mut options);
        let (root, mut said) = (Root::at(folder.path()), Said::default());
        let interrupted = AtomicBool::new(false);
        let mut run = Run::prepare(&root, &options, &mut said, &interrupted).unwrap();
        look(&mut run);
        drop(run);
        said
    }

    fn nothing() -> Gathered {
        Gathered {
            launched: 0,
            dropped: Vec::new(),
            periods: 0,
            gave_up: None,
            elapsed: Duration::ZERO,
            result: Ok(()),
        }
    }

    /// The turns of two sources: state, round and source.
    fn turns(
        change: impl FnOnce(&mut Options),
        gather: impl Fn(usize) -> Gathered,
    ) -> Vec<(String, Option<u32>, usize)> {
        let mut turns = Vec::new();
        with_run(
            |options| {
                options.sources = vec!["timer".into(), "remote".into()];
                options.duration = Some(Duration::from_secs(4));
                change(options);
            },
            |run| {
                let gathered = run.each_phase(&mut |run, source, (phase, ..)| {
                    turns.push((phase.to_owned(), run.round, source));
                    Ok(gather(source))
                });
                gathered.unwrap();
            },
        );
        turns
    }

    #[test]
    fn sources_take_turns_in_rounds_and_each_is_first_equally_often() {
        let turns = turns(|_| {}, |_| nothing());
        // Two seconds for each source, in turns of 200 ms.
        assert_eq!(turns.len(), 20);
        assert!(turns[0].0.ends_with("(1/10)"), "{:?}", turns[0]);
        let firsts = turns.chunks(2).enumerate().map(|(number, round)| {
            assert!(round.iter().all(|turn| turn.1 == Some(number as u32)));
            assert_ne!(round[0].2, round[1].2);
            round[0].2
        });
        assert_eq!(firsts.sum::<usize>(), 5);
    }

    #[test]
    fn each_distance_of_a_sweep_is_a_round() {
        let turns = turns(
            |options| {
                options.distances = Distances::new(1_000_000, 4_000_000).unwrap();
                options.protocol = Protocol::Sweep {
                    datapoints: 100,
                    factor: 2.0,
                };
            },
            |_| nothing(),
        );
        let rounds: Vec<_> = turns.iter().map(|turn| turn.1).collect();
        assert_eq!(rounds, [0, 0, 1, 1, 2, 2].map(Some));
    }

    #[test]
    fn a_source_that_gives_no_datapoints_has_no_further_turns_in_that_state() {
        let silent = |source| Gathered {
            gave_up: (source == 1).then(|| "silent".to_owned()),
            ..nothing()
        };
        let turns = turns(|_| {}, silent);
        let of = |source| turns.iter().filter(|turn| turn.2 == source).count();
        assert_eq!((of(0), of(1)), (10, 1));
    }

    #[test]
    fn one_source_has_no_rounds() {
        let turns = turns(|options| options.sources.truncate(1), |_| nothing());
        assert_eq!(turns, [("measuring".to_owned(), None, 0)]);
    }

    #[test]
    fn all_rounds_together_have_the_whole_goal() {
        let goal = Goal {
            datapoints: Some(1000),
            duration: Some(Duration::from_secs(3)),
        };
        let turns: Vec<Goal> = (0..6).map(|round| goal.of_round(round, 6)).collect();
        let datapoints: Vec<u64> = turns.iter().filter_map(|turn| turn.datapoints).collect();
        assert_eq!(datapoints, [166, 167, 167, 166, 167, 167]);
        assert!(
            turns
                .iter()
                .all(|turn| turn.duration == Some(Duration::from_millis(500)))
        );
        let whole = goal.of_round(0, 1);
        assert_eq!(
            (whole.datapoints, whole.duration),
            (goal.datapoints, goal.duration)
        );
    }

    fn announced(change: impl FnOnce(&mut Options)) -> Vec<String> {
        let Said(said, ..) = with_run(change, |run| run.announce());
        let about = said.into_iter().filter(|words| words.contains("takes"));
        about.collect()
    }

    #[test]
    fn a_long_run_says_first_how_long_it_takes() {
        let sweep = announced(|options| {
            options.protocol = Protocol::Sweep {
                datapoints: 1500,
                factor: 1.1,
            };
            options.distances = options.protocol.default_distances();
        });
        let words = "measuring takes at least 2m 2s; Ctrl-C ends it and keeps the results so far";
        assert_eq!(sweep, [words]);
        let many = announced(|options| options.datapoints = Some(1_000_000));
        assert!(many[0].contains("at least 29m"), "{many:?}");
        let timed = announced(|options| options.duration = Some(Duration::from_secs(61)));
        assert!(
            timed[0].starts_with("measuring takes up to 1m 1s;"),
            "{timed:?}"
        );
        assert!(announced(|options| options.duration = Some(Duration::from_secs(60))).is_empty());
        assert!(announced(|options| options.datapoints = Some(1000)).is_empty());
    }

    #[test]
    fn a_sweep_is_done_by_the_time_of_its_steps_not_by_their_number() {
        let Said(_, done, _) = with_run(
            |options| {
                options.distances = Distances::new(1_000_000, 4_000_000).unwrap();
                options.protocol = Protocol::Sweep {
                    datapoints: 100,
                    factor: 2.0,
                };
            },
            |run| {
                run.report("the floor", 1.0);
                let gathered = run.each_phase(&mut |run, _, (phase, ..)| {
                    run.report(phase, 0.5);
                    Ok(nothing())
                });
                gathered.unwrap();
            },
        );
        // 1, 2 and 4 ms.
        let of_7 = done.iter().map(|done| (done * 7.0 * 1e6).round() / 1e6);
        assert_eq!(of_7.collect::<Vec<_>>(), [0.0, 0.5, 2.0, 5.0]);
    }

    #[test]
    fn little_that_is_kept_is_reported_once_after_ten_seconds_of_measuring() {
        let few = || Launches {
            launched: 1000,
            dropped: [(NOT_IDLE.to_owned(), 1000)].into(),
            kept: 0,
        };
        let since = |run: &mut Run<'_>, seconds| {
            run.steps_since = Instant::now().checked_sub(Duration::from_secs(seconds));
        };
        let Said(said, ..) = with_run(
            |options| options.duration = Some(Duration::from_secs(30)),
            |run| {
                run.step_s = 30.0;
                run.warn_if_scarce(0.1, few);
                since(run, 5);
                run.warn_if_scarce(0.1, few);
                since(run, 10);
                run.step_s = 0.0;
                run.warn_if_scarce(0.1, few);
                run.step_s = 30.0;
                run.warn_if_scarce(0.1, Launches::default);
                run.warn_if_scarce(0.1, few);
                run.warn_if_scarce(0.1, few);
            },
        );
        let kept = said.iter().filter(|words| words.contains("kept"));
        let words = "only 0% of 1,000 launches on CPU 0 kept; main reason: not idle at the launch";
        assert_eq!(kept.collect::<Vec<_>>(), [words]);
    }

    #[test]
    fn a_late_first_datapoint_does_not_shorten_what_is_left() {
        let Said(.., left) = with_run(
            |options| options.duration = Some(Duration::from_secs(30)),
            |run| {
                run.step_s = 30.0;
                run.steps_since = Instant::now().checked_sub(Duration::from_secs(3));
                run.report("measuring", 0.1);
                run.outcome.counts.kept = 1;
                run.report("measuring", 0.1);
            },
        );
        assert_eq!(left[0], None);
        let left = left[1].unwrap().as_secs_f64();
        assert!((26.9..28.0).contains(&left), "{left}");
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

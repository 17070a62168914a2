//! A result as evidence of how long waking takes on this machine, from each state.

use std::path::{Path, PathBuf};

use reveille_advise::{
    Advice, Coverage, Demand, Error, Latency, Question, Target, speaks_for, why_other_machine,
};
use reveille_kernel::{CoreKind, Cpu, Identity, Idle, IdleState};
use reveille_results::Description;
use reveille_results::description::Probe;
use reveille_results::statistics::{self, Summary};

use crate::exit::Failure;

/// The percentiles that a result's description carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Percentile {
    #[value(name = "90")]
    P90,
    #[value(name = "99")]
    P99,
    #[value(name = "99.9")]
    P99_9,
    #[value(name = "99.99")]
    P99_99,
}

impl Percentile {
    pub fn name(self) -> &'static str {
        match self {
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
        }
    }

    /// `None` where the datapoints are too few for it.
    fn of(self, summary: &Summary) -> Option<i64> {
        match self {
            Self::P90 => summary.p90_ns,
            Self::P99 => summary.p99_ns,
            Self::P99_9 => summary.p99_9_ns,
            Self::P99_99 => summary.p99_99_ns,
        }
    }
}

/// What a result says of one state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    pub datapoints: u64,
    /// The percentile of its wake latency, ns; `None` where the datapoints are too few.
    pub latency_ns: Option<i64>,
}

/// A result of this machine, asked for one percentile.
pub struct Measured {
    pub name: String,
    pub percentile: Percentile,
    path: PathBuf,
    description: Description,
    /// The CPU that was measured, as it is now.
    cpu: Cpu,
}

/// How sure it has to be that a state keeps to the bound: as `reveille advise` is by default.
const CONFIDENCE: &str = "95";

/// What a judgement needs of a result.
const JUDGED: [&str; 5] = [
    "cpu",
    "requested_state",
    "requested_state_index",
    "source",
    "wake_latency_ns",
];

impl Measured {
    pub fn open(result: &Path, idle: &Idle, percentile: Percentile) -> anyhow::Result<Self> {
        let (description, cpu) = open_of_machine(result, idle)?;
        Ok(Self {
            name: result.display().to_string(),
            percentile,
            path: result.to_owned(),
            description,
            cpu: cpu.clone(),
        })
    }

    /// Which of these states, of a CPU that it speaks for, keep to the bound: the judgement of
    /// `reveille advise`.
    pub fn judge(
        &self,
        states: &[IdleState],
        idle: &Idle,
        bound_us: u32,
    ) -> anyhow::Result<Advice> {
        let loaded = reveille_results::open_columns(&self.path, &JUDGED)?;
        let target = Target {
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
            is_known: true,
            architecture: None,
            measured_cpu: Some(self.cpu.number),
            states: states.to_vec(),
            coverage: Coverage::Result,
        };
        let percentile = self.percentile.name().trim_start_matches('p');
        let question = Question {
            budget_us: bound_us,
            demand: Demand::Percentile(percentile.parse().expect("one above 50")),
            confidence: CONFIDENCE.parse().expect("one above 50"),
            latency: Latency::Wake,
        };
        let advice = Advice::of(&loaded, &target, question);
        advice.map_err(|error| match error {
            // Another latency cannot be asked for here.
            Error::NoLatency(latency) => {
                Failure::usage(format!("--result {}: holds no {latency}", self.name))
            }
            error => anyhow::Error::new(error).context(self.name.clone()),
        })
    }

    /// The CPU that was measured.
    pub fn cpu(&self) -> u32 {
        self.cpu.number
    }

    /// Does it speak for CPUs of that kind with these states? It is of one CPU, and of those like it.
    pub fn is_of(&self, kind: Option<&CoreKind>, states: &[IdleState]) -> bool {
        let here = states.iter().map(|state| &state.name);
        self.cpu.kind.as_ref() == kind && here.eq(self.cpu.states.iter().map(|state| &state.name))
    }

    /// What was measured of that state: of the source that found it slowest, where there were
    /// several. `None` where there is no datapoint of it.
    pub fn of_state(&self, name: &str) -> Option<Figure> {
        let of_state = self.description.statistics.iter();
        let figures = of_state.filter(|one| one.state == name).map(|one| Figure {
            datapoints: one.wake_latency.count,
            latency_ns: self.percentile.of(&one.wake_latency),
        });
        figures.max_by_key(|figure| (figure.latency_ns, figure.datapoints))
    }

    /// What a reader must know of the figures.
    pub fn notes(&self, here: &Identity) -> Vec<String> {
        let mut notes = Vec::new();
        let name = &self.name;
        if self.description.probe == Probe::User {
            notes.push(format!(
                "{name} was measured by a waiting thread: scheduling is in its figures"
            ));
        }
        let there = &self.description.machine;
        let differs = |there: &Option<String>, here: &Option<String>| {
            there
                .clone()
                .filter(|there| here.as_ref().is_some_and(|here| here != there))
        };
        if let Some(theirs) = differs(&there.cpu_model, &here.cpu_model) {
            notes.push(format!("{name} was measured on another CPU, {theirs}"));
        }
        if let Some(theirs) = differs(&there.hostname, &here.hostname) {
            notes.push(format!("{name} was measured on another computer, {theirs}"));
        }
        if there.hostname.is_none() && there.cpu_model.is_none() {
            notes.push(format!("{name}: the machine that was measured is unknown"));
        }
        notes
    }
}

/// A result's description, if it is of this machine, and the CPU that was measured. Statistics that it
/// does not carry (another tool's, a run that was cut off) are computed.
pub fn open_of_machine<'a>(
    result: &Path,
    idle: &'a Idle,
) -> anyhow::Result<(Description, &'a Cpu)> {
    let mut loaded = reveille_results::open_columns(result, &[])?;
    if loaded.description.states.is_empty() || loaded.description.statistics.is_empty() {
        loaded = reveille_results::open_columns(result, &JUDGED)?;
    }
    if let Some(why) = why_other_machine(&loaded, idle) {
        return Err(Failure::usage(format!(
            "--result {}: is of another machine: {why}",
            result.display()
        )));
    }
    if loaded.description.statistics.is_empty() {
        loaded.description.statistics = statistics::by_state(&loaded.columns, &|_| None, &[]);
    }
    let cpu = speaks_for(loaded.description.settings.cpu, idle);
    Ok((loaded.description, cpu.expect("it was found there")))
}

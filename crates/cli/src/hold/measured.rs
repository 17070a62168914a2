//! A result as evidence of how long waking takes from each state.

use std::path::{Path, PathBuf};

use reveille_advise::{Advice, Coverage, Demand, Latency, Question, Target};
use reveille_dataset::Description;
use reveille_dataset::description::Probe;
use reveille_dataset::statistics::{self, StateStatistics, Summary};
use reveille_machine::{Idle, groups::Group};

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

/// A result, asked for one percentile.
pub struct Measured {
    pub name: String,
    pub percentile: Percentile,
    path: PathBuf,
    description: Description,
}

/// How sure it has to be that a state keeps to the bound: as `reveille advise` is by default.
const CONFIDENCE: &str = "95";

/// What a judgement needs of a result.
const JUDGED: [&str; 4] = [
    "requested_state",
    "requested_state_index",
    "source",
    "wake_latency_ns",
];

impl Measured {
    pub fn open(result: &Path, percentile: Percentile) -> anyhow::Result<Self> {
        let mut description = reveille_dataset::open_description(result)?;
        if description.statistics.is_empty() {
            description.statistics = compute(result)?;
        }
        Ok(Self {
            name: result.display().to_string(),
            percentile,
            path: result.to_owned(),
            description,
        })
    }

    /// Which of the group's states keep to the bound: the judgement of `reveille advise`.
    pub fn judge(&self, group: &Group, idle: &Idle, bound_us: u32) -> anyhow::Result<Advice> {
        let loaded = reveille_dataset::open_columns(&self.path, &JUDGED)?;
        let target = Target {
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
            is_known: true,
            architecture: None,
            measured_cpu: self.description.settings.cpu,
            states: group.states.clone(),
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
        advice.map_err(|error| anyhow::Error::new(error).context(self.name.clone()))
    }

    /// Was this group measured? A result is of one CPU; it speaks for those of the same kind with
    /// the same states.
    pub fn is_of(&self, group: &Group, idle: &Idle) -> bool {
        let kind = idle
            .cpu(self.description.settings.cpu)
            .map(|cpu| cpu.kind.clone());
        let here = group.states.iter().map(|state| &state.name);
        let there = self.description.states.iter().map(|state| &state.name);
        kind.is_none_or(|kind| kind == group.kind)
            && (self.description.states.is_empty() || here.eq(there))
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
    pub fn notes(&self, cpu_model: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        let name = &self.name;
        if self.description.probe == Probe::User {
            notes.push(format!(
                "{name} was measured by a waiting thread: scheduling is in its figures"
            ));
        }
        let theirs = self.description.machine.cpu_model.as_deref();
        if let (Some(theirs), Some(here)) = (theirs, cpu_model)
            && theirs != here
        {
            notes.push(format!("{name} was measured on another CPU, {theirs}"));
        }
        notes
    }
}

/// The statistics of a result that carries none: another tool's, or of a run that was cut off.
fn compute(result: &Path) -> anyhow::Result<Vec<StateStatistics>> {
    let columns = reveille_dataset::open_columns(result, &JUDGED)?.columns;
    Ok(statistics::by_state(&columns, &|_| None, &[]))
}

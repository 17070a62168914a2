//! A result of this machine: one percentile of the wake latency of each state, and which states keep to
//! a bound.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use reveille_kernel::{CoreKind, Cpu, Identity, Idle, IdleState};
use reveille_results::Description;
use reveille_results::description::Probe;
use reveille_results::statistics::{self, Percentile};

use crate::measured::Measured;
use crate::{
    Advice, Coverage, Demand, Error as NoAdvice, Latency, Question, Target, speaks_for,
    why_other_machine,
};

/// What was measured of one state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Of the state, by one source.
    pub datapoints: u64,
    /// The percentile of its wake latency, ns; `None` where the datapoints are too few.
    pub latency_ns: Option<i64>,
}

/// Why a result does not judge. Who asks names the flag, or the key, that gave it.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is of another machine.
    #[error("{result}: is of another machine: {why}")]
    OtherMachine {
        /// Its path.
        result: String,
        /// How they differ.
        why: String,
    },
    /// It is of another kind of CPU than all of these.
    #[error("{result}: is of CPU {cpu}, and none of these CPUs is of its kind")]
    OtherKind {
        /// Its path.
        result: String,
        /// That was measured.
        cpu: u32,
    },
    /// It has none of the latencies that are asked for.
    #[error("{result}: holds no {latency}")]
    NoLatency {
        /// Its path.
        result: String,
        /// Which.
        latency: Latency,
    },
    /// It gives no advice, for another reason.
    #[error("{result}: {why}")]
    NoAdvice {
        /// Its path.
        result: String,
        /// Which.
        why: NoAdvice,
    },
    /// By it no setting is shown to meet the bound, for this reason.
    #[error("{0}")]
    NothingMeets(String),
    /// The result or the machine could not be read, or the machine cannot do it.
    #[error(transparent)]
    Other(#[from] reveille_kernel::Error),
}

/// With [`Unfit`].
type Result<T> = std::result::Result<T, Unfit>;

/// A result of this machine, asked for one percentile.
pub struct MachineResult {
    /// Its path, as the user gave it.
    pub name: String,
    /// Of the wake latencies.
    pub percentile: Percentile,
    path: PathBuf,
    description: Description,
    /// The CPU that was measured, as it is now.
    cpu: Cpu,
    /// The datapoints by states, which are those that were judged last: reading them takes long.
    measured: RefCell<Option<(Vec<Listed>, Rc<Measured>)>>,
}

/// A state's index and name: what the datapoints are sorted by.
type Listed = (u32, String);

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

impl MachineResult {
    /// Opens a result.
    pub fn open(result: &Path, idle: &Idle, percentile: Percentile) -> Result<Self> {
        let (description, cpu) = Self::description(result, idle)?;
        Ok(Self {
            name: result.display().to_string(),
            percentile,
            path: result.to_owned(),
            description,
            cpu: cpu.clone(),
            measured: RefCell::default(),
        })
    }

    /// The description of a result of this machine, and the CPU that was measured. Statistics that it lacks
    /// (another tool's, a run that was cut off) are computed.
    ///
    /// # Errors
    /// [`Unfit::OtherMachine`]; those of reading it.
    pub fn description<'a>(result: &Path, idle: &'a Idle) -> Result<(Description, &'a Cpu)> {
        let mut loaded = reveille_results::open_columns(result, &[])?;
        if loaded.description.states.is_empty() || loaded.description.statistics.is_empty() {
            loaded = reveille_results::open_columns(result, &JUDGED)?;
        }
        if let Some(why) = why_other_machine(&loaded, idle) {
            let result = result.display().to_string();
            return Err(Unfit::OtherMachine { result, why });
        }
        if loaded.description.statistics.is_empty() {
            loaded.description.statistics = statistics::by_state(&loaded.columns, &|_| None, &[]);
        }
        let cpu = speaks_for(loaded.description.settings.cpu, idle);
        Ok((loaded.description, cpu.expect("it was found there")))
    }

    /// Which of these states, of a CPU like the measured one, keep to the bound, as `reveille advise`
    /// judges. The datapoints are read by the first call, and as they were then.
    ///
    /// # Errors
    /// Where the result has no wake latencies, or cannot be read.
    pub fn judge(&self, states: &[IdleState], idle: &Idle, bound_us: u32) -> Result<Advice> {
        let target = Target {
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
            is_known: true,
            architecture: None,
            measured_cpu: Some(self.cpu.number),
            states: states.to_vec(),
            coverage: Coverage::Result,
        };
        let percentile = self.percentile.percent();
        let question = Question {
            budget_us: bound_us,
            demand: Demand::Percentile(percentile.parse().expect("one above 50")),
            confidence: CONFIDENCE.parse().expect("one above 50"),
            latency: Latency::Wake,
        };
        let measured = self.measured(&target)?;
        let floors = &self.description.characterisation.floors;
        Ok(Advice::by(&measured, floors, &target, question))
    }

    fn measured(&self, target: &Target) -> Result<Rc<Measured>> {
        let states = target.states.iter();
        let states: Vec<Listed> = states.map(|one| (one.index, one.name.clone())).collect();
        if let Some((known, measured)) = &*self.measured.borrow()
            && *known == states
        {
            return Ok(measured.clone());
        }
        let loaded = reveille_results::open_columns(&self.path, &JUDGED)?;
        let result = || self.name.clone();
        let measured = Measured::of(&loaded, target, Latency::Wake);
        let measured = measured.map_err(|why| match why {
            // Not its own message: `hold` takes no --latency of that kind.
            NoAdvice::NoLatency(latency) => Unfit::NoLatency {
                result: result(),
                latency,
            },
            why => Unfit::NoAdvice {
                result: result(),
                why,
            },
        })?;
        let measured = Rc::new(measured);
        *self.measured.borrow_mut() = Some((states, measured.clone()));
        Ok(measured)
    }

    /// The number of the CPU that was measured.
    pub fn cpu(&self) -> u32 {
        self.cpu.number
    }

    /// Is the measured CPU of that kind, with these states? The result holds for such CPUs only.
    pub fn is_of(&self, kind: Option<&CoreKind>, states: &[IdleState]) -> bool {
        let here = states.iter().map(|state| &state.name);
        self.cpu.kind.as_ref() == kind && here.eq(self.cpu.states.iter().map(|state| &state.name))
    }

    /// What was measured of that state, by the source whose percentile is the highest; `None` without a
    /// datapoint of it.
    pub fn of_state(&self, name: &str) -> Option<Figure> {
        let of_state = self.description.statistics.iter();
        let figures = of_state.filter(|one| one.state == name).map(|one| Figure {
            datapoints: one.wake_latency.count,
            latency_ns: self.percentile.of(&one.wake_latency),
        });
        figures.max_by_key(|figure| (figure.latency_ns, figure.datapoints))
    }

    /// What a reader must know of the figures, a sentence each without its full stop.
    pub fn notes(&self, here: &Identity) -> Vec<String> {
        let mut notes = Vec::new();
        let name = &self.name;
        if self.description.probe == Probe::User {
            notes.push(format!(
                "{name} was measured by a waiting thread: scheduling is in its figures"
            ));
        }
        notes.extend(measured_elsewhere(name, &self.description.machine, here));
        notes
    }
}

/// What a reader must know of a result that was measured on `there`, a sentence each without its full stop; `name` is
/// the result's.
pub fn measured_elsewhere(name: &str, there: &Identity, here: &Identity) -> Vec<String> {
    let mut notes = Vec::new();
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

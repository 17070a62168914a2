//! What is recommended, or why nothing is. The setting, its forms, what is said, and what `hold` and `govern` hold
//! all derive from it.
//!
//! Where even wakes without sleep exceed the budget, no setting meets it, whatever is shown of the states: each setting
//! leaves the state that polls. Where no state that sleeps may stay, no sleep is recommended only if it is shown to keep
//! to the budget.

use reveille_show::quantity::{count as thousands, counted};
use serde::Serialize;

use crate::without_sleep::Known;
use crate::{Demand, Finding, Question, Standing, StateAdvice, WithoutSleep};

/// How deep the setting lets CPUs sleep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "leaves")]
pub enum Leaves {
    /// Every state that is on: nothing has to be set.
    Everything,
    /// This state and all shallower ones; deeper ones are to be kept out of.
    UpTo {
        /// The deepest allowed state, as the driver calls it: `C1E`.
        state: String,
        /// N of cpuidle's `stateN`; `None` if unknown.
        index: Option<u32>,
    },
    /// No state that sleeps is allowed, and without sleep the budget is shown to be kept; or no sleep was asked for.
    NoSleep,
    /// Without sleep the budget is exceeded; or no state that sleeps is allowed, and that it is kept without sleep is not
    /// shown. There is nothing to set: see [`crate::Advice::without_sleep`].
    NoSetting,
    /// The data do not show that a state may stay, nor that none may.
    Unknown {
        /// The shallowest state that sleeps; it is not shown to keep to the budget, nor not to.
        state: String,
    },
}

/// Why the setting ends before a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum Because {
    /// It is shown to exceed the budget.
    Exceeds,
    /// Too few datapoints.
    TooFew {
        /// Datapoints in all that would show that it keeps to the budget, if as large a share exceeds it as did so far.
        #[serde(rename = "needed_datapoints")]
        needed: u64,
    },
    /// No smaller a share exceeds the budget than may, so that no number of datapoints would show that it keeps to it,
    /// unless that share falls.
    TooClose,
    /// Half of its wakes end before they begin, so that their latencies show nothing.
    Mistimed,
}

/// The state that the setting ends before, by the source that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    /// As the driver calls it: `C6`.
    pub state: String,
    /// As in the column `source`.
    pub source: String,
    /// Its datapoints.
    pub count: u64,
    /// Those above the budget.
    pub exceeded: u64,
    /// Why it may not stay.
    #[serde(flatten)]
    pub because: Because,
}

/// What is recommended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The recommendation, or that there is none.
    #[serde(flatten)]
    pub leaves: Leaves,
    /// `None` where every state that sleeps may stay, and where no sleep was asked for.
    pub ended_by: Option<End>,
}

impl Decision {
    /// By the states, shallow ones first, and by what is known of wakes without sleep.
    pub(crate) fn of(
        states: &[StateAdvice],
        without_sleep: &WithoutSleep,
        question: &Question,
    ) -> Self {
        let sleeping =
            |one: &&StateAdvice| !matches!(one.standing, Standing::NoSleep | Standing::Off);
        let ends = states.iter().filter(sleeping).find(|one| !one.allowed);
        let deepest = states.iter().filter(sleeping).rfind(|one| one.allowed);
        let ended_by = ends.filter(|_| question.budget_us > 0).map(end);
        let is_known = ended_by
            .as_ref()
            .is_none_or(|end| end.because == Because::Exceeds);
        let leaves = match (deepest, ends) {
            _ if question.budget_us == 0 && ends.is_some() => Leaves::NoSleep,
            _ if question.budget_us > 0 && without_sleep.finding == Known::Exceeds => {
                Leaves::NoSetting
            }
            (Some(_), None) => Leaves::Everything,
            (Some(deepest), Some(_)) => Leaves::UpTo {
                state: deepest.state.clone(),
                index: deepest.index,
            },
            (None, Some(first)) if !is_known => Leaves::Unknown {
                state: first.state.clone(),
            },
            (None, _) if question.budget_us > 0 && without_sleep.finding != Known::Within => {
                Leaves::NoSetting
            }
            (None, Some(_)) => Leaves::NoSleep,
            (None, None) => Leaves::Everything,
        };
        Self { leaves, ended_by }
    }

    /// Is there something to set?
    pub fn is_to_be_set(&self) -> bool {
        matches!(self.leaves, Leaves::UpTo { .. } | Leaves::NoSleep)
    }

    /// The state that the setting ends before, if that is not for what was seen of it.
    pub fn open(&self) -> Option<&End> {
        let is_open = |end: &&End| self.is_to_be_set() && end.because != Because::Exceeds;
        self.ended_by.as_ref().filter(is_open)
    }
}

/// Of a state that may not stay.
fn end(state: &StateAdvice) -> End {
    let exceeds = |one: &&crate::SourceEvidence| one.finding == Finding::Exceeds;
    let (evidence, because) = match (state.evidence.iter().find(exceeds), state.wanting()) {
        (Some(one), _) => (Some(one), Because::Exceeds),
        (None, Some((one, Some(needed)))) => (Some(one), Because::TooFew { needed }),
        (None, Some((one, None))) if one.is_mistimed() => (Some(one), Because::Mistimed),
        (None, wanting) => (wanting.map(|(one, _)| one), Because::TooClose),
    };
    End {
        state: state.state.clone(),
        source: evidence.map_or_else(String::new, |one| one.source.clone()),
        count: evidence.map_or(0, |one| one.count),
        exceeded: evidence.map_or(0, |one| one.exceeded),
        because,
    }
}

impl End {
    /// Why it may not stay, in words that follow a colon.
    pub fn why(&self, question: &Question) -> String {
        let (state, source, demand) = (&self.state, &self.source, question.demand);
        let count = thousands(self.count);
        match (self.because, demand) {
            (Because::Exceeds, _) => format!("{state} is over it"),
            (Because::TooFew { needed }, _) => {
                let needed = match self.exceeded {
                    0 => thousands(needed),
                    _ => format!("about {}", thousands(about(needed))),
                };
                format!(
                    "too few datapoints of {state} ({count} by {source}; {demand} takes {needed})"
                )
            }
            (Because::TooClose, Demand::Percentile(percentile)) => {
                let may = (self.count as f64 * percentile.beyond()).floor() as u64;
                format!(
                    "{state} is too close to call ({} of {} by {source} took longer; {demand} leaves {})",
                    thousands(self.exceeded),
                    counted(self.count, "wake"),
                    thousands(may)
                )
            }
            (Because::Mistimed, _) => {
                format!("half of the wakes from {state} by {source} end before they begin")
            }
            (Because::TooClose, Demand::Maximum) => format!("{state} is too close to call"),
        }
    }
}

/// Two significant digits, rounded up: what is only about right looks it.
pub(crate) fn about(count: u64) -> u64 {
    let step = 10_u64.pow(count.max(1).ilog10().saturating_sub(1));
    count.div_ceil(step) * step
}

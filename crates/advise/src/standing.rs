//! What becomes of a state, and by which evidence.

use std::cmp::Reverse;

use serde::Serialize;

use crate::{Finding, SourceEvidence};

/// What becomes of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing sleeps in it, so that it is never forbidden.
    NoSleep,
    /// Shown to keep to the budget by every source.
    Within,
    /// Shown by a source not to.
    Exceeds,
    /// Neither, or not measured at all.
    NotShown,
    /// Disabled when the result was measured; it stays so.
    Off,
}

/// One idle state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateAdvice {
    /// As the driver calls it: `C6`.
    pub state: String,
    /// N of cpuidle's `stateN`; `None` if unknown.
    pub index: Option<u32>,
    /// By all sources together.
    pub standing: Standing,
    /// It and all shallower states keep to the budget: the setting leaves it.
    pub allowed: bool,
    /// The driver's figure, µs; `None` if its table is unknown or lacks the state.
    pub driver_exit_latency_us: Option<u64>,
    /// By source, ascending; a source that has no datapoint of this state is there with a count of
    /// zero.
    pub evidence: Vec<SourceEvidence>,
}

impl StateAdvice {
    /// The source that wants the most datapoints to show that the state keeps to the budget, and how many; `None` where
    /// each source shows that, or the contrary.
    pub fn wanting(&self) -> Option<(&SourceEvidence, Option<u64>)> {
        let wants = self.evidence.iter().filter_map(|one| match one.finding {
            Finding::NotShown { needed } => Some((one, needed)),
            Finding::Within | Finding::Exceeds => None,
        });
        wants.max_by_key(|(one, needed)| (needed.unwrap_or(u64::MAX), Reverse(one.count)))
    }
}

//! Which states may be allowed.
//!
//! A state keeps to the budget at a percentile if, among all wakes that it will ever give, no more
//! than the share beyond that percentile exceeds the budget. Of n datapoints k exceeded it; the
//! state passes if k or fewer would come about, were the true share just that large, with no more
//! probability than the confidence leaves (Clopper and Pearson 1934). This is exact, supposes no
//! shape of the distribution, and ties from a coarse clock do it no harm. It is the same as asking
//! that the upper confidence bound of the percentile, an order statistic, be within the budget.
//!
//! **Several sources.** A state passes if it passes by each source that the result has. That needs
//! no correction: an unsafe state is unsafe by one source at least, and there it passes with no
//! more than the stated risk (an intersection-union test; Berger 1982).
//!
//! **Several states.** The judgement goes from the shallowest state to the deeper ones, in an order
//! that does not depend on the latencies, and the setting ends before the first that does not pass. If
//! an unsafe state is allowed, the first unsafe one in that order is, too, and that happens with no
//! more than the stated risk, however many states there are (testing in a fixed sequence; Maurer,
//! Hothorn and Lehmacher 1995). So the confidence is that of the whole advice. A deeper state that
//! passes beyond a failing one is listed, with its own confidence only.

use reveille_results::Loaded;
use reveille_results::statistics::Floor;
use serde::Serialize;

use crate::finding::{Finding, SourceEvidence, judge};
use crate::measured::{Measured, MeasuredState};
use crate::target::sleeps;
use crate::without_sleep::Known;
use crate::{Question, Result, Target, WithoutSleep};

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

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What was asked.
    pub question: Question,
    /// Shallow states first.
    pub states: Vec<StateAdvice>,
    /// The sources that had to be passed.
    pub sources: Vec<String>,
    /// Datapoints of unknown idle states; they do not count.
    pub of_unknown_state: u64,
    /// Datapoints without this latency; they count nowhere.
    pub without_latency: u64,
    /// What is known of wakes where nothing sleeps.
    pub without_sleep: WithoutSleep,
}

impl Advice {
    /// The advice that a result gives.
    ///
    /// # Errors
    /// Where it holds no datapoint, or none with the latency that is asked for.
    pub fn of(loaded: &Loaded, target: &Target, question: Question) -> Result<Self> {
        let measured = Measured::of(loaded, target, question.latency)?;
        let floors = &loaded.description.characterisation.floors;
        Ok(Self::by(&measured, floors, target, question))
    }

    /// By what was measured of the question's latency, and the floors of the result.
    pub(crate) fn by(
        measured: &Measured,
        floors: &[Floor],
        target: &Target,
        question: Question,
    ) -> Self {
        let judged = |state| judge_state(state, &measured.sources, target, &question);
        let mut states: Vec<StateAdvice> = measured.states.iter().map(judged).collect();
        allow_in_sequence(&mut states);
        let polling = states
            .iter()
            .filter(|one| one.standing == Standing::NoSleep);
        let polling: Vec<&SourceEvidence> = polling.flat_map(|one| &one.evidence).collect();
        Self {
            without_sleep: WithoutSleep::of(&polling, &measured.sources, floors, &question),
            question,
            states,
            sources: measured.sources.clone(),
            of_unknown_state: measured.of_unknown_state,
            without_latency: measured.without_latency,
        }
    }

    /// The states that sleep and that the setting leaves.
    pub fn allowed(&self) -> impl Iterator<Item = &StateAdvice> {
        let sleeping = |state: &&StateAdvice| state.standing != Standing::NoSleep;
        self.states
            .iter()
            .filter(sleeping)
            .filter(|state| state.allowed)
    }

    /// The states that the setting forbids; those that were off anyway are not among them.
    pub fn forbidden(&self) -> impl Iterator<Item = &StateAdvice> {
        let on = |state: &&StateAdvice| state.standing != Standing::Off;
        self.states.iter().filter(on).filter(|state| !state.allowed)
    }

    /// The state at which the setting ends for want of datapoints, and not for what was seen.
    pub fn ended_by_want(&self) -> Option<&StateAdvice> {
        let mut states = self.states.iter();
        let ends =
            |state: &&StateAdvice| matches!(state.standing, Standing::Exceeds | Standing::NotShown);
        let first = states.find(ends);
        first.filter(|state| state.standing == Standing::NotShown)
    }

    /// The shallowest state that sleeps, if too few datapoints show whether it keeps to the budget: then there
    /// is no advice.
    pub fn unknown(&self) -> Option<&StateAdvice> {
        self.ended_by_want()
            .filter(|_| self.allowed().next().is_none())
    }

    /// Why nothing can be set, in a sentence without its full stop: no state that sleeps may stay, and that the budget
    /// is kept without sleep is not shown either. `None` where there is a setting, or too few datapoints for any advice;
    /// a budget of 0 asks for no sleep as such.
    pub fn why_no_setting(&self) -> Option<String> {
        let has_setting = self.question.budget_us == 0
            || self.allowed().next().is_some()
            || self.forbidden().next().is_none()
            || self.unknown().is_some();
        let why = self
            .without_sleep
            .why_not(&self.question)
            .filter(|_| !has_setting)?;
        Some(match self.without_sleep.finding {
            Known::Exceeds => format!("no setting meets {}: {why}", self.question),
            _ => format!(
                "no setting is shown to meet {}: no state that sleeps is within it, and {why}",
                self.question
            ),
        })
    }

    /// States that keep to the budget by themselves, but are deeper than one that does not.
    pub fn alone(&self) -> impl Iterator<Item = &StateAdvice> {
        let passes = |state: &&StateAdvice| state.standing == Standing::Within;
        self.forbidden().filter(passes)
    }
}

/// From the shallowest on, up to the first that does not keep to the budget.
fn allow_in_sequence(states: &mut [StateAdvice]) {
    let mut so_far = true;
    for state in states {
        match state.standing {
            Standing::NoSleep => state.allowed = true,
            Standing::Off => {}
            Standing::Within => state.allowed = so_far,
            Standing::Exceeds | Standing::NotShown => so_far = false,
        }
    }
}

fn judge_state(
    state: &MeasuredState,
    sources: &[String],
    target: &Target,
    question: &Question,
) -> StateAdvice {
    let row = target.state(&state.name);
    let is_off = row.is_some_and(|row| row.disabled == Some(true)) && state.samples.is_empty();
    let mut evidence: Vec<SourceEvidence> = state
        .samples
        .iter()
        .map(|(source, sample)| judge(source, sample, question))
        .collect();
    if sleeps(&state.name) && !is_off {
        for source in sources {
            if !evidence.iter().any(|one| one.source == *source) {
                evidence.push(judge(source, &[], question));
            }
        }
        evidence.sort_by(|a, b| a.source.cmp(&b.source));
    }
    let standing = if !sleeps(&state.name) {
        Standing::NoSleep
    } else if is_off {
        Standing::Off
    } else if question.budget_us == 0 || evidence.iter().any(|one| one.finding == Finding::Exceeds)
    {
        Standing::Exceeds
    } else if evidence.iter().all(|one| one.finding == Finding::Within) && !evidence.is_empty() {
        Standing::Within
    } else {
        Standing::NotShown
    };
    StateAdvice {
        state: state.name.clone(),
        index: state.index,
        standing,
        allowed: false,
        driver_exit_latency_us: row.and_then(|row| row.exit_latency_us),
        evidence,
    }
}

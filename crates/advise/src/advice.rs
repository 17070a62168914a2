//! Which states may be allowed.
//!
//! A state keeps to the budget at a percentile if, among all wakes that it will ever give, no more
//! than the share beyond that percentile exceeds the budget. Of n datapoints k exceeded it; the
//! state passes if k or fewer would come about, were the true share just that large, with no more
//! probability than the confidence leaves (Clopper and Pearson 1934). This is exact, supposes no
//! shape of the distribution, and ties from a coarse clock do it no harm. It is the same as asking
//! that the upper confidence bound of the percentile, an order statistic, be within the budget.
//!
//! **Several sources.** A state passes if it passes by each source of the run. That needs
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

use crate::decision::Decision;
use crate::finding::{Finding, SourceEvidence, judge};
use crate::measured::{Measured, MeasuredState};
use crate::standing::{Standing, StateAdvice};
use crate::target::sleeps;
use crate::without_sleep::Known;
use crate::{Leaves, Question, Result, Target, WithoutSleep};

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
    /// What is recommended; [`crate::Setting`] has it, too, with the driver's figures.
    #[serde(skip)]
    pub decision: Decision,
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
        let without_sleep = WithoutSleep::of(&polling, &measured.sources, floors, &question);
        Self {
            decision: Decision::of(&states, &without_sleep, &question),
            without_sleep,
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

    /// Why nothing is recommended, in a sentence without its full stop; `None` where there is a setting, or nothing has to
    /// be set.
    pub fn why_nothing(&self) -> Option<String> {
        let (asked, end) = (&self.question, self.decision.ended_by.as_ref());
        let ends = end.map(|end| end.why(asked));
        match self.decision.leaves {
            Leaves::Everything | Leaves::UpTo { .. } | Leaves::NoSleep => None,
            Leaves::Unknown { .. } => ends,
            Leaves::NoSetting => {
                let why = self.without_sleep.why_not(asked)?;
                Some(match self.without_sleep.finding {
                    Known::Exceeds => format!("no setting meets {asked}: {why}"),
                    _ => {
                        let ends = ends.unwrap_or_else(|| self.why_awake().to_owned());
                        format!("no setting is shown to meet {asked}: {ends}, and {why}")
                    }
                })
            }
        }
    }

    /// Why nothing has to be set, as a clause; `None` where something has to be, or nothing is recommended.
    pub fn why_nothing_to_set(&self) -> Option<&'static str> {
        let is_all = self.decision.leaves == Leaves::Everything;
        is_all.then(|| match self.allowed().next() {
            Some(_) => "every state is within the budget",
            None => self.why_awake(),
        })
    }

    /// Why no state that sleeps is in question.
    fn why_awake(&self) -> &'static str {
        let is_off = |one: &StateAdvice| one.standing == Standing::Off;
        match self.states.iter().any(is_off) {
            true => "every state that sleeps is off",
            false => "nothing sleeps here",
        }
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

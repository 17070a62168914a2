//! What wakes take where nothing sleeps: all that a bound of 0 can give.
//!
//! Where no state that sleeps may stay, a bound of 0 is left, or polling. It keeps to the budget only if that is shown,
//! as of a state: by datapoints of the state that polls, or by the floor of the method, of which the median, some
//! quantiles and the maximum are kept. How many of its wakes exceeded the budget is then known within limits, and each
//! finding is by the limit that is the worse for it.

use reveille_figures::interval;
use reveille_results::statistics::Floor;
use reveille_show::quantity::{counted, nanoseconds};
use serde::Serialize;

use crate::finding::{Finding, SourceEvidence, find, find_by_maximum};
use crate::question::{Demand, Latency, Question};

/// What is known of wakes where nothing sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Every source is shown to keep to the budget.
    Within,
    /// One is shown not to.
    Exceeds,
    /// Neither is shown.
    NotShown,
    /// No source has a wake without sleep.
    NotMeasured,
}

/// The same with the evidence of the source that decides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithoutSleep {
    /// By all sources together.
    pub finding: Known,
    /// The source that decides; `None` where nothing was measured.
    pub source: Option<String>,
    /// Its wakes without sleep.
    pub count: u64,
    /// How many of them took longer than the budget; of a floor at least so many.
    pub exceeded: u64,
    /// Their percentile that was asked for, ns; `None` where the datapoints are too few, and of a floor.
    pub percentile_ns: Option<i64>,
}

/// One source's wakes without sleep.
struct Evidence {
    source: String,
    count: u64,
    exceeded: u64,
    percentile_ns: Option<i64>,
    finding: Finding,
}

impl WithoutSleep {
    /// By each of the sources that have to be passed: by the evidence of states that poll, or else by a floor.
    pub(crate) fn of(
        polling: &[&SourceEvidence],
        sources: &[String],
        floors: &[Floor],
        question: &Question,
    ) -> Self {
        let mut evidence: Vec<Evidence> = sources
            .iter()
            .filter_map(|source| {
                by_polling(polling, source).or_else(|| floor(floors, source, question))
            })
            .collect();
        let is = |finding: Finding| move |one: &Evidence| one.finding == finding;
        let finding = if evidence.is_empty() {
            Known::NotMeasured
        } else if evidence.iter().any(is(Finding::Exceeds)) {
            Known::Exceeds
        } else if evidence.len() == sources.len() && evidence.iter().all(is(Finding::Within)) {
            Known::Within
        } else {
            Known::NotShown
        };
        // What decides comes first.
        evidence.sort_by_key(|one| match one.finding {
            Finding::Exceeds => 0,
            Finding::NotShown { .. } => 1,
            Finding::Within => 2,
        });
        let first = evidence.into_iter().next();
        Self {
            finding,
            count: first.as_ref().map_or(0, |one| one.count),
            exceeded: first.as_ref().map_or(0, |one| one.exceeded),
            percentile_ns: first.as_ref().and_then(|one| one.percentile_ns),
            source: first.map(|one| one.source),
        }
    }

    /// Why a bound of 0 is not shown to keep to the budget, in words that follow a colon; `None` where it is.
    pub(crate) fn why_not(&self, question: &Question) -> Option<String> {
        let by = self.source.as_deref().unwrap_or_default();
        let wakes = counted(self.count, "wake");
        Some(match (self.finding, self.percentile_ns) {
            (Known::Within, _) => return None,
            (Known::Exceeds, Some(ns)) => format!(
                "even without sleep {} is {} ({by}, {wakes})",
                question.demand,
                nanoseconds(ns)
            ),
            (Known::Exceeds, None) => format!(
                "even without sleep {} of {wakes} by {by} took longer",
                self.exceeded
            ),
            (Known::NotShown, _) => format!(
                "that it is kept without sleep is not shown, by {wakes} ({by}), of which {} took longer",
                self.exceeded
            ),
            (Known::NotMeasured, _) => "what wakes take without sleep was not measured".to_owned(),
        })
    }
}

/// By the datapoints of states that poll.
fn by_polling(polling: &[&SourceEvidence], source: &str) -> Option<Evidence> {
    let mut evidence = polling.iter();
    let one = evidence.find(|one| one.source == source && one.count > 0)?;
    Some(Evidence {
        source: source.to_owned(),
        count: one.count,
        exceeded: one.exceeded,
        percentile_ns: one.percentile_ns,
        finding: one.finding,
    })
}

/// By the floor of the source, which is one of wake latencies.
fn floor(floors: &[Floor], source: &str, question: &Question) -> Option<Evidence> {
    let floor = floors.iter().find(|one| one.source == source)?;
    if question.latency != Latency::Wake || floor.count == 0 {
        return None;
    }
    let (budget_ns, count) = (question.budget_ns(), floor.count);
    let (mut least, mut most) = (0, count);
    // Of so many parts one lies beyond the quantile.
    let quantiles = [
        (Some(floor.median_ns), 2),
        (floor.p90_ns, 10),
        (floor.p99_ns, 100),
    ];
    for (quantile_ns, parts) in quantiles {
        let beyond = count - (count * (parts - 1)).div_ceil(parts);
        match quantile_ns {
            Some(ns) if ns <= budget_ns => most = most.min(beyond),
            Some(_) => least = least.max(beyond + 1),
            None => {}
        }
    }
    match floor.max_ns <= budget_ns {
        true => most = 0,
        false => least = least.max(1),
    }
    let risk = question.confidence.risk();
    let finding = match question.demand {
        Demand::Maximum => find_by_maximum(least, count),
        Demand::Percentile(percentile) => {
            let beyond = percentile.beyond();
            if interval::at_most(most, count, beyond) <= risk {
                Finding::Within
            } else if find(least, count, beyond, risk) == Finding::Exceeds {
                Finding::Exceeds
            } else {
                Finding::NotShown { needed: None }
            }
        }
    };
    Some(Evidence {
        source: source.to_owned(),
        count,
        exceeded: least,
        percentile_ns: None,
        finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(budget_us: u32) -> Question {
        Question {
            budget_us,
            demand: Demand::Percentile("99".parse().unwrap()),
            confidence: "95".parse().unwrap(),
            latency: Latency::Wake,
        }
    }

    fn floor_of(max_ns: i64) -> Floor {
        Floor {
            state: "POLL".into(),
            source: "timer".into(),
            count: 1000,
            median_ns: 8_000,
            p90_ns: Some(12_000),
            p99_ns: Some(20_000),
            max_ns,
            medians_ns: Vec::new(),
        }
    }

    fn known(budget_us: u32, floors: &[Floor]) -> Known {
        let sources = ["timer".to_owned()];
        WithoutSleep::of(&[], &sources, floors, &question(budget_us)).finding
    }

    #[test]
    fn a_floor_decides_by_what_it_keeps_of_its_wakes() {
        let floors = [floor_of(90_000)];
        // None of 1000: p99 is kept with 95%.
        assert_eq!(known(90, &floors), Known::Within);
        // Ten of 1000 at most, or 11 at least: neither is shown.
        assert_eq!(known(20, &floors), Known::NotShown);
        assert_eq!(known(19, &floors), Known::NotShown);
        // A tenth of them.
        assert_eq!(known(11, &floors), Known::Exceeds);
        assert_eq!(known(1, &floors), Known::Exceeds);
    }

    #[test]
    fn without_a_floor_and_a_state_that_polls_nothing_is_known() {
        let none = WithoutSleep::of(&[], &["timer".to_owned()], &[], &question(50));
        assert_eq!(
            (none.finding, none.source.as_deref()),
            (Known::NotMeasured, None)
        );
        let interrupt = Question {
            latency: Latency::Interrupt,
            ..question(50)
        };
        let sources = ["timer".to_owned()];
        let floors = [floor_of(10_000)];
        let of = |question| WithoutSleep::of(&[], &sources, &floors, question).finding;
        assert_eq!(
            (of(&interrupt), of(&question(50))),
            (Known::NotMeasured, Known::Within)
        );
    }

    #[test]
    fn each_source_has_to_be_shown() {
        let sources = ["remote".to_owned(), "timer".to_owned()];
        let floors = [floor_of(10_000)];
        let known = WithoutSleep::of(&[], &sources, &floors, &question(50));
        assert_eq!(known.finding, Known::NotShown);
    }
}

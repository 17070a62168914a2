//! What wakes take where nothing sleeps: all that a bound of 0 can give.
//!
//! Where no state that sleeps may stay, a bound of 0 is left, or polling. It keeps to the budget only if that is shown,
//! as of a state: by datapoints of the state that polls, or by the floor of the method, of which the median, some
//! quantiles and the maximum are kept. How many of its wakes exceeded the budget is then known within limits, and each
//! finding is by the limit that is the worse for it.

use std::ops::RangeInclusive;

use reveille_results::statistics::Floor;
use reveille_show::quantity::{count as thousands, counted, nanoseconds};
use serde::Serialize;

use crate::finding::{Finding, SourceEvidence, shown};
use crate::question::{Latency, Question};

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
    /// At least so many of them took longer than the budget.
    pub exceeded_at_least: u64,
    /// At most so many; the same, unless all that is known are a floor's median, quantiles and maximum.
    pub exceeded_at_most: u64,
    /// Their percentile that was asked for, ns; `None` where the datapoints are too few, and of a floor.
    pub percentile_ns: Option<i64>,
}

/// One source's wakes without sleep.
struct Evidence {
    source: String,
    count: u64,
    /// The fewest and the most that may have exceeded the budget.
    exceeded: RangeInclusive<u64>,
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
                let floor = floor(floors, source, question);
                match by_polling(polling, source) {
                    // That it exceeds the budget may be shown by either.
                    Some(Evidence {
                        finding: Finding::NotShown { .. },
                        ..
                    }) if floor
                        .as_ref()
                        .is_some_and(|floor| floor.finding == Finding::Exceeds) =>
                    {
                        floor
                    }
                    by_polling => by_polling.or(floor),
                }
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
            exceeded_at_least: first.as_ref().map_or(0, |one| *one.exceeded.start()),
            exceeded_at_most: first.as_ref().map_or(0, |one| *one.exceeded.end()),
            percentile_ns: first.as_ref().and_then(|one| one.percentile_ns),
            source: first.map(|one| one.source),
        }
    }

    /// Why a bound of 0 is not shown to keep to the budget, in words that follow a colon; `None` where it is.
    pub(crate) fn why_not(&self, question: &Question) -> Option<String> {
        let by = self.source.as_deref().unwrap_or_default();
        let wakes = counted(self.count, "wake");
        let exceeded = match (self.exceeded_at_least, self.exceeded_at_most) {
            (least, most) if least == most => thousands(least),
            (least, _) => format!("at least {}", thousands(least)),
        };
        Some(match (self.finding, self.percentile_ns) {
            (Known::Within, _) => return None,
            (Known::Exceeds, Some(ns)) => format!(
                "even without sleep {} is {} ({by}, {wakes})",
                question.demand,
                nanoseconds(ns)
            ),
            (Known::Exceeds, None) => {
                format!("even without sleep {exceeded} of {wakes} by {by} took longer")
            }
            (Known::NotShown, _) => format!(
                "without sleep it is not shown to be met ({exceeded} of {wakes} by {by} took longer)"
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
        exceeded: one.exceeded..=one.exceeded,
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
    Some(Evidence {
        source: source.to_owned(),
        count,
        exceeded: least..=most,
        percentile_ns: None,
        finding: shown(least..=most, count, question),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Demand;

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
    fn how_many_wakes_of_a_floor_took_longer_is_known_within_limits() {
        let of = |budget_us, floors: &[Floor]| {
            let sources = ["timer".to_owned()];
            let known = WithoutSleep::of(&[], &sources, floors, &question(budget_us));
            let why = known.why_not(&question(budget_us)).unwrap_or_default();
            assert_eq!(
                why.contains("at least"),
                known.exceeded_at_least < known.exceeded_at_most
            );
            (known.exceeded_at_least, known.exceeded_at_most)
        };
        let floors = [floor_of(90_000)];
        assert_eq!(of(1, &floors), (501, 1000));
        assert_eq!(of(11, &floors), (101, 500));
        assert_eq!(of(21, &floors), (1, 10));
        assert_eq!(of(90, &floors), (0, 0));
    }

    #[test]
    fn a_floor_that_exceeds_the_budget_stands_beside_too_few_datapoints() {
        let polled = crate::finding::judge("timer", &[900; 20], &question(11));
        let sources = ["timer".to_owned()];
        let of = |budget_us| {
            let floors = [floor_of(90_000)];
            WithoutSleep::of(&[&polled], &sources, &floors, &question(budget_us)).finding
        };
        assert_eq!((of(11), of(90)), (Known::Exceeds, Known::NotShown));
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

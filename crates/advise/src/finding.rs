//! One sample and the budget: what it shows, and how many datapoints would show more.

use std::ops::RangeInclusive;

use reveille_figures::interval;
use reveille_figures::tail::{self, Tail};
use reveille_results::verdict;
use serde::Serialize;

use crate::question::{Demand, Percentile, Question};

/// The fewest datapoints beyond a quantile that is shown, as everywhere in Reveille.
const BEYOND_MIN: usize = 10;

/// Beyond this many datapoints none are asked for: a day at a hundred thousand a second.
const NEEDED_MAX: u64 = 10_000_000_000;

/// One sample and the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub enum Finding {
    /// Shown to keep to the budget.
    Within,
    /// Shown not to.
    Exceeds,
    /// Neither is shown.
    NotShown {
        /// Datapoints in all that would show it, if as large a share of them exceeds the budget as
        /// did so far; `None` where too large a share does.
        #[serde(rename = "needed_datapoints")]
        needed: Option<u64>,
    },
}

/// What was measured of one state by one source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceEvidence {
    /// As in the column `source`: `timer`, `nic`, ...
    pub source: String,
    /// Datapoints.
    pub count: u64,
    /// `None` without datapoints, as for all figures here.
    pub median_ns: Option<i64>,
    /// The percentile as it was seen; `None` unless ten datapoints lie beyond it.
    pub percentile_ns: Option<i64>,
    /// With the stated confidence the true percentile is no larger than this; `None` where there
    /// are too few datapoints to bound it.
    pub percentile_high_ns: Option<i64>,
    /// The longest latency seen, ns.
    pub max_ns: Option<i64>,
    /// Datapoints above the budget.
    pub exceeded: u64,
    /// With the stated confidence no larger a share of wakes exceeds the budget.
    pub exceeded_share_high: f64,
    /// What the sample shows of the budget, with the question's confidence.
    #[serde(flatten)]
    pub finding: Finding,
    /// What may lie beyond the data: an estimate. Only where the maximum was asked for.
    pub tail: Option<Tail>,
}

/// A launch time may be off by a little either way, and the method's own time is subtracted. Where even the median is further
/// below zero than this, ns, the latencies are not what they are said to be.
const BELOW_ZERO_MAX_NS: i64 = 1000;

fn is_mistimed(median_ns: Option<i64>) -> bool {
    median_ns.is_some_and(|median| median < -BELOW_ZERO_MAX_NS)
}

impl SourceEvidence {
    /// Half of the wakes end before they begin: any of them may exceed the budget.
    pub fn is_mistimed(&self) -> bool {
        is_mistimed(self.median_ns)
    }
}

/// Of an ascending sample.
pub(crate) fn judge(source: &str, sorted: &[i64], question: &Question) -> SourceEvidence {
    let budget_ns = question.budget_ns();
    let risk = question.confidence.risk();
    let count = sorted.len() as u64;
    let exceeded = count - sorted.partition_point(|&latency| latency <= budget_ns) as u64;
    let (percentile_ns, percentile_high_ns, tail) = match question.demand {
        Demand::Percentile(percentile) => {
            let rank = percentile.rank(sorted.len());
            let enough = sorted.len() >= rank + BEYOND_MIN;
            (
                enough.then(|| sorted[rank - 1]),
                percentile_high(sorted, percentile, risk),
                None,
            )
        }
        Demand::Maximum => (None, None, (count > 0).then(|| tail::estimate(sorted))),
    };
    let most = match is_mistimed(middle(sorted)) {
        true => count,
        false => exceeded,
    };
    SourceEvidence {
        source: source.to_owned(),
        count,
        median_ns: middle(sorted),
        percentile_ns,
        percentile_high_ns,
        max_ns: sorted.last().copied(),
        exceeded,
        exceeded_share_high: interval::share_high(exceeded, count, risk),
        finding: shown(exceeded..=most, count, question),
        tail,
    }
}

/// The median as everywhere in Reveille: the smallest value that half of the sample does not exceed.
fn middle(sorted: &[i64]) -> Option<i64> {
    Some(sorted[sorted.len().div_ceil(2).checked_sub(1)?])
}

/// The upper confidence bound of a percentile of an ascending sample; `None` where even the maximum
/// is none, or the wakes end before they begin.
pub(crate) fn percentile_high(sorted: &[i64], percentile: Percentile, risk: f64) -> Option<i64> {
    let count = sorted.len() as u64;
    if is_mistimed(middle(sorted)) {
        return None;
    }
    let left_out = interval::quantile_high_beyond(percentile.beyond(), count, risk)?;
    Some(sorted[(count - 1 - left_out) as usize])
}

/// What is shown where how many of the datapoints exceed the budget is known within limits: each finding is by the limit
/// that is the worse for it.
pub(crate) fn shown(exceeded: RangeInclusive<u64>, count: u64, question: &Question) -> Finding {
    let find = |exceeded: u64| match question.demand {
        Demand::Percentile(percentile) => find(
            exceeded,
            count,
            percentile.beyond(),
            question.confidence.risk(),
        ),
        Demand::Maximum => find_by_maximum(exceeded, count),
    };
    match (find(*exceeded.start()), find(*exceeded.end())) {
        (Finding::Exceeds, _) => Finding::Exceeds,
        (_, Finding::Exceeds) => Finding::NotShown { needed: None },
        (_, by_most) => by_most,
    }
}

fn find(exceeded: u64, count: u64, beyond: f64, risk: f64) -> Finding {
    if interval::at_most(exceeded, count, beyond) <= risk {
        Finding::Within
    } else if interval::share_low(exceeded, count, risk) > beyond {
        Finding::Exceeds
    } else {
        Finding::NotShown {
            needed: needed(exceeded, count, beyond, risk),
        }
    }
}

/// A maximum that no wake exceeded needs as many datapoints as a verdict: fewer than
/// one wake in a thousand then lies beyond it, with 95%.
fn find_by_maximum(exceeded: u64, count: u64) -> Finding {
    if exceeded > 0 {
        Finding::Exceeds
    } else if count < verdict::NEEDED {
        Finding::NotShown {
            needed: Some(verdict::NEEDED),
        }
    } else {
        Finding::Within
    }
}

/// The least number of datapoints, more than there are, that would show that no more than the share
/// `beyond` exceeds the budget, if the share that exceeds it stays as it was seen (rounded up to whole
/// datapoints); `None` where that is too large, or the number beyond reason.
pub(crate) fn needed(exceeded: u64, count: u64, beyond: f64, risk: f64) -> Option<u64> {
    let shows =
        |exceeded: u64, datapoints: u64| interval::at_most(exceeded, datapoints, beyond) <= risk;
    if exceeded == 0 {
        return first_above(count, |datapoints| shows(0, datapoints));
    }
    if exceeded as f64 / count as f64 >= beyond {
        return None;
    }
    // Each further exceedance makes it harder to show, and each further datapoint easier. So the number
    // of exceedances is found by the most datapoints that have no more of them, and then theirs.
    let most = |exceedances: u64| {
        let most = u128::from(exceedances) * u128::from(count) / u128::from(exceeded);
        u64::try_from(most).unwrap_or(u64::MAX)
    };
    let exceedances = first_above(exceeded, |exceedances| {
        let datapoints = most(exceedances);
        datapoints > NEEDED_MAX || shows(exceedances, datapoints)
    })?;
    first_above(most(exceedances - 1), |datapoints| {
        shows(exceedances, datapoints)
    })
}

/// The first number above that one for which something holds that holds for all after it; `None` where
/// it is above [`NEEDED_MAX`].
fn first_above(number: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (number, number.saturating_add(1));
    while !holds(high) {
        low = high;
        high = high.saturating_mul(2);
        if low > NEEDED_MAX {
            return None;
        }
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (high <= NEEDED_MAX).then_some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exceedance_shows_p99_9_from_2995_datapoints_on() {
        assert_eq!(find(0, 2995, 0.001, 0.05), Finding::Within);
        let needed = Some(2995);
        assert_eq!(find(0, 2994, 0.001, 0.05), Finding::NotShown { needed });
        assert_eq!(find(0, 0, 0.001, 0.05), Finding::NotShown { needed });
        // ln 0.05 / ln (1 - 1/10 000) = 29 955.8; ln 0.01 / ln (1 - 1/100) = 458.2.
        assert_eq!(super::needed(0, 7, 0.0001, 0.05), Some(29_956));
        assert_eq!(super::needed(0, 7, 0.01, 0.01), Some(459));
    }

    #[test]
    fn exceedances_ask_for_more_datapoints_and_too_many_for_none() {
        // 4 in 10 000 observed, 10 allowed: P(X <= 4 | 10) = 2.9% passes; 6 in 10 000: 13% does
        // not.
        assert_eq!(find(4, 10_000, 0.001, 0.05), Finding::Within);
        let Finding::NotShown { needed: Some(more) } = find(6, 10_000, 0.001, 0.05) else {
            panic!("6 in 10 000 show nothing yet");
        };
        assert!((14_000..25_000).contains(&more), "{more}");
        let none = Finding::NotShown { needed: None };
        assert_eq!(find(10, 10_000, 0.001, 0.05), none);
        assert_eq!(find(30, 10_000, 0.001, 0.05), Finding::Exceeds);
    }

    #[test]
    fn percentile_bound_and_share_test_agree() {
        let percentile: Percentile = "99".parse().unwrap();
        let sorted: Vec<i64> = (1..=1000).collect();
        let high = percentile_high(&sorted, percentile, 0.05).unwrap();
        // P(Bin(1000, 1%) <= 4) = 2.9%, <= 5: 6.6%: four values may be omitted.
        assert_eq!(high, 996);
        for budget in [995, 996] {
            let exceeded = sorted.iter().filter(|&&latency| latency > budget).count() as u64;
            let within = find(exceeded, 1000, 0.01, 0.05) == Finding::Within;
            assert_eq!(within, high <= budget);
        }
    }

    #[test]
    fn a_maximum_needs_as_many_datapoints_as_a_verdict() {
        assert_eq!(find_by_maximum(0, 2995), Finding::Within);
        assert_eq!(find_by_maximum(1, 1_000_000), Finding::Exceeds);
        assert!(matches!(find_by_maximum(0, 2994), Finding::NotShown { .. }));
    }

    fn asked(percentile: &str) -> Question {
        Question {
            budget_us: 50,
            demand: Demand::Percentile(percentile.parse().unwrap()),
            confidence: "95".parse().unwrap(),
            latency: crate::Latency::Wake,
        }
    }

    #[test]
    fn the_evidence_of_a_sample_can_be_checked_by_hand() {
        // 1 to 1000 µs: 950 exceed the budget of 50 µs.
        let sorted: Vec<i64> = (1..=1000).map(|us| us * 1000).collect();
        let evidence = judge("timer", &sorted, &asked("99"));
        assert_eq!((evidence.source.as_str(), evidence.count), ("timer", 1000));
        assert_eq!(evidence.median_ns, Some(500_000));
        assert_eq!(evidence.percentile_ns, Some(990_000));
        assert_eq!(evidence.percentile_high_ns, Some(996_000));
        assert_eq!(evidence.max_ns, Some(1_000_000));
        assert_eq!(evidence.exceeded, 950);
        assert_eq!(evidence.finding, Finding::Exceeds);
        assert_eq!(evidence.tail, None);
        // One-sided, 95%: R's binom.test(950, 1000, alternative = "less") ends at 0.9609.
        let high = evidence.exceeded_share_high;
        assert!((0.960..0.962).contains(&high), "{high}");
    }

    #[test]
    fn a_percentile_needs_ten_datapoints_beyond_it() {
        let of = |count: i64, percentile: &str| {
            let sorted: Vec<i64> = (1..=count).collect();
            judge("timer", &sorted, &asked(percentile)).percentile_ns
        };
        assert_eq!((of(999, "99"), of(1000, "99")), (None, Some(990)));
        assert_eq!((of(99, "90"), of(100, "90")), (None, Some(90)));
        assert_eq!((of(9999, "99.9"), of(10_000, "99.9")), (None, Some(9990)));
        assert_eq!(of(0, "99"), None);
    }

    #[test]
    fn the_median_is_the_smallest_value_not_exceeded_by_half_of_the_sample() {
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[4]), Some(4));
        assert_eq!(middle(&[4, 9]), Some(4));
        assert_eq!(middle(&[4, 9, 11]), Some(9));
        assert_eq!(middle(&[4, 9, 11, 12]), Some(9));
    }

    #[test]
    fn a_wake_equal_to_the_budget_is_within_it() {
        let of = |latency: i64| judge("timer", &[latency; 3000], &asked("99.9"));
        assert_eq!((of(50_000).exceeded, of(50_001).exceeded), (0, 3000));
        assert_eq!(of(50_000).finding, Finding::Within);
        assert_eq!(of(50_001).finding, Finding::Exceeds);
    }

    #[test]
    fn an_empty_sample_proves_nothing() {
        let evidence = judge("timer", &[], &asked("99.9"));
        assert_eq!(
            (
                evidence.median_ns,
                evidence.percentile_high_ns,
                evidence.max_ns
            ),
            (None, None, None)
        );
        assert_eq!(evidence.exceeded_share_high, 1.0);
        let maximum = Question {
            demand: Demand::Maximum,
            ..asked("99")
        };
        assert_eq!(judge("timer", &[], &maximum).tail, None);
        let one = judge("timer", &[7000], &maximum);
        assert!(one.tail.is_some());
        assert_eq!((one.percentile_ns, one.percentile_high_ns), (None, None));
    }

    #[test]
    fn datapoints_needed_is_the_smallest_sufficient_count() {
        // With the observed share no smaller count suffices, and this one does.
        for (exceeded, count, beyond) in [
            (6, 10_000, 0.001),
            (1, 3000, 0.001),
            (3, 100, 0.1),
            (1, 150, 0.01),
            (5, 77, 0.1),
            (9, 200, 0.05),
            (0, 20, 0.1),
            (0, 28, 0.1),
        ] {
            let more = needed(exceeded, count, beyond, 0.05).unwrap();
            let shows = |all: u64| {
                let expected = (u128::from(all) * u128::from(exceeded)).div_ceil(count.into());
                interval::at_most(expected as u64, all, beyond) <= 0.05
            };
            let first = (count + 1..=more).find(|&all| shows(all));
            assert_eq!(first, Some(more), "{exceeded} of {count}");
        }
        // The observed share equals the allowed share.
        assert_eq!(needed(10, 10_000, 0.001, 0.05), None);
        assert!(needed(9, 10_000, 0.001, 0.05).is_some());
        // The share is so close to the limit that a day would be too short.
        assert_eq!(needed(999_999, 1_000_000_000, 0.001, 0.05), None);
    }

    #[test]
    fn the_search_includes_its_upper_limit() {
        let first = |number, from: u64| first_above(number, |tried| tried >= from);
        assert_eq!(
            (first(5, 6), first(5, 9), first(0, 1)),
            (Some(6), Some(9), Some(1))
        );
        assert_eq!(first(7, NEEDED_MAX), Some(NEEDED_MAX));
        assert_eq!(first(7, NEEDED_MAX + 1), None);
        assert_eq!(first_above(7, |_| false), None);
    }
}

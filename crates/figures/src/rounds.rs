//! Summaries of samples, and differences between settings tried in rounds.
//!
//! Rounds are the independent units: requests of one round share the machine's temperature, its
//! other load and its governor's state, so a thousand of them are not a thousand trials. So
//! differences are paired by round, and their intervals come from the variation between rounds.

mod best;
mod exchange;
mod sign;
mod signed_rank;

use serde::{Deserialize, Serialize};

use crate::quantile::{MEDIAN, Moments, P1, P99};
pub use best::{PERMUTATIONS, p_values};
pub use exchange::{p99_difference, share_is_larger};
pub use sign::{Quantiles, share_percent};
pub use signed_rank::{median_difference, p_value, rounds_needed};

/// The error probability of a two-sided 95% interval, both ends together.
pub const ERROR: f64 = 0.05;

/// A sample's figures, in the figure's own unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Figures in the sample.
    pub count: u64,
    /// The minimum.
    pub min: f64,
    /// `None` below 1001 figures: ten must lie below it.
    pub p1: Option<f64>,
    /// The smallest figure that half of the sample does not exceed.
    pub median: f64,
    /// `None` below 1000 figures: ten must lie above it.
    pub p99: Option<f64>,
    /// The maximum.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// By count less one; `None` for one figure.
    pub standard_deviation: Option<f64>,
}

/// A figure over rounds, or the difference of one between two settings: the one less the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate, in the figure's unit.
    pub estimate: f64,
    /// The interval of at least 95%; `None` with too few rounds for one.
    pub interval: Option<(f64, f64)>,
    /// Rounds that have the figure; of a difference, under both settings.
    pub rounds: u64,
}

/// The position of a difference's interval relative to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The whole interval is below zero.
    Less,
    /// The whole interval is above zero.
    More,
    /// The interval contains zero, or there is none.
    Unknown,
}

impl Estimate {
    /// `80 [75, 90]`, each number written by `number`; without an interval `80`.
    pub fn text(&self, number: impl Fn(f64) -> String) -> String {
        let estimate = number(self.estimate);
        match self.interval {
            Some((low, high)) => format!("{estimate} [{}, {}]", number(low), number(high)),
            None => estimate,
        }
    }

    /// This one less another that is independent of it. The interval is Zou and Donner's, "Construction of
    /// Confidence Limits about Effect Measures: A General Approach", Statistics in Medicine 27 (2008).
    pub fn less(&self, other: &Self) -> Self {
        let estimate = self.estimate - other.estimate;
        let interval = self.interval.zip(other.interval);
        Self {
            estimate,
            interval: interval.map(|((low, high), (other_low, other_high))| {
                let below = (self.estimate - low).hypot(other_high - other.estimate);
                let above = (high - self.estimate).hypot(other.estimate - other_low);
                (estimate - below, estimate + above)
            }),
            rounds: self.rounds.min(other.rounds),
        }
    }

    /// On which side of zero the whole interval lies.
    pub fn against_zero(&self) -> Against {
        match self.interval {
            Some((_, high)) if high < 0.0 => Against::Less,
            Some((low, _)) if low > 0.0 => Against::More,
            _ => Against::Unknown,
        }
    }
}

/// By how much `of` differs from `from`, round by round; `None` where either has no figure.
pub fn differences(of: &[Option<f64>], from: &[Option<f64>]) -> Vec<Option<f64>> {
    let rounds = of.iter().zip(from);
    rounds.map(|(of, from)| Some((*of)? - (*from)?)).collect()
}

/// The [`differences`] of the rounds in which both have a figure.
pub fn paired(of: &[Option<f64>], from: &[Option<f64>]) -> Vec<f64> {
    differences(of, from).into_iter().flatten().collect()
}

/// The summary of a sample in any order; `None` if it is empty.
pub fn summarise(figures: impl IntoIterator<Item = f64>) -> Option<Summary> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let moments = Moments::about(sorted.iter().sum(), sorted.iter().copied())?;
    Some(Summary {
        count: sorted.len() as u64,
        min: *sorted.first()?,
        p1: P1.carried(&sorted),
        median: MEDIAN.of(&sorted)?,
        p99: P99.carried(&sorted),
        max: *sorted.last()?,
        mean: moments.mean,
        standard_deviation: moments.standard_deviation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_estimates_has_the_interval_of_both() {
        let of = |estimate, low, high, rounds| Estimate {
            estimate,
            interval: Some((low, high)),
            rounds,
        };
        let one = of(100.0, 97.0, 112.0, 20);
        let less = one.less(&of(40.0, 35.0, 44.0, 12));
        // Below: 3 and 4; above: 12 and 5.
        assert_eq!(less, of(60.0, 55.0, 73.0, 12));
        let unknown = Estimate {
            interval: None,
            ..one.clone()
        };
        assert_eq!(one.less(&unknown).interval, None);
    }

    #[test]
    fn a_quantile_is_an_observed_figure_and_needs_ten_beyond_it() {
        let figures = |count: usize| (1..=count).map(|figure| figure as f64);
        let summary = summarise(figures(1000)).unwrap();
        assert_eq!((summary.median, summary.p99), (500.0, Some(990.0)));
        assert_eq!((summary.p1, summary.count), (None, 1000));
        let summary = summarise(figures(900)).unwrap();
        assert_eq!((summary.p1, summary.p99), (None, None));
        assert_eq!(summarise([]), None);
    }

    #[test]
    fn an_estimate_is_written_with_its_interval_if_known() {
        let text = |interval| {
            let (estimate, rounds) = (80.0, 7);
            let estimate = Estimate {
                estimate,
                interval,
                rounds,
            };
            estimate.text(|value| format!("{value:.0}"))
        };
        assert_eq!(text(Some((75.2, 90.0))), "80 [75, 90]");
        assert_eq!(text(None), "80");
    }

    #[test]
    fn a_difference_is_significant_if_its_interval_excludes_zero() {
        let difference = |interval| Estimate {
            estimate: 0.0,
            interval,
            rounds: 10,
        };
        assert_eq!(difference(Some((-2.0, -1.0))).against_zero(), Against::Less);
        assert_eq!(difference(Some((1.0, 2.0))).against_zero(), Against::More);
        assert_eq!(
            difference(Some((-1.0, 2.0))).against_zero(),
            Against::Unknown
        );
        assert_eq!(difference(None).against_zero(), Against::Unknown);
    }

    #[test]
    fn p99_needs_a_thousand_figures() {
        let of = |count: usize| summarise((1..=count).map(|figure| figure as f64)).unwrap();
        assert_eq!((of(999).p99, of(1000).p99), (None, Some(990.0)));
        // Of 1000 p1 is the tenth, and nine lie below it.
        assert_eq!((of(1000).p1, of(1001).p1), (None, Some(11.0)));
        let summary = of(7);
        assert_eq!((summary.min, summary.max, summary.median), (1.0, 7.0, 4.0));
    }

    #[test]
    fn an_interval_that_ends_at_zero_includes_it() {
        let difference = |interval| Estimate {
            estimate: 0.0,
            interval: Some(interval),
            rounds: 10,
        };
        assert_eq!(difference((-2.0, 0.0)).against_zero(), Against::Unknown);
        assert_eq!(difference((0.0, 2.0)).against_zero(), Against::Unknown);
    }
}

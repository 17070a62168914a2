//! What a sample of figures says, and by how much two settings differ.
//!
//! Rounds are the independent units: requests of one round share the machine's temperature, its
//! other work and its governor's mood, and a thousand of them are no thousand trials. So each
//! difference is one of rounds, and its interval comes from how the rounds differ.

mod best;
mod jackknife;
mod signed_rank;

use serde::{Deserialize, Serialize};

pub use best::{PERMUTATIONS, p_values};
pub use jackknife::p99_difference;
pub use signed_rank::median_difference;
pub(crate) use signed_rank::rounds_needed;

/// Both ends of a two-sided 95 % interval together leave out this much.
pub const ERROR: f64 = 0.05;

/// Figures that must lie beyond a quantile for it to be told, as in `dataset::statistics`.
const BEYOND_MIN: usize = 10;

/// A sample's figures, in the figure's own unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Figures in the sample.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// `None` below 1001 figures: ten must lie below it.
    pub p1: Option<f64>,
    /// The smallest figure that half of the sample does not exceed.
    pub median: f64,
    /// `None` below 1000 figures: ten must lie above it.
    pub p99: Option<f64>,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// `None` for one figure.
    pub standard_deviation: Option<f64>,
}

/// By how much one setting's figure differs from another's: the one less the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// In the figure's unit; the point that the interval is of.
    pub estimate: f64,
    /// The 95 % interval; `None` where there are too few rounds for one.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both settings have figures.
    pub rounds: u64,
}

/// What an interval says of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Against {
    Less,
    More,
    /// The interval holds zero, or there is none.
    Unknown,
}

impl Difference {
    /// On which side of zero the whole interval lies.
    pub(crate) fn against_zero(&self) -> Against {
        match self.interval {
            Some((_, high)) if high < 0.0 => Against::Less,
            Some((low, _)) if low > 0.0 => Against::More,
            _ => Against::Unknown,
        }
    }
}

/// The summary of a sample in any order; `None` if it is empty.
///
/// A quantile is the smallest value that at least that share of the sample does not exceed: type 1
/// of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50
/// (1996). It is always a value that occurred.
pub fn summarise(figures: impl IntoIterator<Item = f64>) -> Option<Summary> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let count = sorted.len();
    let mean = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|figure| (figure - mean).powi(2)).sum();
    Some(Summary {
        count: count as u64,
        min,
        p1: (rank(1, count) > BEYOND_MIN).then(|| quantile(&sorted, 1)),
        median: quantile(&sorted, 50),
        p99: (count - rank(99, count) >= BEYOND_MIN).then(|| quantile(&sorted, 99)),
        max,
        mean,
        standard_deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
    })
}

/// The median of a sample in any order; `None` if it is empty.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| quantile(&sorted, 50))
}

/// The quantile, per cent, of a sorted sample that is not empty.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    sorted[rank(percent, sorted.len()) - 1]
}

/// The rank, from 1, of that quantile in a sample of `count`.
fn rank(percent: usize, count: usize) -> usize {
    (count * percent).div_ceil(100).clamp(1, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_figure_that_occurred_and_is_told_where_ten_lie_beyond() {
        let figures = |count: usize| (1..=count).map(|figure| figure as f64);
        let summary = summarise(figures(1000)).unwrap();
        assert_eq!((summary.median, summary.p99), (500.0, Some(990.0)));
        assert_eq!((summary.p1, summary.count), (None, 1000));
        let summary = summarise(figures(900)).unwrap();
        assert_eq!((summary.p1, summary.p99), (None, None));
        assert_eq!(summarise([]), None);
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let summary = summarise([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(summary.mean, 5.0);
        // The squares sum to 32, over n - 1 = 7.
        assert!((summary.standard_deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(summarise([3.0]).unwrap().standard_deviation, None);
    }

    #[test]
    fn a_difference_is_known_to_be_one_where_its_interval_excludes_zero() {
        let difference = |interval| Difference {
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
    fn a_quantile_is_told_from_a_thousand_figures_on() {
        let of = |count: usize| summarise((1..=count).map(|figure| figure as f64)).unwrap();
        assert_eq!((of(999).p99, of(1000).p99), (None, Some(990.0)));
        // Of 1000 p1 is the tenth, and nine lie below it.
        assert_eq!((of(1000).p1, of(1001).p1), (None, Some(11.0)));
        let summary = of(7);
        assert_eq!((summary.min, summary.max, summary.median), (1.0, 7.0, 4.0));
    }

    #[test]
    fn the_median_is_the_smallest_that_half_of_the_figures_do_not_exceed() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.0));
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn an_interval_that_ends_at_zero_holds_it() {
        let difference = |interval| Difference {
            estimate: 0.0,
            interval: Some(interval),
            rounds: 10,
        };
        assert_eq!(difference((-2.0, 0.0)).against_zero(), Against::Unknown);
        assert_eq!(difference((0.0, 2.0)).against_zero(), Against::Unknown);
    }
}

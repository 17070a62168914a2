//! Is the driver's exit latency true?
//!
//! The verdict is "within" where it is certain, with 95%, that fewer than one wake in 1000 exceeds the
//! figure. With no exceedance among n wakes that is so where `(1 - 1/1000)^n <= 0.05`, from
//! n = 2995 on (the "rule of three", 3/n, made exact). With ten exceedances or more their share is
//! known well enough to be reported for any n.

use std::fmt;

use serde::{Deserialize, Serialize};

use reveille_figures::interval;
use reveille_show::quantity::count;

/// Exceedances rarer than one in this many are a matter of the maximum.
const RARE: f64 = 1000.0;

/// Fewest datapoints for the verdict "within": ln 0.05 / ln (1 - 1/1000), rounded up.
pub const NEEDED: u64 = 2995;

/// Exceedances from which on their share is known within a factor of two.
const EXCEEDED_MIN: u64 = 10;

const NS_PER_US: u64 = 1000;

/// How many wakes exceeded the driver's exit latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exceedance {
    /// Wakes that took longer than the figure.
    pub exceeded: u64,
    /// Wakes in all.
    pub count: u64,
    /// `exceeded` of `count`; 0 without a wake.
    pub share: f64,
    /// 95% interval of the share (Clopper-Pearson).
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
}

impl Exceedance {
    /// Of an ascending sample of wake latencies, ns, and the driver's figure, µs. A wake that takes
    /// exactly as long as the figure does not exceed it.
    pub(crate) fn of_sorted(sorted: &[i64], figure_us: u64) -> Self {
        let figure_ns = i64::try_from(figure_us.saturating_mul(NS_PER_US)).unwrap_or(i64::MAX);
        let within = sorted.partition_point(|&latency| latency <= figure_ns);
        let (exceeded, count) = ((sorted.len() - within) as u64, sorted.len() as u64);
        let (low, high) = interval::of_share(exceeded, count);
        let share = exceeded as f64 / count.max(1) as f64;
        Self {
            exceeded,
            count,
            share,
            low,
            high,
        }
    }
}

/// The verdict; `Display` puts it in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No wake exceeded the driver's figure, among enough of them.
    Within,
    /// So few wakes exceeded it that it is a matter of the maximum only: fewer than ten, and with
    /// 95% fewer than one in a thousand.
    ExceededByMaxOnly,
    /// One wake in so many exceeded it.
    ExceededByOneIn(u64),
    /// Too few datapoints for either.
    TooFewDatapoints {
        /// Datapoints.
        count: u64,
        /// Fewest datapoints for the verdict "within".
        needed: u64,
    },
    /// The driver gives no figure for this state.
    NoFigure,
}

impl Verdict {
    /// The verdict on these exceedances; `None` stands for a state without a figure.
    pub fn of(exceedance: Option<&Exceedance>) -> Self {
        let Some(&Exceedance {
            exceeded, count, ..
        }) = exceedance
        else {
            return Self::NoFigure;
        };
        if exceeded < EXCEEDED_MIN && count < NEEDED {
            return Self::TooFewDatapoints {
                count,
                needed: NEEDED,
            };
        }
        if exceeded == 0 {
            return Self::Within;
        }
        let surely_rare = interval::share_high(exceeded, count, 0.05) < 1.0 / RARE;
        if exceeded < EXCEEDED_MIN && surely_rare {
            return Self::ExceededByMaxOnly;
        }
        Self::ExceededByOneIn((count + exceeded / 2) / exceeded)
    }

    /// Its place among the verdicts of several states: what decides comes first.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::ExceededByOneIn(_) => 0,
            Self::ExceededByMaxOnly => 1,
            Self::Within => 2,
            Self::TooFewDatapoints { .. } => 3,
            Self::NoFigure => 4,
        }
    }

    /// As `Display`, without what a table has in other columns.
    pub(crate) fn short(&self) -> String {
        match self {
            Self::TooFewDatapoints { .. } => "too few datapoints".to_owned(),
            Self::NoFigure => "no figure".to_owned(),
            verdict => verdict.to_string(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within => f.write_str("within the driver's figure"),
            Self::ExceededByMaxOnly => f.write_str("exceeded by the maximum only"),
            // More than two in three: "1 in 1" would be wrong, and "most" is true.
            Self::ExceededByOneIn(1) => f.write_str("exceeded by most wakes"),
            Self::ExceededByOneIn(wakes) => write!(f, "exceeded by 1 in {}", count(*wakes)),
            Self::TooFewDatapoints {
                count: number,
                needed,
            } => write!(
                f,
                "too few datapoints for a verdict ({} of {})",
                count(*number),
                count(*needed)
            ),
            Self::NoFigure => f.write_str("the driver gives no figure"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(exceeded: usize, count: usize) -> Verdict {
        let mut sample = vec![1000; count - exceeded];
        sample.extend(vec![1001; exceeded]);
        Verdict::of(Some(&Exceedance::of_sorted(&sample, 1)))
    }

    #[test]
    fn within_is_reported_from_the_sufficient_count_on() {
        assert!((1.0 - 1.0 / RARE).powf(NEEDED as f64) <= 0.05);
        assert!((1.0 - 1.0 / RARE).powf(NEEDED as f64 - 1.0) > 0.05);
        assert_eq!(
            verdict(0, 2994),
            Verdict::TooFewDatapoints {
                count: 2994,
                needed: 2995
            }
        );
        assert_eq!(verdict(0, 2995), Verdict::Within);
        assert_eq!(
            verdict(0, 0),
            Verdict::TooFewDatapoints {
                count: 0,
                needed: 2995
            }
        );
    }

    #[test]
    fn a_few_wakes_among_many_concern_the_maximum() {
        assert_eq!(verdict(1, 10_000), Verdict::ExceededByMaxOnly);
        // One in 3000 may still be more than one in a thousand.
        assert_eq!(verdict(1, 3000), Verdict::ExceededByOneIn(3000));
        assert_eq!(verdict(10, 1_000_000), Verdict::ExceededByOneIn(100_000));
    }

    #[test]
    fn ten_exceedances_are_reported_for_any_number_of_datapoints() {
        assert_eq!(
            verdict(9, 20),
            Verdict::TooFewDatapoints {
                count: 20,
                needed: 2995
            }
        );
        assert_eq!(verdict(10, 20), Verdict::ExceededByOneIn(2));
        assert_eq!(verdict(19, 20).to_string(), "exceeded by most wakes");
        assert_eq!(verdict(10, 20).to_string(), "exceeded by 1 in 2");
    }

    #[test]
    fn a_wake_equal_to_the_figure_does_not_exceed_it() {
        let exceedance = Exceedance::of_sorted(&[999, 1000, 1001], 1);
        assert_eq!((exceedance.exceeded, exceedance.count), (1, 3));
        assert!(exceedance.low < exceedance.share && exceedance.share < exceedance.high);
    }

    #[test]
    fn an_exceedance_has_its_share_and_the_interval_of_the_tables() {
        // R: binom.test(3, 10)$conf.int.
        let exceedance = Exceedance::of_sorted(&[1, 1, 1, 1, 1, 1, 1, 2001, 2001, 2001], 2);
        assert_eq!((exceedance.exceeded, exceedance.count), (3, 10));
        assert_eq!(exceedance.share, 0.3);
        assert!((exceedance.low - 0.066_739_51).abs() < 1e-6);
        assert!((exceedance.high - 0.652_452_9).abs() < 1e-6);
        let none = Exceedance::of_sorted(&[], 2);
        assert_eq!(
            (none.exceeded, none.share, none.low, none.high),
            (0, 0.0, 0.0, 1.0)
        );
    }

    #[test]
    fn a_figure_above_any_latency_is_never_exceeded() {
        let exceedance = Exceedance::of_sorted(&[i64::MAX - 1, i64::MAX], u64::MAX);
        assert_eq!((exceedance.exceeded, exceedance.count), (0, 2));
    }

    #[test]
    fn one_in_so_many_is_rounded_to_the_nearest() {
        assert_eq!(verdict(10, 34), Verdict::ExceededByOneIn(3));
        assert_eq!(verdict(10, 35), Verdict::ExceededByOneIn(4));
        // Two in three and more are "most".
        assert_eq!(verdict(20, 30), Verdict::ExceededByOneIn(2));
        assert_eq!(verdict(21, 30), Verdict::ExceededByOneIn(1));
        // Nine are reported unless the maximum decides it, ten in every case.
        assert_eq!(verdict(9, 2995), Verdict::ExceededByOneIn(333));
        assert_eq!(verdict(9, 1_000_000), Verdict::ExceededByMaxOnly);
    }

    #[test]
    fn few_exceedances_concern_the_maximum_from_the_sufficient_count_on() {
        // One in 4742 proves fewer than one in a thousand, one in 4741 does not (interval.rs).
        assert_eq!(verdict(1, 4741), Verdict::ExceededByOneIn(4741));
        assert_eq!(verdict(1, 4742), Verdict::ExceededByMaxOnly);
    }

    #[test]
    fn each_verdict_has_its_text() {
        let words = |verdict: Verdict| verdict.to_string();
        assert_eq!(words(Verdict::Within), "within the driver's figure");
        assert_eq!(
            words(Verdict::ExceededByMaxOnly),
            "exceeded by the maximum only"
        );
        assert_eq!(words(Verdict::of(None)), "the driver gives no figure");
        assert_eq!(
            words(verdict(0, 7)),
            "too few datapoints for a verdict (7 of 2,995)"
        );
    }
}

//! Figures over rounds: the median, an exact interval, and shares of paired differences.
//!
//! The round is the unit: I/Os within a round share the state of the machine, so their number shows
//! little about the precision of a figure. The interval is that of the sign test: from the k-th
//! smallest to the k-th largest of n rounds, with the largest k for which P(B(n, 1/2) < k) ≤ 2.5%. It
//! assumes only independent rounds (Conover, "Practical Nonparametric Statistics", 3rd edition, section
//! 3.2), and needs 6 of them.

use serde::{Deserialize, Serialize};

use super::Estimate;
use crate::interval::SIDE;
use crate::quantile::{MEDIAN, P90, P99, Share};

impl Estimate {
    /// The median of the rounds that have the figure, with the sign test's interval from 6 rounds on;
    /// `None` of none.
    pub fn over(rounds: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = rounds.into_iter().filter(|one| one.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        let (&lower, &upper) = (
            sorted.get(count.wrapping_sub(1) / 2)?,
            sorted.get(count / 2)?,
        );
        Some(Self {
            estimate: f64::midpoint(lower, upper),
            interval: order(count).map(|order| (sorted[order - 1], sorted[count - order])),
            rounds: count as u64,
        })
    }

    /// Whether the interval, or with too few rounds the estimate, is above zero.
    pub fn is_above_zero(&self) -> bool {
        self.interval.map_or(self.estimate, |(low, _)| low) > 0.0
    }
}

/// The order statistic, from 1, at which the interval begins.
fn order(rounds: usize) -> Option<usize> {
    /// Above this the probabilities underflow.
    const ROUNDS_MAX: usize = 1000;
    if rounds > ROUNDS_MAX {
        return None;
    }
    // P(B = k), from k = 0.
    let mut chance = 0.5_f64.powi(rounds as i32);
    let mut below = 0.0;
    let mut order = 0;
    while order < rounds {
        below += chance;
        if below > SIDE {
            break;
        }
        chance *= (rounds - order) as f64 / (order + 1) as f64;
        order += 1;
    }
    (order > 0).then_some(order)
}

/// The ratio of `parts` to `wholes`, per cent, paired by round.
///
/// `None` where the wholes are not shown to be above zero: there is nothing then to have a share of. A
/// single round whose whole is not above zero is left out, and not counted among the rounds.
pub fn share_percent(parts: &[Option<f64>], wholes: &[Option<f64>]) -> Option<Estimate> {
    let whole = Estimate::over(wholes.iter().flatten().copied())?;
    if !whole.is_above_zero() {
        return None;
    }
    let pairs = parts.iter().zip(wholes);
    let known = pairs.filter_map(|(part, whole)| Some(((*part)?, (*whole)?)));
    let above = known.filter(|(_, whole)| *whole > 0.0);
    Estimate::over(above.map(|(part, whole)| 100.0 * part / whole))
}

/// The quantiles of one turn, of type 1 (Hyndman and Fan, 1996): values that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Figures in the sample.
    pub count: u64,
    /// The smallest value that half of the sample does not exceed.
    pub median: f64,
    /// `None` if it would be the maximum.
    pub p90: Option<f64>,
    /// `None` if it would be the maximum.
    pub p99: Option<f64>,
    /// The largest.
    pub max: f64,
}

impl Quantiles {
    /// Of a sample in any order, which is sorted; `None` if it is empty.
    pub fn of(sample: &mut [u64]) -> Option<Self> {
        sample.sort_unstable();
        let count = sample.len();
        let below_max = |share: Share| {
            let value = share.of(sample).filter(|_| share.rank(count) < count);
            value.map(|ns| ns as f64)
        };
        Some(Self {
            count: count as u64,
            max: *sample.last()? as f64,
            median: MEDIAN.of(sample)? as f64,
            p90: below_max(P90),
            p99: below_max(P99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables() {
        // Conover, table A3: P(B(7, 1/2) <= 0) = 0.0078, P(B(9, 1/2) <= 1) = 0.0195,
        // P(B(20, 1/2) <= 5) = 0.0207.
        assert_eq!(order(5), None);
        assert_eq!(order(6), Some(1));
        assert_eq!(order(7), Some(1));
        assert_eq!(order(9), Some(2));
        assert_eq!(order(20), Some(6));
        let seven = Estimate::over([3.0, 1.0, 2.0, 9.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((seven.estimate, seven.interval), (4.0, Some((1.0, 9.0))));
        let four = Estimate::over([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((four.estimate, four.interval), (2.5, None));
        assert_eq!(Estimate::over([f64::NAN]), None);
        assert_eq!(Estimate::over([]), None);
        assert_eq!(Estimate::over(vec![1.0; 5000]).unwrap().estimate, 1.0);
    }

    #[test]
    fn a_share_is_taken_round_by_round() {
        // As is 50, no sleep 40, anticipatory wake-up 42: 8 of 10.
        let regained = [8.0, 4.0, 9.0, 8.0, 8.0, 7.0].map(Some);
        let lost = [10.0, 5.0, 10.0, 10.0, 20.0, 10.0].map(Some);
        let share = share_percent(&regained, &lost).unwrap();
        assert_eq!((share.estimate, share.interval), (80.0, Some((40.0, 90.0))));
        assert_eq!(share.rounds, 6);
    }

    #[test]
    fn there_is_no_share_of_an_insignificant_loss() {
        let part = [Some(1.0); 6];
        let unclear = [5.0, 5.0, 5.0, 5.0, 5.0, -1.0].map(Some);
        assert_eq!(share_percent(&part, &unclear), None);
        // Too few rounds for an interval: only the estimate.
        let share = share_percent(&part[..2], &unclear[..2]).unwrap();
        assert_eq!((share.estimate, share.interval), (20.0, None));
        assert_eq!(share_percent(&part[..1], &[Some(0.0)]), None);
        assert_eq!(share_percent(&part[..1], &[None]), None);
        // Of many rounds one may be without a loss.
        let mut lost = [Some(10.0); 20];
        lost[3] = Some(-1.0);
        let share = share_percent(&[Some(5.0); 20], &lost).unwrap();
        assert_eq!((share.estimate, share.rounds), (50.0, 19));
    }

    #[test]
    fn a_quantile_that_would_be_the_maximum_is_omitted() {
        let mut sample: Vec<u64> = (1..=1000).rev().collect();
        let of = Quantiles::of(&mut sample).unwrap();
        assert_eq!(
            (of.median, of.p90, of.p99),
            (500.0, Some(900.0), Some(990.0))
        );
        assert_eq!((of.max, of.count), (1000.0, 1000));
        let few = Quantiles::of(&mut sample[..100]).unwrap();
        assert_eq!((few.p90, few.p99), (Some(90.0), Some(99.0)));
        let few = Quantiles::of(&mut sample[..99]).unwrap();
        assert_eq!((few.p90, few.p99), (Some(90.0), None));
        assert_eq!(Quantiles::of(&mut []), None);
    }
}

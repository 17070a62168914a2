//! Quantiles of a sample, and the sample sizes that support them.
//!
//! A quantile is the smallest value that at least that share of the sample does not exceed: the inverse
//! of the empirical distribution, type 1 of Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", The American Statistician 50 (1996). It is always a value that occurred.

/// Values that must lie beyond a quantile for it to be shown: with ten, their expected number is known
/// within about a factor of two (the 95% interval of a Poisson count of 10 is 4.8 to 18.4).
const BEYOND_MIN: usize = 10;

/// A share as a fraction: 0.99 is not exact in binary, and a rank must not depend on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u64, pub u64);

/// The first percentile.
pub const P1: Share = Share(1, 100);
/// The median.
pub const MEDIAN: Share = Share(1, 2);
/// The 90th percentile.
pub const P90: Share = Share(9, 10);
/// The 99th percentile.
pub const P99: Share = Share(99, 100);
/// The 99.9th percentile.
pub const P99_9: Share = Share(999, 1000);
/// The 99.99th percentile.
pub const P99_99: Share = Share(9999, 10_000);

impl Share {
    /// As a number from 0 to 1.
    pub fn value(self) -> f64 {
        self.0 as f64 / self.1 as f64
    }

    /// The rank, from 1, of that quantile in a sample of `count`, which is not empty.
    pub fn rank(self, count: usize) -> usize {
        let rank = (count as u128 * u128::from(self.0)).div_ceil(u128::from(self.1));
        (rank as usize).clamp(1, count)
    }

    /// Whether ten values of a sample of `count` lie beyond that quantile: above it or, for one below
    /// the median, below it.
    pub fn is_carried_by(self, count: usize) -> bool {
        let beyond = |rank: usize| match 2 * self.0 < self.1 {
            true => rank - 1,
            false => count - rank,
        };
        count > 0 && beyond(self.rank(count)) >= BEYOND_MIN
    }

    /// The quantile of an ascending sample; `None` if it is empty.
    pub fn of<T: Copy>(self, sorted: &[T]) -> Option<T> {
        let last = sorted.len().checked_sub(1)?;
        sorted.get(self.rank(last + 1) - 1).copied()
    }

    /// The quantile of an ascending sample, if ten values lie beyond it.
    pub fn carried<T: Copy>(self, sorted: &[T]) -> Option<T> {
        self.of(sorted).filter(|_| self.is_carried_by(sorted.len()))
    }
}

/// Mean and standard deviation (by count less one).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The arithmetic mean.
    pub mean: f64,
    /// `None` for one value.
    pub standard_deviation: Option<f64>,
}

impl Moments {
    /// Of a sample with a known sum; `None` if it is empty.
    pub fn about(sum: f64, values: impl ExactSizeIterator<Item = f64>) -> Option<Self> {
        let count = values.len();
        let mean = sum / count as f64;
        // In two passes: the differences may be small compared with the values.
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        (count > 0).then(|| Self {
            mean,
            standard_deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        })
    }
}

/// The median of a sample in any order, as [`Share::of`]; `None` if it is empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    MEDIAN.of(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_needs_ten_values_beyond_it() {
        for (share, least) in [(P90, 100), (P99, 1000), (P99_9, 10_000), (P1, 1001)] {
            assert!(share.is_carried_by(least), "{share:?}");
            assert!(!share.is_carried_by(least - 1), "{share:?}");
        }
        assert!(!MEDIAN.is_carried_by(0));
    }

    #[test]
    fn the_median_is_the_smallest_that_half_of_the_values_do_not_exceed() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.0));
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let moments = Moments::about(40.0, values.into_iter()).unwrap();
        assert_eq!(moments.mean, 5.0);
        // The squares sum to 32, over n - 1 = 7.
        let deviation = moments.standard_deviation.unwrap();
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            Moments::about(3.0, [3.0].into_iter())
                .unwrap()
                .standard_deviation,
            None
        );
        assert_eq!(Moments::about(0.0, [].into_iter()), None);
    }
}

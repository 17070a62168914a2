//! The median of recent durations, with drift.
//!
//! The drift is the slope of Theil (1950) and Sen (1968), the median of the slopes between all pairs, if
//! Mann's test (1945; Kendall 1975) finds a trend: S is the number of rising pairs less that of falling
//! ones, and without a trend its variance is n(n-1)(2n+5)/18.

/// The standard deviations of S that make a trend: one series in a thousand reaches them by chance.
const TREND: f64 = 3.3;
/// With fewer durations no series reaches that.
const FEWEST_FOR_TREND: usize = 8;
/// Drift moves the prediction by at most this share of the median.
const MOST_DRIFT: f64 = 0.25;
/// Durations that make a jump, if at least as many lie before them.
const JUMP: usize = 4;

/// The next duration, from those before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    pub next_ns: f64,
    pub early_ns: f64,
    pub late_ns: f64,
    pub drift_ns: f64,
}

/// Of at least one duration, oldest first.
pub(super) fn fit(recent: &[f64]) -> Fit {
    let middle = median(&mut recent.to_vec());
    let drift_ns = trend(recent).unwrap_or(0.0);
    // Each duration as it would be at the next call's place.
    let mut levels: Vec<f64> = (0..recent.len())
        .map(|place| recent[place] + drift_ns * (recent.len() - place) as f64)
        .collect();
    let level = median(&mut levels);
    let next_ns = level.clamp(middle * (1.0 - MOST_DRIFT), middle * (1.0 + MOST_DRIFT));
    // `median` leaves them partly in order only.
    levels.sort_by(f64::total_cmp);
    let spared = levels.len() / 10;
    Fit {
        next_ns,
        early_ns: (levels[spared] + next_ns - level).clamp(0.0, next_ns),
        late_ns: (levels[levels.len() - 1 - spared] + next_ns - level).max(next_ns),
        drift_ns,
    }
}

/// The slope per call, where there is a trend.
fn trend(recent: &[f64]) -> Option<f64> {
    let n = recent.len();
    if n < FEWEST_FOR_TREND {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (place, earlier) in recent.iter().enumerate() {
        let later = recent[place + 1..].iter().zip(1u32..);
        slopes.extend(later.map(|(later, calls)| (later - earlier) / f64::from(calls)));
    }
    let rising = slopes.iter().filter(|slope| **slope > 0.0).count() as f64;
    let falling = slopes.iter().filter(|slope| **slope < 0.0).count() as f64;
    let n = n as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    ((rising - falling).abs() > TREND * deviation).then(|| median(&mut slopes))
}

/// The number of durations before a jump: the last ones are further from the earlier ones than either
/// are among themselves.
pub(super) fn jumped_after(recent: &[f64]) -> Option<usize> {
    let earlier = recent.len().checked_sub(JUMP)?;
    if earlier < JUMP {
        return None;
    }
    let (low, high) = range(&recent[..earlier]);
    let (new_low, new_high) = range(&recent[earlier..]);
    let gap = (new_low - high).max(low - new_high);
    (gap > (high - low).max(new_high - new_low)).then_some(earlier)
}

fn range(values: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.iter().fold(ends, |(low, high), value| {
        (low.min(*value), high.max(*value))
    })
}

/// Of at least one value; changes their order.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, *upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_two() {
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [9.0, 1.0, 2.0, 4.0]), 3.0);
    }

    #[test]
    fn a_steady_rise_is_extrapolated_to_the_next_call() {
        let rising: Vec<f64> = (0..16).map(|n| 500.0 + f64::from(n)).collect();
        let fit = fit(&rising);
        assert_eq!((fit.next_ns, fit.drift_ns), (516.0, 1.0));
        assert_eq!((fit.early_ns, fit.late_ns), (516.0, 516.0));
    }

    #[test]
    fn drift_moves_the_prediction_by_at_most_a_quarter() {
        let doubling: Vec<f64> = (0..16).map(|n| 2f64.powi(n)).collect();
        let middle = f64::midpoint(128.0, 256.0);
        assert_eq!(fit(&doubling).next_ns, middle * 1.25);
        let halving: Vec<f64> = doubling.into_iter().rev().collect();
        let fit = fit(&halving);
        assert_eq!(fit.next_ns, middle * 0.75);
        assert!(fit.early_ns <= fit.next_ns && fit.next_ns <= fit.late_ns);
    }

    #[test]
    fn alternating_values_have_no_drift() {
        let values = [5.0, 7.0, 5.0, 7.0, 5.0, 7.0, 5.0, 7.0];
        assert_eq!(trend(&values), None);
        assert_eq!(fit(&values).next_ns, 6.0);
    }

    #[test]
    fn without_drift_the_ends_are_the_10th_and_90th_percentile() {
        // Five: none is excluded. Ten: one at each end.
        for (values, [early_ns, next_ns, late_ns]) in [
            (vec![30.0, 10.0, 50.0, 20.0, 40.0], [10.0, 30.0, 50.0]),
            (
                vec![1.0, 90.0, 20.0, 60.0, 40.0, 30.0, 70.0, 10.0, 50.0, 99.0],
                [10.0, 45.0, 90.0],
            ),
        ] {
            let drift_ns = 0.0;
            let expected = Fit {
                next_ns,
                early_ns,
                late_ns,
                drift_ns,
            };
            assert_eq!(fit(&values), expected);
        }
    }

    #[test]
    fn a_trend_is_a_pair_sum_beyond_3_3_deviations() {
        // Of eight durations there are 28 pairs; 3.3 * sqrt(8 * 7 * 21 / 18) = 26.67.
        let tied = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0];
        let one_falls = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 7.0];
        let eight = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        for (pairs, values, slope) in [
            (28, &eight[..], Some(1.0)),
            // A tie neither rises nor falls.
            (27, &tied, Some(1.0)),
            (26, &one_falls, None),
            // 3.3 * sqrt(7 * 6 * 19 / 18) = 21.97.
            (21, &eight[..7], None),
        ] {
            assert_eq!(trend(values), slope, "{pairs} up");
            let falling: Vec<f64> = values.iter().rev().copied().collect();
            assert_eq!(trend(&falling), slope.map(|up: f64| -up), "{pairs} down");
        }
    }

    #[test]
    fn four_shifted_values_are_a_jump_and_a_drift_is_not() {
        let jump = [500.0, 510.0, 490.0, 505.0, 800.0, 810.0, 805.0, 795.0];
        assert_eq!(jumped_after(&jump), Some(4));
        assert_eq!(jumped_after(&jump[..7]), None);
        let down = [800.0, 810.0, 805.0, 795.0, 500.0, 510.0, 490.0, 505.0];
        assert_eq!(jumped_after(&down), Some(4));
        // 300 above the earlier ones, and 600 among themselves.
        let spread = [500.0, 501.0, 502.0, 500.0, 800.0, 1000.0, 1200.0, 1400.0];
        assert_eq!(jumped_after(&spread), None);
        assert_eq!(jumped_after(&spread.map(|value| -value)), None);
        let drift: Vec<f64> = (0..16).map(|n| 500.0 + 10.0 * f64::from(n)).collect();
        assert_eq!(jumped_after(&drift), None);
    }
}

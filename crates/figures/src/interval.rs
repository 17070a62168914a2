//! Exact intervals from the binomial distribution, for shares and for quantiles.
//!
//! `side` is the probability beyond one end: 0.025 twice for a two-sided interval of 95%, 0.05 once
//! for a one-sided bound of the same confidence.

use statrs::function::beta::beta_reg;

/// The probability beyond each end of a two-sided 95% interval.
pub const SIDE: f64 = 0.025;

/// The 95% interval of a share, from `hits` in `count`.
///
/// Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
/// Binomial", Biometrika 26 (1934): exact, so its coverage is at least 95%.
pub fn of_share(hits: u64, count: u64) -> (f64, f64) {
    (share_low(hits, count, SIDE), share_high(hits, count, SIDE))
}

/// The largest share for which `hits` or more of `count` have at most probability `side`.
pub fn share_low(hits: u64, count: u64, side: f64) -> f64 {
    match hits {
        0 => 0.0,
        // P(X >= hits) is the regularised incomplete beta function I_p(hits, count - hits + 1).
        _ => root(|p| beta_reg(hits as f64, (count - hits + 1) as f64, p) - side),
    }
}

/// The smallest share for which `hits` or fewer of `count` have at most probability `side`.
pub fn share_high(hits: u64, count: u64, side: f64) -> f64 {
    if hits >= count {
        return 1.0;
    }
    root(|p| beta_reg((hits + 1) as f64, (count - hits) as f64, p) - (1.0 - side))
}

/// The probability of at most `hits` in `count` if each is a hit with probability `share`.
pub fn at_most(hits: u64, count: u64, share: f64) -> f64 {
    if hits >= count {
        return 1.0;
    }
    1.0 - beta_reg((hits + 1) as f64, (count - hits) as f64, share)
}

/// How many of the highest of `count` values may be left out so that the highest of the others is an
/// upper bound, with error probability `side`, of the quantile that the share `beyond` exceeds;
/// `None` if even the maximum is not. Distribution-free, also with ties.
///
/// That value is within a limit if and only if [`at_most`] of the number of values above the limit is
/// at most `side`: the bound on the quantile and the test of the share are equivalent.
pub fn quantile_high_beyond(beyond: f64, count: u64, side: f64) -> Option<u64> {
    // The first number of hits that is not rare: one fewer may be left out.
    partition(count, |hits| at_most(hits, count, beyond) <= side).checked_sub(1)
}

/// The ranks (from 1) between which the quantile of that share lies with 95% confidence, in a sample
/// of `count`; `None` if the sample is too small to bound it on both sides.
///
/// Distribution-free: the number of values below the quantile is binomial. David and Nagaraja,
/// "Order Statistics" (3rd edition, 2003), section 7.1.
pub fn of_quantile(share: f64, count: usize) -> Option<(usize, usize)> {
    let below = |hits: u64| at_most(hits, count as u64, share);
    // The largest r with P(below < r) <= 2.5%, and the smallest with P(below >= r) <= 2.5%.
    let first = |holds: &dyn Fn(u64) -> bool| partition(count as u64, holds) as usize;
    let low = first(&|rank| rank == 0 || below(rank - 1) <= SIDE).checked_sub(1)?;
    let high = first(&|rank| rank == 0 || 1.0 - below(rank - 1) > SIDE);
    (low >= 1 && high <= count).then_some((low, high))
}

/// The first of 0..=count for which `holds` is false; count + 1 if it always holds.
fn partition(count: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, count + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// The zero of a rising function of a share, to the last bit.
fn root(rising: impl Fn(f64) -> f64) -> f64 {
    boundary(0.0, 1.0, 200, |share| rising(share) < 0.0)
}

/// Where a condition ends that holds at `within` and not at `out`, by bisection.
pub(crate) fn boundary(
    mut within: f64,
    mut out: f64,
    halvings: u32,
    holds: impl Fn(f64) -> bool,
) -> f64 {
    for _ in 0..halvings {
        let middle = f64::midpoint(within, out);
        if middle == within || middle == out {
            break;
        }
        match holds(middle) {
            true => within = middle,
            false => out = middle,
        }
    }
    f64::midpoint(within, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() <= 1e-4 * expected,
            "{value} instead of {expected}"
        );
    }

    #[test]
    fn intervals_of_shares_are_those_of_the_tables() {
        // Without hits the upper end is 1 - 0.025^(1/n); with only hits the lower end 0.025^(1/n).
        is_near(of_share(0, 100).1, 1.0 - 0.025_f64.powf(0.01));
        assert_eq!(of_share(0, 100).0, 0.0);
        is_near(of_share(10, 10).0, 0.025_f64.powf(0.1));
        assert_eq!(of_share(10, 10).1, 1.0);
        // R: binom.test(3, 10)$conf.int and binom.test(10, 1000)$conf.int.
        let (low, high) = of_share(3, 10);
        is_near(low, 0.066_739_51);
        is_near(high, 0.652_452_9);
        let (low, high) = of_share(10, 1000);
        is_near(low, 0.004_805_5);
        is_near(high, 0.018_311_5);
        // A million datapoints: near the Poisson interval of 10, 4.795 to 18.390.
        let (low, high) = of_share(10, 1_000_000);
        assert!((low * 1e6 - 4.795).abs() < 0.001, "{low}");
        assert!((high * 1e6 - 18.390).abs() < 0.001, "{high}");
    }

    #[test]
    fn the_bound_of_a_quantile_agrees_with_the_test_of_the_share() {
        // 0.999^2995 <= 5% < 0.999^2994: from there on the maximum bounds p99.9 with 95%.
        assert_eq!(quantile_high_beyond(0.001, 2994, 0.05), None);
        assert_eq!(quantile_high_beyond(0.001, 2995, 0.05), Some(0));
        // One hit is as rare from 4742 on (the Poisson figure is 4.744 per thousand).
        assert_eq!(quantile_high_beyond(0.001, 4741, 0.05), Some(0));
        assert_eq!(quantile_high_beyond(0.001, 4742, 0.05), Some(1));
        for count in [100, 2995, 10_000] {
            for hits in [0, 1, 5, 9] {
                let shown = share_high(hits, count, 0.05) <= 0.001;
                let left_out = quantile_high_beyond(0.001, count, 0.05);
                assert_eq!(left_out.is_some_and(|most| hits <= most), shown);
            }
        }
        assert_eq!(at_most(3, 3, 0.5), 1.0);
        is_near(at_most(0, 3, 0.5), 0.125);
    }

    #[test]
    fn the_median_of_a_small_sample_lies_between_the_ranks_of_the_tables() {
        // David and Nagaraja, and every table of the sign test: n = 10 has 2 and 9, n = 20 6 and 15.
        assert_eq!(of_quantile(0.5, 10), Some((2, 9)));
        assert_eq!(of_quantile(0.5, 20), Some((6, 15)));
        assert_eq!(of_quantile(0.5, 5), None);
        // p99 needs more than its tail to bound it from above: 0.99^n <= 2.5% from n = 368 on.
        assert_eq!(of_quantile(0.99, 367), None);
        assert_eq!(of_quantile(0.99, 368).map(|(_, high)| high), Some(368));
    }

    /// `P(X <= hits)` of the binomial distribution, summed term by term.
    fn summed(hits: u64, count: u64, share: f64) -> f64 {
        let mut term = (1.0 - share).powi(count as i32);
        let mut sum = term;
        for hit in 0..hits {
            term *= (count - hit) as f64 / (hit + 1) as f64 * share / (1.0 - share);
            sum += term;
        }
        sum
    }

    #[test]
    fn the_cumulative_probability_is_the_sum_of_its_terms() {
        for (hits, count, share) in [(0, 20, 0.1), (3, 20, 0.1), (12, 40, 0.3), (39, 40, 0.9)] {
            is_near(at_most(hits, count, share), summed(hits, count, share));
        }
        assert_eq!((at_most(40, 40, 0.9), at_most(41, 40, 0.9)), (1.0, 1.0));
    }

    #[test]
    fn one_sided_bounds_are_where_the_sum_of_the_terms_is_the_error() {
        for (hits, count) in [(1, 10), (3, 10), (9, 10), (4, 200)] {
            for side in [0.025, 0.05, 0.2] {
                let (low, high) = (share_low(hits, count, side), share_high(hits, count, side));
                is_near(1.0 - summed(hits - 1, count, low), side);
                is_near(summed(hits, count, high), side);
            }
        }
        assert_eq!(
            (share_low(0, 10, 0.05), share_high(10, 10, 0.05)),
            (0.0, 1.0)
        );
        assert_eq!((share_low(0, 0, 0.05), share_high(0, 0, 0.05)), (0.0, 1.0));
    }

    #[test]
    fn the_ranks_of_a_quantile_are_the_nearest_within_the_error() {
        for (share, count) in [(0.5, 11), (0.5, 100), (0.9, 60), (0.9, 200), (0.95, 200)] {
            let (low, high) = of_quantile(share, count).unwrap();
            let below = |rank: usize| summed(rank as u64 - 1, count as u64, share);
            assert!(below(low) <= SIDE && below(low + 1) > SIDE, "{low}");
            assert!(
                1.0 - below(high) <= SIDE && 1.0 - below(high - 1) > SIDE,
                "{high}"
            );
        }
        // (1/2)^6 < 2.5% < (1/2)^5, on either side; p90: 0.9^36 < 2.5% < 0.9^35.
        assert_eq!(of_quantile(0.5, 6), Some((1, 6)));
        assert_eq!(of_quantile(0.9, 35), None);
        assert_eq!(of_quantile(0.9, 36).map(|(_, high)| high), Some(36));
        // The other end: 1 - 0.1^n is the chance of one below p10.
        assert_eq!(of_quantile(0.1, 35), None);
        assert_eq!(of_quantile(0.1, 36).map(|(low, _)| low), Some(1));
        assert_eq!(of_quantile(0.5, 0), None);
    }

    #[test]
    fn values_may_be_omitted_if_rare() {
        for (beyond, count, side) in [(0.1, 100, 0.05), (0.01, 1000, 0.05), (0.3, 50, 0.01)] {
            let most = quantile_high_beyond(beyond, count, side).unwrap();
            assert!(summed(most, count, beyond) <= side);
            assert!(summed(most + 1, count, beyond) > side);
        }
        assert_eq!(quantile_high_beyond(0.5, 0, 0.05), None);
    }
}

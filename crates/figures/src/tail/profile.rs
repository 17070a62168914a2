//! The interval of a far quantile by profile likelihood: all quantiles whose best fit is not
//! significantly less likely than the best one. It is asymmetric, as it should be.

use super::pareto::{Pareto, excess_per_scale, maximum};
use crate::interval::boundary;

/// Half the 95% point of the chi-squared distribution with one degree of freedom, 3.841.
const HALF_CHI_SQUARED: f64 = 1.920_729;

/// A quantile this many times the estimate is not a useful bound.
const TOO_WIDE: f64 = 50.0;

/// Of the distance between the estimate and a quantile that is not likely.
const HALVINGS: u32 = 24;

/// The shapes tried.
const SHAPES: (f64, f64) = (-0.5, 2.0);

/// The 95% interval of the excess that one in `rarer` exceeds; `None` without a useful upper end.
pub(super) fn interval(excesses: &[f64], fit: Pareto, rarer: f64) -> Option<(f64, f64)> {
    let best = fit.quantile(rarer);
    let likely = fit.likelihood(excesses) - HALF_CHI_SQUARED;
    let is_likely = |quantile: f64| profile(excesses, quantile, rarer) >= likely;
    let high_end = best * TOO_WIDE;
    if is_likely(high_end) {
        return None;
    }
    // The quantile may lie within the data, so the largest excess does not limit it.
    let end = |unlikely: f64| boundary(best, unlikely, HALVINGS, is_likely);
    Some((end(0.0), end(high_end)))
}

/// The maximum log likelihood of the distributions with that quantile.
fn profile(excesses: &[f64], quantile: f64, rarer: f64) -> f64 {
    let at = |shape: f64| Pareto {
        shape,
        scale: quantile / excess_per_scale(shape, rarer),
    };
    let best = maximum(SHAPES.0, SHAPES.1, |shape| at(shape).likelihood(excesses));
    at(best).likelihood(excesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle of each of `count` parts of equal probability.
    fn ideal(count: usize, shape: f64) -> Vec<f64> {
        let parent = Pareto {
            shape,
            scale: 2000.0,
        };
        let beyond = |at: usize| 1.0 - (at as f64 + 0.5) / count as f64;
        (0..count)
            .map(|at| parent.quantile(1.0 / beyond(at)))
            .collect()
    }

    /// The log likelihood of the best fit less that of the best one with that quantile, from a fine
    /// grid of shapes.
    fn below_best(excesses: &[f64], fit: Pareto, quantile: f64, rarer: f64) -> f64 {
        let likelihood = |shape: f64| {
            let scale = quantile / ((rarer.powf(shape) - 1.0) / shape);
            let density =
                |x: f64| (1.0 + shape * x / scale).max(0.0).powf(-1.0 / shape - 1.0) / scale;
            excesses.iter().map(|&x| density(x).ln()).sum::<f64>()
        };
        // Halves of a thousandth: never 0, for which the formula has no value.
        let most = (-1000..4000)
            .map(|shape| likelihood((f64::from(shape) + 0.5) / 2000.0))
            .fold(f64::NEG_INFINITY, f64::max);
        fit.likelihood(excesses) - most
    }

    #[test]
    fn at_both_ends_the_best_fit_is_less_likely_by_half_the_point_of_chi_squared() {
        for (shape, rarer) in [(0.2, 500.0), (-0.2, 500.0), (0.001, 100.0)] {
            let excesses = ideal(300, shape);
            let fit = Pareto::fit(&excesses);
            let (low, high) = interval(&excesses, fit, rarer).unwrap();
            assert!(low < fit.quantile(rarer) && fit.quantile(rarer) < high);
            for end in [low, high] {
                // 1.96^2 / 2, where 1.96 is exceeded on either side with 5% together.
                let below = below_best(&excesses, fit, end, rarer);
                assert!(
                    (below - 1.959_964_f64.powi(2) / 2.0).abs() < 1e-3,
                    "{below}"
                );
            }
        }
    }

    #[test]
    fn a_tail_without_a_useful_upper_end_has_no_interval() {
        let excesses = ideal(100, 0.9);
        let fit = Pareto::fit(&excesses);
        // One in 5000 ends at 24 times the estimate, one in 50 000 beyond 50 times.
        let (_, high) = interval(&excesses, fit, 5000.0).unwrap();
        let times = high / fit.quantile(5000.0);
        assert!((23.0..25.0).contains(&times), "{times}");
        assert_eq!(interval(&excesses, fit, 50_000.0), None);
    }
}

//! The interval of a far quantile by profile likelihood: all quantiles whose best fit is not
//! significantly less likely than the best one of all. It is as lopsided as the question is.

use super::pareto::{Pareto, excess_per_scale, maximum};

/// Half the 95 % point of the chi-squared distribution with one degree of freedom, 3.841.
const HALF_CHI_SQUARED: f64 = 1.920_729;

/// A quantile this many times the estimate is no bound.
const TOO_WIDE: f64 = 50.0;

/// Shapes that are tried.
const SHAPES: (f64, f64) = (-0.5, 2.0);

/// The 95 % interval of the excess that one in `rarer` exceeds; `None` where it has no useful end.
pub(super) fn interval(excesses: &[f64], fit: Pareto, rarer: f64) -> Option<(f64, f64)> {
    let best = fit.quantile(rarer);
    let likely = fit.likelihood(excesses) - HALF_CHI_SQUARED;
    let is_likely = |quantile: f64| profile(excesses, quantile, rarer) >= likely;
    let high_end = best * TOO_WIDE;
    if is_likely(high_end) {
        return None;
    }
    // Below the largest excess nothing is excluded by itself: the quantile may lie within the data.
    Some((
        crossing(0.0, best, &is_likely),
        crossing(high_end, best, &is_likely),
    ))
}

/// The largest log likelihood of all distributions with that quantile.
fn profile(excesses: &[f64], quantile: f64, rarer: f64) -> f64 {
    let at = |shape: f64| Pareto {
        shape,
        scale: quantile / excess_per_scale(shape, rarer),
    };
    let best = maximum(SHAPES.0, SHAPES.1, |shape| at(shape).likelihood(excesses));
    at(best).likelihood(excesses)
}

/// Where likely quantiles begin, between one that is not and one that is.
fn crossing(unlikely: f64, likely: f64, is_likely: &dyn Fn(f64) -> bool) -> f64 {
    const HALVINGS: usize = 24;
    let (mut out, mut within) = (unlikely, likely);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(out, within);
        if is_likely(middle) {
            within = middle;
        } else {
            out = middle;
        }
    }
    f64::midpoint(out, within)
}

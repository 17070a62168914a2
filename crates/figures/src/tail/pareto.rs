//! The generalised Pareto distribution of excesses: `P(X > x) = (1 + shape x / scale)^(-1/shape)`.

/// Below this the shape counts as 0, the limit, which is the exponential distribution.
const EXPONENTIAL: f64 = 1e-9;

/// The likelihood has no maximum below -1; between -1 and -1/2 its theory does not apply.
const SHAPE_MIN: f64 = -0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pareto {
    pub(super) shape: f64,
    /// In the unit of the excesses.
    pub(super) scale: f64,
}

impl Pareto {
    /// The maximum likelihood fit. With `ratio = shape / scale` the likelihood has its maximum over
    /// the shape at the mean of `ln (1 + ratio x)`, which leaves a search in one dimension: Grimshaw,
    /// "Computing Maximum Likelihood Estimates for the Generalized Pareto Distribution",
    /// Technometrics 35 (1993).
    pub(super) fn fit(excesses: &[f64]) -> Self {
        let mean = excesses.iter().sum::<f64>() / excesses.len() as f64;
        let largest = excesses.iter().copied().fold(0.0, f64::max);
        // The search is over z with ratio = (e^z - 1) / largest: all ratios above -1/largest.
        let ratio = |z: f64| z.exp_m1() / largest;
        let at = |z: f64| Self::at_ratio(excesses, mean, ratio(z));
        let best = maximum(-7.0, 9.0, |z| at(z).log_likelihood(excesses, ratio(z)));
        at(best)
    }

    fn at_ratio(excesses: &[f64], mean: f64, ratio: f64) -> Self {
        if ratio.abs() * mean < EXPONENTIAL {
            return Self {
                shape: 0.0,
                scale: mean,
            };
        }
        let logs: f64 = excesses.iter().map(|x| (ratio * x).ln_1p()).sum();
        let shape = logs / excesses.len() as f64;
        if shape < SHAPE_MIN {
            return Self {
                shape: SHAPE_MIN,
                scale: SHAPE_MIN / ratio,
            };
        }
        Self {
            shape,
            scale: shape / ratio,
        }
    }

    /// The distribution with `ratio = shape / scale`.
    fn log_likelihood(self, excesses: &[f64], ratio: f64) -> f64 {
        let count = excesses.len() as f64;
        if self.shape == 0.0 {
            return -count * (self.scale.ln() + 1.0);
        }
        if self.shape > SHAPE_MIN {
            // At the maximum over the shape, the sum of logarithms is shape times count.
            return -count * (self.scale.ln() + 1.0 + self.shape);
        }
        let logs: f64 = excesses.iter().map(|x| (ratio * x).ln_1p()).sum();
        -count * self.scale.ln() - (1.0 + 1.0 / self.shape) * logs
    }

    /// The log likelihood of these excesses; minus infinity if one of them is impossible.
    pub(super) fn likelihood(self, excesses: &[f64]) -> f64 {
        let count = excesses.len() as f64;
        if self.shape.abs() < EXPONENTIAL {
            let sum: f64 = excesses.iter().sum();
            return -count * self.scale.ln() - sum / self.scale;
        }
        let ratio = self.shape / self.scale;
        let mut logs = 0.0;
        for x in excesses {
            let inner = ratio * x;
            if inner <= -1.0 {
                return f64::NEG_INFINITY;
            }
            logs += inner.ln_1p();
        }
        -count * self.scale.ln() - (1.0 + 1.0 / self.shape) * logs
    }

    /// The excess that one in `rarer` exceeds.
    pub(super) fn quantile(self, rarer: f64) -> f64 {
        self.scale * excess_per_scale(self.shape, rarer)
    }

    /// `P(X > x)`.
    pub(super) fn survival(self, x: f64) -> f64 {
        if self.shape.abs() < EXPONENTIAL {
            return (-x / self.scale).exp();
        }
        let inner = self.shape * x / self.scale;
        if inner <= -1.0 {
            return 0.0;
        }
        (-inner.ln_1p() / self.shape).exp()
    }
}

/// `(rarer^shape - 1) / shape`: the quantile of scale 1.
pub(super) fn excess_per_scale(shape: f64, rarer: f64) -> f64 {
    if shape.abs() < EXPONENTIAL {
        return rarer.ln();
    }
    (shape * rarer.ln()).exp_m1() / shape
}

/// The maximum of a function that may have several local ones: a grid, then golden sections.
pub(super) fn maximum(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    const GRID: usize = 24;
    const SECTIONS: usize = 28;
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let step = (high - low) / GRID as f64;
    let (mut best, mut most) = (low, f64::NEG_INFINITY);
    for at in 0..=GRID {
        let place = low + step * at as f64;
        let value = function(place);
        if value > most {
            (best, most) = (place, value);
        }
    }
    let (mut left, mut right) = ((best - step).max(low), (best + step).min(high));
    let mut inner_left = right - GOLDEN * (right - left);
    let mut inner_right = left + GOLDEN * (right - left);
    let (mut at_left, mut at_right) = (function(inner_left), function(inner_right));
    for _ in 0..SECTIONS {
        if at_left >= at_right {
            (right, inner_right, at_right) = (inner_right, inner_left, at_left);
            inner_left = right - GOLDEN * (right - left);
            at_left = function(inner_left);
        } else {
            (left, inner_left, at_left) = (inner_left, inner_right, at_right);
            inner_right = left + GOLDEN * (right - left);
            at_right = function(inner_right);
        }
    }
    f64::midpoint(left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        let off = (value - expected).abs();
        assert!(
            off <= 1e-6 * expected.abs().max(1.0),
            "{value}, not {expected}"
        );
    }

    #[test]
    fn the_maximum_is_found_inside_at_either_end_and_among_several() {
        near(maximum(-2.0, 3.0, |x| -(x - 0.3).powi(2)), 0.3);
        near(maximum(-7.0, 9.0, |x| -(x + 6.9).powi(2)), -6.9);
        near(maximum(-7.0, 9.0, |x| -(x - 8.9).powi(2)), 8.9);
        near(maximum(-1.0, 2.0, |x| x), 2.0);
        near(maximum(-1.0, 2.0, |x| -x), -1.0);
        // A low hill on the left, a higher one as wide as two steps of the grid on the right.
        let hill = |x: f64, at: f64, high: f64| high * (1.0 - ((x - at) / 0.4).powi(2)).max(0.0);
        near(
            maximum(0.0, 4.8, |x| hill(x, 0.9, 1.0) + hill(x, 4.03, 1.5)),
            4.03,
        );
        near(
            maximum(0.0, 4.8, |x| hill(x, 0.77, 1.5) + hill(x, 3.9, 1.0)),
            0.77,
        );
    }

    #[test]
    fn quantile_survival_and_likelihood_are_those_of_the_closed_form() {
        let heavy = Pareto {
            shape: 0.5,
            scale: 3.0,
        };
        // (1 + 0.5 * 6 / 3)^-2 = 1/4; one in four exceeds 6.
        near(heavy.survival(6.0), 0.25);
        near(heavy.quantile(4.0), 6.0);
        // The density: 1/3 (1 + x/6)^-3.
        near(
            heavy.likelihood(&[6.0, 12.0]),
            (1.0_f64 / 24.0).ln() + (1.0_f64 / 81.0).ln(),
        );
        // It ends at 6: (1 - x/6)^2.
        let short = Pareto {
            shape: -0.5,
            scale: 3.0,
        };
        near(short.survival(3.0), 0.25);
        near(short.quantile(4.0), 3.0);
        assert_eq!((short.survival(6.0), short.survival(7.0)), (0.0, 0.0));
        // The density: 1/3 (1 - x/6).
        near(short.likelihood(&[3.0]), (1.0_f64 / 6.0).ln());
        assert_eq!(short.likelihood(&[3.0, 6.0]), f64::NEG_INFINITY);
        assert_eq!(short.likelihood(&[3.0, 7.0]), f64::NEG_INFINITY);
        let none = Pareto {
            shape: 0.0,
            scale: 3.0,
        };
        near(none.survival(6.0), (-2.0_f64).exp());
        near(none.quantile(4.0), 3.0 * 4.0_f64.ln());
        near(none.likelihood(&[3.0, 6.0]), -2.0 * 3.0_f64.ln() - 3.0);
    }

    #[test]
    fn near_shape_zero_everything_approaches_the_exponential() {
        for shape in [-2e-9, -5e-10, 5e-10, 2e-9] {
            let nearly = Pareto { shape, scale: 3.0 };
            near(nearly.survival(6.0), (-2.0_f64).exp());
            near(nearly.quantile(4.0), 3.0 * 4.0_f64.ln());
            near(nearly.likelihood(&[3.0, 6.0]), -2.0 * 3.0_f64.ln() - 3.0);
        }
    }

    /// The likelihood from the density, and its maximum over a fine grid in both parameters.
    fn best_of_grid(excesses: &[f64]) -> f64 {
        let density = |shape: f64, scale: f64, x: f64| {
            let inner = (1.0 + shape * x / scale).max(0.0);
            inner.powf(-1.0 / shape - 1.0) / scale
        };
        let mut best = f64::NEG_INFINITY;
        for shape in (-500..2000).step_by(10).map(|shape| f64::from(shape) / 1e3) {
            for scale in (5..200).map(|scale| f64::from(scale) / 50.0) {
                let shape = if shape == 0.0 { 1e-6 } else { shape };
                let sum: f64 = excesses
                    .iter()
                    .map(|&x| density(shape, scale, x).ln())
                    .sum();
                best = best.max(sum);
            }
        }
        best
    }

    #[test]
    fn no_other_shape_and_scale_are_more_likely_than_the_fit() {
        for excesses in [
            vec![0.1, 0.3, 0.4, 0.8, 1.1, 1.9, 4.5],
            vec![0.2, 0.5, 0.7, 1.0, 1.2, 1.4, 1.5, 1.6],
            vec![0.05, 0.1, 0.2, 0.4, 0.9, 3.0, 20.0],
        ] {
            let fit = Pareto::fit(&excesses);
            let (reached, best) = (fit.likelihood(&excesses), best_of_grid(&excesses));
            // The grid may miss the maximum slightly; the fit must not.
            assert!(
                reached >= best - 1e-6 && reached <= best + 0.02,
                "{fit:?}: {reached}, not {best}"
            );
        }
    }

    #[test]
    fn a_fit_scales_with_its_excesses() {
        // Their sum is a multiple of their number; then the same in nanoseconds.
        let excesses = [0.5, 0.5, 1.0, 1.0, 2.0, 3.0, 6.0];
        let fit = Pareto::fit(&excesses);
        assert!(fit.likelihood(&excesses) >= best_of_grid(&excesses) - 1e-6);
        let larger = Pareto::fit(&excesses.map(|x| x * 1e5));
        near(larger.shape, fit.shape);
        near(larger.scale / 1e5, fit.scale);
        let smaller = Pareto::fit(&excesses.map(|x| x / 1e5));
        near(smaller.shape, fit.shape);
        near(smaller.scale * 1e5, fit.scale);
    }

    #[test]
    fn a_ratio_near_zero_is_the_exponential_distribution_of_the_same_mean() {
        let at = |ratio: f64| Pareto::at_ratio(&[2.0, 6.0], 4.0, ratio);
        let exponential = Pareto {
            shape: 0.0,
            scale: 4.0,
        };
        assert_eq!(
            (at(0.0), at(0.2e-9), at(-0.2e-9)),
            (exponential, exponential, exponential)
        );
        // Just above the limit the general formula gives nearly the same.
        let nearly = at(EXPONENTIAL / 4.0);
        assert!(nearly.shape > 0.0);
        near(nearly.scale, 4.0);
    }

    #[test]
    fn the_short_form_of_the_likelihood_equals_the_long_one() {
        // At the mean, at the mean of the logarithms, and at the least shape that is allowed.
        let excesses = [2.0, 4.0, 9.0];
        for ratio in [0.0, 0.2, -0.05, -0.11] {
            let at = Pareto::at_ratio(&excesses, 5.0, ratio);
            near(
                at.log_likelihood(&excesses, ratio),
                at.likelihood(&excesses),
            );
        }
        assert_eq!(Pareto::at_ratio(&excesses, 5.0, -0.11).shape, SHAPE_MIN);
    }
}

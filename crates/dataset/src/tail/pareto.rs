//! The generalised Pareto distribution of excesses: `P(X > x) = (1 + shape x / scale)^(-1/shape)`.

/// Below this the shape is taken for 0, the exponential distribution, which is the limit.
const EXPONENTIAL: f64 = 1e-9;

/// The likelihood has no maximum below -1; between that and -1/2 its theory does not hold.
const SHAPE_MIN: f64 = -0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pareto {
    pub(super) shape: f64,
    /// In the unit of the excesses.
    pub(super) scale: f64,
}

impl Pareto {
    /// By maximum likelihood. With `ratio = shape / scale` the likelihood has its maximum over the
    /// shape at the mean of `ln (1 + ratio x)`, and one dimension is left to search: Grimshaw,
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

    /// `ratio` is `shape / scale`, where that is known to the caller.
    fn log_likelihood(self, excesses: &[f64], ratio: f64) -> f64 {
        let count = excesses.len() as f64;
        if self.shape == 0.0 {
            return -count * (self.scale.ln() + 1.0);
        }
        if self.shape > SHAPE_MIN {
            // At the maximum over the shape the sum of logarithms is shape times count.
            return -count * (self.scale.ln() + 1.0 + self.shape);
        }
        let logs: f64 = excesses.iter().map(|x| (ratio * x).ln_1p()).sum();
        -count * self.scale.ln() - (1.0 + 1.0 / self.shape) * logs
    }

    /// The log likelihood of these excesses; minus infinity where one of them cannot be.
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

/// The place of the maximum of a function that may have several: a grid, then golden sections.
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

//! Student's distribution.

use statrs::function::beta::beta_reg;

use crate::interval::boundary;

/// `P(|T| >= |t|)`.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    // Abramowitz and Stegun, 26.7.1.
    beta_reg(
        freedom / 2.0,
        0.5,
        (freedom / (freedom + t * t)).clamp(0.0, 1.0),
    )
}

/// The t whose absolute value is exceeded with probability 5%.
pub fn quantile(freedom: f64) -> f64 {
    boundary(0.0, 1000.0, 60, |t| two_sided(t, freedom) > 0.05)
}

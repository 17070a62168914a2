//! Student's distribution.

use statrs::function::beta::beta_reg;

/// `P(|T| >= |t|)`.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    // Abramowitz and Stegun, 26.7.1.
    beta_reg(
        freedom / 2.0,
        0.5,
        (freedom / (freedom + t * t)).clamp(0.0, 1.0),
    )
}

/// The t whose absolute value is exceeded with probability 5 %.
pub fn quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

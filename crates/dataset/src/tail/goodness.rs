//! Does the fitted distribution fit? Anderson and Darling's statistic weighs the ends, where a tail
//! must be right. With fitted parameters its distribution hangs on the shape (Choulakian and
//! Stephens, "Goodness-of-Fit Tests for the Generalized Pareto Distribution", Technometrics 43,
//! 2001, tabulate it); here it is simulated, which holds for any shape and count.

use super::pareto::Pareto;
use crate::random::Random;

/// Simulated samples at most.
const SAMPLES: u32 = 200;

/// Once so many of them fit worse than the data, the fit is good enough to stop: Besag and Clifford,
/// "Sequential Monte Carlo p-values", Biometrika 78 (1991).
const WORSE: u32 = 25;

/// Any number; always the same one, so that the same data give the same answer.
const SEED: u64 = 1991;

/// The share of samples from the fitted distribution that fit it worse than these excesses do.
pub(super) fn p_value(excesses: &[f64], fit: Pareto) -> f64 {
    let statistic = anderson_darling(excesses, fit);
    let mut random = Random(SEED);
    let mut sample = vec![0.0; excesses.len()];
    let mut worse = 0;
    for drawn in 1..=SAMPLES {
        for value in &mut sample {
            *value = fit.quantile(1.0 / random.uniform());
        }
        sample.sort_unstable_by(f64::total_cmp);
        worse += u32::from(anderson_darling(&sample, Pareto::fit(&sample)) >= statistic);
        if worse == WORSE {
            return f64::from(worse) / f64::from(drawn);
        }
    }
    f64::from(worse + 1) / f64::from(SAMPLES + 1)
}

/// The statistic A² of an ascending sample.
fn anderson_darling(sorted: &[f64], fit: Pareto) -> f64 {
    let count = sorted.len();
    // Keeps the logarithms finite where the largest value is at the end of the distribution.
    let survival = |x: f64| fit.survival(x).clamp(1e-300, 1.0 - 1e-16);
    let survivals: Vec<f64> = sorted.iter().map(|&x| survival(x)).collect();
    let sum: f64 = (0..count)
        .map(|at| {
            let weight = (2 * at + 1) as f64;
            weight * ((-survivals[at]).ln_1p() + survivals[count - 1 - at].ln())
        })
        .sum();
    -(count as f64) - sum / count as f64
}

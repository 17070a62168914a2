//! The goodness of fit. Anderson and Darling's statistic gives weight to the ends, which matter for a
//! tail. With fitted parameters its distribution depends on the shape (Choulakian and Stephens,
//! "Goodness-of-Fit Tests for the Generalized Pareto Distribution", Technometrics 43, 2001, tabulate
//! it); here it is simulated, for any shape and count.

use super::pareto::Pareto;
use crate::random::Random;

/// The maximum number of simulated samples.
const SAMPLES: u32 = 200;

/// The simulation stops when this many fit worse than the data: Besag and Clifford, "Sequential Monte
/// Carlo p-values", Biometrika 78 (1991).
const WORSE: u32 = 25;

/// The share of samples from the fitted distribution that fit it worse than these excesses do. The excesses are the seed:
/// the same data give the same result, and the error of 200 samples is not the same for all data.
pub(super) fn p_value(excesses: &[f64], fit: Pareto) -> f64 {
    let statistic = anderson_darling(excesses, fit);
    let mut random = Random::of(excesses);
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
    // Keeps the logarithms finite if the largest value is at the end of the distribution.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    /// The exponential distribution: `F(x) = 1 - exp(-x)`.
    const EXPONENTIAL: Pareto = Pareto {
        shape: 0.0,
        scale: 1.0,
    };

    /// The middle of each of `count` parts of equal probability: the best possible fit.
    fn ideal(count: usize, fit: Pareto) -> Vec<f64> {
        let beyond = |at: usize| 1.0 - (at as f64 + 0.5) / count as f64;
        (0..count)
            .map(|at| fit.quantile(1.0 / beyond(at)))
            .collect()
    }

    #[test]
    fn the_statistic_is_that_of_the_textbook() {
        // F = 1/10, 1/2, 4/5. Anderson and Darling (1954): -n - 1/n of the sum over i of
        // (2i - 1) (ln F(i) + ln (1 - F(n + 1 - i))).
        let sorted = [-(0.9_f64).ln(), -(0.5_f64).ln(), -(0.2_f64).ln()];
        let sum = (0.1_f64.ln() + 0.2_f64.ln())
            + 3.0 * (0.5_f64.ln() + 0.5_f64.ln())
            + 5.0 * (0.8_f64.ln() + 0.9_f64.ln());
        near(anderson_darling(&sorted, EXPONENTIAL), -3.0 - sum / 3.0);
    }

    #[test]
    fn a_value_that_the_fit_excludes_leaves_the_statistic_finite() {
        let ends_at_two = Pareto {
            shape: -0.5,
            scale: 1.0,
        };
        let statistic = anderson_darling(&[0.0, 1.0, 3.0], ends_at_two);
        assert!(statistic.is_finite() && statistic > 100.0, "{statistic}");
    }

    #[test]
    fn the_p_value_is_one_for_the_best_fit_and_minimal_for_the_worst() {
        let ideal = ideal(200, EXPONENTIAL);
        // Each of the first 25 simulated samples fits worse, and then it stops.
        assert_eq!(p_value(&ideal, EXPONENTIAL), 1.0);
        // Two clusters: none of 200 samples fits worse, and the data count as one more.
        let heaps: Vec<f64> = (0..200)
            .map(|at| if at < 100 { 1.0 } else { 20.0 } + f64::from(at) / 100.0)
            .collect();
        assert_eq!(p_value(&heaps, Pareto::fit(&heaps)), 1.0 / 201.0);
    }

    /// The p-values of samples of 100 that follow a distribution.
    fn p_values(runs: u64, follow: Pareto) -> Vec<f64> {
        let p_value = |seed: u64| {
            let mut random = Random(seed * 7919 + 5);
            let mut sample: Vec<f64> = (0..100)
                .map(|_| follow.quantile(1.0 / random.uniform()))
                .collect();
            sample.sort_unstable_by(f64::total_cmp);
            p_value(&sample, Pareto::fit(&sample))
        };
        (0..runs).map(p_value).collect()
    }

    #[test]
    fn the_p_value_of_samples_that_follow_the_distribution_is_spread_evenly() {
        const RUNS: u64 = 60;
        let p_values = p_values(
            RUNS,
            Pareto {
                shape: 0.2,
                scale: 3000.0,
            },
        );
        // Four standard errors of a count, and of a mean of values spread evenly over 0 to 1.
        let mean = p_values.iter().sum::<f64>() / RUNS as f64;
        assert!((0.35..0.65).contains(&mean), "{mean}");
        for share in [0.25, 0.5, 0.75] {
            let below = p_values.iter().filter(|&&p| p < share).count() as f64;
            let expected = share * RUNS as f64;
            let error = (expected * (1.0 - share)).sqrt();
            assert!((below - expected).abs() < 4.0 * error, "{below} of {RUNS}");
        }
    }

    #[test]
    fn one_of_ten_tails_that_follow_the_distribution_is_rejected() {
        const RUNS: u64 = 600;
        // With a fixed seed it was one of 22.
        let rejected = p_values(RUNS, EXPONENTIAL);
        let rejected = rejected.iter().filter(|&&p| p < 0.1).count();
        assert!((42..78).contains(&rejected), "{rejected} of {RUNS}");
    }
}

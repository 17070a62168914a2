//! The difference of the 99th percentiles, paired by round.
//!
//! A round of a hundred requests has no p99, but all rounds together have one. Its interval comes
//! from leaving out one round at a time, of both settings (the delete-a-group jackknife): Shao and Wu,
//! "A General Theory for Jackknife Variance Estimation", Annals of Statistics 17 (1989), show that it
//! is valid for quantiles if each group has more requests than the square root of all; Student's
//! distribution with one degree of freedom less than rounds gives its width.

use super::{ERROR, Estimate, rounds_needed, summarise};
use crate::quantile::P99;
use crate::student;

/// The p99 of `of` less that of `from`; each round's figures have the same index in both. `None` if
/// either has too few figures for a p99.
///
/// The interval is there from as many rounds on as the medians' needs.
pub fn p99_difference(of: &[&[f64]], from: &[&[f64]]) -> Option<Estimate> {
    let rounds = of.iter().zip(from);
    let rounds: Vec<(&[f64], &[f64])> = rounds
        .filter(|(of, from)| !of.is_empty() && !from.is_empty())
        .map(|(of, from)| (*of, *from))
        .collect();
    let carried = |figures: Vec<f64>| summarise(figures)?.p99;
    let all = pooled(&rounds, None);
    let estimate = carried(all.0)? - carried(all.1)?;
    let count = rounds.len();
    let without = |round| {
        let (mut of, mut from) = pooled(&rounds, Some(round));
        p99(&mut of) - p99(&mut from)
    };
    let interval = (count >= rounds_needed(ERROR)).then(|| {
        let without: Vec<f64> = (0..count).map(without).collect();
        let half = student::quantile((count - 1) as f64) * standard_error(&without);
        (estimate - half, estimate + half)
    });
    Some(Estimate {
        estimate,
        // If the figures are so coarse that no round matters, the variation of rounds is unknown.
        interval: interval.filter(|(low, high)| low < high),
        rounds: count as u64,
    })
}

/// All figures of both settings, without round `out`.
fn pooled(rounds: &[(&[f64], &[f64])], out: Option<usize>) -> (Vec<f64>, Vec<f64>) {
    let mut all = (Vec::new(), Vec::new());
    for (place, (of, from)) in rounds.iter().enumerate() {
        if Some(place) != out {
            all.0.extend_from_slice(of);
            all.1.extend_from_slice(from);
        }
    }
    all
}

/// The p99 of a non-empty sample.
fn p99(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    P99.of(figures).expect("a round has figures")
}

/// The jackknife's standard error, from the estimates without each group.
fn standard_error(without: &[f64]) -> f64 {
    let count = without.len() as f64;
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
    (squares * (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        assert!((student::quantile(9.0) - 2.262).abs() < 0.001);
        assert!((student::quantile(1.0) - 12.706).abs() < 0.001);
    }

    #[test]
    fn too_few_figures_have_no_difference_and_too_few_rounds_no_interval() {
        let round = vec![1.0; 100];
        let nine = vec![round.as_slice(); 9];
        assert_eq!(p99_difference(&nine, &nine), None);
        let figures: Vec<f64> = (0..500).map(f64::from).collect();
        let two = vec![figures.as_slice(); 2];
        let difference = p99_difference(&two, &two).unwrap();
        assert_eq!((difference.estimate, difference.interval), (0.0, None));
    }

    #[test]
    fn the_coverage_of_the_interval_is_about_as_stated() {
        const TRIES: u32 = 600;
        let mut random = fastrand::Rng::with_seed(11);
        // Two settings whose p99 differs by 10; each round has its own level, shared by both.
        let mut sample = |effect: f64| -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
            let mut rounds = (Vec::new(), Vec::new());
            for _ in 0..10 {
                let level = 20.0 * random.f64();
                let mut round = |add: f64| {
                    (0..100)
                        .map(|_| level + add - 8.0 * random.f64().max(1e-9).ln())
                        .collect()
                };
                rounds.0.push(round(effect));
                rounds.1.push(round(0.0));
            }
            rounds
        };
        let holds = |_: &u32| {
            let (of, from) = sample(10.0);
            let of: Vec<&[f64]> = of.iter().map(Vec::as_slice).collect();
            let from: Vec<&[f64]> = from.iter().map(Vec::as_slice).collect();
            let (low, high) = p99_difference(&of, &from).unwrap().interval.unwrap();
            low <= 10.0 && 10.0 <= high
        };
        let held = (0..TRIES).filter(holds).count() as f64 / f64::from(TRIES);
        // A method for large samples; 2.7 points are three standard errors of this count.
        assert!(held >= 0.923, "{held}");
    }

    fn slices(rounds: &[Vec<f64>]) -> Vec<&[f64]> {
        rounds.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn the_standard_error_is_that_of_the_formula() {
        // About 3.5 the squares of 1 to 6 sum to 17.5: sqrt(17.5 * 5 / 6).
        let error = standard_error(&[4.0, 1.0, 2.0, 6.0, 5.0, 3.0]);
        assert!((error - (17.5_f64 * 5.0 / 6.0).sqrt()).abs() < 1e-12);
        assert_eq!(standard_error(&[2.0; 5]), 0.0);
    }

    /// Six rounds of 200 figures each, `10 * round + 1` to `10 * round + 200` times `scale`.
    fn stairs(scale: f64) -> Vec<Vec<f64>> {
        let round = |round: i32| {
            (1..=200)
                .map(|at| f64::from(10 * round + at) * scale)
                .collect()
        };
        (0..6).map(round).collect()
    }

    #[test]
    fn the_interval_is_that_of_the_figures_without_one_round_at_a_time() {
        let (of, from) = (stairs(3.0), stairs(1.0));
        let difference = p99_difference(&slices(&of), &slices(&from)).unwrap();
        // Of 1200 figures the twelve highest lie beyond p99, of the 1000 without a round ten.
        let p99 = |rounds: &[Vec<f64>], out: Option<usize>| {
            let kept = rounds.iter().enumerate().filter(|(at, _)| Some(*at) != out);
            let mut all: Vec<f64> = kept.flat_map(|(_, round)| round.clone()).collect();
            all.sort_by(|one, other| other.total_cmp(one));
            all[all.len() / 100]
        };
        let estimate = p99(&of, None) - p99(&from, None);
        assert_eq!(difference.estimate, estimate);
        let without: Vec<f64> = (0..6)
            .map(|out| p99(&of, Some(out)) - p99(&from, Some(out)))
            .collect();
        let mean = without.iter().sum::<f64>() / 6.0;
        let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
        // Student's quantile with five degrees of freedom: 2.5706.
        let half = 2.570_582 * (squares * 5.0 / 6.0).sqrt();
        let (low, high) = difference.interval.unwrap();
        assert!(half > 1.0);
        assert!((low - (estimate - half)).abs() < 1e-4, "{low}");
        assert!((high - (estimate + half)).abs() < 1e-4, "{high}");
        assert_eq!(difference.rounds, 6);
    }

    #[test]
    fn a_round_without_figures_of_one_setting_counts_for_neither() {
        let (mut of, mut from) = (stairs(3.0), stairs(1.0));
        let alone = p99_difference(&slices(&of), &slices(&from));
        // Figures that would be the whole tail.
        of.insert(2, vec![1e6; 100]);
        from.insert(2, Vec::new());
        of.push(Vec::new());
        from.push(vec![1e6; 100]);
        assert_eq!(p99_difference(&slices(&of), &slices(&from)), alone);
    }

    #[test]
    fn a_level_that_both_settings_share_in_a_round_does_not_widen_the_interval() {
        // Each round has its own level, and the difference in each is 10.
        let from: Vec<Vec<f64>> = (0..8)
            .map(|round: i32| {
                let level = f64::from(round * round) * 7.0;
                (0..200).map(|at| level + f64::from(at)).collect()
            })
            .collect();
        let of: Vec<Vec<f64>> = from
            .iter()
            .map(|round| round.iter().map(|figure| figure + 10.0).collect())
            .collect();
        let difference = p99_difference(&slices(&of), &slices(&from)).unwrap();
        // The difference without any one round is 10 as well: there is no interval of zero width.
        assert_eq!((difference.estimate, difference.interval), (10.0, None));
        assert_eq!(difference.rounds, 8);
    }
}

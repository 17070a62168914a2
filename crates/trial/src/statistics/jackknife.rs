//! The difference of the 99th percentiles, paired by round.
//!
//! A round of a hundred requests has no p99 of its own, all rounds together have one. Its interval
//! comes from leaving out one round at a time, of both settings (the delete-a-group jackknife):
//! Shao and Wu, "A General Theory for Jackknife Variance Estimation", Annals of Statistics 17
//! (1989), show that it holds for quantiles where each group has more requests than the square root
//! of all; Student's distribution with one degree of freedom less than rounds gives its width.

use statrs::function::beta::beta_reg;

use super::{Difference, ERROR, quantile, rounds_needed, summarise};

/// The p99 of `of` less that of `from`; each round's figures stand at the same place in both.
/// `None` where either has too few figures for a p99.
///
/// The interval is there from as many rounds on as the medians' needs.
pub fn p99_difference(of: &[&[f64]], from: &[&[f64]]) -> Option<Difference> {
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
        let half = student_quantile((count - 1) as f64) * standard_error(&without);
        (estimate - half, estimate + half)
    });
    Some(Difference {
        estimate,
        // Figures so coarse that no round matters say nothing of how the rounds differ.
        interval: interval.filter(|(low, high)| low < high),
        rounds: count as u64,
    })
}

/// All figures of both settings together, one round left out.
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

/// Of a sample that is not empty.
fn p99(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    quantile(figures, 99)
}

/// The jackknife's, from what is estimated without each group.
fn standard_error(without: &[f64]) -> f64 {
    let count = without.len() as f64;
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
    (squares * (count - 1.0) / count).sqrt()
}

/// The t that is exceeded on either side with 5 % together.
fn student_quantile(freedom: f64) -> f64 {
    // P(|T| >= t), Abramowitz and Stegun 26.7.1; it falls with t.
    let beyond = |t: f64| beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > ERROR {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        assert!((student_quantile(9.0) - 2.262).abs() < 0.001);
        assert!((student_quantile(1.0) - 12.706).abs() < 0.001);
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
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        const TRIES: u32 = 600;
        let mut random = fastrand::Rng::with_seed(11);
        // Two settings whose p99 differs by 10; each round has a level of its own, shared by both.
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
}

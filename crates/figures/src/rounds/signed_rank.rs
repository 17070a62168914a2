//! The difference of the medians, paired by round.
//!
//! Each round gives one difference: the median under one setting less that under the other. The
//! estimate is Hodges and Lehmann's, the median of all averages of two of them (Walsh averages),
//! and the interval is that of Wilcoxon's signed-rank test, exact from the test's distribution:
//! Hodges and Lehmann, "Estimates of Location Based on Rank Tests", Annals of Mathematical
//! Statistics 34 (1963); Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods" (3rd
//! edition, 2014), section 3.1 to 3.3.
//!
//! It assumes that the rounds' differences are symmetric about the true one. The shuffled order within
//! a round ensures this: without an effect of the settings either of two could have come first,
//! however the machine drifts. There is no assumption about spreads or tails; a disturbed round has
//! only the weight of its rank.

use super::Estimate;

/// An average smaller than this share of the largest difference is zero but for rounding: the side of
/// zero on which an interval ends must not depend on it.
const ROUNDING: f64 = 1e-12;

/// The estimate from the rounds' differences, with an interval that leaves out at most `error` at
/// both ends together. `None` without a round.
pub fn median_difference(differences: &[f64], error: f64) -> Option<Estimate> {
    let walsh = walsh_averages(differences);
    let (&lower, &upper) = (
        walsh.get((walsh.len().max(1) - 1) / 2)?,
        &walsh[walsh.len() / 2],
    );
    let interval =
        order(differences.len(), error).map(|order| (walsh[order - 1], walsh[walsh.len() - order]));
    Some(Estimate {
        estimate: f64::midpoint(lower, upper),
        interval,
        rounds: differences.len() as u64,
    })
}

/// The p-value of the two-sided test of no difference: it is at most an error exactly if the interval of
/// that error excludes zero. `None` without a round.
pub fn p_value(differences: &[f64]) -> Option<f64> {
    let walsh = walsh_averages(differences);
    // The sum of the positive ranks is the number of positive averages; one that is zero counts against
    // the difference.
    let above = walsh.iter().filter(|one| **one > 0.0).count();
    let below = walsh.iter().filter(|one| **one < 0.0).count();
    let against = walsh.len() - above.max(below);
    let chances = distribution(differences.len());
    let tail: f64 = chances.iter().take(against + 1).sum();
    (!walsh.is_empty()).then(|| (2.0 * tail).min(1.0))
}

/// The averages of every two differences, and of each with itself, ascending.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let sizes = differences.iter().map(|one| one.abs());
    let rounding = ROUNDING * sizes.fold(0.0, f64::max);
    let average = |one: f64, other: f64| match f64::midpoint(one, other) {
        average if average.abs() <= rounding => 0.0,
        average => average,
    };
    let mut walsh: Vec<f64> = Vec::with_capacity(averages(differences.len()));
    for (place, one) in differences.iter().enumerate() {
        walsh.extend(
            differences[place..]
                .iter()
                .map(|other| average(*one, *other)),
        );
    }
    walsh.sort_unstable_by(f64::total_cmp);
    walsh
}

/// The number of rounds that an interval with error probability `error` needs.
pub fn rounds_needed(error: f64) -> usize {
    // The smallest p-value is that of all differences on one side: 2 in 2^n.
    (1..64)
        .find(|&rounds| order(rounds, error).is_some())
        .unwrap_or(64)
}

fn averages(rounds: usize) -> usize {
    rounds * (rounds + 1) / 2
}

/// The order statistic, from 1, of the Walsh averages at which the interval begins; it ends at the
/// same one from above. `None` if even the outermost have a larger error probability than `error`.
fn order(rounds: usize, error: f64) -> Option<usize> {
    let mut below = 0.0;
    let side = error / 2.0;
    // The largest k with P(T <= k - 1) <= side.
    let within = distribution(rounds).into_iter().take_while(|chance| {
        below += chance;
        below <= side
    });
    Some(within.count()).filter(|&order| order > 0)
}

/// P(T = t) for t from 0: each rank from 1 to `rounds` is in the sum with probability 1/2.
fn distribution(rounds: usize) -> Vec<f64> {
    let mut chances = vec![0.0; averages(rounds) + 1];
    chances[0] = 1.0;
    for rank in 1..=rounds {
        for sum in (0..chances.len()).rev() {
            let with = if sum >= rank {
                chances[sum - rank]
            } else {
                0.0
            };
            chances[sum] = 0.5 * (chances[sum] + with);
        }
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::median;
    use crate::rounds::{Against, ERROR};

    #[test]
    fn the_order_statistic_is_that_of_the_tables() {
        // Hollander, Wolfe and Chicken, table A.4: n = 10 has P(T <= 8) = 0.024, so from the 9th.
        assert_eq!(order(10, ERROR), Some(9));
        assert_eq!(order(6, ERROR), Some(1));
        assert_eq!(order(5, ERROR), None);
        assert_eq!(order(20, ERROR), Some(53));
        assert_eq!(rounds_needed(ERROR), 6);
    }

    #[test]
    fn a_case_that_can_be_checked_by_hand() {
        // Walsh averages of 1, 2, 4: 1, 1.5, 2, 2.5, 3, 4; their median is 2.25.
        let difference = median_difference(&[1.0, 2.0, 4.0], ERROR).unwrap();
        assert_eq!((difference.estimate, difference.interval), (2.25, None));
        let six = median_difference(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], ERROR).unwrap();
        assert_eq!((six.estimate, six.interval), (3.5, Some((1.0, 6.0))));
        assert_eq!(median_difference(&[], ERROR), None);
    }

    /// A machine with drift and tails: two settings in shuffled order, with the difference `effect`.
    fn rounds(random: &mut fastrand::Rng, rounds: usize, effect: f64) -> Vec<f64> {
        let mut drift = 50.0;
        let mut one = |random: &mut fastrand::Rng| {
            let mut difference = [0.0; 2];
            let first = random.usize(0..2);
            for setting in [first, 1 - first] {
                // Steady drift, and occasional other load.
                drift += 3.0 * random.f64() + if random.f64() < 0.05 { 80.0 } else { 0.0 };
                let requests: Vec<f64> = (0..15)
                    .map(|_| drift - 4.0 * random.f64().max(1e-9).ln() + effect * setting as f64)
                    .collect();
                difference[setting] = median(&requests).unwrap();
            }
            difference[1] - difference[0]
        };
        (0..rounds).map(|_| one(random)).collect()
    }

    #[test]
    fn the_coverage_of_the_interval_is_as_stated_on_a_machine_that_drifts() {
        const TRIES: u32 = 2000;
        let mut random = fastrand::Rng::with_seed(7);
        for (count, effect) in [(6, 0.0), (10, -5.0), (15, 2.0)] {
            let holds = |_: &u32| {
                let differences = rounds(&mut random, count, effect);
                let (low, high) = median_difference(&differences, ERROR)
                    .unwrap()
                    .interval
                    .unwrap();
                low <= effect && effect <= high
            };
            let held = (0..TRIES).filter(holds).count() as f64 / f64::from(TRIES);
            // At least 95% by its construction; 1.4 points are three standard errors.
            assert!(held >= 0.936, "{count} rounds: {held}");
        }
    }

    #[test]
    fn an_even_number_of_averages_has_its_median_between_two_of_them() {
        // 1 and 4: 1, 2.5, 4. 0, 0, 1, 5: 0, 0, 0, 0.5, 0.5, 1, 2.5, 2.5, 3, 5.
        assert_eq!(median_difference(&[4.0, 1.0], ERROR).unwrap().estimate, 2.5);
        let four = median_difference(&[0.0, 5.0, 1.0, 0.0], ERROR).unwrap();
        assert_eq!((four.estimate, four.rounds), (0.75, 4));
        assert_eq!(median_difference(&[], ERROR), None);
    }

    #[test]
    fn averages_that_are_zero_but_for_rounding_are_zero() {
        // Tenths: 0.3 - 0.2 and 0.1 - 0.2 have an average of -1e-17. Of seven rounds the interval
        // ends at the third average, here 0.1, 0, 0.
        let (tenth, less) = (0.3 - 0.2, 0.1 - 0.2);
        let seven = [-0.5, -0.4, -0.4, -0.3, less, less, tenth];
        for unit in [1.0, 1e6] {
            let difference = median_difference(&seven.map(|one| one * unit), ERROR).unwrap();
            assert_eq!(difference.interval.unwrap().1, 0.0);
            assert_eq!(difference.against_zero(), Against::Unknown);
        }
    }

    #[test]
    fn the_interval_ends_at_the_averages_of_the_tables_order() {
        // Ten rounds: the 9th of 55 averages from either end. Differences 0, 1, 3, 7, ... have all
        // averages apart.
        let differences: Vec<f64> = (0..10)
            .map(|round: i32| 2.0_f64.powi(round) - 1.0)
            .collect();
        let mut averages: Vec<f64> = Vec::new();
        for (at, one) in differences.iter().enumerate() {
            averages.extend(differences[at..].iter().map(|other| (one + other) / 2.0));
        }
        averages.sort_by(f64::total_cmp);
        let interval = median_difference(&differences, ERROR).unwrap().interval;
        assert_eq!(interval, Some((averages[8], averages[46])));
        // The error probability of both ends together: 2 * 0.0244 (table A.4).
        let left_out: f64 = distribution(10).iter().take(9).sum();
        assert!((left_out - 25.0 / 1024.0).abs() < 1e-12, "{left_out}");
    }

    #[test]
    fn the_p_value_is_that_of_the_tables_and_of_the_interval() {
        // Hollander, Wolfe and Chicken, table A.4: n = 10 has P(T <= 8) = 0.0244. The ranks 1 to 10, and those of
        // the negative differences sum to 8.
        let mut ten: Vec<f64> = (1..=10).map(f64::from).collect();
        ten[7] = -8.0;
        let p = p_value(&ten).unwrap();
        assert!((p - 2.0 * 25.0 / 1024.0).abs() < 1e-12, "{p}");
        assert_eq!(p_value(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Some(2.0 / 64.0));
        assert_eq!(p_value(&[-1.0, -2.0, -3.0]), Some(2.0 / 8.0));
        assert_eq!((p_value(&[0.0; 8]), p_value(&[])), (Some(1.0), None));
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let some: Vec<f64> = (0..9).map(|_| f64::from(random.i32(-3..6))).collect();
            let p = p_value(&some).unwrap();
            for error in [0.01, 0.05, 0.2] {
                let interval = median_difference(&some, error).unwrap().interval;
                let excludes = interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
                assert_eq!(p <= error, excludes, "{some:?}: {p}");
            }
        }
    }

    #[test]
    fn a_smaller_error_needs_more_rounds() {
        // 2 in 2^n: 3.1% with six rounds, 0.8% with eight, 0.1% with eleven.
        let needed = [0.05, 0.025, 0.01, 0.001].map(rounds_needed);
        assert_eq!(needed, [6, 7, 8, 11]);
        assert_eq!(rounds_needed(0.0), 64);
    }

    #[test]
    fn the_distribution_has_a_probability_for_each_sum_of_ranks() {
        // Three ranks: 0, 1, 2, 3 (two ways), 4, 5, 6 of eight.
        let eighths: Vec<f64> = distribution(3)
            .into_iter()
            .map(|chance| chance * 8.0)
            .collect();
        assert_eq!(eighths, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]);
        assert_eq!(distribution(0), [1.0]);
    }
}

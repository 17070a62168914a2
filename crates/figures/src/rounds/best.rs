//! A permutation test of whether the best setting is better than the others, or the luckiest of
//! several.
//!
//! The figures that select the best setting are also those that are tested, so a test of two settings
//! named beforehand would be wrong too often. If all settings were the same, a round's figures could
//! have come in any order, because the order of turns was drawn. So in each of many permutations every
//! round's figures are reassigned, the best setting of *those* is chosen, and the largest of its
//! differences from the others is recorded. A difference counts only if few permutations have one as
//! large (the maximum over a family of tests: Westfall and Young, "Resampling-Based Multiple Testing",
//! 1993, section 2.3). So the p-value accounts for the choice and the number of settings, and all
//! differences from the best together are wrong in at most the stated share of trials.
//!
//! The figures are aligned ranks (Hodges and Lehmann, "Rank Methods for Combination of Independent
//! Experiments in Analysis of Variance", Annals of Mathematical Statistics 33, 1962): the round's
//! median is subtracted, and all residuals are ranked together. So drift of the machine and disturbed
//! turns have little effect, and, unlike ranks within a round, they distinguish two settings that are
//! both far from the rest. Normal scores (van der Waerden, 1952) of the ranks keep the lead of one
//! setting over many. The statistic is the difference of the means over its standard error; its variance
//! is the mean of that of the two settings, which suits unequal spreads, and that of all of them, which
//! suits few rounds. Any such choice keeps the error rate; these have more power than others that were
//! tried.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::quantile::median;

/// Permutations; with the trial itself a round number.
pub const PERMUTATIONS: u32 = 9_999;

/// A fixed seed, so that the same figures always give the same result.
const SEED: u64 = 0x7265_7665_696c_6c65;

/// A tolerance for leads, in standard errors or as a share: far above rounding errors, and far below
/// real differences.
const ROUNDING: f64 = 1e-9;

/// Figures that differ by less than this share of the largest are equal but for rounding.
const SAME: f64 = 1e-13;

/// A round's ranks, by setting; `None` if a setting has no figure in it.
type Round = Vec<Option<f64>>;

/// The p-values of all comparisons with the best setting together: the probability, if all settings
/// were the same, that the best one is as far below any other as `best` is below each.
///
/// `figures` has each setting's figure of each round; less is better. `None` for `best` itself and
/// if the two have fewer than two rounds in common. No p-value is below one in `permutations` + 1.
pub fn p_values(figures: &[Vec<Option<f64>>], best: usize, permutations: u32) -> Vec<Option<f64>> {
    let mut rounds = aligned_ranks(figures);
    to_normal_scores(&mut rounds);
    let pooled = pooled_variance(&rounds, figures.len());
    let is_below = |other: usize| below(&rounds, best, other, pooled).filter(|_| other != best);
    let seen: Vec<Option<f64>> = (0..figures.len())
        .map(|at| is_below(at).map(barely))
        .collect();
    let mut as_large = vec![1_u32; figures.len()];
    let mut random = fastrand::Rng::with_seed(SEED);
    for _ in 0..permutations {
        for round in &mut rounds {
            deal(round, &mut random);
        }
        let largest = lead(&rounds, figures.len());
        for (count, seen) in as_large.iter_mut().zip(&seen) {
            *count += u32::from(seen.is_some_and(|seen| largest >= seen));
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(permutations + 1);
    let p_values = seen.iter().zip(as_large);
    p_values
        .map(|(seen, count)| seen.map(|_| share(count)))
        .collect()
}

/// Permutations with the same lead add the same numbers in other orders: this allows for rounding.
fn barely(seen: f64) -> f64 {
    seen - ROUNDING * seen.abs().max(1.0)
}

/// By round: each figure less its round's median, ranked among all of all rounds; ties get the mean
/// of their ranks.
fn aligned_ranks(figures: &[Vec<Option<f64>>]) -> Vec<Round> {
    let count = figures.iter().map(Vec::len).max().unwrap_or(0);
    let of_round = |round: usize| -> Round {
        let figure = |setting: &Vec<Option<f64>>| setting.get(round).copied().flatten();
        let figures: Round = figures.iter().map(figure).collect();
        let known: Vec<f64> = figures.iter().flatten().copied().collect();
        let middle = median(&known).unwrap_or(0.0);
        figures.iter().map(|one| Some((*one)? - middle)).collect()
    };
    let mut rounds: Vec<Round> = (0..count).map(of_round).collect();
    let sizes = figures.iter().flatten().flatten().map(|one| one.abs());
    let rounding = SAME * sizes.fold(0.0, f64::max);
    let mut places: Vec<&mut f64> = rounds.iter_mut().flatten().flatten().collect();
    places.sort_unstable_by(|one, other| one.total_cmp(other));
    let mut at = 0;
    while at < places.len() {
        let value = *places[at];
        let ties = places[at..]
            .iter()
            .take_while(|one| ***one - value <= rounding);
        let to = at + ties.count();
        let rank = (at + 1 + to) as f64 / 2.0;
        for place in &mut places[at..to] {
            **place = rank;
        }
        at = to;
    }
    rounds
}

/// Each rank's quantile of the normal distribution.
fn to_normal_scores(rounds: &mut [Round]) {
    let count = rounds.iter().flatten().flatten().count() as f64;
    for rank in rounds.iter_mut().flatten().flatten() {
        *rank = Normal::standard().inverse_cdf(*rank / (count + 1.0));
    }
}

/// Permutes a round's figures among the settings that have one.
fn deal(round: &mut Round, random: &mut fastrand::Rng) {
    let mut known: Vec<&mut f64> = round.iter_mut().flatten().collect();
    for place in (1..known.len()).rev() {
        let other = random.usize(0..=place);
        if other != place {
            let (low, high) = known.split_at_mut(place);
            std::mem::swap(low[other], high[0]);
        }
    }
}

/// How far one is below the other: the mean of the rounds' differences over its standard error.
/// `None` with fewer than two rounds.
fn below(rounds: &[Round], one: usize, other: usize, pooled: f64) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for round in rounds {
        if let (Some(one), Some(other)) = (round[one], round[other]) {
            let difference = other - one;
            count += 1.0;
            sum += difference;
            squares += difference * difference;
        }
    }
    if count < 2.0 {
        return None;
    }
    let own = (squares - sum * sum / count) / (count - 1.0);
    let variance = f64::midpoint(own.max(0.0), pooled);
    // Below this there is no variation.
    let error = (variance.max(1e-9) / count).sqrt();
    Some(sum / count / error)
}

/// The variance of a difference between two settings within a round, over all settings: of the ranks
/// less their setting's mean.
fn pooled_variance(rounds: &[Round], settings: usize) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for setting in 0..settings {
        let known = || rounds.iter().filter_map(|round| round[setting]);
        let count = known().count() as f64;
        let mean = known().sum::<f64>() / count;
        squares += known().map(|rank| (rank - mean).powi(2)).sum::<f64>();
        freedom += (count - 1.0).max(0.0);
    }
    2.0 * squares / f64::max(freedom, 1.0)
}

/// The largest lead of the setting of the lowest mean rank.
fn lead(rounds: &[Round], settings: usize) -> f64 {
    let mean = |setting: usize| {
        let known = || rounds.iter().filter_map(|round| round[setting]);
        known().sum::<f64>() / known().count() as f64
    };
    let means = (0..settings).map(|setting| (setting, mean(setting)));
    // A setting without a figure has no mean.
    let best = means
        .filter(|(_, mean)| !mean.is_nan())
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((best, _)) = best else { return 0.0 };
    let pooled = pooled_variance(rounds, settings);
    let others = (0..settings).filter(|other| *other != best);
    others
        .filter_map(|other| below(rounds, best, other, pooled))
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::ERROR;

    #[test]
    fn ranks_are_those_of_residuals_from_the_rounds_medians() {
        // Medians 20 and 100: the residuals are -10, 0, 5 and 0, -3, 40.
        let figures = [
            vec![Some(10.0), Some(100.0)],
            vec![Some(20.0), Some(97.0)],
            vec![Some(25.0), Some(140.0)],
        ];
        let ranks = aligned_ranks(&figures);
        let known = |round: [f64; 3]| round.map(Some).to_vec();
        assert_eq!(ranks, [known([1.0, 3.5, 5.0]), known([3.5, 2.0, 6.0])]);
        let lacking = [vec![Some(1.0), None], vec![Some(2.0)]];
        let ranks = aligned_ranks(&lacking);
        assert_eq!(ranks, [vec![Some(1.0), Some(2.0)], vec![None, None]]);
    }

    #[test]
    fn a_lead_is_the_mean_difference_over_its_error_by_hand() {
        let round = |figures: [Option<f64>; 2]| figures.to_vec();
        let rounds = [
            round([Some(1.0), Some(4.0)]),
            round([Some(2.0), Some(4.0)]),
            round([Some(0.0), None]),
            round([Some(3.0), Some(7.0)]),
        ];
        let near = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        };
        // Differences 3, 2, 4: their variance is 1, with 3 of all settings 2.
        near(below(&rounds, 0, 1, 3.0), 3.0 / (2.0_f64 / 3.0).sqrt());
        near(below(&rounds, 1, 0, 3.0), -3.0 / (2.0_f64 / 3.0).sqrt());
        // 1, 2, 0, 3 are 5 from their mean squared, with 3 degrees of freedom; 4, 4, 7 are 6, with 2.
        near(Some(pooled_variance(&rounds, 2)), 2.0 * 11.0 / 5.0);
        near(Some(lead(&rounds, 2)), 3.0 / (2.7_f64 / 3.0).sqrt());
        near(below(&rounds[..2], 0, 1, 0.5), 2.5 / 0.25_f64.sqrt());
        assert_eq!(below(&rounds[1..3], 0, 1, 3.0), None, "one round with both");
        // Without variation.
        let same = [rounds[0].clone(), rounds[0].clone()];
        near(below(&same, 0, 1, 0.0), 3.0 / (1e-9_f64 / 2.0).sqrt());
        assert_eq!(pooled_variance(&rounds[..1], 2), 0.0);
        assert_eq!(pooled_variance(&[round([None, None])], 2), 0.0);
        assert_eq!(lead(&[round([None, None])], 2), 0.0);
        // The lowest mean leads, in any number of rounds: 2 is below 3 in two of them.
        let twice = round([Some(3.0), Some(2.0)]);
        let alone = round([None, Some(2.0)]);
        let uneven = [twice.clone(), twice, alone.clone(), alone];
        near(Some(lead(&uneven, 2)), 1.0 / (1e-9_f64 / 2.0).sqrt());
    }

    #[test]
    fn normal_scores_are_the_quantiles_of_the_tables() {
        // Of three ranks: the quartiles of the normal distribution.
        let mut rounds = vec![vec![Some(3.0), Some(1.0)], vec![None, Some(2.0)]];
        to_normal_scores(&mut rounds);
        let scores: Vec<f64> = rounds.iter().flatten().flatten().copied().collect();
        for (score, expected) in scores.iter().zip([0.674_49, -0.674_49, 0.0]) {
            assert!((score - expected).abs() < 1e-5, "{scores:?}");
        }
        assert_eq!((scores.len(), rounds[1][0]), (3, None));
    }

    #[test]
    fn rounding_is_a_share_of_a_large_lead_and_an_amount_of_a_small_one() {
        for (seen, less) in [(200_000.0, 2e-4), (0.5, 1e-9), (0.0, 1e-9), (-3.0, 3e-9)] {
            let rounding = seen - barely(seen);
            assert!((rounding / less - 1.0).abs() < 1e-3, "{seen}: {rounding}");
        }
    }

    #[test]
    fn large_figures_that_differ_only_by_rounding_tie() {
        let known = |figures: [f64; 2]| figures.map(Some).to_vec();
        let low = known([1_000_000.1, 2_000_000.1]);
        let high = known([1_000_000.4, 2_000_000.4]);
        assert_ne!(1_000_000.4 - 1_000_000.1, 2_000_000.4 - 2_000_000.1);
        let ranks = aligned_ranks(&[low, high]);
        assert_eq!(ranks, [[1.5, 3.5].map(Some); 2]);
    }

    #[test]
    fn the_p_value_of_two_separate_settings_is_the_lowest_for_their_rounds() {
        let quick: Vec<Option<f64>> = (0..6).map(|round| Some(f64::from(round))).collect();
        let slow: Vec<Option<f64>> = quick.iter().map(|one| Some((*one)? + 50.0)).collect();
        let p_values = p_values(&[quick, slow], 0, PERMUTATIONS);
        assert_eq!(p_values[0], None);
        // Of the 64 ways in which six rounds may go two are as extreme: 0.03125.
        let p_value = p_values[1].unwrap();
        assert!((0.026..=0.037).contains(&p_value), "{p_value}");
    }

    #[test]
    fn leads_that_tie_count_as_large_despite_rounding() {
        // How many of the 2^n swaps have a lead as large: all were counted by another program.
        let is_near = |one: &[f64], other: &[f64], exact: f64| {
            let known = |figures: &[f64]| figures.iter().copied().map(Some).collect();
            let p_value = p_values(&[known(one), known(other)], 0, PERMUTATIONS)[1].unwrap();
            let error = 4.0 * (exact * (1.0 - exact) / f64::from(PERMUTATIONS)).sqrt();
            assert!(
                (p_value - exact).abs() < error,
                "{p_value}, and exactly {exact}"
            );
        };
        let (one, other) = (
            [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0],
            [2.0, 1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 0.0],
        );
        is_near(&one, &other, 112.0 / 1024.0);
        let (one, other) = (
            [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 2.0, 2.0],
            [1.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0, 3.0],
        );
        is_near(&one, &other, 28.0 / 256.0);
    }

    #[test]
    fn figures_that_tie_in_one_unit_tie_in_another() {
        // Tenths less their round's median: 0.1 - 0 and 0.3 - 0.2 are not the same number.
        let by = |unit: f64| {
            let known = |figures: [f64; 3]| figures.map(|one| Some(one * unit)).to_vec();
            aligned_ranks(&[known([0.0, 2.0, 7.0]), known([1.0, 3.0, 8.0])])
        };
        assert_eq!(by(1.0), [[2.0, 5.0].map(Some); 3]);
        assert_eq!(by(0.1), by(1.0));
    }

    #[test]
    fn no_p_value_is_below_the_resolution_of_the_permutations() {
        let setting = |level: f64| -> Vec<Option<f64>> {
            (0..30)
                .map(|round| Some(level + f64::from(round * 7 % 5)))
                .collect()
        };
        let settings: Vec<_> = [0.0, 100.0, 200.0].map(setting).to_vec();
        for permutations in [99, 999] {
            let p_values = p_values(&settings, 0, permutations);
            let least = 1.0 / f64::from(permutations + 1);
            assert_eq!(p_values, [None, Some(least), Some(least)]);
        }
    }

    #[test]
    fn too_few_rounds_have_no_p_value() {
        let one_round = vec![vec![Some(1.0)], vec![Some(2.0)]];
        assert_eq!(p_values(&one_round, 0, 99), [None, None]);
        assert_eq!(p_values(&[vec![], vec![]], 0, 99), [None, None]);
    }

    /// A machine with drift and disturbances: the settings' levels and spreads, in shuffled order.
    fn trial(
        random: &mut fastrand::Rng,
        rounds: usize,
        settings: &[(f64, f64)],
        drifts: f64,
    ) -> Vec<Vec<Option<f64>>> {
        let mut drift = 50.0;
        let mut figures = vec![Vec::new(); settings.len()];
        for _ in 0..rounds {
            let mut order: Vec<usize> = (0..settings.len()).collect();
            random.shuffle(&mut order);
            for setting in order {
                let stumble = if random.f64() < 0.05 { 30.0 } else { 0.0 };
                drift += drifts * random.f64();
                let (level, spread) = settings[setting];
                // Nearly normal: the median of many requests.
                let noise: f64 = (0..6).map(|_| random.f64() - 0.5).sum();
                figures[setting].push(Some(drift + level + spread * noise + stumble));
            }
        }
        figures
    }

    /// The share of trials in which the best one is distinguished from one that is truly as good or
    /// better, and the share in which it is distinguished from all that are worse.
    fn distinguished(rounds: usize, settings: &[(f64, f64)], drifts: f64) -> (f64, f64) {
        const TRIES: u32 = 400;
        const FEW: u32 = 199;
        let mut random = fastrand::Rng::with_seed(rounds as u64 + 31 * settings.len() as u64);
        let (mut wrong, mut right) = (0, 0);
        for _ in 0..TRIES {
            let figures = trial(&mut random, rounds, settings, drifts);
            let middle = |setting: &Vec<Option<f64>>| {
                median(&setting.iter().flatten().copied().collect::<Vec<_>>()).unwrap()
            };
            let medians: Vec<f64> = figures.iter().map(middle).collect();
            let best = (0..settings.len())
                .min_by(|one, other| medians[*one].total_cmp(&medians[*other]))
                .unwrap();
            let p_values = p_values(&figures, best, FEW);
            let is_distinguished = |other: usize| p_values[other].is_some_and(|p| p <= ERROR);
            let is_worse = |other: &usize| settings[*other].0 > settings[best].0;
            let others = || (0..settings.len()).filter(|other| *other != best);
            wrong += u32::from(others().any(|other| !is_worse(&other) && is_distinguished(other)));
            right += u32::from(others().filter(is_worse).all(is_distinguished));
        }
        let share = |count: u32| f64::from(count) / f64::from(TRIES);
        (share(wrong), share(right))
    }

    #[test]
    fn the_best_among_equals_is_distinguished_in_at_most_the_stated_share_of_trials() {
        // Three standard errors of 5% of 400 are 3.3 points. The lower limit excludes a test that
        // never finds anything.
        for (rounds, settings) in [(10, 5), (10, 12), (6, 3), (20, 4)] {
            let same = vec![(0.0, 3.0); settings];
            let (wrong, _) = distinguished(rounds, &same, 0.0);
            let (drifting, _) = distinguished(rounds, &same, 1.0);
            let trial = format!("{settings} settings, {rounds} rounds: {wrong}, {drifting}");
            assert!((0.01..=0.083).contains(&wrong), "{trial}");
            // With drift the best median is mostly an early turn's, but not distinguished more often.
            assert!(drifting <= 0.083, "{trial}");
        }
        // Several equals far ahead of others, and of unequal spreads.
        let two_of_five = [
            (0.0, 3.0),
            (0.0, 3.0),
            (40.0, 3.0),
            (60.0, 3.0),
            (80.0, 3.0),
        ];
        let (wrong, _) = distinguished(10, &two_of_five, 0.0);
        assert!(wrong <= 0.083, "two of five: {wrong}");
        let spreads = [1.0, 2.0, 4.0, 8.0, 16.0].map(|spread| (0.0, spread));
        let (wrong, _) = distinguished(10, &spreads, 0.0);
        assert!(wrong <= 0.083, "unequal spreads: {wrong}");
    }

    #[test]
    fn a_setting_that_is_clearly_best_is_distinguished_from_all_others() {
        for settings in [3, 5, 12] {
            let mut levels = vec![(30.0, 3.0); settings];
            levels[1].0 = 0.0;
            let (wrong, right) = distinguished(10, &levels, 1.0);
            assert!(right >= 0.7, "{settings} settings: {right}");
            assert!(wrong <= 0.05, "{settings} settings: {wrong}");
        }
        // A small lead only in few trials, because of the noise.
        let (_, right) = distinguished(10, &[(0.0, 3.0), (1.0, 3.0), (1.0, 3.0)], 1.0);
        assert!(right < 0.5, "{right}");
    }
}

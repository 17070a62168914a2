use super::*;
use crate::random::Random;

fn slices(rounds: &[Vec<f64>]) -> Vec<&[f64]> {
    rounds.iter().map(Vec::as_slice).collect()
}

fn difference(of: &[Vec<f64>], from: &[Vec<f64>]) -> Option<Estimate> {
    p99_difference(&slices(of), &slices(from))
}

#[test]
fn too_few_figures_have_no_difference_and_too_few_rounds_no_interval() {
    let nine = vec![vec![1.0; 100]; 9];
    assert_eq!(difference(&nine, &nine), None);
    let five = vec![(0..200).map(f64::from).collect(); 5];
    let of_five = difference(&five, &five).unwrap();
    assert_eq!((of_five.estimate, of_five.interval), (0.0, None));
}

#[test]
fn figures_that_are_all_the_same_have_no_interval() {
    let (of, from) = (vec![vec![7.0; 200]; 8], vec![vec![5.0; 200]; 8]);
    let of_all = difference(&of, &from).unwrap();
    assert_eq!((of_all.estimate, of_all.interval), (2.0, None));
}

/// Six rounds of 200 figures each, of which the first setting's are `scale` times as high.
fn stairs(scale: f64) -> [Vec<Vec<f64>>; 2] {
    let mut random = Random(8);
    [scale, 1.0].map(|scale| {
        let round = |round: i32| {
            let figures =
                (0..200).map(|_| scale * (f64::from(10 * round) + 40.0 * random.exponential()));
            figures.collect()
        };
        (0..6).map(round).collect()
    })
}

/// The share of all ways to exchange turns that have p99s at least as far apart as the trial: of pooled and sorted copies.
fn p_value(of: &[Vec<f64>], from: &[Vec<f64>], less: f64) -> f64 {
    let far = |way: usize| {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for (round, (of, from)) in of.iter().zip(from).enumerate() {
            let of = of.iter().map(|figure| figure - less);
            match way >> round & 1 {
                0 => (one.extend(of), other.extend(from)),
                _ => (other.extend(of), one.extend(from)),
            };
        }
        let [one, other] = [one, other].map(|mut sample| {
            sample.sort_by(|one, other| other.total_cmp(one));
            // Of 1200 figures the twelve highest lie beyond p99.
            (sample[12], sample[6] - sample[25])
        });
        (one.0 - other.0).abs() / one.1.hypot(other.1)
    };
    let seen = far(0) - 1e-9;
    let ways = 1_usize << of.len();
    (0..ways).filter(|way| far(*way) >= seen).count() as f64 / ways as f64
}

#[test]
fn the_interval_has_the_differences_that_no_exchange_of_turns_refutes() {
    for scale in [1.0, 1.5, 0.5] {
        let [of, from] = stairs(scale);
        let (low, high) = difference(&of, &from).unwrap().interval.unwrap();
        let little = (high - low) / 1000.0;
        let p = |less: f64| p_value(&of, &from, less);
        assert!(p(low + little) > 0.05 && p(high - little) > 0.05, "{scale}");
        assert!(
            p(low - little) <= 0.05 && p(high + little) <= 0.05,
            "{scale}"
        );
        assert_eq!(low <= 0.0 && 0.0 <= high, p(0.0) > 0.05, "{scale}");
    }
}

#[test]
fn a_round_without_figures_of_one_setting_counts_for_neither() {
    let [mut of, mut from] = stairs(3.0);
    let alone = difference(&of, &from);
    // Figures that would be the whole tail.
    of.insert(2, vec![1e6; 100]);
    from.insert(2, Vec::new());
    of.push(Vec::new());
    from.push(vec![1e6; 100]);
    assert_eq!(difference(&of, &from), alone);
}

#[test]
fn levels_that_both_settings_share_in_a_round_hardly_widen_it() {
    let mut random = Random(9);
    let [mut of, mut from] =
        [1.0, 1.0].map(|scale| rounds(&mut random, Noise::Independent, 20, scale));
    let width = |of: &[Vec<f64>], from: &[Vec<f64>]| {
        let (low, high) = difference(of, from).unwrap().interval.unwrap();
        high - low
    };
    let before = width(&of, &from);
    for rounds in [&mut of, &mut from] {
        for (level, round) in rounds.iter_mut().enumerate() {
            round.iter_mut().for_each(|figure| *figure += level as f64);
        }
    }
    assert!(width(&of, &from) < 2.5 * before);
}

/// What disturbs a trial, besides what each request has of its own.
#[derive(Debug, Clone, Copy)]
enum Noise {
    Independent,
    /// Whole turns differ, by one and a half times what requests do.
    OfTurns,
    /// One turn in twenty takes longer by fifteen times what requests differ by.
    DisturbedTurns,
}

const ALL: [Noise; 3] = [Noise::Independent, Noise::OfTurns, Noise::DisturbedTurns];

/// A setting's figures above 100, whose distance from that is `scale` times as long.
fn rounds(random: &mut Random, noise: Noise, rounds: usize, scale: f64) -> Vec<Vec<f64>> {
    let normal = |random: &mut Random| {
        let angle = std::f64::consts::TAU * random.uniform();
        (2.0 * random.exponential()).sqrt() * angle.cos()
    };
    let mut turn = || -> Vec<f64> {
        let level = match noise {
            Noise::Independent => 0.0,
            Noise::OfTurns => 3.0 * normal(random),
            Noise::DisturbedTurns => 30.0 * f64::from(random.uniform() < 0.05),
        };
        let request = |_| 100.0 + scale * (level + 2.0 * random.exponential());
        (0..100).map(request).collect()
    };
    (0..rounds).map(|_| turn()).collect()
}

const TRIALS: u32 = 1000;

/// The share of simulated trials in which a difference of their p99s is refuted, as it is by an interval without it.
fn refuted(mut trial: impl FnMut() -> [Vec<Vec<f64>>; 2], difference: f64) -> f64 {
    let is_refuted = |_: &u32| {
        let [of, from] = trial();
        let rounds = of.iter().zip(&from);
        let rounds: Vec<[&[f64]; 2]> = rounds.map(|(of, from)| [&of[..], &from[..]]).collect();
        Exchanges::of(&rounds).refutes(difference)
    };
    (0..TRIALS).filter(is_refuted).count() as f64 / f64::from(TRIALS)
}

#[test]
fn settings_that_are_the_same_differ_in_one_trial_of_twenty_whatever_disturbs_it() {
    let mut random = Random(20);
    for noise in ALL {
        for count in [10, 20] {
            let alike = || [(); 2].map(|()| rounds(&mut random, noise, count, 1.0));
            let wrong = refuted(alike, 0.0);
            println!("{noise:?}, {count} rounds: {wrong} differ");
            assert!(wrong <= 0.07, "{noise:?}, {count} rounds: {wrong}");
        }
    }
}

#[test]
fn differences_of_independent_figures_are_found_and_covered() {
    for (scale, found_at_least) in [(1.1, 0.0), (1.3, 0.7), (2.0, 0.99)] {
        let trials = || {
            let mut random = Random(21);
            move || [scale, 1.0].map(|scale| rounds(&mut random, Noise::Independent, 20, scale))
        };
        let p99 = -2.0 * 0.01_f64.ln();
        let covered = 1.0 - refuted(trials(), (scale - 1.0) * p99);
        assert!(covered >= 0.93, "{scale}: {covered}");
        // A jackknife over rounds finds 0.87 of those of 30%.
        let found = refuted(trials(), 0.0);
        assert!(found >= found_at_least, "{scale}: {found}");
        println!("{scale} times the p99: covered in {covered}, found in {found}");
    }
}

/// Of 100 requests of each turn some fail: each with that chance, and half of a turn in so many.
fn failing(
    rounds: usize,
    chance: [f64; 2],
    disturbed: f64,
    random: &mut Random,
) -> Vec<[[u64; 2]; 2]> {
    let mut turn = |chance: f64| {
        let chance = if random.uniform() < disturbed {
            0.5
        } else {
            chance
        };
        [
            (0..100).filter(|_| random.uniform() < chance).count() as u64,
            100,
        ]
    };
    (0..rounds).map(|_| chance.map(&mut turn)).collect()
}

#[test]
fn failures_that_come_together_are_no_larger_share() {
    const TRIES: u32 = 1000;
    let mut random = Random(33);
    for (rounds, disturbed) in [(10, 0.0), (10, 0.05), (20, 0.05), (20, 0.2)] {
        let (mut wrong, mut by_requests) = (0, 0);
        for _ in 0..TRIES {
            let turns = failing(rounds, [0.01; 2], disturbed, &mut random);
            wrong += u32::from(share_is_larger(&turns).unwrap());
            let [of, than] =
                [0, 1].map(|side| turns.iter().map(|turns| turns[side][0]).sum::<u64>());
            let chance = 1.0 - crate::interval::at_most(of.saturating_sub(1), of + than, 0.5);
            by_requests += u32::from(of > 0 && chance <= SIDE);
        }
        // 2.5%, and three standard errors.
        assert!(wrong <= 40, "{wrong} of {TRIES} with {rounds} rounds");
        let is_seen = by_requests > 70;
        assert_eq!(
            is_seen,
            disturbed > 0.0,
            "{by_requests} by requests, of which each counts"
        );
    }
}

#[test]
fn a_larger_share_of_failures_is_seen() {
    let mut random = Random(34);
    let found = |chance: [f64; 2], disturbed: f64, random: &mut Random| {
        let found =
            (0..200).filter(|_| share_is_larger(&failing(20, chance, disturbed, random)).unwrap());
        found.count()
    };
    assert!(found([0.05, 0.01], 0.0, &mut random) >= 190);
    assert!(found([0.5, 0.01], 0.05, &mut random) >= 190);
    assert_eq!(found([0.01, 0.05], 0.0, &mut random), 0);
    let five = failing(5, [1.0, 0.0], 0.0, &mut random);
    assert_eq!(share_is_larger(&five), None);
}

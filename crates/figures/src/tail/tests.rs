//! The estimate against distributions whose far quantiles are known.

use super::*;
use crate::random::Random;

/// A sample of `count` in ns.
fn sample(seed: u64, count: usize, mut draw: impl FnMut(&mut Random) -> f64) -> Vec<i64> {
    let mut random = Random(seed);
    let mut sample: Vec<i64> = (0..count)
        .map(|_| draw(&mut random).round() as i64)
        .collect();
    sample.sort_unstable();
    sample
}

/// How many of the samples give an interval that contains `truth(1 in N)`, and how many give none.
fn coverage(
    runs: u64,
    draw: impl Fn(&mut Random) -> f64,
    truth: impl Fn(f64) -> f64,
) -> (f64, u64) {
    let (mut held, mut refused) = (0, 0);
    for seed in 0..runs {
        match estimate(&sample(seed * 7919 + 1, 10_000, &draw)) {
            Tail::Estimated(estimate) => {
                let truth = truth(estimate.exceeded_by_one_in as f64);
                let low = estimate.quantile_low_ns as f64;
                held += u64::from(low <= truth && truth <= estimate.quantile_high_ns as f64);
            }
            Tail::Refused(_) => refused += 1,
        }
    }
    println!(
        "held in {held} of {} runs, {refused} refused",
        runs - refused
    );
    (held as f64 / (runs - refused) as f64, refused)
}

/// Without optimisation a run takes a tenth of a second; `cargo test --release` does more.
const RUNS: u64 = if cfg!(debug_assertions) { 40 } else { 200 };

#[test]
fn the_interval_holds_the_true_quantile_of_an_exponential_tail() {
    let (share, refused) = coverage(
        RUNS,
        |random| 20_000.0 + 3000.0 * random.exponential(),
        |one_in| 20_000.0 + 3000.0 * one_in.ln(),
    );
    assert!(share >= 0.85, "held in {share}");
    assert!(refused <= RUNS / 10, "{refused} refused");
}

#[test]
fn the_interval_holds_the_true_quantile_of_a_heavy_tail() {
    let pareto = Pareto {
        shape: 0.25,
        scale: 5000.0,
    };
    let (share, refused) = coverage(
        RUNS,
        |random| 50_000.0 + pareto.quantile(1.0 / random.uniform()),
        |one_in| 50_000.0 + pareto.quantile(one_in),
    );
    assert!(share >= 0.85, "held in {share}");
    assert!(refused <= RUNS / 10, "{refused} refused");
}

#[test]
fn the_interval_holds_the_true_quantile_of_a_lognormal_tail() {
    let normal = |random: &mut Random| {
        let angle = std::f64::consts::TAU * random.uniform();
        (2.0 * random.exponential()).sqrt() * angle.cos()
    };
    let quantile = |one_in: f64| {
        -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 - 2.0 / one_in)
    };
    let (share, refused) = coverage(
        RUNS,
        |random| 10_000.0 * (0.4 * normal(random)).exp(),
        |one_in| 10_000.0 * (0.4 * quantile(one_in)).exp(),
    );
    assert!(share >= 0.8, "held in {share}");
    assert!(refused <= RUNS / 5, "{refused} refused");
}

#[test]
fn a_fit_finds_the_parameters_of_a_large_sample() {
    for truth in [
        Pareto {
            shape: 0.3,
            scale: 2000.0,
        },
        Pareto {
            shape: 0.0,
            scale: 500.0,
        },
        Pareto {
            shape: -0.25,
            scale: 8000.0,
        },
    ] {
        let mut random = Random(3);
        let drawn: Vec<f64> = (0..20_000)
            .map(|_| truth.quantile(1.0 / random.uniform()))
            .collect();
        let fit = Pareto::fit(&drawn);
        assert!((fit.shape - truth.shape).abs() < 0.03, "{fit:?} {truth:?}");
        assert!(
            (fit.scale / truth.scale - 1.0).abs() < 0.04,
            "{fit:?} {truth:?}"
        );
    }
}

/// Two clusters far apart, with this share in the farther one.
fn two_heaps(seed: u64, far_share: f64) -> Vec<i64> {
    sample(seed, 10_000, |random| {
        let second = if random.uniform() < far_share {
            300_000.0
        } else {
            0.0
        };
        20_000.0 + second + 1000.0 * random.exponential()
    })
}

#[test]
fn a_far_cluster_too_small_for_its_own_fit_is_refused() {
    for seed in 0..10 {
        let tail = estimate(&two_heaps(seed, 0.004));
        let Tail::Refused(why) = tail else {
            panic!("seed {seed}: {tail:?}")
        };
        assert!(
            why.contains("do not follow") || why.contains("too heavy"),
            "{why}"
        );
    }
}

#[test]
fn a_far_cluster_with_enough_datapoints_is_the_tail() {
    let tail = estimate(&two_heaps(5, 0.012));
    let Tail::Estimated(estimate) = tail else {
        panic!("{tail:?}")
    };
    assert!(estimate.threshold_ns > 320_000, "{estimate:?}");
    let truth = 320_000 + (1000.0 * (0.012 * estimate.exceeded_by_one_in as f64).ln()) as i64;
    assert!(
        (estimate.quantile_low_ns..estimate.quantile_high_ns).contains(&truth),
        "{estimate:?}"
    );
}

#[test]
fn too_few_datapoints_are_refused() {
    let tail = estimate(&sample(1, 1999, |random| 1000.0 * random.exponential()));
    assert_eq!(
        tail,
        Tail::Refused("too few datapoints (1999 of 2000)".to_owned())
    );
    assert!(matches!(estimate(&[]), Tail::Refused(_)));
}

#[test]
fn a_clock_with_coarse_steps_is_refused_and_one_with_fine_steps_is_not() {
    let stepped = |step: f64| {
        estimate(&sample(9, 10_000, |random| {
            (20_000.0 + 1000.0 * random.exponential() / step).round() * step
        }))
    };
    let Tail::Refused(why) = stepped(500.0) else {
        panic!("not refused")
    };
    assert!(why.contains("steps of 500 ns"), "{why}");
    assert!(
        matches!(stepped(40.0), Tail::Estimated(_)),
        "{:?}",
        stepped(40.0)
    );
    assert!(matches!(estimate(&[7; 5000]), Tail::Refused(_)));
}

#[test]
fn the_quantile_is_beyond_the_data_and_not_far_beyond() {
    assert_eq!(
        (far(2000), far(5000), far(5001), far(1_000_000)),
        (10_000, 10_000, 100_000, 10_000_000)
    );
}

#[test]
fn values_of_one_step_are_spread_evenly_over_it() {
    // Steps of 10 ns: three values at 1010 lie a third of a step apart, in the middle of theirs.
    let above = [1010, 1010, 1010, 1020, 1020, 1500, 2000, 3000];
    let third = 10.0 / 3.0;
    let spread = spread_ties(1000, &above).unwrap();
    let expected = [
        10.0 - third,
        10.0,
        10.0 + third,
        17.5,
        22.5,
        500.0,
        1000.0,
        2000.0,
    ];
    assert_eq!(spread.len(), expected.len());
    for (one, other) in spread.iter().zip(expected) {
        assert!((one - other).abs() < 1e-9, "{spread:?}");
    }
}

#[test]
fn values_equal_to_the_threshold_lie_above_its_middle() {
    // Four values at the threshold: spread over the step they would lie at -3.75, -1.25, 1.25 and
    // 3.75; none may be below zero, and none beyond a quarter of the step but by its own place.
    let spread = spread_ties(1000, &[1000, 1000, 1000, 1000, 1010, 1500]).unwrap();
    assert_eq!(spread, [0.625, 1.25, 1.875, 3.75, 10.0, 500.0]);
}

#[test]
fn the_step_of_the_clock_may_be_a_fifth_of_the_tails_mean_and_no_more() {
    // The mean of 10, 20 and 120 is 50.
    assert_eq!(spread_ties(0, &[10, 20, 120]).unwrap(), [10.0, 20.0, 120.0]);
    let why = spread_ties(0, &[10, 20, 119]).unwrap_err();
    assert_eq!(
        why,
        "the clock's steps of 10 ns are too coarse for a tail of 50 ns"
    );
    let why = spread_ties(0, &[7, 7, 7]).unwrap_err();
    assert_eq!(why, "its highest datapoints are all the same");
}

/// The middle of each of `count` parts of equal probability, from 20 µs on, ns.
fn ideal(count: usize, parent: Pareto) -> Vec<i64> {
    let beyond = |at: usize| 1.0 - (at as f64 + 0.5) / count as f64;
    (0..count)
        .map(|at| 20_000 + parent.quantile(1.0 / beyond(at)).round() as i64)
        .collect()
}

#[test]
fn an_exponential_tail_without_noise_gives_its_parameters() {
    let parent = Pareto {
        shape: 0.0,
        scale: 1_000_000.0,
    };
    let sorted = ideal(10_000, parent);
    let Tail::Estimated(estimate) = estimate(&sorted) else {
        panic!("refused");
    };
    // One in twenty, and 500 at most; the threshold is the highest value that is not among them.
    assert_eq!(estimate.exceedances, 500);
    assert_eq!(estimate.threshold_ns, sorted[9499]);
    assert!(estimate.shape.abs() < 0.01, "{estimate:?}");
    assert!((estimate.scale_ns / 1e6 - 1.0).abs() < 0.01, "{estimate:?}");
    assert_eq!(estimate.fit_p_value, 1.0);
    assert_eq!(estimate.exceeded_by_one_in, 100_000);
    let truth = 20_000.0 + 1e6 * 1e5_f64.ln();
    let near = |value: i64, expected: f64, off: f64| {
        assert!((value as f64 / expected - 1.0).abs() < off, "{estimate:?}");
    };
    near(estimate.quantile_ns, truth, 0.02);
    // Coles, section 4.3.3: by the delta method the quantile of an exponential tail of k excesses
    // has the variance scale^2 / k (L^4/4 - L^3 + 2 L^2), where L is the logarithm of how much rarer
    // it is than the threshold. The profile's interval is longer above and shorter below: 1.46 and
    // 0.71 times as long, by the same method in another language.
    let rarer = (1e5 * 0.05_f64).ln();
    let variance = (rarer.powi(4) / 4.0 - rarer.powi(3) + 2.0 * rarer.powi(2)) / 500.0;
    let half = 1.96e6 * variance.sqrt();
    let (below, above) = (
        (estimate.quantile_ns - estimate.quantile_low_ns) as f64,
        (estimate.quantile_high_ns - estimate.quantile_ns) as f64,
    );
    assert!((0.7..0.72).contains(&(below / half)), "{}", below / half);
    assert!((1.45..1.48).contains(&(above / half)), "{}", above / half);
}

#[test]
fn two_thousand_datapoints_are_enough_and_few_have_as_many_exceedances_as_one_in_twenty() {
    let parent = Pareto {
        shape: 0.0,
        scale: 1_000_000.0,
    };
    for (count, exceedances) in [(2000, 100), (2019, 100), (2020, 101), (100_000, 500)] {
        let Tail::Estimated(estimate) = estimate(&ideal(count, parent)) else {
            panic!("{count} refused");
        };
        assert_eq!(estimate.exceedances, exceedances);
    }
}

#[test]
fn a_tail_without_a_mean_is_refused() {
    let of = |shape: f64| estimate(&ideal(10_000, Pareto { shape, scale: 1e6 }));
    let Tail::Refused(why) = of(1.3) else {
        panic!("not refused");
    };
    assert_eq!(why, "its tail is too heavy (shape 1.29) for any bound");
    assert!(matches!(of(0.5), Tail::Estimated(_)), "{:?}", of(0.5));
}

#[test]
fn the_reason_of_a_refusal_is_that_at_the_lowest_threshold() {
    // Of 2900 datapoints 145 are a tail and then 101; 70 of them are in a second heap.
    let heap = |from: i64, count: i64, step: i64| (0..count).map(move |at| from + step * at);
    let sorted: Vec<i64> = heap(20_000, 2830, 10)
        .chain(heap(300_000, 70, 1000))
        .collect();
    let [lowest, highest] = [145, 101].map(|above| at_threshold(&sorted, above).unwrap_err());
    assert!(lowest.starts_with("its tail is too heavy"), "{lowest}");
    assert_eq!(
        highest,
        "the highest 101 datapoints do not follow a generalised Pareto distribution (p = 0.00)"
    );
    assert_eq!(estimate(&sorted), Tail::Refused(lowest));
}

use super::*;
use crate::random::Random;

fn drawn(seed: u64, count: usize, mut draw: impl FnMut(&mut Random) -> f64) -> Vec<i64> {
    let mut random = Random(seed);
    (0..count).map(|_| draw(&mut random) as i64).collect()
}

fn is_near(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() < 1e-4,
        "{value} instead of {expected}"
    );
}

#[test]
fn the_test_gives_the_published_figures() {
    // Pain scores of Neubert and Brunner (2007), as in the documentation of R's lawstat and of
    // scipy.stats.brunnermunzel: W = 3.1375, df = 17.683, p = 0.0057862, effect 0.788961.
    let mut a = vec![1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1];
    let mut b = vec![3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4];
    let comparison = compare(&mut a, &mut b).unwrap();
    is_near(comparison.p_value, 0.005_786_2);
    is_near(comparison.b_slower, 0.788_961);
    // Their interval is 0.595217 to 0.982705; below, Newcombe's limit is further out.
    is_near(comparison.b_slower_low, 0.558_382);
    is_near(comparison.b_slower_high, 0.982_705);
    // Exchanged, everything lies on the other side of a half.
    let turned = compare(&mut b, &mut a).unwrap();
    is_near(turned.p_value, 0.005_786_2);
    is_near(turned.b_slower, 1.0 - 0.788_961);
    is_near(turned.b_slower_low, 1.0 - 0.982_705);
    is_near(turned.b_slower_high, 1.0 - 0.558_382);
}

#[test]
fn samples_without_a_difference_rarely_differ_significantly() {
    let mut called = 0;
    let mut left_out = 0;
    const RUNS: u64 = 300;
    for seed in 0..RUNS {
        let skewed = |random: &mut Random| 20_000.0 + 3000.0 * random.exponential().powi(2);
        let mut a = drawn(2 * seed, 1000, skewed);
        let mut b = drawn(2 * seed + 1, 1500, skewed);
        let comparison = compare(&mut a, &mut b).unwrap();
        called += u64::from(comparison.p_value < 0.05);
        left_out += u64::from(comparison.p99.unwrap().is_significant());
    }
    // 5% and its own scatter over 300 runs.
    assert!((3..=27).contains(&called), "{called} of {RUNS}");
    assert!(left_out <= 27, "{left_out} of {RUNS}");
}

#[test]
fn the_interval_of_a_difference_of_medians_contains_the_true_one() {
    let mut held = 0;
    const RUNS: u64 = 200;
    for seed in 0..RUNS {
        let mut a = drawn(2 * seed, 500, |random| {
            10_000.0 + 4000.0 * random.exponential()
        });
        let mut b = drawn(2 * seed + 1, 700, |random| {
            13_000.0 + 8000.0 * random.exponential()
        });
        let truth = (3000.0 + 4000.0 * std::f64::consts::LN_2) as i64;
        let median = compare(&mut a, &mut b).unwrap().median;
        held += u64::from((median.low_ns..=median.high_ns).contains(&truth));
    }
    assert!(
        (RUNS * 90 / 100..=RUNS * 99 / 100 + 1).contains(&held),
        "{held} of {RUNS}"
    );
}

#[test]
fn a_tail_that_differs_is_seen_at_p99_and_not_at_the_median() {
    let with_tail = |share: f64| {
        move |random: &mut Random| {
            let rare = if random.uniform() < share {
                50_000.0
            } else {
                0.0
            };
            20_000.0 + 1000.0 * random.exponential() + rare
        }
    };
    let mut a = drawn(1, 20_000, with_tail(0.002));
    let mut b = drawn(2, 20_000, with_tail(0.03));
    let comparison = compare(&mut a, &mut b).unwrap();
    assert!(comparison.p99.unwrap().low_ns > 40_000);
    assert!(comparison.median.high_ns < 100);
}

#[test]
fn the_difference_of_p99s_needs_a_p99_of_both() {
    let values = |count: i64| (0..count).collect::<Vec<i64>>();
    let p99 = |a, b| compare(&mut values(a), &mut values(b)).unwrap().p99;
    assert!(p99(1000, 1000).is_some());
    assert!(p99(999, 5000).is_none());
    assert!(p99(5000, 999).is_none());
}

#[test]
fn samples_that_do_not_vary_are_compared_without_a_division_by_zero() {
    let comparison = compare(&mut [5; 20], &mut [5; 30]).unwrap();
    assert_eq!((comparison.b_slower, comparison.p_value), (0.5, 1.0));
    // 20 pairs that all tie: 1 - 0.025^(1/20) = 16.84% may not, half of it on either side.
    is_near(comparison.b_slower_low, 0.415_789);
    is_near(comparison.b_slower_high, 0.584_211);
    let comparison = compare(&mut [5; 20], &mut [6; 30]).unwrap();
    assert_eq!(comparison.b_slower, 1.0);
    assert!(compare(&mut [5; 9], &mut [6; 30]).is_none());
}

#[test]
fn the_p_value_of_separate_samples_is_the_lowest_for_their_sizes() {
    let low: Vec<i64> = (1..=10).collect();
    let high: Vec<i64> = (11..=20).collect();
    let comparison = compare(&mut low.clone(), &mut high.clone()).unwrap();
    // 20 over 10 is 184 756, and two of the arrangements are as extreme.
    assert!((comparison.p_value / (2.0 / 184_756.0) - 1.0).abs() < 1e-9);
    // 0.025^(1/10)
    is_near(comparison.b_slower_low, 0.691_503);
    assert_eq!((comparison.b_slower, comparison.b_slower_high), (1.0, 1.0));
    let turned = compare(&mut high.clone(), &mut low.clone()).unwrap();
    assert_eq!((turned.b_slower, turned.b_slower_low), (0.0, 0.0));
    is_near(turned.b_slower_high, 1.0 - 0.691_503);
    assert_eq!(turned.p_value, comparison.p_value);
    // 40 over 10 is 847 660 528.
    let many: Vec<i64> = (11..=40).collect();
    let comparison = compare(&mut low.clone(), &mut many.clone()).unwrap();
    assert!((comparison.p_value / (2.0 / 847_660_528.0) - 1.0).abs() < 1e-9);
    // Nearly separate: Student's distribution alone would give a lower p-value than the arrangements.
    let mut nearly = high;
    nearly[0] = 10;
    let comparison = compare(&mut low.clone(), &mut nearly).unwrap();
    assert!(
        comparison.p_value >= 0.999_999 * 2.0 / 184_756.0,
        "{comparison:?}"
    );
    // Never zero, for any size.
    let (mut low, mut high) = (vec![1; 50_000], vec![2; 50_000]);
    assert!(compare(&mut low, &mut high).unwrap().p_value > 0.0);
}

/// How often the interval of `b_slower` contains the truth, and how often equality is rejected, if B is
/// A shifted by `shift` standard deviations.
fn of_shifted(shift: f64, count: usize, runs: u64) -> (f64, f64) {
    use statrs::distribution::{ContinuousCDF, Normal};
    let truth = Normal::standard().cdf(shift / std::f64::consts::SQRT_2);
    let (mut held, mut refused) = (0.0, 0.0);
    for seed in 0..runs {
        let normal = |by: f64| {
            move |random: &mut Random| {
                let radius = (2.0 * random.exponential()).sqrt();
                1e6 * (by + radius * (std::f64::consts::TAU * random.uniform()).cos())
            }
        };
        let mut a = drawn(2 * seed, count, normal(0.0));
        let mut b = drawn(2 * seed + 1, count, normal(shift));
        let comparison = compare(&mut a, &mut b).unwrap();
        let interval = comparison.b_slower_low..=comparison.b_slower_high;
        held += f64::from(u8::from(interval.contains(&truth)));
        refused += f64::from(u8::from(comparison.p_value < 0.05));
    }
    (held / runs as f64, refused / runs as f64)
}

#[test]
fn ten_against_ten_keep_their_error_rates_with_and_without_overlap() {
    const RUNS: u64 = 2000;
    // 1.5 points are three standard errors of a share of 5%.
    let (held, refused) = of_shifted(0.0, 10, RUNS);
    assert!((0.935..=0.97).contains(&held), "{held}");
    assert!((0.03..=0.07).contains(&refused), "{refused}");
    // A shift of 1.5 is seen in most samples, though not in all. From 2 on many do not overlap.
    let (held, refused) = of_shifted(1.5, 10, RUNS);
    assert!(held >= 0.935, "{held}");
    assert!((0.8..=0.95).contains(&refused), "{refused}");
    for shift in [2.0, 2.5, 4.0] {
        let (held, refused) = of_shifted(shift, 10, RUNS);
        assert!(held >= 0.935, "{shift}: {held}");
        assert!(refused >= 0.97, "{shift}: {refused}");
    }
}

#[test]
fn the_interval_is_no_wider_than_necessary_for_ranks() {
    let mut a: Vec<i64> = (0..100).map(|at| at * 10).collect();
    let mut b: Vec<i64> = (0..100).map(|at| at * 10 + 5).collect();
    let comparison = compare(&mut a, &mut b).unwrap();
    // The standard error of two even samples of 100 is about (1/12 · 2/100)^0.5 = 0.0408.
    let width = comparison.b_slower_high - comparison.b_slower_low;
    assert!((0.155..=0.17).contains(&width), "{width}");
}

#[test]
fn the_interval_of_a_difference_is_that_of_its_formula() {
    // Ten values each: the median is the 5th (type 1), its interval from the 2nd to the 9th
    // (every table of the sign test). A: 50, 20 to 90. B: 1400, 1100 to 1800.
    let mut a: Vec<i64> = (1..=10).map(|at| 10 * at).collect();
    let mut b: Vec<i64> = (10..=19).map(|at| 100 * at).collect();
    let comparison = compare(&mut a, &mut b).unwrap();
    // Zou and Donner: 1350 - sqrt(300² + 40²) = 1047.3, 1350 + sqrt(400² + 30²) = 1751.1.
    assert_eq!(
        comparison.median,
        Difference {
            a_ns: 50,
            b_ns: 1400,
            difference_ns: 1350,
            low_ns: 1047,
            high_ns: 1752,
        }
    );
    assert_eq!(comparison.p99, None);
    assert!(comparison.median.is_significant());
}

#[test]
fn a_p99_has_an_interval_if_both_samples_bound_it() {
    // Ranks 1 to 1000: p99 is the 990th. Of the binomial distribution of 1000 and 0.99: its interval
    // goes from the 983rd to the 997th, so that of a difference is sqrt(7² + 7²) wide to either side.
    let sample = || (1..=1000).collect::<Vec<i64>>();
    let p99 = compare(&mut sample(), &mut sample()).unwrap().p99.unwrap();
    assert_eq!((p99.a_ns, p99.b_ns), (990, 990));
    assert_eq!((p99.low_ns, p99.high_ns), (-10, 10));
    let mut shorter: Vec<i64> = (1..=999).collect();
    assert_eq!(compare(&mut sample(), &mut shorter).unwrap().p99, None);
    assert_eq!(compare(&mut shorter, &mut sample()).unwrap().p99, None);
}

#[test]
fn a_difference_is_significant_if_zero_is_outside_its_interval() {
    let of = |low_ns, high_ns| {
        let difference = Difference {
            a_ns: 0,
            b_ns: 0,
            difference_ns: 0,
            low_ns,
            high_ns,
        };
        difference.is_significant()
    };
    assert!(of(1, 5) && of(-5, -1));
    assert!(!of(0, 5) && !of(-5, 0) && !of(-1, 1));
}

#[test]
fn students_quantile_and_probability_are_those_of_the_tables() {
    for (freedom, quantile) in [(1.0, 12.706_2), (9.0, 2.262_2), (30.0, 2.042_3)] {
        assert!((student::quantile(freedom) - quantile).abs() < 1e-3);
        is_near(student::two_sided(quantile, freedom), 0.05);
    }
    is_near(student::two_sided(0.0, 5.0), 1.0);
    is_near(student::two_sided(-1.0, 1.0), 0.5);
}

#[test]
fn unequal_samples_without_ties_give_the_effect_and_the_interval_of_the_formula() {
    // A: 1 to 10, B: 4.5 to 15.5 (doubled, to be whole). Brunner and Munzel's formulas, with the
    // placements counted pair by pair.
    let mut a: Vec<i64> = (1..=10).map(|at| 2 * at).collect();
    let mut b: Vec<i64> = (4..=15).map(|at| 2 * at + 1).collect();
    let below = |value: i64, of: &[i64]| of.iter().filter(|&&one| one < value).count() as f64;
    let of_a: Vec<f64> = a.iter().map(|&one| below(one, &b)).collect();
    let of_b: Vec<f64> = b.iter().map(|&one| below(one, &a)).collect();
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let variance = |all: &[f64]| {
        let squares: f64 = all.iter().map(|one| (one - mean(all)).powi(2)).sum();
        squares / (all.len() as f64 - 1.0)
    };
    let effect = mean(&of_b) / 10.0;
    let (of_a, of_b) = (
        variance(&of_a) / 144.0 / 10.0,
        variance(&of_b) / 100.0 / 12.0,
    );
    let freedom = (of_a + of_b).powi(2) / (of_a.powi(2) / 9.0 + of_b.powi(2) / 11.0);
    let half = student::quantile(freedom) * (of_a + of_b).sqrt();
    let comparison = compare(&mut a, &mut b).unwrap();
    is_near(comparison.b_slower, effect);
    // Newcombe's limits, by a program of a few lines in another language: 0.581212 and 0.936052.
    is_near(comparison.b_slower_low, (effect - half).min(0.581212));
    is_near(
        comparison.b_slower_high,
        (effect + half).clamp(0.936052, 1.0),
    );
    is_near(
        comparison.p_value,
        student::two_sided((effect - 0.5) / (of_a + of_b).sqrt(), freedom),
    );
    assert_eq!((comparison.count_a, comparison.count_b), (10, 12));
}

#[test]
fn placements_are_those_counted_pair_by_pair() {
    let values = [1, 1, 2, 5, 5, 5, 9];
    let others = [0, 1, 1, 1, 3, 5, 5, 8];
    let counted = values.map(|value| {
        let below = others.iter().filter(|&&other| other < value).count();
        let equal = others.iter().filter(|&&other| other == value).count();
        below as f64 + equal as f64 / 2.0
    });
    assert_eq!(counted, [2.5, 2.5, 4.0, 6.0, 6.0, 6.0, 8.0]);
    let placements = placements(&values, &others);
    assert!((placements.mean - 5.0).abs() < 1e-12);
    // 2 * 2.5² + 1² + 3 * 1² + 3² = 25.5, over 6.
    assert!((placements.variance - 25.5 / 6.0).abs() < 1e-12);
}

//! The model of an I/O's duration, against devices with known parameters. It is compiled for this
//! machine from the header that the kernel runs; `in_the_kernel` compares the two.

#[cfg(feature = "bpf")]
mod in_the_kernel;
mod program;

use std::f64::consts::TAU;

use fastrand::Rng;
use program::{Prediction, Script};
use proptest::prelude::*;
use reveille_anticipate::{correlation, expected};

const SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// 4 KiB
const PAGE: [u32; 1] = [8];

/// Standard normal.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

/// A device: 50 µs, and 600 ns per sector.
fn linear(sectors: u32) -> f64 {
    50e3 + 600.0 * f64::from(sectors)
}

/// I/Os of sizes drawn from `sizes`, and the duration of each, ns.
fn series(
    rng: &mut Rng,
    count: usize,
    sizes: &[u32],
    mut takes: impl FnMut(&mut Rng, u32) -> f64,
) -> Vec<(u32, u64)> {
    (0..count)
        .map(|_| {
            let sectors = sizes[rng.usize(..sizes.len())];
            (sectors, takes(rng, sectors).max(1.0) as u64)
        })
        .collect()
}

/// The prediction before each I/O, and the model at the end.
struct Predicted {
    series: Vec<(u32, u64)>,
    predictions: Vec<Option<Prediction>>,
    fields: program::Fields,
}

fn predictions_of(series: Vec<(u32, u64)>) -> Predicted {
    let mut script = Script::default();
    for &(sectors, ns) in &series {
        script.predict(sectors);
        script.observe(sectors, ns);
    }
    let (predictions, fields) = script.run();
    assert_eq!(predictions.len(), series.len());
    Predicted {
        series,
        predictions,
        fields,
    }
}

impl Predicted {
    /// The I/Os from `first` on that were predicted: size, time, prediction.
    fn from(&self, first: usize) -> Vec<(u32, u64, Prediction)> {
        let predicted = self.series.iter().zip(&self.predictions).skip(first);
        predicted
            .filter_map(|(&(sectors, ns), predicted)| {
                predicted.map(|predicted| (sectors, ns, predicted))
            })
            .collect()
    }

    /// The median over the I/Os from `first` to `end` of |predicted - actual| / actual. An I/O
    /// without a prediction counts as entirely wrong.
    fn error_within(&self, first: usize, end: usize, truth: impl Fn(u32) -> f64) -> f64 {
        let errors = (first..end).map(|at| {
            let truth = truth(self.series[at].0);
            self.predictions[at].map_or(f64::INFINITY, |predicted| {
                (predicted.ns as f64 / truth - 1.0).abs()
            })
        });
        median(errors.collect())
    }

    fn error_from(&self, first: usize, truth: impl Fn(u32) -> f64) -> f64 {
        self.error_within(first, self.series.len(), truth)
    }

    /// The shares of the I/Os from `first` on that completed before `early_ns` and before
    /// `late_ns`.
    fn coverage(&self, first: usize) -> (f64, f64) {
        let predicted = self.from(first);
        let share = |of: fn(&(u32, u64, Prediction)) -> bool| {
            predicted.iter().filter(|io| of(io)).count() as f64 / predicted.len() as f64
        };
        (
            share(|(_, ns, predicted)| *ns < predicted.early_ns),
            share(|(_, ns, predicted)| *ns < predicted.late_ns),
        )
    }

    fn correlation(&self) -> Option<f64> {
        correlation(&self.fields.learnt())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// 5% within the effect of steps, and 90%.
fn assert_covers(predicted: &Predicted, first: usize) {
    let (early, late) = predicted.coverage(first);
    assert!((0.01..=0.12).contains(&early), "before early_ns: {early}");
    assert!((0.80..=0.97).contains(&late), "before late_ns: {late}");
}

#[test]
fn a_linear_device_is_learnt_within_a_hundred_reads() {
    for seed in 0..5 {
        let mut rng = Rng::with_seed(seed);
        let takes = |rng: &mut Rng, sectors| linear(sectors) * (1.0 + 0.05 * normal(rng));
        let predicted = predictions_of(series(&mut rng, 2000, &SIZES, takes));
        assert!(
            predicted.error_within(100, 200, linear) < 0.05,
            "seed {seed}"
        );
        assert!(predicted.error_from(100, linear) < 0.02, "seed {seed}");
        // The same for the observations: half of the errors are below 0.67 deviations.
        let errors = predicted.from(100).into_iter();
        let errors = errors.map(|(_, ns, predicted)| (predicted.ns as f64 / ns as f64 - 1.0).abs());
        assert!(median(errors.collect()) < 0.05, "seed {seed}");
        assert_covers(&predicted, 200);
        assert_eq!(predicted.fields.get("changes"), 0, "seed {seed}");
    }
}

#[test]
fn small_sizes_are_predicted_as_well_as_large_ones() {
    let mut rng = Rng::with_seed(1);
    let takes = |rng: &mut Rng, sectors| linear(sectors) * (1.0 + 0.15 * normal(rng));
    let predicted = predictions_of(series(&mut rng, 3000, &SIZES, takes));
    for size in SIZES {
        let errors = predicted.from(100).into_iter().filter(|io| io.0 == size);
        let errors =
            errors.map(|(_, _, predicted)| (predicted.ns as f64 / linear(size) - 1.0).abs());
        let error = median(errors.collect());
        assert!(error < 0.06, "{size} sectors: {error}");
    }
}

#[test]
fn reads_without_noise_have_a_correlation_of_one() {
    let mut rng = Rng::with_seed(2);
    let takes = |rng: &mut Rng, sectors| linear(sectors) + 500.0 * normal(rng);
    let predicted = predictions_of(series(&mut rng, 1000, &SIZES, takes));
    let correlation = predicted.correlation().unwrap();
    assert!(correlation > 0.999, "{correlation}");
}

#[test]
fn noisy_writes_have_the_correlation_of_the_paper() {
    // Noise for a correlation of 0.91: sqrt(1 / 0.91² - 1) times the spread due to sizes.
    let mean = SIZES.iter().sum::<u32>() as f64 / SIZES.len() as f64;
    let squares = SIZES.iter().map(|&size| (f64::from(size) - mean).powi(2));
    let deviation = (squares.sum::<f64>() / SIZES.len() as f64).sqrt();
    let noise = 600.0 * deviation * (1.0 / 0.91_f64.powi(2) - 1.0).sqrt();
    for seed in 0..5 {
        let mut rng = Rng::with_seed(seed);
        let takes = |rng: &mut Rng, sectors| 1e6 + linear(sectors) + noise * normal(rng);
        let predicted = predictions_of(series(&mut rng, 2000, &SIZES, takes));
        // The textbook's correlation of the end of the series.
        let end: Vec<(f64, f64)> = predicted.series[1500..]
            .iter()
            .map(|&(sectors, ns)| (f64::from(sectors), ns as f64))
            .collect();
        let plain = pearson(&end);
        let correlation = predicted.correlation().unwrap();
        assert!((correlation - plain).abs() < 0.05, "{correlation}, {plain}");
        assert!((0.86..0.95).contains(&correlation), "{correlation}");
        assert!(predicted.error_from(100, |size| 1e6 + linear(size)) < 0.10);
    }
}

fn pearson(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(a, b)| of(a - x, b - y)).sum();
    let (xx, yy, xy): (f64, f64, f64) =
        (sum(&|a, _| a * a), sum(&|_, b| b * b), sum(&|a, b| a * b));
    xy / (xx * yy).sqrt()
}

#[test]
fn one_size_and_one_time_are_predicted_exactly_and_have_no_correlation() {
    let predicted = predictions_of(vec![(8, 54_321); 500]);
    assert!(predicted.predictions[..5].iter().all(Option::is_none));
    assert!(predicted.predictions[5..].iter().all(Option::is_some));
    let last = predicted.predictions[499].unwrap();
    assert!((last.ns as i64 - 54_321).abs() <= 1, "{last:?}");
    assert!(last.early_ns <= last.ns && last.ns <= last.late_ns);
    assert!(last.late_ns - last.early_ns < 2000, "{last:?}");
    assert_eq!(predicted.correlation(), None);
}

#[test]
fn a_device_that_jumps_is_followed_within_two_hundred() {
    for noise in [0.0, 0.05, 0.2] {
        for (before, after) in [(1.0, 4.0), (4.0, 1.0), (1.0, 1.5), (1.5, 1.0)] {
            for seed in 0..5 {
                let mut rng = Rng::with_seed(seed);
                let at =
                    |scale: f64| move |rng: &mut Rng, _| scale * 50e3 * (noise * normal(rng)).exp();
                let mut ios = series(&mut rng, 1000, &PAGE, at(before));
                ios.extend(series(&mut rng, 400, &PAGE, at(after)));
                let predicted = predictions_of(ios);
                let error = predicted.error_within(1200, 1400, |_| after * 50e3);
                assert!(
                    error < 0.10,
                    "{before} to {after}, noise {noise}, seed {seed}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_device_that_jumps_is_followed_at_all_sizes() {
    for (before, after) in [(1.0, 4.0), (4.0, 1.0)] {
        for seed in 0..5 {
            let mut rng = Rng::with_seed(seed);
            let at = |scale: f64| {
                move |rng: &mut Rng, sectors| scale * linear(sectors) * (0.1 * normal(rng)).exp()
            };
            let mut ios = series(&mut rng, 1000, &SIZES, at(before));
            ios.extend(series(&mut rng, 400, &SIZES, at(after)));
            let predicted = predictions_of(ios);
            let error = predicted.error_within(1200, 1400, |sectors| after * linear(sectors));
            assert!(error < 0.10, "{before} to {after}, seed {seed}: {error}");
        }
    }
}

#[test]
fn a_slope_that_jumps_is_followed() {
    let steep = |sectors: u32| 50e3 + 2400.0 * f64::from(sectors);
    for seed in 0..5 {
        let mut rng = Rng::with_seed(seed);
        let noisy = |rng: &mut Rng| (0.05 * normal(rng)).exp();
        let mut ios = series(&mut rng, 1000, &SIZES, |rng, size| {
            linear(size) * noisy(rng)
        });
        ios.extend(series(&mut rng, 400, &SIZES, |rng, size| {
            steep(size) * noisy(rng)
        }));
        let error = predictions_of(ios).error_within(1200, 1400, steep);
        assert!(error < 0.10, "seed {seed}: {error}");
    }
}

#[test]
fn one_outlier_has_no_visible_effect() {
    let mut rng = Rng::with_seed(3);
    let mut ios = series(&mut rng, 500, &PAGE, |rng, _| {
        50e3 * (1.0 + 0.04 * normal(rng))
    });
    let mut script = Script::default();
    for &(sectors, ns) in &ios {
        script.observe(sectors, ns);
    }
    script.predict(8);
    script.observe(8, 5_000_000);
    script.predict(8);
    let (predicted, _) = script.run();
    let [Some(before), Some(after)] = predicted[..] else {
        panic!("two predictions, not {predicted:?}");
    };
    let moved = |a: u64, b: u64| (b as f64 / a as f64 - 1.0).abs();
    assert!(moved(before.ns, after.ns) < 0.005, "{before:?} {after:?}");
    assert!(
        moved(before.early_ns, after.early_ns) < 0.01,
        "{before:?} {after:?}"
    );
    assert!(
        moved(before.late_ns, after.late_ns) < 0.02,
        "{before:?} {after:?}"
    );

    // Nor at the start.
    ios.insert(0, (8, 5_000_000));
    let predicted = predictions_of(ios);
    assert!(predicted.error_from(100, |_| 50e3) < 0.02);
}

#[test]
fn outliers_of_one_percent_have_no_visible_effect() {
    let mut rng = Rng::with_seed(4);
    let predicted = predictions_of(series(&mut rng, 3000, &PAGE, |rng, _| {
        match rng.u32(..100) {
            0 => 5e6,
            _ => 50e3 * (1.0 + 0.04 * normal(rng)),
        }
    }));
    assert!(predicted.error_from(100, |_| 50e3) < 0.01);
    assert_covers(&predicted, 100);
    let widest = predicted
        .from(200)
        .into_iter()
        .map(|(_, _, predicted)| predicted.late_ns);
    assert!(widest.max().unwrap() < 70_000);
    assert_eq!(predicted.fields.get("changes"), 0);
}

#[test]
fn pauses_do_not_hide_the_correlation() {
    let mut rng = Rng::with_seed(5);
    let predicted = predictions_of(series(&mut rng, 3000, &SIZES, |rng, size| {
        match rng.u32(..100) {
            0 => 10e6,
            _ => linear(size) * (1.0 + 0.05 * normal(rng)),
        }
    }));
    assert!(predicted.error_from(100, linear) < 0.03);
    let correlation = predicted.correlation().unwrap();
    assert!(correlation > 0.95, "{correlation}");
}

#[test]
fn heavy_tails_are_predicted_at_their_median() {
    for sigma in [0.2, 0.5, 1.0] {
        let mut rng = Rng::with_seed(6);
        let takes = |rng: &mut Rng, _| 50e3 * (sigma * normal(rng)).exp();
        let predicted = predictions_of(series(&mut rng, 5000, &PAGE, takes));
        let error = predicted.error_from(100, |_| 50e3);
        assert!(error < 0.10, "sigma {sigma}: {error}");
        assert_covers(&predicted, 200);
    }
}

#[test]
fn quantiles_have_their_nominal_coverage_at_all_sizes() {
    let mut rng = Rng::with_seed(7);
    let takes = |rng: &mut Rng, size| linear(size) * (0.15 * normal(rng)).exp();
    let predicted = predictions_of(series(&mut rng, 6000, &SIZES, takes));
    for size in SIZES {
        let of_size: Vec<_> = predicted
            .from(200)
            .into_iter()
            .filter(|io| io.0 == size)
            .collect();
        let share = |count: usize| count as f64 / of_size.len() as f64;
        let early = share(
            of_size
                .iter()
                .filter(|(_, ns, predicted)| *ns < predicted.early_ns)
                .count(),
        );
        let late = share(
            of_size
                .iter()
                .filter(|(_, ns, predicted)| *ns < predicted.late_ns)
                .count(),
        );
        assert!((0.01..=0.12).contains(&early), "{size} sectors: {early}");
        assert!((0.80..=0.97).contains(&late), "{size} sectors: {late}");
    }
}

#[test]
fn of_two_speeds_the_frequent_one_is_predicted() {
    // Four in five from a cache.
    let mut rng = Rng::with_seed(8);
    let predicted = predictions_of(series(&mut rng, 4000, &PAGE, |rng, _| {
        let level = if rng.u32(..5) == 0 { 400e3 } else { 50e3 };
        level * (1.0 + 0.03 * normal(rng))
    }));
    assert!(predicted.error_from(100, |_| 50e3) < 0.10);
    assert_covers(&predicted, 500);
}

#[test]
fn large_sizes_are_remembered_through_small_ones() {
    let mut rng = Rng::with_seed(9);
    let takes = |rng: &mut Rng, size| linear(size) * (1.0 + 0.05 * normal(rng));
    let mut ios = series(&mut rng, 500, &SIZES, takes);
    ios.extend(series(&mut rng, 5000, &PAGE, takes));
    ios.extend(series(&mut rng, 20, &[1024], takes));
    let predicted = predictions_of(ios);
    let error = predicted.error_from(5500, linear);
    assert!(error < 0.10, "{error}");
}

#[test]
fn large_sizes_are_remembered_through_small_ones_that_vary() {
    let mut small = [8; 50];
    small[0] = 10;
    for seed in 0..5 {
        let mut rng = Rng::with_seed(seed);
        let takes = |rng: &mut Rng, size| linear(size) * (1.0 + 0.05 * normal(rng));
        let mut ios = series(&mut rng, 500, &SIZES, takes);
        ios.extend(series(&mut rng, 1000, &small, takes));
        ios.extend(series(&mut rng, 1, &[1024], takes));
        let error = predictions_of(ios).error_from(1500, linear);
        assert!(error < 0.15, "seed {seed}: {error}");
    }
}

#[test]
fn a_size_far_from_all_observed_ones_is_not_predicted() {
    let mut rng = Rng::with_seed(10);
    let takes = |rng: &mut Rng, size| linear(size) * (1.0 + 0.05 * normal(rng));
    let mut script = Script::default();
    for (sectors, ns) in series(&mut rng, 500, &PAGE, takes) {
        script.observe(sectors, ns);
    }
    script.predict(8);
    script.predict(2048);
    for (sectors, ns) in series(&mut rng, 3, &[2048], takes) {
        script.observe(sectors, ns);
    }
    script.predict(2048);
    script.predict(8);
    let (predicted, _) = script.run();
    assert!(predicted[0].is_some());
    assert_eq!(predicted[1], None);
    let error = |predicted: Option<Prediction>, size| {
        (predicted.unwrap().ns as f64 / linear(size) - 1.0).abs()
    };
    assert!(error(predicted[2], 2048) < 0.2, "{predicted:?}");
    assert!(error(predicted[3], 8) < 0.05, "{predicted:?}");
}

#[test]
fn invalid_values_are_refused_and_counted() {
    let mut rng = Rng::with_seed(11);
    let ios = series(&mut rng, 300, &PAGE, |rng, _| {
        50e3 * (1.0 + 0.05 * normal(rng))
    });
    let nonsense = [
        (0, 50_000),
        (8, 0),
        (8, (1 << 34) + 1),
        (8, u64::MAX),
        // -1 ns
        (8, -1_i64 as u64),
        ((1 << 16) + 1, 50_000),
        (u32::MAX, u64::MAX),
        (0, 0),
    ];
    let run = |with: bool| {
        let mut script = Script::default();
        for &(sectors, ns) in &ios {
            script.observe(sectors, ns);
            for (sectors, ns) in nonsense.into_iter().filter(|_| with) {
                script.observe(sectors, ns);
            }
            script.predict(8);
        }
        script.predict(0);
        script.predict((1 << 16) + 1);
        script.run()
    };
    let (predicted, fields) = run(true);
    let (plain, plain_fields) = run(false);
    assert_eq!(predicted, plain);
    assert_eq!(fields.learnt(), plain_fields.learnt());
    assert_eq!(fields.get("count"), 300);
    assert_eq!(fields.get("refused"), 300 * nonsense.len() as i64);
    assert_eq!(predicted[300..], [None, None]);
}

#[test]
fn the_reference_model_agrees_with_the_c_model() {
    let mut rng = Rng::with_seed(12);
    let takes = |rng: &mut Rng, size| linear(size) * (0.1 * normal(rng)).exp();
    let mut script = Script::default();
    for (sectors, ns) in series(&mut rng, 700, &SIZES, takes) {
        script.observe(sectors, ns);
    }
    let asked = [1, 8, 100, 2048, 10_000, 1 << 16];
    for sectors in asked {
        script.predict(sectors);
    }
    let (predicted, fields) = script.run();
    for (sectors, predicted) in asked.into_iter().zip(predicted) {
        let expected = expected(&fields.learnt(), sectors);
        let Some((predicted, expected)) = predicted.zip(expected) else {
            assert!(
                predicted.is_none() && expected.is_none(),
                "{sectors} sectors"
            );
            continue;
        };
        let pairs = [
            (predicted.ns, expected.ns),
            (predicted.early_ns, expected.early_ns),
            (predicted.late_ns, expected.late_ns),
        ];
        for (predicted, expected) in pairs {
            // Slopes are rounded to 2^-12 ns a sector.
            let off = (predicted as f64 - expected).abs();
            assert!(
                off < 20.0 + expected * 1e-4,
                "{sectors}: {predicted}, {expected}"
            );
        }
    }
}

/// Sizes and times of every magnitude, including invalid ones.
fn any_io() -> impl Strategy<Value = (u32, u64)> {
    let sectors = prop_oneof![
        4 => 1_u32..=1 << 16,
        4 => Just(8_u32),
        2 => (0_u32..=16).prop_map(|power| 1 << power),
        1 => any::<u32>(),
    ];
    let ns = prop_oneof![
        4 => 40_000_u64..60_000,
        4 => (0_u32..=34).prop_map(|power| 1_u64 << power),
        4 => 1_u64..=1 << 34,
        1 => any::<u64>(),
    ];
    (sectors, ns)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The program traps on overflow.
    #[test]
    fn predictions_are_ordered_and_in_range_for_any_input(
        ios in proptest::collection::vec((any_io(), 1_usize..60), 1..60),
        asked in proptest::collection::vec(any_io(), 1..10),
    ) {
        let mut script = Script::default();
        let mut count = 0;
        for &((sectors, ns), times) in &ios {
            for _ in 0..times {
                script.observe(sectors, ns);
                count += 1;
            }
            for &(sectors, _) in &asked {
                script.predict(sectors);
            }
        }
        let (predicted, fields) = script.run();
        for predicted in predicted.into_iter().flatten() {
            prop_assert!(1 <= predicted.early_ns, "{:?}", predicted);
            prop_assert!(predicted.early_ns <= predicted.ns && predicted.ns <= predicted.late_ns, "{:?}", predicted);
            prop_assert!(predicted.late_ns <= 1 << 34, "{:?}", predicted);
        }
        prop_assert_eq!(fields.get("count") + fields.get("refused"), count);
        let learnt = fields.learnt();
        prop_assert!(correlation(&learnt).is_none_or(|r| (-1.0..=1.0).contains(&r)));
        for (sectors, _) in asked {
            prop_assert!(expected(&learnt, sectors).is_none_or(|predicted| predicted.ns.is_finite()));
        }
    }

    /// From any state it recovers within the number of I/Os that follow a jump.
    #[test]
    fn a_steady_device_is_learnt_after_any_history(
        ios in proptest::collection::vec(any_io(), 0..300),
        seed in any::<u64>(),
    ) {
        let mut rng = Rng::with_seed(seed);
        let mut script = Script::default();
        for &(sectors, ns) in &ios {
            script.observe(sectors, ns);
        }
        for (sectors, ns) in series(&mut rng, 600, &PAGE, |rng, _| 50e3 * (1.0 + 0.05 * normal(rng))) {
            script.observe(sectors, ns);
        }
        script.predict(8);
        let (predicted, _) = script.run();
        let predicted = predicted[0].expect("a prediction");
        prop_assert!((40_000..60_000).contains(&predicted.ns), "{:?}", predicted);
    }
}

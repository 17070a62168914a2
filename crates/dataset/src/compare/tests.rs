use super::*;
use crate::columns::{Column, Values};
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
    let comparison = samples(&mut a, &mut b).unwrap();
    is_near(comparison.p_value, 0.005_786_2);
    is_near(comparison.b_slower, 0.788_961);
    is_near(comparison.b_slower_low, 0.595_217);
    is_near(comparison.b_slower_high, 0.982_705);
}

#[test]
fn samples_without_a_difference_are_seldom_called_different() {
    let mut called = 0;
    let mut left_out = 0;
    const RUNS: u64 = 300;
    for seed in 0..RUNS {
        let skewed = |random: &mut Random| 20_000.0 + 3000.0 * random.exponential().powi(2);
        let mut a = drawn(2 * seed, 400, skewed);
        let mut b = drawn(2 * seed + 1, 900, skewed);
        let comparison = samples(&mut a, &mut b).unwrap();
        called += u64::from(comparison.p_value < 0.05);
        left_out += u64::from(comparison.p99.unwrap().is_significant());
    }
    // 5 % and its own scatter over 300 runs.
    assert!((3..=27).contains(&called), "{called} of {RUNS}");
    assert!(left_out <= 27, "{left_out} of {RUNS}");
}

#[test]
fn the_interval_of_a_difference_of_medians_holds_the_true_one() {
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
        let median = samples(&mut a, &mut b).unwrap().median;
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
    let comparison = samples(&mut a, &mut b).unwrap();
    assert!(comparison.p99.unwrap().low_ns > 40_000);
    assert!(comparison.median.high_ns < 100);
}

#[test]
fn samples_that_do_not_vary_are_compared_without_a_division_by_zero() {
    let comparison = samples(&mut [5; 20], &mut [5; 30]).unwrap();
    assert_eq!((comparison.b_slower, comparison.p_value), (0.5, 1.0));
    let comparison = samples(&mut [5; 20], &mut [6; 30]).unwrap();
    assert_eq!((comparison.b_slower, comparison.p_value), (1.0, 0.0));
    assert!(samples(&mut [5; 9], &mut [6; 30]).is_none());
}

fn one_state(state: &str, latencies: Vec<i64>) -> Columns {
    let count = latencies.len();
    let name = |name: &str| Values::Name {
        codes: vec![0; count],
        names: vec![name.to_owned()],
    };
    Columns::new(vec![
        Column {
            name: "requested_state".into(),
            values: name(state),
        },
        Column {
            name: "source".into(),
            values: name("timer"),
        },
        Column {
            name: "wake_latency_ns".into(),
            values: Values::Integer(latencies),
        },
    ])
    .unwrap()
}

fn described(probe: Probe, columns: Columns) -> Loaded {
    let mut description = Description::unknown(Vec::new());
    description.probe = probe;
    Loaded {
        description,
        columns,
    }
}

#[test]
fn results_of_different_probes_are_never_compared_without_a_word() {
    let latencies: Vec<i64> = (0..50).collect();
    let of = |probe| described(probe, one_state("C6", latencies.clone()));
    let mixed = results(&of(Probe::Bpf), &of(Probe::User));
    assert_eq!(mixed.states.len(), 1);
    assert!(
        mixed.notes[0].contains("waiting thread"),
        "{:?}",
        mixed.notes
    );
    assert_eq!(
        results(&of(Probe::Bpf), &of(Probe::Bpf)).notes,
        Vec::<String>::new()
    );
}

#[test]
fn a_state_of_one_result_only_is_named_and_not_compared() {
    let latencies: Vec<i64> = (0..50).collect();
    let compared = by_state(
        &one_state("C1", latencies.clone()),
        &one_state("C6", latencies),
    );
    assert!(compared.states.is_empty());
    assert!(
        compared.notes[0].contains("C1 (timer), C6 (timer)"),
        "{:?}",
        compared.notes
    );
}

#[test]
fn several_tests_count_as_several() {
    let one = |p_value| {
        let comparison = Comparison {
            p_value,
            ..samples(&mut [1; 10], &mut [1; 10]).unwrap()
        };
        StateComparison {
            state: String::new(),
            source: String::new(),
            comparison,
            adjusted_p_value: p_value,
        }
    };
    let mut states = vec![one(0.04), one(0.01), one(0.03)];
    adjust(&mut states);
    let adjusted: Vec<f64> = states.iter().map(|state| state.adjusted_p_value).collect();
    is_near(adjusted[0], 0.06);
    is_near(adjusted[1], 0.03);
    is_near(adjusted[2], 0.06);
    assert!(!states[0].is_significant() && states[1].is_significant());
}

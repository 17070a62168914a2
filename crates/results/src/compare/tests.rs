use super::*;
use crate::columns::{Column, Values};

fn is_near(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() < 1e-4,
        "{value} instead of {expected}"
    );
}

fn owned((state, source): (&str, &str)) -> (String, String) {
    (state.to_owned(), source.to_owned())
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

#[test]
fn a_state_of_one_result_only_is_named_and_not_compared() {
    let latencies: Vec<i64> = (0..50).collect();
    let compared = by_state(
        &one_state("C1", latencies.clone()),
        &one_state("C6", latencies),
    );
    assert!(compared.states.is_empty());
    assert_eq!(
        compared.not_compared,
        [("C1", "timer"), ("C6", "timer")].map(owned)
    );
}

#[test]
fn several_tests_are_corrected_for() {
    let one = |p_value| {
        let comparison = Comparison {
            p_value,
            ..two_samples::compare(&mut [1; 10], &mut [1; 10]).unwrap()
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

/// Datapoints of several groups: state, its index, source, latencies.
fn grouped(groups: &[(&str, i64, &str, Vec<i64>)]) -> Columns {
    let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let mut codes: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
    let (mut indices, mut latencies) = (Vec::new(), Vec::new());
    for (state, index, source, sample) in groups {
        for (at, name) in [state, source].into_iter().enumerate() {
            let known = names[at].iter().position(|known| known == name);
            let code = known.unwrap_or_else(|| {
                names[at].push((*name).to_owned());
                names[at].len() - 1
            });
            codes[at].extend(vec![code as u8; sample.len()]);
        }
        indices.extend(vec![*index; sample.len()]);
        latencies.extend(sample);
    }
    let [states, sources] = names;
    let [of_state, of_source] = codes;
    let name = |codes, names| Values::Name { codes, names };
    let columns = [
        ("requested_state", name(of_state, states)),
        ("source", name(of_source, sources)),
        ("requested_state_index", Values::Integer(indices)),
        ("wake_latency_ns", Values::Integer(latencies)),
    ];
    let column = |(name, values): (&str, Values)| Column {
        name: name.to_owned(),
        values,
    };
    Columns::new(columns.map(column).into()).unwrap()
}

#[test]
fn indices_are_merged_and_neither_sources_nor_states_are() {
    // C6 is state 3 on some CPUs and state 2 on others, in both results.
    let a = grouped(&[
        ("C6", 3, "timer", (100..112).collect()),
        ("C6", 3, "remote", (200..220).collect()),
        ("C6", 2, "timer", (112..130).collect()),
        ("C1", 1, "timer", (10..23).collect()),
    ]);
    let b = grouped(&[
        ("C1", 1, "timer", (10..24).collect()),
        ("C6", 2, "remote", (300..315).collect()),
        ("C6", 2, "timer", (107..122).collect()),
        ("C6", 3, "remote", (315..340).collect()),
        ("C6", 3, "timer", (122..137).collect()),
    ]);
    let compared = by_state(&a, &b);
    assert_eq!(compared.not_compared, []);
    let listed: Vec<_> = compared
        .states
        .iter()
        .map(|one| {
            let Comparison {
                count_a, count_b, ..
            } = one.comparison;
            let median = &one.comparison.median;
            let medians = (median.a_ns, median.b_ns, median.difference_ns);
            (
                (one.state.as_str(), one.source.as_str()),
                (count_a, count_b),
                medians,
            )
        })
        .collect();
    assert_eq!(
        listed,
        [
            (("C6", "timer"), (30, 30), (114, 121, 7)),
            (("C6", "remote"), (20, 40), (209, 319, 110)),
            (("C1", "timer"), (13, 14), (16, 16, 0)),
        ]
    );
    // Each counts as one of three tests, the smallest p-value first.
    let of = |at: usize| {
        let one = &compared.states[at];
        (one.comparison.p_value, one.adjusted_p_value)
    };
    let ((timer, timer_adjusted), (_, remote), (c1, c1_adjusted)) = (of(0), of(1), of(2));
    is_near(timer_adjusted, 2.0 * timer);
    assert!(remote <= timer_adjusted && remote < 0.001);
    is_near(c1_adjusted, c1.max(timer_adjusted));
}

#[test]
fn groups_with_too_few_datapoints_are_named_and_compared_from_ten_on() {
    let a = grouped(&[
        ("C1", 1, "timer", vec![5; 9]),
        ("C6", 2, "timer", (0..10).collect()),
        ("C8", 3, "remote", vec![5; 20]),
    ]);
    let b = grouped(&[
        ("C1", 1, "timer", vec![5; 30]),
        ("C6", 2, "timer", (5..15).collect()),
        ("C8", 3, "timer", vec![5; 20]),
    ]);
    let compared = by_state(&a, &b);
    let states: Vec<&str> = compared.states.iter().map(|one| &*one.state).collect();
    assert_eq!(states, ["C6"]);
    assert_eq!(
        compared.not_compared,
        [("C1", "timer"), ("C8", "remote"), ("C8", "timer")].map(owned)
    );
    assert!(two_samples::compare(&mut [1; 30], &mut [2; 9]).is_none());
}

#[test]
fn five_percent_itself_is_not_significant() {
    let of = |adjusted_p_value| {
        let comparison = two_samples::compare(&mut [1; 10], &mut [1; 10]).unwrap();
        let (state, source) = (String::new(), String::new());
        StateComparison {
            state,
            source,
            comparison,
            adjusted_p_value,
        }
        .is_significant()
    };
    assert!(of(0.0499) && !of(0.05));
}

#[test]
fn corrected_p_values_never_exceed_one() {
    let one = |p_value| StateComparison {
        state: String::new(),
        source: String::new(),
        comparison: Comparison {
            p_value,
            ..two_samples::compare(&mut [1; 10], &mut [1; 10]).unwrap()
        },
        adjusted_p_value: p_value,
    };
    let mut states = vec![one(0.6), one(0.9)];
    adjust(&mut states);
    assert_eq!(
        (states[0].adjusted_p_value, states[1].adjusted_p_value),
        (1.0, 1.0)
    );
}

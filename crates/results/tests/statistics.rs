//! Statistics per state match values calculated by hand.

use proptest::prelude::*;
use reveille_results::statistics::Floor;
use reveille_results::statistics::{by_state, summarise};
use reveille_results::verdict::Verdict;
use reveille_results::{Column, Columns, NULL, Values};

#[test]
fn a_quantile_is_a_value_that_its_share_does_not_exceed() {
    let mut sample: Vec<i64> = (1..=100).rev().collect();
    let summary = summarise(&mut sample).unwrap();
    assert_eq!(
        (summary.count, summary.min_ns, summary.max_ns),
        (100, 1, 100)
    );
    assert_eq!(summary.median_ns, 50);
    assert_eq!(summary.p90_ns, Some(90));
    assert_eq!(summary.p99_ns, None);
    assert_eq!(summary.mean_ns, 50.5);
    let deviation = summary.standard_deviation_ns.unwrap();
    assert!(
        (deviation - 29.011_491_975_882_016).abs() < 1e-9,
        "{deviation}"
    );
}

#[test]
fn a_quantile_needs_ten_datapoints_beyond_it() {
    let of = |count: i64| summarise(&mut (0..count).collect::<Vec<_>>()).unwrap();
    assert_eq!((of(99).p90_ns, of(100).p90_ns), (None, Some(89)));
    assert_eq!((of(999).p99_ns, of(1000).p99_ns), (None, Some(989)));
    assert_eq!((of(9999).p99_9_ns, of(10_000).p99_9_ns), (None, Some(9989)));
    assert_eq!(
        (of(99_999).p99_99_ns, of(100_000).p99_99_ns),
        (None, Some(99_989))
    );
}

#[test]
fn small_samples_have_the_statistics_they_support() {
    assert_eq!(summarise(&mut []), None);
    let one = summarise(&mut [7]).unwrap();
    assert_eq!(
        (one.median_ns, one.max_ns, one.standard_deviation_ns),
        (7, 7, None)
    );
    let far = summarise(&mut [i64::MAX, i64::MAX - 2]).unwrap();
    assert!((far.mean_ns - i64::MAX as f64).abs() < 2048.0);
}

fn names(codes: Vec<u8>, names: &[&str]) -> Values {
    Values::Name {
        codes,
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

#[test]
fn states_and_sources_are_separate_and_ordered_by_index() {
    let columns = Columns::new(vec![
        Column {
            name: "requested_state".into(),
            values: names(vec![0, 1, 0, 1, 1, 0], &["C6", "POLL"]),
        },
        Column {
            name: "requested_state_index".into(),
            values: Values::Integer(vec![3, 0, 3, 0, 0, 3]),
        },
        Column {
            name: "source".into(),
            values: names(vec![0, 0, 1, 0, 0, 0], &["timer", "remote"]),
        },
        Column {
            name: "wake_latency_ns".into(),
            values: Values::Integer(vec![90_000, 7000, 80_000, 8000, NULL, 95_000]),
        },
    ])
    .unwrap();
    let floor = Floor {
        state: "POLL".into(),
        source: "timer".into(),
        count: 9,
        median_ns: 7000,
        p90_ns: None,
        p99_ns: None,
        max_ns: 0,
        medians_ns: Vec::new(),
    };
    let driver = |state: &str| Some(if state == "C6" { 85 } else { 0 });
    let statistics = by_state(&columns, &driver, &[floor]);
    let shown: Vec<_> = statistics
        .iter()
        .map(|one| {
            (
                one.state.as_str(),
                one.source.as_str(),
                one.wake_latency.count,
                one.median_above_floor_ns,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("POLL", "timer", 2, Some(0)),
            ("C6", "remote", 1, None),
            ("C6", "timer", 2, Some(83_000))
        ]
    );
    assert_eq!(statistics[0].verdict, Verdict::NoFigure);
    assert_eq!(statistics[2].exceedance.as_ref().unwrap().exceeded, 2);
    assert_eq!(statistics[1].exceedance.as_ref().unwrap().exceeded, 0);
    assert_eq!(
        statistics[1].verdict,
        Verdict::TooFewDatapoints {
            count: 1,
            needed: 2995
        }
    );
    assert!(by_state(&Columns::default(), &driver, &[]).is_empty());
}

proptest! {
    #[test]
    fn quantiles_are_the_smallest_values_with_enough_of_the_sample_below(
        sample in proptest::collection::vec(-50_i64..50, 1..400)
    ) {
        let naive = |share: f64| {
            let enough = |value: &&i64| {
                let below = sample.iter().filter(|other| other <= value).count();
                below as f64 >= share * sample.len() as f64
            };
            *sample.iter().filter(enough).min().unwrap()
        };
        let summary = summarise(&mut sample.clone()).unwrap();
        prop_assert_eq!(summary.median_ns, naive(0.5));
        if let Some(p90) = summary.p90_ns {
            prop_assert_eq!(p90, naive(0.9));
        }
        prop_assert_eq!(summary.max_ns, *sample.iter().max().unwrap());
    }
}

#[test]
fn without_names_and_indices_a_group_is_unknown_and_states_are_ordered_by_median() {
    let latencies = |values: Vec<i64>| Column {
        name: "wake_latency_ns".into(),
        values: Values::Integer(values),
    };
    let bare = Columns::new(vec![latencies(vec![5, NULL, 7])]).unwrap();
    let states = by_state(&bare, &|_| None, &[]);
    assert_eq!(states.len(), 1);
    assert_eq!(
        (
            states[0].state.as_str(),
            states[0].source.as_str(),
            states[0].index
        ),
        ("unknown", "unknown", None)
    );
    assert_eq!(
        (states[0].wake_latency.count, states[0].exceedance.clone()),
        (2, None)
    );

    // A figure of 0 means that nothing sleeps there: there is nothing to exceed.
    let polling = by_state(&bare, &|_| Some(0), &[]);
    assert_eq!(
        (
            polling[0].driver_exit_latency_us,
            polling[0].exceedance.clone()
        ),
        (Some(0), None)
    );
    assert_eq!(polling[0].verdict, Verdict::NoFigure);

    // Deep first in the file; an impossible index is unknown.
    let columns = Columns::new(vec![
        Column {
            name: "requested_state".into(),
            values: names(vec![0, 1, 2], &["C6", "C1", "C8"]),
        },
        Column {
            name: "requested_state_index".into(),
            values: Values::Integer(vec![NULL, i64::from(i32::MAX) + 1, 5]),
        },
        latencies(vec![90, 5, 100]),
    ])
    .unwrap();
    let groups = by_state(&columns, &|_| None, &[]);
    let states: Vec<_> = groups
        .iter()
        .map(|one| (one.state.as_str(), one.index))
        .collect();
    assert_eq!(states, [("C8", Some(5)), ("C1", None), ("C6", None)]);
}

#[test]
fn a_floor_belongs_to_its_source_and_its_own_state_has_no_excess() {
    let columns = Columns::new(vec![
        Column {
            name: "requested_state".into(),
            values: names(vec![0, 0, 1], &["C1", "C6"]),
        },
        Column {
            name: "source".into(),
            values: names(vec![0, 1, 0], &["timer", "remote"]),
        },
        Column {
            name: "wake_latency_ns".into(),
            values: Values::Integer(vec![9000, 9000, 8000]),
        },
    ])
    .unwrap();
    let floor = Floor {
        state: "C1".into(),
        source: "timer".into(),
        count: 9,
        median_ns: 8500,
        p90_ns: None,
        p99_ns: None,
        max_ns: 0,
        medians_ns: Vec::new(),
    };
    let groups = by_state(&columns, &|_| Some(3), &[floor]);
    let of = |state: &str, source: &str| {
        let found = groups
            .iter()
            .find(|one| one.state == state && one.source == source);
        let one = found.unwrap();
        (
            one.median_above_floor_ns,
            one.exceedance.as_ref().map(|of| of.exceeded),
        )
    };
    assert_eq!(of("C1", "timer"), (Some(500), None));
    // The floor of timers does not apply to remote wakes, for which C1 is an ordinary state.
    assert_eq!(of("C1", "remote"), (None, Some(1)));
    assert_eq!(of("C6", "timer"), (Some(-500), Some(1)));
}

#[test]
fn the_launch_error_is_the_median_of_the_source_and_absent_for_an_exact_one() {
    let columns = Columns::new(vec![
        Column {
            name: "requested_state".into(),
            values: names(vec![0, 0, 0, 0, 0], &["C1"]),
        },
        Column {
            name: "source".into(),
            values: names(vec![0, 1, 1, 1, 0], &["timer", "hpet"]),
        },
        Column {
            name: "launch_error_ns".into(),
            values: Values::Integer(vec![NULL, 230, 9_000, 210, NULL]),
        },
        Column {
            name: "wake_latency_ns".into(),
            values: Values::Integer(vec![8_000, 8_400, 8_500, 8_600, 8_100]),
        },
    ])
    .unwrap();
    let statistics = by_state(&columns, &|_| None, &[]);
    let errors = statistics
        .iter()
        .map(|one| (one.source.as_str(), one.launch_error_ns));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [("timer", None), ("hpet", Some(230))]
    );
}

//! Filters keep the matching datapoints, and an invalid one shows the position.

use proptest::prelude::*;
use reveille_results::columns::NO_NAME;
use reveille_results::{Column, Columns, Filter, NULL, Values};

fn columns(latency: Vec<i64>, silent: Vec<i64>, share: Vec<f32>, state: Vec<u8>) -> Columns {
    let integer = |name: &str, values| Column {
        name: name.into(),
        values: Values::Integer(values),
    };
    let names = vec!["C1".to_owned(), "C6".to_owned()];
    Columns::new(vec![
        integer("wake_latency_ns", latency),
        integer("silent_time_ns", silent),
        Column {
            name: "cc6_percent".into(),
            values: Values::Percent(share),
        },
        Column {
            name: "requested_state".into(),
            values: Values::Name {
                codes: state,
                names,
            },
        },
    ])
    .unwrap()
}

fn four() -> Columns {
    columns(
        vec![1000, 2000, 3000, 4000],
        vec![NULL, 250_000, 250_001, 9],
        vec![0.0, 50.0, f32::NAN, 99.5],
        vec![0, 1, 1, NO_NAME],
    )
}

fn kept(expression: &str) -> Vec<usize> {
    let flags = Filter::parse(expression).unwrap().apply(&four()).unwrap();
    (0..flags.len()).filter(|&row| flags[row]).collect()
}

#[test]
fn an_expression_keeps_the_matching_datapoints() {
    for (expression, expected) in [
        (
            r#"requested_state == "C6" && silent_time_ns > 250000"#,
            &[2][..],
        ),
        ("requested_state == 'C6' and silent_time_ns > 250us", &[2]),
        ("wake_latency_ns >= 2us", &[1, 2, 3]),
        ("wake_latency_ns == 0.003ms", &[2]),
        (
            "wake_latency_ns < 4e3 and not wake_latency_ns < 2_000",
            &[1, 2],
        ),
        ("cc6_percent > 49%", &[1, 3]),
        ("CC6% > 49", &[1, 3]),
        ("WakeLatency <= 2", &[0, 1]),
        ("ReqCState != 'C6'", &[0]),
        ("'C1' == requested_state", &[0]),
        ("requested_state == 'C7'", &[]),
        ("wake_latency_ns + 1000 * 2 == 5000 - -1us", &[3]),
        ("silent_time_ns / wake_latency_ns > 100", &[1]),
        ("(wake_latency_ns - 1000) * 2 <= 2000", &[0, 1]),
        ("1us < wake_latency_ns || wake_latency_ns < 0", &[1, 2, 3]),
        (
            "wake_latency_ns<2000||wake_latency_ns>3000&&cc6_percent<1",
            &[0],
        ),
        ("!(wake_latency_ns < 2us or wake_latency_ns > 3us)", &[1, 2]),
    ] {
        assert_eq!(kept(expression), expected, "{expression}");
    }
}

#[test]
fn an_unknown_value_is_neither_true_nor_false() {
    assert_eq!(kept("silent_time_ns > 0"), [1, 2, 3]);
    assert_eq!(kept("!(silent_time_ns > 0)"), [] as [usize; 0]);
    assert_eq!(
        kept("silent_time_ns > 0 || wake_latency_ns == 1000"),
        [0, 1, 2, 3]
    );
    assert_eq!(kept("silent_time_ns == null"), [0]);
    assert_eq!(kept("null != cc6_percent"), [0, 1, 3]);
    assert_eq!(kept("requested_state == null"), [3]);
    assert_eq!(kept("not requested_state == 'C6'"), [0]);
    assert_eq!(kept("silent_time_ns / 0 == null"), [0]);
}

#[test]
fn the_needed_columns_are_listed_once_by_our_names() {
    let filter =
        Filter::parse("WakeLatency > 3 && CC6% < 5 || wake_latency_ns < 1 || ReqCState == null")
            .unwrap();
    assert_eq!(
        filter.columns(),
        ["cc6_percent", "requested_state", "wake_latency_ns"]
    );
}

#[test]
fn an_invalid_expression_shows_the_position() {
    for (expression, place, words) in [
        ("", 0, "expected a column, a number, a text or ("),
        ("wake_latency_ns >", 17, "expected a column"),
        ("wake_latency_ns", 0, "expected a condition, found a number"),
        ("wake_latncy_ns > 3", 0, "did you mean wake_latency_ns?"),
        (
            "cpu == 1 && silent_time > 3",
            12,
            "did you mean silent_time_ns?",
        ),
        ("wake_latency_ns = 3", 16, "\"=\" is written \"==\""),
        ("wake_latency_ns > 3us cpu", 22, "expected an operator"),
        ("wake_latency_ns > 3min", 19, "\"min\" is not a unit"),
        ("wake_latency_ns > 3µs", 19, "microseconds are written"),
        ("requested_state == C6", 19, "there is no column C6"),
        ("requested_state > \"C1\"", 16, "have no order"),
        (
            "requested_state == 3",
            19,
            "expected a text in quotes, found a number",
        ),
        (
            "wake_latency_ns == \"C1\"",
            0,
            "a number cannot be compared with a text",
        ),
        ("requested_state == \"C6", 19, "no closing \""),
        ("(cpu == 1", 9, "expected an operator or the closing )"),
        ("cpu == 1)", 8, "expected an operator"),
        ("cpu & 1", 4, "is written \"&&\""),
        ("0 < cpu < 3", 8, "have no order"),
        (
            "cpu + requested_state > 1",
            6,
            "expected a number, found a column of names",
        ),
        ("cpu == 1 && cpu", 12, "expected a condition"),
        ("cpu == #", 7, "means nothing here"),
        (
            "'ä' == requested_state && x == 1",
            26,
            "there is no column x",
        ),
    ] {
        let wrong = Filter::parse(expression).unwrap_err();
        let shown = wrong.to_string();
        assert!(shown.contains(words), "{expression}: {shown}");
        assert_eq!(wrong.at, place, "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        assert_eq!(lines[2].find('^'), Some(place + 2), "{shown}");
    }
}

#[test]
fn a_missing_column_is_shown() {
    let wrong = Filter::parse("cpu == 1 || pc6_percent > 0")
        .unwrap()
        .apply(&four())
        .unwrap_err();
    assert!(wrong.to_string().contains("no column cpu"), "{wrong}");
    let wrong = Filter::parse("cc7_percent > 0")
        .unwrap()
        .apply(&Columns::default())
        .unwrap_err();
    assert_eq!((wrong.at, wrong.length), (0, 11));
}

#[test]
fn an_endless_expression_is_refused_without_exhausting_the_stack() {
    for expression in [
        "(".repeat(100_000),
        "!".repeat(100_000),
        "-".repeat(100_000),
        format!("cpu == 1{}", " && cpu == 1".repeat(100_000)),
        format!("1{} == 1", " + 1".repeat(100_000)),
    ] {
        assert!(Filter::parse(&expression).is_err());
    }
    // The whole and the right side of == are levels, too.
    let nested = |n| format!("{}cpu == 1{}", "(".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&nested(62)).is_ok());
    let wrong = Filter::parse(&nested(63)).unwrap_err().to_string();
    assert!(wrong.contains("at most 64 levels"), "{wrong}");
    let chain = |n| format!("cpu == 1{}", " && cpu == 1".repeat(n));
    // Each link has two operators.
    assert!(Filter::parse(&chain(249)).is_ok());
    let wrong = Filter::parse(&chain(250)).unwrap_err().to_string();
    assert!(wrong.contains("at most 500"), "{wrong}");
}

#[test]
fn five_hundred_operators_are_allowed_and_parentheses_close_their_levels() {
    // Sums, and the comparison.
    let sums = |n| format!("1{} == 1", " + 1".repeat(n));
    assert!(Filter::parse(&sums(499)).is_ok());
    let wrong = Filter::parse(&sums(500)).unwrap_err();
    assert!(wrong.to_string().contains("at most 500"), "{wrong}");
    // The comparison is the one too many; sums of one digit are four characters long.
    assert_eq!((wrong.at, wrong.length), (2002, 2));
    // A hundred consecutive ones are not nested.
    let beside = vec!["(cpu == 1)"; 100].join(" || ");
    assert!(Filter::parse(&beside).is_ok());
}

#[test]
fn operators_have_the_usual_precedence_and_equal_ones_group_from_the_left() {
    for (expression, expected) in [
        ("wake_latency_ns - 1000 - 1000 == 2000", &[3][..]),
        ("wake_latency_ns / 2 / 2 == 1000", &[3]),
        ("wake_latency_ns / 2 * 2 == 3000", &[2]),
        ("wake_latency_ns - 1000 * 2 == 1000", &[2]),
        ("4000 / wake_latency_ns + 1 == 3", &[1]),
        ("-wake_latency_ns + 4000 == 1000", &[2]),
        ("2 * -wake_latency_ns == -8000", &[3]),
        (
            "not wake_latency_ns == 1000 and not wake_latency_ns == 2000",
            &[2, 3],
        ),
        ("not wake_latency_ns + 1000 > 2000", &[0]),
        (
            "wake_latency_ns == 1000 or wake_latency_ns > 1000 and wake_latency_ns == 3000",
            &[0, 2],
        ),
        (
            "wake_latency_ns == 3000 and wake_latency_ns > 1000 or wake_latency_ns == 1000",
            &[0, 2],
        ),
        ("wake_latency_ns - wake_latency_ns / 2 >= 1500", &[2, 3]),
    ] {
        assert_eq!(kept(expression), expected, "{expression}");
    }
}

#[test]
fn comparison_operators_are_exact_at_the_bound() {
    for (expression, expected) in [
        ("wake_latency_ns < 2000", &[0][..]),
        ("wake_latency_ns <= 2000", &[0, 1]),
        ("wake_latency_ns > 3000", &[3]),
        ("wake_latency_ns >= 3000", &[2, 3]),
        ("wake_latency_ns == 2000", &[1]),
        ("wake_latency_ns != 2000", &[0, 2, 3]),
        // Neither side may be unknown.
        ("silent_time_ns != wake_latency_ns", &[1, 2, 3]),
        ("wake_latency_ns != silent_time_ns", &[1, 2, 3]),
        ("cc6_percent != silent_time_ns", &[1, 3]),
    ] {
        assert_eq!(kept(expression), expected, "{expression}");
    }
}

#[test]
fn later_datapoints_are_judged_like_the_first() {
    // Batches have 4096 datapoints: their ends, and the shorter last one.
    let rows = 10_000;
    let columns = columns(
        (0..rows).collect(),
        (0..rows).map(|row| 2 * row).collect(),
        (0..rows).map(|row| row as f32).collect(),
        (0..rows).map(|row| (row % 2) as u8).collect(),
    );
    let kept = |expression: &str| -> Vec<usize> {
        let flags = Filter::parse(expression).unwrap().apply(&columns).unwrap();
        assert_eq!(flags.len(), columns.rows);
        (0..flags.len()).filter(|&row| flags[row]).collect()
    };
    assert_eq!(
        kept("wake_latency_ns > 4094 && silent_time_ns < 8196"),
        [4095, 4096, 4097]
    );
    assert_eq!(
        kept("cc6_percent > 8189 && cc6_percent < 8196 && requested_state == 'C6'"),
        [8191, 8193, 8195]
    );
    assert_eq!(kept("wake_latency_ns + 1 == 10000"), [9999]);
    assert_eq!(kept("requested_state == null"), [] as [usize; 0]);
    assert_eq!(kept("requested_state != null").len(), 10_000);
}

#[test]
fn an_invalid_expression_is_shown_whole_with_a_caret_per_character() {
    for (expression, shown) in [
        (
            "cpu == 1 && sourc == 'timer'",
            "filter: there is no column sourc; did you mean source?\n  \
             cpu == 1 && sourc == 'timer'\n              ^^^^^",
        ),
        (
            "cpu == 1 and \u{e4}",
            "filter: '\u{e4}' means nothing here; expected a column, a number or an operator\n  \
             cpu == 1 and \u{e4}\n               ^",
        ),
        (
            "'\u{e4}\u{e4}' == cpu",
            "filter: a text cannot be compared with a number\n  \
             '\u{e4}\u{e4}' == cpu\n  ^^^^^^^^^^^",
        ),
        (
            "cpu\t== 1 +\n'a'",
            "filter: expected a number, found a text\n  cpu == 1 + 'a'\n             ^^^",
        ),
        (
            "cpu ==",
            "filter: expected a column, a number, a text or (\n  cpu ==\n        ^",
        ),
        (
            "(cpu + 1) && cpu == 1",
            "filter: expected a condition, found a number; compare it, for example with ==\n  \
             (cpu + 1) && cpu == 1\n  ^^^^^^^^^",
        ),
        (
            "not -cpu",
            "filter: expected a condition, found a number; compare it, for example with ==\n  \
             not -cpu\n      ^^^^",
        ),
        (
            "source < null",
            "filter: a column of names and null have no order; expected == or !=, or two numbers\n  \
             source < null\n         ^",
        ),
        (
            "(cpu == 1) == null",
            "filter: a condition cannot be compared with null\n  \
             (cpu == 1) == null\n  ^^^^^^^^^^^^^^^^^^",
        ),
    ] {
        let wrong = Filter::parse(expression).unwrap_err();
        assert_eq!(wrong.to_string(), shown);
    }
    let filter = Filter::parse("cpu  ==\t1").unwrap();
    assert_eq!(filter.to_string(), "cpu  ==\t1");
}

#[test]
fn a_missing_column_or_one_of_another_kind_is_shown_with_the_alternatives() {
    let why = |expression: &str| {
        let wrong = Filter::parse(expression).unwrap().apply(&four());
        wrong.unwrap_err().to_string()
    };
    assert_eq!(
        why("wake_latency_ns > 1 && cc7_percent > 1"),
        "filter: this result has no column cc7_percent; did you mean cc6_percent?\n  \
         wake_latency_ns > 1 && cc7_percent > 1\n                         ^^^^^^^^^^^"
    );
    assert_eq!(
        why("CPUFreq > 1"),
        "filter: this result has no column cpu_frequency_khz; it has wake_latency_ns, \
         silent_time_ns, cc6_percent, requested_state\n  CPUFreq > 1\n  ^^^^^^^"
    );
    // A file may use our name for something else.
    let mut other = four();
    other.columns[0].values = other.columns[3].values.clone();
    other.columns[3].values = Values::Integer(vec![0; 4]);
    let why = |expression: &str| {
        let wrong = Filter::parse(expression).unwrap().apply(&other);
        wrong.unwrap_err().what
    };
    assert_eq!(
        why("wake_latency_ns > 1"),
        "column wake_latency_ns is of another kind in this result"
    );
    assert_eq!(
        why("requested_state == 'C1'"),
        "column requested_state is of another kind in this result"
    );
}

#[test]
fn wults_names_refer_to_the_same_values_in_its_units() {
    let integer = |name: &str, values: [i64; 2]| Column {
        name: name.into(),
        values: Values::Integer(values.into()),
    };
    let columns = Columns::new(vec![
        integer("wake_latency_ns", [1500, 2500]),
        integer("launch_distance_ns", [7000, 8000]),
        integer("smi_count", [1, 2]),
        integer("cpu_frequency_khz", [800_000, 2_400_000]),
        Column {
            name: "cc1_derived_percent".into(),
            values: Values::Percent(vec![10.0, 20.0]),
        },
    ])
    .unwrap();
    for (expression, expected) in [
        ("WakeLatency == 1.5", [true, false]),
        ("LDist == 8", [false, true]),
        ("SMICnt == 2", [false, true]),
        ("CPUFreq == 800", [true, false]),
        ("CC1Derived% == 20", [false, true]),
        ("DerivedCC1% == 10", [true, false]),
    ] {
        let kept = Filter::parse(expression).unwrap().apply(&columns).unwrap();
        assert_eq!(kept, expected, "{expression}");
    }
    for none in ["IntrOff == 1", "CStates% == 1", "TotCyc == 1"] {
        let wrong = Filter::parse(none).unwrap_err();
        assert!(wrong.what.starts_with("there is no column "), "{wrong}");
    }
}

#[test]
fn retained_datapoints_are_those_that_the_filter_keeps() {
    let mut columns = four();
    let flags = Filter::parse("cc6_percent > 49%")
        .unwrap()
        .apply(&columns)
        .unwrap();
    columns.retain(&flags);
    assert_eq!(columns.rows, 2);
    assert_eq!(columns.integers("wake_latency_ns"), Some(&[2000, 4000][..]));
    assert_eq!(columns.names("requested_state").unwrap().0, [1, NO_NAME]);
}

/// A condition with its own, naive evaluation: `None` is unknown.
#[derive(Debug, Clone)]
enum Naive {
    Compare(&'static str, &'static str, i64),
    State(bool, &'static str),
    IsNull(&'static str, bool),
    Not(Box<Naive>),
    And(Box<Naive>, Box<Naive>),
    Or(Box<Naive>, Box<Naive>),
}

impl Naive {
    fn text(&self) -> String {
        match self {
            Self::Compare(column, operator, value) => format!("{column} {operator} {value}"),
            Self::State(equal, name) => {
                format!(
                    "requested_state {} \"{name}\"",
                    if *equal { "==" } else { "!=" }
                )
            }
            Self::IsNull(column, is) => format!("{column} {} null", if *is { "==" } else { "!=" }),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(left, right) => format!("({}) && ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) or ({})", left.text(), right.text()),
        }
    }

    fn value(columns: &Columns, column: &str, row: usize) -> Option<f64> {
        match columns.get(column).unwrap() {
            Values::Integer(values) => (values[row] != NULL).then(|| values[row] as f64),
            Values::Percent(values) => (!values[row].is_nan()).then(|| f64::from(values[row])),
            Values::Name { .. } => unreachable!(),
        }
    }

    fn truth(&self, columns: &Columns, row: usize) -> Option<bool> {
        match self {
            Self::Compare(column, operator, value) => {
                let (left, right) = (Self::value(columns, column, row)?, *value as f64);
                Some(match *operator {
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    ">=" => left >= right,
                    "==" => left == right,
                    _ => left != right,
                })
            }
            Self::State(equal, name) => {
                let (codes, names) = columns.names("requested_state").unwrap();
                let state = names.get(usize::from(codes[row]))?;
                Some((state == name) == *equal)
            }
            Self::IsNull(column, is) => Some(Self::value(columns, column, row).is_none() == *is),
            Self::Not(inner) => inner.truth(columns, row).map(|truth| !truth),
            Self::And(left, right) => match (left.truth(columns, row), right.truth(columns, row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.truth(columns, row), right.truth(columns, row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

fn any_naive() -> impl Strategy<Value = Naive> {
    let column = || prop::sample::select(vec!["wake_latency_ns", "silent_time_ns", "cc6_percent"]);
    let operator = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = prop_oneof![
        (column(), operator, 0_i64..4).prop_map(|(c, o, v)| Naive::Compare(c, o, v)),
        (any::<bool>(), prop::sample::select(vec!["C1", "C6", "C7"]))
            .prop_map(|(e, n)| Naive::State(e, n)),
        (column(), any::<bool>()).prop_map(|(c, is)| Naive::IsNull(c, is)),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|inner| Naive::Not(Box::new(inner))),
            two.clone()
                .prop_map(|(l, r)| Naive::And(Box::new(l), Box::new(r))),
            two.prop_map(|(l, r)| Naive::Or(Box::new(l), Box::new(r))),
        ]
    })
}

proptest! {
    #[test]
    fn any_filter_agrees_with_a_naive_evaluation(
        naive in any_naive(),
        rows in proptest::collection::vec(
            (0_i64..4, prop_oneof![Just(NULL), 0_i64..4], prop_oneof![Just(f32::NAN), Just(1.0_f32), Just(3.0)], prop_oneof![Just(NO_NAME), 0_u8..2]),
            0..40,
        ),
    ) {
        let mut parts = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (latency, silent, share, state) in rows {
            parts.0.push(latency);
            parts.1.push(silent);
            parts.2.push(share);
            parts.3.push(state);
        }
        let columns = columns(parts.0, parts.1, parts.2, parts.3);
        let flags = Filter::parse(&naive.text()).unwrap().apply(&columns).unwrap();
        let expected: Vec<bool> =
            (0..columns.rows).map(|row| naive.truth(&columns, row) == Some(true)).collect();
        prop_assert_eq!(flags, expected, "{}", naive.text());
    }

    #[test]
    fn any_text_is_read_or_refused_and_an_error_points_into_it(text in "\\PC{0,60}") {
        if let Err(wrong) = Filter::parse(&text) {
            prop_assert!(wrong.at + wrong.length <= text.chars().count() + 1, "{}", wrong);
        }
    }
}

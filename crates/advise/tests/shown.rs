//! Advice as shown to a reader.

use std::collections::BTreeMap;

use crate::made_up::{loaded, question, sample, sklep0};
use reveille_advise::form::Name;
use reveille_advise::table::{Residency, Table};
use reveille_advise::{Answer, Latency, show};
use reveille_results::Loaded;
use reveille_results::statistics::Floor;
use reveille_show::sheet::not_in_json;
use reveille_show::text::{self, Detail};

/// 3000 wakes from each state; C6 is above 50 µs, and so is one wake from POLL.
fn measured() -> Loaded {
    loaded(&[
        ("POLL", "timer", vec![900; 3000]),
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", vec![30_000; 3000]),
        ("C6", "timer", vec![90_000; 3000]),
    ])
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let (loaded, target) = (measured(), sklep0());
    let answer = Answer::of(&loaded, &target, question(50, "99.9")).unwrap();
    let json = serde_json::to_value(&answer).unwrap();
    for (list, headings) in show::reference() {
        assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
    }
    let (percentile, confidence) = ("99.9".parse().unwrap(), "95".parse().unwrap());
    let (latency, keep) = (Latency::Wake, Residency::Keep);
    let table = Table::of(
        &loaded,
        &target,
        percentile,
        confidence,
        latency,
        keep,
        &BTreeMap::new(),
    )
    .unwrap();
    let json = serde_json::to_value(&table).unwrap();
    for (list, headings) in show::table_reference() {
        assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
    }
}

#[test]
fn a_state_has_a_row_per_source_and_a_single_source_has_no_column() {
    let shown = |loaded: &Loaded| {
        let target = sklep0();
        let answer = Answer::of(loaded, &target, question(50, "99.9")).unwrap();
        let mut out = Vec::new();
        text::write(&show::sheet(&answer, true), Detail::Short, &mut out).unwrap();
        reveille_show::terminal::plain(out)
    };
    let one = shown(&measured());
    assert!(!one.contains("source"), "{one}");
    assert!(
        one.ends_with(
            "Allow C1 and C1E; keep out of C6: a latency bound of 50 µs. The 95% confidence\nholds for all states jointly.\n"
        ),
        "{one}"
    );
    let two = shown(&loaded(&[
        ("C1", "remote", vec![3000; 3000]),
        ("C1", "timer", vec![4000; 3000]),
    ]));
    let rows: Vec<&str> = two.lines().filter(|line| line.starts_with("C1 ")).collect();
    assert_eq!(rows.len(), 2, "{two}");
    assert!(
        rows[0].contains("remote") && rows[1].contains("timer"),
        "{two}"
    );
}

#[test]
fn one_form_is_recommended_and_all_are_shown_on_request() {
    let (loaded, target) = (measured(), sklep0());
    let answer = Answer::of(&loaded, &target, question(50, "99.9")).unwrap();
    let written = |all_forms| {
        let mut out = Vec::new();
        text::write(&show::sheet(&answer, all_forms), Detail::Short, &mut out).unwrap();
        reveille_show::terminal::plain(out)
    };
    let (one, all) = (written(false), written(true));
    assert!(one.contains("reveille hold --latency 50us"), "{one}");
    for other in [
        "\nlimit: ",
        "\nkernel: ",
        "\ntuned: ",
        "\nsystemd: ",
        "\nudev: ",
    ] {
        assert!(
            !one.contains(other) && all.contains(other),
            "{other}: {one}"
        );
    }
    assert!(one.lines().count() <= 24, "{one}");
}

#[test]
fn each_decision_has_its_sentence() {
    let few = |state: &'static str, count| (state, "timer", vec![3000; count]);
    let at = |state: &'static str, us: i64| (state, "timer", vec![us * 1000; 3000]);
    let close = ("C1", "timer", sample(46_475, 495, 90_000));
    let floor = Floor {
        state: "POLL".into(),
        source: "timer".into(),
        count: 1000,
        median_ns: 13_000,
        p90_ns: Some(15_000),
        p99_ns: Some(21_000),
        max_ns: 43_000,
        medians_ns: Vec::new(),
    };
    let slow = || vec![at("C1", 90), at("C1E", 90), at("C6", 90)];
    let cases = [
        (
            "all within",
            vec![at("C1", 3), at("C1E", 8), at("C6", 20)],
            50,
            "99.9",
        ),
        (
            "one over",
            vec![at("C1", 3), at("C1E", 8), at("C6", 90)],
            50,
            "99.9",
        ),
        (
            "one over, one not measured",
            vec![at("C1", 3), at("C1E", 90)],
            50,
            "99.9",
        ),
        (
            "the deeper ones too few",
            vec![at("C1", 3), few("C1E", 20)],
            50,
            "99.9",
        ),
        (
            "the first too few",
            vec![few("C1", 50), at("C1E", 90)],
            50,
            "99.9",
        ),
        ("the first too close", vec![close], 50, "99"),
        ("latencies below zero", vec![at("C1", -5)], 50, "99.9"),
        (
            "only awake within",
            vec![at("POLL", 1), at("C1", 90), at("C1E", 8), at("C6", 90)],
            50,
            "99.9",
        ),
        (
            "awake over, none measured",
            vec![at("POLL", 90)],
            50,
            "99.9",
        ),
        ("awake not measured", slow(), 50, "99.9"),
        ("awake by a floor that is over", slow(), 10, "99.9"),
        ("awake by a floor that is not shown", slow(), 22, "99.9"),
        ("no sleep as such", slow(), 0, "99.9"),
    ];
    let said = cases.map(|(case, samples, budget_us, percentile)| {
        let (mut loaded, target) = (loaded(&samples), sklep0());
        if case.contains("floor") {
            loaded.description.characterisation.floors = vec![floor.clone()];
        }
        let answer = Answer::of(&loaded, &target, question(budget_us, percentile)).unwrap();
        let form = match answer.form(Name::Tuned) {
            Ok(text) => text
                .and_then(|text| text.lines().nth(1))
                .unwrap_or_default()
                .to_owned(),
            Err(why) => why.to_string(),
        };
        let beside = answer.beside_a_form(Name::Tuned).join("\n");
        (
            case,
            [show::sheet(&answer, false).answer, form, beside].join("\n"),
        )
    });
    reveille_snapshot::snapshot!("answers", said);
}

//! Advice as shown to a reader.

use std::collections::BTreeMap;

use crate::made_up::{loaded, question, sklep0};
use reveille_advise::table::{Residency, Table};
use reveille_advise::{Answer, Latency, show};
use reveille_results::Loaded;
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

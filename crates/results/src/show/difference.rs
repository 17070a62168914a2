//! Several results: what differs from the first, and whether that may be chance.

use reveille_figures::rounds::Estimate;
use reveille_show::quantity::{nanoseconds, p_value, share};
use reveille_show::sheet::{Column, Section, Table, Value};

use super::groups::Key;
use super::view::{View, Views};
use crate::compare::{self, Difference, StateComparison};
use reveille_show::columns;

const COLUMNS: &[Column<StateComparison>] = &columns!(|one|
    words "state", "state", one.state.as_str(), "The requested idle state";
    words "source", "source", one.source.as_str(), "What woke the CPU";
    measured(Ns) "comparison.median.difference_ns", "median", signed(Some(&one.comparison.median)),
        "Difference of the medians, with its 95% interval";
    measured(Ns) "comparison.p99.difference_ns", "p99", signed(one.comparison.p99.as_ref()),
        "Difference of the 99th percentiles, with its 95% interval";
    estimated(Share) "comparison.b_slower", "slower", one.comparison.b_slower,
        "Share of pairs of wakes in which the second result's takes longer";
    estimated(Share) "comparison.b_slower_low", "95% from", one.comparison.b_slower_low,
        "Lower end of its 95% interval";
    estimated(Share) "comparison.b_slower_high", "to", one.comparison.b_slower_high,
        "Upper end of its 95% interval";
    estimated(Of("")) "comparison.p_value", "p-value", p_value(one.comparison.p_value),
        "By Brunner and Munzel's test";
    estimated(Of("")) "adjusted_p_value", "adjusted", p_value(one.adjusted_p_value),
        "The p-value adjusted for the number of states (Holm)";
);

fn signed(difference: Option<&Difference>) -> Value {
    difference.map_or(Value::Unknown, |one| {
        Value::Difference(Estimate {
            estimate: one.difference_ns as f64,
            interval: Some((one.low_ns as f64, one.high_ns as f64)),
            rounds: 0,
        })
    })
}

/// The first result against each of the others; empty where there is one only.
pub fn differences(views: &Views<'_>) -> Section<'static> {
    let section = Section::new("differences", "Differences");
    let [first, others @ ..] = &views.views[..] else {
        return section;
    };
    if others.is_empty() {
        return section;
    }
    let section = section.text(
        "Latencies are skewed, so no normal distribution is supposed: the test is Brunner and \
         Munzel's (does a wake of the one result take longer than one of the other more often than \
         not?), its p-value is adjusted for the number of states (Holm), and the differences of \
         quantiles have 95% intervals from order statistics.",
    );
    let keys = views.keys();
    others.iter().fold(section, |section, other| {
        difference(section, &keys, first, other)
    })
}

fn difference<'a>(
    mut section: Section<'a>,
    keys: &[Key],
    a: &View<'_>,
    b: &View<'_>,
) -> Section<'a> {
    let mut comparisons = compare::results(&a.input.loaded, &b.input.loaded);
    comparisons.states.sort_by_key(|one| {
        keys.iter()
            .position(|key| key.state == one.state && key.source == one.source)
    });
    let (name_a, name_b) = (letter(a), letter(b));
    section = section.text(format!("{} against {}:", b.title(), a.title()));
    for note in &comparisons.notes {
        // compare calls the two A and B; with more than two results B may be C here.
        section = section.text(match name_b {
            "B" => note.clone(),
            other => format!("{note} (B stands for {other}.)"),
        });
    }
    if comparisons.states.is_empty() {
        return section.text("No state has enough datapoints in both results to be compared.");
    }
    for state in &comparisons.states {
        section = section.text(words(state, name_a, name_b));
    }
    let caption = format!("Wake latency of {name_b} minus that of {name_a}");
    let mut table = Table::of(caption, COLUMNS, &comparisons.states).whole();
    for heading in &mut table.headings {
        if heading.key == "comparison.b_slower" {
            heading.name = format!("{name_b} slower than {name_a}").into();
        }
    }
    section.table(table)
}

/// The difference of one state in a sentence.
fn words(state: &StateComparison, a: &str, b: &str) -> String {
    let comparison = &state.comparison;
    let who = format!("{} ({})", state.state, state.source);
    let median = format!(
        "median {} against {}",
        nanoseconds(comparison.median.b_ns),
        nanoseconds(comparison.median.a_ns)
    );
    if !state.is_significant() {
        return format!(
            "{who}: no difference that chance would not explain ({median}; p {}).",
            equal_or_less(state.adjusted_p_value)
        );
    }
    let (slower, faster, part) = match comparison.b_slower > 0.5 {
        true => (b, a, comparison.b_slower),
        false => (a, b, 1.0 - comparison.b_slower),
    };
    format!(
        "{who}: {slower} is slower; {} of its wakes take longer than one of {faster} ({b}'s {median}; \
         p {}).",
        share(part),
        equal_or_less(state.adjusted_p_value)
    )
}

fn letter<'a>(view: &'a View<'_>) -> &'a str {
    view.letter.as_deref().unwrap_or("")
}

/// A p-value after its letter: `= 0.0312`, `< 0.0001`.
fn equal_or_less(value: f64) -> String {
    match p_value(value) {
        less if less.starts_with('<') => less,
        value => format!("= {value}"),
    }
}

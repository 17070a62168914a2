//! Several results: what differs from the first, and whether that may be chance.

use std::fmt::Write as _;

use reveille_results::compare::{self, Difference, StateComparison};

use crate::groups::Key;
use crate::view::{View, Views};
use reveille_show::html_table::Origin::{Estimated, Measured};
use reveille_show::html_table::{Table, known};
use reveille_show::markup::escape;
use reveille_show::quantity::nanoseconds;

/// The first result against each of the others; empty where there is one only.
pub fn differences(views: &Views<'_>) -> String {
    let [first, others @ ..] = &views.views[..] else {
        return String::new();
    };
    if others.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section id=\"differences\"><h2>Differences</h2><p>Latencies are skewed, so no normal \
         distribution is supposed: the test is Brunner and Munzel's (does a wake of the one result \
         take longer than one of the other more often than not?), its p-value is adjusted for the \
         number of states (Holm), and the differences of quantiles have 95 % intervals from order \
         statistics.</p>",
    );
    for other in others {
        html.push_str(&difference(&views.keys(), first, other));
    }
    html.push_str("</section>");
    html
}

fn difference(keys: &[Key], a: &View<'_>, b: &View<'_>) -> String {
    let mut comparisons = compare::results(&a.input.loaded, &b.input.loaded);
    comparisons.states.sort_by_key(|one| {
        keys.iter()
            .position(|key| key.state == one.state && key.source == one.source)
    });
    let (name_a, name_b) = (letter(a), letter(b));
    let mut html = format!(
        "<h3>{} against {}</h3>",
        escape(&b.title()),
        escape(&a.title())
    );
    for note in &comparisons.notes {
        // dataset calls the two A and B; with more than two results B may be C here.
        let note = match name_b {
            "B" => note.clone(),
            other => format!("{note} (B stands for {other}.)"),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\">{}</p>",
            escape(&note)
        );
    }
    if comparisons.states.is_empty() {
        html.push_str("<p>No state has enough datapoints in both results to be compared.</p>");
        return html;
    }
    html.push_str("<ul class=\"verdicts\">");
    for state in &comparisons.states {
        let _ = write!(html, "<li>{}</li>", escape(&words(state, name_a, name_b)));
    }
    html.push_str("</ul>");
    let slower = format!("{name_b} slower than {name_a}");
    let mut table = Table::new(
        &format!("Wake latency of {name_b} minus that of {name_a}"),
        1,
        &[
            ("state", None),
            ("median", Some(Measured)),
            ("95 % interval", Some(Estimated)),
            ("p99", Some(Measured)),
            ("95 % interval", Some(Estimated)),
            (&slower, Some(Estimated)),
            ("p-value", Some(Estimated)),
            ("adjusted", Some(Estimated)),
        ],
    );
    for state in &comparisons.states {
        let StateComparison { comparison, .. } = state;
        table.row(&[
            format!("{} · {}", state.state, state.source),
            signed(comparison.median.difference_ns),
            interval(&comparison.median),
            known(comparison.p99.as_ref(), |p99| signed(p99.difference_ns)),
            known(comparison.p99.as_ref(), interval),
            format!(
                "{:.1}% ({:.1} to {:.1})",
                comparison.b_slower * 100.0,
                comparison.b_slower_low * 100.0,
                comparison.b_slower_high * 100.0
            ),
            p_value(comparison.p_value),
            p_value(state.adjusted_p_value),
        ]);
    }
    html.push_str(&table.html());
    html
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
    let (slower, faster, share) = match comparison.b_slower > 0.5 {
        true => (b, a, comparison.b_slower),
        false => (a, b, 1.0 - comparison.b_slower),
    };
    format!(
        "{who}: {slower} is slower; {:.1} % of its wakes take longer than one of {faster} ({b}'s \
         {median}; p {}).",
        share * 100.0,
        equal_or_less(state.adjusted_p_value)
    )
}

fn letter<'a>(view: &'a View<'_>) -> &'a str {
    view.letter.as_deref().unwrap_or("")
}

fn interval(difference: &Difference) -> String {
    format!(
        "{} to {}",
        signed(difference.low_ns),
        signed(difference.high_ns)
    )
}

fn signed(ns: i64) -> String {
    let sign = if ns > 0 { "+" } else { "" };
    format!("{sign}{}", nanoseconds(ns))
}

/// A p-value after its letter: `= 0.0312`, `< 0.0001`.
fn equal_or_less(value: f64) -> String {
    match p_value(value) {
        less if less.starts_with('<') => less,
        value => format!("= {value}"),
    }
}

/// Below a ten-thousandth the test's approximation says no more than "less".
fn p_value(value: f64) -> String {
    match value {
        small if small < 1e-4 => "< 0.0001".to_owned(),
        value => format!("{value:.4}"),
    }
}

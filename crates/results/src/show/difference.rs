//! Several results: what differs from the first, and whether that may be chance.

use reveille_figures::rounds::{Against, Estimate};
use reveille_show::columns;
use reveille_show::quantity::{
    after, counted, duration, listed, nanoseconds, p_value, share, some,
};
use reveille_show::sheet::{Column, Section, Table, Value};

use super::groups::{Key, named};
use super::statistics::hide_one_source;
use super::view::{View, Views};
use crate::compare::{self, Comparisons, Difference, StateComparison, VALUES_MIN};

/// States or results whose difference the answer gives in full.
const NAMED: usize = 2;

/// Letters of a result's name in a sentence; a longer one is called by its letter.
const NAME: usize = 24;

const COLUMNS: &[Column<StateComparison>] = &columns!(|one|
    words "state", "state", one.state.as_str(), "The requested idle state";
    words "source", "source", one.source.as_str(), "What woke the CPU";
    measured(Ns) "comparison.median.difference_ns", "median", signed(Some(&one.comparison.median)),
        "Difference of the medians, with its 95% interval";
    measured(Ns) "comparison.p99.difference_ns", "p99", signed(one.comparison.p99.as_ref()),
        "Difference of the 99th percentiles, with its 95% interval";
    estimated(Share) "comparison.b_slower", "slower", one.comparison.b_slower,
        "Share of pairs of wakes in which the second result's takes longer";
    estimated(Share) detail "comparison.b_slower_low", "95% from", one.comparison.b_slower_low,
        "Lower end of its 95% interval";
    estimated(Share) detail "comparison.b_slower_high", "to", one.comparison.b_slower_high,
        "Upper end of its 95% interval";
    estimated(Of("")) detail "comparison.p_value", "p-value", p_value(one.comparison.p_value),
        "By Brunner and Munzel's test";
    estimated(Of("")) "adjusted_p_value", "p, adjusted", p_value(one.adjusted_p_value),
        "The p-value adjusted for the number of states (Holm)";
);

fn signed(difference: Option<&Difference>) -> Value {
    difference.map_or(Value::Unknown, |one| {
        let difference = Value::Difference(Estimate {
            estimate: one.difference_ns as f64,
            interval: Some((one.low_ns as f64, one.high_ns as f64)),
            rounds: 0,
        });
        difference.better_if(Against::Less)
    })
}

/// Each result but the first against the first, state by state in the page's order.
pub fn all(views: &Views<'_>) -> Vec<Comparisons> {
    let keys = views.keys();
    let place = |one: &StateComparison| {
        let mut keys = keys.iter();
        keys.position(|key| key.state == one.state && key.source == one.source)
    };
    let [first, others @ ..] = &views.views[..] else {
        return Vec::new();
    };
    let against_first = |other: &View<'_>| {
        let [a, b] = [first, other].map(|view| &view.input.loaded.columns);
        let mut comparisons = compare::by_state(a, b);
        comparisons.states.sort_by_key(place);
        comparisons
    };
    others.iter().map(against_first).collect()
}

/// What differs, in a sentence.
pub fn answer(views: &Views<'_>, comparisons: &[Comparisons]) -> String {
    let names = names(views);
    let [first, others @ ..] = &names[..] else {
        return String::new();
    };
    if comparisons.iter().all(|one| one.states.is_empty()) {
        return format!(
            "No state can be compared: a comparison needs {VALUES_MIN} wakes of the state in both results."
        );
    }
    if let ([other], [comparisons]) = (others, comparisons) {
        return by_state(comparisons, other);
    }
    let in_short = |(other, comparisons): (&String, &Comparisons)| {
        let differing = differing(comparisons);
        let Some(most) = differing.first() else {
            return match comparisons.states.is_empty() {
                true => format!("{other} cannot be compared"),
                false => format!("{other} does not differ significantly"),
            };
        };
        let place = format!(" in {}", state(most, comparisons));
        let words = in_full(most, other, &place).unwrap_or_default();
        match differing.len() - 1 {
            0 => words,
            more => format!(
                "{words} and differs in {}",
                counted(more as u64, "more state")
            ),
        }
    };
    let pairs = others.iter().zip(comparisons);
    let clauses: Vec<String> = pairs.take(NAMED + 1).map(in_short).collect();
    let more = match others.len() - clauses.len() {
        0 => String::new(),
        more => format!(
            "; for {} see the table",
            counted(more as u64, "more result")
        ),
    };
    format!("Against {first}: {}{more}.", clauses.join("; "))
}

/// `C6: after is 12.3 µs [11.1, 13.2] faster at the median (45.1 against 57.4); C1: no significant difference.`
fn by_state(comparisons: &Comparisons, other: &str) -> String {
    let differing = differing(comparisons);
    let one = |one: &&StateComparison| {
        let words = in_full(one, other, "")?;
        Some(format!("{}: {words}", state(one, comparisons)))
    };
    let mut clauses: Vec<String> = differing.iter().take(NAMED).filter_map(one).collect();
    let names = |states: &[&StateComparison]| -> Vec<String> {
        let names = states.iter().map(|one| state(one, comparisons));
        names.collect()
    };
    if let [first, ..] = differing[differing.len().min(NAMED)..] {
        let more = &differing[NAMED..];
        let states = some(&names(more), NAMED);
        clauses.push(
            match more.iter().all(|one| is_slower(one) == is_slower(first)) {
                true => format!("{states}: {other} is {}, too", slower(first)),
                false => format!("{states} differ, too"),
            },
        );
    }
    let alike = comparisons.states.iter();
    let alike: Vec<_> = alike.filter(|one| !one.is_significant()).collect();
    if !alike.is_empty() {
        clauses.push(format!(
            "{}: no significant difference",
            some(&names(&alike), NAMED)
        ));
    }
    if !comparisons.not_compared.is_empty() {
        let states = some(&not_compared(comparisons), NAMED);
        clauses.push(format!("{states}: too few wakes to compare"));
    }
    clauses.join("; ") + "."
}

/// The states that differ, that of the largest difference of the medians first.
fn differing(comparisons: &Comparisons) -> Vec<&StateComparison> {
    let states = comparisons.states.iter();
    let mut differing: Vec<_> = states.filter(|one| one.is_significant()).collect();
    let by = |one: &&StateComparison| one.comparison.median.difference_ns.unsigned_abs();
    differing.sort_by_key(|one| std::cmp::Reverse(by(one)));
    differing
}

/// After the state's name: `B is 12.3 µs [11.1, 13.2] faster at the median (45.1 against 57.4)`, `place`
/// behind the median; `None` if no difference is significant.
fn in_full(one: &StateComparison, b: &str, place: &str) -> Option<String> {
    if !one.is_significant() {
        return None;
    }
    let comparison = &one.comparison;
    let (is_slower, how) = (is_slower(one), slower(one));
    let median = &comparison.median;
    let (of_b, of_a) = (median.b_ns as f64, median.a_ns as f64);
    // Wakes may take longer more often than not while the medians are alike.
    if !median.is_significant() || (median.difference_ns > 0) != is_slower {
        let part = if is_slower {
            comparison.b_slower
        } else {
            1.0 - comparison.b_slower
        };
        return Some(format!(
            "{b} is {how}{place} in {} of the pairs of wakes, medians not significantly different ({} against \
             {})",
            share(part),
            duration(of_b),
            after(of_b, of_a)
        ));
    }
    let [difference, low, high] = match is_slower {
        true => [median.difference_ns, median.low_ns, median.high_ns],
        false => [-median.difference_ns, -median.high_ns, -median.low_ns],
    }
    .map(|ns| ns as f64);
    Some(format!(
        "{b} is {} [{}, {}] {how} at the median{place} ({} against {})",
        duration(difference),
        after(difference, low),
        after(low, high),
        after(high, of_b),
        after(of_b, of_a)
    ))
}

/// Do wakes of the second result take longer more often than not?
fn is_slower(one: &StateComparison) -> bool {
    one.comparison.b_slower > 0.5
}

fn slower(one: &StateComparison) -> &'static str {
    if is_slower(one) { "slower" } else { "faster" }
}

/// The difference in that state, of every result that has one: of several in short, `B +3.63 µs`.
pub fn of_state(views: &Views<'_>, comparisons: &[Comparisons], key: &Key) -> String {
    let is_of_key = |one: &&StateComparison| one.state == key.state && one.source == key.source;
    let others = views.views.iter().skip(1).map(letter);
    let pairs = others.zip(comparisons);
    let of_key = pairs.filter_map(|(b, all)| Some((b, all.states.iter().find(is_of_key)?)));
    let (differing, alike): (Vec<_>, Vec<_>) = of_key.partition(|(_, one)| one.is_significant());
    if let (2, [(b, one)]) = (views.views.len(), &differing[..]) {
        return in_full(one, b, "").unwrap_or_default();
    }
    let in_short = |(b, one): &(&str, &StateComparison)| {
        let median = &one.comparison.median;
        let sign = if median.difference_ns > 0 { "+" } else { "" };
        format!("{b} {sign}{}", nanoseconds(median.difference_ns))
    };
    let mut clauses = Vec::new();
    if !differing.is_empty() {
        let differences: Vec<_> = differing.iter().map(in_short).collect();
        clauses.push(format!("{} at the median", differences.join(", ")));
    }
    if !alike.is_empty() {
        let letters: Vec<_> = alike.iter().map(|(b, _)| *b).collect();
        let whose = match views.views.len() {
            2 => String::new(),
            _ => format!("{}: ", listed(&letters)),
        };
        clauses.push(format!("{whose}no significant difference"));
    }
    clauses.join("; ")
}

/// How the results are called in sentences: by their names, or all by their letters if a name is missing,
/// long or not its own.
fn names(views: &Views<'_>) -> Vec<String> {
    let name = |view: &View<'_>| view.input.loaded.description.name.clone();
    let names: Vec<String> = views.views.iter().map(name).collect();
    let is_fit = |name: &String| {
        let is_own = names.iter().filter(|other| *other == name).count() == 1;
        is_own && !name.is_empty() && name.chars().count() <= NAME
    };
    match names.iter().all(is_fit) {
        true => names,
        false => views
            .views
            .iter()
            .map(|view| letter(view).to_owned())
            .collect(),
    }
}

fn state(one: &StateComparison, all: &Comparisons) -> String {
    named(&one.state, &one.source, sources(all))
}

fn not_compared(all: &Comparisons) -> Vec<String> {
    let states = all.not_compared.iter();
    states
        .map(|(state, source)| named(state, source, sources(all)))
        .collect()
}

fn sources(all: &Comparisons) -> impl Iterator<Item = &String> {
    let compared = all.states.iter().map(|one| &one.source);
    compared.chain(all.not_compared.iter().map(|(_, source)| source))
}

/// The first result against each of the others; empty where there is one only.
pub fn section(views: &Views<'_>, comparisons: &[Comparisons]) -> Section<'static> {
    let section = Section::new("differences", "Differences");
    let Some((first, others)) = views.views.split_first() else {
        return section;
    };
    let pairs = others.iter().zip(comparisons);
    pairs.fold(section, |section, (other, comparisons)| {
        of_pair(section, first, other, comparisons)
    })
}

/// How differences are tested; empty where nothing is compared.
pub fn method(comparisons: &[Comparisons]) -> Section<'static> {
    let section = Section::new("test", "How differences are tested").detail();
    match comparisons.iter().all(|one| one.states.is_empty()) {
        true => section,
        false => section.text(
            "Latencies are skewed, so no normal distribution is supposed: the test is Brunner and \
             Munzel's (does a wake of the one result take longer than one of the other more often than \
             not?), its p-value is adjusted for the number of states of one comparison (Holm), and the differences of \
             quantiles have 95% intervals from order statistics.",
        ),
    }
}

fn of_pair<'a>(
    section: Section<'a>,
    a: &View<'_>,
    b: &View<'_>,
    comparisons: &Comparisons,
) -> Section<'a> {
    let (name_a, name_b) = (letter(a), letter(b));
    let caption = format!("Wake latency of {} minus that of {}", b.title(), a.title());
    let mut table = Table::of(caption, COLUMNS, &comparisons.states).whole();
    for heading in &mut table.headings {
        match heading.key {
            "comparison.median.difference_ns" => {
                heading.name = format!("median, {name_b}-{name_a}").into()
            }
            "comparison.b_slower" => heading.name = format!("{name_b} slower").into(),
            _ => {}
        }
    }
    hide_one_source(&mut table);
    let section = section.table(table);
    match comparisons.not_compared.is_empty() {
        true => section,
        false => section.text(format!(
            "{name_b} and {name_a} are not compared (fewer than {VALUES_MIN} datapoints on one side): {}.",
            not_compared(comparisons).join(", ")
        )),
    }
}

fn letter<'a>(view: &'a View<'_>) -> &'a str {
    view.letter.as_deref().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::compare::Comparison;

    /// A state whose medians are these, ns, with the interval of their difference, and the share of pairs in
    /// which the second is slower.
    fn state_of(
        state: &str,
        [a_ns, b_ns]: [i64; 2],
        interval: [i64; 2],
        b_slower: f64,
    ) -> StateComparison {
        let median = Difference {
            a_ns,
            b_ns,
            difference_ns: b_ns - a_ns,
            low_ns: interval[0],
            high_ns: interval[1],
        };
        let p_value = if b_slower == 0.5 { 0.5 } else { 0.01 };
        StateComparison {
            state: state.to_owned(),
            source: "timer".to_owned(),
            comparison: Comparison {
                count_a: 100,
                count_b: 100,
                b_slower,
                b_slower_low: b_slower,
                b_slower_high: b_slower,
                p_value,
                median,
                p99: None,
            },
            adjusted_p_value: p_value,
        }
    }

    fn of_two(states: Vec<StateComparison>, not_compared: &[&str]) -> String {
        let not_compared = not_compared.iter();
        let not_compared = not_compared.map(|state| ((*state).to_owned(), "timer".to_owned()));
        let comparisons = Comparisons {
            states,
            not_compared: not_compared.collect(),
        };
        by_state(&comparisons, "after")
    }

    #[test]
    fn a_difference_has_its_interval_and_the_medians() {
        let faster = state_of("C6", [57_400, 45_100], [-13_200, -11_100], 0.1);
        let alike = || state_of("C1", [2_000, 2_000], [-10, 10], 0.5);
        let slower = state_of("C6", [900, 2_500], [700, 2_100], 0.9);
        let two = of_two(vec![alike(), faster.clone()], &[]);
        let one = of_two(vec![slower.clone()], &["C8"]);
        // Of further states the direction, if it is the same.
        let more = |last: StateComparison| {
            of_two(vec![faster.clone(), slower.clone(), alike(), last], &[])
        };
        let third = state_of("C3", [1_000, 900], [-110, -90], 0.2);
        let more = more(third);
        let (up, down) = ([1_000, 1_090], [1_000, 900]);
        let mixed = vec![
            faster.clone(),
            slower.clone(),
            state_of("C3", up, [80, 99], 0.8),
            state_of("C4", down, [-110, -90], 0.2),
        ];
        let mixed = of_two(mixed, &[]);
        snapshot!(
            "words",
            [("two", two), ("one", one), ("more", more), ("mixed", mixed)]
        );
    }

    #[test]
    fn medians_that_are_alike_are_not_called_different() {
        let of = |medians, interval, b_slower| {
            in_full(&state_of("C6", medians, interval, b_slower), "B", " in C6")
        };
        // The interval includes zero, and the medians differ the other way.
        for (medians, interval) in [([1_000, 1_010], [-5, 20]), ([1_010, 1_000], [-15, -5])] {
            let words = of(medians, interval, 0.6).unwrap();
            let facts = [
                "B is slower",
                "60.0%",
                "medians not significantly different (1",
            ];
            assert!(
                facts.into_iter().all(|fact| words.contains(fact)),
                "{words}"
            );
        }
        assert!(
            of([1_010, 1_000], [-15, -5], 0.3)
                .unwrap()
                .starts_with("B is 10 ns [5, 15] faster")
        );
        assert_eq!(of([1_000, 2_000], [900, 1_100], 0.5), None);
    }
}

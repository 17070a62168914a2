//! The answer: how long wakes take, and whether they are within the driver's figures.

use std::cmp::Ordering;

use reveille_kernel::PreWake;
use reveille_show::quantity::{after, count, counted, duration, nanoseconds, some};

use super::groups::named;
use crate::Description;
use crate::description::Probe;
use crate::schema::Source;
use crate::statistics::StateStatistics;
use crate::verdict::Verdict;

/// States of a kind that the answer names; the others are counted.
const NAMED: usize = 2;

/// The states that a reader needs, what decides first: those whose wakes exceed the driver's figure most
/// often, then those that come nearest to it. The poll state, in which nothing sleeps, is left out beside
/// others.
pub fn ranked(statistics: &[StateStatistics]) -> Vec<&StateStatistics> {
    let mut ranked: Vec<&StateStatistics> = statistics.iter().collect();
    if !statistics.iter().all(polls) {
        ranked.retain(|one| !polls(one));
    }
    ranked.sort_by(|a, b| {
        let descending = |of: &dyn Fn(&StateStatistics) -> f64| of(b).total_cmp(&of(a));
        let (rank_a, rank_b) = (a.verdict.rank(), b.verdict.rank());
        rank_a
            .cmp(&rank_b)
            .then_with(|| match a.verdict {
                Verdict::ExceededByOneIn(_) => descending(&beyond),
                _ => Ordering::Equal,
            })
            .then_with(|| descending(&against_figure))
    });
    ranked
}

/// acpi_idle gives 0 for a halt without a figure, too.
fn polls(one: &StateStatistics) -> bool {
    reveille_kernel::polls(&one.state)
}

/// The share of its wakes beyond the driver's figure.
fn beyond(one: &StateStatistics) -> f64 {
    one.exceedance.as_ref().map_or(0.0, |one| one.share)
}

/// Its median in units of the driver's figure; in ns without one.
fn against_figure(one: &StateStatistics) -> f64 {
    one.wake_latency.median_ns as f64 / figure_ns(one).unwrap_or(1.0)
}

/// The driver's figure, ns; `None` without one, and where nothing sleeps.
pub fn figure_ns(one: &StateStatistics) -> Option<f64> {
    one.driver_exit_latency_us
        .filter(|us| *us > 0)
        .map(|us| us as f64 * 1e3)
}

/// The state that decides in a sentence, then the others in short.
pub fn answer(description: &Description) -> String {
    let statistics = &description.statistics;
    let ranked = ranked(statistics);
    let [first, others @ ..] = &ranked[..] else {
        return "No datapoints, no verdict.".into();
    };
    let wakes = match description.probe {
        Probe::User => "wakes a thread in",
        Probe::Bpf | Probe::Foreign => "wakes in",
    };
    let mut sentences = vec![format!(
        "{} {wakes} {}; {}.",
        state(first, statistics),
        figures(first),
        judgement(first)
    )];
    let kinds = others.chunk_by(|a, b| a.verdict.rank() == b.verdict.rank());
    sentences.extend(kinds.map(|of_a_kind| in_short(of_a_kind, statistics, &first.verdict)));
    sentences.extend(pre_wake(description));
    sentences.join(" ")
}

/// What the verdict does not hold for, where the CPU's own timer woke it and may find it half awake.
fn pre_wake(description: &Description) -> Option<String> {
    let is_timers = |one: &StateStatistics| one.source == Source::Timer.as_str() && !polls(one);
    if !description.statistics.iter().any(is_timers) {
        return None;
    }
    let pre_wake = match description.machine.c_state_pre_wake.as_ref()? {
        PreWake::Off => return None,
        PreWake::On => "wakes ahead of its own timer (C-state pre-wake is on)",
        PreWake::Unknown(_) => "may wake ahead of its own timer (C-state pre-wake is unknown)",
    };
    Some(format!(
        "This processor {pre_wake}: other interrupts may wait longer; `--source timer,remote` compares."
    ))
}

/// `24.5 µs at the median, 90 at p99`. Without p99, which few wakes do not carry, the number of the wakes.
pub fn figures(one: &StateStatistics) -> String {
    let (median, number) = (one.wake_latency.median_ns, one.wake_latency.count);
    let verdict_has_count = matches!(one.verdict, Verdict::TooFewDatapoints { .. });
    if number == 1 {
        let words = nanoseconds(median);
        return if verdict_has_count {
            words
        } else {
            words + " (1 wake)"
        };
    }
    let words = format!("{} at the median", nanoseconds(median));
    match one.wake_latency.p99_ns {
        Some(p99) => format!("{words}, {} at p99", after(median as f64, p99 as f64)),
        None if verdict_has_count => words,
        None => format!("{words} of {}", counted(number, "wake")),
    }
}

/// After these figures: `the driver says 1, and most wakes take longer`.
pub fn judgement(one: &StateStatistics) -> String {
    let latency = &one.wake_latency;
    let last = latency.p99_ns.unwrap_or(latency.median_ns) as f64;
    match figure_ns(one) {
        Some(figure) => {
            format!(
                "the driver says {}, and {}",
                after(last, figure),
                verdict(one)
            )
        }
        None if polls(one) => "nothing sleeps in it".to_owned(),
        None => "the driver gives no figure".to_owned(),
    }
}

/// After the driver's figure: `1 wake in 7 takes longer`.
fn verdict(one: &StateStatistics) -> String {
    let number = count(one.wake_latency.count);
    match &one.verdict {
        Verdict::ExceededByOneIn(0 | 1) => "most wakes take longer".to_owned(),
        Verdict::ExceededByOneIn(wakes) => format!("1 wake in {} takes longer", count(*wakes)),
        Verdict::ExceededByMaxOnly => {
            let exceeded = one.exceedance.as_ref().map_or(1, |one| one.exceeded);
            let most = nanoseconds(one.wake_latency.max_ns);
            match exceeded {
                1 => format!("only 1 of {number} wakes takes longer ({most})"),
                few => format!("only {few} of {number} wakes take longer ({most} at most)"),
            }
        }
        Verdict::Within => format!("none of {number} wakes takes longer"),
        Verdict::TooFewDatapoints { needed, .. } => {
            let needed = count(*needed);
            format!("a verdict needs {needed} wakes ({number} so far)")
        }
        Verdict::NoFigure => "no verdict".to_owned(),
    }
}

/// States with the same kind of verdict, after a first one whose sentence has the words in full.
fn in_short(
    states: &[&StateStatistics],
    statistics: &[StateStatistics],
    first: &Verdict,
) -> String {
    let each = |of: &dyn Fn(&StateStatistics) -> String| {
        let with = |one: &&StateStatistics| format!("{} ({})", state(one, statistics), of(one));
        some(&states.iter().map(with).collect::<Vec<_>>(), NAMED)
    };
    // In the order of the table.
    let is_one = |one: &&StateStatistics| states.iter().any(|other| std::ptr::eq(*other, *one));
    let names = || {
        let names = statistics.iter().filter(is_one);
        let names: Vec<_> = names.map(|one| state(one, statistics)).collect();
        some(&names, NAMED + 2)
    };
    let verdict = &states[0].verdict;
    let is_as_first = verdict.rank() == first.rank();
    match verdict {
        Verdict::ExceededByOneIn(_) => format!(
            "So do wakes of {}.",
            each(&|one| match one.verdict {
                Verdict::ExceededByOneIn(0 | 1) => format!("most: {}", short(one)),
                Verdict::ExceededByOneIn(wakes) => format!("1 in {}: {}", count(wakes), short(one)),
                _ => short(one),
            })
        ),
        Verdict::ExceededByMaxOnly => format!(
            "Only single wakes do in {}.",
            each(&|one| {
                let most = one.wake_latency.max_ns as f64;
                let driver = figure_ns(one)
                    .map_or(String::new(), |ns| format!(", driver {}", after(most, ns)));
                format!("{} at most{driver}", duration(most))
            })
        ),
        Verdict::Within => {
            let are = match states.len() {
                1 => "is within its figure",
                _ => "are within their figures",
            };
            let too = if is_as_first { ", too" } else { "" };
            format!("{} {are}{too}.", names())
        }
        Verdict::TooFewDatapoints { .. } => format!(
            "Too few wakes to judge {}.",
            each(&|one| counted(one.wake_latency.count, "wake"))
        ),
        Verdict::NoFigure if is_as_first => {
            format!("Nor for {}.", each(&short))
        }
        Verdict::NoFigure => format!("The driver gives no figure for {}.", each(&short)),
    }
}

/// `24.5 µs, p99 90, driver 1`.
fn short(one: &StateStatistics) -> String {
    let mut last = one.wake_latency.median_ns as f64;
    let mut words = duration(last);
    for (name, ns) in [
        ("p99", one.wake_latency.p99_ns.map(|ns| ns as f64)),
        ("driver", figure_ns(one)),
    ] {
        if let Some(ns) = ns {
            words += &format!(", {name} {}", after(last, ns));
            last = ns;
        }
    }
    words
}

/// The state; with its source if there are several.
pub fn state(one: &StateStatistics, all: &[StateStatistics]) -> String {
    named(&one.state, &one.source, all.iter().map(|one| &one.source))
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::show::sample::{Row, bare_description, columns_of_rows};
    use crate::statistics::by_state;

    /// A state, the driver's figure, µs, and how many wakes took how long, ns.
    type State<'a> = (&'a str, Option<u64>, [(usize, i64); 2]);

    fn described(states: &[State<'_>]) -> Description {
        let mut rows = Vec::new();
        for (index, (state, _, wakes)) in states.iter().enumerate() {
            for (count, latency) in wakes {
                let (index, source) = (index as i64, "timer");
                rows.extend(vec![
                    Row {
                        state,
                        index,
                        source,
                        latency: *latency
                    };
                    *count
                ]);
            }
        }
        let driver = |name: &str| states.iter().find(|(state, ..)| *state == name)?.1;
        let mut description = bare_description("made up", Probe::Bpf);
        description.statistics = by_state(&columns_of_rows(&rows), &driver, &[]);
        description
    }

    fn answer_of(states: &[State<'_>]) -> String {
        answer(&described(states))
    }

    #[test]
    fn one_state_has_its_figures_and_the_verdict_in_one_sentence() {
        let cases = [
            (Some(1), [(900, 24_500), (100, 90_000)]),
            (Some(30), [(900, 24_500), (100, 90_000)]),
            (Some(30), [(2995, 900), (0, 0)]),
            (Some(30), [(9_999, 20_000), (1, 90_000)]),
            (Some(30), [(19_998, 20_000), (2, 90_000)]),
            (Some(30), [(999, 20_000), (0, 0)]),
            (None, [(999, 20_000), (0, 0)]),
            (Some(30), [(1, 20_000), (0, 0)]),
            (None, [(1, 20_000), (0, 0)]),
        ];
        let mut said = cases
            .map(|(driver, wakes)| {
                let case = format!("driver {driver:?}, wakes {wakes:?}");
                (case, answer_of(&[("C6", driver, wakes)]))
            })
            .to_vec();
        let poll = answer_of(&[("POLL", Some(0), [(999, 900), (0, 0)])]);
        let mut user = described(&[("C6", None, [(10, 20_000), (0, 0)])]);
        user.probe = Probe::User;
        said.extend([("POLL".into(), poll), ("user probe".into(), answer(&user))]);
        user.statistics.clear();
        said.push(("nothing".into(), answer(&user)));
        snapshot!("words", said);
    }

    #[test]
    fn of_several_states_the_worst_leads_and_the_poll_state_is_left_out() {
        let answer = answer_of(&[
            ("POLL", Some(0), [(3000, 900), (0, 0)]),
            ("C1", Some(2), [(3000, 1_500), (0, 0)]),
            ("C1E", Some(10), [(900, 9_000), (100, 12_000)]),
            ("C3", Some(40), [(10_000, 30_000), (1, 95_000)]),
            ("C6", Some(100), [(500, 99_000), (1500, 150_000)]),
            ("C8", Some(100), [(7, 99_000), (0, 0)]),
            ("C9", None, [(7, 99_000), (0, 0)]),
        ]);
        snapshot!("words", [("seven", answer)]);
    }

    #[test]
    fn a_state_that_sleeps_has_no_figure_where_the_driver_says_zero() {
        let states = [
            ("POLL", Some(0), [(3000, 900), (0, 0)]),
            ("C1", Some(0), [(3000, 9_000), (0, 0)]),
            ("C2", Some(40), [(3000, 30_000), (0, 0)]),
        ];
        let said = [
            ("C1", answer_of(&states[..2])),
            ("C1 and C2", answer_of(&states)),
        ];
        snapshot!("words", said);
    }

    #[test]
    fn a_verdict_by_the_cpus_own_timer_names_pre_wake() {
        let mut described = described(&[("C6", Some(100), [(3000, 9_000), (0, 0)])]);
        let plain = answer(&described);
        let mut with = |pre_wake: Option<PreWake>, source: &str| {
            described.machine.c_state_pre_wake = pre_wake;
            described.statistics[0].source = source.into();
            answer(&described)
        };
        assert_eq!(with(Some(PreWake::Off), "timer"), plain);
        assert_eq!(with(Some(PreWake::On), "remote"), plain);
        let on = with(Some(PreWake::On), "timer");
        assert!(on.starts_with(&plain) && on != plain, "{on}");
        let unknown = with(Some(PreWake::Unknown("?".into())), "timer");
        snapshot!("words", [("on", on), ("unknown", unknown)]);
    }

    #[test]
    fn states_beyond_the_first_few_are_counted() {
        let names = ["C1", "C2", "C3", "C4", "C5", "C6"];
        let exceeded: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(place, name)| (*name, Some(2), [(1000 + place, 1_000), (100, 3_000)]))
            .collect();
        let answer = answer_of(&exceeded);
        // On a terminal of 80 columns: three lines.
        assert!(answer.chars().count() <= 240, "{answer}");
        let none = answer_of(&[
            ("a", None, [(9, 2_000), (0, 0)]),
            ("b", None, [(9, 1_000), (0, 0)]),
        ]);
        let kept: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(place, name)| (*name, Some(20), [(3000, 1_000 + place as i64), (0, 0)]))
            .collect();
        let said = [
            ("exceeded", answer),
            ("no figure", none),
            ("kept", answer_of(&kept)),
        ];
        snapshot!("words", said);
    }
}

//! What was asked, what was measured, and what it says of each state.

use std::cmp::Reverse;
use std::io::{self, Write};

use reveille_advise::{Demand, Finding, SourceEvidence, Standing, StateAdvice};
use reveille_figures::tail::Tail;
use reveille_results::Loaded;
use reveille_results::description::{Ended, Probe};

use super::Answer;
use super::text::{UNKNOWN, about, named, percent_up, us, wrapped};
use reveille_show::table::{Side, Table};

pub fn write(answer: &Answer, loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    head(answer, loaded, out)?;
    writeln!(out)?;
    if answer.advice.sources.len() > 1 {
        with_sources(answer).write(out)?;
    } else {
        without_sources(answer).write(out)?;
    }
    writeln!(out)?;
    for state in &answer.advice.states {
        if let Some(words) = not_shown(state, answer.advice.question.demand) {
            wrapped(out, &format!("{}: ", state.state), 2, &words)?;
        }
        for evidence in &state.evidence {
            beyond_the_data(state, evidence, out)?;
        }
    }
    Ok(())
}

/// What was asked of what.
pub fn head(answer: &Answer, loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    let question = &answer.advice.question;
    named(out, "Result", &of_what(loaded))?;
    let asked = match question.demand {
        Demand::Percentile(_) => format!(
            "{question} of the {}, with {} confidence",
            question.latency, question.confidence
        ),
        Demand::Maximum => format!(
            "{} µs as the maximum {} that was seen; a maximum is no guarantee, it grows with the \
             datapoints",
            question.budget_us, question.latency
        ),
    };
    named(out, "Asked", &asked)?;
    let sources = match answer.advice.sources.is_empty() {
        true => "unknown".to_owned(),
        false => answer.advice.sources.join(", "),
    };
    named(
        out,
        "Measured",
        &format!("{}; woken by: {sources}", probe(loaded.description.probe)),
    )?;
    match &loaded.description.ended {
        Ended::Completed => Ok(()),
        Ended::Interrupted => named(out, "Ended", "early, interrupted"),
        Ended::Disturbed(why) => named(out, "Ended", &format!("early: {why}")),
    }
}

/// The result's name, its CPU and its machine.
pub fn of_what(loaded: &Loaded) -> String {
    let description = &loaded.description;
    let cpu = description.settings.cpu_name();
    let mut words = format!("{}: {cpu}", description.name);
    if let Some(model) = &description.machine.cpu_model {
        words += &format!(" of {model}");
    }
    if let Some(host) = &description.machine.hostname {
        words += &format!(" ({host})");
    }
    words
}

pub fn probe(probe: Probe) -> &'static str {
    match probe {
        Probe::Bpf => "by BPF in the idle loop",
        Probe::User => {
            "by a waiting thread: the interrupt's handler and the scheduler are in the figures, so \
             that states are judged by more than their own wake"
        }
        Probe::Foreign => "by another tool",
    }
}

fn without_sources(answer: &Answer) -> Table {
    let mut table = Table::new(&[
        ("state", "", Side::Left),
        ("count", "", Side::Right),
        ("p50", "µs", Side::Right),
        ("seen", "µs", Side::Right),
        ("at most", "µs", Side::Right),
        ("max", "µs", Side::Right),
        ("over", "", Side::Right),
        ("share ≤", "%", Side::Right),
        ("driver", "µs", Side::Right),
        ("", "", Side::Left),
    ]);
    for state in &answer.advice.states {
        let [count, p50, seen, most, max, over, share] = figures(state.evidence.first());
        let name = state.state.clone();
        let (driver, said) = (driver(state), said(state));
        table.row([name, count, p50, seen, most, max, over, share, driver, said]);
    }
    table
}

fn with_sources(answer: &Answer) -> Table {
    let mut table = Table::new(&[
        ("state", "", Side::Left),
        ("source", "", Side::Left),
        ("count", "", Side::Right),
        ("p50", "µs", Side::Right),
        ("seen", "µs", Side::Right),
        ("at most", "µs", Side::Right),
        ("max", "µs", Side::Right),
        ("over", "", Side::Right),
        ("share ≤", "%", Side::Right),
        ("driver", "µs", Side::Right),
        ("", "", Side::Left),
    ]);
    for state in &answer.advice.states {
        let mut rows: Vec<Option<&SourceEvidence>> = state.evidence.iter().map(Some).collect();
        if rows.is_empty() {
            rows.push(None);
        }
        for (place, evidence) in rows.into_iter().enumerate() {
            let [count, p50, seen, most, max, over, share] = figures(evidence);
            let source = evidence.map_or(UNKNOWN.to_owned(), |one| one.source.clone());
            // A state's own cells stand in its first row.
            let own = |text: String| if place == 0 { text } else { String::new() };
            let (name, driver, said) = (
                own(state.state.clone()),
                own(driver(state)),
                own(said(state)),
            );
            table.row([
                name, source, count, p50, seen, most, max, over, share, driver, said,
            ]);
        }
    }
    table
}

/// Count, p50, seen, at most, max, over, share.
fn figures(evidence: Option<&SourceEvidence>) -> [String; 7] {
    let Some(evidence) = evidence else {
        return std::array::from_fn(|_| UNKNOWN.to_owned());
    };
    let told = |ns: Option<i64>| ns.map_or(UNKNOWN.to_owned(), us);
    [
        evidence.count.to_string(),
        told(evidence.median_ns),
        told(evidence.percentile_ns),
        told(evidence.percentile_high_ns),
        told(evidence.max_ns),
        evidence.exceeded.to_string(),
        percent_up(evidence.exceeded_share_high),
    ]
}

fn driver(state: &StateAdvice) -> String {
    let figure = state.driver_exit_latency_us;
    figure.map_or(UNKNOWN.to_owned(), |us| us.to_string())
}

fn said(state: &StateAdvice) -> String {
    match (state.standing, state.allowed) {
        (Standing::NoSleep, _) => "no sleep",
        (Standing::Within, true) => "allowed",
        (Standing::Within, false) => "within",
        (Standing::Exceeds, _) => "exceeds",
        (Standing::NotShown, _) => "not shown",
        (Standing::Off, _) => "off",
    }
    .to_owned()
}

/// What would show it, of a state of which nothing is shown yet.
fn not_shown(state: &StateAdvice, demand: Demand) -> Option<String> {
    if state.standing != Standing::NotShown {
        return None;
    }
    let (evidence, needed) = wanting(state)?;
    let SourceEvidence {
        source,
        count,
        exceeded,
        ..
    } = evidence;
    let so_far = match count {
        0 => format!("not measured ({source})"),
        _ => format!("not shown: {exceeded} of {count} wakes are over the budget ({source})"),
    };
    Some(match (needed, demand) {
        (None, _) => format!(
            "{so_far}, no smaller a share than {demand} leaves; if it stays so, no number of \
             datapoints shows it. Measure more to tell"
        ),
        (Some(needed), Demand::Percentile(percentile)) => match exceeded {
            0 => format!("{so_far}; {percentile} takes {needed} with none over the budget"),
            _ => {
                let needed = about(needed);
                format!("{so_far}; {percentile} takes about {needed} with no larger share over it")
            }
        },
        (Some(needed), Demand::Maximum) => {
            format!("{so_far}; a maximum of fewer than {needed} says little")
        }
    })
}

/// The source that wants the most datapoints to show the state, and how many.
pub fn wanting(state: &StateAdvice) -> Option<(&SourceEvidence, Option<u64>)> {
    let wants = state.evidence.iter().filter_map(|one| match one.finding {
        Finding::NotShown { needed } => Some((one, needed)),
        Finding::Within | Finding::Exceeds => None,
    });
    wants.max_by_key(|(one, needed)| (needed.unwrap_or(u64::MAX), Reverse(one.count)))
}

fn beyond_the_data(
    state: &StateAdvice,
    evidence: &SourceEvidence,
    out: &mut impl Write,
) -> io::Result<()> {
    let words = match &evidence.tail {
        None => return Ok(()),
        Some(Tail::Estimated(tail)) => format!(
            "an estimate beyond the data ({}): 1 wake in {} takes longer than {} µs [{}, {}]",
            evidence.source,
            tail.exceeded_by_one_in,
            us(tail.quantile_ns),
            us(tail.quantile_low_ns),
            us(tail.quantile_high_ns)
        ),
        Some(Tail::Refused(why)) => {
            format!("no estimate beyond the data ({}): {why}", evidence.source)
        }
    };
    wrapped(out, &format!("{}: ", state.state), 2, &words)
}

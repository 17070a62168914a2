//! What a reader should know first: the verdicts, and what stands between the figures and the truth.

use std::fmt::Write as _;

use reveille_results::description::{Ended, Probe};
use reveille_results::statistics::StateStatistics;
use reveille_results::verdict::Verdict;

use crate::Options;
use crate::view::{View, Views};
use reveille_show::markup::escape;
use reveille_show::quantity;

/// The verdicts of every result, each after its title where there are several.
pub fn headline(views: &Views<'_>) -> String {
    let mut html = String::new();
    for view in &views.views {
        let who = match &view.letter {
            Some(_) => format!("<b>{}.</b> ", escape(&view.title())),
            None => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<p class=\"headline\">{who}{}</p>",
            escape(&verdicts(view))
        );
    }
    html
}

/// One sentence: which states exceed the driver's figure, which keep to it, and of which nothing
/// can be said. The medians where that is none.
pub fn verdicts(view: &View<'_>) -> String {
    let statistics = &view.input.loaded.description.statistics;
    if view.input.loaded.columns.rows == 0 {
        return "There is no datapoint in this result, so nothing can be said of its states."
            .into();
    }
    if statistics.is_empty() {
        return "The result holds no statistics, so there are no verdicts.".into();
    }
    let several_sources = statistics
        .iter()
        .any(|one| one.source != statistics[0].source);
    let name = |one: &StateStatistics| match several_sources {
        true => format!("{} ({})", one.state, one.source),
        false => one.state.clone(),
    };
    let mut exceeded = Vec::new();
    let mut by_maximum = Vec::new();
    let mut within = Vec::new();
    let mut too_few = Vec::new();
    let mut no_figure = Vec::new();
    for one in statistics {
        match &one.verdict {
            Verdict::ExceededByOneIn(0 | 1) => exceeded.push(format!(
                "{} (most wakes took longer than {})",
                name(one),
                driver_figure(one)
            )),
            Verdict::ExceededByOneIn(wakes) => exceeded.push(format!(
                "{} (1 in {} wakes took longer than {})",
                name(one),
                quantity::count(*wakes),
                driver_figure(one)
            )),
            Verdict::ExceededByMaxOnly => by_maximum.push(format!(
                "{} ({} at most against {})",
                name(one),
                quantity::nanoseconds(one.wake_latency.max_ns),
                driver_figure(one)
            )),
            Verdict::Within => within.push(format!("{} ({})", name(one), driver_figure(one))),
            Verdict::TooFewDatapoints { count, needed } => too_few.push(format!(
                "{} ({} of {} datapoints)",
                name(one),
                quantity::count(*count),
                quantity::count(*needed)
            )),
            Verdict::NoFigure => no_figure.push(name(one)),
        }
    }
    if no_figure.len() == statistics.len() {
        return medians(statistics, name);
    }
    let clauses = [
        ("The driver's exit latency is exceeded by ", exceeded),
        ("It is exceeded by single wakes only in ", by_maximum),
        ("The driver's exit latency holds for ", within),
        ("There are too few datapoints for a verdict on ", too_few),
        ("The driver gives no figure for ", no_figure),
    ];
    let clauses = clauses.into_iter().filter(|(_, states)| !states.is_empty());
    let sentences: Vec<String> = clauses
        .map(|(words, all)| format!("{words}{}.", list(&all)))
        .collect();
    sentences
        .join(" ")
        .replacen("It is exceeded by single", first_words(&sentences), 1)
}

/// Where there is no figure to judge by, what was measured.
fn medians(statistics: &[StateStatistics], name: impl Fn(&StateStatistics) -> String) -> String {
    let medians: Vec<String> = statistics
        .iter()
        .map(|one| {
            format!(
                "{} from {} ({})",
                quantity::nanoseconds(one.wake_latency.median_ns),
                name(one),
                quantity::counted(one.wake_latency.count, "datapoint")
            )
        })
        .collect();
    format!(
        "The median wake latency is {}. There is no driver's figure to hold against it.",
        list(&medians)
    )
}

/// Without a sentence before it, "it" would have no meaning.
fn first_words(sentences: &[String]) -> &'static str {
    match sentences.first() {
        Some(first) if first.starts_with("It is exceeded") => {
            "The driver's exit latency is exceeded by single"
        }
        _ => "It is exceeded by single",
    }
}

fn driver_figure(one: &StateStatistics) -> String {
    match one.driver_exit_latency_us {
        Some(us) => quantity::duration(us as f64 * 1e3),
        None => "an unknown figure".to_owned(),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// What must be known before the figures are used: different probes, what a probe includes, an end
/// before time, a filter, and the result's own notes.
pub fn notices(views: &Views<'_>, options: &Options) -> String {
    let mut html = String::new();
    let mut notice = |class: &str, text: String| {
        let _ = write!(
            html,
            "<p class=\"notice {class}\" role=\"note\">{}</p>",
            escape(&text)
        );
    };
    if let Some(words) = different_probes(&views.views) {
        notice("strong", words);
    }
    if let Some(filter) = &options.filter {
        let kept: Vec<String> = views.views.iter().map(filtered).collect();
        notice(
            "",
            format!("Only datapoints with {filter}: {}.", kept.join("; ")),
        );
    }
    for view in &views.views {
        let who = view
            .letter
            .as_ref()
            .map_or(String::new(), |letter| format!("{letter}: "));
        let description = &view.input.loaded.description;
        match description.probe {
            Probe::Bpf => {}
            Probe::User => notice(
                "strong",
                format!(
                    "{who}Measured from user space, as cyclictest does: each figure runs from the \
                     timer to the first instruction of a waiting thread. It includes the interrupt, \
                     the scheduler and the switch to the thread, and the idle state is inferred from \
                     cpuidle's counters where these can be read."
                ),
            ),
            Probe::Foreign => notice(
                "",
                format!(
                    "{who}Measured by another tool ({}): what its figures include is for its \
                     documentation to say.",
                    description.tool
                ),
            ),
        }
        match &description.ended {
            Ended::Completed => {}
            Ended::Interrupted => notice(
                "",
                format!("{who}The run was interrupted; what was gathered until then is complete."),
            ),
            Ended::Disturbed(why) => notice("strong", format!("{who}The run was disturbed: {why}")),
        }
        for note in &description.notes {
            notice("", format!("{who}{note}"));
        }
    }
    html
}

fn filtered(view: &View<'_>) -> String {
    let kept = quantity::count(view.input.loaded.columns.rows as u64);
    let who = view
        .letter
        .as_ref()
        .map_or(String::new(), |letter| format!("{letter} "));
    match view.input.before_filter {
        Some(all) => format!("{who}{kept} of {}", quantity::count(all as u64)),
        None => format!("{who}{kept}"),
    }
}

fn different_probes(views: &[View<'_>]) -> Option<String> {
    let first = views.first()?.input.loaded.description.probe;
    if views
        .iter()
        .all(|view| view.input.loaded.description.probe == first)
    {
        return None;
    }
    let probes: Vec<String> = views
        .iter()
        .map(|view| {
            let description = &view.input.loaded.description;
            format!(
                "{} by {}",
                view.title(),
                super::probe(description.probe, &description.tool)
            )
        })
        .collect();
    Some(format!(
        "These results were measured with different probes, which include different things: {}. A \
         difference between them is not a difference between machines or settings alone.",
        probes.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_as_in_a_sentence() {
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(list(&words[..1]), "a");
        assert_eq!(list(&words[..2]), "a and b");
        assert_eq!(list(&words), "a, b and c");
    }
}

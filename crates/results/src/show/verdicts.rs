//! What a reader should know first: the verdicts, and what stands between the figures and the truth.

use reveille_show::quantity::{self, listed};
use reveille_show::sheet::Sheet;

use super::input::Options;
use super::view::{View, Views};
use crate::description::{Ended, Probe};
use crate::statistics::StateStatistics;
use crate::verdict::Verdict;
use crate::{Description, Loaded};

/// The verdicts of every result, each after its title where there are several.
pub fn answer(views: &Views<'_>) -> String {
    let of_view = |view: &View<'_>| {
        let Loaded {
            description,
            columns,
        } = &view.input.loaded;
        let words = match columns.rows {
            0 => "This result has no datapoint, so there is no verdict on its states.".into(),
            _ => verdicts(&description.statistics),
        };
        match &view.letter {
            Some(_) => format!("{}. {words}", view.title()),
            None => words,
        }
    };
    let all: Vec<String> = views.views.iter().map(of_view).collect();
    all.join(" ")
}

/// Which states exceed the driver's figure, which keep to it, and which have too few datapoints; the
/// medians if there is no figure.
pub fn verdicts(statistics: &[StateStatistics]) -> String {
    if statistics.is_empty() {
        return "The result holds no statistics, so there are no verdicts.".into();
    }
    let name = |one: &StateStatistics| state(one, statistics);
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
        (
            "The driver's exit latency is exceeded by single wakes only in ",
            by_maximum,
        ),
        ("The driver's exit latency holds for ", within),
        ("There are too few datapoints for a verdict on ", too_few),
        ("The driver gives no figure for ", no_figure),
    ];
    let clauses = clauses.into_iter().filter(|(_, states)| !states.is_empty());
    let sentences: Vec<String> = clauses
        .map(|(words, all)| format!("{words}{}.", listed(&all)))
        .collect();
    sentences.join(" ")
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
        "The median wake latency is {}. The driver gives no exit latency to compare it with.",
        listed(&medians)
    )
}

fn driver_figure(one: &StateStatistics) -> String {
    match one.driver_exit_latency_us {
        Some(us) => quantity::duration(us as f64 * 1e3),
        None => "an unknown figure".to_owned(),
    }
}

/// What must be known before the figures are used: different probes, what a probe includes, an end
/// before time, a filter, and the result's own notes.
pub fn notices(views: &Views<'_>, options: &Options, sheet: &mut Sheet<'_>) {
    if let Some(words) = different_probes(&views.views) {
        sheet.failures.push(("different probes", words));
    }
    if let Some(filter) = &options.filter {
        let kept: Vec<String> = views.views.iter().map(filtered).collect();
        let kept = kept.join("; ");
        sheet
            .notes
            .push(format!("Only datapoints with {filter}: {kept}."));
    }
    for view in &views.views {
        let (who, description) = (view.who(), &view.input.loaded.description);
        match description.probe {
            Probe::Bpf => {}
            Probe::User => sheet.failures.push((
                "user probe",
                format!(
                    "{who}Measured from user space, as cyclictest does: each figure runs from the \
                     timer to the first instruction of a waiting thread. It includes the interrupt, \
                     the scheduler and the switch to the thread, and the idle state is inferred from \
                     cpuidle's counters where these can be read."
                ),
            )),
            Probe::Foreign => sheet.notes.push(format!(
                "{who}Measured by another tool ({}): see its documentation for what the figures include.",
                description.tool
            )),
        }
        match &description.ended {
            Ended::Completed => {}
            Ended::Interrupted => sheet.notes.push(format!(
                "{who}The run was interrupted; what was gathered until then is complete."
            )),
            Ended::Disturbed(why) => sheet.failures.push(("disturbed", format!("{who}{why}"))),
        }
        let notes = description.notes.iter();
        sheet.notes.extend(notes.map(|note| format!("{who}{note}")));
    }
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
    let description = |view: &View<'_>| view.input.loaded.description.clone();
    let first = description(views.first()?).probe;
    if views.iter().all(|view| description(view).probe == first) {
        return None;
    }
    let probe = |view: &View<'_>| format!("{} {}", view.title(), by_probe(&description(view)));
    let probes: Vec<String> = views.iter().map(probe).collect();
    Some(format!(
        "These results were measured with different probes, which include different things: {}. A \
         difference between them is not a difference between machines or settings alone.",
        probes.join("; ")
    ))
}

/// The result's name, its CPU and its machine.
pub fn subject(description: &Description) -> String {
    let mut words = format!("{}: {}", description.name, description.settings.cpu_name());
    if let Some(model) = &description.machine.cpu_model {
        words += &format!(" of {model}");
    }
    if let Some(host) = &description.machine.hostname {
        words += &format!(" ({host})");
    }
    words
}

/// What measured, and what its figures include: after "measured".
pub fn by_probe(description: &Description) -> String {
    match description.probe {
        Probe::Bpf => "by BPF programs in the idle loop and at the interrupt's entry".to_owned(),
        Probe::User => {
            "by a waiting thread: the figures include the interrupt and the scheduler".to_owned()
        }
        Probe::Foreign => format!("by another tool ({})", description.tool),
    }
}

/// The state; with its source where there are several.
pub fn state(one: &StateStatistics, all: &[StateStatistics]) -> String {
    match all.iter().any(|other| other.source != one.source) {
        true => format!("{} ({})", one.state, one.source),
        false => one.state.clone(),
    }
}

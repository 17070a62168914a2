//! What stands between the figures and the truth, and what a result is of.

use reveille_show::quantity::listed;
use reveille_show::sheet::Sheet;

use super::view::View;
use crate::Description;
use crate::description::{Ended, Probe};

/// What must be known before the figures are used: different probes, what a probe includes, an end
/// before time, and the results' own notes, each once for all results that have it.
pub fn notices(views: &[View<'_>], sheet: &mut Sheet<'_>) {
    if let Some(words) = different_probes(views) {
        sheet.failures.push(("different probes", words));
    }
    sheet.notes.extend(differing(views));
    let (mut failures, mut notes) = (Shared::default(), Shared::default());
    for view in views {
        let description = &view.input.loaded.description;
        match description.probe {
            Probe::Bpf => {}
            Probe::User => failures.add(view, "user probe", USER_PROBE.to_owned()),
            Probe::Foreign => notes.add(
                view,
                "",
                format!(
                    "Measured by another tool ({}): see its documentation for what the figures include.",
                    description.tool
                ),
            ),
        }
        match &description.ended {
            Ended::Completed => {}
            Ended::Interrupted => {
                let words = "The run was interrupted; what was gathered until then is complete.";
                notes.add(view, "", words.to_owned());
            }
            Ended::Disturbed(why) => failures.add(view, "disturbed", why.clone()),
        }
        for note in &description.notes {
            notes.add(view, "", note.clone());
        }
    }
    sheet.failures.extend(failures.told());
    sheet
        .notes
        .extend(notes.told().into_iter().map(|(_, words)| words));
}

const USER_PROBE: &str = "Measured from user space, as cyclictest does: each figure runs from the timer to \
    the first instruction of a waiting thread. It includes the interrupt, the scheduler and the switch to the \
    thread, and the idle state is inferred from cpuidle's counters where these can be read.";

/// What is said of results: how, what, and the letters of those of which it is said.
#[derive(Default)]
struct Shared(Vec<(&'static str, String, Vec<String>)>);

impl Shared {
    fn add(&mut self, view: &View<'_>, how: &'static str, what: String) {
        let letter = view.letter.clone();
        let mut known = self.0.iter_mut();
        match known.find(|(a, b, _)| *a == how && *b == what) {
            Some((.., letters)) => letters.extend(letter),
            None => self.0.push((how, what, letter.into_iter().collect())),
        }
    }

    fn told(self) -> Vec<(&'static str, String)> {
        let told = |(how, what, letters): (_, String, Vec<String>)| match &letters[..] {
            [] => (how, what),
            letters => (how, format!("{}: {what}", listed(letters))),
        };
        self.0.into_iter().map(told).collect()
    }
}

/// Kernels that differ, and other tools that do: a difference between the results is one of these, too.
fn differing(views: &[View<'_>]) -> Vec<String> {
    let of = |what: &str, of: &dyn Fn(&Description) -> Option<String>| {
        let mut all = Shared::default();
        for view in views {
            let value = of(&view.input.loaded.description);
            all.add(view, "", value.unwrap_or_else(|| "unknown".to_owned()));
        }
        let each = all.0.iter();
        let each = each.map(|(_, value, letters)| format!("{value} ({})", listed(letters)));
        let each: Vec<String> = each.collect();
        (each.len() > 1).then(|| format!("The {what} differ: {}.", listed(&each)))
    };
    let kernels = of("kernels", &|one| one.machine.kernel.clone());
    let are_foreign = |view: &View<'_>| view.input.loaded.description.probe == Probe::Foreign;
    let tools = views.iter().all(are_foreign);
    let tools = tools.then(|| of("tools", &|one| Some(one.tool.clone())));
    kernels.into_iter().chain(tools.flatten()).collect()
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

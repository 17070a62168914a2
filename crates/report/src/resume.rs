//! The page of `reveille resume analyze`: where the time of a suspend and a resume went.

mod bars;
mod bins;
mod path;
mod power;
mod several;
mod stairs;
mod tables;
mod timeline;

use std::fmt::Write as _;

use reveille_resume::analysis::{Analysis, CycleResult, Machine, Spread, read};
use reveille_resume::cycle::Us;
use reveille_resume::graph::Half;
use serde_json::json;

use reveille_show::markup::escape;
use reveille_show::page::{RESUME_SCRIPT, framed};
use reveille_show::quantity::count;

use bars::time;

/// What the page shows besides the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The machines' names where there is none.
    pub title: Option<String>,
    /// Devices of the timeline and rows of tables; [`DEVICES`] where nothing is said.
    pub top: Option<usize>,
}

/// As many as in the paper's pictures.
pub const DEVICES: usize = 40;

/// The page of the JSON of `reveille resume analyze --json`.
///
/// # Errors
/// One line of what is wrong with it.
pub fn from_json(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let options = Options {
        title: title.map(str::to_owned),
        top: None,
    };
    Ok(page(&read(text)?, &options))
}

/// The page of an analysis. Of many cycles the one in the middle is drawn, and the others as their
/// spread.
pub fn page(analysis: &Analysis, options: &Options) -> String {
    let top = options.top.unwrap_or(DEVICES);
    let title = options.title.clone().unwrap_or_else(|| {
        let names = analysis
            .machines
            .iter()
            .map(|machine| machine.name.as_str());
        format!(
            "Suspend and resume: {}",
            names.collect::<Vec<_>>().join(", ")
        )
    });
    let about: Vec<String> = analysis.machines.iter().map(about).collect();
    let mut body = several::machines(&analysis.machines, top);
    for (place, machine) in analysis.machines.iter().enumerate() {
        body.push_str(&self::machine(analysis, place, machine, top));
    }
    let _ = write!(body, "<script>{RESUME_SCRIPT}</script>");
    framed(&title, &about, &body, NOTE, &json!([]))
}

const NOTE: &str = "Times are differences of the log's own stamps, without the time asleep where its clock \
                    goes on meanwhile. The critical path is the chain of what waited for what from \
                    a half's begin to its end; slack is how much longer a call could take \
                    without the whole getting longer. What-ifs keep every other duration as it was.";

fn about(machine: &Machine) -> String {
    let cycles = match machine.cycles.len() {
        1 => "1 cycle".to_owned(),
        cycles => format!("{} cycles", count(cycles as u64)),
    };
    let kernel = machine.source.kernel.as_ref();
    let known = [
        Some(machine.name.clone()),
        Some(cycles),
        machine.shown().sleep.clone(),
        kernel.map(|kernel| format!("Linux {kernel}")),
        machine.shown().at.clone(),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn machine(analysis: &Analysis, place: usize, machine: &Machine, top: usize) -> String {
    let cycle = machine.shown();
    let mut html = String::new();
    if analysis.machines.len() > 1 {
        let _ = write!(
            html,
            "<h2 id=\"machine-{place}\">{}</h2>",
            escape(&machine.name)
        );
    }
    let parts = [
        headline(machine, cycle),
        failures(machine),
        section(
            "Timeline of the resume",
            &timeline::timeline(cycle, Half::Resume, top),
        ),
        section(
            "Critical path of the resume",
            &path::table(cycle, Half::Resume),
        ),
        section(
            "What would be gained",
            &[
                stairs::stairs(machine),
                tables::removals(machine, Half::Resume, top),
            ]
            .concat(),
        ),
        section("Stages", &tables::stages(machine, cycle)),
        section(
            "When calls begin and end",
            &[bins::chart(cycle), several::cycles(machine, top)].concat(),
        ),
        section("Slack", &tables::slack(machine, Half::Resume, top)),
        section("Power", &power::power(machine)),
        section(
            "Timeline of the suspend",
            &timeline::timeline(cycle, Half::Suspend, top),
        ),
        section(
            "Critical path of the suspend",
            &path::table(cycle, Half::Suspend),
        ),
        section(
            "What would be gained in the suspend",
            &tables::removals(machine, Half::Suspend, top),
        ),
        section(
            "Slack in the suspend",
            &tables::slack(machine, Half::Suspend, top),
        ),
        notes(machine),
    ];
    html.push_str(&parts.concat());
    html
}

/// Nothing where there is nothing to show.
fn section(title: &str, body: &str) -> String {
    match body.is_empty() {
        true => String::new(),
        false => format!("<section><h2>{}</h2>{body}</section>", escape(title)),
    }
}

/// The three times, and what the path consists of.
fn headline(machine: &Machine, cycle: &CycleResult) -> String {
    let several = machine.cycles.len() > 1;
    let one = |name: &str, us: Option<Us>, all: Option<Spread>| {
        let us = us.map_or("of unknown length".to_owned(), time);
        let all = all.filter(|all| several && all.count > 1);
        let all = all.map_or(String::new(), |all| {
            format!(" ({} to {})", time(all.min), time(all.max))
        });
        format!("{name} <b>{}</b>{}", escape(&us), escape(&all))
    };
    let times = [
        one("suspend", cycle.suspend_us, machine.suspend_us),
        one("asleep", cycle.asleep_us, machine.asleep_us),
        one("resume", cycle.resume_us, machine.resume_us),
    ];
    let nearest = match machine.resume_us {
        Some(_) => ", whose resume is nearest to the median,",
        None => "",
    };
    let which = match several {
        true => format!(
            "Cycle {} of {}{nearest} stands for the others; in brackets the shortest and the longest. ",
            cycle.number,
            machine.cycles.len()
        ),
        false => String::new(),
    };
    format!(
        "<p class=\"headline\">{}.</p><p>{which}{}</p><p>{}</p>",
        times.join(", "),
        escape(&path::sentence(cycle, Half::Resume)),
        escape(&path::sentence(cycle, Half::Suspend))
    )
}

/// More of them are counted.
const MOST_FAILED: usize = 30;

/// What failed stands out.
fn failures(machine: &Machine) -> String {
    let mut html = String::new();
    let failed = machine.failed();
    for one in failed.iter().take(MOST_FAILED) {
        let _ = write!(
            html,
            "<p class=\"notice strong\" role=\"alert\"><b>Cycle {} {}.</b> {}</p>",
            one.cycle,
            one.how,
            escape(&one.what)
        );
    }
    let more = failed.len().saturating_sub(MOST_FAILED);
    if more > 0 {
        let _ = write!(
            html,
            "<p class=\"notice strong\">And {} more.</p>",
            count(more as u64)
        );
    }
    html
}

fn notes(machine: &Machine) -> String {
    let mut notes = machine.notes.clone();
    let left_out = &machine.source.left_out;
    if !left_out.is_empty() {
        let counts: Vec<String> = left_out
            .iter()
            .map(|(why, times)| format!("{} {why}", count(*times)))
            .collect();
        notes.push(format!("Left out of the log: {}.", counts.join(", ")));
    }
    let one = |note: &String| format!("<p class=\"notice\" role=\"note\">{}</p>", escape(note));
    notes.iter().map(one).collect()
}

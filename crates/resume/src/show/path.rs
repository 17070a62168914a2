//! The critical path as a table, and in a sentence.

use reveille_resume::analysis::{
    CycleResult, LinkKind, LinkResult, extent, half_name, no_devices, no_length, stage_words,
    why_words,
};
use reveille_resume::cycle::{StageKind, Us};
use reveille_resume::graph::Half;

use super::time;
use reveille_show::html_table::{Origin, Table};
use reveille_show::quantity::share;

/// Rows of the table; what is shorter is put together.
const LINKS: usize = 40;

/// Of the whole; what is shorter is put together, too.
const LEAST_SHARE: f64 = 0.0005;

/// How much of the path is devices, CPUs, the kernel itself, and what the log does not tell.
pub fn sentence(cycle: &CycleResult, half: Half) -> String {
    let (path, name) = (cycle.path_of(half), half_name(half));
    let total = total(path);
    if total <= 0 {
        if cycle.unreturned(half).next().is_some() {
            return no_devices(cycle, half).unwrap_or_default();
        }
        return match half {
            Half::Resume => no_length(cycle, half)
                .map_or(String::new(), |why| format!("{why}: no critical path.")),
            Half::Suspend => String::new(),
        };
    }
    let extent = extent(cycle, half);
    let no_devices = no_devices(cycle, half);
    let mut parts: Vec<(&str, Us)> = Vec::new();
    for link in path {
        let part = part(cycle, link, half, no_devices.is_some());
        match parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, us)) => *us += link.duration_us,
            None => parts.push((part, link.duration_us)),
        }
    }
    parts.retain(|(_, us)| *us > 0);
    parts.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
    let parts: Vec<String> = parts
        .iter()
        .map(|(what, us)| format!("{what} {}", share(*us as f64 / total as f64)))
        .collect();
    let parts = parts.join(", ");
    if let Some(why) = no_devices {
        return format!("The {name}{extent} is {parts}.{} {why}", silence(path));
    }
    let longest = path.iter().filter(|link| link.what == LinkKind::Call);
    let longest = longest.max_by_key(|link| link.duration_us);
    let longest = longest.map_or(String::new(), |link| {
        format!(
            " Its longest call is {} ({}), {}.",
            link.words(),
            stage_words(link.stage),
            time(link.duration_us)
        )
    });
    format!("The critical path of the {name}{extent} is {parts}.{longest}")
}

/// What a link's time went to.
fn part(cycle: &CycleResult, link: &LinkResult, half: Half, no_devices: bool) -> &'static str {
    let mut stages = cycle.stages.iter();
    let stage = stages.find(|stage| stage.stage == link.stage);
    let is_within = stage.is_some_and(|stage| stage.start_us <= link.start_us);
    let is_of_devices = matches!(
        link.stage,
        StageKind::Prepare
            | StageKind::Suspend
            | StageKind::SuspendLate
            | StageKind::SuspendNoirq
            | StageKind::ResumeNoirq
            | StageKind::ResumeEarly
            | StageKind::Resume
            | StageKind::Complete
    );
    match link.what {
        LinkKind::Call => "devices",
        LinkKind::Cpu | LinkKind::BeforeCpu => match half {
            Half::Suspend => "CPUs that go off",
            Half::Resume => "CPUs that come on",
        },
        LinkKind::Printing => "printing",
        LinkKind::NotTold => "waits that the log does not explain",
        LinkKind::Silence | LinkKind::Stage => match link.stage {
            _ if !is_within => "silences between stages",
            StageKind::Freeze => "the freezing of processes",
            StageKind::Thaw => "the thawing of processes",
            _ if is_of_devices && no_devices => "stages of devices",
            _ if link.what == LinkKind::Silence => "silences of the kernel",
            _ => "the kernel's own work",
        },
        LinkKind::BeforeStage | LinkKind::BeforeCall => "the kernel's own work",
    }
}

/// The longest silence that the kernel's last message before it names.
fn silence(path: &[LinkResult]) -> String {
    let silences = path.iter().filter(|link| link.message.is_some());
    let longest = silences.max_by_key(|link| link.duration_us);
    longest.map_or(String::new(), |link| {
        format!(
            " Its longest silence, {}, is after \u{201c}{}\u{201d}.",
            time(link.duration_us),
            link.message.as_deref().unwrap_or_default()
        )
    })
}

fn total(path: &[LinkResult]) -> Us {
    path.iter().map(|link| link.duration_us).sum()
}

pub fn table(cycle: &CycleResult, half: Half) -> String {
    let path = cycle.path_of(half);
    let total = total(path);
    if total <= 0 {
        return String::new();
    }
    let heads = [
        ("what", None),
        ("driver", None),
        ("stage", None),
        ("why then", None),
        ("at", Some(Origin::Measured)),
        ("takes", Some(Origin::Measured)),
        ("share", None),
    ];
    let caption = format!(
        "What waited for what, {}",
        match no_length(cycle, half) {
            None => format!("from the {}'s begin to its end", half_name(half)),
            Some(_) => format!("in the {}{}", half_name(half), extent(cycle, half)),
        }
    );
    let mut table = Table::new(&caption, 4, &heads);
    let mut lengths: Vec<Us> = path.iter().map(|link| link.duration_us).collect();
    lengths.sort_unstable_by_key(|us| std::cmp::Reverse(*us));
    let least = lengths.get(LINKS).copied().unwrap_or(0);
    let least = least.max((total as f64 * LEAST_SHARE) as Us);
    let mut smaller: Vec<&LinkResult> = Vec::new();
    for link in path {
        if link.duration_us < least {
            smaller.push(link);
            continue;
        }
        together(&mut table, &mut smaller, total);
        table.row(&[
            short(&link.words()),
            link.driver.as_deref().unwrap_or_default().to_owned(),
            stage_words(link.stage).to_owned(),
            why_words(link.why).to_owned(),
            time(link.start_us - path[0].start_us),
            time(link.duration_us),
            share(link.duration_us as f64 / total as f64),
        ]);
    }
    together(&mut table, &mut smaller, total);
    table.html()
}

/// Letters of a message that the table has room for.
const LETTERS: usize = 56;

fn short(words: &str) -> String {
    match words.chars().count() > LETTERS {
        true => words.chars().take(LETTERS - 1).chain(['…']).collect(),
        false => words.to_owned(),
    }
}

/// One row for those that are too short for their own.
fn together(table: &mut Table, smaller: &mut Vec<&LinkResult>, total: Us) {
    if smaller.is_empty() {
        return;
    }
    let us: Us = smaller.iter().map(|link| link.duration_us).sum();
    table.row(&[
        format!("({} shorter)", smaller.len()),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        time(us),
        share(us as f64 / total as f64),
    ]);
    smaller.clear();
}

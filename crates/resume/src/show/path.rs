//! The critical path as a table, and in a sentence.

use reveille_show::columns;
use reveille_show::quantity::{counted, shortened};
use reveille_show::sheet::{Column, Section, Table};

use crate::analysis::{
    CycleResult, LinkKind, LinkResult, Machine, Removal, extent, half_name, no_devices, no_length,
    silence as silence_words, stage_words, why_words,
};
use crate::cycle::{Gap, Name, StageKind, Us, WITH_CALLS, time};
use crate::graph::Half;
use crate::path::Why;

/// What the time of a half with a path went to, its longest call or silence; why the devices are unknown, if they
/// are.
fn sentence(machine: &Machine, half: Half) -> String {
    let cycle = machine.shown();
    let (path, name) = (cycle.path_of(half), half_name(half));
    let total = total(path);
    let extent = extent(cycle, half);
    let parts = shares(cycle, half, usize::MAX);
    let parts = format!("takes {}: {parts}", time(total));
    if let Some(why) = no_devices(cycle, half) {
        // The resume's sentence has it.
        let is_said = half == Half::Suspend && cycle.has(half) == cycle.has(Half::Resume);
        let why = match is_said {
            true => String::new(),
            false => format!(" {why}"),
        };
        return format!("The {name}{extent} {parts}.{why}");
    }
    let longest = longest_call(path).map_or(String::new(), |link| {
        format!(
            " Its longest call is {}, {} of {}.{}",
            named(machine, link),
            time(link.duration_us),
            stage_words(link.stage),
            said(cycle, link, usize::MAX)
        )
    });
    format!("The critical path of the {name}{extent} {parts}.{longest}")
}

/// Why a half has no path, and what shows it; empty where another sentence has the reason.
pub(super) fn no_path(cycle: &CycleResult, half: Half) -> String {
    if !cycle.returns(half) {
        return no_devices(cycle, half).unwrap_or_default();
    }
    let Some(why) = no_length(cycle, half) else {
        return String::new();
    };
    let is_unmarked = half == Half::Suspend || cycle.resume_start_us.is_none();
    let is_all = !cycle.aborted && cycle.words.last.is_some();
    let shows = match is_unmarked && is_all && cycle.stamped {
        true => {
            " `echo 1 > /sys/power/pm_debug_messages`, or `resume capture`, makes the kernel log it."
        }
        false => "",
    };
    format!("{why}: no critical path.{shows}")
}

/// What decides how long a half takes, in short: the longest call where it is a quarter of it, or else
/// where most of the time goes.
pub(super) fn answer(machine: &Machine, half: Half) -> String {
    let cycle = machine.shown();
    let removals = machine.removals_of(half);
    let (path, name) = (cycle.path_of(half), half_name(half));
    let total = total(path);
    let whole = format!("{name}{}", extent(cycle, half));
    let parts = shares(cycle, half, PARTS);
    let parts = format!("The {whole} takes {}: {parts}.", time(total));
    if no_devices(cycle, half).is_some() {
        return parts + &silence(path);
    }
    let Some(link) = leading(path) else {
        let longest = longest_call(path).map_or(String::new(), |link| {
            let takes = time(link.duration_us);
            format!(" The longest call is {}, {takes}.", named(machine, link))
        });
        return parts + &longest;
    };
    let takes = format!("{} takes {}", named(machine, link), time(link.duration_us));
    let takes = format!("{takes} of the {} of the {whole}", time(total));
    let said = said(cycle, link, MESSAGE);
    // Where its length is unknown, so is what a removal saves.
    if no_length(cycle, half).is_some() {
        return format!("{takes}.{said}");
    }
    let device = link.device.as_ref();
    let is_its = |one: &&Removal| device.is_some_and(|name| one.takes(name));
    let Some(without) = removals.iter().find(is_its) else {
        return format!(
            "{takes}; removing it does not shorten the {name}: others take as long.{said}"
        );
    };
    let next = without.next.as_ref().map_or(String::new(), |next| {
        let next = machine.called(&next.device, next.driver.as_ref());
        format!(": {next} is next")
    });
    let below = match without.with_below as u64 {
        _ if device != Some(&without.device) => format!("without {} below it", without.device),
        0 => "without it".to_owned(),
        below => format!("without it and {} below it", counted(below, "device")),
    };
    format!(
        "{takes}; {below} the {name} takes {}{next}.{said}",
        time(without.total_us)
    )
}

/// A call of at least 1/4 of the path leads the answer.
const LEADS: Us = 4;

/// Parts of the time that the answer names.
const PARTS: usize = 3;

/// Letters of a kernel's message in the answer.
const MESSAGE: usize = 60;

/// The call that the answer begins with.
pub(super) fn leading(path: &[LinkResult]) -> Option<&LinkResult> {
    longest_call(path).filter(|link| link.duration_us * LEADS >= total(path))
}

fn longest_call(path: &[LinkResult]) -> Option<&LinkResult> {
    let calls = path.iter().filter(|link| link.what == LinkKind::Call);
    calls.max_by_key(|link| link.duration_us)
}

fn named(machine: &Machine, link: &LinkResult) -> String {
    match &link.device {
        Some(device) => machine.called(device, link.driver.as_ref()),
        None => link.words(),
    }
}

/// What the kernel said of a call's device within it, in so many letters.
fn said(cycle: &CycleResult, link: &LinkResult, letters: usize) -> String {
    let within = link.start_us..=link.start_us + link.duration_us;
    let device = link.device.as_ref().filter(|_| link.what == LinkKind::Call);
    let said = device.and_then(|device| cycle.said_of(device, within));
    said.map_or(String::new(), |said| {
        let into = time(said.at - link.start_us);
        let message = shortened(&said.message, letters);
        let device = &said.device;
        format!(" {into} into the call of {device} the kernel says \u{201c}{message}\u{201d}.")
    })
}

/// Devices, CPUs, the kernel itself and what the log does not explain, as shares of a path: the `most`
/// largest.
fn shares(cycle: &CycleResult, half: Half, most: usize) -> String {
    let path = cycle.path_of(half);
    let no_devices = no_devices(cycle, half).is_some();
    let mut parts: Vec<(&str, Us)> = Vec::new();
    for link in path {
        let part = part(cycle, link, half, no_devices);
        match parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, us)) => *us += link.duration_us,
            None => parts.push((part, link.duration_us)),
        }
    }
    let total = total(path) as f64;
    parts.retain(|(_, us)| *us as f64 / total >= LEAST_SHARE);
    parts.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
    let shares = parts.iter().take(most);
    let shares = shares.map(|(what, us)| format!("{what} {:.1}%", 100.0 * *us as f64 / total));
    Vec::from_iter(shares).join(", ")
}

/// What a link's time went to.
fn part(cycle: &CycleResult, link: &LinkResult, half: Half, no_devices: bool) -> &'static str {
    let mut stages = cycle.stages.iter();
    let stage = stages.find(|stage| stage.stage == link.stage);
    let is_within = stage.is_some_and(|stage| {
        let end = stage.duration_us.map(|us| stage.start_us + us);
        stage.start_us <= link.start_us && end.is_none_or(|end| link.start_us < end)
    });
    let is_of_devices = WITH_CALLS.contains(&link.stage);
    let thawing = cycle
        .words
        .thawing
        .filter(|_| link.stage == StageKind::Thaw);
    match link.what {
        // A console that catches up before processes run.
        LinkKind::Silence if thawing.is_some_and(|thawing| link.start_us < thawing) => {
            "silences between stages"
        }
        LinkKind::Call => "devices",
        LinkKind::Cpu | LinkKind::BeforeCpu => half.of("CPUs that go off", "CPUs that come on"),
        LinkKind::Printing => "printing",
        LinkKind::Unexplained => "unexplained waits",
        LinkKind::Silence | LinkKind::Stage | LinkKind::BeforeStage => match link.stage {
            StageKind::Sync | StageKind::Freeze if !is_within => "what precedes freezing",
            StageKind::Thaw if !is_within && stage.is_some() => "what follows thawing",
            StageKind::Thaw if !is_within => "thawing and what follows it",
            _ if !is_within && link.what == LinkKind::Silence => "silences between stages",
            _ if link.what == LinkKind::BeforeStage && no_devices => "time between stages",
            StageKind::Sync => "the sync of file systems",
            StageKind::Freeze => "the freezing of processes",
            StageKind::Thaw => "the thawing of processes",
            _ if is_of_devices && no_devices => "stages of devices",
            _ if link.what == LinkKind::Silence => "silences of the kernel",
            _ => "the kernel's own work",
        },
        LinkKind::BeforeCall => "the kernel's own work",
    }
}

/// The longest silence of a path that the kernel's last message before it names.
fn silence(path: &[LinkResult]) -> String {
    let silences = path.iter().filter(|link| link.message.is_some());
    let longest = silences.max_by_key(|link| link.duration_us);
    longest.map_or(String::new(), |link| {
        let between = [&link.message, &link.ended_by].map(|text| text.as_deref());
        longest_silence(link.duration_us, between.map(Option::unwrap_or_default))
    })
}

/// A silence of a half without a path.
pub(super) fn gap(cycle: &CycleResult, gap: &Gap) -> String {
    // Coarse stamps show a bound.
    let step = Some(cycle.resolution_us).filter(|&step| step > 1);
    let us = gap.end - gap.start - step.unwrap_or(0);
    longest_silence(us, [&gap.message, &gap.ended_by])
}

fn longest_silence(us: Us, [from, to]: [&str; 2]) -> String {
    let quoted = |text| format!("\u{201c}{}\u{201d}", shortened(text, MESSAGE));
    let is = match to {
        "" => format!("after {}", quoted(from)),
        _ => format!("from {} to {}", quoted(from), quoted(to)),
    };
    format!(" Its longest silence, {}, is {is}.", time(us))
}

/// The length of a path.
pub(super) fn total(path: &[LinkResult]) -> Us {
    path.iter().map(|link| link.duration_us).sum()
}

/// A row of the path's table: a link, or several that are too short for a row of their own.
#[derive(Default)]
pub(super) struct PathRow {
    what: String,
    driver: Option<Name>,
    stage: Option<StageKind>,
    why: Option<Why>,
    at_us: Option<Us>,
    takes_us: Us,
    share: f64,
}

pub(super) const PATH: &[Column<PathRow>] = &columns!(|row|
    words "what", "what", row.what.as_str(), "The device, or the kernel's own work";
    words detail "driver", "driver", row.driver.as_deref(), "Of the device, if the log has it";
    words "stage", "stage", row.stage.map(stage_words), "The stage that it lies in";
    words "why", "why then", row.why.map(why_words), "Why it could not start earlier";
    measured(UsAsMs) "at_us", "at", row.at_us,
        "Its `start_us` since the start of the suspend or resume";
    measured(UsAsMs) "duration_us", "takes", row.takes_us, "How long it takes";
    measured(Share) "share", "share", row.share, "Its `duration_us` as a share of the path";
);

/// The path of a half, or why there is none.
pub(super) fn section(
    id: &'static str,
    machine: &Machine,
    half: Half,
    rows: usize,
) -> Section<'static> {
    let cycle = machine.shown();
    let (path, name) = (cycle.path_of(half), half_name(half));
    let (total, extent) = (total(path), extent(cycle, half));
    let unknown = no_devices(cycle, half);
    let heading = match &unknown {
        None => format!("Critical path of the {name}{extent}"),
        Some(_) => format!("Where the time of the {name} goes{extent}"),
    };
    let mut section = Section::new(id, heading).titled();
    if total <= 0 {
        if half == Half::Suspend && !cycle.returns(half) {
            section = section.text(unknown.unwrap_or_default());
        }
        // The answer has the reason for the resume.
        return gaps(cycle, half).into_iter().fold(section, Section::text);
    }
    section = section.text(sentence(machine, half));
    section = section.table(Table {
        largest: Some("duration_us"),
        ..table(machine, half).first(rows)
    });
    let is_most = cycle.at_least_us_of(half).is_none_or(|us| us <= 2 * total);
    let silences = match is_most {
        true => silences(path),
        false => gaps(cycle, half),
    };
    section = silences.into_iter().fold(section, Section::text);
    let unexplained = path.iter();
    let unexplained = unexplained.filter(|link| link.what == LinkKind::Unexplained);
    match unexplained.map(|link| link.duration_us).sum::<Us>() {
        0 => section,
        us => section.text(format!(
            "The log does not show what {} of it waited for: a supplier of the device, a lock, a busy \
             CPU.",
            time(us)
        )),
    }
}

/// Links that get a row of their own; shorter ones are put together.
const LINKS: usize = 40;

/// Of the whole; what is shorter is put together, too.
const LEAST_SHARE: f64 = 0.0005;

/// A call with the first of its device's other names.
fn words(machine: &Machine, link: &LinkResult) -> String {
    let device = link.device.as_ref().filter(|_| link.what == LinkKind::Call);
    match device.and_then(|device| machine.known_as.get(device)?.first()) {
        Some(known) => format!("{} ({known})", link.words()),
        None => link.words(),
    }
}

fn table(machine: &Machine, half: Half) -> Table {
    let path = machine.shown().path_of(half);
    let total = total(path);
    let mut lengths: Vec<Us> = path.iter().map(|link| link.duration_us).collect();
    lengths.sort_unstable_by_key(|us| std::cmp::Reverse(*us));
    let least = lengths.get(LINKS).copied().unwrap_or(0);
    let least = least.max((total as f64 * LEAST_SHARE) as Us);
    let mut rows = Vec::new();
    for links in path.chunk_by(|one, next| one.duration_us.max(next.duration_us) < least) {
        let takes_us = links.iter().map(|link| link.duration_us).sum();
        let share = takes_us as f64 / total as f64;
        rows.push(match links {
            [link] if link.duration_us >= least => PathRow {
                what: shortened(&words(machine, link), LETTERS),
                driver: link.driver.clone(),
                stage: Some(link.stage),
                why: Some(link.why),
                at_us: Some(link.start_us - path[0].start_us),
                takes_us,
                share,
            },
            several => PathRow {
                what: format!("({} shorter)", several.len()),
                takes_us,
                share,
                ..PathRow::default()
            },
        });
    }
    let caption = format!("Chain of waits in the {}", half_name(half));
    Table::of(caption, PATH, &rows)
}

/// Letters of a message that a table has room for.
const LETTERS: usize = 56;

/// A silence of at least 1/20 of a half is listed.
const LONG: Us = 20;

/// Silences in a list.
const MOST_GAPS: usize = 5;

/// The kernel's messages before the long silences, in full: a table has little room.
fn silences(path: &[LinkResult]) -> Option<String> {
    let total = total(path);
    let long = path.iter().filter(|link| link.duration_us >= total / LONG);
    listed(long.filter_map(|link| {
        let message = link.message.as_ref()?;
        let (at, us) = (link.start_us - path[0].start_us, link.duration_us);
        let between = silence_words(message, link.ended_by.as_deref());
        Some(format!("{} from {} on, {between}", time(us), time(at)))
    }))
}

/// Where the stages are unknown, the longest silences.
fn gaps(cycle: &CycleResult, half: Half) -> Option<String> {
    let mut gaps = Vec::from_iter(cycle.gaps_of(half));
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.end - gap.start));
    let gaps = gaps.into_iter().take(MOST_GAPS);
    listed(gaps.map(|gap| {
        let between = silence_words(&gap.message, Some(&gap.ended_by));
        format!("{} {between}", time(gap.end - gap.start))
    }))
}

fn listed(silences: impl Iterator<Item = String>) -> Option<String> {
    let silences: Vec<String> = silences.collect();
    let words = format!("Without a message of the kernel: {}", silences.join("; "));
    (!silences.is_empty()).then_some(words)
}

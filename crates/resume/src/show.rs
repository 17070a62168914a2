//! The analysis for people: the names, units and words of its figures.

mod bins;
mod path;
mod power;
mod spread;
mod tables;
mod timeline;

use reveille_show::chart::Bars;
use reveille_show::chart::bars::{Part, Row};
use reveille_show::page::RESUME_SCRIPT;
use reveille_show::quantity::{self, counted};
use reveille_show::sheet::{Section, Sheet};

use crate::analysis::{
    Analysis, CycleResult, Machine, Removal, Replay, Spread, WhatIf, half_name, no_devices,
    no_length, stage_words,
};
use crate::cycle::{Name, Us, time};
use crate::graph::Half;
pub use tables::reference;

/// Devices in a timeline by default: as many as in the paper's figures.
pub const DEVICES: usize = 40;

/// Rows of a table on a terminal by default.
pub const ROWS: usize = 6;

/// Names that a sentence lists; the JSON has all.
const NAMES: usize = 20;

const FOOT: &str = "Times are differences of the log's timestamps, without the time asleep if the log's clock \
                    continues during sleep. The critical path is the chain of waits from the start to the \
                    end of a suspend or a resume. Slack is how much longer a call could take without \
                    lengthening the whole; a call without slack is on a critical path. A what-if leaves all \
                    other durations as they are.";

/// The analysis for every medium. `top`: rows of a table on a terminal and devices in a timeline.
pub fn sheet(analysis: &Analysis, top: Option<usize>) -> Sheet<'_> {
    let machines = &analysis.machines;
    let mut sheet = match machines.as_slice() {
        [one] => machine(one, top),
        several => side_by_side(several, top),
    };
    let names: Vec<&str> = machines.iter().map(|one| &*one.name).collect();
    sheet.title = format!("Suspend and resume: {}", names.join(", "));
    sheet.about = machines.iter().map(|one| about(one, " · ")).collect();
    sheet.script = RESUME_SCRIPT;
    sheet.foot = FOOT;
    sheet
}

/// The machine, in short.
fn about(machine: &Machine, between: &str) -> String {
    let cycle = machine.shown();
    let kernel = machine.source.kernel.as_ref();
    let known = [
        Some(machine.name.clone()),
        Some(counted(machine.cycles.len() as u64, "cycle")),
        modes(machine),
        kernel.map(|kernel| format!("Linux {kernel}")),
        cycle.at.clone(),
    ];
    Vec::from_iter(known.into_iter().flatten()).join(between)
}

/// How the machine slept; of several ways, how often in each.
fn modes(machine: &Machine) -> Option<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let cycles = machine.cycles.iter();
    for mode in cycles.filter_map(|cycle| cycle.sleep.as_deref()) {
        match counts.iter_mut().find(|(one, _)| *one == mode) {
            Some((_, count)) => *count += 1,
            None => counts.push((mode, 1)),
        }
    }
    let all = counts.iter().map(|(mode, count)| format!("{count} {mode}"));
    match &counts[..] {
        [] => None,
        [(mode, count)] if *count == machine.cycles.len() => Some((*mode).to_owned()),
        _ => Some(Vec::from_iter(all).join(", ")),
    }
}

fn machine(machine: &Machine, top: Option<usize>) -> Sheet<'_> {
    let (cycle, rows) = (machine.shown(), top.unwrap_or(ROWS));
    let mut sheet = Sheet {
        title: machine.name.clone(),
        answer: answer(machine),
        ..Sheet::default()
    };
    facts(machine, &mut sheet);
    let failed = machine.failed();
    let failed = failed.iter().map(|one| (one.how, machine.placed(one)));
    sheet.failures.extend(failed);
    for (place, one) in machine.hibernations.iter().enumerate() {
        let failures = one.failures.iter();
        let failures =
            failures.map(|what| ("failed", format!("suspend to disk {}: {what}", place + 1)));
        sheet.failures.extend(failures);
    }
    sheet.notes = machine.notes.clone();
    let stages = tables::stages(machine, cycle).first(rows);
    sheet.section(Section::new("stages", "Stages").table(stages));
    half(machine, Half::Resume, top, &mut sheet);
    what_if(machine, rows, &mut sheet);
    let bins = Section::new("starts", "When calls start and return");
    if let Some(chart) = bins::Chart::of(cycle) {
        sheet.section(bins.chart(move || chart.html()));
    }
    let is_timed = |one: &CycleResult| one.suspend_us.or(one.resume_us).is_some();
    if machine.cycles.len() > 1 && machine.cycles.iter().any(is_timed) {
        let cycles = Section::new("cycles", "Suspend and resume of each cycle");
        sheet.section(cycles.chart(|| spread::cycles(machine)));
    }
    if let Some(power) = &machine.power {
        let section = Section::new("power", "Power").titled();
        let section = section.text(power::sentence(power));
        let section = section.chart(|| power::chart(power));
        sheet.section(section.table(tables::power(power)));
        sheet.notes.extend(power.notes.iter().cloned());
    }
    half(machine, Half::Suspend, top, &mut sheet);
    sheet
}

/// The log, the cycle, and its three times.
fn facts(machine: &Machine, sheet: &mut Sheet<'_>) {
    let (cycle, all) = (machine.shown(), machine.cycles.len());
    sheet.fact("Log", about(machine, ", "));
    if all > 1 {
        let nearest = match machine.resume_us {
            Some(_) => ", whose resume is nearest to the median",
            None => "",
        };
        // Cycles without any stage have a number and are not among them.
        let of = match machine.cycles.last().is_some_and(|last| last.number == all) {
            true => format!("{} of {all}", cycle.number),
            false => format!("{} ({all} cycles have stages)", cycle.number),
        };
        sheet.fact("Cycle", of + nearest);
    }
    let at_most = cycle.asleep_at_most_us.map(|us| ("at most", us));
    let of = |half| {
        let at_least = cycle.at_least_us_of(half).map(|us| ("at least", us));
        // The path of a half that the log has a part of.
        let known = path::total(cycle.path_of(half));
        (cycle.us_of(half), at_least, known)
    };
    for (word, (us, bound, known), all) in [
        ("Suspend", of(Half::Suspend), machine.suspend_us),
        ("Asleep", (cycle.asleep_us, at_most, 0), machine.asleep_us),
        ("Resume", of(Half::Resume), machine.resume_us),
    ] {
        let us = match (us, bound) {
            (Some(us), _) => time(us),
            (None, Some((bound, us))) => format!("{bound} {}", time(us)),
            (None, None) if known > 0 => format!("unknown; {} in the log", time(known)),
            (None, None) => "unknown".to_owned(),
        };
        let all = all.filter(|all| all.count > 1);
        let all = all.map_or(String::new(), |all| format!("; {}", range(all)));
        sheet.fact(word, us + &all);
    }
    if let Some(us) = cycle.whole_us() {
        let words = "from entry to exit by the log's clock, which stands still in deep sleep if it is the kernel's";
        sheet.fact("Whole", format!("{} {words}", time(us)));
    }
    if let Some(firmware) = cycle.firmware {
        let mut words = format!("{} before the kernel's resume", time(firmware.resume_us));
        if firmware.suspend_us > 0 {
            words += &format!(", {} after its suspend", time(firmware.suspend_us));
        }
        sheet.fact("Firmware", words);
    }
    for (place, one) in machine.hibernations.iter().enumerate().take(ROWS) {
        sheet.fact("To disk", format!("{}: {}", place + 1, one.words()));
    }
    if !cycle.woken.is_empty() {
        sheet.fact("Woken by", cycle.woken.join(", then "));
    }
    let left_out = machine.source.left_out.iter();
    let left_out = left_out.map(|(why, times)| format!("{} {why}", quantity::count(*times)));
    let left_out = Vec::from_iter(left_out).join(", ");
    if !left_out.is_empty() {
        sheet.fact("Left out", left_out);
    }
}

/// What failed; what decides how long the half that matters takes, and what would make it shorter.
fn answer(machine: &Machine) -> String {
    let (cycle, answer) = (machine.shown(), machine.answer());
    let sentence = match answer.half {
        _ if cycle.is_to_disk() => {
            let many = counted(machine.hibernations.len() as u64, "suspend");
            format!("Nothing but {many} to disk is read of the log, and no stages of it.")
        }
        None => String::new(),
        Some(half) if answer.by_path => path::answer(machine, half) + &shorter(machine, half),
        Some(half) => {
            let mut stages = machine.stages.iter();
            let longest = stages.find(|one| Some(one.stage) == answer.stage);
            let takes = match (longest, cycle.at_least_us_of(half)) {
                (Some(one), _) => {
                    let (stage, takes) = (stage_words(one.stage), time(one.duration_us.median));
                    let of = match one.duration_us.count {
                        1 => String::new(),
                        count => format!(" (median of {count} cycles)"),
                    };
                    format!("The longest stage is {stage}, {takes}{of}.")
                }
                (None, Some(us)) => format!("The {} takes {} at least.", half_name(half), time(us)),
                (None, None) => String::new(),
            };
            let silence = answer.gap.map(|gap| path::gap(cycle, &gap));
            let why = path::no_path(cycle, half);
            format!("{takes}{} {why}", silence.unwrap_or_default())
        }
    };
    let failed = answer.failed.unwrap_or_default();
    format!("{failed} {}", sentence.trim()).trim().to_owned()
}

/// What makes a half shorter that has a path.
fn shorter(machine: &Machine, half: Half) -> String {
    let changed = machine.what_if.as_ref();
    if let Some((what_if, last)) = changed.and_then(|one| Some((one, one.replays.last()?))) {
        return with_changes(what_if, last);
    }
    let leads = path::leading(machine.shown().path_of(half));
    let leads = leads.and_then(|link| link.device.as_ref());
    match machine.removals_of(half).first() {
        // The sentence has what removing its device saves.
        Some(best) if leads.is_none_or(|device| !best.takes(device)) => format!(
            " The best single removal is {}: {}, {} less.",
            with_below(machine, best),
            time(best.total_us),
            time(best.saves_us)
        ),
        _ => String::new(),
    }
}

fn with_changes(what_if: &WhatIf, last: &Replay) -> String {
    let changes = match what_if.replays.len() {
        1 => "the change",
        _ => "all changes",
    };
    let [before, after] = [what_if.measured_us, last.total_us].map(time);
    let saved = what_if.measured_us - last.total_us;
    let takes = match (saved, before == after) {
        (0, _) => "as long".to_owned(),
        (1.., true) => format!("{} less", time(saved)),
        (_, true) => format!("{} more", time(-saved)),
        (_, false) => format!("{after} instead of {before}"),
    };
    format!(" With {changes} the resume takes {takes}.")
}

/// `usb1 (usb) with 3 devices below it`
fn with_below(machine: &Machine, removal: &Removal) -> String {
    let device = machine.called(&removal.device, removal.driver.as_ref());
    match removal.with_below as u64 {
        0 => device,
        below => format!("{device} with {} below it", counted(below, "device")),
    }
}

/// Timeline, path, devices, calls and removals of a suspend or a resume.
fn half<'a>(machine: &'a Machine, half: Half, top: Option<usize>, sheet: &mut Sheet<'a>) {
    let (cycle, name) = (machine.shown(), half_name(half));
    // Of the suspend a terminal has a sentence.
    let rows = top.unwrap_or(half.of(0, ROWS));
    let ids = match half {
        Half::Resume => ["timeline", "path", "devices", "removals"],
        Half::Suspend => [
            "suspend-timeline",
            "suspend-path",
            "suspend-devices",
            "suspend-removals",
        ],
    };
    if let Some(drawing) = timeline::Drawing::of(cycle, half, top.unwrap_or(DEVICES)) {
        let section = Section::new(ids[0], format!("Timeline of the {name}"));
        sheet.section(section.chart(move || drawing.html()));
    }
    sheet.section(path::section(ids[1], machine, half, rows));
    let medians = match machine.cycles.len() {
        1 => "",
        _ => ", medians of all cycles",
    };
    let mut section =
        Section::new(ids[2], format!("Slowest devices in the {name}{medians}")).titled();
    let devices = tables::devices(machine, half).first(rows);
    if half == Half::Resume && machine.cycles.len() > 1 && !devices.rows.is_empty() {
        section = section.chart(|| spread::devices(std::slice::from_ref(machine)));
    }
    let section = section.table(devices);
    sheet.section(section.table(tables::calls(cycle, half).first(0)));
    let heading = format!("What each device alone would save in the {name}, with all below it");
    let section = Section::new(ids[3], heading).titled();
    // If single devices are unknown the path's section has the reason.
    let is_known = !cycle.path_of(half).is_empty() && no_devices(cycle, half).is_none();
    if is_known {
        let removals = machine.removals_of(half);
        sheet.section(match no_length(cycle, half) {
            Some(why) => section.text(format!("{why}: what a removal would save is unknown.")),
            None if removals.is_empty() => section.text(format!(
                "No single device shortens the {name} if it is removed."
            )),
            None => section.table(tables::removals(machine, removals).first(rows)),
        });
    }
}

/// The changes that were asked for, and the best removals after them.
fn what_if(machine: &Machine, rows: usize, sheet: &mut Sheet<'_>) {
    let heading = format!(
        "What if, each change on top of those before it (cycle {})",
        machine.shown
    );
    let mut section = Section::new("what-if", heading).titled();
    section = section.bars(stairs(machine));
    if let Some(what_if) = &machine.what_if {
        section = section.table(tables::replays(what_if).first(usize::MAX));
        let removed = what_if.replays.iter().filter(|one| !one.removed.is_empty());
        for replay in removed {
            let (change, names) = (&replay.change, listed(replay.removed.iter()));
            section = section.text(format!("{change}: removes {names}."));
        }
        for replay in &what_if.replays {
            let Some(last) = replay.deferred.iter().max_by_key(|one| one.ready_us) else {
                continue;
            };
            section = section.text(format!(
                "{}: {} later ({}); the last, {}, is ready {} after the start of the resume.",
                replay.change,
                counted(replay.deferred.len() as u64, "device"),
                listed(replay.deferred.iter().map(|one| &one.device)),
                last.device,
                time(last.ready_us)
            ));
        }
        for change in &what_if.unmet {
            section = section.text(format!("{change}: matches nothing in this resume."));
        }
        if let Some(all) = what_if.all_cycles_us.filter(|all| all.count > 1) {
            section = section.text(format!("With all changes: {}.", range(all)));
        }
    }
    sheet.section(section);
    let steps = tables::removals(machine, &machine.steps).first(rows.max(machine.steps.len()));
    let section = Section::new("steps", "Step by step, the best removal each time").titled();
    sheet.section(section.table(steps));
}

fn listed<'n>(names: impl Iterator<Item = &'n Name>) -> String {
    let mut names: Vec<&str> = names.map(|name| &**name).collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The resume as measured, then after each change and each removal; no rows where there is neither.
fn stairs(machine: &Machine) -> Bars {
    let cycle = machine.shown();
    let measured = cycle.path.iter().map(|link| link.duration_us).sum();
    let replays = machine.what_if.iter().flat_map(|one| &one.replays);
    let replays = replays.map(|replay| (replay.change.clone(), replay.total_us));
    let removals = machine.steps.iter();
    let removals = removals.map(|one| (format!("without {}", one.device), one.total_us));
    let mut rows = Vec::new();
    let mut before: Us = measured;
    let first = [("as measured".to_owned(), measured)].into_iter();
    for (name, total) in first.chain(replays).chain(removals) {
        let ns = |us: Us| us as f64 * 1e3;
        rows.push(Row {
            name,
            lengths: vec![(0, ns(total)), (1, ns((before - total).max(0)))],
            total_ns: ns(total),
        });
        before = total;
    }
    if rows.len() < 2 {
        rows.clear();
    }
    let part = |name: &str, is_estimate| Part {
        name: name.to_owned(),
        letter: 'r',
        is_estimate,
    };
    Bars {
        label: "Time of the resume after each change".to_owned(),
        axis: "time of the resume",
        parts: vec![part("resume", false), part("saved by this change", true)],
        rows,
        on_terminals: false,
    }
}

/// Several machines, or one before and after a change.
fn side_by_side(machines: &[Machine], top: Option<usize>) -> Sheet<'_> {
    let rows = top.unwrap_or(ROWS);
    let mut sheet = Sheet::default();
    let resumes = machines.iter().filter_map(|one| {
        let median = one.resume_us?.median;
        Some(format!("{} {}", one.name, time(median)))
    });
    let resumes: Vec<String> = resumes.collect();
    if !resumes.is_empty() {
        sheet.answer = format!("Median resume: {}.", resumes.join(", "));
    }
    let section = Section::new("machines", "Machines, medians of all whole cycles").titled();
    sheet.section(section.table(tables::machines(machines).first(usize::MAX)));
    let section = Section::new("stages", "Stages, medians").titled();
    sheet.section(section.table(tables::stages_by_machine(machines).first(usize::MAX)));
    let section = Section::new("devices", "Slowest devices in the resume, medians").titled();
    let devices = tables::devices_by_machine(machines).first(rows);
    let section = match devices.rows.is_empty() {
        true => section,
        false => section.chart(|| spread::devices(machines)),
    };
    sheet.section(section.table(devices));
    for one in machines {
        let mut subject = machine(one, top);
        // They stand above the common tables.
        for (how, what) in subject.failures.drain(..) {
            sheet.failures.push((how, format!("{}: {what}", one.name)));
        }
        for note in subject.notes.drain(..) {
            sheet.notes.push(format!("{}: {note}", one.name));
        }
        sheet.subjects.push(subject);
    }
    sheet
}

/// `median 650 ms, 640 ms to 702 ms in 3 cycles`
fn range(all: Spread) -> String {
    format!(
        "median {}, {} to {} in {}",
        time(all.median),
        time(all.min),
        time(all.max),
        counted(all.count as u64, "cycle")
    )
}

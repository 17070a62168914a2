//! Are a file's figures fit to be drawn? A program made it, but it may have been changed since.

use serde::Deserialize;

use super::{Analysis, CycleResult, FORMAT, LinkResult, Machine, Removal, Spread, VERSION};
use crate::cycle::{INSTANT_MAX, Us};
use crate::power::align::Power;

/// 115 days, µs: no part of a cycle takes longer, and a million of them can be added up.
const LONGEST: Us = 10_000_000_000_000;

/// Reads an [`Analysis`].
///
/// # Errors
/// One line: it is not an analysis, or of a later version, or has figures that cannot be.
pub fn read(text: &[u8]) -> Result<Analysis, String> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let wrong = |why: String| {
        // It may quote the file, which may have any character.
        let why = why.replace(char::is_control, " ");
        format!("is not an analysis of `reveille resume analyze --json`: {why}")
    };
    let head: Head = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if head.format != FORMAT {
        return Err(wrong(format!("its format is {:?}", head.format)));
    }
    if !(1..=VERSION).contains(&head.version) {
        let newer = if head.version > VERSION {
            "; take a newer reveille"
        } else {
            ""
        };
        return Err(format!(
            "has version {}, but this program reads 1 to {VERSION}{newer}",
            head.version
        ));
    }
    let analysis = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    check(&analysis)?;
    Ok(analysis)
}

fn check(analysis: &Analysis) -> Result<(), String> {
    analysis.machines.iter().try_for_each(|one| {
        machine(one).map_err(|what| format!("is damaged: of machine {:?}, {what}", one.name))
    })
}

fn machine(machine: &Machine) -> Result<(), String> {
    let shown = machine.shown;
    if machine.cycles.iter().all(|cycle| cycle.number != shown) {
        return Err(format!("cycle {shown}, which is to be shown, is missing"));
    }
    let known = |name: &str, is_fit: bool| match is_fit {
        true => Ok(()),
        false => Err(format!("{name} is invalid")),
    };
    let spreads = [machine.suspend_us, machine.asleep_us, machine.resume_us];
    known("a spread", spreads.iter().flatten().all(is_spread))?;
    let mut stages = machine.stages.iter().map(|stage| &stage.duration_us);
    known("a stage's spread", stages.all(is_spread))?;
    let devices = machine.devices.iter();
    let devices = devices.map(|one| [Some(one.resume_us), one.suspend_us, one.slack_us]);
    let suspends = machine.suspend_devices.iter();
    let suspends = suspends.map(|one| [Some(one.suspend_us), one.slack_us, None]);
    let mut spreads = devices.chain(suspends).flatten().flatten();
    known("a device's spread", spreads.all(|one| is_spread(&one)))?;
    let removals = machine.removals.iter().chain(&machine.steps);
    let mut removals = removals.chain(&machine.suspend_removals);
    let is_removal = |one: &Removal| is_duration(one.total_us) && is_duration(one.saves_us);
    known("a removal", removals.all(is_removal))?;
    if let Some(what_if) = &machine.what_if {
        let times = what_if.replays.iter().flat_map(|one| {
            let ready = one.deferred.iter().map(|one| one.ready_us);
            ready.chain([one.total_us, one.saves_us])
        });
        let is_fit = times.chain([what_if.measured_us]).all(is_duration)
            && what_if.all_cycles_us.iter().all(is_spread)
            && is_path(&what_if.path);
        known("a what-if", is_fit)?;
    }
    known("power", machine.power.as_ref().is_none_or(is_power))?;
    for cycle in &machine.cycles {
        known(&format!("cycle {}", cycle.number), is_cycle(cycle))?;
    }
    Ok(())
}

fn is_instant(us: Us) -> bool {
    us.unsigned_abs() <= INSTANT_MAX.unsigned_abs()
}

fn is_duration(us: Us) -> bool {
    us.unsigned_abs() <= LONGEST.unsigned_abs()
}

fn is_spread(spread: &Spread) -> bool {
    let all = [spread.median, spread.min, spread.max];
    all.into_iter().all(is_duration)
}

fn is_path(path: &[LinkResult]) -> bool {
    let is_link = |link: &LinkResult| is_instant(link.start_us) && is_duration(link.duration_us);
    path.iter().all(is_link)
}

fn is_cycle(cycle: &CycleResult) -> bool {
    let mut durations = vec![cycle.suspend_us, cycle.platform_us, cycle.asleep_us];
    durations.extend([cycle.resume_us, Some(cycle.resolution_us)]);
    durations.extend([cycle.suspend_at_least_us, cycle.resume_at_least_us]);
    durations.push(cycle.asleep_at_most_us);
    let firmware = cycle.firmware.iter();
    durations.extend(firmware.flat_map(|one| [Some(one.suspend_us), Some(one.resume_us)]));
    let (start, end) = (Some(cycle.start_us), Some(cycle.end_us));
    let mut instants = vec![start, end, cycle.resume_start_us];
    let words = cycle.words;
    instants.extend([
        words.first,
        words.before_sleep,
        words.after_sleep,
        words.thawing,
        words.last,
    ]);
    for stage in &cycle.stages {
        instants.push(Some(stage.start_us));
        durations.extend([stage.duration_us, Some(stage.calls_us), stage.says_us]);
    }
    for one in &cycle.calls {
        instants.extend([one.call.start, one.call.end]);
        durations.extend([one.duration_us, one.slack_us, one.call.says_us]);
    }
    let cpus = cycle.cpus.iter().flat_map(|step| [step.start, step.end]);
    let gaps = cycle.gaps.iter().flat_map(|gap| [gap.start, gap.end]);
    let failures = cycle.failures.iter().map(|failure| failure.at);
    let said = cycle.said.iter().map(|said| said.at);
    instants.extend(cpus.chain(gaps).chain(failures).chain(said).map(Some));
    let fit = durations.into_iter().flatten().all(is_duration);
    let fit = fit && instants.into_iter().flatten().all(is_instant);
    fit && is_path(&cycle.path) && is_path(&cycle.suspend_path)
}

fn is_power(power: &Power) -> bool {
    let cycles = power.cycles.iter();
    let cycles = cycles.flat_map(|one| [one.start_us, one.suspended_us, one.woken_us, one.end_us]);
    let points = power.series.iter().map(|point| point.at_us);
    let mut instants = cycles.chain(points);
    instants.all(is_instant) && is_duration(power.interval_us) && is_duration(power.gaps_us)
}

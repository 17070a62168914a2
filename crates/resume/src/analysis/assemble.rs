//! From cycles to what is shown of them.

use std::collections::{BTreeMap, HashMap};

use reveille_show::quantity::counted;

use super::across;
use super::spread;
use super::what_if::{links, what_if, with_messages};
use super::{
    Analysis, Answer, CallResult, CycleResult, DISK, FORMAT, Machine, Removal, Source, StageResult,
    VERSION,
};
use super::{no_devices, no_length};
use crate::cycle::{Cycle, Gap, Name, StageKind, Us, time};
use crate::graph::{Graph, Half};
use crate::hibernation::Hibernation;
use crate::power::Meter;
use crate::power::align::{self, Subject};
use crate::what_if::{Change, REPLAYS, best_removals, removable, steps};
use crate::{Error, Result, times};

/// A machine's cycles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// As reports call it.
    pub name: String,
    /// Where its cycles come from.
    pub source: Source,
    /// In the order of the log.
    pub cycles: Vec<Cycle>,
    /// Suspends to disk.
    pub hibernations: Vec<Hibernation>,
    /// Notes of what read it, a sentence each.
    pub notes: Vec<String>,
}

/// What to analyse.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    /// Only this cycle.
    pub cycle: Option<usize>,
    /// One after the other, each on top of those before it.
    pub changes: Vec<Change>,
    /// So many best removals after the changes, one by one.
    pub steps: usize,
    /// Of the only machine.
    pub meter: Option<Meter>,
    /// From the meter's first sample to the beginning of the first cycle.
    pub meter_offset_us: Option<Us>,
}

/// The analysis of these machines.
///
/// # Errors
/// [`Error::Usage`] where a cycle that is asked for is not there or a change cannot be made or meets
/// nothing; [`Error::Failed`] where the meter's samples cannot be laid beside the cycles.
pub fn analyse(inputs: Vec<Input>, question: &Question) -> Result<Analysis> {
    if question.meter.is_some() && inputs.len() > 1 {
        return Err(Error::Usage(
            "--power: belongs to one machine; give one log".to_owned(),
        ));
    }
    let machines = inputs.into_iter().map(|input| machine(input, question));
    let machines = machines.collect::<Result<Vec<Machine>>>()?;
    for change in &question.changes {
        let words = change.to_string();
        let mut what_ifs = machines.iter().flat_map(|one| &one.what_if);
        if what_ifs.any(|one| !one.unmet.contains(&words)) {
            continue;
        }
        let first = machines.first().map(Machine::shown);
        let no_length = first.and_then(|cycle| no_length(cycle, Half::Resume));
        let no_devices = first.and_then(|cycle| no_devices(cycle, Half::Resume));
        let is_of_devices = !matches!(change, Change::Cpus(_));
        let why = match (no_length, no_devices.filter(|_| is_of_devices)) {
            (Some(why), _) => format!("{why}; what a change would save is unknown"),
            (None, Some(why)) => why,
            (None, None) if !is_of_devices => {
                "no CPU comes on after another one in this resume".to_owned()
            }
            (None, None) => {
                "nothing in the resume is named so; `reveille resume analyze LOG --top 50` lists its devices"
                    .to_owned()
            }
        };
        return Err(Error::Usage(format!("{words}: {why}")));
    }
    Ok(Analysis {
        format: FORMAT.to_owned(),
        version: VERSION,
        tool: format!("reveille {}", env!("CARGO_PKG_VERSION")),
        machines,
    })
}

fn machine(input: Input, question: &Question) -> Result<Machine> {
    let Input {
        name,
        source,
        mut cycles,
        hibernations,
        mut notes,
    } = input;
    if cycles.is_empty() && !hibernations.is_empty() {
        cycles.push(Cycle {
            number: 1,
            sleep: Some(DISK.to_owned()),
            stamped: true,
            ..Cycle::default()
        });
    }
    if let Some(number) = question.cycle {
        let (there, name) = (cycles.len(), &name);
        cycles.retain(|cycle| cycle.number == number);
        if cycles.is_empty() {
            return Err(Error::Usage(format!(
                "--cycle {number}: {name} has {}, numbered from 1",
                counted(there as u64, "cycle")
            )));
        }
    }
    let power = |meter| power(meter, &cycles, question.meter_offset_us);
    let power = question.meter.as_ref().map(power).transpose()?;
    let mut results = Vec::from_iter(cycles.iter().map(result));
    let has_more = results.iter().filter(|one| one.has_more_than_its_entry());
    let empty = results.len() - has_more.count();
    match empty < results.len() {
        true => results.retain(CycleResult::has_more_than_its_entry),
        false => results.retain(|one| one.words.first.is_some()),
    }
    if empty > 0 {
        notes.push(match empty {
            1 => "1 cycle has nothing but its first lines".to_owned(),
            _ => format!("{empty} cycles have nothing but their first lines"),
        });
    }
    let compared = across::compared(&results);
    let Some(shown) = shown(&compared) else {
        return Err(Error::Failed(format!(
            "{name}: its lines about a suspend show no stage, no sleep and no failure"
        )));
    };
    notes.extend(notes_of(&results));
    let all = |figure: fn(&CycleResult) -> Option<Us>| {
        spread(compared.iter().filter_map(|cycle| figure(cycle)).collect())
    };
    let cycle = cycles.iter().find(|cycle| cycle.number == shown);
    let of_shown = results.iter().find(|cycle| cycle.number == shown);
    // Savings need a known whole.
    let ends = |half| of_shown.is_some_and(|cycle| no_length(cycle, half).is_none());
    let graph = cycle.filter(|_| ends(Half::Resume)).map(Graph::of);
    let graph = graph.filter(|graph| !graph.stages.is_empty());
    let suspend = cycle.filter(|_| ends(Half::Suspend));
    let suspend = suspend.map(|cycle| Graph::of_half(cycle, &cycles, Half::Suspend));
    let (suspend_removals, before) = suspend.as_ref().map_or_else(Default::default, saving);
    let (mut removals, mut after, mut best) = (Vec::new(), 0, Vec::new());
    let mut changed = None;
    if let Some(graph) = &graph {
        (removals, after) = saving(graph);
        best = steps(graph, &question.changes, question.steps)?;
        changed = what_if(graph, &cycles, &compared, &question.changes, shown)?;
    }
    notes.extend(not_computed(before + after));
    let mut machine = Machine {
        source,
        hibernations,
        suspend_us: all(|cycle| cycle.suspend_us),
        asleep_us: all(|cycle| cycle.asleep_us),
        resume_us: all(|cycle| cycle.resume_us),
        stages: across::stages(&compared),
        devices: across::devices(&compared),
        suspend_devices: across::suspend_devices(&compared),
        suspend_removals,
        shown,
        what_if: changed,
        removals,
        steps: best,
        power,
        known_as: known_as(&cycles),
        notes,
        name,
        cycles: results,
        answer: Answer::default(),
    };
    machine.answer = machine.answer();
    Ok(machine)
}

/// The removals that save anything. Devices that save as much because one below them goes with them are in its
/// row. And how many were not computed.
fn saving(graph: &Graph) -> (Vec<Removal>, usize) {
    let mut removals = best_removals(graph);
    let beyond = removable(graph).len() - removals.len();
    removals.retain(|removal| removal.saves_us > 0);
    let place = |one: &Removal| graph.tree.find(&one.device, one.driver.as_ref());
    let places: Vec<Option<usize>> = removals.iter().map(place).collect();
    let rows = places.iter().enumerate();
    let rows: HashMap<usize, usize> = rows
        .filter_map(|(row, place)| Some(((*place)?, row)))
        .collect();
    let mut gone = vec![false; removals.len()];
    // Those that save most come first, so what lies below comes later.
    for (row, lower) in places.iter().enumerate().rev() {
        let Some(lower) = lower.filter(|_| !gone[row]) else {
            continue;
        };
        for upper in graph.tree.with_ancestors(lower).skip(1) {
            let Some(&more) = rows.get(&upper).filter(|&&more| !gone[more]) else {
                continue;
            };
            let (saves, most) = (removals[row].saves_us, removals[more].saves_us);
            if SAME * (most - saves) <= most {
                gone[more] = true;
                let device = removals[more].device.clone();
                removals[row].as_much.push(device);
            }
        }
    }
    let mut gone = gone.into_iter();
    removals.retain(|_| gone.next() == Some(false));
    (removals, beyond)
}

/// On savings beyond those that are.
fn not_computed(devices: usize) -> Option<String> {
    let of = counted(devices as u64, "device");
    (devices > 0).then(|| {
        format!(
            "the savings of {of} on the critical path are not computed: in each half those are of the \
             {REPLAYS} with the longest part of it"
        )
    })
}

/// Savings that differ by less than this part are the same.
const SAME: Us = 20;

/// Other names of the devices that the analysis names.
fn known_as(cycles: &[Cycle]) -> BTreeMap<Name, Vec<Name>> {
    let named = cycles.iter().flat_map(|cycle| {
        let calls = cycle.calls.iter().map(|call| &call.device);
        let failures = cycle.failures.iter().filter_map(|one| one.device.as_ref());
        calls
            .chain(failures)
            .map(|device| (device, cycle.known_as.names(device)))
    });
    let known = named.filter(|(_, names)| !names.is_empty());
    known
        .map(|(device, names)| (device.clone(), names.to_vec()))
        .collect()
}

/// The cycle whose resume is nearest to the median, of two the longer one. Where no resume is known,
/// that of the devices' stage counts; where none has that, the first cycle is it.
fn shown(cycles: &[&CycleResult]) -> Option<usize> {
    let of_devices = |cycle: &CycleResult| {
        let mut stages = cycle.stages.iter();
        let devices = stages.find(|one| one.stage == StageKind::Resume)?;
        devices.duration_us
    };
    let has_resume = cycles.iter().any(|cycle| cycle.resume_us.is_some());
    let known = cycles.iter().filter_map(|cycle| match has_resume {
        true => Some((cycle.resume_us?, cycle.number)),
        false => Some((of_devices(cycle)?, cycle.number)),
    });
    let Some(all) = spread(known.clone().map(|(us, _)| us).collect()) else {
        // The first of those of which most is known.
        let is_vague = |one: &CycleResult| one.suspend_us.or(one.suspend_at_least_us).is_none();
        let most = cycles.iter().map(|cycle| (is_vague(cycle), cycle.number));
        return most.min().map(|(_, number)| number);
    };
    let median = all.median;
    let nearest = known.min_by_key(|&(us, _)| (us.abs_diff(median), std::cmp::Reverse(us)));
    nearest.map(|(_, number)| number)
}

fn power(meter: &Meter, cycles: &[Cycle], offset: Option<Us>) -> Result<align::Power> {
    let subject = |cycle: &Cycle| {
        Some(Subject {
            number: cycle.number,
            at: cycle.at.clone(),
            times: times::of(cycle).filter(|times| !times.aborted)?,
        })
    };
    let subjects: Vec<Subject> = cycles.iter().filter_map(subject).collect();
    align::align(meter, &subjects, offset).map_err(|why| Error::Failed(format!("--power: {why}")))
}

/// Of a cycle of which nothing but its sleep or its failures is known, too.
fn times_of(cycle: &Cycle) -> times::Times {
    times::of(cycle).unwrap_or_else(|| {
        let calls = cycle.calls.iter();
        let calls = calls.filter_map(|call| call.start.or(call.end));
        let gaps = cycle.gaps.iter().map(|gap| gap.start);
        let failures = cycle.failures.iter().map(|failure| failure.at);
        let start = calls.chain(gaps).chain(failures).min().unwrap_or(0);
        times::Times {
            start,
            end: start,
            asleep_us: cycle.asleep_us,
            aborted: cycle.has_aborted(),
            ..times::Times::default()
        }
    })
}

fn result(cycle: &Cycle) -> CycleResult {
    let times = times_of(cycle);
    let resume = Graph::of(cycle);
    let suspend = Graph::of_half(cycle, std::slice::from_ref(cycle), Half::Suspend);
    let (after, before) = (resume.slack_us(), suspend.slack_us());
    let carried = |us: Option<Us>| us.filter(|&us| cycle.carries(us));
    let (suspend_us, resume_us) = (carried(times.suspend_us), carried(times.resume_us));
    let path = |graph: &Graph, known: Option<Us>, carried: Option<Us>| {
        let is_known = carried.is_some() || known.is_none() && cycle.cut;
        if !is_known || !cycle.stamped {
            return Vec::new();
        }
        let path = with_messages(links(cycle, &graph.critical_path().links), &cycle.gaps);
        let whole: Us = path.iter().map(|link| link.duration_us).sum();
        Some(path)
            .filter(|_| cycle.carries(whole))
            .unwrap_or_default()
    };
    // What comes after its last word is of a machine that is awake.
    let last = cycle.words.last.map_or(Us::MAX, |_| times.end);
    let within = |gap: &&Gap| gap.start < last;
    let call = |(place, call): (usize, &crate::cycle::Call)| CallResult {
        duration_us: cycle.took_us(call),
        // Slack needs a known whole.
        slack_us: match Half::Resume.has(call.stage) {
            true => resume_us.and(after[place]),
            false => suspend_us.and(before[place]),
        },
        call: call.clone(),
    };
    let mut result = CycleResult {
        number: cycle.number,
        sleep: cycle.sleep.clone(),
        at: cycle.at.clone(),
        cut: cycle.cut,
        aborted: times.aborted,
        suspend_us,
        suspend_at_least_us: times.suspend_at_least_us,
        platform_us: carried(times.platform_us),
        asleep_us: times.asleep_us,
        asleep_at_most_us: times.asleep_at_most_us,
        resume_us,
        resume_at_least_us: times.resume_at_least_us,
        firmware: cycle.firmware,
        woken: cycle.woken.clone(),
        words: cycle.words,
        stop: cycle.stop.clone(),
        start_us: times.start,
        end_us: times.end,
        resume_start_us: times.resume_start,
        stages: stages(cycle),
        cpus: cycle.cpus.clone(),
        calls: cycle.calls.iter().enumerate().map(call).collect(),
        failures: cycle.failures.clone(),
        path: path(&resume, times.resume_us, resume_us),
        suspend_path: path(&suspend, times.suspend_us, suspend_us),
        left_out: resume.left_out.clone(),
        suspend_has: cycle.device_times(Half::Suspend),
        resume_has: cycle.device_times(Half::Resume),
        stamped: cycle.stamped,
        resolution_us: cycle.resolution_us,
        gaps: cycle.gaps.iter().filter(within).cloned().collect(),
        said: cycle.said.clone(),
    };
    // A half that did not end has neither a length nor a path.
    if !result.returns(Half::Suspend) {
        (result.suspend_us, result.suspend_path) = (None, Vec::new());
    }
    if !result.returns(Half::Resume) {
        (result.resume_us, result.path) = (None, Vec::new());
    }
    result
}

fn stages(cycle: &Cycle) -> Vec<StageResult> {
    let one = |stage: &crate::cycle::Stage| {
        let us = stage.end - stage.start;
        let calls = cycle.calls.iter().filter(|call| call.stage == stage.kind);
        let durations = calls.clone().filter_map(|call| cycle.took_us(call));
        StageResult {
            stage: stage.kind,
            start_us: stage.start,
            duration_us: match cycle.resolution_us {
                ..=1 => Some(us),
                _ => stage.says_us.or(Some(us).filter(|&us| cycle.carries(us))),
            },
            says_us: stage.says_us,
            calls: calls.count(),
            calls_us: durations.sum(),
        }
    };
    cycle.stages.iter().map(one).collect()
}

/// Longer printing than this is worth a note, µs.
const PRINTING_US: Us = 2_000;

/// On calls whose lines' timestamps are further apart than the duration that the kernel reports.
fn printing(cycles: &[CycleResult]) -> Option<String> {
    // Coarse timestamps do not show it.
    let cycles = cycles.iter().filter(|cycle| cycle.resolution_us <= 1);
    let calls = cycles.flat_map(|cycle| &cycle.calls);
    let printed = calls.map(|one| (one.call.printing_us(), one));
    let printed: Vec<_> = printed.filter(|&(us, _)| us >= PRINTING_US).collect();
    let &(most, one) = printed.iter().max_by_key(|&&(us, _)| us)?;
    let all: Us = printed.iter().map(|&(us, _)| us).sum();
    let took = match printed.len() {
        1 => "1 call took less than the timestamps of its lines show".to_owned(),
        many => format!("{many} calls took less than the timestamps of their lines show"),
    };
    Some(format!(
        "{took}, by {} in all ({}: {} by the timestamps, {} by the kernel); the kernel's figures \
         count; the rest is the printing of lines on a slow console, or an interruption",
        time(all),
        one.call.device,
        time(most + one.duration_us.unwrap_or(0)),
        time(one.duration_us.unwrap_or(0)),
    ))
}

/// Finer timestamps than this, µs, are fine enough for every stage.
const COARSE_US: Us = 1_000;

/// What timestamps of whole seconds, or milliseconds, do not resolve.
fn coarse(cycles: &[CycleResult], of: impl Fn(usize) -> String) -> Option<String> {
    let steps = cycles.iter().map(|cycle| cycle.resolution_us);
    let steps: Vec<Us> = steps.filter(|&step| step >= COARSE_US).collect();
    let step = *steps.iter().max()?;
    Some(format!(
        "the timestamps of {} have a resolution of {}: below {} only times that the kernel \
         reports are known",
        of(steps.len()),
        time(step),
        time(2 * step)
    ))
}

/// What a reader must know before trusting the figures.
fn notes_of(cycles: &[CycleResult]) -> Vec<String> {
    type Verbs = (&'static str, &'static str);
    const IS: Verbs = ("is", "are");
    const HAS: Verbs = ("has", "have");
    type Is = fn(&CycleResult) -> bool;
    let all = cycles.len();
    let of = |count: usize| match all {
        1 => "the cycle".to_owned(),
        _ => format!("{count} of {all} cycles"),
    };
    let verb = |count: usize, (one, many): Verbs| if count == 1 { one } else { many };
    let count = |is: Is| {
        let count = cycles.iter().filter(|cycle| is(cycle)).count();
        (count > 0).then_some(count)
    };
    let some = |is: Is, verbs: Verbs, what: &str| {
        let count = count(is)?;
        Some(format!("{} {} {what}", of(count), verb(count, verbs)))
    };
    let within = |is: Is, what: &str| Some(format!("in {} {what}", of(count(is)?)));
    let calls = |figure: fn(&CycleResult) -> usize, verbs: Verbs, what: &str| {
        let count = cycles.iter().map(figure).sum();
        let noun = match count {
            0 => return None,
            1 => "1 call of a resume".to_owned(),
            _ => format!("{count} calls of resumes"),
        };
        Some(format!("{noun} {} {what}", verb(count, verbs)))
    };
    let (left, without) = match cycles.iter().any(CycleResult::is_whole) {
        false => ("", ""),
        true => (" and not in the medians", " and no place in the medians"),
    };
    let cut = format!("cut at the start or the end{left}");
    let aborted = format!("without a sleep{left}: something failed or woke the machine before");
    let copied = "no kernel timestamps (the lines were copied or read after the resume): only the stage \
                  lengths that the kernel reports are known";
    let unmarked = format!(
        "no line that marks the start of the resume{without}; logs have it with 1 in \
         /sys/power/pm_debug_messages, or from `resume capture`"
    );
    let is_unmarked = |cycle: &CycleResult| {
        let is_known = cycle.resume_us.is_some() || cycle.resume_start_us.is_some();
        !is_known && !cycle.cut && !cycle.aborted && cycle.stamped
    };
    let half = "no beginning or no end and no place in a path";
    let placeless = "no place in a path";
    let backward = (
        "ends before it begins, by the log, and has",
        "end before they begin, by the log, and have",
    );
    let outlast = |cycle: &CycleResult| match cycle.stamped {
        true => cycle.left_out.outlast,
        false => 0,
    };
    let outlasts = "after the stage, which does not wait";
    let is_unordered = |cycle: &CycleResult| {
        cycle.left_out.main_unknown && cycle.calls_of(Half::Resume).next().is_some()
    };
    let unordered = "the log does not show which process ran the synchronous devices; their order may be \
                     missing from the path";
    let begins_late = |cycle: &CycleResult| {
        let first = cycle.stages.first().map(|stage| stage.stage);
        let is_late = |kind| (StageKind::Suspend..StageKind::Platform).contains(&kind);
        !cycle.cut && cycle.stamped && first.is_some_and(is_late)
    };
    let late = "no line precedes the suspend of devices: freezing is not in the times";
    let notes = [
        some(|cycle| cycle.cut, IS, &cut),
        some(|cycle| cycle.aborted, IS, &aborted),
        some(|cycle| !cycle.stamped, HAS, copied),
        // Of one cycle the answer says it.
        some(is_unmarked, HAS, &unmarked).filter(|_| all > 1),
        coarse(cycles, of),
        calls(|cycle| cycle.left_out.half_calls, HAS, half),
        calls(|cycle| cycle.left_out.backward_calls, backward, placeless),
        calls(outlast, ("ends", "end"), outlasts),
        printing(cycles),
        within(is_unordered, unordered),
        within(begins_late, late),
    ];
    notes.into_iter().flatten().collect()
}

//! The resume with something changed, one change on top of the other.

use std::collections::HashSet;

use super::spread;
use super::{CycleResult, LinkKind, LinkResult, Replay, WhatIf};
use crate::Result;
use crate::cycle::{Cycle, GAP_US, Gap, Name, StageKind, Us};
use crate::graph::{Graph, Half};
use crate::path::{Link, Part, Why};
use crate::what_if::{Change, Deferred, replay};

/// The replays of `changes`; `None` where there are none. Over the cycles whose results are whole.
pub fn what_if(
    graph: &Graph,
    cycles: &[Cycle],
    results: &[&CycleResult],
    changes: &[Change],
    number: usize,
) -> Result<Option<WhatIf>> {
    if changes.is_empty() {
        return Ok(None);
    }
    let mut replays: Vec<Replay> = Vec::new();
    let (mut removed, mut deferred) = (Vec::new(), Vec::new());
    let mut before = graph.total_us();
    let mut last = None;
    for place in 0..changes.len() {
        let replayed = replay(graph, &changes[..=place])?;
        let is_new = |name: &&Name| !removed.contains(*name);
        let new_removed: Vec<Name> = replayed.removed.iter().filter(is_new).cloned().collect();
        let is_new = |one: &&Deferred| !deferred.contains(&one.device);
        let new_deferred: Vec<Deferred> =
            replayed.deferred.iter().filter(is_new).cloned().collect();
        removed.extend(new_removed.iter().cloned());
        deferred.extend(new_deferred.iter().map(|one| one.device.clone()));
        replays.push(Replay {
            change: changes[place].to_string(),
            total_us: replayed.total_us,
            saves_us: before - replayed.total_us,
            removed: new_removed,
            deferred: new_deferred,
        });
        before = replayed.total_us;
        last = Some(replayed);
    }
    let cycle = cycles.iter().find(|cycle| cycle.number == number);
    let path = last.as_ref().zip(cycle);
    let path = path.map(|(last, cycle)| links(cycle, &last.path.links));
    let whole = results.iter().filter(|one| one.is_whole());
    let whole: HashSet<usize> = whole.map(|one| one.number).collect();
    let of_cycle = |cycle: &Cycle| {
        whole.get(&cycle.number)?;
        Some(replay(&Graph::of(cycle), changes).ok()?.total_us)
    };
    Ok(Some(WhatIf {
        cycle: number,
        measured_us: graph.total_us(),
        replays,
        all_cycles_us: spread(cycles.iter().filter_map(of_cycle).collect()),
        path: path.unwrap_or_default(),
        unmet: last.map(|last| last.unmet).unwrap_or_default(),
    }))
}

/// A path with the names of what it consists of. A call that follows on the wait before it could not
/// begin earlier for that wait's reason.
pub fn links(cycle: &Cycle, path: &[Link]) -> Vec<LinkResult> {
    let mut links: Vec<LinkResult> = path.iter().map(|one| link(cycle, one)).collect();
    // Where no line shows the devices' stages, what follows them has none either; but processes run by then.
    let last = links.last().filter(|one| one.what == LinkKind::BeforeStage);
    if let (Some(last), Some(thawing)) = (last.cloned(), cycle.words.thawing)
        && last.stage == StageKind::Resume
        && (last.start_us + 1..last.start_us + last.duration_us).contains(&thawing)
    {
        let devices = thawing - last.start_us;
        links.push(LinkResult {
            stage: StageKind::Thaw,
            start_us: thawing,
            duration_us: last.duration_us - devices,
            why: Why::Follows,
            ..last
        });
        let place = links.len() - 2;
        links[place].duration_us = devices;
    }
    for place in 1..links.len() {
        let (before, one) = (&links[place - 1], &links[place]);
        let is_wait = matches!(
            before.what,
            LinkKind::BeforeCall | LinkKind::Unexplained | LinkKind::Printing
        );
        if one.why == Why::Follows && is_wait && before.call == one.call {
            links[place].why = before.why;
        }
    }
    links
}

/// A path whose long silences are links of their own, by the kernel's last message before each: it hints
/// at what the time went to where no call does.
pub fn with_messages(path: Vec<LinkResult>, gaps: &[Gap]) -> Vec<LinkResult> {
    let mut parted = Vec::with_capacity(path.len());
    for link in path {
        match link.what {
            LinkKind::Stage | LinkKind::BeforeStage | LinkKind::BeforeCpu => {
                parts(link, gaps, &mut parted);
            }
            _ => parted.push(link),
        }
    }
    parted
}

fn parts(link: LinkResult, gaps: &[Gap], parted: &mut Vec<LinkResult>) {
    let end = link.start_us + link.duration_us;
    let mut at = link.start_us;
    let mut push = |what, from: Us, to: Us, gap: Option<&Gap>| {
        let why = match from == link.start_us {
            true => link.why,
            false => Why::Follows,
        };
        if from < to {
            parted.push(LinkResult {
                what,
                start_us: from,
                duration_us: to - from,
                why,
                message: gap.map(|gap| gap.message.clone()),
                ended_by: gap
                    .map(|gap| gap.ended_by.clone())
                    .filter(|text| !text.is_empty()),
                ..link.clone()
            });
        }
    };
    for gap in gaps {
        let (from, to) = (gap.start.max(at), gap.end.min(end));
        if to - from >= GAP_US {
            push(link.what, at, from, None);
            push(LinkKind::Silence, from, to, Some(gap));
            at = to;
        }
    }
    push(link.what, at, end, None);
}

/// The stage that a time between two belongs to: the one after it; or the devices' own, where the log has
/// no line of that and nothing else lies there.
fn between(cycle: &Cycle, next: StageKind) -> StageKind {
    let (half, devices) = match Half::Suspend.has(next) {
        true => (Half::Suspend, StageKind::Suspend),
        false => (Half::Resume, StageKind::Resume),
    };
    let known = cycle.stages.iter().map(|stage| stage.kind);
    let known = known.chain(cycle.calls.iter().map(|call| call.stage));
    let before = known.filter(|&kind| half.has(kind) && kind < next).max();
    match before.is_none_or(|before| before < devices) {
        true => devices.min(next),
        false => next,
    }
}

/// A link with the names of what it is.
fn link(cycle: &Cycle, link: &Link) -> LinkResult {
    let (what, call, cpu) = match link.part {
        Part::Call(call) => (LinkKind::Call, Some(call), None),
        Part::Before(call) => (LinkKind::BeforeCall, Some(call), None),
        Part::Unexplained(call) => (LinkKind::Unexplained, Some(call), None),
        Part::Printing(call) => (LinkKind::Printing, Some(call), None),
        Part::Cpu(step) => (LinkKind::Cpu, None, Some(step)),
        Part::BeforeCpu(step) => (LinkKind::BeforeCpu, None, Some(step)),
        Part::MoreCpus(_) => (LinkKind::Cpu, None, None),
        Part::BeforeStage => (LinkKind::BeforeStage, None, None),
        Part::StageItself | Part::StageSet => (LinkKind::Stage, None, None),
    };
    let device = call.and_then(|call| cycle.calls.get(call));
    LinkResult {
        what,
        stage: match link.part {
            Part::BeforeStage if cycle.words.thawing.is_some_and(|at| at <= link.start) => {
                StageKind::Thaw
            }
            Part::BeforeStage => between(cycle, link.stage),
            _ => link.stage,
        },
        call,
        device: device.map(|call| call.device.clone()),
        driver: device.and_then(|call| call.driver.clone()),
        cpu: cpu
            .and_then(|step| cycle.cpus.get(step))
            .map(|step| step.cpu),
        start_us: link.start,
        duration_us: link.us(),
        why: link.why,
        message: None,
        ended_by: None,
    }
}

//! Cycles that are in a log twice: as printk and as ftrace saw them, or in two files.

use std::collections::HashMap;

use crate::cycle::{Call, Cycle, Gap, Name, StageKind, Us};

/// Two records of one stage differ by the lines that are printed around it.
const APART_US: Us = 20_000;
const APART_SHARE: f64 = 0.02;

/// Takes out cycles that are like an earlier one, call by call; how many. Numbers them anew.
pub(super) fn without_repeated(cycles: &mut Vec<Cycle>) -> u64 {
    let before = cycles.len();
    let mut kept: Vec<Cycle> = Vec::with_capacity(before);
    for cycle in cycles.drain(..) {
        // A cycle without anything but stamps of whole seconds could be like another by chance.
        let told = !cycle.calls.is_empty();
        let repeats = |earlier: &Cycle| {
            told && earlier.calls == cycle.calls && earlier.stages == cycle.stages
        };
        if !kept.iter().any(repeats) {
            kept.push(cycle);
        }
    }
    *cycles = kept;
    number(cycles);
    (before - cycles.len()) as u64
}

fn number(cycles: &mut [Cycle]) {
    for (at, cycle) in cycles.iter_mut().enumerate() {
        cycle.number = at + 1;
    }
}

/// What printk and ftrace saw, each cycle once.
///
/// Their clocks need not be the same one: ftrace's may go on in sleep. So cycles are taken for the
/// same in their order, where their stages lasted as long.
pub(super) fn together(printed: Vec<Cycle>, mut traced: Vec<Cycle>) -> Vec<Cycle> {
    if traced.is_empty() {
        return printed;
    }
    let mut all = Vec::with_capacity(printed.len());
    for cycle in printed {
        let Some(at) = traced.iter().position(|other| are_one(&cycle, other)) else {
            all.push(cycle);
            continue;
        };
        // Those before it in the trace are in no line of printk's.
        let rest = traced.split_off(at + 1);
        let same = traced.pop();
        all.append(&mut traced);
        all.extend(same.map(|trace| merged(cycle, trace)));
        traced = rest;
    }
    all.append(&mut traced);
    number(&mut all);
    all
}

fn are_one(printed: &Cycle, traced: &Cycle) -> bool {
    let lasted = |cycle: &Cycle, kind: StageKind| {
        let stage = cycle.stages.iter().find(|stage| stage.kind == kind)?;
        Some(stage.says_us.unwrap_or(stage.end - stage.start))
    };
    let mut compared = 0;
    for kind in [
        StageKind::Suspend,
        StageKind::ResumeNoirq,
        StageKind::Resume,
    ] {
        let (Some(one), Some(other)) = (lasted(printed, kind), lasted(traced, kind)) else {
            continue;
        };
        let apart = (one - other).abs() as f64;
        if apart > APART_US as f64 + APART_SHARE * one.max(other) as f64 {
            return false;
        }
        compared += 1;
    }
    compared > 0
}

/// From a cycle's own beginning to another clock's.
fn shift(from: &Cycle, to: &Cycle, stage: Option<StageKind>) -> Us {
    let begin = |cycle: &Cycle| {
        let own = cycle.stages.iter().find(|one| Some(one.kind) == stage);
        own.or(cycle.stages.first()).map_or(0, |one| one.start)
    };
    begin(to) - begin(from)
}

/// printk's, by the trace's clock.
fn gaps_of(printed: &Cycle, traced: &Cycle) -> Vec<Gap> {
    let resumed = |gap: &Gap| {
        printed
            .stages
            .iter()
            .rev()
            .find(|stage| stage.start <= gap.start)
    };
    let one = |gap: &Gap| {
        let by = shift(printed, traced, resumed(gap).map(|stage| stage.kind));
        Gap {
            start: gap.start + by,
            end: gap.end + by,
            message: gap.message.clone(),
        }
    };
    printed.gaps.iter().map(one).collect()
}

/// `suspend exit` comes after the trace's last event.
fn end_with_words(printed: &Cycle, traced: &mut Cycle) {
    let thaw = |cycle: &Cycle| {
        cycle
            .stages
            .iter()
            .position(|one| one.kind == StageKind::Thaw)
    };
    if let (Some(told), Some(own)) = (thaw(printed), thaw(traced)) {
        let by = shift(printed, traced, Some(StageKind::Thaw));
        let own = &mut traced.stages[own];
        own.end = own.end.max(printed.stages[told].end + by);
    }
}

fn merged(printed: Cycle, mut traced: Cycle) -> Cycle {
    traced.sleep = printed.sleep.clone().or(traced.sleep);
    traced.at = printed.at.clone().or(traced.at);
    traced.asleep_us = printed.asleep_us.or(traced.asleep_us);
    traced.cut &= printed.cut;
    traced.gaps = gaps_of(&printed, &traced);
    end_with_words(&printed, &mut traced);
    // A device has one callback in a stage; where it has more they are in the same order.
    let key = |call: &Call| (call.device.clone(), call.stage);
    let mut functions: HashMap<(Name, StageKind), Vec<&Call>> = HashMap::new();
    for call in printed.calls.iter().rev() {
        functions.entry(key(call)).or_default().push(call);
    }
    for call in &mut traced.calls {
        let Some(with_words) = functions.get_mut(&key(call)) else {
            continue;
        };
        if with_words
            .last()
            .is_some_and(|other| other.worker == call.worker)
            && let Some(other) = with_words.pop()
        {
            call.function = other.function.clone();
            call.says_us = other.says_us;
        }
    }
    if !printed.failures.is_empty() {
        // The same failures, in words and on printk's clock.
        let begin = |cycle: &Cycle, kind: Option<StageKind>| {
            let mut stages = cycle.stages.iter();
            stages.find(|s| Some(s.kind) == kind).map(|s| s.start)
        };
        let mut failures = printed.failures.clone();
        for failure in &mut failures {
            let first = |cycle: &Cycle| cycle.stages.first().map(|stage| stage.start);
            let shift = match (
                begin(&printed, failure.stage),
                begin(&traced, failure.stage),
            ) {
                (Some(from), Some(to)) => to - from,
                _ => first(&traced).unwrap_or(0) - first(&printed).unwrap_or(0),
            };
            failure.at += shift;
        }
        traced.failures = failures;
    }
    traced
}

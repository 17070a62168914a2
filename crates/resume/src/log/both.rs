//! Cycles that are in a log twice: as printk and as ftrace saw them, or in two files.

use std::collections::HashMap;

use super::prefix::SINCE_1970_US;
use crate::cycle::{Call, Cycle, Name, StageKind, Us};

/// Two records of one stage differ by the lines that are printed around it.
const APART_US: Us = 20_000;
const APART_SHARE: f64 = 0.02;

/// More cycles are not compared each with each.
const COMPARED_MAX: usize = 3000;

/// Takes out cycles that are a part of another one, by the stamps of their lines: someone put an excerpt before
/// the whole log. How many lines they had.
pub(super) fn without_pasted(cycles: &mut Vec<Cycle>, stamps: &[Vec<Us>]) -> u64 {
    if cycles.len() > COMPARED_MAX || cycles.len() != stamps.len() {
        return 0;
    }
    let is_part = |one: usize, whole: usize| {
        let (part, all) = (&stamps[one], &stamps[whole]);
        let within = |us: &Us| all.binary_search(us).is_ok();
        // Of two that are the same the first one stays.
        let is_less = part.len() < all.len() || part.len() == all.len() && whole < one;
        let spans = part.first() >= all.first() && part.last() <= all.last();
        is_less && spans && !part.is_empty() && part.iter().all(within)
    };
    let pasted = |&one: &usize| (0..stamps.len()).any(|whole| whole != one && is_part(one, whole));
    let gone: Vec<usize> = (0..stamps.len()).filter(pasted).collect();
    keep(cycles, |place| gone.binary_search(&place).is_err());
    number(cycles);
    gone.iter().map(|&one| stamps[one].len() as u64).sum()
}

/// Takes out cycles that are like an earlier one, call by call, or that another clock's lines have better, and
/// their stamps; how many. Numbers them anew.
pub(super) fn without_repeated(cycles: &mut Vec<Cycle>, stamps: &mut Vec<Vec<Us>>) -> u64 {
    let before = cycles.len();
    let mut alike: HashMap<(Option<Us>, usize), Vec<usize>> = HashMap::new();
    let mut gone = vec![false; before];
    for (place, cycle) in cycles.iter().enumerate() {
        // A cycle without anything but timestamps of whole seconds could be like another by chance.
        let Some(first) = cycle.calls.first() else {
            continue;
        };
        let alike = alike.entry((first.start, cycle.calls.len())).or_default();
        let mut earlier = alike.iter().map(|&one| &cycles[one]);
        gone[place] = earlier.any(|one| one.calls == cycle.calls && one.stages == cycle.stages);
        if !gone[place] {
            alike.push(place);
        }
    }
    // They have the same order.
    let mut exact = cycles.iter().filter(|one| one.stamped);
    for (place, logged) in cycles.iter().enumerate().filter(|(_, one)| !one.stamped) {
        let mut ahead = exact.clone();
        if ahead.any(|one| is_logged(logged, one)) {
            (gone[place], exact) = (true, ahead);
        }
    }
    keep(cycles, |place| !gone[place]);
    keep(stamps, |place| !gone.get(place).is_some_and(|gone| *gone));
    number(cycles);
    (before - cycles.len()) as u64
}

/// Does a file have this cycle of a journal, by its wall clock, and of a dmesg, too?
fn is_logged(logged: &Cycle, exact: &Cycle) -> bool {
    let told = |one: &Cycle| {
        let stages = one.stages.iter();
        let told = stages.filter_map(|stage| Some((stage.kind, stage.says_us?)));
        Vec::from_iter(told)
    };
    let is_dated = |one: &Cycle| one.stages.first().map(|first| first.start > SINCE_1970_US);
    let all = told(exact);
    is_dated(logged) == Some(true)
        && is_dated(exact) == Some(false)
        && logged.sleep == exact.sleep
        && logged.failures.len() == exact.failures.len()
        && told(logged).iter().all(|one| all.contains(one))
}

fn keep<T>(list: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) {
    let mut place = 0;
    list.retain(|_| {
        place += 1;
        is_kept(place - 1)
    });
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
    use StageKind::{Resume, ResumeNoirq, Suspend};
    for kind in [Suspend, ResumeNoirq, Resume] {
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

/// From one record's clock to the other's: by the stage's beginning where both have it, else by that of
/// the first ones.
fn shift(from: &Cycle, to: &Cycle, stage: Option<StageKind>) -> Us {
    let own = |cycle: &Cycle| {
        let own = cycle.stages.iter().find(|one| Some(one.kind) == stage);
        own.map(|one| one.start)
    };
    let first = |cycle: &Cycle| cycle.stages.first().map_or(0, |one| one.start);
    match (own(from), own(to)) {
        (Some(from), Some(to)) => to - from,
        _ => first(to) - first(from),
    }
}

/// What is added to an instant of printk's clock in the trace's.
fn onto(printed: &Cycle, traced: &Cycle, at: Us) -> Us {
    let mut stages = printed.stages.iter().rev();
    let stage = stages.find(|stage| stage.start <= at);
    shift(printed, traced, stage.map(|stage| stage.kind))
}

/// `suspend exit` comes after the trace's last event.
fn end_with_words(printed: &Cycle, traced: &mut Cycle) {
    let is_traced = |kind: &StageKind| traced.stages.iter().any(|one| one.kind == *kind);
    let mut kinds = printed.stages.iter().rev().map(|stage| stage.kind);
    let by = shift(printed, traced, kinds.find(is_traced));
    let exit = printed.words.last.map(|last| last + by);
    traced.words.last = traced.words.last.max(exit);
}

fn merged(printed: Cycle, mut traced: Cycle) -> Cycle {
    traced.sleep = printed.sleep.clone().or(traced.sleep);
    traced.at = printed.at.clone().or(traced.at);
    traced.asleep_us = printed.asleep_us.or(traced.asleep_us);
    traced.cut &= printed.cut;
    traced.woken = printed.woken.clone();
    traced.firmware = printed.firmware;
    let (mut gaps, mut said) = (printed.gaps.clone(), printed.said.clone());
    for gap in &mut gaps {
        let by = onto(&printed, &traced, gap.start);
        (gap.start, gap.end) = (gap.start + by, gap.end + by);
    }
    for one in &mut said {
        one.at += onto(&printed, &traced, one.at);
    }
    (traced.gaps, traced.said) = (gaps, said);
    end_with_words(&printed, &mut traced);
    // A device has one callback in a stage; where it has more they are in the same order.
    let key = |call: &Call| (call.device.clone(), call.stage);
    let mut functions: HashMap<(Name, StageKind), Vec<&Call>> = HashMap::new();
    for call in printed.calls.iter().rev() {
        functions.entry(key(call)).or_default().push(call);
    }
    for call in &mut traced.calls {
        let with_words = functions.get_mut(&key(call));
        let same = |other: &mut &Call| other.worker == call.worker;
        if let Some(other) = with_words.and_then(|all| all.pop_if(same)) {
            call.function = other.function.clone();
            call.says_us = other.says_us;
        }
    }
    if !printed.failures.is_empty() {
        // The same failures, in words and on printk's clock.
        let mut failures = printed.failures.clone();
        for failure in &mut failures {
            failure.at += shift(&printed, &traced, failure.stage);
        }
        traced.failures = failures;
    }
    traced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Failure, Gap, Stage};

    /// Consecutive stages from `start` on, each with its length.
    fn cycle(start: Us, stages: &[(StageKind, Us)]) -> Cycle {
        let mut at = start;
        let stages = stages.iter().map(|&(kind, lasted)| {
            let start = at;
            at += lasted;
            Stage {
                kind,
                start,
                end: at,
                says_us: None,
            }
        });
        Cycle {
            number: 0,
            sleep: None,
            at: None,
            stages: stages.collect(),
            cpus: Vec::new(),
            calls: Vec::new(),
            asleep_us: None,
            shift_us: 0,
            failures: Vec::new(),
            cut: false,
            stamped: true,
            resolution_us: 1,
            woke: None,
            gaps: Vec::new(),
            ..Cycle::default()
        }
    }

    fn call(device: &str, start: Us, worker: u32) -> Call {
        Call {
            device: device.into(),
            driver: None,
            parent: None,
            function: None,
            stage: StageKind::Resume,
            start: Some(start),
            end: Some(start + 10),
            says_us: None,
            worker: Some(worker),
            result: Some(0),
        }
    }

    fn failure(at: Us, stage: Option<StageKind>) -> Failure {
        Failure {
            at,
            stage,
            message: "refused".to_owned(),
            ..Failure::default()
        }
    }

    const SUSPEND: StageKind = StageKind::Suspend;
    const RESUME: StageKind = StageKind::Resume;

    #[test]
    fn a_failure_is_placed_in_its_stage_on_the_traces_clock() {
        // printk's clock stands still in sleep, the trace's continues: 5000 s apart, then 9000 s.
        let mut printed = cycle(100, &[(SUSPEND, 1_000_000), (RESUME, 2_000_000)]);
        printed.failures = vec![
            failure(600_100, Some(SUSPEND)),
            failure(1_500_100, Some(RESUME)),
            failure(300, Some(StageKind::Freeze)),
            failure(200, None),
        ];
        let mut traced = cycle(5_000_000_000, &[(SUSPEND, 1_000_000), (RESUME, 2_000_000)]);
        traced.stages[1].start = 9_000_000_000;
        traced.stages[1].end = 9_002_000_000;
        traced.failures = vec![failure(7, None)];
        let both = together(vec![printed], vec![traced]);
        assert_eq!(both.len(), 1);
        let at: Vec<Us> = both[0].failures.iter().map(|failure| failure.at).collect();
        // Half a second after the start of the known stages; of others after the first stage.
        assert_eq!(
            at,
            [5_000_600_000, 9_000_500_000, 5_000_000_200, 5_000_000_100]
        );
    }

    #[test]
    fn failures_only_in_the_trace_are_kept() {
        let printed = cycle(100, &[(SUSPEND, 1_000_000)]);
        let mut traced = cycle(5000, &[(SUSPEND, 1_000_000)]);
        traced.failures = vec![failure(6000, None)];
        let failures = traced.failures.clone();
        assert_eq!(together(vec![printed], vec![traced])[0].failures, failures);
    }

    #[test]
    fn cycles_with_stages_of_equal_length_are_merged() {
        let two = |one: Us, other: Us| {
            let printed = cycle(0, &[(SUSPEND, one)]);
            let traced = cycle(50, &[(SUSPEND, other)]);
            together(vec![printed], vec![traced]).len()
        };
        // 20 ms and one in fifty of the longer one.
        assert_eq!(two(1_000_000, 1_040_816), 1);
        assert_eq!(two(1_000_000, 1_040_817), 2);
        assert_eq!(two(1_040_816, 1_000_000), 1);
        assert_eq!(two(1_040_817, 1_000_000), 2);
        assert_eq!(two(1_000_000, 960_000), 1);
        assert_eq!(two(1_000_000, 959_999), 2);
        assert_eq!(two(0, 20_408), 1);
        assert_eq!(two(0, 20_409), 2);
        // The kernel's duration of a stage takes precedence over the timestamps of its lines.
        let mut printed = cycle(0, &[(SUSPEND, 5_000_000)]);
        printed.stages[0].says_us = Some(1_000_000);
        let traced = cycle(50, &[(SUSPEND, 1_000_000)]);
        assert_eq!(together(vec![printed], vec![traced]).len(), 1);
        // No stage in common: no evidence for a match.
        let printed = cycle(0, &[(StageKind::Freeze, 10), (SUSPEND, 10)]);
        let traced = cycle(0, &[(StageKind::Freeze, 10), (RESUME, 10)]);
        assert_eq!(together(vec![printed], vec![traced]).len(), 2);
    }

    #[test]
    fn cycles_of_both_sources_are_in_order_and_renumbered() {
        let of = |lasted: Us| cycle(0, &[(RESUME, lasted * 1_000_000)]);
        let printed = vec![of(1), of(3), of(9)];
        let traced = vec![of(2), of(3), of(4)];
        let all = together(printed, traced);
        let found: Vec<_> = all
            .iter()
            .map(|cycle| (cycle.number, cycle.stages[0].end / 1_000_000))
            .collect();
        assert_eq!(found, [(1, 1), (2, 2), (3, 3), (4, 9), (5, 4)]);
    }

    #[test]
    fn printks_facts_about_a_cycle_and_its_calls_are_added() {
        let mut printed = cycle(0, &[(RESUME, 1000)]);
        printed.sleep = Some("deep".into());
        printed.asleep_us = Some(7);
        printed.cut = true;
        let named = |mut call: Call, function: &str, says: Us| {
            call.function = Some(function.into());
            call.says_us = Some(says);
            call
        };
        printed.calls = vec![
            named(call("usb1", 10, 4), "first", 11),
            named(call("usb1", 30, 4), "second", 12),
            named(call("sda", 50, 9), "other_worker", 13),
            named(call("gone", 50, 4), "gone", 14),
        ];
        let mut traced = cycle(5000, &[(RESUME, 1000)]);
        traced.sleep = Some("s2idle".into());
        traced.at = Some("noon".into());
        traced.cut = true;
        traced.calls = vec![
            call("usb1", 5010, 4),
            call("usb1", 5030, 4),
            call("sda", 5050, 8),
        ];
        let both = together(vec![printed.clone()], vec![traced.clone()]);
        let one = &both[0];
        assert_eq!(
            (one.sleep.as_deref(), one.at.as_deref(), one.asleep_us),
            (Some("deep"), Some("noon"), Some(7))
        );
        assert!(one.cut);
        let found: Vec<_> = one
            .calls
            .iter()
            .map(|call| (call.start, call.function.as_deref(), call.says_us))
            .collect();
        assert_eq!(
            found,
            [
                (Some(5010), Some("first"), Some(11)),
                (Some(5030), Some("second"), Some(12)),
                (Some(5050), None, None),
            ]
        );
        traced.cut = false;
        assert!(!together(vec![printed], vec![traced])[0].cut);
    }

    #[test]
    fn a_duplicate_cycle_counts_once_if_it_has_calls() {
        let mut one = cycle(0, &[(RESUME, 1000)]);
        one.calls = vec![call("sda", 10, 4)];
        let mut later = one.clone();
        later.calls[0].start = Some(11);
        let mut cycles = vec![one.clone(), later.clone(), one.clone(), one.clone()];
        assert_eq!(without_repeated(&mut cycles, &mut Vec::new()), 2);
        assert_eq!(cycles.len(), 2);
        assert_eq!((cycles[0].number, cycles[1].number), (1, 2));
        let mut other_stage = one.clone();
        other_stage.stages[0].end = 999;
        assert_eq!(
            without_repeated(&mut vec![one, other_stage], &mut Vec::new()),
            0
        );
        let bare = cycle(0, &[(RESUME, 1000)]);
        assert_eq!(
            without_repeated(&mut vec![bare.clone(), bare], &mut Vec::new()),
            0
        );
    }

    #[test]
    fn silences_and_the_last_message_are_on_the_traces_clock() {
        const FREEZE: StageKind = StageKind::Freeze;
        const THAW: StageKind = StageKind::Thaw;
        // On printk's clock from 100 on: freezing to 1100, suspending to 3100, thawing to 3600.
        let mut printed = cycle(100, &[(FREEZE, 1000), (SUSPEND, 2000), (THAW, 500)]);
        let gap = |start, end| Gap {
            start,
            end,
            message: format!("before {start}"),
            ..Gap::default()
        };
        printed.gaps = vec![
            gap(90, 95),
            gap(100, 150),
            gap(1099, 1100),
            gap(1100, 1300),
            gap(2000, 3050),
        ];
        // The trace starts at 10 000, suspends 7000 later and thaws from 20 000 on.
        let mut traced = cycle(10_000, &[(FREEZE, 7000), (SUSPEND, 2000), (THAW, 100)]);
        traced.stages[2].start = 20_000;
        traced.stages[2].end = 20_100;
        let gaps = |printed: &Cycle, traced: &Cycle| -> Vec<(Us, Us, String)> {
            let both = together(vec![printed.clone()], vec![traced.clone()]);
            assert_eq!(both.len(), 1);
            let gaps = both[0].gaps.iter();
            gaps.map(|gap| (gap.start, gap.end, gap.message.clone()))
                .collect()
        };
        let moved = |start, end, by: Us| (start + by, end + by, format!("before {start}"));
        // In freezing and before all stages: by 9900; in suspending, from 1100 on: by 15 900.
        assert_eq!(
            gaps(&printed, &traced),
            [
                moved(90, 95, 9900),
                moved(100, 150, 9900),
                moved(1099, 1100, 9900),
                moved(1100, 1300, 15_900),
                moved(2000, 3050, 15_900),
            ]
        );
        // A stage that the trace lacks: by the first ones.
        let mut late = printed.clone();
        late.gaps = vec![gap(3200, 3300)];
        let mut without = traced.clone();
        without.stages.truncate(2);
        assert_eq!(gaps(&late, &without), [moved(3200, 3300, 9900)]);
        // `suspend exit` is 500 after the start of thawing, the trace's last event 100.
        let end = |printed: &Cycle, traced: &Cycle| {
            let both = together(vec![printed.clone()], vec![traced.clone()]);
            assert_eq!(both[0].stages, traced.stages);
            both[0].words.last
        };
        printed.words.last = Some(3600);
        traced.words.last = Some(20_100);
        assert_eq!(end(&printed, &traced), Some(20_500));
        traced.words.last = Some(20_501);
        assert_eq!(end(&printed, &traced), Some(20_501));
    }
}

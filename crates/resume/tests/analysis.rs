//! The analysis of made-up machines with known times.

use crate::generator::kernel::{self, Threads};
use crate::generator::machine::{Draw, Machine};
use reveille_resume::analysis::{Analysis, Input, Question, Source, analyse, read};
use reveille_resume::cycle::{Cycle, StageKind};
use reveille_resume::what_if::Change;

const SEEDS: std::ops::Range<u64> = 1..9;

/// Several cycles of one machine, one after the other.
fn cycles(seed: u64, count: usize) -> (Vec<kernel::Truth>, Vec<Cycle>) {
    let machine = Machine::draw(seed, &Draw::fully_logged(10..=120));
    let mut threads = Threads::default();
    let mut at = 100_000_000;
    let truths: Vec<kernel::Truth> = (0..count)
        .map(|_| {
            let truth = kernel::run(&machine, at, &mut threads);
            at = truth.end() + 5_000_000;
            truth
        })
        .collect();
    let cycle = |(place, truth): (usize, &kernel::Truth)| truth.cycle(&machine, place + 1);
    let cycles = truths.iter().enumerate().map(cycle).collect();
    (truths, cycles)
}

fn analysis(cycles: Vec<Cycle>, question: &Question) -> Analysis {
    let input = Input {
        name: "made up".to_owned(),
        source: Source::default(),
        cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    analyse(vec![input], question).unwrap()
}

#[test]
fn times_paths_and_stages_are_the_true_ones() {
    for seed in SEEDS {
        let (truths, cycles) = cycles(seed, 3);
        let analysis = analysis(cycles, &Question::default());
        let machine = &analysis.machines[0];
        let mut resumes: Vec<i64> = truths.iter().map(kernel::Truth::resume_us).collect();
        resumes.sort_unstable();
        let all = machine.resume_us.unwrap();
        assert_eq!(
            (all.min, all.median, all.max),
            (resumes[0], resumes[1], resumes[2]),
            "seed {seed}"
        );
        assert_eq!(machine.shown().resume_us, Some(resumes[1]));
        for (truth, cycle) in truths.iter().zip(&machine.cycles) {
            let path: i64 = cycle.path.iter().map(|link| link.duration_us).sum();
            assert_eq!(path, truth.resume_us(), "seed {seed}");
            let before: i64 = cycle.suspend_path.iter().map(|link| link.duration_us).sum();
            assert_eq!(Some(before), cycle.suspend_us, "seed {seed}");
            for stage in &cycle.stages {
                let true_stage = truth.stage(stage.stage);
                assert_eq!(stage.duration_us, Some(true_stage.end - true_stage.start));
                let calls = truth.calls.iter().filter(|call| call.stage == stage.stage);
                assert_eq!(stage.calls, calls.clone().count(), "seed {seed}");
                let sum: i64 = calls.map(|call| call.end - call.start).sum();
                assert_eq!(stage.calls_us, sum, "seed {seed}");
            }
            let parts = [cycle.suspend_us, cycle.platform_us, cycle.resume_us];
            let sum: i64 = parts.into_iter().flatten().sum();
            assert_eq!(sum, cycle.end_us - cycle.start_us, "seed {seed}");
        }
    }
}

#[test]
fn the_path_consists_of_the_calls_without_slack() {
    for seed in SEEDS {
        let (_, cycles) = cycles(seed, 1);
        let analysis = analysis(cycles, &Question::default());
        let cycle = analysis.machines[0].shown();
        for call in cycle.path.iter().filter_map(|link| link.call) {
            assert_eq!(cycle.calls[call].slack_us, Some(0), "seed {seed}");
        }
        for device in &analysis.machines[0].devices {
            let is_free = device.slack_us.is_some_and(|slack| slack.median > 0);
            assert!(
                !is_free || device.on_path == 0,
                "seed {seed}: {}",
                device.device
            );
        }
    }
}

#[test]
fn replays_add_up_and_the_json_is_read_back() {
    for seed in SEEDS {
        let (_, cycles) = cycles(seed, 2);
        let plain = analysis(cycles.clone(), &Question::default());
        let Some(best) = plain.machines[0].removals.first() else {
            continue;
        };
        let question = Question {
            changes: vec![
                Change::without(&best.device).unwrap(),
                Change::set("stage:thaw=1us").unwrap(),
            ],
            steps: 3,
            ..Question::default()
        };
        let analysis = analysis(cycles, &question);
        let what_if = analysis.machines[0].what_if.as_ref().unwrap();
        let [without, set] = &what_if.replays[..] else {
            panic!("one replay for each change");
        };
        // Several devices may have one name; alone it saves its own time.
        assert!(without.total_us <= best.total_us, "seed {seed}");
        assert_eq!(what_if.measured_us - without.total_us, without.saves_us);
        assert_eq!(without.total_us - set.total_us, set.saves_us);
        let path: i64 = what_if.path.iter().map(|link| link.duration_us).sum();
        assert_eq!(path, set.total_us);
        let mut before = set.total_us;
        for step in &analysis.machines[0].steps {
            assert_eq!(before - step.total_us, step.saves_us);
            before = step.total_us;
        }
        let json = serde_json::to_vec(&analysis).unwrap();
        assert_eq!(read(&json).unwrap(), analysis);
    }
}

#[test]
fn incomplete_and_aborted_cycles_are_counted_and_in_no_median() {
    let (truths, mut cycles) = cycles(3, 3);
    cycles[0].cut = true;
    cycles[0].words.first = Some(cycles[0].stages[0].start);
    cycles[0]
        .stages
        .retain(|stage| stage.kind < StageKind::Resume);
    cycles[0]
        .calls
        .retain(|call| call.stage < StageKind::Resume);
    let analysis = analysis(cycles, &Question::default());
    let machine = &analysis.machines[0];
    assert_eq!(machine.resume_us.unwrap().count, 2);
    assert_eq!(machine.cycles[0].resume_us, None);
    let suspend =
        truths[0].stage(StageKind::Platform).start - truths[0].stage(StageKind::Freeze).start;
    assert_eq!(machine.cycles[0].suspend_us, Some(suspend));
    assert!(
        machine.notes[0].contains("1 of 3 cycles is cut"),
        "{:?}",
        machine.notes
    );
}

#[test]
fn a_file_that_is_no_analysis_is_reported() {
    for (text, why) in [
        ("{}", "missing field"),
        (r#"{"format":"x","version":1}"#, "its format"),
        (r#"{"format":"reveille-resume","version":5}"#, "version 5"),
        ("{", "EOF"),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn impossible_figures_are_refused() {
    let (_, cycles) = cycles(1, 1);
    let analysis = analysis(cycles, &Question::default());
    let mut hidden = analysis.clone();
    hidden.machines[0].shown = 7;
    let mut endless = analysis.clone();
    endless.machines[0].cycles[0].path[0].duration_us = i64::MAX;
    let mut early = analysis;
    early.machines[0].cycles[0].calls[0].call.start = Some(i64::MIN);
    for (damaged, why) in [
        (hidden, "cycle 7"),
        (endless, "cycle 1"),
        (early, "cycle 1"),
    ] {
        let error = read(&serde_json::to_vec(&damaged).unwrap()).unwrap_err();
        assert!(
            error.contains("is damaged") && error.contains(why),
            "{error}"
        );
    }
}

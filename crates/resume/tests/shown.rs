//! The output for cycles written by hand, value by value.

use crate::hand::{call, cpu, cycle, failure};
use reveille_resume::analysis::{
    Analysis, DeviceSpread, Input, LinkKind, LinkResult, Machine, Next, Question, Removal, Replay,
    Source, Spread, StageResult, StageSpread, SuspendDevice, analyse, half_name, no_devices, read,
    stage_name, stage_words, why_words,
};
use reveille_resume::cycle::{Call, Cycle, Gap, Name, StageKind, Us};
use reveille_resume::graph::Half;
use reveille_resume::path::Why;
use reveille_resume::power::Meter;
use reveille_resume::what_if::{Change, Deferred};
use reveille_snapshot::snapshot;

use StageKind::{
    Complete, CpusOff, CpusOn, Freeze, Idle, Platform, Prepare, Resume, ResumeEarly, ResumeNoirq,
    Suspend, SuspendLate, SuspendNoirq, Test, Thaw,
};

fn asked(cycles: Vec<Cycle>, question: &Question) -> Result<Analysis, String> {
    let input = Input {
        name: "m".to_owned(),
        source: Source::default(),
        cycles,
        notes: vec!["read".to_owned()],
        ..Input::default()
    };
    analyse(vec![input], question).map_err(|error| error.to_string())
}

fn machine(cycles: Vec<Cycle>) -> Machine {
    let mut analysis = asked(cycles, &Question::default()).unwrap();
    analysis.machines.remove(0)
}

/// Notes without the reader's own one, which comes first.
fn notes(cycles: Vec<Cycle>) -> Vec<String> {
    let mut notes = machine(cycles).notes;
    assert_eq!(notes.remove(0), "read");
    notes
}

const STAGES: [(StageKind, Us, Us); 6] = [
    (Freeze, 0, 10_000),
    (Suspend, 10_000, 30_000),
    (Platform, 30_000, 40_001),
    (ResumeNoirq, 40_001, 50_000),
    (Resume, 50_000, 90_000),
    (Thaw, 90_000, 100_000),
];

fn whole(number: usize) -> Cycle {
    cycle(number, &STAGES)
}

/// One cycle of each kind that has a note, repeated this often, and a call for each note on calls.
fn noted(times: usize) -> Vec<Cycle> {
    let mut cycles = Vec::new();
    for _ in 0..times {
        let cut = Cycle {
            cut: true,
            ..cycle(0, &STAGES[..2])
        };
        let mut aborted = cycle(0, &STAGES[..2]);
        aborted.failures = vec![failure(20_000, None, Some(Suspend), "no")];
        let copied = Cycle {
            stamped: false,
            ..whole(0)
        };
        let no_resume = cycle(0, &[STAGES[0], STAGES[5]]);
        let late = cycle(0, &STAGES[1..]);
        let mut calls = whole(0);
        // None of the three workers can be identified as the suspending process.
        calls.calls = vec![
            call("pci a", "none", Resume, 1, (50_000, 60_000)),
            call("pci b", "none", Resume, 2, (50_000, 60_000)),
            call("pci c", "none", Resume, 3, (50_100, 50_000)),
            call("pci d", "none", Resume, 4, (50_200, 90_001)),
            call("pci e", "none", Resume, 5, (50_300, 52_400)),
            call("pci f", "none", Resume, 6, (50_400, 52_400)),
        ];
        calls.calls[1].end = None;
        // 2,000 µs of printing; 1,999 µs are not mentioned.
        calls.calls[4].says_us = Some(100);
        calls.calls[5].says_us = Some(1);
        cycles.extend([cut, aborted, copied, no_resume, late, calls]);
    }
    cycles.extend((0..times).map(|_| cycle(0, &[])));
    for (place, cycle) in cycles.iter_mut().enumerate() {
        cycle.number = place + 1;
    }
    cycles
}

#[test]
fn each_kind_of_cycle_and_of_call_has_its_note_and_several_are_counted() {
    let mut twice = noted(2);
    // The longest printing is named: of 4.5 ms by the stamps.
    twice[11].calls[4].end = Some(54_800);
    let said = [("one of each", noted(1)), ("two of each", twice)]
        .map(|(case, cycles)| (case, notes(cycles).join("\n")));
    snapshot!("notes", said);
}

#[test]
fn the_notes_on_one_cycle_describe_it() {
    let said = ["cut", "aborted", "late"].into_iter().zip([0, 1, 4]);
    let said = said.map(|(case, place)| (case, notes(vec![noted(1).remove(place)]).join("\n")));
    snapshot!("notes", said);
    assert_eq!(notes(vec![whole(1)]), [] as [&str; 0]);
    // A truncated log may lack it, and copied lines have no times at all.
    let first = |kind: StageKind| {
        let mut late = whole(1);
        late.stages.remove(0);
        late.stages[0].kind = kind;
        late
    };
    for kind in [Freeze, Prepare, Platform, CpusOn] {
        assert_eq!(notes(vec![first(kind)]), [] as [&str; 0], "{kind:?}");
    }
    for kind in [Suspend, SuspendLate, CpusOff] {
        assert_eq!(notes(vec![first(kind)]).len(), 1, "{kind:?}");
    }
    let mut cut = first(Suspend);
    cut.cut = true;
    assert_eq!(notes(vec![cut]).len(), 1);
    let mut copied = first(Suspend);
    copied.stamped = false;
    assert_eq!(notes(vec![copied]).len(), 1);
    // Only calls of a resume need a known worker.
    let mut suspends = whole(1);
    suspends.calls = vec![call("pci a", "none", Suspend, 1, (10_000, 20_000))];
    assert_eq!(notes(vec![suspends]), [] as [&str; 0]);
}

#[test]
fn a_meter_belongs_to_one_machine() {
    let input = || Input {
        name: "m".to_owned(),
        source: Source::default(),
        cycles: vec![whole(1)],
        notes: Vec::new(),
        ..Input::default()
    };
    let question = Question {
        meter: Some(Meter::parse(b"0,5\n1,5\n2,5\n3,5\n").unwrap()),
        ..Question::default()
    };
    let error = analyse(vec![input(), input()], &question).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--power: belongs to one machine"),
        "{error}"
    );
    // One is aligned with the cycles, or the reason why not is given.
    let error = analyse(vec![input()], &question).unwrap_err().to_string();
    assert!(
        error.starts_with("--power: ") && !error.contains("one machine"),
        "{error}"
    );
}

#[test]
fn a_machine_without_any_stage_has_no_analysis() {
    let empty = || cycle(1, &[]);
    let error = asked(vec![empty()], &Question::default()).unwrap_err();
    assert!(error.contains("no stage"), "{error}");
    // A call, a sleep or a failure counts.
    let mut called = empty();
    called.calls = vec![call("pci a", "none", Resume, 1, (5, 9))];
    let mut slept = empty();
    slept.asleep_us = Some(7);
    let mut failed = empty();
    failed.failures = vec![failure(3, None, None, "no")];
    for (cycle, begin) in [(called, 5), (slept, 0), (failed, 3)] {
        let machine = machine(vec![cycle.clone()]);
        let shown = machine.shown();
        assert_eq!(machine.asleep_us.is_some(), cycle.asleep_us.is_some());
        assert_eq!((shown.start_us, shown.end_us), (begin, begin));
        assert_eq!(shown.stages, []);
    }
    let none = Question {
        cycle: Some(3),
        ..Question::default()
    };
    let refused = |cycles| asked(cycles, &none).unwrap_err();
    let said = [
        ("of 2", refused(vec![whole(1), whole(2)])),
        ("of 1", refused(vec![whole(1)])),
    ];
    snapshot!("errors", said);
    let second = Question {
        cycle: Some(2),
        ..Question::default()
    };
    let found = asked(vec![whole(1), whole(2)], &second).unwrap();
    assert_eq!(
        (found.machines[0].shown, found.machines[0].cycles.len()),
        (2, 1)
    );
}

/// [`whole`] with a resume of this length; 0: without any of its stages.
fn resumes(number: usize, us: Us) -> Cycle {
    let mut cycle = whole(number);
    cycle.stages[5].end = 40_001 + us;
    if us == 0 {
        cycle.stages.drain(2..5);
    }
    cycle
}

#[test]
fn the_cycle_nearest_to_the_median_is_shown_and_of_two_the_longer() {
    let shown = |resume: &[Us]| {
        let cycles = resume.iter().enumerate();
        machine(cycles.map(|(place, &us)| resumes(place + 1, us)).collect()).shown
    };
    assert_eq!(shown(&[70_000, 90_000, 60_000]), 1);
    assert_eq!(shown(&[70_000, 90_000, 60_000, 60_000]), 1);
    // 75,000 is equally far from both.
    assert_eq!(shown(&[70_000, 80_000]), 2);
    assert_eq!(shown(&[80_000, 70_000]), 1);
    // 70,100: one is 100 away, the other one 100,000.
    assert_eq!(shown(&[170_000, 70_000, 70_200, 55_000]), 3);
    // An unknown resume is near to none.
    assert_eq!(shown(&[0, 70_000]), 2);
    assert_eq!(shown(&[0, 0]), 1);
    // If none is known the devices' stage counts.
    let copied = |number: usize, us: Us| {
        let mut cycle = whole(number);
        cycle.stamped = false;
        cycle.stages[4].end = 50_000 + us;
        cycle
    };
    let cycles = [9_000, 1_000, 5_000].into_iter().enumerate();
    assert_eq!(
        machine(cycles.map(|(place, us)| copied(place + 1, us)).collect()).shown,
        3
    );
}

#[test]
fn stamps_of_whole_seconds_give_no_time_below_two() {
    const S: Us = 1_000_000;
    let lengths = |suspend: Us, resume: Us, rest: Us, resolution_us: Us| {
        let mut coarse = cycle(
            1,
            &[
                (Freeze, 0, S),
                (Suspend, S, suspend),
                (Platform, suspend, suspend + rest),
                (Resume, suspend + rest, suspend + rest + resume),
            ],
        );
        coarse.resolution_us = resolution_us;
        let found = machine(vec![coarse]);
        let cycle = found.shown();
        let paths = [Half::Suspend, Half::Resume].map(|half| !cycle.path_of(half).is_empty());
        assert_eq!(
            paths,
            [cycle.suspend_us.is_some(), cycle.resume_us.is_some()]
        );
        (cycle.suspend_us, cycle.resume_us)
    };
    assert_eq!(lengths(2 * S, 2 * S, S, S), (Some(2 * S), Some(2 * S)));
    assert_eq!(lengths(3 * S, S, S, S), (Some(3 * S), None));
    assert_eq!(lengths(S, 3 * S, S, S), (None, Some(3 * S)));
    // The clock's resolution decides that, and not the values of its stamps.
    assert_eq!(lengths(S, S, 1, S), (None, None));
    assert_eq!(lengths(S, S, S, 1), (Some(S), Some(S)));
    assert_eq!(lengths(S, S, S, S / 2), (Some(S), Some(S)));
}

/// Freeze to firmware in 30 ms, and from 40.001 to 100 ms the resume, with this change.
fn paths(change: impl FnOnce(&mut Cycle)) -> [bool; 2] {
    let mut cycle = whole(1);
    change(&mut cycle);
    let machine = machine(vec![cycle]);
    [Half::Suspend, Half::Resume].map(|half| !machine.shown().path_of(half).is_empty())
}

#[test]
fn a_half_has_a_path_if_its_length_is_known_or_the_log_is_truncated() {
    assert_eq!(paths(|_| ()), [true, true]);
    assert_eq!(paths(|cycle| cycle.stamped = false), [false, false]);
    // Without the messages that bound the sleep neither half has a length or a path.
    let unbounded = |cycle: &mut Cycle| drop(cycle.stages.drain(1..5));
    assert_eq!(paths(unbounded), [false, false]);
    // A truncated log's part of the one half is shown.
    let cut = |cycle: &mut Cycle| {
        cycle.cut = true;
        cycle.stages.drain(..1);
    };
    assert_eq!(paths(cut), [true, true]);
    let cut = |cycle: &mut Cycle| {
        cycle.cut = true;
        cycle.stages.pop();
    };
    assert_eq!(paths(cut), [true, true]);
}

fn link(what: LinkKind, stage: StageKind, span: (Us, Us), why: Why) -> LinkResult {
    LinkResult {
        what,
        stage,
        call: None,
        device: None,
        driver: None,
        cpu: None,
        start_us: span.0,
        duration_us: span.1 - span.0,
        why,
        message: None,
        ended_by: None,
    }
}

fn of_call(what: LinkKind, call: (usize, &str), span: (Us, Us), why: Why) -> LinkResult {
    LinkResult {
        call: Some(call.0),
        device: Some(call.1.into()),
        driver: Some("drv".into()),
        ..link(what, Resume, span, why)
    }
}

fn of_cpu(what: LinkKind, cpu: u32, span: (Us, Us), why: Why) -> LinkResult {
    LinkResult {
        cpu: Some(cpu),
        ..link(what, CpusOn, span, why)
    }
}

fn after(message: &str, link: LinkResult) -> LinkResult {
    LinkResult {
        what: LinkKind::Silence,
        message: Some(message.to_owned()),
        ..link
    }
}

/// With two CPUs, a call after another one, unexplained waits, printing, and silences.
fn full() -> Cycle {
    let mut full = cycle(
        7,
        &[
            (Platform, 0, 20_000),
            (CpusOn, 30_000, 50_000),
            (ResumeNoirq, 50_000, 60_000),
            (Resume, 60_000, 130_000),
            (Thaw, 130_000, 135_001),
        ],
    );
    full.cpus = vec![cpu(1, true, 38_000, 45_000), cpu(2, true, 45_000, 49_000)];
    full.calls = vec![
        call("drv a", "none", Resume, 1, (60_500, 70_000)),
        call("drv b", "a", Resume, 2, (75_000, 90_000)),
        // 19.9 ms by the stamps, so its line was printed for 4.9.
        call("drv c", "b", Resume, 3, (90_100, 110_000)),
    ];
    full.calls[2].says_us = Some(15_000);
    let gap = |message: &str, start, end| Gap {
        start,
        end,
        message: message.to_owned(),
        ..Gap::default()
    };
    full.gaps = vec![
        gap("sleeps", 10_000, 26_000),
        gap("cpu 1", 33_000, 38_000),
        gap("noirq", 51_000, 55_999),
        gap("a begins", 61_000, 69_000),
        gap("c ends", 112_000, 118_000),
        gap("last", 120_000, 140_000),
    ];
    full
}

#[test]
fn a_path_has_calls_waits_cpus_and_silences_with_reasons() {
    use LinkKind::{BeforeCall, BeforeCpu, BeforeStage, Call, Cpu, Printing, Stage, Unexplained};
    use Why::{CpuBefore, Follows, Parent, StageBegins, WaitsForAll};
    let machine = machine(vec![full()]);
    let expected = vec![
        // A silence that started in the sleep is silence from the resume's start on.
        after(
            "sleeps",
            link(BeforeStage, CpusOn, (20_000, 26_000), Why::Begins),
        ),
        link(BeforeStage, CpusOn, (26_000, 30_000), Follows),
        of_cpu(BeforeCpu, 1, (30_000, 33_000), StageBegins),
        // 5 ms are a silence; 4.999 are not.
        after("cpu 1", of_cpu(BeforeCpu, 1, (33_000, 38_000), Follows)),
        of_cpu(Cpu, 1, (38_000, 45_000), Follows),
        of_cpu(Cpu, 2, (45_000, 49_000), CpuBefore),
        link(Stage, CpusOn, (49_000, 50_000), WaitsForAll),
        link(Stage, ResumeNoirq, (50_000, 60_000), StageBegins),
        of_call(BeforeCall, (0, "a"), (60_000, 60_500), StageBegins),
        // A call starts for the reason of the wait before it.
        of_call(Call, (0, "a"), (60_500, 70_000), StageBegins),
        of_call(Unexplained, (1, "b"), (70_000, 75_000), Parent),
        of_call(Call, (1, "b"), (75_000, 90_000), Parent),
        of_call(BeforeCall, (2, "c"), (90_000, 90_100), Parent),
        of_call(Printing, (2, "c"), (90_100, 95_000), Parent),
        of_call(Call, (2, "c"), (95_000, 110_000), Parent),
        link(Stage, Resume, (110_000, 112_000), WaitsForAll),
        after("c ends", link(Stage, Resume, (112_000, 118_000), Follows)),
        link(Stage, Resume, (118_000, 120_000), Follows),
        after("last", link(Stage, Resume, (120_000, 130_000), Follows)),
        // The rest of that silence starts its stage, and has this millisecond less.
        after("last", link(Stage, Thaw, (130_000, 135_001), StageBegins)),
    ];
    assert_eq!(machine.shown().path, expected);
    let words: Vec<String> = expected.iter().map(LinkResult::words).collect();
    assert_eq!(
        words,
        [
            "after: sleeps",
            "between stages",
            "before CPU 1",
            "after: cpu 1",
            "CPU 1",
            "CPU 2",
            "CPUs on",
            "resume noirq",
            "before a",
            "a",
            "before b, unexplained",
            "b",
            "before c",
            "printing, c",
            "c",
            "resume devices",
            "after: c ends",
            "resume devices",
            "after: last",
            "after: last",
        ]
    );
    assert_eq!(link(Call, Resume, (0, 1), Follows).words(), "a device");
    assert_eq!(link(Cpu, CpusOn, (0, 1), Follows).words(), "more CPUs");
    assert_eq!(
        link(BeforeCpu, CpusOn, (0, 1), Follows).words(),
        "before a CPU"
    );
    assert_eq!(
        link(LinkKind::Silence, Resume, (0, 1), Follows).words(),
        "silence"
    );
}

#[test]
fn time_between_stages_is_the_devices_if_no_line_names_their_stage() {
    // The stages; the kind of the time before the last one of the half.
    let before_last = |stages: &[(StageKind, Us, Us)], half: Half| {
        let machine = machine(vec![cycle(1, stages)]);
        let path = machine.shown().path_of(half);
        let mut found = path
            .iter()
            .filter(|link| link.what == LinkKind::BeforeStage);
        found.next_back().map(|link| link.stage)
    };
    let sleep = (Platform, 60_000, 70_001);
    for (before, last, stage) in [
        (Freeze, SuspendLate, Suspend),
        (Prepare, SuspendNoirq, Suspend),
        // The devices' own stage exists, or a later one: the time is before the next one.
        (Suspend, SuspendNoirq, SuspendNoirq),
        (SuspendLate, SuspendNoirq, SuspendNoirq),
        (Freeze, Suspend, Suspend),
        (Freeze, Prepare, Prepare),
    ] {
        let stages = [(before, 0, 10_000), (last, 40_000, 60_000), sleep];
        assert_eq!(
            before_last(&stages, Half::Suspend),
            Some(stage),
            "{before:?}, {last:?}"
        );
    }
    for (before, last, stage) in [
        (CpusOn, Thaw, Resume),
        (ResumeEarly, Complete, Resume),
        (Resume, Thaw, Thaw),
        (Complete, Thaw, Thaw),
        (CpusOn, ResumeEarly, ResumeEarly),
        (ResumeNoirq, Resume, Resume),
    ] {
        let stages = [
            (Freeze, 0, 60_000),
            sleep,
            (before, 70_001, 80_000),
            (last, 90_000, 99_000),
        ];
        assert_eq!(
            before_last(&stages, Half::Resume),
            Some(stage),
            "{before:?}, {last:?}"
        );
    }
    // Without a stage before it, either.
    let stages = [(Freeze, 0, 60_000), sleep, (Thaw, 90_000, 99_000)];
    let machine = machine(vec![Cycle {
        cut: true,
        ..cycle(1, &stages)
    }]);
    assert_eq!(machine.shown().path[0].stage, Resume);
}

fn spread(median: Us, min: Us, max: Us, count: usize) -> Spread {
    Spread {
        median,
        min,
        max,
        count,
    }
}

fn one(us: Us) -> Spread {
    spread(us, us, us, 1)
}

/// Two devices of the name `0:0`; one of them has two calls in the resume, and two of equal length.
fn devices(number: usize, longer: Us) -> Cycle {
    let mut cycle = whole(number);
    let sd = call("sd 0:0", "none", Suspend, 1, (10_000, 12_000 + longer));
    let early = call("sd 0:0", "none", ResumeNoirq, 1, (40_001, 40_501));
    let late = call("sd 0:0", "none", Resume, 1, (50_000, 55_000 + longer));
    let other = call("sr 0:0", "none", Resume, 2, (50_000, 53_000));
    let mut open = call("sr 1:0", "none", Resume, 3, (50_000, 0));
    open.end = None;
    let mut done = call("sr 1:0", "none", Complete, 3, (0, 0));
    (done.start, done.end, done.says_us) = (None, None, Some(77));
    cycle.calls = vec![sd, early, late, other, open, done];
    cycle
}

#[test]
fn a_device_has_the_sum_of_its_calls_and_the_slack_of_the_longest() {
    let machine = machine(vec![devices(1, 0), devices(2, 2_000)]);
    let sd = || Name::from("sd");
    // Both cycles have 5 or 7 ms and half a one in the resume. Nothing in it has slack: the stage
    // waits for it until it ends, at 90 ms, by its own work.
    let expected = [
        DeviceSpread {
            device: "0:0".into(),
            driver: Some(sd()),
            resume_us: spread(6_500, 5_500, 7_500, 2),
            suspend_us: Some(spread(3_000, 2_000, 4_000, 2)),
            on_path: 2,
            slack_us: Some(spread(0, 0, 0, 2)),
        },
        DeviceSpread {
            device: "0:0".into(),
            driver: Some("sr".into()),
            resume_us: spread(3_000, 3_000, 3_000, 2),
            suspend_us: None,
            on_path: 0,
            slack_us: Some(spread(3_000, 2_000, 4_000, 2)),
        },
        // Its call that did not return has no length, and one that only the kernel reports has no
        // slack.
        DeviceSpread {
            device: "1:0".into(),
            driver: Some("sr".into()),
            resume_us: spread(77, 77, 77, 2),
            suspend_us: None,
            on_path: 0,
            slack_us: None,
        },
    ];
    assert_eq!(machine.devices, expected);
    let suspend = SuspendDevice {
        device: "0:0".into(),
        driver: Some(sd()),
        suspend_us: spread(3_000, 2_000, 4_000, 2),
        on_path: 2,
        slack_us: Some(spread(0, 0, 0, 2)),
    };
    assert_eq!(machine.suspend_devices, [suspend]);
    let lengths = [
        (Freeze, 10_000),
        (Suspend, 20_000),
        (Platform, 10_001),
        (ResumeNoirq, 9_999),
        (Resume, 40_000),
        (Thaw, 10_000),
    ];
    let stages = lengths.map(|(stage, us)| StageSpread {
        stage,
        duration_us: spread(us, us, us, 2),
    });
    assert_eq!(machine.stages, stages);
    let resume = StageResult {
        stage: Resume,
        start_us: 50_000,
        duration_us: Some(40_000),
        says_us: None,
        calls: 3,
        calls_us: 10_000,
    };
    assert_eq!(machine.cycles[1].stages[4], resume);
    let slack: Vec<_> = machine.cycles[0]
        .calls
        .iter()
        .map(|one| one.slack_us)
        .collect();
    assert_eq!(slack, [Some(0), Some(0), Some(0), Some(2_000), None, None]);
    // Of equally long calls the first one counts: it has 4.5 ms of slack.
    let mut tied = whole(1);
    tied.calls = vec![
        call("sd 0:0", "none", ResumeNoirq, 1, (40_001, 40_501)),
        call("sr 1:0", "none", ResumeNoirq, 2, (40_001, 45_001)),
        call("sd 0:0", "none", Resume, 1, (50_000, 50_500)),
    ];
    let tied = self::machine(vec![tied]);
    let sd = tied
        .devices
        .iter()
        .find(|one| &*one.device == "0:0")
        .unwrap();
    assert_eq!((sd.slack_us, sd.on_path), (Some(one(4_500)), 0));
    // The longest first.
    assert_eq!(&*tied.devices[0].device, "1:0");
    // A microsecond more, and the second one counts: its stage ends 39.5 ms after it, by its own
    // work.
    let mut longer = whole(1);
    longer.calls = tied.cycles[0]
        .calls
        .iter()
        .map(|one| one.call.clone())
        .collect();
    longer.calls[2].end = Some(50_501);
    let longer = self::machine(vec![longer]);
    let sd = longer
        .devices
        .iter()
        .find(|one| &*one.device == "0:0")
        .unwrap();
    assert_eq!((sd.slack_us, sd.on_path), (Some(one(0)), 1));
}

#[test]
fn only_complete_cycles_enter_the_medians() {
    let mut aborted = cycle(2, &STAGES[..2]);
    aborted.failures = vec![failure(20_000, None, None, "no")];
    let mut slept = whole(1);
    slept.asleep_us = Some(9);
    let found = machine(vec![slept, aborted.clone()]);
    assert_eq!(found.suspend_us, Some(one(30_000)));
    assert_eq!(found.resume_us, Some(one(59_999)));
    assert_eq!(found.asleep_us, Some(one(9)));
    assert_eq!(found.stages.len(), 6);
    assert!(
        found
            .stages
            .iter()
            .all(|stage| stage.duration_us.count == 1)
    );
    // A log truncated at its beginning has its complete resume, but no cycle.
    let mut cut = cycle(2, &STAGES[2..]);
    cut.cut = true;
    cut.stages[3].end = 110_000;
    let found = machine(vec![whole(1), cut]);
    assert_eq!(found.cycles[1].resume_us, Some(69_999));
    assert_eq!(found.resume_us, Some(one(59_999)));
    let mut early = aborted.clone();
    early.stages[1].end = 25_000;
    // If there is none, all are counted.
    let found = machine(vec![aborted, early]);
    assert_eq!(found.suspend_us, Some(spread(27_500, 25_000, 30_000, 2)));
    assert_eq!((found.resume_us, found.asleep_us), (None, None));
}

#[test]
fn a_half_without_a_calls_return_has_no_length_and_no_advice() {
    let open = |stage: StageKind, start: Us| {
        let mut one = call("pci a", "none", stage, 1, (start, 0));
        one.end = None;
        one
    };
    let calls = |stage: StageKind| [call("pci b", "none", stage, 2, (10_000, 20_000))];
    let with = |calls: Vec<Call>, until: usize| {
        let mut cycle = cycle(1, &STAGES[..until]);
        cycle.calls = calls;
        cycle.cut = true;
        cycle.words.first = Some(cycle.stages[0].start);
        machine(vec![cycle])
    };
    let lengths = |machine: &Machine| {
        let cycle = machine.shown();
        let paths = [Half::Suspend, Half::Resume].map(|half| !cycle.path_of(half).is_empty());
        let unreturned = [Half::Suspend, Half::Resume].map(|half| cycle.unreturned(half).count());
        (cycle.suspend_us, cycle.resume_us, paths, unreturned)
    };
    let suspends = with([&calls(Suspend)[..], &[open(Suspend, 15_000)]].concat(), 2);
    assert_eq!(lengths(&suspends), (None, None, [false, false], [1, 0]));
    assert_eq!(
        (suspends.removals, suspends.suspend_removals),
        (vec![], vec![])
    );
    let thawed = [&calls(Suspend)[..], &[open(Thaw, 95_000)]].concat();
    let resumes = with(thawed, 6);
    assert_eq!(
        lengths(&resumes),
        (Some(30_000), None, [true, false], [0, 1])
    );
    assert_eq!(resumes.suspend_removals.len(), 1);
    assert_eq!(resumes.removals, []);
    // A later stage exists all the same: the log lost the return.
    let lost = with(vec![open(Resume, 55_000)], 6);
    assert_eq!(lengths(&lost).3, [0, 0]);
    assert_eq!(lost.shown().resume_us, Some(59_999));
    // A stage with only a call in it is a later one, too.
    let later = vec![
        open(Suspend, 15_000),
        call("pci b", "none", SuspendLate, 2, (31_000, 32_000)),
    ];
    assert_eq!(lengths(&with(later, 2)).3, [0, 0]);
    // Neither has a call without a start started, nor is a log truncated that is not so at its end.
    let mut ended = open(Suspend, 15_000);
    (ended.start, ended.end) = (None, Some(16_000));
    assert_eq!(lengths(&with(vec![ended], 2)).3, [0, 0]);
    let mut uncut = cycle(1, &STAGES[..2]);
    uncut.calls = vec![open(Suspend, 15_000)];
    assert_eq!(lengths(&machine(vec![uncut])).3, [0, 0]);
}

#[test]
fn failures_have_their_stage_and_calls_that_never_returned_come_first() {
    let mut first = whole(1);
    first.failures = vec![
        failure(20_000, Some("usb1"), Some(Suspend), "failed to suspend"),
        failure(21_000, None, Some(Resume), "watchdog"),
        failure(22_000, Some("x"), None, "gone"),
    ];
    let returns = |device: &str, result: i32| Call {
        result: Some(result),
        ..call(device, "none", Suspend, 1, (10_000, 11_000))
    };
    let mut lost = call("pci lost", "pci0", Resume, 2, (51_250, 0));
    (lost.end, lost.function) = (None, None);
    // The kernel's message about usb1 is not repeated; messages about others do not concern b.
    first.calls = vec![
        returns("usb usb1", -5),
        returns("pci b", -22),
        returns("pci c", 0),
        returns("pci d", 1),
        lost,
    ];
    let mut ends = whole(2);
    ends.cut = true;
    ends.stages.truncate(5);
    ends.calls = vec![call("pci e", "none", Resume, 1, (60_000, 0))];
    ends.calls[0].end = None;
    let mut goes_on = ends.clone();
    goes_on.number = 3;
    goes_on.gaps = vec![Gap {
        start: 90_000,
        end: 1_060_001,
        message: "hung".to_owned(),
        ..Gap::default()
    }];
    let mut a_second = goes_on.clone();
    (a_second.number, a_second.gaps[0].end) = (4, 1_060_000);
    let mut later = ends.clone();
    later.number = 5;
    later.stages = whole(5).stages;
    // A call that is not a log's last message, in a log truncated elsewhere, is not reported.
    let machine = machine(vec![first, ends, goes_on, a_second, later]);
    let failed = machine.failed();
    snapshot!(
        "failures",
        failed
            .iter()
            .map(|one| (format!("{}: {}", one.cycle, one.how), &one.what))
    );
}

#[test]
fn the_last_instant_is_that_of_any_stage_call_silence_or_failure() {
    let until = |change: fn(&mut Cycle)| {
        let mut cycle = whole(1);
        change(&mut cycle);
        machine(vec![cycle]).shown().until_us()
    };
    assert_eq!(until(|_| ()), 100_000);
    assert_eq!(
        until(|cycle| cycle.failures = vec![failure(100_007, None, None, "no")]),
        100_007
    );
    let late = |cycle: &mut Cycle| {
        cycle.calls = vec![call("pci a", "none", Resume, 1, (100_001, 100_009))];
    };
    assert_eq!(until(late), 100_009);
    let open = |cycle: &mut Cycle| {
        cycle.calls = vec![call("pci a", "none", Resume, 1, (100_001, 0))];
        cycle.calls[0].end = None;
    };
    assert_eq!(until(open), 100_001);
}

#[test]
fn text_and_json_have_their_own_words() {
    let kinds = [
        (Freeze, "freeze processes"),
        (Prepare, "prepare"),
        (Suspend, "suspend devices"),
        (SuspendLate, "suspend late"),
        (SuspendNoirq, "suspend noirq"),
        (CpusOff, "CPUs off"),
        (Platform, "around the sleep"),
        (Idle, "suspended to idle"),
        (Test, "wait of pm_test"),
        (CpusOn, "CPUs on"),
        (ResumeNoirq, "resume noirq"),
        (ResumeEarly, "resume early"),
        (Resume, "resume devices"),
        (Complete, "complete"),
        (Thaw, "thaw processes"),
    ];
    for (kind, words) in kinds {
        assert_eq!(stage_words(kind), words);
        let json = serde_json::to_value(kind).unwrap();
        assert_eq!(json, stage_name(kind));
        // A change of the resume names it likewise.
        let text = format!("stage:{}=1ms", stage_name(kind));
        let set = Change::set(&text).map(|set| set.to_string()).ok();
        assert_eq!(set, Half::Resume.has(kind).then_some(text));
    }
    assert_eq!(
        [Half::Suspend, Half::Resume].map(half_name),
        ["suspend", "resume"]
    );
    assert_eq!(why_words(Why::Parent), "waits for its parent");
    assert_eq!(why_words(Why::Begins), "first");
}

#[test]
fn changes_are_replayed_cumulatively() {
    // a for 20 ms, then b below it for 15; c beside them for 25. The stage ends 5 ms after b.
    let with = |number: usize, longer: Us| {
        let mut cycle = cycle(number, &STAGES);
        cycle.calls = vec![
            call("drv a", "none", Resume, 1, (50_000, 70_000)),
            call("drv c", "none", Resume, 3, (50_000, 75_000 + longer)),
            call("drv b", "a", Resume, 2, (70_000, 85_000)),
        ];
        cycle
    };
    // Its name is the first cycle's.
    let mut second = with(2, 6_000);
    second.calls[0].driver = Some("other".into());
    let mut aborted = cycle(3, &STAGES[..2]);
    aborted.failures = vec![failure(20_000, None, None, "no")];
    let question = Question {
        cycle: None,
        changes: vec![
            Change::without("b").unwrap(),
            Change::defer("c").unwrap(),
            Change::without("b,nothing").unwrap(),
            Change::without("nvme").unwrap(),
        ],
        steps: 5,
        ..Question::default()
    };
    let error = asked(vec![with(1, 0), with(2, 6_000)], &question).unwrap_err();
    assert!(
        error.starts_with("without nvme: ") && error.contains("named so"),
        "{error}"
    );
    let question = Question {
        changes: question.changes[..3].to_vec(),
        ..question
    };
    let found = asked(vec![with(1, 0), second, aborted], &question).unwrap();
    let machine = &found.machines[0];
    assert_eq!(
        machine.shown, 1,
        "both resumes take as long: the first one is shown"
    );
    let what_if = machine.what_if.as_ref().unwrap();
    let replay = |change: &str, total_us: Us, saves_us: Us| Replay {
        change: change.to_owned(),
        total_us,
        saves_us,
        removed: Vec::new(),
        deferred: Vec::new(),
    };
    // c ends 10 ms before b; without it a alone remains, 5 ms less.
    assert_eq!(what_if.cycle, 1);
    assert_eq!(what_if.measured_us, 59_999);
    assert_eq!(
        what_if.replays,
        [
            Replay {
                removed: vec!["b".into()],
                ..replay("without b", 49_999, 10_000)
            },
            Replay {
                // 25 ms after the whole.
                deferred: vec![Deferred {
                    device: "c".into(),
                    ready_us: 44_999 + 25_000,
                }],
                ..replay("defer c", 44_999, 5_000)
            },
            replay("without b,nothing", 44_999, 0),
        ]
    );
    // In the second cycle c ends 5 ms before the stage, and b's 5 ms less: the rest takes 4 ms.
    assert_eq!(
        what_if.all_cycles_us,
        Some(spread(44_999, 44_999, 44_999, 2))
    );
    assert_eq!(what_if.unmet, [] as [String; 0]);
    let path: Us = what_if.path.iter().map(|link| link.duration_us).sum();
    assert_eq!(path, 44_999);
    let a = what_if
        .path
        .iter()
        .find(|link| link.what == LinkKind::Call)
        .unwrap();
    assert_eq!(
        (a.driver.as_deref(), a.start_us, a.duration_us),
        (Some("drv"), 50_000, 20_000)
    );
    // What remains to be removed after these changes is a.
    let a = Removal {
        device: "a".into(),
        driver: Some("drv".into()),
        with_below: 1,
        total_us: 24_999,
        saves_us: 20_000,
        next: None,
        as_much: Vec::new(),
    };
    assert_eq!(machine.steps, [a]);
    // Without changes, a and everything below it leave c: 25 ms, of 35. b alone leaves c, too.
    let removal = |device: &str, with_below: usize, saves_us: Us| Removal {
        device: device.into(),
        driver: Some("drv".into()),
        with_below,
        total_us: 59_999 - saves_us,
        saves_us,
        next: Some(Next {
            device: "c".into(),
            driver: Some("drv".into()),
        }),
        as_much: Vec::new(),
    };
    let b = Removal {
        as_much: vec!["a".into()],
        ..removal("b", 0, 10_000)
    };
    assert_eq!(machine.removals, [b]);
    assert_eq!(machine.suspend_removals, []);
}

#[test]
fn a_change_that_needs_devices_reports_why_the_log_has_none() {
    let question = |change: Change| Question {
        changes: vec![change],
        ..Question::default()
    };
    let why = no_devices(machine(vec![whole(1)]).shown(), Half::Resume).unwrap();
    let asks = |change: Change| asked(vec![whole(1)], &question(change)).unwrap_err();
    assert_eq!(
        asks(Change::without("a").unwrap()),
        format!("without a: {why}")
    );
    // CPUs are no devices.
    snapshot!(
        "errors",
        [("no devices", why), ("1 CPU", asks(Change::Cpus(1)))]
    );
    let stage = Change::set("stage:resume=1ms").unwrap();
    assert!(asked(vec![whole(1)], &question(stage)).is_ok());
}

/// The place of a JSON figure, by its keys.
fn figures(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                figures(value, &format!("{at}/{key}"), found);
            }
        }
        serde_json::Value::Array(array) => {
            for (place, value) in array.iter().enumerate() {
                figures(value, &format!("{at}/{place}"), found);
            }
        }
        serde_json::Value::Number(_) => found.push(at.to_owned()),
        _ => {}
    }
}

/// 317 years and 115 days, µs: the limit of instants and durations.
const LAST: i64 = 10_000_000_000_000_000;
const LONGEST: i64 = 10_000_000_000_000;

/// The maximum of this key's figure; `None`: it is not a time.
fn most(at: &str) -> Option<i64> {
    let mut keys = at.rsplit('/');
    let key = keys.next().unwrap_or_default();
    // Of use only to the one that made it.
    if at.contains("/power/") && key == "platform_us" {
        return None;
    }
    match key {
        "start" | "end" | "at" | "at_us" | "start_us" | "end_us" | "resume_start_us"
        | "suspended_us" | "woken_us" => Some(LAST),
        "median" | "min" | "max" => Some(LONGEST),
        _ => key.ends_with("_us").then_some(LONGEST),
    }
}

/// The error's name of the place.
fn place(at: &str) -> &'static str {
    let mut keys = at.split('/').skip(3);
    match keys.next().unwrap_or_default() {
        "cycles" => "cycle 1",
        "power" => "power",
        "what_if" => "a what-if",
        "removals" | "steps" | "suspend_removals" => "a removal",
        "stages" => "a stage's spread",
        "devices" | "suspend_devices" => "a device's spread",
        _ => "a spread",
    }
}

#[test]
fn every_time_in_the_json_has_its_limits() {
    let mut cycle = whole(1);
    cycle.stages[1].says_us = Some(19_000);
    cycle.asleep_us = Some(5);
    cycle.failures = vec![failure(95_000, None, Some(Resume), "no")];
    cycle.gaps = vec![Gap {
        start: 81_000,
        end: 89_000,
        message: "m".to_owned(),
        ..Gap::default()
    }];
    cycle.cpus = vec![cpu(1, false, 28_000, 29_000)];
    cycle.calls = vec![
        call("drv a", "none", Suspend, 1, (10_000, 20_000)),
        call("drv a", "none", Resume, 1, (50_000, 80_000)),
        call("drv b", "none", Resume, 2, (50_000, 60_000)),
        call("drv c", "none", Resume, 3, (50_000, 75_000)),
    ];
    cycle.calls[0].says_us = Some(10_000);
    let question = Question {
        changes: vec![Change::defer("c").unwrap()],
        steps: 1,
        ..Question::default()
    };
    let analysis = asked(vec![cycle], &question).unwrap();
    let mut json = serde_json::to_value(&analysis).unwrap();
    let mean = serde_json::json!({ "samples": 0 });
    json["machines"][0]["power"] = serde_json::json!({
        "format": "csv",
        "clock": "elapsed",
        "samples": 9,
        "left_out": { "unreadable": 0, "negative": 0, "out_of_order": 0 },
        "interval_us": 10,
        "gaps": 1,
        "gaps_us": 20,
        "laid_by": "offset",
        "idle": mean,
        "asleep": mean,
        "suspend": mean,
        "resume": mean,
        "cycles": [{
            "number": 1,
            "start_us": 1,
            "suspended_us": 2,
            "woken_us": 3,
            "end_us": 4,
            "asleep": mean,
            "platform_us": 1,
        }],
        "series": [{ "at_us": 5, "min_w": 1.0, "max_w": 2.0, "after_gap": false }],
        "notes": [],
    });
    let mut all = Vec::new();
    figures(&json, "", &mut all);
    all.retain(|at| most(at).is_some());
    for part in [
        "/suspend_us/",
        "/asleep_us/",
        "/resume_us/",
        "/stages/",
        "/devices/0/resume_us/",
        "/devices/0/suspend_us/",
        "/devices/0/slack_us/",
        "/suspend_devices/0/suspend_us/",
        "/suspend_devices/0/slack_us/",
        "/suspend_removals/0/",
        "/removals/0/",
        "/steps/0/",
        "/what_if/measured_us",
        "/what_if/replays/0/deferred/0/ready_us",
        "/what_if/all_cycles_us/",
        "/what_if/path/0/start_us",
        "/power/cycles/0/end_us",
        "/power/series/0/at_us",
        "/cycles/0/path/0/",
        "/cycles/0/suspend_path/0/",
        "/cycles/0/stages/1/says_us",
        "/cycles/0/cpus/0/start",
        "/cycles/0/calls/0/slack_us",
        "/cycles/0/calls/0/duration_us",
        "/cycles/0/calls/0/says_us",
        "/cycles/0/gaps/0/end",
        "/cycles/0/failures/0/at",
        "/cycles/0/platform_us",
        "/cycles/0/resume_start_us",
    ] {
        assert!(
            all.iter()
                .any(|at| at.contains(&format!("/machines/0{part}"))),
            "{part}: {all:#?}"
        );
    }
    let read = |json: &serde_json::Value| read(&serde_json::to_vec(json).unwrap()).map(|_| ());
    // Negative and positive, alternately.
    let sign = |number: usize| [1, -1][number % 2];
    let mut widest = json.clone();
    for (number, at) in all.iter().enumerate() {
        *widest.pointer_mut(at).unwrap() = (sign(number) * most(at).unwrap()).into();
    }
    assert_eq!(read(&widest), Ok(()));
    let mut kinds = std::collections::HashSet::new();
    // One element of each list suffices.
    let first = |at: &&String| kinds.insert(at.replace(|c: char| c.is_ascii_digit(), ""));
    for (number, at) in all.iter().filter(first).enumerate() {
        let mut beyond = json.clone();
        *beyond.pointer_mut(at).unwrap() = (sign(number) * (most(at).unwrap() + 1)).into();
        let error = read(&beyond).unwrap_err();
        assert!(
            error.contains(&format!("\"m\", {} is invalid", place(at))),
            "{at}: {error}"
        );
    }
}

#[test]
fn an_older_json_has_unknown_fields() {
    let analysis = asked(vec![full()], &Question::default()).unwrap();
    let mut json = serde_json::to_value(&analysis).unwrap();
    json["version"] = 1.into();
    let machine = &mut json["machines"][0];
    let own = machine.as_object_mut().unwrap();
    own.remove("suspend_devices");
    own.remove("suspend_removals");
    let cycle = machine["cycles"][0].as_object_mut().unwrap();
    for key in ["suspend_has", "resume_has", "stamped", "gaps"] {
        assert!(cycle.remove(key).is_some(), "{key}");
    }
    let read = |json: &serde_json::Value| read(&serde_json::to_vec(json).unwrap());
    let mut expected = analysis;
    expected.version = 1;
    let shown = &mut expected.machines[0].cycles[0];
    // It is assumed to come from a log with the then known facts, with the kernel's stamps.
    shown.suspend_has = reveille_resume::graph::DeviceTimes::Ordered;
    shown.gaps.clear();
    assert_eq!(read(&json).unwrap(), expected);
    json["version"] = 0.into();
    let error = read(&json).unwrap_err();
    assert!(
        error.contains("has version 0") && error.ends_with("reads 1 to 4"),
        "{error}"
    );
    // The same for a cycle by itself.
    let mut json = serde_json::to_value(full()).unwrap();
    for key in ["shift_us", "stamped", "gaps"] {
        assert!(json.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let mut expected = full();
    expected.gaps.clear();
    assert_eq!(serde_json::from_value::<Cycle>(json).unwrap(), expected);
}

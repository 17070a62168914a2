//! A cycle from lines passed one by one, and its stages.

use super::StageKind as K;
use super::*;
use crate::cycle::Failure;

const SECOND: Us = 1_000_000;

fn open() -> Open {
    Open::at(10 * SECOND, None, Some(Clock::Kernel))
}

fn gap(start: Us, end: Us) -> Gap {
    Gap {
        start,
        end,
        message: String::new(),
        ..Gap::default()
    }
}

fn call(stage: K, function: Option<&str>, start: Option<Us>, end: Option<Us>) -> Call {
    Call {
        device: "usb1".into(),
        driver: None,
        parent: None,
        function: function.map(Into::into),
        stage,
        start,
        end,
        says_us: None,
        worker: None,
        result: None,
    }
}

fn found(open: Open) -> Vec<(K, Us, Us)> {
    let stages = open.close().unwrap().stages.into_iter();
    stages
        .map(|stage| (stage.kind, stage.start, stage.end))
        .collect()
}

#[test]
fn a_silence_is_kept_from_5_ms_on_with_the_message_before_it() {
    let mut cycle = open();
    cycle.hears(SECOND, format!("  {}", "m".repeat(300)).as_bytes());
    cycle.hears(SECOND + 4_999, b" first ");
    cycle.hears(SECOND + 9_999, b"second");
    cycle.hears(SECOND + 15_000, b"third");
    let of = |start, end, message: &str, ended_by: &str| Gap {
        start,
        end,
        message: message.to_owned(),
        ended_by: ended_by.to_owned(),
    };
    assert_eq!(
        cycle.cycle.gaps,
        [
            of(SECOND + 4_999, SECOND + 9_999, "first", "second"),
            of(SECOND + 9_999, SECOND + 15_000, "second", "third"),
        ]
    );
    // The first 200 bytes of a message, including spaces.
    let mut cycle = open();
    cycle.hears(0, format!("  {}", "m".repeat(300)).as_bytes());
    cycle.hears(GAP_US, b"");
    assert_eq!(cycle.cycle.gaps[0].message, "m".repeat(198));
}

#[test]
fn the_longest_silences_are_kept_in_order() {
    let mut cycle = open();
    let mut at = 0;
    // 400 of them, those of 9 ms among others of 5 ms, and more of 6 ms than are kept with these.
    let long = |place: u32| match place {
        _ if place % 10 == 3 => 9_000,
        _ if place.is_multiple_of(2) => 6_000,
        _ => GAP_US,
    };
    for place in 0..400 {
        cycle.hears(at, b"words");
        assert!(cycle.cycle.gaps.len() <= 4 * GAPS);
        at += long(place);
    }
    cycle.hears(at, b"words");
    let gaps = cycle.close().unwrap().gaps;
    let lasted: Vec<Us> = gaps.iter().map(|gap| gap.end - gap.start).collect();
    assert_eq!(lasted.len(), GAPS);
    assert_eq!(lasted.iter().filter(|&&us| us == 9_000).count(), 40);
    assert_eq!(lasted.iter().filter(|&&us| us == 6_000).count(), 24);
    assert!(gaps.is_sorted_by_key(|gap| gap.start));
}

/// Silences are discarded when there are four times as many as are kept: a leap displaces none of
/// them before it is recognized.
#[test]
fn a_leap_of_the_clock_removes_no_silence() {
    let mut cycle = open();
    let mut at = 0;
    cycle.hears(at, b"words");
    for _ in 0..GAPS + 3 {
        at += GAP_US;
        cycle.hears(at, b"words");
    }
    cycle.last = at;
    cycle.hears(at + 401 * SECOND, b"words");
    cycle.forgets_leap();
    let gaps = cycle.close().unwrap().gaps;
    assert_eq!(gaps.len(), GAPS);
    assert!(gaps.iter().all(|gap| gap.end - gap.start == GAP_US));
}

/// The clock continues in sleep if it shows at least 98% of the time that the kernel states.
#[test]
fn a_clock_that_shows_the_time_asleep_continues_in_sleep() {
    let apart = |asleep: Us, at: Us| {
        let mut cycle = open();
        cycle.goes_down(10 * SECOND);
        cycle.sleeps_apart(asleep, at)
    };
    // Of 1.000030 s a fiftieth is 20.000 ms.
    let least = 10 * SECOND + 980_030;
    assert_eq!(apart(1_000_030, least - 1), None);
    assert_eq!(apart(1_000_030, least), Some(980_030));
    assert_eq!(apart(1_000_030, 12 * SECOND), Some(1_000_030));
    // Less than 0.1 s decides nothing.
    assert_eq!(apart(100_000, 12 * SECOND), Some(100_000));
    assert_eq!(apart(99_999, 12 * SECOND), None);
    assert_eq!(open().sleeps_apart(SECOND, 12 * SECOND), None, "not down");

    // An RTC reports it when devices resume: the sleep was over with the first message after it.
    let slept_late = |stage: K| {
        let mut cycle = open();
        cycle.goes_down(10 * SECOND);
        cycle.comes_up(10_500_000);
        cycle.stage = stage;
        cycle.sleeps_apart(3 * SECOND, 13_100_000)
    };
    assert_eq!(slept_late(K::CpusOn), Some(3 * SECOND));
    assert_eq!(slept_late(K::ResumeNoirq), None);

    // From the end of one sleep to the end of the next one, by the clock that was set back: 10.2 s.
    let second = |asleep: Us, at: Us| {
        let mut cycle = open();
        cycle.goes_down(10 * SECOND);
        assert_eq!(cycle.sleeps_apart(2_900_000, 13_100_000), Some(2_900_000));
        assert!(cycle.has_heard_nothing());
        cycle.sleeps_apart(asleep, at)
    };
    assert_eq!(second(SECOND, 11_250_000), Some(SECOND));
    // A clock with whole seconds may say a second more.
    assert_eq!(second(SECOND, 10_900_000), Some(700_000));
    assert_eq!(second(SECOND, 10_699_999), None);
    assert_eq!(second(4 * SECOND, 13_100_000), None);
    // A clock that stood still once does so again.
    let mut cycle = open();
    cycle.goes_down(10 * SECOND);
    assert_eq!(cycle.sleeps_apart(3 * SECOND, 10_100_000), None);
    assert_eq!(cycle.sleeps_apart(3 * SECOND, 20 * SECOND), None);
}

#[test]
fn messages_after_the_clock_leaped_are_set_back_with_it() {
    let slept = |asleep: Us| {
        let mut cycle = open();
        cycle.goes_down(10 * SECOND);
        cycle.comes_up(13 * SECOND);
        cycle.stage = K::CpusOn;
        cycle.mark(K::CpusOff).end = Some(9_900_000);
        cycle.mark(K::CpusOn).start = Some(13_010_000);
        cycle.cycle.calls = vec![
            call(K::SuspendNoirq, None, Some(9_500_000), Some(12_999_999)),
            call(K::ResumeNoirq, None, Some(13 * SECOND), None),
        ];
        cycle.cpu_begins(1, true, 13_020_000);
        cycle.cycle.gaps = vec![gap(9_000_000, 13_030_000)];
        cycle.cycle.failures = vec![Failure {
            at: 13_040_000,
            ..Failure::default()
        }];
        let apart = cycle.sleeps_apart(asleep, 13_100_000);
        let calls = cycle.cycle.calls.iter().map(|call| (call.start, call.end));
        let calls: Vec<_> = calls.collect();
        let (off, on) = (cycle.mark(K::CpusOff).end, cycle.mark(K::CpusOn).start);
        let cpu = (cycle.cycle.cpus[0].start, cycle.cycle.cpus[0].end);
        let gap = (cycle.cycle.gaps[0].start, cycle.cycle.gaps[0].end);
        let failed = cycle.cycle.failures[0].at;
        (apart, cycle.up, (off, on), calls, cpu, gap, failed)
    };
    let suspended = (Some(9_500_000), Some(12_999_999));
    assert_eq!(
        slept(2_900_000),
        (
            Some(2_900_000),
            Some(10_100_000),
            (Some(9_900_000), Some(10_110_000)),
            vec![suspended, (Some(10_100_000), None)],
            (10_120_000, Us::MAX),
            (9_000_000, 10_130_000),
            10_140_000,
        )
    );
    // 98% of it are the 3 s before the first message; but the sleep does not start before the last
    // one.
    let (apart, up, ..) = slept(3_061_224);
    assert_eq!((apart, up), (Some(3_061_224), Some(10 * SECOND)));
    // Here the clock leaped after the first message.
    let (apart, up, (_, on), ..) = slept(3_061_225);
    assert_eq!(
        (apart, up, on),
        (Some(3_061_225), Some(13 * SECOND), Some(13_010_000))
    );
}

#[test]
fn the_first_message_counts_unless_the_clock_runs_much_later_and_before_the_devices() {
    let up = |stage: K, at: Us| {
        let mut cycle = open();
        cycle.goes_down(9 * SECOND);
        cycle.comes_up(10 * SECOND);
        cycle.comes_up(10_010_000);
        cycle.stage = stage;
        cycle.clocks_run(at);
        cycle.up
    };
    assert_eq!(up(K::CpusOn, 10_050_000), Some(10 * SECOND));
    assert_eq!(up(K::CpusOn, 10_050_001), Some(10_050_001));
    assert_eq!(up(K::ResumeNoirq, 10_050_001), Some(10 * SECOND));
    let mut cycle = open();
    cycle.goes_down(9 * SECOND);
    cycle.clocks_run(10 * SECOND);
    assert_eq!(cycle.up, Some(10 * SECOND));
    cycle.goes_down(11 * SECOND);
    assert_eq!(cycle.down, Some(9 * SECOND));
}

/// Processes are frozen, and the logger with them: it stamps the following lines after the sleep.
#[test]
fn a_leap_of_a_loggers_clock_before_all_device_messages_is_the_sleep() {
    let slept = |us: Us, change: fn(&mut Open)| {
        let mut cycle = Open::at(10 * SECOND, None, Some(Clock::Wall));
        let end = 10 * SECOND + us;
        cycle.mark(K::Freeze).start = Some(10 * SECOND);
        cycle.mark(K::Freeze).end = Some(end);
        cycle.suspending = Some(end);
        cycle.down = Some(end);
        cycle.mark(K::Suspend).start = Some(end);
        cycle.mark(K::Suspend).end = Some(end);
        cycle.cycle.calls = vec![call(K::Suspend, None, None, Some(end))];
        cycle.last = end + 2 * SECOND;
        // A shorter one follows.
        cycle.cycle.gaps = vec![gap(10 * SECOND, end), gap(end + 1, end + 1_000_001)];
        change(&mut cycle);
        cycle.logger_slept()
    };
    assert_eq!(slept(5 * SECOND, |_| {}), Some(5 * SECOND));
    assert_eq!(slept(2 * SECOND, |_| {}), Some(2 * SECOND));
    assert_eq!(slept(2 * SECOND - 1, |_| {}), None);
    for change in [
        |cycle: &mut Open| cycle.clock = Some(Clock::Kernel),
        |cycle: &mut Open| cycle.clock = Some(Clock::Dated),
        |cycle: &mut Open| cycle.cycle.gaps.clear(),
        |cycle: &mut Open| cycle.mark(K::Freeze).end = Some(15 * SECOND - 1),
        |cycle: &mut Open| cycle.suspending = Some(15 * SECOND - 1),
        |cycle: &mut Open| cycle.down = Some(15 * SECOND - 1),
        |cycle: &mut Open| cycle.mark(K::Suspend).start = Some(15 * SECOND - 1),
        |cycle: &mut Open| cycle.mark(K::Suspend).end = Some(15 * SECOND - 1),
        |cycle: &mut Open| cycle.cycle.calls[0].end = Some(15 * SECOND - 1),
    ] {
        assert_eq!(slept(5 * SECOND, change), None);
    }
}

#[test]
fn a_cpu_starts_with_its_own_line_or_when_the_previous_one_is_done() {
    let step = |cpu, on, start, end| CpuStep {
        cpu,
        on,
        start,
        end,
    };
    let mut cycle = open();
    cycle.mark(K::CpusOff).start = Some(100);
    cycle.cpu_done(1, false, 200);
    // The third lacks an end, the second a start.
    cycle.cpu_begins(3, false, 250);
    cycle.cpu_done(2, false, 300);
    cycle.cpu_begins(1, true, 1000);
    cycle.cpu_begins(2, true, 1050);
    cycle.cpu_done(1, true, 1100);
    cycle.cpu_done(2, true, 1200);
    cycle.cpu_done(4, false, 1300);
    cycle.cpu_done(4, true, 1400);
    assert_eq!(
        cycle.cycle.cpus,
        [
            step(1, false, 100, 200),
            step(3, false, 250, Us::MAX),
            step(2, false, 200, 300),
            step(1, true, 1000, 1100),
            step(2, true, 1050, 1200),
            step(4, false, 300, 1300),
            step(4, true, 1200, 1400),
        ]
    );
    assert_eq!(cycle.mark(K::CpusOff).start, Some(100));
    assert_eq!(cycle.mark(K::CpusOff).end, Some(1300));
    assert_eq!(cycle.mark(K::CpusOn).start, Some(1000));
    assert_eq!(cycle.mark(K::CpusOn).end, Some(1400));
    // Steps that never finish do not count. Without a line about the whole the stage consists of
    // the steps.
    let stages = cycle.close().unwrap();
    assert_eq!(stages.cpus.len(), 6);
    let mut alone = open();
    alone.cpu_done(1, false, 200);
    assert_eq!(alone.cycle.cpus, [step(1, false, 200, 200)]);
    let mut both = open();
    both.cycle.cpus = vec![step(1, false, 100, 200), step(1, true, 300, 400)];
    both.mark(K::CpusOff).end = Some(200);
    both.mark(K::CpusOn).end = Some(400);
    assert_eq!(found(both), [(K::CpusOff, 100, 200), (K::CpusOn, 300, 400)]);
}

#[test]
fn a_stages_own_time_selects_its_calls() {
    let stages = |kind: K| {
        let mut cycle = open();
        let at = |us| call(K::Prepare, None, Some(us), None);
        let named = |us, name| call(K::Prepare, Some(name), Some(us), None);
        cycle.cycle.calls = vec![
            at(101),
            at(99),
            at(100),
            call(K::Prepare, None, None, None),
            call(K::Prepare, None, None, Some(110)),
            named(120, "usb_dev_suspend"),
            named(130, "usb_dev_resume"),
            named(140, "pci_pm_suspend_late"),
        ];
        cycle.calls_since(100, kind);
        let is = cycle.cycle.calls.iter().map(|call| call.stage == kind);
        is.map(u8::from).collect::<Vec<_>>()
    };
    // To the last one that started before it, from the end.
    for kind in [K::Suspend, K::SuspendNoirq] {
        assert_eq!(stages(kind), [0, 0, 1, 0, 1, 1, 0, 0], "{kind:?}");
    }
    for kind in [K::ResumeNoirq, K::Resume] {
        assert_eq!(stages(kind), [0, 0, 1, 0, 1, 0, 1, 0], "{kind:?}");
    }
}

#[test]
fn a_call_without_a_known_stage_is_in_that_of_its_neighbours() {
    // `pm_runtime_force_suspend` may be in any stage of its direction: it starts at this many µs,
    // beside a callback of a known stage from 100 to 200 µs.
    let placed = |certain: (&str, K), stage: K, start: Us, has_stage_end: bool| {
        let name = match stage < K::Platform {
            true => "pm_runtime_force_suspend",
            false => "pm_runtime_force_resume",
        };
        let mut cycle = open();
        cycle.cycle.calls = vec![
            call(certain.1, Some(certain.0), Some(100), Some(200)),
            call(stage, Some(name), Some(start), Some(start + 5)),
        ];
        if has_stage_end {
            cycle.mark(certain.1).end = Some(300);
        }
        cycle.place_by_order();
        assert_eq!(cycle.cycle.calls[0].stage, certain.1);
        cycle.cycle.calls[1].stage
    };
    let late = ("pci_pm_suspend_late", K::SuspendLate);
    let noirq = ("pci_pm_suspend_noirq", K::SuspendNoirq);
    let resume_noirq = ("pci_pm_resume_noirq", K::ResumeNoirq);
    let early = ("pci_pm_resume_early", K::ResumeEarly);
    for (certain, stage, start, expected) in [
        (late, K::Suspend, 100, K::Suspend),
        (late, K::Suspend, 101, K::SuspendLate),
        (noirq, K::Suspend, 101, K::SuspendNoirq),
        (noirq, K::SuspendLate, 101, K::SuspendNoirq),
        (noirq, K::SuspendLate, 100, K::SuspendLate),
        (late, K::SuspendNoirq, 101, K::SuspendNoirq),
        (early, K::Resume, 199, K::ResumeEarly),
        (early, K::Resume, 200, K::Resume),
        (resume_noirq, K::Resume, 199, K::ResumeNoirq),
        (resume_noirq, K::ResumeEarly, 199, K::ResumeNoirq),
        (early, K::ResumeNoirq, 199, K::ResumeNoirq),
        (early, K::Complete, 199, K::Complete),
    ] {
        assert_eq!(
            placed(certain, stage, start, false),
            expected,
            "{certain:?}, {stage:?}"
        );
        // The stage's own line has already selected its calls.
        assert_eq!(placed(certain, stage, start, true), stage);
    }
}

/// Without a message about sleep: from the last callback of the suspend to the first one of the
/// resume.
#[test]
fn an_idle_machine_sleeps_between_its_device_stages() {
    let rest = |sleep: &str, change: fn(&mut Open)| {
        let mut cycle = open();
        cycle.cycle.sleep = Some(sleep.to_owned());
        cycle.cycle.calls = vec![
            call(
                K::SuspendNoirq,
                Some("a_suspend_noirq"),
                Some(100),
                Some(200),
            ),
            call(K::ResumeNoirq, Some("a_resume_noirq"), Some(300), Some(400)),
        ];
        change(&mut cycle);
        found(cycle).into_iter().find(|stage| stage.0.is_rest())
    };
    fn failed(cycle: &mut Open) {
        cycle.cycle.failures = vec![Failure {
            at: 150,
            stage: Some(K::Suspend),
            message: "failed".to_owned(),
            ..Failure::default()
        }];
    }
    fn down(cycle: &mut Open) {
        cycle.goes_down(210);
        cycle.comes_up(290);
    }
    assert_eq!(rest("s2idle", |_| {}), Some((K::Idle, 200, 300)));
    assert_eq!(rest("deep", |_| {}), None);
    assert_eq!(rest("s2idle", failed), None);
    let touch = |cycle: &mut Open| cycle.cycle.calls[1].start = Some(200);
    assert_eq!(rest("s2idle", touch), Some((K::Idle, 200, 200)));
    let cross = |cycle: &mut Open| cycle.cycle.calls[1].start = Some(199);
    assert_eq!(rest("s2idle", cross), None);
    // With messages about it; those about firmware occur on an idle machine, too.
    assert_eq!(rest("deep", down), Some((K::Platform, 210, 290)));
    assert_eq!(rest("s2idle", down), Some((K::Idle, 210, 290)));
    let aborted = |cycle: &mut Open| {
        failed(cycle);
        down(cycle);
    };
    assert_eq!(rest("deep", aborted), None, "no evidence of sleep");
    let slept = |cycle: &mut Open| {
        failed(cycle);
        down(cycle);
        cycle.slept = true;
    };
    assert_eq!(rest("deep", slept), Some((K::Platform, 210, 290)));
    let test = |cycle: &mut Open| {
        failed(cycle);
        down(cycle);
        cycle.rest = K::Test;
    };
    assert_eq!(rest("s2idle", test), Some((K::Test, 210, 290)));
    let unknown = |cycle: &mut Open| {
        down(cycle);
        cycle.platform_unknown = true;
    };
    assert_eq!(rest("deep", unknown), None);
}

#[test]
fn a_stage_has_the_bounds_of_its_own_lines_or_its_calls() {
    // Its end and its stated duration; the first call's start; the whole.
    let of = |end: Option<Us>, says_us: Option<Us>, first: Option<Us>, own: Option<Us>| {
        let mut cycle = open();
        let mark = cycle.mark(K::Resume);
        (mark.start, mark.end, mark.says_us) = (own, end, says_us);
        if let Some(first) = first {
            cycle.cycle.calls = vec![
                call(K::Resume, None, Some(first + 10), Some(first + 20)),
                call(K::Resume, None, Some(first), Some(first + 15)),
                call(K::ResumeEarly, None, Some(1), None),
            ];
        }
        let resume = found(cycle).into_iter().find(|stage| stage.0 == K::Resume);
        resume.map(|(_, start, end)| (start, end))
    };
    assert_eq!(of(Some(500), Some(200), None, None), Some((300, 500)));
    assert_eq!(of(Some(500), Some(200), Some(290), None), Some((290, 500)));
    assert_eq!(of(Some(500), Some(200), Some(310), None), Some((300, 500)));
    assert_eq!(of(Some(500), None, Some(310), None), Some((310, 500)));
    assert_eq!(
        of(Some(500), Some(200), Some(310), Some(280)),
        Some((280, 500))
    );
    assert_eq!(of(None, None, Some(310), None), Some((310, 330)));
    assert_eq!(of(Some(500), None, None, None), None);
    assert_eq!(of(None, None, None, None), None);
}

#[test]
fn messages_between_stages_bound_those_without_their_own() {
    fn mark(start: impl Into<Option<Us>>, end: impl Into<Option<Us>>) -> Mark {
        Mark {
            start: start.into(),
            end: end.into(),
            ..Mark::default()
        }
    }
    // From 10 µs on it freezes; at 100 it suspends, from 150 to 200 its devices; they resume from
    // 600 to 700, and processes are thawed from 720 to 800.
    let whole = || {
        let mut cycle = open();
        *cycle.mark(K::Freeze) = mark(10, 90);
        cycle.suspending = Some(100);
        *cycle.mark(K::Suspend) = mark(150, 200);
        *cycle.mark(K::Resume) = mark(600, 700);
        *cycle.mark(K::Thaw) = mark(720, 800);
        cycle
    };
    let with = |change: fn(&mut Open)| {
        let mut cycle = whole();
        change(&mut cycle);
        found(cycle)
    };
    let all = [
        (K::Freeze, 10, 90),
        (K::Prepare, 100, 150),
        (K::Suspend, 150, 200),
        (K::Resume, 600, 700),
        (K::Complete, 700, 720),
        (K::Thaw, 720, 800),
    ];
    assert_eq!(with(|_| {}), all);
    // Preparing ends with the whole suspend in newer kernels, or has no duration.
    let stages = with(|cycle| {
        (cycle.mark(K::Prepare).end, cycle.mark(K::Prepare).says_us) = (Some(210), Some(95));
    });
    assert_eq!(stages[1], (K::Prepare, 115, 150));
    for suspending in [149, 150, 151] {
        let mut cycle = whole();
        cycle.suspending = Some(suspending);
        let prepare = found(cycle)[1];
        let expected = match suspending {
            149 => (K::Prepare, 149, 150),
            _ => (K::Suspend, 150, 200),
        };
        assert_eq!(prepare, expected);
    }
    let aborted = with(|cycle| {
        *cycle.mark(K::Suspend) = Mark::default();
        (cycle.mark(K::Prepare).end, cycle.mark(K::Prepare).aborted) = (Some(130), true);
    });
    assert_eq!(aborted[1], (K::Prepare, 100, 130));
    let changed = with(|cycle| {
        *cycle.mark(K::Suspend) = Mark::default();
        cycle.mark(K::Prepare).end = Some(130);
    });
    assert_eq!(changed[1], all[3]);
    let own = with(|cycle| *cycle.mark(K::Prepare) = mark(101, 149));
    assert_eq!(own[1], (K::Prepare, 101, 149));
    // Freezing ends at its own message, but not after that of the suspend, unless it failed.
    assert_eq!(
        with(|cycle| cycle.mark(K::Freeze).end = Some(110))[0],
        (K::Freeze, 10, 100)
    );
    assert_eq!(
        with(|cycle| cycle.mark(K::Freeze).end = None)[0],
        (K::Freeze, 10, 100)
    );
    let failed = with(|cycle| {
        cycle.mark(K::Freeze).end = Some(110);
        cycle.mark(K::Freeze).aborted = true;
    });
    assert_eq!(failed[0], (K::Freeze, 10, 110));
    // Completing is between the resume and a message about processes; its own lines may extend it.
    assert_eq!(
        with(|cycle| cycle.mark(K::Complete).start = Some(705))[4],
        all[5]
    );
    let own = with(|cycle| *cycle.mark(K::Complete) = mark(705, 715));
    assert_eq!(own[4], (K::Complete, 705, 715));
    let called =
        with(|cycle| cycle.cycle.calls = vec![call(K::Complete, None, Some(703), Some(713))]);
    assert_eq!(called[4], (K::Complete, 703, 713));
    // Without a line at both ends there is no stage, whatever lies around it.
    for (lacking, change) in [
        (
            4..6,
            (|cycle| *cycle.mark(K::Thaw) = Mark::default()) as fn(&mut Open),
        ),
        (5..6, |cycle| cycle.mark(K::Thaw).end = None),
        (3..5, |cycle| *cycle.mark(K::Resume) = Mark::default()),
        (1..3, |cycle| *cycle.mark(K::Suspend) = Mark::default()),
        (1..2, |cycle| cycle.suspending = None),
        (0..1, |cycle| cycle.mark(K::Freeze).start = None),
    ] {
        let expected = [&all[..lacking.start], &all[lacking.end..]].concat();
        assert_eq!(with(change), expected, "{lacking:?}");
    }
    let mut bare = open();
    *bare.mark(K::Freeze) = mark(10, None);
    bare.goes_down(20);
    bare.comes_up(30);
    bare.begins(10);
    bare.ends(40);
    assert_eq!(found(bare), [(K::Platform, 20, 30)]);
}

#[test]
fn a_stage_that_overlaps_the_previous_one_starts_after_it_unless_a_call_did_not() {
    let resume = |first: Option<Us>, own: Option<Us>, end: Us| {
        let mut cycle = open();
        let early = cycle.mark(K::ResumeEarly);
        (early.start, early.end) = (Some(100), Some(200));
        let mark = cycle.mark(K::Resume);
        (mark.start, mark.end, mark.says_us) = (own, Some(end), Some(end - 150));
        if first.is_some() {
            cycle.cycle.calls = vec![call(K::Resume, None, first, Some(end))];
        }
        found(cycle)[1]
    };
    assert_eq!(resume(None, None, 300), (K::Resume, 200, 300));
    assert_eq!(resume(Some(180), None, 300), (K::Resume, 180, 300));
    assert_eq!(resume(Some(220), None, 300), (K::Resume, 200, 300));
    assert_eq!(resume(Some(140), None, 300), (K::Resume, 140, 300));
    assert_eq!(resume(None, Some(170), 300), (K::Resume, 170, 300));
    assert_eq!(resume(None, None, 190), (K::Resume, 190, 190));
    // A stage that aborts rolls back first: it ends where the resume starts, if that is within it.
    let aborted = |kind: K, resumed: Us, aborted: bool| {
        let mut cycle = open();
        let mark = cycle.mark(kind);
        (mark.start, mark.end, mark.aborted) = (Some(100), Some(200), aborted);
        let mark = cycle.mark(K::Resume);
        (mark.start, mark.end) = (Some(resumed), Some(300));
        found(cycle)[0]
    };
    for kind in [K::SuspendLate, K::SuspendNoirq] {
        assert_eq!(aborted(kind, 150, true), (kind, 100, 150));
        assert_eq!(aborted(kind, 150, false), (kind, 100, 200));
        assert_eq!(aborted(kind, 100, true), (kind, 100, 100));
        assert_eq!(aborted(kind, 200, true), (kind, 100, 200));
        assert_eq!(aborted(kind, 99, true), (kind, 100, 200));
    }
    assert_eq!(aborted(K::Suspend, 150, true), (K::Suspend, 100, 200));
}

#[test]
fn a_stage_with_a_failed_device_lasts_from_the_previous_end_to_the_failure() {
    let of = |stage: K| {
        let mut cycle = open();
        (cycle.mark(K::Freeze).start, cycle.mark(K::Freeze).end) = (Some(10), Some(20));
        cycle.suspending = Some(30);
        cycle.failed = Some((stage, 90));
        found(cycle)
    };
    assert_eq!(of(K::Suspend), [(K::Freeze, 10, 20), (K::Suspend, 30, 90)]);
    // Where the stage before it ended is not known.
    assert_eq!(of(K::SuspendLate), [(K::Freeze, 10, 20)]);
    let mut cycle = open();
    (cycle.mark(K::Suspend).start, cycle.mark(K::Suspend).end) = (Some(30), Some(60));
    cycle.suspending = Some(30);
    cycle.failed = Some((K::SuspendLate, 90));
    assert_eq!(
        found(cycle),
        [(K::Suspend, 30, 60), (K::SuspendLate, 60, 90)]
    );
}

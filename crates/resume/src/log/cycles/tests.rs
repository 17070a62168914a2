//! Lines passed one by one, as by the reader, and the resulting cycle.

use super::super::event::{Call, Return};
use super::*;
use crate::cycle::{self, Gap, StageKind as K};

const SECOND: Us = 1_000_000;

fn stamp(us: Us, clock: Option<Clock>) -> At<'static> {
    At {
        us,
        clock,
        wall: None,
        caller: None,
        resolution_us: 1,
    }
}

fn kernel(us: Us) -> At<'static> {
    stamp(us, Some(Clock::Kernel))
}

fn wall(us: Us) -> At<'static> {
    stamp(us, Some(Clock::Wall))
}

fn ftrace(us: Us) -> At<'static> {
    stamp(us, None)
}

/// A line in the reader's order; without an event it has nothing about a suspend.
fn pass(cycles: &mut Cycles, at: At<'_>, message: &str, event: Option<Event<'_>>) {
    cycles.passes(&at);
    if let Some(event) = &event {
        cycles.measures(&at, event);
    }
    cycles.hears(&at, message.as_bytes());
    if let Some(event) = event {
        cycles.event(&at, event);
        cycles.begins_with(&at, message.as_bytes());
    }
}

/// Lines that continue the log.
fn open<'a>(lines: impl IntoIterator<Item = (At<'a>, Event<'a>)>) -> Cycles {
    let mut cycles = Cycles::default();
    for (at, event) in lines {
        pass(&mut cycles, at, "a message", Some(event));
    }
    cycles
}

/// A complete log.
fn read<'a>(lines: impl IntoIterator<Item = (At<'a>, Event<'a>)>) -> Cycles {
    let mut cycles = open(lines);
    cycles.close();
    cycles
}

const BEGIN: Event<'_> = Event::Begin {
    sleep: None,
    first: true,
};
const DOWN: Event<'_> = Event::Message { awake: false };
const UP: Event<'_> = Event::Message { awake: true };

fn ends(kind: K, says_us: Option<Us>) -> Event<'static> {
    Event::StageEnd {
        kind,
        says_us,
        aborted: false,
    }
}

fn aborts(kind: K, says_us: Option<Us>) -> Event<'static> {
    Event::StageEnd {
        kind,
        says_us,
        aborted: true,
    }
}

fn calls(function: Option<&'static str>) -> Event<'static> {
    Event::Call(Call {
        device: b"usb1",
        function: function.map(str::as_bytes),
        ..Call::default()
    })
}

fn returns(says_us: Option<Us>) -> Event<'static> {
    Event::Return(Return {
        device: b"usb1",
        says_us,
        ..Return::default()
    })
}

fn took(stage: K, us: Us) -> Event<'static> {
    Event::Took {
        stage,
        driver: b"usb",
        device: b"usb1",
        us,
    }
}

fn fails(device: Option<&'static str>, message: &'static str) -> Event<'static> {
    Event::Failure {
        device: device.map(str::as_bytes),
        driver: None,
        message: message.as_bytes(),
    }
}

fn stages(cycle: &Cycle) -> Vec<(K, Us, Us)> {
    let stages = cycle.stages.iter();
    stages
        .map(|stage| (stage.kind, stage.start, stage.end))
        .collect()
}

fn stage(cycle: &Cycle, kind: K) -> Option<(Us, Us)> {
    let stage = cycle.stages.iter().find(|stage| stage.kind == kind)?;
    Some((stage.start, stage.end))
}

/// Stamps of two CPUs differ by some microseconds; from 100 ms on the clock was set. Those of one
/// boot step back by at most 10 s, but a wall clock by any amount.
#[test]
fn a_backward_step_means_another_cpu_a_set_clock_or_another_boot() {
    let begin = 20 * SECOND;
    let suspending = |at: fn(Us) -> At<'static>, back: Us| {
        let lines = [
            (at(begin), BEGIN),
            (at(begin - back), Event::Suspending { sleep: None }),
            (at(begin + SECOND), Event::Exit),
        ];
        let cycles = read(lines);
        let shift = cycles.done.last().unwrap().shift_us;
        (cycles.done.len(), cycles.left_out.clock_jumps, shift)
    };
    assert_eq!(suspending(kernel, 100_000), (1, 0, 0));
    assert_eq!(suspending(kernel, 100_001), (1, 1, 100_001));
    assert_eq!(suspending(kernel, 10 * SECOND), (1, 1, 10 * SECOND));
    assert_eq!(suspending(kernel, 10 * SECOND + 1), (2, 0, 0));
    assert_eq!(suspending(wall, 10 * SECOND + 1), (1, 1, 10 * SECOND + 1));

    // Another boot is another one however small the step of its clock.
    let boot = read([(kernel(begin), BEGIN), (kernel(19 * SECOND), Event::Boot)]);
    assert_eq!((boot.done.len(), boot.left_out.clock_jumps), (1, 0));
    // A machine that sleeps may return with a restarted clock, but logs nothing about a suspend
    // then; and one that does not sleep does not return.
    let down = (kernel(begin + 1), DOWN);
    for (lines, found) in [
        (
            vec![(kernel(begin), BEGIN), down.clone(), (kernel(5), UP)],
            (1, 1),
        ),
        (
            vec![
                (kernel(begin), BEGIN),
                down,
                (kernel(5), Event::Suspending { sleep: None }),
            ],
            (2, 0),
        ),
        (vec![(kernel(begin), BEGIN), (kernel(5), UP)], (2, 0)),
    ] {
        let cycles = read(lines);
        assert_eq!((cycles.done.len(), cycles.left_out.clock_jumps), found);
    }
}

#[test]
fn firmware_time_is_unknown_if_the_clock_jumps_in_it() {
    let second = |lines: [(Us, Event<'static>); 5]| {
        read(lines.map(|(ms, event)| (kernel(ms * 1000), event)))
    };
    let in_it = second([
        (20_000, BEGIN),
        (20_100, DOWN),
        (15_000, UP),
        (15_300, ends(K::ResumeNoirq, Some(100_000))),
        (15_400, Event::Exit),
    ]);
    assert_eq!(stage(&in_it.done[0], K::Platform), None);
    assert_eq!(
        stage(&in_it.done[0], K::ResumeNoirq),
        Some((20_300_000, 20_400_000))
    );
    // Before it: everything is a second later than its stamp.
    let before = second([
        (20_000, BEGIN),
        (19_000, Event::Freezing { took_us: None }),
        (19_500, DOWN),
        (19_600, UP),
        (19_900, Event::Exit),
    ]);
    assert_eq!(
        stage(&before.done[0], K::Platform),
        Some((20_500_000, 20_600_000))
    );
    assert_eq!(before.left_out.clock_jumps, 1);
}

/// From 10.5 to 9.5 s: a second by which other lines may be ahead again.
#[test]
fn a_leap_as_long_as_the_backward_step_returns_to_the_former_clock() {
    let shift = |stamps: &[Us]| {
        let mut cycles = open([
            (kernel(10 * SECOND), BEGIN),
            (kernel(10_500_000), Event::Suspending { sleep: None }),
            (kernel(9_500_000), calls(None)),
        ]);
        for &us in stamps {
            pass(&mut cycles, kernel(us), "usb 1-1: link", None);
        }
        assert_eq!(cycles.left_out.clock_jumps, 1);
        cycles.shift
    };
    for (stamps, expected) in [
        (&[][..], SECOND),
        // A millisecond less and 100 more than the backward step.
        (&[10_498_999], SECOND),
        (&[10_499_000], 0),
        (&[10_600_000], 0),
        (&[10_600_001], SECOND),
        // It returns once.
        (&[10_499_000, 11_499_000], 0),
        // It may return later, until the stamps reach their former value.
        (&[9_600_000, 10_600_000], 0),
        (&[10_498_999, 11_498_999], 0),
        (&[9_900_000, 10_499_999, 11_499_999], 0),
        (&[9_900_000, 10_500_000, 11_500_000], SECOND),
    ] {
        assert_eq!(shift(stamps), expected, "{stamps:?}");
    }
    // Without a relevant line in between nothing was moved.
    let mut cycles = open([(kernel(10_500_000), BEGIN)]);
    for us in [9_500_000, 10_500_000] {
        pass(&mut cycles, kernel(us), "usb 1-1: link", None);
    }
    pass(
        &mut cycles,
        kernel(10_600_000),
        "words",
        Some(Event::Suspending { sleep: None }),
    );
    assert_eq!((cycles.shift, cycles.left_out.clock_jumps), (0, 0));
    // Lines of another clock in between are no evidence about this one.
    let mut cycles = open([(kernel(10 * SECOND), BEGIN)]);
    pass(
        &mut cycles,
        wall(1_795_284_000 * SECOND),
        "audit: backlog",
        None,
    );
    pass(
        &mut cycles,
        kernel(9 * SECOND),
        "words",
        Some(Event::Suspending { sleep: None }),
    );
    assert_eq!((cycles.shift, cycles.left_out.clock_jumps), (SECOND, 1));
}

/// A clock that leaps by its backward step may have continued while a device took that long.
#[test]
fn a_line_with_a_long_elapsed_time_belongs_to_the_clock_that_stepped_back() {
    // Two seconds back, permanently: everything is 2 s later than its stamp. Then 0.9 s back, of
    // which 0.95 s return 50 ms after the end of the last line: accepted if the line states more
    // than half of 0.9 s and 50 ms.
    let lines = |says_us: Us, last: fn(Us) -> Event<'static>| {
        let mut cycles = open([
            (kernel(12 * SECOND), BEGIN),
            (kernel(10 * SECOND), Event::Freezing { took_us: None }),
        ]);
        for us in [11 * SECOND, 12 * SECOND] {
            pass(&mut cycles, kernel(us), "usb 1-1: link", None);
        }
        let suspended = ends(K::Suspend, None);
        pass(&mut cycles, kernel(12_100_000), "words", Some(suspended));
        let call = calls(Some("usb_dev_suspend_late"));
        pass(&mut cycles, kernel(11_200_000), "words", Some(call));
        pass(
            &mut cycles,
            kernel(12_150_000),
            "words",
            Some(last(says_us)),
        );
        assert_eq!(cycles.left_out.clock_jumps, 2);
        let shift = cycles.shift;
        cycles.close();
        (shift, cycles.done.remove(0))
    };
    for (stated, shift, end) in [
        (500_000, 2 * SECOND, 14_150_000),
        (500_001, 2_900_000, 15_050_000),
    ] {
        let (found, cycle) = lines(stated, |stated| returns(Some(stated)));
        assert_eq!((found, cycle.calls[0].end), (shift, Some(end)), "{stated}");
        assert_eq!(cycle.calls[0].start, Some(14_100_000));
        let (found, cycle) = lines(stated, |stated| ends(K::SuspendLate, Some(stated)));
        let late = stage(&cycle, K::SuspendLate).unwrap();
        assert_eq!((found, late.1), (shift, end), "{stated}");
    }
}

#[test]
fn a_forward_leap_of_an_awake_machine_is_a_set_clock() {
    let begin = 10 * SECOND;
    let leap = |at: fn(Us) -> At<'static>, before: &[Event<'static>], by: Us, event| {
        let mut cycles = open([(at(begin), BEGIN)]);
        for event in before {
            pass(&mut cycles, at(begin), "words", Some(event.clone()));
        }
        pass(&mut cycles, at(begin + by), "words", Some(event));
        (cycles.left_out.clock_jumps, cycles.shift)
    };
    const MOST: Us = 400 * SECOND;
    let resumes = [ends(K::ResumeNoirq, None)];
    let thaws = [ends(K::Resume, None), Event::Thawing];
    let freezing = || Event::Freezing { took_us: None };
    assert_eq!(leap(kernel, &[], MOST, freezing()), (0, 0));
    assert_eq!(leap(kernel, &[], MOST + 1, freezing()), (1, -MOST - 1));
    let early = || ends(K::ResumeEarly, None);
    assert_eq!(leap(kernel, &resumes, MOST + 1, early()), (1, -MOST - 1));
    assert_eq!(leap(wall, &resumes, MOST + 1, early()), (1, -MOST - 1));
    // A logger is frozen with the others, and processes run for long.
    assert_eq!(leap(wall, &[], MOST + 1, freezing()), (0, 0));
    assert_eq!(leap(kernel, &thaws, MOST + 1, Event::Thawed), (0, 0));
    // The machine sleeps, or is about to.
    for before in [
        &[DOWN][..],
        &[Event::Suspending { sleep: None }],
        &[ends(K::Suspend, None)],
        &[Event::StageBegin(K::Platform)],
    ] {
        assert_eq!(leap(kernel, before, MOST + 1, UP), (0, 0), "{before:?}");
    }
    assert_eq!(
        leap(
            kernel,
            &[DOWN, UP, Event::StageBegin(K::Idle)],
            MOST + 1,
            early()
        ),
        (1, -MOST - 1),
        "it is awake"
    );
}

#[test]
fn a_silence_is_between_two_messages_of_the_cycles_own_clock() {
    let gap = |start: Us, end: Us, message: &str, ended_by: &str| Gap {
        start,
        end,
        message: message.to_owned(),
        ended_by: ended_by.to_owned(),
    };
    let mut cycles = Cycles::default();
    pass(&mut cycles, kernel(10 * SECOND), "entry", Some(BEGIN));
    pass(&mut cycles, wall(50 * SECOND), "audit", None);
    let frozen = Event::Frozen {
        after_us: None,
        took_us: None,
    };
    pass(&mut cycles, wall(51 * SECOND), "frozen", Some(frozen));
    pass(&mut cycles, kernel(11 * SECOND), "link", None);
    pass(&mut cycles, kernel(11_004_999), "exit", Some(Event::Exit));
    assert_eq!(
        cycles.done[0].gaps,
        [gap(10 * SECOND, 11 * SECOND, "entry", "link")]
    );
    // If the clock was set, the time between two messages is unknown: the next message is at 10 s
    // by the former clock, and the last one 10 ms later.
    let mut cycles = Cycles::default();
    pass(&mut cycles, kernel(10 * SECOND), "entry", Some(BEGIN));
    pass(&mut cycles, kernel(9 * SECOND), "link", None);
    pass(&mut cycles, kernel(9_500_000), "again", None);
    pass(
        &mut cycles,
        kernel(9_600_000),
        "consoles",
        Some(Event::Suspending { sleep: None }),
    );
    pass(&mut cycles, kernel(9_610_000), "exit", Some(Event::Exit));
    assert_eq!(
        cycles.done[0].gaps,
        [gap(10 * SECOND, 10_010_000, "consoles", "exit")]
    );
    // Nor if it leaped forward: that is no silence, although one before it is.
    let mut cycles = Cycles::default();
    let (noirq, early) = (ends(K::ResumeNoirq, None), ends(K::ResumeEarly, None));
    pass(&mut cycles, kernel(10 * SECOND), "entry", Some(BEGIN));
    pass(&mut cycles, kernel(10_020_000), "noirq", Some(noirq));
    pass(&mut cycles, kernel(500 * SECOND), "early", Some(early));
    pass(&mut cycles, kernel(500_010_000), "exit", Some(Event::Exit));
    assert_eq!(
        cycles.done[0].gaps,
        [
            gap(10 * SECOND, 10_020_000, "entry", "noirq"),
            gap(10_020_000, 10_030_000, "early", "exit"),
        ]
    );
}

#[test]
fn a_failure_names_refusing_tasks_up_to_a_length() {
    let refused = |message: &str| {
        let mut cycles = open([(kernel(10 * SECOND), BEGIN)]);
        let event = Event::NotFrozen {
            message: message.as_bytes(),
        };
        pass(&mut cycles, kernel(30 * SECOND), message, Some(event));
        for name in ["a", "b"] {
            let line = format!("workqueue {name}: flags=0x4");
            pass(&mut cycles, kernel(30 * SECOND), &line, None);
        }
        pass(
            &mut cycles,
            kernel(30 * SECOND),
            "OOM",
            Some(Event::Thawing),
        );
        let line = "workqueue c: flags=0x4";
        pass(&mut cycles, kernel(30 * SECOND), line, None);
        cycles.close();
        cycles.done[0].failures[0].message.clone()
    };
    assert_eq!(
        refused("Freezing failed after 20 s:"),
        "Freezing failed after 20 s; refused by workqueue a, workqueue b"
    );
    let most = "F".repeat(999);
    assert_eq!(refused(&most), format!("{most}; refused by workqueue a"));
    let beyond = "F".repeat(1000);
    assert_eq!(refused(&beyond), beyond);
}

#[test]
fn hibernation_is_no_cycle() {
    let hibernation = |ends| Event::Hibernation { ends };
    let at = |second: Us| kernel(second * SECOND);
    let cycles = read([
        (at(10), hibernation(false)),
        (at(11), ends(K::Suspend, None)),
        (at(12), hibernation(true)),
        (at(20), ends(K::Suspend, Some(SECOND))),
        // Open calls end there.
        (at(30), hibernation(false)),
        (at(31), ends(K::Resume, None)),
        (at(32), Event::Boot),
        (at(40), ends(K::Resume, Some(SECOND))),
        // One of its callbacks marks the whole cycle.
        (at(50), BEGIN),
        (at(51), Event::HibernationCall),
        (at(52), Event::Exit),
        (at(60), hibernation(false)),
        (at(70), BEGIN),
        (at(71), ends(K::Suspend, Some(SECOND))),
    ]);
    let found: Vec<_> = cycles.done.iter().map(|one| one.stages[0].end).collect();
    assert_eq!(found, [20 * SECOND, 40 * SECOND, 71 * SECOND]);
    let numbers: Vec<_> = cycles.done.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(cycles.left_out.hibernations, 4);
}

/// `PM: suspend devices took 0.300 seconds` counts if no other line has the stage's end.
#[test]
fn the_devices_total_time_ends_an_otherwise_open_stage() {
    let took = |kind, us| Event::DevicesTook { kind, us };
    let at = |ms: Us| kernel(ms * 1000);
    let alone = open([(at(10_000), BEGIN), (at(10_400), took(K::Suspend, 300_000))]);
    assert!(!alone.has_stage_times, "the others have no lines for that");
    for (lines, expected) in [
        (
            vec![(at(10_000), BEGIN), (at(10_400), took(K::Suspend, 300_000))],
            vec![(K::Suspend, 10_100_000, 10_400_000)],
        ),
        (
            vec![
                (at(10_000), BEGIN),
                (at(10_300), ends(K::Suspend, Some(200_000))),
                (at(10_400), took(K::Suspend, 300_000)),
                (at(11_000), ends(K::Resume, Some(100_000))),
                (at(11_100), took(K::Resume, 300_000)),
            ],
            vec![
                (K::Suspend, 10_100_000, 10_300_000),
                (K::Resume, 10_900_000, 11_000_000),
                (K::Complete, 11_000_000, 11_100_000),
            ],
        ),
    ] {
        let cycles = read(lines);
        assert_eq!(cycles.done.len(), 1);
        assert_eq!(stages(&cycles.done[0]), expected);
    }
    // The start of a suspend after the previous one has taken the CPUs offline.
    let two = read([
        (at(10_000), BEGIN),
        (at(10_300), ends(K::Suspend, Some(200_000))),
        (at(10_500), Event::Cpus { on: false }),
        (at(20_400), took(K::Suspend, 300_000)),
    ]);
    assert_eq!(two.done.len(), 2);
    assert_eq!(stages(&two.done[1]), [(K::Suspend, 20_100_000, 20_400_000)]);
}

/// amd_s2idle.py's stamps have no information; the kernel's lines about the stages order them.
#[test]
fn copied_lines_have_consecutive_stages() {
    let copied = |us: Us| stamp(us, Some(Clock::None));
    let cycles = read([
        (copied(100 * SECOND), BEGIN),
        (copied(130 * SECOND), ends(K::Suspend, Some(70_000))),
        (copied(90 * SECOND), ends(K::Prepare, Some(90_000))),
        (copied(80 * SECOND), ends(K::SuspendLate, Some(20_000))),
        (copied(200 * SECOND), ends(K::Resume, Some(100_000))),
        (copied(300 * SECOND), Event::Exit),
    ]);
    assert_eq!(cycles.done.len(), 1);
    let cycle = &cycles.done[0];
    assert_eq!(
        stages(cycle),
        [
            (K::Suspend, 100_000_000, 100_070_000),
            (K::SuspendLate, 100_070_000, 100_090_000),
            (K::Resume, 100_090_000, 100_190_000),
        ]
    );
    assert!(!cycle.stamped);
    assert_eq!(cycles.left_out, LeftOut::default());
}

/// Each cycle as far as it got, and what may still belong to it.
#[test]
fn a_cycle_continues_with_possible_events_and_ends_with_any_other() {
    let at = |ms: Us| kernel(ms * 1000);
    let suspended = ends(K::Suspend, Some(100_000));
    let lines = [
        (at(10_000), BEGIN),
        (at(11_000), suspended),
        (at(12_000), ends(K::ResumeNoirq, Some(100_000))),
        (at(13_000), ends(K::Resume, Some(500_000))),
        (at(13_100), Event::Thawing),
    ];
    let named = |sleep: Option<&'static str>| Event::Begin {
        sleep: sleep.map(str::as_bytes),
        first: true,
    };
    // Its sleep is not named; suspended; resuming; resumed; thawing; thawing without a resume;
    // named.
    let states = [
        open(lines[..1].to_vec()),
        open(lines[..2].to_vec()),
        open(lines[..3].to_vec()),
        open(lines[..4].to_vec()),
        open(lines.to_vec()),
        open([lines[0].clone(), lines[4].clone()]),
        open([(at(10_000), named(Some("deep")))]),
    ];
    let again = Event::Begin {
        sleep: None,
        first: false,
    };
    for (event, fits) in [
        (Event::Boot, "-------"),
        // Android's second one, which names what the first did not.
        (named(None), "------y"),
        (named(Some("deep")), "y------"),
        (again, "y-----y"),
        (Event::Freezing { took_us: None }, "y-----y"),
        (Event::Suspending { sleep: None }, "y-----y"),
        (Event::Cpus { on: true }, "yyy---y"),
        (Event::Cpus { on: false }, "yy--yyy"),
        (Event::Exit, "yyyyyyy"),
        (Event::StageBegin(K::SuspendNoirq), "yy----y"),
        (Event::StageBegin(K::ResumeEarly), "yyyy--y"),
        // Ended at 11 s: at 14 s it ends again if it took no longer than 3 s.
        (ends(K::Suspend, Some(3_000_001)), "yy----y"),
        (ends(K::Suspend, Some(3_000_000)), "y-----y"),
        (ends(K::Suspend, None), "yy----y"),
        // Suspend to idle goes on, as far as its name is not known.
        (ends(K::SuspendNoirq, None), "yyy---y"),
        (aborts(K::SuspendNoirq, None), "yyyy--y"),
        (ends(K::ResumeEarly, None), "yyyy--y"),
        // For a late device: processes ran at 13.1 s, and it started by then, or the start is
        // unknown.
        (ends(K::Resume, Some(900_000)), "yyy-yyy"),
        (ends(K::Resume, Some(899_999)), "yyy---y"),
        (ends(K::Complete, None), "yyyyyyy"),
        (took(K::Resume, 900_000), "yyyyyyy"),
        (took(K::Resume, 899_999), "yyyy--y"),
        (took(K::SuspendNoirq, 1), "yy----y"),
        (calls(Some("usb_dev_resume")), "yyyyyyy"),
        (calls(Some("pci_pm_resume_noirq")), "yyy---y"),
        (calls(Some("usb_dev_suspend")), "yy----y"),
        (calls(None), "yyyy--y"),
    ] {
        let found = states.iter().map(|cycles| cycles.fits(14 * SECOND, &event));
        let found: String = found.map(|fits| if fits { 'y' } else { '-' }).collect();
        assert_eq!(found, fits, "{event:?}");
    }
    // Processes that ran again 1 s before: consoles of the next suspend.
    let consoles = open([
        (at(10_000), BEGIN),
        (at(10_100), Event::Suspending { sleep: None }),
    ]);
    assert!(consoles.fits(11 * SECOND, &Event::Suspending { sleep: None }));
    assert!(Cycles::default().fits(0, &Event::Boot));
}

#[test]
fn a_stage_repeated_after_the_clock_was_set_back_is_one_stage() {
    // The clock continues in 3 s of sleep, which are subtracted from all later stamps.
    let at = |ms: Us| kernel(ms * 1000);
    let resumed = || ends(K::ResumeNoirq, Some(5_000));
    let cycles = read([
        (at(10_000), BEGIN),
        (at(10_100), DOWN),
        (at(13_200), Event::Asleep(3 * SECOND)),
        (at(13_210), resumed()),
        (at(13_211), resumed()),
        (at(13_300), Event::Exit),
    ]);
    assert_eq!(cycles.done.len(), 1);
    let cycle = &cycles.done[0];
    assert_eq!(stage(cycle, K::Platform), Some((10_100_000, 10_200_000)));
    assert_eq!(stage(cycle, K::ResumeNoirq), Some((10_206_000, 10_211_000)));
    assert_eq!(
        (cycle.shift_us, cycle.asleep_us),
        (-3 * SECOND, Some(3 * SECOND))
    );
    // From the jump of the clock on no time passes.
    let jump = read([
        (at(10_000), BEGIN),
        (at(10_100), DOWN),
        (at(13_200), Event::Asleep(3 * SECOND)),
        (at(13_210), ends(K::ResumeNoirq, None)),
        (at(12_000), ends(K::ResumeEarly, None)),
    ]);
    assert_eq!(jump.done[0].shift_us, -3 * SECOND + 1_210_000);
    let jump = read([
        (at(10_000), BEGIN),
        (at(10_100), DOWN),
        (at(13_200), Event::Asleep(3 * SECOND)),
        (at(12_000), ends(K::ResumeNoirq, None)),
    ]);
    assert_eq!(jump.done[0].shift_us, -3 * SECOND + 1_200_000);
}

#[test]
fn an_event_of_another_clock_starts_another_cycle_or_is_ignored() {
    let at = |second: Us| kernel(second * SECOND);
    let cycles = read([
        (at(10), BEGIN),
        (
            wall(50 * SECOND),
            Event::Frozen {
                after_us: None,
                took_us: None,
            },
        ),
        (at(11), ends(K::Suspend, Some(SECOND))),
        (wall(60 * SECOND), BEGIN),
        (wall(61 * SECOND), ends(K::Suspend, Some(SECOND))),
        // The current clock: a second back is a step of it.
        (wall(60 * SECOND + 1), ends(K::SuspendLate, None)),
    ]);
    let found: Vec<_> = cycles.done.iter().map(stages).collect();
    let second = |from: Us| vec![(K::Suspend, from * SECOND, (from + 1) * SECOND)];
    assert_eq!(found, [second(10), second(60)]);
    assert_eq!(cycles.left_out.clock_jumps, 1);
}

#[test]
fn events_beyond_the_limits_are_counted() {
    let at = kernel(10 * SECOND);
    let beyond = |cycles: &mut Cycles, event: Event<'static>, times: usize| {
        for _ in 0..times {
            pass(cycles, at, "words", Some(event.clone()));
        }
        cycles.left_out.too_many
    };
    // Calls, per cycle and in total.
    let call = || open([(at, calls(None))]);
    let mut cycles = call();
    cycles.calls = ALL_CALLS_MAX - 3;
    assert_eq!(beyond(&mut cycles, calls(None), 2), 0);
    assert_eq!(beyond(&mut cycles, calls(None), 1), 1);
    assert_eq!(beyond(&mut cycles, returns(None), 1), 2);
    assert_eq!(beyond(&mut cycles, took(K::Suspend, 1), 1), 3);
    let mut cycles = call();
    let all = &mut cycles.open.as_mut().unwrap().cycle.calls;
    *all = vec![all[0].clone(); CALLS_MAX - 1];
    assert_eq!(beyond(&mut cycles, calls(None), 1), 0);
    assert_eq!(beyond(&mut cycles, calls(None), 1), 1);
    cycles.close();
    assert_eq!(cycles.calls, CALLS_MAX);
    // CPUs.
    let cpu = Event::CpuBegin { cpu: 1, on: true };
    let mut cycles = open([(at, BEGIN), (at, cpu.clone())]);
    let all = &mut cycles.open.as_mut().unwrap().cycle.cpus;
    *all = vec![all[0].clone(); CPUS_MAX - 1];
    assert_eq!(beyond(&mut cycles, cpu, 1), 0);
    assert_eq!(
        beyond(&mut cycles, Event::CpuEnd { cpu: 1, on: true }, 1),
        1
    );
    assert_eq!(cycles.open.as_ref().unwrap().cycle.cpus.len(), CPUS_MAX);
    // Failures, per cycle and in total.
    let failure = || fails(None, "Wakeup pending, aborting suspend");
    let mut cycles = open([(at, BEGIN)]);
    assert_eq!(beyond(&mut cycles, failure(), FAILURES_MAX), 0);
    assert_eq!(beyond(&mut cycles, failure(), 2), 2);
    cycles.close();
    assert_eq!(cycles.failures, FAILURES_MAX);
    let mut cycles = open([(at, BEGIN)]);
    cycles.failures = ALL_FAILURES_MAX - 3;
    assert_eq!(beyond(&mut cycles, failure(), 3), 0);
    assert_eq!(beyond(&mut cycles, failure(), 1), 1);
    cycles.close();
    assert_eq!(cycles.failures, ALL_FAILURES_MAX);
    // Silences: the last one that is kept, and three of a cycle that has too many.
    let silences = |cycles: &mut Cycles, count: Us| {
        pass(cycles, kernel(20 * SECOND), "words", Some(BEGIN));
        for place in 1..=count {
            pass(cycles, kernel(20 * SECOND + place * 10_000), "words", None);
        }
        cycles.close();
        (cycles.done.last().unwrap().gaps.len(), cycles.gaps)
    };
    let mut cycles = Cycles {
        gaps: ALL_GAPS_MAX - 2,
        ..Cycles::default()
    };
    assert_eq!(silences(&mut cycles, 2), (2, ALL_GAPS_MAX));
    assert_eq!(cycles.left_out.too_many, 0);
    assert_eq!(silences(&mut cycles, 3), (0, ALL_GAPS_MAX));
    assert_eq!(cycles.left_out.too_many, 3);
    // Cycles.
    let cycle = cycles.done[0].clone();
    cycles.done = vec![cycle; CYCLES_MAX - 1];
    cycles.left_out = LeftOut::default();
    assert_eq!(beyond(&mut cycles, BEGIN, 2), 0);
    cycles.close();
    assert_eq!(cycles.left_out.too_many, 1);
    assert_eq!(cycles.done.len(), CYCLES_MAX);
}

#[test]
fn incomplete_calls_and_late_lines_are_counted_over_all_cycles() {
    let at = |ms: Us| kernel(ms * 1000);
    // A call without an end, two returns without a call, one of them without a duration.
    let half = |second: Us| {
        let ms = second * 1000;
        let other = Event::Return(Return {
            device: b"usb2",
            ..Return::default()
        });
        [
            (at(ms), BEGIN),
            (at(ms + 10), returns(Some(100))),
            (at(ms + 20), other),
            (at(ms + 30), calls(None)),
            (at(ms + 35), Event::Thawing),
            (at(ms + 40), ends(K::Resume, None)),
            (at(ms + 45), calls(Some("usb_dev_resume"))),
            (at(ms + 50), Event::Exit),
        ]
    };
    let cycles = read([half(10), half(20)].concat());
    assert_eq!(cycles.done.len(), 2);
    let expected = LeftOut {
        calls_without_end: 2,
        returns_without_call: 4,
        calls_without_start: 2,
        late_calls: 4,
        ..LeftOut::default()
    };
    assert_eq!(cycles.left_out, expected);
    assert_eq!(cycles.calls, 6);
    // A wall clock's cycle in which its logger was frozen.
    let late = |second: Us| {
        let at = |second| wall(second * SECOND);
        [
            (at(second), BEGIN),
            (at(second + 5), ends(K::Suspend, Some(1))),
            (at(second + 5), Event::Exit),
        ]
    };
    let cycles = read([late(10), late(20)].concat());
    assert_eq!(cycles.left_out.late_stamps, 2);
    assert_eq!(cycles.done[0].asleep_us, Some(5 * SECOND));
}

/// Whether a cycle starts with it, and whether a machine logs it when it wakes up.
#[test]
fn certain_events_start_a_cycle_and_others_end_a_sleep() {
    let cpu = |on| Event::CpuBegin { cpu: 1, on };
    let done = |on| Event::CpuEnd { cpu: 1, on };
    let message = b"Freezing failed";
    for (event, begins, resumes) in [
        (Event::Boot, false, false),
        (BEGIN, true, false),
        (Event::Freezing { took_us: None }, true, false),
        (
            Event::Frozen {
                after_us: None,
                took_us: None,
            },
            false,
            false,
        ),
        (Event::Suspending { sleep: None }, true, false),
        (Event::StageBegin(K::SuspendNoirq), true, false),
        (Event::StageBegin(K::Platform), true, true),
        (ends(K::CpusOff, None), true, false),
        (ends(K::Platform, None), true, true),
        (ends(K::Resume, None), true, true),
        (
            Event::DevicesTook {
                kind: K::Resume,
                us: 1,
            },
            false,
            false,
        ),
        (calls(Some("usb_dev_suspend")), true, false),
        (calls(Some("usb_dev_resume")), true, true),
        (calls(None), true, true),
        (returns(None), true, false),
        (took(K::Resume, 1), true, false),
        (Event::Cpus { on: true }, true, true),
        (Event::Cpus { on: false }, false, false),
        (cpu(true), false, true),
        (cpu(false), false, false),
        (done(true), true, true),
        (done(false), false, false),
        (UP, true, true),
        (DOWN, false, false),
        (Event::Idle { ends: true }, true, true),
        (Event::Idle { ends: false }, true, false),
        (Event::Asleep(1), true, true),
        (Event::Test(1), false, false),
        (Event::NotFrozen { message }, true, false),
        (fails(None, "failed"), false, false),
        (fails(None, "failed to suspend: error -16"), true, false),
        (Event::Thawing, false, false),
        (Event::Thawed, false, false),
        (Event::Exit, false, false),
        (Event::Hibernation { ends: true }, false, false),
        (Event::HibernationCall, false, false),
        (Event::Done, false, false),
    ] {
        assert_eq!(opens(&event), begins, "{event:?}");
        assert_eq!(is_of_resume(&event), resumes, "{event:?}");
    }
}

#[test]
fn stages_follow_each_other_and_an_abort_returns_to_its_counterpart() {
    for (stage, next, aborted) in [
        (K::Freeze, K::Suspend, K::Suspend),
        (K::Prepare, K::Suspend, K::Resume),
        (K::Suspend, K::SuspendLate, K::Resume),
        (K::SuspendLate, K::SuspendNoirq, K::ResumeEarly),
        (K::SuspendNoirq, K::CpusOff, K::ResumeNoirq),
        (K::CpusOff, K::ResumeNoirq, K::ResumeNoirq),
        (K::Platform, K::ResumeNoirq, K::ResumeNoirq),
        (K::Idle, K::ResumeNoirq, K::ResumeNoirq),
        (K::Test, K::ResumeNoirq, K::ResumeNoirq),
        (K::CpusOn, K::ResumeNoirq, K::ResumeNoirq),
        (K::ResumeNoirq, K::ResumeEarly, K::ResumeEarly),
        (K::ResumeEarly, K::Resume, K::Resume),
        (K::Resume, K::Complete, K::Complete),
        (K::Complete, K::Complete, K::Complete),
        (K::Thaw, K::Thaw, K::Thaw),
    ] {
        assert_eq!(after(stage, false), next, "{stage:?}");
        assert_eq!(after(stage, true), aborted, "{stage:?}");
    }
}

#[test]
fn the_end_of_a_stage_determines_the_phase() {
    // The stage that ends, whether its line has a duration and whether it aborts; the phase before
    // and after.
    let stated = Some(1000);
    for (was, event, is) in [
        (K::Freeze, ends(K::Prepare, None), K::Suspend),
        (K::SuspendLate, ends(K::Prepare, stated), K::SuspendLate),
        (K::Suspend, ends(K::Suspend, stated), K::SuspendLate),
        (
            K::SuspendLate,
            aborts(K::SuspendLate, stated),
            K::ResumeEarly,
        ),
        (K::Resume, aborts(K::SuspendLate, stated), K::Resume),
        (
            K::ResumeNoirq,
            aborts(K::SuspendLate, stated),
            K::ResumeNoirq,
        ),
        (K::Resume, aborts(K::SuspendLate, None), K::ResumeEarly),
        (K::ResumeNoirq, ends(K::ResumeNoirq, stated), K::ResumeEarly),
        (K::CpusOff, ends(K::Platform, None), K::CpusOff),
    ] {
        let mut cycles = open([(kernel(10 * SECOND), BEGIN)]);
        cycles.open.as_mut().unwrap().stage = was;
        let named = format!("{event:?}");
        pass(&mut cycles, kernel(11 * SECOND), "words", Some(event));
        assert_eq!(cycles.open.as_ref().unwrap().stage, is, "{named}");
    }
    let times = |events: &[Event<'static>]| {
        open(events.iter().map(|event| (kernel(SECOND), event.clone()))).has_stage_times
    };
    assert!(!times(&[ends(K::Suspend, None)]));
    assert!(times(&[
        ends(K::Suspend, stated),
        ends(K::SuspendLate, None)
    ]));
}

/// The position of the sleep, for each message that bounds it.
#[test]
fn the_sleep_is_between_the_last_message_and_the_first() {
    let rest = |before: Event<'static>, behind: Event<'static>| {
        let cycles = read([
            (kernel(10 * SECOND), BEGIN),
            (kernel(11 * SECOND), before),
            (kernel(12 * SECOND), behind),
            (kernel(13 * SECOND), Event::Exit),
        ]);
        let rests = cycles.done[0].stages.iter().find(|one| one.kind.is_rest());
        rests.map(|one| (one.kind, one.start / 1000, one.end / 1000))
    };
    let noirq = || ends(K::SuspendNoirq, Some(100));
    let cpu = |on| Event::CpuEnd { cpu: 1, on };
    let begins = Event::CpuBegin { cpu: 1, on: true };
    for (before, behind, expected) in [
        (DOWN, UP, Some((K::Platform, 11_000, 12_000))),
        (noirq(), UP, Some((K::Platform, 11_000, 12_000))),
        (
            noirq(),
            ends(K::ResumeNoirq, Some(300_000)),
            Some((K::Platform, 11_000, 11_700)),
        ),
        (
            noirq(),
            Event::StageBegin(K::ResumeNoirq),
            Some((K::Platform, 11_000, 12_000)),
        ),
        (
            noirq(),
            calls(Some("pci_pm_resume_noirq")),
            Some((K::Platform, 11_000, 12_000)),
        ),
        (noirq(), calls(Some("pci_pm_resume_early")), None),
        (
            Event::StageBegin(K::Platform),
            ends(K::Platform, None),
            Some((K::Platform, 11_000, 12_000)),
        ),
        (cpu(false), begins, Some((K::Platform, 11_000, 12_000))),
        (
            Event::Cpus { on: false },
            cpu(true),
            Some((K::Platform, 11_000, 12_000)),
        ),
        (
            DOWN,
            Event::Cpus { on: true },
            Some((K::Platform, 11_000, 12_000)),
        ),
        (
            Event::Idle { ends: false },
            Event::Idle { ends: true },
            Some((K::Idle, 11_000, 12_000)),
        ),
        // While it idles no other message ends the sleep.
        (Event::Idle { ends: false }, UP, None),
        (Event::Test(400_000), UP, Some((K::Test, 11_000, 11_400))),
        (aborts(K::SuspendNoirq, Some(100)), UP, None),
        (cpu(true), UP, None),
    ] {
        let named = format!("{before:?}, {behind:?}");
        assert_eq!(rest(before, behind), expected, "{named}");
    }
    // A test also suspends the clocks, which is no sleep.
    let test = read([
        (kernel(10 * SECOND), BEGIN),
        (kernel(11 * SECOND), Event::Test(400_000)),
        (kernel(11_450_000), Event::Asleep(400_000)),
        (kernel(13 * SECOND), Event::Exit),
    ]);
    assert_eq!((test.done[0].asleep_us, test.done[0].shift_us), (None, 0));
    // A machine that slept before something failed in its suspend did sleep.
    let failed = |words: &[Event<'static>]| {
        let failure = fails(None, "Wakeup pending, aborting suspend");
        let lines = [BEGIN, failure].into_iter().chain(words.iter().cloned());
        let cycles = read((10..).map(|second| kernel(second * SECOND)).zip(lines));
        stage(&cycles.done[0], K::Platform).is_some()
    };
    assert!(failed(&[DOWN, UP, UP]));
    let without = Event::Cpus { on: true };
    assert!(!failed(&[DOWN, without.clone(), UP]));
    assert!(failed(&[DOWN, Event::Asleep(1), without]));
}

#[test]
fn done_means_frozen_or_thawed_depending_on_the_phase() {
    let done = |event: Option<Event<'static>>| {
        let mut cycles = open([(kernel(10 * SECOND), BEGIN)]);
        if let Some(event) = event {
            pass(&mut cycles, kernel(11 * SECOND), "words", Some(event));
        }
        pass(&mut cycles, kernel(12 * SECOND), "done.", Some(Event::Done));
        let open = cycles.open.as_mut().unwrap();
        (open.mark(K::Freeze).end, open.mark(K::Thaw).end)
    };
    let at = Some(12 * SECOND);
    assert_eq!(done(None), (None, None));
    let freezing = Event::Freezing { took_us: None };
    assert_eq!(done(Some(freezing)), (at, None));
    assert_eq!(done(Some(Event::Thawing)), (None, at));
    assert_eq!(done(Some(ends(K::Suspend, None))), (None, None));
    assert_eq!(done(Some(Event::StageBegin(K::Thaw))), (None, at));
    // A trace ends with it, complete.
    let lines = [(10, BEGIN), (11, Event::StageBegin(K::Thaw))];
    let cycles = read(lines.map(|(second, event)| (ftrace(second * SECOND), event)));
    assert!(!cycles.done[0].cut);
}

#[test]
fn a_failure_is_in_the_stage_of_its_message_or_of_the_devices_last_call() {
    for (message, place, stage) in [
        (
            "failed to resume noirq: error -5",
            K::Suspend,
            Some(K::ResumeNoirq),
        ),
        (
            "failed to suspend noirq: error -5",
            K::Suspend,
            Some(K::SuspendNoirq),
        ),
        (
            "failed to suspend late: error -5",
            K::Suspend,
            Some(K::SuspendLate),
        ),
        (
            "late suspend of devices failed",
            K::SuspendNoirq,
            Some(K::SuspendLate),
        ),
        (
            "failed to resume early: error -5",
            K::Resume,
            Some(K::ResumeEarly),
        ),
        (
            "failed to suspend async: error -5",
            K::Freeze,
            Some(K::Suspend),
        ),
        (
            "failed to suspend: error -5",
            K::SuspendLate,
            Some(K::SuspendLate),
        ),
        (
            "failed to suspend: error -5",
            K::SuspendNoirq,
            Some(K::SuspendNoirq),
        ),
        ("failed to suspend: error -5", K::CpusOff, Some(K::Suspend)),
        ("failed to resume: error -5", K::CpusOn, Some(K::Resume)),
        (
            "failed to resume: error -5",
            K::ResumeNoirq,
            Some(K::ResumeNoirq),
        ),
        ("failed to resume: error -5", K::Complete, Some(K::Resume)),
        (
            "pci_pm_suspend(): x returns -16",
            K::Freeze,
            Some(K::Suspend),
        ),
        ("Wakeup pending, aborting suspend", K::Suspend, None),
        ("failed", K::Suspend, None),
    ] {
        assert_eq!(failed_stage(message.as_bytes(), place), stage, "{message}");
    }
    // The stage before it, what failed, its stage; what failed in a suspend, and the phase then.
    let all = "Some devices failed to suspend";
    for (was, device, message, stage, in_suspend, is) in [
        (
            K::Suspend,
            Some("usb2"),
            "timeout",
            K::Suspend,
            true,
            K::Suspend,
        ),
        (
            K::Resume,
            Some("usb2"),
            "timeout",
            K::Resume,
            false,
            K::Resume,
        ),
        (
            K::Suspend,
            None,
            "Wakeup pending",
            K::Suspend,
            false,
            K::Suspend,
        ),
        (K::Suspend, None, all, K::Suspend, true, K::Resume),
        (K::Freeze, None, all, K::Suspend, true, K::Resume),
        (
            K::SuspendLate,
            None,
            all,
            K::SuspendLate,
            true,
            K::SuspendLate,
        ),
        // By its last call, which was in this stage.
        (
            K::CpusOff,
            Some("usb1"),
            "timeout",
            K::SuspendLate,
            true,
            K::CpusOff,
        ),
        (
            K::CpusOff,
            Some("usb2"),
            "timeout",
            K::CpusOff,
            true,
            K::CpusOff,
        ),
        (
            K::Platform,
            Some("usb2"),
            "timeout",
            K::Platform,
            false,
            K::Platform,
        ),
    ] {
        let mut cycles = open([
            (kernel(10 * SECOND), BEGIN),
            (kernel(10 * SECOND), calls(Some("usb_suspend_late"))),
        ]);
        cycles.open.as_mut().unwrap().stage = was;
        pass(
            &mut cycles,
            kernel(11 * SECOND),
            "words",
            Some(fails(device, message)),
        );
        let open = cycles.open.as_ref().unwrap();
        let failure = Failure {
            at: 11 * SECOND,
            device: device.map(Into::into),
            stage: Some(stage),
            message: message.to_owned(),
            ..Failure::default()
        };
        assert_eq!(open.cycle.failures, [failure]);
        let expected = in_suspend.then_some((stage, 11 * SECOND));
        assert_eq!(
            (open.failed, open.stage),
            (expected, is),
            "{was:?}, {message}"
        );
    }
}

/// A call whose function gives no stage, or only the direction.
#[test]
fn function_clock_and_phase_determine_a_calls_stage() {
    let of = |at: At<'_>, now: K, has_stage_times: bool, function: Option<&str>| {
        let mut cycles = open([(at, BEGIN)]);
        cycles.has_stage_times = has_stage_times;
        cycles.open.as_mut().unwrap().stage = now;
        let device = cycles.names.id(b"usb2");
        cycles.stage_of(&at, device, function.map(str::as_bytes))
    };
    let at = kernel(SECOND);
    let (suspend, resume) = (Some("usb_dev_suspend"), Some("usb_dev_resume"));
    // The phase; a suspend, a resume and no function, with the stages' times and without.
    for (now, with, without) in [
        (
            K::Freeze,
            [K::Suspend, K::Resume, K::Suspend],
            [K::Suspend, K::Resume, K::Suspend],
        ),
        (
            K::Prepare,
            [K::Suspend, K::Resume, K::Suspend],
            [K::Suspend, K::Resume, K::Suspend],
        ),
        (
            K::SuspendLate,
            [K::SuspendLate, K::Resume, K::SuspendLate],
            [K::SuspendLate, K::Resume, K::SuspendLate],
        ),
        (
            K::SuspendNoirq,
            [K::SuspendNoirq, K::Resume, K::SuspendNoirq],
            [K::SuspendNoirq, K::Resume, K::SuspendNoirq],
        ),
        (
            K::CpusOff,
            [K::SuspendNoirq, K::ResumeNoirq, K::SuspendNoirq],
            [K::SuspendNoirq, K::Resume, K::SuspendNoirq],
        ),
        (
            K::Platform,
            [K::SuspendNoirq, K::ResumeNoirq, K::ResumeNoirq],
            [K::SuspendNoirq, K::Resume, K::ResumeNoirq],
        ),
        (
            K::CpusOn,
            [K::Suspend, K::ResumeNoirq, K::ResumeNoirq],
            [K::Suspend, K::Resume, K::ResumeNoirq],
        ),
        (
            K::ResumeNoirq,
            [K::Suspend, K::ResumeNoirq, K::ResumeNoirq],
            [K::Suspend, K::Resume, K::Resume],
        ),
        (
            K::ResumeEarly,
            [K::Suspend, K::ResumeEarly, K::ResumeEarly],
            [K::Suspend, K::Resume, K::Resume],
        ),
        (
            K::Resume,
            [K::Suspend, K::Resume, K::Resume],
            [K::Suspend, K::Resume, K::Resume],
        ),
        (
            K::Complete,
            [K::Suspend, K::Complete, K::Complete],
            [K::Suspend, K::Complete, K::Complete],
        ),
    ] {
        for (has, stages) in [(true, with), (false, without)] {
            let found = [suspend, resume, None].map(|function| of(at, now, has, function));
            assert_eq!(found, stages, "{now:?}, {has}");
            assert_eq!(
                of(at, now, has, Some("pci_pm_suspend_noirq")),
                K::SuspendNoirq
            );
        }
        // ftrace has the start of each stage, but not before its first one.
        let expected = if now == K::Freeze { K::Suspend } else { now };
        assert_eq!(of(ftrace(SECOND), now, true, None), expected);
    }
}

#[test]
fn without_other_evidence_a_device_goes_to_the_stage_after_its_last() {
    // Its first call; what comes before its second one; the stage of that, and whether it is a
    // guess.
    let second = |returned: bool, stated: Option<Us>, now: Option<K>| {
        let mut cycles = open([(kernel(SECOND), BEGIN), (kernel(SECOND), calls(None))]);
        if returned {
            pass(
                &mut cycles,
                kernel(SECOND + 5),
                "words",
                Some(returns(Some(5))),
            );
        }
        cycles.has_stage_times = stated.is_some();
        let open = cycles.open.as_mut().unwrap();
        open.stage = now.unwrap_or(open.stage);
        for us in [SECOND + 10, SECOND + 20] {
            pass(&mut cycles, kernel(us), "words", Some(calls(None)));
        }
        let calls = &cycles.open.as_ref().unwrap().cycle.calls;
        (calls[1].stage, cycles.left_out.guessed_stages)
    };
    assert_eq!(second(true, None, None), (K::SuspendLate, 1));
    assert_eq!(
        second(false, None, None),
        (K::Suspend, 0),
        "it has not returned"
    );
    assert_eq!(
        second(true, Some(1), None),
        (K::Suspend, 0),
        "the lines decide"
    );
    let other = second(true, None, Some(K::SuspendNoirq));
    assert_eq!(other, (K::SuspendNoirq, 0), "it was in another one");
}

#[test]
fn a_return_before_its_call_belongs_to_it_if_the_start_times_agree() {
    let parts = |begun: Us, device: &'static str, function: Option<&'static str>| {
        let at = |us: Us| kernel(10 * SECOND + us);
        let returned = |device: &'static str| {
            Event::Return(Return {
                device: device.as_bytes(),
                function: Some(b"usb_dev_suspend"),
                says_us: Some(20_000),
                result: Some(-16),
                ..Return::default()
            })
        };
        let mut cycles = open([
            (at(0), BEGIN),
            (at(30_000), returned("usb1")),
            (at(30_000), returned("usb2")),
        ]);
        let event = Event::Call(Call {
            device: device.as_bytes(),
            function: function.map(str::as_bytes),
            parent: Some(b"pci"),
            ..Call::default()
        });
        pass(&mut cycles, at(begun), "words", Some(event));
        let calls = &cycles.open.as_ref().unwrap().cycle.calls;
        (calls.len(), cycles.orphans.len())
    };
    let suspend = Some("usb_dev_suspend");
    // Its stated start is at 10 ms: the call may be up to 5 ms before or after it.
    for (begun, device, function, found) in [
        (10_000, "usb1", suspend, (2, 1)),
        (10_000, "usb2", suspend, (2, 1)),
        (5_000, "usb1", suspend, (2, 1)),
        (4_999, "usb1", suspend, (3, 2)),
        (15_000, "usb1", suspend, (2, 1)),
        (15_001, "usb1", suspend, (3, 2)),
        (10_000, "usb3", suspend, (3, 2)),
        (10_000, "usb1", Some("pci_pm_suspend"), (3, 2)),
        (10_000, "usb1", None, (3, 2)),
    ] {
        assert_eq!(
            parts(begun, device, function),
            found,
            "{begun}, {device}, {function:?}"
        );
    }
    // The call, complete; and one that starts after the return.
    let whole = |stated: Us, begun: Us| {
        let mut cycles = open([
            (kernel(SECOND), BEGIN),
            (kernel(2 * SECOND), returns(Some(stated))),
        ]);
        let event = calls(Some("usb_dev_suspend"));
        pass(&mut cycles, kernel(begun), "words", Some(event));
        cycles.close();
        (cycles.done.remove(0).calls, cycles.left_out)
    };
    let expected = cycle::Call {
        device: "usb1".into(),
        driver: None,
        parent: None,
        function: Some("usb_dev_suspend".into()),
        stage: K::Suspend,
        start: Some(1_999_000),
        end: Some(2 * SECOND),
        says_us: Some(1500),
        worker: None,
        result: None,
    };
    assert_eq!(whole(1500, 1_999_000), (vec![expected], LeftOut::default()));
    assert_eq!(whole(1500, 2 * SECOND).0.len(), 1);
    assert_eq!(whole(1500, 2 * SECOND + 1).0.len(), 2);
}

#[test]
fn a_return_ends_the_last_matching_call() {
    let call = |driver: Option<&'static str>, function: Option<&'static str>, worker| {
        Event::Call(Call {
            device: b"usb1",
            driver: driver.map(str::as_bytes),
            function: function.map(str::as_bytes),
            worker,
            ..Call::default()
        })
    };
    let ret = |driver: Option<&'static str>, function: Option<&'static str>, worker| {
        Event::Return(Return {
            device: b"usb1",
            driver: driver.map(str::as_bytes),
            function: function.map(str::as_bytes),
            worker,
            ..Return::default()
        })
    };
    let (a, b) = (Some("a_suspend"), Some("b_suspend"));
    // Which of three calls ends: the first, second or third, or a new one made from the return.
    let ended = |calls: [Event<'static>; 3], ret: Event<'static>| {
        let mut cycles = open([(kernel(SECOND), BEGIN)]);
        for event in calls.into_iter().chain([ret]) {
            pass(&mut cycles, kernel(SECOND), "words", Some(event));
        }
        let calls = &cycles.open.as_ref().unwrap().cycle.calls;
        let ended = calls.iter().position(|call| call.end.is_some());
        assert_eq!(cycles.orphans.len(), calls.len() - 3);
        ended.unwrap()
    };
    let workers = || [1, 2, 3].map(|worker| call(None, a, Some(worker)));
    assert_eq!(ended(workers(), ret(None, a, Some(2))), 1);
    assert_eq!(ended(workers(), ret(None, a, None)), 2, "any one: the last");
    assert_eq!(ended(workers(), ret(None, a, Some(9))), 2);
    assert_eq!(ended(workers(), ret(None, b, Some(2))), 3);
    assert_eq!(ended(workers(), ret(None, None, Some(1))), 0);
    let drivers = || {
        [
            call(Some("usb"), a, None),
            call(Some("hub"), a, None),
            call(Some("hub"), b, None),
        ]
    };
    assert_eq!(ended(drivers(), ret(Some("usb"), a, None)), 0);
    assert_eq!(ended(drivers(), ret(Some("hub"), a, None)), 1);
    assert_eq!(ended(drivers(), ret(None, b, None)), 2);
    assert_eq!(ended(drivers(), ret(Some("sd"), a, None)), 3);
    let unnamed = || {
        [
            call(None, None, None),
            call(Some("hub"), b, None),
            call(Some("hub"), b, None),
        ]
    };
    assert_eq!(ended(unnamed(), ret(Some("usb"), a, None)), 0);
}

#[test]
fn a_return_without_a_call_gives_the_start_by_its_duration() {
    let start = |of_1024_ns| {
        let event = Event::Return(Return {
            device: b"usb1",
            says_us: Some(1000),
            of_1024_ns,
            ..Return::default()
        });
        let cycles = read([(kernel(SECOND), BEGIN), (kernel(2 * SECOND), event)]);
        cycles.done[0].calls[0].start
    };
    assert_eq!(start(false), Some(1_999_000));
    assert_eq!(start(true), Some(1_998_976));
    // ftrace has no message for a failing device.
    let failures = |at: fn(Us) -> At<'static>, result| {
        let event = Event::Return(Return {
            device: b"usb1",
            result: Some(result),
            ..Return::default()
        });
        read([(at(SECOND), BEGIN), (at(2 * SECOND), event)]).done[0]
            .failures
            .clone()
    };
    let expected = Failure {
        at: 2 * SECOND,
        device: Some("usb1".into()),
        driver: None,
        stage: Some(K::Suspend),
        message: "err=-16".to_owned(),
    };
    assert_eq!(failures(ftrace, -16), [expected]);
    assert_eq!(failures(ftrace, 0), []);
    assert_eq!(failures(ftrace, 1), []);
    assert_eq!(failures(kernel, -16), []);
}

/// `PM: resume of drv:usb dev:usb1 complete after 400.000 msecs`
#[test]
fn a_slow_devices_line_is_its_only_call_or_names_the_driver() {
    let took = |stage, driver: &'static str| Event::Took {
        stage,
        driver: driver.as_bytes(),
        device: b"usb1",
        us: 400_000,
    };
    let found = |driver: Option<&'static str>, event: Event<'static>| {
        let call = Event::Call(Call {
            device: b"usb1",
            driver: driver.map(str::as_bytes),
            function: Some(b"usb_dev_resume"),
            ..Call::default()
        });
        let cycles = open([
            (kernel(SECOND), BEGIN),
            (kernel(2 * SECOND), call),
            (kernel(3 * SECOND), event),
        ]);
        let calls = &cycles.open.as_ref().unwrap().cycle.calls;
        let driver = |call: &cycle::Call| call.driver.as_deref().unwrap_or("-").to_owned();
        calls.iter().map(driver).collect::<Vec<_>>()
    };
    assert_eq!(found(None, took(K::Resume, "usb")), ["usb"]);
    assert_eq!(found(Some("usb"), took(K::Resume, "usb")), ["usb"]);
    assert_eq!(found(Some("hub"), took(K::Resume, "usb")), ["hub", "usb"]);
    assert_eq!(
        found(Some("usb"), took(K::ResumeEarly, "usb")),
        ["usb", "usb"]
    );
    assert_eq!(found(Some("usb"), took(K::ResumeEarly, "")), ["usb", "-"]);
    let cycles = read([
        (kernel(SECOND), BEGIN),
        (kernel(2 * SECOND), took(K::Resume, "")),
    ]);
    let expected = cycle::Call {
        device: "usb1".into(),
        driver: None,
        parent: None,
        function: None,
        stage: K::Resume,
        start: Some(1_600_000),
        end: Some(2 * SECOND),
        says_us: Some(400_000),
        worker: None,
        result: None,
    };
    assert_eq!(cycles.done[0].calls, [expected]);
}

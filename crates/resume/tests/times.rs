//! The durations of the parts of a cycle and of a call, for all forms of logs.

use crate::hand::{call, cycle, failure};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::graph::Half;
use reveille_resume::times::{Times, of};

use StageKind::{
    Complete, CpusOff, CpusOn, Freeze, Idle, Platform, Prepare, Resume, ResumeEarly, ResumeNoirq,
    Suspend, SuspendLate, SuspendNoirq, Test, Thaw,
};

const KINDS: [StageKind; 15] = [
    Freeze,
    Prepare,
    Suspend,
    SuspendLate,
    SuspendNoirq,
    CpusOff,
    Platform,
    Idle,
    Test,
    CpusOn,
    ResumeNoirq,
    ResumeEarly,
    Resume,
    Complete,
    Thaw,
];

type Span = (StageKind, Us, Us);

const WHOLE: [Span; 7] = [
    (Freeze, 1_000, 1_010),
    (Suspend, 1_010, 1_030),
    (SuspendNoirq, 1_030, 1_040),
    (Platform, 1_040, 1_065),
    (ResumeNoirq, 1_065, 1_070),
    (Resume, 1_070, 1_094),
    (Thaw, 1_095, 1_100),
];

/// The times of [`WHOLE`]: its end is 1,100, its sleep from 1,040 to 1,065.
const TIMES: Times = Times {
    start: 1_000,
    end: 1_100,
    suspend_us: Some(40),
    suspend_at_least_us: None,
    asleep_at_most_us: None,
    resume_at_least_us: None,
    platform_us: Some(25),
    asleep_us: None,
    resume_us: Some(35),
    away_us: None,
    resume_start: Some(1_065),
    own_end: 1_100,
    aborted: false,
};

/// [`WHOLE`] with another kind of rest.
fn rests(kind: StageKind) -> Cycle {
    let mut cycle = cycle(1, &WHOLE);
    cycle.stages[3].kind = kind;
    cycle
}

fn asleep(mut cycle: Cycle, us: Us) -> Times {
    cycle.asleep_us = Some(us);
    of(&cycle).unwrap()
}

/// The times of these stages; something failed in `failed`.
fn failed_in(stages: &[Span], failed: StageKind) -> Times {
    let mut cycle = cycle(1, stages);
    cycle.failures = vec![failure(1_020, None, Some(failed), "no")];
    of(&cycle).unwrap()
}

#[test]
fn a_whole_cycle_is_suspend_firmware_and_resume() {
    let mut whole = cycle(1, &WHOLE);
    assert_eq!(of(&whole), Some(TIMES));
    whole.stages[6].end = 1_080;
    let ends_first = Times {
        end: 1_094,
        own_end: 1_094,
        resume_us: Some(29),
        ..TIMES
    };
    assert_eq!(of(&whole), Some(ends_first), "the latest end counts");
    whole.shift_us = 4;
    assert_eq!(of(&whole).unwrap().own_end, 1_090);
    assert_eq!(of(&cycle(1, &[])), None);
}

#[test]
fn away_is_the_sleep_plus_firmware_time_and_counts_no_sleep_twice() {
    let slept = |away, asleep, platform| Times {
        away_us: Some(away),
        asleep_us: Some(asleep),
        platform_us: platform,
        ..TIMES
    };
    assert_eq!(
        asleep(rests(Platform), 7_000),
        slept(7_025, 7_000, Some(25))
    );
    assert_eq!(asleep(rests(Platform), 25), slept(50, 25, Some(25)));
    // Its own messages bound the sleep: the clock continued from the one to the other.
    assert_eq!(asleep(rests(Idle), 25), slept(25, 25, None));
    // The clock stood still, and the kernel stated for how long.
    assert_eq!(asleep(rests(Idle), 24), slept(49, 24, None));
    let mut without = cycle(1, &WHOLE);
    without.stages.remove(3);
    // The suspend ends with its last stage, the resume starts with its first one.
    assert_eq!(asleep(without, 9), slept(9, 9, None));
}

#[test]
fn a_truncated_log_lacks_the_half_without_an_end() {
    for (first, last, suspend, resume) in [
        (0, 7, Some(40), Some(35)),
        (1, 7, None, Some(35)),
        (0, 6, Some(40), None),
    ] {
        let mut cut = cycle(1, &WHOLE[first..last]);
        cut.cut = true;
        cut.words.first = (first == 0).then_some(TIMES.start);
        let times = of(&cut).unwrap();
        assert_eq!(
            (times.suspend_us, times.resume_us),
            (suspend, resume),
            "{first}"
        );
        // Nothing is missing in a complete log.
        cut.cut = false;
        let times = of(&cut).unwrap();
        assert!(times.suspend_us.is_some() && times.resume_us.is_some());
    }
    // Before processes freeze the suspend has begun; `complete` is an end.
    let mut cut = cycle(1, &WHOLE);
    cut.cut = true;
    (cut.stages[0].kind, cut.stages[6].kind) = (Freeze, Complete);
    let times = of(&cut).unwrap();
    assert_eq!((times.suspend_us, times.resume_us), (None, TIMES.resume_us));
}

#[test]
fn stamps_of_other_programs_bound_nothing() {
    let mut copied = cycle(1, &WHOLE);
    copied.stamped = false;
    let nothing = Times {
        suspend_us: None,
        platform_us: None,
        resume_us: None,
        resume_start: None,
        ..TIMES
    };
    assert_eq!(of(&copied), Some(nothing));
}

#[test]
fn a_half_without_a_stage_has_no_length() {
    for (stages, suspend, resume) in [
        (&WHOLE[..4], Some(40), None),
        (&WHOLE[3..], None, Some(35)),
        (&WHOLE[3..4], None, None),
        (&[(Freeze, 0, 9), (Thaw, 70, 80)][..], None, None),
        (
            &[(Freeze, 0, 9), (Prepare, 9, 12), (Complete, 70, 80)][..],
            None,
            None,
        ),
        (
            &[(Freeze, 0, 9), (CpusOff, 10, 20), (Complete, 70, 80)][..],
            Some(20),
            None,
        ),
        (
            &[(Freeze, 0, 9), (CpusOn, 60, 70), (Complete, 70, 80)][..],
            None,
            Some(20),
        ),
        (
            &[(Suspend, 0, 9), (Platform, 10, 20), (CpusOn, 20, 30)][..],
            Some(10),
            Some(10),
        ),
        (&[(Suspend, 0, 9), (Test, 10, 20)][..], Some(10), None),
    ] {
        let times = of(&cycle(1, stages)).unwrap();
        assert_eq!(
            (times.suspend_us, times.resume_us),
            (suspend, resume),
            "{stages:?}"
        );
    }
}

#[test]
fn a_failed_suspend_is_aborted_unless_it_slept() {
    let no_rest = [&WHOLE[..3], &WHOLE[4..]].concat();
    // The resume starts at once: everything before it is the suspend.
    let aborted = Times {
        suspend_us: Some(65),
        platform_us: None,
        aborted: true,
        ..TIMES
    };
    assert_eq!(failed_in(&no_rest, Suspend), aborted);
    assert_eq!(failed_in(&no_rest, CpusOff), aborted);
    let resumed = Times {
        suspend_us: Some(40),
        aborted: false,
        ..aborted
    };
    for kind in [Platform, Resume] {
        assert_eq!(
            failed_in(&no_rest, kind),
            resumed,
            "{kind:?} is no part of the suspend"
        );
    }
    assert_eq!(failed_in(&WHOLE, Suspend), TIMES, "it slept all the same");
    let mut slept = cycle(1, &no_rest);
    slept.asleep_us = Some(5);
    slept.failures = vec![failure(1_020, None, None, "no")];
    assert!(!of(&slept).unwrap().aborted, "the kernel reports a sleep");
    slept.asleep_us = None;
    assert!(of(&slept).unwrap().aborted, "no stage: before the sleep");
    // A test of the suspend waits, and does not sleep.
    let tests = rests(Test).stages;
    let tests: Vec<Span> = tests
        .iter()
        .map(|one| (one.kind, one.start, one.end))
        .collect();
    let tested = Times {
        platform_us: None,
        aborted: true,
        ..TIMES
    };
    assert_eq!(failed_in(&tests, Suspend), tested);
}

#[test]
fn processes_that_do_not_freeze_end_the_suspend() {
    let stages = [(Freeze, 0, 20), (Thaw, 22, 30)];
    let mut frozen = cycle(1, &stages);
    frozen.failures = vec![failure(
        20,
        None,
        Some(Freeze),
        "20 tasks refusing to freeze",
    )];
    let times = of(&frozen).unwrap();
    assert_eq!((times.suspend_us, times.aborted), (Some(20), true));
    // What failed ends it, whatever was called.
    frozen.calls = vec![call("usb 1-1", "none", Suspend, 1, (21, 22))];
    assert_eq!(of(&frozen).unwrap().suspend_us, Some(20));
    // Without a failure there was a sleep.
    frozen.failures.clear();
    assert_eq!(of(&frozen).unwrap().suspend_us, None);
    assert_eq!(failed_in(&stages[1..], Freeze).suspend_us, None);
    let prepared = [(Freeze, 0, 20), (Prepare, 20, 25), (Thaw, 26, 30)];
    assert_eq!(failed_in(&prepared, Prepare).suspend_us, Some(1_020));
}

#[test]
fn each_stage_belongs_to_suspend_or_resume_or_neither() {
    let of = |half: Half| KINDS.iter().copied().filter(move |&kind| half.has(kind));
    let suspend: Vec<_> = of(Half::Suspend).collect();
    let resume: Vec<_> = of(Half::Resume).collect();
    assert_eq!(suspend, KINDS[..6]);
    assert_eq!(resume, KINDS[9..]);
}

#[test]
fn a_call_uses_its_stamps_unless_the_kernel_states_another_time() {
    // Stamps, the kernel's duration, whether it has a function; the resulting duration, and its
    // printing. They may differ by 100 µs and by a twentieth of the kernel's duration.
    for (stamps, stated, function, took, printing) in [
        (Some(1_000), Some(900), true, Some(1_000), 0),
        (Some(1_001), Some(900), true, Some(900), 101),
        (Some(799), Some(900), true, Some(900), 0),
        (Some(4_200), Some(4_000), true, Some(4_200), 0),
        (Some(4_201), Some(4_000), true, Some(4_000), 201),
        (Some(3_800), Some(4_000), true, Some(3_800), 0),
        (Some(3_799), Some(4_000), true, Some(4_000), 0),
        // Of two CPUs' clocks.
        (Some(-1), Some(3), true, Some(3), 0),
        (Some(0), Some(3), true, Some(0), 0),
        (None, Some(125), true, Some(125), 0),
        // Microseconds of 1024 ns: 125 of them are 128.
        (None, Some(125), false, Some(128), 0),
        (Some(500), None, true, Some(500), 0),
        (None, None, true, None, 0),
    ] {
        let mut one = call("usb 1-1", "none", Resume, 1, (70, 70));
        one.end = stamps.map(|us| 70 + us);
        one.says_us = stated;
        one.function = one.function.filter(|_| function);
        assert_eq!(
            (one.took_us(), one.printing_us()),
            (took, printing),
            "{stamps:?} {stated:?}"
        );
    }
}

//! Clocks that stand still in sleep or continue, step back and return, and a wall clock beside them
//! that is set.

use reveille_resume::analysis::{Input, Question, Source, analyse};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::power::Meter;
use reveille_resume::times::{self, Times};

use crate::reading::{log, one};

/// A cycle whose kernel does not state the time asleep, in ms since its start.
const DEEP: [(i64, &str); 18] = [
    (0, "PM: suspend entry (deep)"),
    (10, "Filesystems sync: 0.010 seconds"),
    (11, "Freezing user space processes"),
    (
        14,
        "Freezing remaining freezable tasks completed (elapsed 0.001 seconds)",
    ),
    (
        14,
        "printk: Suspending console(s) (use no_console_suspend to debug)",
    ),
    (216, "PM: suspend of devices complete after 202.000 msecs"),
    (
        218,
        "PM: late suspend of devices complete after 2.000 msecs",
    ),
    (
        220,
        "PM: noirq suspend of devices complete after 2.000 msecs",
    ),
    (221, "ACPI: PM: Preparing to enter system sleep state S3"),
    (233, "ACPI: PM: Low-level resume complete"),
    (246, "ACPI: PM: Waking up from system sleep state S3"),
    (
        251,
        "PM: noirq resume of devices complete after 4.000 msecs",
    ),
    (
        254,
        "PM: early resume of devices complete after 2.000 msecs",
    ),
    (
        255,
        "sd 0:0:0:0: PM: calling scsi_bus_resume @ 100, parent: target0:0:0",
    ),
    (
        1155,
        "sd 0:0:0:0: PM: scsi_bus_resume returned 0 after 900000 usecs",
    ),
    (1156, "PM: resume of devices complete after 902.000 msecs"),
    (1158, "Restarting tasks ... done."),
    (1161, "PM: suspend exit"),
];

fn of(cycle: &Cycle) -> Times {
    times::of(cycle).unwrap()
}

fn lasted(cycle: &Cycle, kind: StageKind) -> Us {
    let stage = cycle.stages.iter().find(|stage| stage.kind == kind);
    let stage = stage.unwrap_or_else(|| panic!("{kind:?}: {:#?}", cycle.stages));
    stage.end - stage.start
}

fn line(ms: i64, words: &str) -> String {
    format!("[{:12.6}] {words}\n", ms as f64 / 1e3)
}

/// A syslog: the kernel's stamps, and the wall clock's lead at those times.
struct Syslog {
    text: String,
    ahead_s: i64,
}

impl Syslog {
    fn ahead(ahead_s: i64) -> Self {
        let text = String::new();
        Self { text, ahead_s }
    }

    fn line(&mut self, ms: i64, words: &str) {
        let of_day = ms / 1000 + self.ahead_s;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let wall = format!("Nov 22 {hour:02}:{minute:02}:{second:02} host kernel: ");
        self.text += &wall;
        self.text += &line(ms, words);
    }

    /// A cycle that starts here and sleeps this long. Messages between the freezing and the thawing
    /// are written after the sleep.
    fn cycle(&mut self, at: i64, asleep_s: i64, besides: &[(i64, &str)]) {
        let mut lines: Vec<_> = DEEP.iter().chain(besides).collect();
        lines.sort_by_key(|line| line.0);
        for (ms, words) in lines {
            self.ahead_s += if *ms == 11 { asleep_s } else { 0 };
            self.line(at + ms, words);
        }
    }

    /// Seconds asleep of each cycle, as read.
    fn asleep(&self) -> Vec<Option<i64>> {
        let cycles = log(&self.text).cycles;
        let seconds = |us: Us| (us + 500_000) / 1_000_000;
        cycles
            .iter()
            .map(|one| one.asleep_us.map(seconds))
            .collect()
    }
}

/// The stamps are whole seconds.
fn is_about(found: &[Option<i64>], expected: &[i64]) {
    let fit = |(found, expected): (&Option<i64>, &i64)| {
        found.is_some_and(|one| (one - expected).abs() <= 1)
    };
    let fits = found.len() == expected.len() && found.iter().zip(expected).all(fit);
    assert!(fits, "{found:?} for {expected:?}");
}

#[test]
fn a_sleep_by_the_wall_clock_belongs_to_its_own_boot() {
    for banner in ["Linux version 6.1.0 (a@b) #1 SMP", "usb 1-1: new device"] {
        let mut log = Syslog::ahead(36_000);
        log.line(90_000, "usb 1-1: new device");
        log.cycle(100_000, 45, &[]);
        log.line(102_000, "usb 1-1: link");
        log.ahead_s = 43_200;
        log.line(0, banner);
        log.line(50_000, "usb 1-1: new device");
        log.cycle(60_000, 100, &[]);
        log.line(62_000, "usb 1-1: link");
        is_about(&log.asleep(), &[45, 100]);
    }
}

#[test]
fn a_sleep_by_the_wall_clock_contains_no_other_sleep() {
    let refused = (15, "sd 0:0:0:0: PM: failed to suspend async: error -16");
    let stated = (240, "PM: Timekeeping suspended for 45.000 seconds");
    let late = (1157, "usb 1-3: PM: failed to resume async: error -19");
    for (besides, first) in [(stated, Some(45)), (late, Some(45)), (refused, None)] {
        let mut log = Syslog::ahead(36_000);
        log.line(90_000, "usb 1-1: new device");
        log.cycle(100_000, 45, &[besides]);
        log.line(102_000, "usb 1-1: link");
        log.cycle(200_000, 100, &[]);
        log.line(202_000, "usb 1-1: link");
        let found = log.asleep();
        is_about(&found[1..], &[100]);
        if let Some(first) = first {
            is_about(&found[..1], &[first]);
        }
    }
    // A cycle without an end, and one directly after another.
    let mut log = Syslog::ahead(36_000);
    log.cycle(100_000, 45, &[]);
    let end = log.text.lines().last().unwrap().len() + 1;
    log.text.truncate(log.text.len() - end);
    log.cycle(103_000, 100, &[]);
    log.cycle(105_000, 70, &[]);
    is_about(&log.asleep()[1..], &[100, 70]);
}

#[test]
fn the_last_line_of_a_cycle_has_both_clocks() {
    let mut log = Syslog::ahead(36_000);
    log.line(90_000, "usb 1-1: new device");
    log.cycle(100_000, 45, &[]);
    is_about(&log.asleep(), &[45]);
}

#[test]
fn a_wall_clock_set_long_before_gives_no_sleep() {
    // Like machines whose clock has no battery, some time after boot.
    let mut log = Syslog::ahead(0);
    log.line(10_000, "usb 1-1: new device");
    log.ahead_s = 36_000;
    log.line(60_000, "usb 1-1: link");
    log.cycle(100_000, 45, &[]);
    log.line(102_000, "usb 1-1: link");
    is_about(&log.asleep(), &[45]);
}

/// [`DEEP`] at 100 s with other times of the call in its resume; stamps from `early resume` on are
/// `back` ms behind.
fn stepped(back: i64, took: i64) -> Cycle {
    let text: String = DEEP
        .iter()
        .map(|&(ms, words)| {
            let late = if ms > 1000 { took - 900 } else { 0 };
            let stepped = if ms >= 254 { back } else { 0 };
            let words = words.replace("900000", &format!("{}", took * 1000));
            let words = words.replace("902.000", &format!("{}.000", took + 2));
            line(100_000 + ms + late - stepped, &words)
        })
        .collect();
    one(&text)
}

#[test]
fn a_wait_after_a_backward_step_is_no_return_to_the_former_clock() {
    for (back, took) in [
        (1000, 3000),
        (1000, 900),
        (1000, 1000),
        (1000, 1050),
        (300, 5000),
        (300, 310),
    ] {
        let cycle = stepped(back, took);
        let whole = stepped(0, took);
        // At the step itself no time passes: 3 ms.
        let resume = of(&whole).resume_us.unwrap() - 3000;
        assert_eq!(of(&cycle).resume_us, Some(resume), "{back}, {took}");
        assert_eq!(
            lasted(&cycle, StageKind::Resume),
            (took + 2) * 1000,
            "{back}, {took}"
        );
        let call = &cycle.calls[0];
        assert_eq!(
            call.end.unwrap() - call.start.unwrap(),
            took * 1000,
            "{back}, {took}"
        );
    }
}

#[test]
fn a_few_lines_of_another_cpus_clock_do_not_move_the_others() {
    // A duration in the next line does not decide it.
    for next in [
        "usb 1-1: link",
        "PM: resume of devices complete after 75.000 msecs",
    ] {
        let mut text = String::new();
        for &(ms, words) in &DEEP[..13] {
            text += &line(100_000 + ms, words);
        }
        text += &line(99_256, "CPU3: this clock is another one");
        text += &line(99_257, DEEP[13].1);
        text += &line(99_329, &DEEP[14].1.replace("900000", "72000"));
        text += &line(100_330, next);
        text += &line(100_331, DEEP[16].1);
        text += &line(100_340, DEEP[17].1);
        let times = of(&one(&text));
        assert!((times.end - 100_340_000).abs() <= 5000, "{next}: {times:?}");
    }
}

/// Linux 6.11 on ARM, in ms: the clock stands still while it sleeps.
fn idle(sleeps: &[(i64, &str)]) -> Cycle {
    let mut text = String::new();
    let lines = [
        (0, "PM: suspend entry (s2idle)"),
        (
            12,
            "Freezing user space processes completed (elapsed 0.002 seconds)",
        ),
        (
            13,
            "printk: Suspending console(s) (use no_console_suspend to debug)",
        ),
        (213, "PM: suspend of devices complete after 200.000 msecs"),
        (
            215,
            "PM: late suspend of devices complete after 2.000 msecs",
        ),
        (
            217,
            "PM: noirq suspend of devices complete after 2.000 msecs",
        ),
        (218, "PM: suspend-to-idle"),
        (6600, "PM: resume from suspend-to-idle"),
        (
            6700,
            "PM: noirq resume of devices complete after 90.000 msecs",
        ),
        (
            6800,
            "PM: early resume of devices complete after 90.000 msecs",
        ),
        (7800, "PM: resume of devices complete after 990.000 msecs"),
        (7950, "PM: suspend exit"),
    ];
    let mut all: Vec<_> = lines.iter().chain(sleeps).collect();
    all.sort_by_key(|line| line.0);
    for (ms, words) in all {
        text += &line(100_000 + ms, words);
    }
    one(&text)
}

#[test]
fn several_sleeps_within_one_have_the_same_clock() {
    let first = (300, "Timekeeping suspended for 60.000 seconds");
    for (short, us) in [("5.000", 5_000_000), ("0.300", 300_000)] {
        let words = format!("Timekeeping suspended for {short} seconds");
        for at in [310, 3000, 6500] {
            let cycle = idle(&[first, (at, &words)]);
            assert_eq!(cycle.asleep_us, Some(60_000_000 + us));
            assert_eq!(
                lasted(&cycle, StageKind::Idle),
                6_382_000,
                "{short} at {at}"
            );
            assert_eq!(of(&cycle).resume_us, Some(1_350_000));
        }
    }
    // A clock that continues: what remains is the time awake.
    let cycle = idle(&[
        (3000, "Timekeeping suspended for 2.700 seconds"),
        (6500, "Timekeeping suspended for 3.400 seconds"),
    ]);
    assert_eq!(cycle.asleep_us, Some(6_100_000));
    assert_eq!(lasted(&cycle, StageKind::Idle), 282_000);
    assert_eq!(of(&cycle).resume_us, Some(1_350_000));
}

#[test]
fn a_sleep_reported_by_a_device_in_its_resume_is_no_firmware_time() {
    // ARM: the time asleep is from the RTC, which is a device.
    for at in [1000, 252, 255] {
        let stated = (at, "PM: Timekeeping suspended for 18.212 seconds");
        let mut lines: Vec<_> = DEEP
            .iter()
            .filter(|line| !line.1.contains("ACPI"))
            .collect();
        lines.push(&stated);
        lines.sort_by_key(|line| line.0);
        let lines = lines.iter().map(|(ms, words)| match ms {
            0..250 => line(100_000 + ms, words),
            _ => line(103_000 + ms, words).replace("after 4.000", "after 3024.000"),
        });
        let cycle = one(&lines.collect::<String>());
        let times = of(&cycle);
        assert_eq!(times.platform_us, Some(7_000), "{at}");
        assert_eq!(times.resume_us, Some(3_934_000), "{at}");
        assert_eq!(lasted(&cycle, StageKind::ResumeNoirq), 3_024_000);
        assert_eq!(lasted(&cycle, StageKind::ResumeEarly), 2_000);
    }
}

/// The places of cycles beside a meter: each one's start, sleep, wake-up and end in ms from the
/// first one's start.
fn placed(text: &str) -> Vec<[Us; 4]> {
    let samples = (0..600).map(|second| format!("{second},{}\n", 130 - second % 2));
    let meter = format!("time_s,watts\n{}", samples.collect::<String>());
    let input = Input {
        name: "log".to_owned(),
        source: Source::default(),
        cycles: log(text).cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    let question = Question {
        meter: Some(Meter::parse(meter.as_bytes()).unwrap()),
        meter_offset_us: Some(10_000_000),
        ..Question::default()
    };
    let mut found = analyse(vec![input], &question).unwrap();
    let power = found.machines.remove(0).power.unwrap();
    let cycles = power.cycles.iter().map(|one| {
        let at = [one.start_us, one.suspended_us, one.woken_us, one.end_us];
        at.map(|us| (us - power.cycles[0].start_us) / 1000)
    });
    cycles.collect()
}

#[test]
fn a_meters_cycles_keep_their_places_whatever_the_logs_clock_does() {
    // 30 s asleep every 50 s, unchanged.
    let expected: Vec<[Us; 4]> = (0..3)
        .map(|at| [0, 233, 30_253, 31_188].map(|ms| ms + at * 50_000))
        .collect();
    let text = |stands_still: bool, stated: bool, marked: bool| -> String {
        let mut text = String::new();
        for cycle in 0..3 {
            let slept = if stands_still { 30_000 * cycle } else { 0 };
            for &(ms, words) in &DEEP {
                let (sleep, at) = match ms {
                    0..233 => (0, ms),
                    _ if stands_still => (0, ms + 27),
                    _ => (0, ms + 30_027),
                };
                let words = words
                    .replace("(deep)", "(s2idle)")
                    .replace(
                        "ACPI: PM: Preparing to enter system sleep state S3",
                        "ACPI: EC: interrupt blocked",
                    )
                    .replace(
                        "ACPI: PM: Waking up from system sleep state S3",
                        "ACPI: EC: interrupt unblocked",
                    );
                let at = 300_000 + cycle * 50_000 - slept + sleep + at;
                match words.contains("Low-level") {
                    true => {
                        let down = 300_000 + cycle * 50_000 - slept + 233;
                        let before = if stands_still { 10 } else { 30_010 };
                        if marked {
                            text += &line(down, "PM: suspend-to-idle");
                        }
                        if stated {
                            text +=
                                &line(down + before, "Timekeeping suspended for 30.000 seconds");
                        }
                        if marked {
                            text += &line(down + before + 10, "PM: resume from suspend-to-idle");
                        }
                    }
                    false => text += &line(at, &words),
                }
            }
        }
        text
    };
    // Stated by the kernel, with a clock that continues or not; not stated, with a clock that
    // continues.
    for (stands_still, stated) in [(true, true), (false, true), (false, false)] {
        assert_eq!(
            placed(&text(stands_still, stated, true)),
            expected,
            "{stands_still}, {stated}"
        );
    }
}

//! Foreign and damaged logs that were once misread, each as the kernel writes it.

use std::io::Read;

use reveille_resume::analysis::{Analysis, Input, LinkKind, Question, Source, analyse};
use reveille_resume::cycle::{Call, Cycle, StageKind, Us};
use reveille_resume::graph::Half;
use reveille_resume::log::{Log, read, read_files};
use reveille_resume::power::Meter;

use crate::reading::{log, one};

fn stage(cycle: &Cycle, kind: StageKind) -> (Us, Us) {
    let found = cycle.stages.iter().find(|stage| stage.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{kind:?}: {:#?}", cycle.stages));
    (found.start, found.end)
}

fn analysis(text: &str) -> Analysis {
    let log = log(text);
    let input = Input {
        name: "m".to_owned(),
        source: Source::default(),
        cycles: log.cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    analyse(vec![input], &Question::default()).unwrap()
}

/// linux-bluetooth, 2020: CONFIG_PM_TEST_SUSPEND, without pm_debug_messages.
const TOOK: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.010000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  100.020000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  100.030000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.323552] fec 20b4000.ethernet eth0: Link is Down
[  100.350000] PM: suspend devices took 0.300 seconds
[  100.391000] Disabling non-boot CPUs ...
[  100.400000] Enabling non-boot CPUs ...
[  100.410000] CPU1 is up
[  100.866000] PM: resume devices took 0.440 seconds
[  100.981000] OOM killer enabled.
[  100.982000] Restarting tasks ... done.
[  101.000000] PM: suspend exit
";

/// thinkbook13s: `[18446744066.766940] [Firmware Bug]: TSC ADJUST differs`.
#[test]
fn a_stamp_of_a_clock_below_zero_is_no_instant() {
    let wrapped = TOOK.replace(
        "[  100.391000]",
        "[18446744066.766940] [Firmware Bug]: TSC ADJUST differs\n[  100.391000]",
    );
    assert_ne!(wrapped, TOOK);
    assert_eq!(one(&wrapped), one(TOOK));
    assert_eq!(log(&wrapped).left_out.torn_lines, 1);
}

#[test]
fn the_devices_total_time_bounds_their_stages_if_no_other_line_does() {
    let cycle = one(TOOK);
    assert_eq!(
        stage(&cycle, StageKind::Suspend),
        (100_050_000, 100_350_000)
    );
    assert_eq!(stage(&cycle, StageKind::Resume), (100_426_000, 100_866_000));
    assert!(cycle.calls.is_empty());
    // Lines about the stages take precedence.
    let with_lines = TOOK.replace(
        "[  100.350000]",
        "[  100.340000] PM: suspend of devices complete after 250.000 msecs\n[  100.350000]",
    );
    let cycle = one(&with_lines);
    assert_eq!(
        stage(&cycle, StageKind::Suspend),
        (100_090_000, 100_340_000)
    );
    // The next cycle's start ends the previous one, which has no other end.
    let lines = |from: &str| {
        TOOK.lines()
            .filter(|line| line.contains(" devices took"))
            .fold(String::new(), |all, line| {
                all + &line.replace("[  10", from) + "\n"
            })
    };
    assert_eq!(log(&(lines("[  10") + &lines("[  20"))).cycles.len(), 2);
}

#[test]
fn androids_second_entry_with_the_date_starts_no_second_cycle() {
    let dated = "[  100.005000] PM: suspend entry 2025-07-10 01:19:52.487634359 UTC\n";
    let text = TOOK.replace("[  100.010000]", &format!("{dated}[  100.010000]"));
    let text = text + "[  101.000100] PM: suspend exit 2025-07-10 01:20:52.487634359 UTC\n";
    let cycle = one(&text);
    assert_eq!(cycle.sleep.as_deref(), Some("deep"));
    assert_eq!(cycle.words.first, Some(100_000_000));
    // Two entries of one kind belong to two cycles.
    let twice = TOOK.replace(
        "[  100.010000]",
        "[  100.005000] PM: suspend entry (deep)\n[  100.010000]",
    );
    assert_eq!(log(&twice).cycles.len(), 2);
    let dated_only = |text: &str| text.replace("(deep)", "2025-07-10 01:19:52.487634359 UTC");
    assert_eq!(log(&dated_only(&twice)).cycles.len(), 2);
}

#[test]
fn a_duplicate_line_counts_once() {
    let text = TOOK.replace(
        "[  100.400000]",
        "[  100.395000] PM: Timekeeping suspended for 14.141 seconds\n[  100.400000]",
    );
    let whole = log(&text);
    let doubled: String = text
        .lines()
        .flat_map(|line| [line, "\n", line, "\n"])
        .collect();
    let found = log(&doubled);
    assert_eq!(found.cycles, whole.cycles);
    assert_eq!(found.left_out.repeated_lines, text.lines().count() as u64);
    assert_eq!(found.cycles[0].asleep_us, Some(14_141_000));
    // With whole seconds two lines may have the same text.
    let coarse = |text: &str| -> String {
        let lines = text.lines();
        lines
            .map(|line| format!("[Sat Nov 21 18:00:00 2026] {}\n", &line[15..]))
            .collect()
    };
    assert_eq!(log(&coarse(&doubled)).left_out.repeated_lines, 0);
}

#[test]
fn a_parents_name_may_have_spaces_and_ends_with_its_line() {
    let text = "\
[  100.000000] PM: suspend entry (deep)
[  100.201000] platform Fixed MDIO bus.0: PM: calling platform_pm_resume @ 500, parent: platform
[  100.501000] platform Fixed MDIO bus.0: PM: platform_pm_resume returned 0 after 300000 usecs
[  100.501100] mdio_bus fixed-0: PM: calling mdio_bus_phy_resume @ 600, parent: Fixed MDIO bus.0
> and so on, as the mail says
[  100.501200] mdio_bus fixed-0: PM: mdio_bus_phy_resume returned 0 after 100 usecs
[  100.502000] PM: resume of devices complete after 301.500 msecs
";
    let cycle = one(text);
    let parents: Vec<_> = cycle
        .calls
        .iter()
        .map(|call| call.parent.as_deref())
        .collect();
    assert_eq!(parents, [Some("platform"), Some("Fixed MDIO bus.0")]);
}

/// A driver's callback hangs: the log ends with the hung tasks' lines.
const HANGS: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.010000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  100.023500] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  100.023600] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.030000] usb 1-1: PM: calling usb_dev_suspend @ 500, parent: usb1
[  100.040000] usb 1-1: PM: usb_dev_suspend returned 0 after 10000 usecs
[  100.040100] amdgpu 0000:04:00.0: PM: calling pci_pm_suspend @ 501, parent: 0000:00:08.1
[  100.041000] nvme 0000:02:00.0: PM: calling pci_pm_suspend @ 502, parent: 0000:00:02.1
[  100.043000] nvme 0000:02:00.0: PM: pci_pm_suspend returned 0 after 2000 usecs
[  222.900000] INFO: task kworker/u32:1:501 blocked for more than 122 seconds.
[  345.900000] INFO: task kworker/u32:1:501 blocked for more than 245 seconds.
";

#[test]
fn a_call_that_never_returns_is_named_first_and_no_savings_are_given() {
    let machine = &analysis(HANGS).machines[0];
    let failed = machine.failed();
    assert_eq!((failed.len(), failed[0].how), (1, "never returned"));
    let what = &failed[0].what;
    let facts = [
        "0000:04:00.0 (amdgpu): pci_pm_suspend",
        "40.1 ms",
        "4 min 6 s",
    ];
    assert!(facts.into_iter().all(|fact| what.contains(fact)), "{what}");
    let shown = machine.shown();
    assert_eq!(shown.suspend_us, None, "it did not end");
    assert!(shown.suspend_path.is_empty() && machine.suspend_removals.is_empty());
    // Neither complete cycles before it nor failures move it to the end.
    let several = analysis(&(TOOK.to_owned() + &HANGS.replace("[  ", "[ 9"))).machines[0].clone();
    assert_eq!(several.failed()[0].cycle, 2);
    // The same in the resume.
    let resumes = "\
[  100.000000] PM: suspend entry (deep)
[  100.023600] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.030000] usb 1-1: PM: calling usb_dev_suspend @ 500, parent: usb1
[  100.040000] usb 1-1: PM: usb_dev_suspend returned 0 after 10000 usecs
[  100.100000] ACPI: PM: Preparing to enter system sleep state S3
[  100.200000] ACPI: PM: Low-level resume complete
[  100.300000] usb 1-1: PM: calling usb_dev_resume @ 500, parent: usb1
[  100.310000] amdgpu 0000:04:00.0: PM: calling pci_pm_resume @ 501, parent: 0000:00:08.1
[  100.400000] usb 1-1: PM: usb_dev_resume returned 0 after 100000 usecs
";
    let machine = &analysis(resumes).machines[0];
    assert!(
        machine.failed()[0]
            .what
            .starts_with("0000:04:00.0 (amdgpu): pci_pm_resume (resume devices), ")
    );
    assert!(machine.failed()[0].what.ends_with("; there the log ends"));
    assert!(machine.shown().path.is_empty() && machine.removals.is_empty());
    assert!(!machine.shown().suspend_path.is_empty());
    // If a later stage follows, the kernel did not wait for it.
    let later =
        HANGS.to_owned() + "[  346.000000] PM: resume of devices complete after 3.000 msecs\n";
    let machine = &analysis(&later).machines[0];
    assert!(machine.shown().unreturned(Half::Suspend).next().is_none());
}

/// A slow console: each line takes 7 ms to print, after its stamp.
const SLOW: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.070000] usb usb1: PM: calling usb_dev_suspend @ 31, parent: none
[  100.080000] usb usb1: PM: usb_dev_suspend returned 0 after 9990 usecs
[  100.081000] i8042 i8042: PM: calling i8042_pm_suspend @ 31, parent: platform
[  100.081010] i8042 i8042: PM: i8042_pm_suspend returned 0 after 3 usecs
[  100.100000] PM: suspend of devices complete after 37.000 msecs
[  100.110000] PM: late suspend of devices complete after 8.000 msecs
[  100.120000] PM: noirq suspend of devices complete after 9.000 msecs
[  100.130000] ACPI: PM: Preparing to enter system sleep state S3
[  100.140000] ACPI: PM: Low-level resume complete
[  100.200000] PM: noirq resume of devices complete after 9.000 msecs
[  100.210000] PM: early resume of devices complete after 8.000 msecs
[  100.220000] i8042 i8042: PM: calling i8042_pm_resume @ 31, parent: platform
[  100.266100] i8042 i8042: PM: i8042_pm_resume returned 0 after 3 usecs
[  100.270000] usb usb1: PM: calling usb_dev_resume @ 31, parent: none
[  100.337000] usb usb1: PM: usb_dev_resume returned 0 after 60000 usecs
[  100.340000] PM: resume of devices complete after 125.000 msecs
[  100.400000] OOM killer enabled.
[  100.410000] Restarting tasks ... done.
[  100.500000] PM: suspend exit
";

#[test]
fn a_call_takes_the_time_that_the_kernel_states_and_not_that_of_its_lines() {
    let machine = &analysis(SLOW).machines[0];
    let device = |name: &str| {
        let found = machine.devices.iter().find(|one| &*one.device == name);
        found.unwrap().resume_us.median
    };
    assert_eq!((device("i8042"), device("usb1")), (3, 60_000));
    let shown = machine.shown();
    let length = |what: LinkKind| -> Us {
        let links = shown.path.iter().filter(|link| link.what == what);
        links.map(|link| link.duration_us).sum()
    };
    assert_eq!(length(LinkKind::Call), 60_003);
    assert_eq!(length(LinkKind::Printing), 46_097 + 7_000);
    let all: Us = shown.path.iter().map(|link| link.duration_us).sum();
    assert_eq!(Some(all), shown.resume_us);
    let saves = |name: &str| {
        let found = machine.removals.iter().find(|one| &*one.device == name);
        found.map_or(0, |one| one.saves_us)
    };
    assert!(saves("i8042") <= 3, "{:?}", machine.removals);
    assert!(
        (60_000..67_100).contains(&saves("usb1")),
        "{:?}",
        machine.removals
    );
    let said = machine
        .notes
        .iter()
        .find(|note| note.contains("the kernel's figures count"));
    let said = said.unwrap();
    let facts = ["2 calls", "53.1 ms", "(i8042: 46.1 ms", "3 µs"];
    assert!(facts.into_iter().all(|fact| said.contains(fact)), "{said}");
}

#[test]
fn stamps_count_if_they_agree_with_the_kernel_or_exceed_it() {
    let took = |start: i64, end: i64, stated: i64, function: Option<&str>| {
        let call = Call {
            device: "d".into(),
            driver: None,
            parent: None,
            function: function.map(Into::into),
            stage: StageKind::Resume,
            start: Some(start),
            end: Some(end),
            says_us: Some(stated),
            worker: Some(1),
            result: Some(0),
        };
        (call.took_us().unwrap(), call.printing_us())
    };
    assert_eq!(took(0, 10_400, 10_000, Some("f")), (10_400, 0));
    assert_eq!(took(0, 10_501, 10_000, Some("f")), (10_000, 501));
    assert_eq!(took(0, 103, 3, Some("f")), (103, 0));
    assert_eq!(took(0, 104, 3, Some("f")), (3, 101));
    // Microseconds of 1024 ns: 1 s is 976,562 of them.
    assert_eq!(took(0, 1_100_000, 976_562, None), (999_999, 100_001));
    // With whole seconds, and with two CPUs' clocks.
    assert_eq!(took(0, 0, 300_000, Some("f")), (300_000, 0));
    assert_eq!(took(50, 0, 12, Some("f")), (12, 0));
}

/// Plain `journalctl`: no kernel stamps, and a logger that is frozen from the first line on.
const JOURNAL: &str = "\
Dec 08 08:54:55 x1c kernel: PM: suspend entry (deep)
Dec 08 08:54:55 x1c kernel: Filesystems sync: 0.009 seconds
Dec 08 09:00:00 x1c kernel: Freezing user space processes ... (elapsed 0.002 seconds) done.
Dec 08 09:00:00 x1c kernel: Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
Dec 08 09:00:00 x1c kernel: printk: Suspending console(s) (use no_console_suspend to debug)
Dec 08 09:00:00 x1c kernel: ACPI: PM: Preparing to enter system sleep state S3
Dec 08 09:00:00 x1c kernel: ACPI: PM: Low-level resume complete
Dec 08 09:00:00 x1c kernel: Restarting tasks ... done.
Dec 08 09:00:00 x1c kernel: PM: suspend exit
";

#[test]
fn the_leap_of_a_frozen_loggers_clock_is_the_sleep_and_no_freeze() {
    // Five minutes, and more than a freeze or a watchdog can take; 2 ms of it is the freeze.
    for (wakes, asleep_us) in [("09:00:00", 304_998_000), ("09:19:35", 1_479_998_000)] {
        let text = JOURNAL.replace("09:00:00", wakes);
        let found = log(&text);
        assert_eq!(found.left_out.clock_jumps, 0);
        assert_eq!(found.left_out.late_stamps, 1);
        let machine = &analysis(&text).machines[0];
        let shown = machine.shown();
        assert_eq!(shown.asleep_us, Some(asleep_us));
        assert_eq!((shown.suspend_us, shown.resume_us), (None, None));
        assert!(
            shown.stages.len() == 1 && shown.gaps.is_empty(),
            "{shown:?}"
        );
        assert_eq!(shown.stages[0].duration_us, Some(9_000), "the sync");
        assert!(shown.path.is_empty() && shown.suspend_path.is_empty());
    }
    // The kernel's own durations of its stages are kept.
    let line = "Dec 08 09:00:00 x1c kernel: PM: resume of devices complete after 399.000 msecs\n";
    let text = JOURNAL.replace(
        "Dec 08 09:00:00 x1c kernel: Restarting",
        &format!("{line}Dec 08 09:00:00 x1c kernel: Restarting"),
    );
    let shown = analysis(&text).machines[0].shown().clone();
    assert_eq!(shown.stages.len(), 2);
    assert_eq!(shown.stages[1].duration_us, Some(399_000));
    // A logger elsewhere continues: it leaps when the machine sleeps, and not before.
    let live = JOURNAL.replace("09:00:00 x1c kernel: Fr", "08:54:55 x1c kernel: Fr");
    let live = live.replace("09:00:00 x1c kernel: printk", "08:54:57 x1c kernel: printk");
    let live = live.replace(
        "09:00:00 x1c kernel: ACPI: PM: Prep",
        "08:54:58 x1c kernel: ACPI: PM: Prep",
    );
    let found = log(&live);
    assert_eq!(found.left_out.late_stamps, 0);
    let shown = analysis(&live).machines[0].shown().clone();
    assert_eq!(shown.suspend_us, Some(3_000_000));
    assert_eq!(shown.resume_us, None, "all of it is in one second");
    // A failed freeze does take that long.
    let fails = "\
Dec 08 08:54:55 x1c kernel: PM: suspend entry (deep)
Dec 08 08:55:15 x1c kernel: Freezing of tasks failed after 20.006 seconds (1 tasks refusing to freeze, wq_busy=0):
Dec 08 08:55:15 x1c kernel: Restarting tasks ... done.
Dec 08 08:55:15 x1c kernel: PM: suspend exit
";
    assert_eq!(log(fails).left_out.late_stamps, 0);
    assert_eq!(
        analysis(fails).machines[0].shown().suspend_us,
        Some(20_000_000)
    );
}

#[test]
fn the_time_from_freezing_to_thawing_is_the_devices_without_lines_about_their_stages() {
    let text = "\
[  100.000000] PM: suspend entry (deep)
[  100.010000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  100.020000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  100.030000] printk: Suspending console(s) (use no_console_suspend to debug)
[  101.000000] mydrv 0000:02:00.0: stopping
[  102.000000] Disabling non-boot CPUs ...
[  102.010000] smpboot: CPU 1 is now offline
[  102.020000] ACPI: PM: Low-level resume complete
[  102.030000] Enabling non-boot CPUs ...
[  102.040000] CPU1 is up
[  102.100000] nvme nvme0: 8/0/0 default/read/poll queues
[  102.500000] OOM killer enabled.
[  102.510000] Restarting tasks ... done.
[  102.600000] PM: suspend exit
";
    let machine = &analysis(text).machines[0];
    let stage = |half: Half, message: &str| {
        let path = machine.shown().path_of(half).iter();
        let mut named = path.filter(|link| {
            link.message
                .as_deref()
                .is_some_and(|one| one.contains(message))
        });
        named.next().unwrap().stage
    };
    assert_eq!(stage(Half::Resume, "nvme0"), StageKind::Resume);
    assert_eq!(stage(Half::Suspend, "mydrv"), StageKind::Suspend);
    // If they have lines, the time in between belongs to the following one.
    let with_lines = text.replace(
        "[  102.100000]",
        "[  102.090000] PM: resume of devices complete after 20.000 msecs\n[  102.100000]",
    );
    let shown = analysis(&with_lines).machines[0].shown().clone();
    let long = shown.path.iter().find(|link| {
        link.message
            .as_deref()
            .is_some_and(|one| one.contains("nvme0"))
    });
    assert_eq!(long.unwrap().stage, StageKind::Complete);
}

#[test]
fn the_first_and_the_last_line_alone_give_the_span() {
    let text = "\
[  100.000000] PM: suspend entry (deep)
[  102.600000] PM: suspend exit
";
    let machine = &analysis(text).machines[0];
    let shown = machine.shown();
    assert_eq!((shown.start_us, shown.end_us), (100_000_000, 102_600_000));
    assert_eq!((shown.suspend_us, shown.resume_us), (None, None));
}

#[test]
fn data_after_a_gzip_member_is_skipped_if_it_is_none() {
    let gz = |text: &str| -> Vec<u8> {
        let mut packed = Vec::new();
        let level = flate2::Compression::fast();
        let mut encoder = flate2::read::GzEncoder::new(text.as_bytes(), level);
        encoder.read_to_end(&mut packed).unwrap();
        packed
    };
    let whole = log(TOOK);
    let (begin, end) = TOOK.split_at(200);
    let members = [gz(begin), gz(end)].concat();
    for rest in [&b""[..], &[0; 700], b"junk"] {
        let packed = [&members[..], rest].concat();
        assert_eq!(read(&packed[..]).unwrap().cycles, whole.cycles);
    }
    let error = read(&members[..members.len() - 20]).unwrap_err();
    assert!(error.to_string().contains("cut before its end"), "{error}");
    let utf_32: Vec<u8> = "\u{feff}PM: suspend"
        .chars()
        .flat_map(|one| (one as u32).to_le_bytes())
        .collect();
    assert!(
        read(&utf_32[..])
            .unwrap_err()
            .to_string()
            .contains("UTF-32")
    );
}

#[test]
fn lines_may_end_with_a_carriage_return_alone() {
    assert_eq!(
        log(&TOOK.replace('\n', "\r")),
        Log {
            bytes: TOOK.len() as u64,
            ..log(TOOK)
        }
    );
}

/// `dmesg --time-format iso`, whose clock stands still in sleep: file systems are synced for 3 s.
const SYNCS: &str = "\
2026-11-21T18:00:10,000000+00:00 PM: suspend entry (deep)
2026-11-21T18:00:13,000000+00:00 Filesystems sync: 3.000 seconds
2026-11-21T18:00:13,010000+00:00 Freezing user space processes
2026-11-21T18:00:13,020000+00:00 Freezing user space processes completed (elapsed 0.010 seconds)
2026-11-21T18:00:13,030000+00:00 usb 1-1: calling usb_dev_suspend+0x0/0x20 @ 101, parent: usb1
2026-11-21T18:00:13,130000+00:00 usb 1-1: usb_dev_suspend+0x0/0x20 returned 0 after 100000 usecs
2026-11-21T18:00:13,430000+00:00 PM: suspend of devices complete after 400.000 msecs
2026-11-21T18:00:13,500000+00:00 ACPI: PM: Preparing to enter system sleep state S3
2026-11-21T18:00:13,510000+00:00 ACPI: PM: Low-level resume complete
2026-11-21T18:00:13,520000+00:00 Timekeeping suspended for 20.000 seconds
2026-11-21T18:00:13,630000+00:00 usb 1-1: calling usb_dev_resume+0x0/0x20 @ 101, parent: usb1
2026-11-21T18:00:13,730000+00:00 usb 1-1: usb_dev_resume+0x0/0x20 returned 0 after 100000 usecs
2026-11-21T18:00:13,830000+00:00 PM: resume of devices complete after 290.000 msecs
2026-11-21T18:00:13,900000+00:00 Restarting tasks ... done.
2026-11-21T18:00:14,000000+00:00 PM: suspend exit
";

/// Its reported suspend, sleep and resume; its stamps are the kernel's.
fn stamped(text: &str) -> [Option<Us>; 3] {
    assert_eq!(log(text).left_out.late_stamps, 0, "{text}");
    let machine = &analysis(text).machines[0];
    let shown = machine.shown();
    let path = shown.path.iter().map(|link| link.duration_us);
    assert_eq!(path.sum::<Us>(), shown.resume_us.unwrap_or(0));
    [shown.suspend_us, shown.asleep_us, shown.resume_us]
}

fn without(text: &str, word: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains(word));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_slow_sync_or_freeze_is_no_sleep_if_the_stamps_stand_still() {
    let expected = [Some(3_500_000), Some(20_000_000), Some(490_000)];
    let without_line = [Some(3_500_000), None, Some(490_000)];
    assert_eq!(stamped(SYNCS), expected);
    assert_eq!(stamped(&without(SYNCS, "Timekeeping")), without_line);
    // Up to 5.1 the line has no figure; but the kernel states a longer sleep.
    let sync = "13,000000+00:00 Filesystems sync: 3.000 seconds";
    let old = SYNCS.replace(sync, "10,000100+00:00 PM: Syncing filesystems ... done.");
    assert_eq!(stamped(&old), expected);
    // `dmesg -T`: everything but the sync is in one second, or two.
    let coarse = |text: &str| -> String {
        let lines = text.lines();
        let coarse = |line: &str| format!("[Sat Nov 21 {} 2026] {}\n", &line[11..19], &line[33..]);
        lines.map(coarse).collect()
    };
    let found = stamped(&coarse(SYNCS));
    assert_eq!(found, [Some(3_000_000), Some(20_000_000), None]);
    let found = stamped(&coarse(&without(SYNCS, "Timekeeping")));
    assert_eq!(found, [Some(3_000_000), None, None]);
    // The freeze takes 2.99 s instead; up to 6.2 its line has the stamp of its start, or of its
    // end.
    let quick = without(SYNCS, "sync");
    let end = "13,020000+00:00 Freezing user space processes completed (elapsed 0.010 seconds)";
    let begin = "13,010000+00:00 Freezing user space processes\n";
    assert!(quick.contains(begin) && quick.contains(end));
    let freezes = quick.replace(begin, "10,010000+00:00 Freezing user space processes\n");
    let freezes = freezes.replace(end, &end.replace("0.010", "3.010"));
    let slow = "Freezing user space processes ... (elapsed 3.000 seconds) done.";
    let rest =
        "13,020000+00:00 Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.";
    let old = |at: &str| {
        let line = format!("{at}+00:00 {slow}\n");
        quick.replace(begin, &line).replace(end, rest)
    };
    for text in [freezes, old("10,010000"), old("13,010000")] {
        assert_eq!(stamped(&text), expected, "{text}");
        assert_eq!(
            stamped(&without(&text, "Timekeeping")),
            without_line,
            "{text}"
        );
    }
}

/// rsyslog on another machine, which continues: synced for 5 s, and 3 s asleep.
const ELSEWHERE: &str = "\
2026-11-21T18:00:10.000000+00:00 h kernel: PM: suspend entry (deep)
2026-11-21T18:00:15.000000+00:00 h kernel: Filesystems sync: 5.000 seconds
2026-11-21T18:00:15.010000+00:00 h kernel: Freezing user space processes
2026-11-21T18:00:15.020000+00:00 h kernel: Freezing user space processes completed (elapsed 0.010 seconds)
2026-11-21T18:00:15.430000+00:00 h kernel: PM: suspend of devices complete after 400.000 msecs
2026-11-21T18:00:15.600000+00:00 h kernel: ACPI: PM: Preparing to enter system sleep state S3
2026-11-21T18:00:18.600000+00:00 h kernel: ACPI: PM: Low-level resume complete
2026-11-21T18:00:18.700000+00:00 h kernel: PM: resume of devices complete after 90.000 msecs
2026-11-21T18:00:18.800000+00:00 h kernel: Restarting tasks ... done.
2026-11-21T18:00:18.900000+00:00 h kernel: PM: suspend exit
";

#[test]
fn a_sleep_shorter_than_the_sync_before_it_is_placed_by_the_stamps() {
    let times = [Some(5_600_000), None, Some(300_000)];
    assert_eq!(stamped(ELSEWHERE), times);
    let sync = "15.000000+00:00 h kernel: Filesystems sync: 5.000 seconds";
    let unnamed = "10.000100+00:00 h kernel: PM: Syncing filesystems ... done.";
    let old = ELSEWHERE.replace(sync, unnamed);
    assert_eq!(stamped(&old), times);
    // With less than 2 s of sleep the sync cannot be distinguished from the leap of a frozen
    // logger.
    let short = old.replace("18:00:18.", "18:00:17.");
    assert_eq!(stamped(&short), times);
    let shorter = short.replace("18:00:17.6", "18:00:17.5");
    assert_eq!(log(&shorter).left_out.late_stamps, 1);
    // The kernel states the time asleep, and the clock continued for as long.
    let last = "2026-11-21T18:00:18.700000+00:00 h kernel: PM: resume";
    let named =
        "2026-11-21T18:00:18.610000+00:00 h kernel: Timekeeping suspended for 2.990 seconds";
    let named = old.replace(last, &format!("{named}\n{last}"));
    assert_eq!(
        stamped(&named),
        [Some(5_600_000), Some(2_990_000), Some(300_000)]
    );
    // A thawed logger with nothing to read for long is no evidence of sleep.
    let thawed = JOURNAL.replace(
        "09:00:00 x1c kernel: PM: suspend exit",
        "09:00:09 x1c kernel: PM: suspend exit",
    );
    assert_eq!(log(&thawed).left_out.late_stamps, 1);
}

#[test]
fn a_frozen_loggers_leap_is_the_sleep_without_the_sync_unless_the_kernel_states_a_longer_one() {
    let asleep = |text: &str| {
        let found = log(text);
        (found.left_out.late_stamps, found.cycles[0].asleep_us)
    };
    // The sync's line is read before the leap, or after it: 305 s in all.
    let slow = JOURNAL.replace("sync: 0.009", "sync: 3.000");
    for (at, us) in [("08:54:58", 301_998_000), ("09:00:00", 302_000_000)] {
        let line = format!("Dec 08 {at} x1c kernel: Filesystems");
        let text = slow.replace("Dec 08 08:54:55 x1c kernel: Filesystems", &line);
        assert_eq!(asleep(&text), (1, Some(us)), "{at}");
    }
    // Stamps of whole seconds are up to a second off.
    for (seconds, late) in [
        ("300.000", 1),
        ("305.998", 1),
        ("305.999", 0),
        ("400.000", 0),
    ] {
        let last = "Dec 08 09:00:00 x1c kernel: Restarting";
        let named = format!(
            "Dec 08 09:00:00 x1c kernel: PM: Timekeeping suspended for {seconds} seconds\n{last}"
        );
        let us = seconds.replace('.', "").parse::<Us>().unwrap() * 1000;
        assert_eq!(
            asleep(&JOURNAL.replace(last, &named)),
            (late, Some(us)),
            "{seconds}"
        );
    }
}

#[test]
fn an_open_calls_start_is_given_relative_to_the_first_line() {
    const CALLING: &str = "usb 1-1: calling usb_dev_suspend+0x0/0x20 @ 101, parent: usb1";
    const ENTRY: &str = "[ 5000.000000] PM: suspend entry (deep)\n";
    let what = |text: &str, start_us: Us| {
        let machine = &analysis(text).machines[0];
        let failed = machine.failed();
        assert!(
            failed.iter().all(|one| one.how == "never returned"),
            "{failed:?}"
        );
        let shown = machine.shown();
        assert_eq!(
            (shown.start_us, shown.suspend_us),
            (start_us, None),
            "{text}"
        );
        let what = failed.iter().map(|one| one.what.as_str());
        (text.to_owned(), what.collect::<Vec<_>>().join("\n"))
    };
    let first = 5_000_000_000;
    let goes_on = format!("[ 5000.050000] {CALLING}\n[ 5012.050000] foo: bar");
    let second = "[ 5000.250000] usb 1-2: calling usb_dev_suspend+0x0/0x20 @ 102, parent: usb1";
    let said = [
        what(&format!("{ENTRY}[ 5000.050000] {CALLING}"), first),
        what(&format!("{ENTRY}[ 5000.001000] {CALLING}"), first),
        what(&format!("{ENTRY}{goes_on}"), first),
        // The call is the first line of all.
        what(&goes_on, first + 50_000),
        // Of several the first one counts; in a failed cycle, the one of the failure.
        what(
            &format!("[ 5000.050000] {CALLING}\n{second}"),
            first + 50_000,
        ),
    ];
    reveille_snapshot::snapshot!("failures", said);
}

#[test]
fn no_call_ends_freezing() {
    let resumes = |text: &str| {
        let cycle = one(text);
        (cycle.stages, cycle.calls.len())
    };
    let entry = "[ 5000.000000] PM: suspend entry (deep)\n";
    let resume = "[ 5100.050000] usb 1-1: calling usb_dev_resume+0x0/0x20 @ 101, parent: usb1\n";
    assert_eq!(resumes(&format!("{entry}{resume}")), (Vec::new(), 1));
    // Nor does one of the suspend: devices were prepared before it.
    let suspend = "[ 5000.050000] usb 1-2: calling usb_dev_suspend+0x0/0x20 @ 102, parent: usb1\n";
    assert_eq!(
        resumes(&format!("{entry}{suspend}{resume}")),
        (Vec::new(), 2)
    );
}

#[test]
fn each_of_many_calls_that_never_returned_is_reported() {
    // It would take minutes if each of them were compared with all others.
    const MANY: usize = 50_000;
    let mut text = String::from("[  100.000000] PM: suspend entry (deep)\n");
    for number in 0..MANY {
        text += &format!(
            "[  100.050000] d{number}: PM: calling a_suspend+0x0/0x20 @ 31, parent: none\n"
        );
    }
    let failed = analysis(&text).machines[0].failed();
    assert_eq!(failed.len(), MANY);
    assert!(failed.iter().all(|one| one.how == "never returned"));
}

#[test]
fn one_call_shorter_than_its_lines_is_reported_in_the_singular() {
    let text = SLOW.replace(
        "returned 0 after 60000 usecs",
        "returned 0 after 67000 usecs",
    );
    let notes = &analysis(&text).machines[0].notes;
    let is_said = |note: &String| note.starts_with("1 call ") && note.contains("(i8042: 46.1 ms");
    assert!(notes.iter().any(is_said), "{notes:?}");
}

/// `[    1.000000] x` in twenty lines, compressed by gzip, xz and zstd.
const PACKED: [&[u8]; 3] = [
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x8b\x56\x00\x02\x43\x3d\x03\x30\x88\x55\xa8\xe0\
      \x8a\x1e\x15\xa0\x54\x00\x00\x27\xe1\x91\xdc\x54\x01\x00\x00",
    b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\
      \xe5\xa3\xe0\x01\x53\x00\x14\x5d\x00\x2d\x88\x30\x46\x22\xe1\x9f\xfa\xe5\x51\x3a\x61\x17\
      \xd1\x68\x10\xb0\xa6\xc0\x00\x00\x3e\x44\x9e\x15\x2f\x49\xc7\x33\x00\x01\x30\xd4\x02\x00\
      \x00\x00\x62\xc2\x53\x11\xb1\xc4\x67\xfb\x02\x00\x00\x00\x00\x04\x59\x5a",
    b"\x28\xb5\x2f\xfd\x04\x58\xad\x00\x00\x60\x5b\x20\x20\x20\x20\x31\x2e\x30\x5d\x20\x78\x0a\
      \x02\x00\x40\x34\x15\x11\x00\x17\x1c\x46\xca\x25",
];

#[test]
fn truncated_compressed_data_is_reported_as_truncated() {
    // Fewer bytes do not identify the compression.
    for (packed, least) in PACKED.into_iter().zip([2, 6, 4]) {
        assert_eq!(read(packed).unwrap().lines, 20);
        let parts = [packed, packed].concat();
        assert_eq!(read(&parts[..]).unwrap().lines, 40);
        for bytes in (least..packed.len()).chain(packed.len() + least..parts.len()) {
            let error = read(&parts[..bytes]).unwrap_err().to_string();
            let is_cut = error.starts_with("it is packed, and cut");
            assert!(
                is_cut && !error.contains('\n'),
                "{bytes} of {packed:?}: {error}"
            );
        }
    }
    // A skippable frame.
    for skipped in [
        &b"\x50\x2a\x4d\x18\x04\0\0"[..],
        b"\x50\x2a\x4d\x18\x04\0\0\0\x12",
    ] {
        let error = read(skipped).unwrap_err().to_string();
        assert!(error.contains("cut before its end"), "{error}");
    }
}

/// One byte at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let bytes = into.len().min(1);
        self.0.read(&mut into[..bytes])
    }
}

#[test]
fn only_both_magic_bytes_make_another_gzip_member() {
    let gzip = PACKED[0];
    for (behind, lines) in [
        (&b"abc"[..], Some(20)),
        (b"\x1fabc", Some(20)),
        (b"\x1f\x1f\x8b", Some(20)),
        (b"\0\0\0", Some(20)),
        (gzip, Some(40)),
        (b"\x1f", None),
        (b"\x1f\x8b", None),
    ] {
        let all = [gzip, behind].concat();
        for found in [read(&all[..]), read(Trickle(&all))] {
            match lines {
                Some(lines) => assert_eq!(found.unwrap().lines, lines, "{behind:?}"),
                None => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains("cut before its end"), "{behind:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_sleep_over_the_end_of_february_is_as_long_in_any_year() {
    let over = |before: &str, after: &str| {
        JOURNAL
            .replace("Dec 08 08:54:55", &format!("{before} 23:59:55"))
            .replace("Dec 08 09:00:00", &format!("{after} 00:05:00"))
    };
    for (before, after) in [
        ("Feb 28", "Mar 01"),
        ("Feb 28", "Feb 29"),
        ("Feb 29", "Mar  1"),
        ("Mar 31", "Apr 01"),
        ("Jan 31", "Feb 01"),
    ] {
        let found = log(&over(before, after));
        assert_eq!(found.left_out.clock_jumps, 0, "{before}");
        assert_eq!(found.cycles[0].asleep_us, Some(304_998_000), "{before}");
    }
    // An earlier file may have shown that the year has a 29 February.
    let folder = tempfile::tempdir().unwrap();
    let text = over("Feb 29", "Mar 01");
    let (first, second) = text.split_at(text.find("Mar").unwrap());
    let paths = ["syslog.1", "syslog"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], first).unwrap();
    std::fs::write(&paths[1], second).unwrap();
    let found = read_files(&paths).unwrap();
    assert_eq!(found.cycles[0].asleep_us, Some(304_998_000));
}

#[test]
fn a_sleep_over_new_year_has_its_length() {
    let found = log(&JOURNAL
        .replace("Dec 08 08:54:55", "Dec 31 23:54:55")
        .replace("Dec 08 09:00:00", "Jan  1 00:00:00"));
    assert_eq!(found.left_out.clock_jumps, 0);
    assert_eq!(found.left_out.late_stamps, 1);
    assert_eq!(found.cycles[0].asleep_us, Some(304_998_000));
    // By both clocks of each line: from the last line but one to the last, the kernel's advances by
    // 0.518 s, the other by 305 s.
    let both: String = TOOK
        .lines()
        .map(|line| {
            let stamp = match line.contains("suspend exit") {
                true => "Jan  1 00:00:00",
                false => "Dec 31 23:54:55",
            };
            format!("{stamp} host kernel: {line}\n")
        })
        .collect();
    let both = both.replace("101.000000", "101.500000");
    assert_eq!(log(&both).cycles[0].asleep_us, Some(304_482_000));
}

#[test]
fn a_log_of_only_hibernations_has_each_of_them_and_no_cycle() {
    const FREEZES: &str = "[   10.010000] Freezing user space processes\n\
        [   10.020000] Freezing user space processes completed (elapsed 0.010 seconds)\n\
        [   10.400000] PM: freeze of devices complete after 300.000 msecs\n";
    const ENTRY: &str = "[   10.000000] PM: hibernation: hibernation entry\n";
    const EXIT: &str = "[   19.000000] PM: hibernation: hibernation exit\n";
    for (text, count) in [
        (format!("{ENTRY}{FREEZES}{EXIT}"), 1),
        (format!("{ENTRY}{FREEZES}"), 1),
        // The log has no beginning.
        (format!("{FREEZES}{EXIT}"), 1),
        (FREEZES.to_owned(), 1),
        (EXIT.to_owned(), 1),
        (format!("{EXIT}{ENTRY}{EXIT}"), 2),
    ] {
        let found = log(&text);
        assert_eq!(found.left_out.hibernations, count, "{text}");
        assert_eq!(found.hibernations.len() as u64, count, "{text}");
        assert_eq!(found.cycles, []);
        assert!(found.or_no_suspend("dmesg".as_ref()).is_ok());
    }
}

#[test]
fn a_hibernation_that_spans_boots_is_counted_once() {
    // A serial console: the booting kernel reads the image, and the image's kernel continues.
    const ENTRY: &str = "[  100.000000] PM: hibernation: hibernation entry\n\
        [  100.100000] Freezing user space processes\n\
        [  102.000000] PM: hibernation: Creating image:\n";
    const BOOT: &str = "[    0.000000] Linux version 6.1.0-13-amd64\n";
    const READS: &str = "[    2.000000] PM: hibernation: resume from hibernation\n\
        [    2.010000] Freezing user space processes\n\
        [    2.020000] Freezing user space processes completed (elapsed 0.001 seconds)\n";
    const QUIESCES: &str = "[    9.000000] PM: quiesce of devices complete after 100.000 msecs\n";
    const EXIT: &str = "[  103.000000] PM: restore of devices complete after 300.000 msecs\n\
        [  103.400000] OOM killer enabled.\n\
        [  103.410000] Restarting tasks ... done.\n\
        [  103.500000] PM: hibernation: hibernation exit\n";
    let later = TOOK.replace("[  10", "[  20");
    for (text, count) in [
        (format!("{ENTRY}{BOOT}{EXIT}"), 1),
        (format!("{ENTRY}{BOOT}{READS}{EXIT}"), 1),
        (format!("{ENTRY}{BOOT}{READS}{QUIESCES}{EXIT}"), 1),
        // The log starts within it.
        (format!("{BOOT}{READS}{QUIESCES}{EXIT}"), 1),
        (format!("{BOOT}{READS}{EXIT}"), 1),
        (format!("{ENTRY}{BOOT}{EXIT}{EXIT}"), 2),
        (format!("{ENTRY}{BOOT}{EXIT}{ENTRY}{BOOT}{EXIT}"), 2),
        // There was no image to read.
        (format!("{ENTRY}{BOOT}{later}{EXIT}"), 2),
    ] {
        let found = log(&text);
        assert_eq!(found.left_out.hibernations, count, "{text}");
        assert_eq!(found.hibernations.len() as u64, count, "{text}");
        let suspends = usize::from(text.contains(&later));
        assert_eq!(found.cycles.len(), suspends, "{text}");
    }
}

#[test]
fn zeros_of_a_serial_logger_do_not_disturb_a_meter_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meter.csv");
    let rows: String = (0..30).map(|second| format!("{second},130\n")).collect();
    let whole = format!("time_s,power_w\n{rows}");
    let open = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Meter::open(&path)
    };
    let expected = open(&whole).unwrap();
    assert_eq!(open(&format!("\0{whole}")).unwrap(), expected);
    assert_eq!(open(&whole.replace("\n9,", "\n\x009,")).unwrap(), expected);
    // A file of a few lines may have DOS line ends.
    let short = "time_s,power_w\n0,1\n1,2\n";
    assert_eq!(open(&format!("{short}\0")).unwrap(), open(short).unwrap());
    let error = open(&"\0".repeat(100)).unwrap_err().to_string();
    assert!(error.ends_with("it is not text"), "{error}");
}

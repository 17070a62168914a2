//! Several cycles and boots, jumping clocks, failed suspends, incomplete pairs.

use super::super::reader::read_all;
use super::*;

pub(super) fn moved(text: &str, by: &str) -> String {
    text.replace("[   10.", &format!("[   {by}."))
}

#[test]
fn cycles_and_boots_are_separate() {
    let boot = "[    0.000000] Linux version 6.12.9 (gcc)\n[    0.100000] smpboot: Booting Node 0 Processor 1 APIC 0x1\n";
    let text = format!(
        "{TODAY}{}{boot}{}{}",
        moved(TODAY, "20"),
        moved(TODAY, "15"),
        moved(TODAY, "30")
    );
    let found = log(&text);
    assert_eq!(found.left_out, LeftOut::default());
    let starts: Vec<_> = found
        .cycles
        .iter()
        .map(|cycle| (cycle.number, cycle.stages[0].start))
        .collect();
    assert_eq!(
        starts,
        [
            (1, 10_000_000),
            (2, 20_000_000),
            (3, 15_000_000),
            (4, 30_000_000)
        ]
    );
    assert!(
        found
            .cycles
            .iter()
            .all(|cycle| stages(cycle).len() == 14 && !cycle.cut)
    );
    // A machine that did not return: the next boot is not its resume.
    let lost = &TODAY[..TODAY.find("[   10.006500]").unwrap()];
    for next in [
        format!("{boot}{}", moved(TODAY, "15")),
        moved(TODAY, "05"),
        moved(TODAY, "99"),
    ] {
        let found = log(&format!("{lost}{next}"));
        assert_eq!(found.cycles.len(), 2);
        assert!(found.cycles[0].cut);
        assert_eq!(stages(&found.cycles[0]), expected_stages(0)[..7]);
        assert!(!found.cycles[1].cut);
        assert_eq!(found.cycles[1].stages.len(), 14);
    }
}

#[test]
fn a_clock_that_restarts_in_sleep_does_not_split_the_cycle() {
    let (down, up) = TODAY.split_at(TODAY.find("[   10.006500]").unwrap());
    let found = log(&format!("{down}{}", moved(up, "02")));
    assert_eq!(found.left_out.clock_jumps, 1);
    assert_eq!(found.cycles.len(), 1);
    // The firmware time is unknown; the rest is unchanged.
    let lasted = |cycle: &Cycle| -> Vec<_> {
        stages(cycle)
            .iter()
            .map(|&(kind, start, end)| (kind, end - start))
            .collect()
    };
    let mut expected = lasted(&one(TODAY));
    expected.remove(7);
    assert_eq!(lasted(&found.cycles[0]), expected);
}

#[test]
fn a_wall_clock_set_while_devices_resume_is_counted() {
    for minute in ["10", "30"] {
        let text = in_form(|stamp, message, _| {
            let (seconds, fraction) = stamp.split_once('.').unwrap();
            let minute = if stamp < "10.309500" { "20" } else { "MM" };
            format!("2026-11-21T18:{minute}:{seconds}.{fraction}+00:00 host kernel: {message}")
        });
        let log = log(&text.replace("MM", minute));
        assert_eq!(log.left_out.clock_jumps, 1);
        assert_eq!(log.cycles.len(), 1);
        assert_eq!(log.cycles[0].stages.len(), 14);
        let lasted = |cycle: &Cycle| -> Vec<Us> {
            let stages = stages(cycle).into_iter();
            stages.map(|(_, start, end)| end - start).collect()
        };
        let (found, plain) = (lasted(&log.cycles[0]), lasted(&one(TODAY)));
        // No time passes at the jump, from 10.0096 to 10.3095 s: the remainder of 300 ms counts
        // from the end of the previous stage, 10.0093 s.
        assert_eq!((found[11], plain[11]), (400, 300_250));
        let others = |lasted: &[Us]| [&lasted[..11], &lasted[12..]].concat();
        assert_eq!(others(&found), others(&plain));
        assert_eq!(found[13], 1100);
    }
}

#[test]
fn a_failed_suspend_is_a_cycle_with_its_failure_and_its_resume() {
    let text = "\
[   10.000000] PM: suspend entry (deep)
[   10.003000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)
[   10.003150] printk: Suspending console(s) (use no_console_suspend to debug)
[   10.004100] usb usb1: PM: calling usb_dev_suspend+0x0/0x20 @ 31, parent: none
[   10.004200] usb usb1: PM: usb_dev_suspend+0x0/0x20 returned 0 after 42 usecs
[   10.004250] nvme 0000:01:00.0: PM: calling pci_pm_suspend+0x0/0x170 @ 203, parent: none
[   10.004300] nvme 0000:01:00.0: PM: pci_pm_suspend(): nvme_suspend+0x0/0x1a0 [nvme] returns -16
[   10.004310] nvme 0000:01:00.0: PM: pci_pm_suspend+0x0/0x170 returned -16 after 52 usecs
[   10.004320] nvme 0000:01:00.0: PM: failed to suspend: error -16
[   10.004400] PM: suspend of devices aborted after 0.400 msecs
[   10.004410] PM: start suspend of devices aborted after 1.000 msecs
[   10.004420] PM: Some devices failed to suspend, or early wake event detected
[   10.005000] usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 31, parent: none
[   10.006000] usb usb1: PM: usb_dev_resume+0x0/0x20 returned 0 after 990 usecs
[   10.006100] PM: resume of devices complete after 1.200 msecs
[   10.006200] OOM killer enabled.
[   10.006300] Restarting tasks ... done.
[   10.007000] PM: suspend exit
";
    let expected = [
        (K::Prepare, 10_003_410, 10_004_000),
        (K::Suspend, 10_004_000, 10_004_400),
        (K::Resume, 10_004_900, 10_006_100),
        (K::Complete, 10_006_100, 10_006_200),
    ];
    let cycle = one(text);
    assert_eq!(stages(&cycle), expected);
    assert!(!cycle.cut);
    let failures: Vec<_> = cycle
        .failures
        .iter()
        .map(|failure| {
            (
                failure.at,
                failure.device.as_deref(),
                failure.stage,
                &*failure.message,
            )
        })
        .collect();
    let nvme = Some("0000:01:00.0");
    assert_eq!(
        failures,
        [
            (
                10_004_300,
                nvme,
                Some(K::Suspend),
                "pci_pm_suspend(): nvme_suspend+0x0/0x1a0 [nvme] returns -16"
            ),
            (
                10_004_320,
                nvme,
                Some(K::Suspend),
                "failed to suspend: error -16"
            ),
            (
                10_004_420,
                None,
                Some(K::Suspend),
                "Some devices failed to suspend, or early wake event detected"
            ),
        ]
    );
    assert_eq!(call(&cycle, "0000:01:00.0", K::Suspend).result, Some(-16));
    assert_eq!(call(&cycle, "usb1", K::Resume).start, Some(10_005_000));
    // Up to 4.15 only the last of these lines is evidence.
    let old: String = text
        .lines()
        .filter(|line| !line.contains("aborted") && !line.contains("resume of devices"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let cycle = one(&old);
    assert_eq!(call(&cycle, "usb1", K::Resume).start, Some(10_005_000));
    assert_eq!(stages(&cycle)[0], (K::Suspend, 10_004_100, 10_004_310));
}

#[test]
fn a_stage_that_rolls_back_before_its_message_ends_where_the_resume_starts() {
    let text = "\
[   10.000000] PM: suspend entry (deep)
[   10.004000] PM: suspend of devices complete after 0.900 msecs
[   10.005000] PM: early resume of devices complete after 0.300 msecs
[   10.005100] PM: late suspend of devices aborted after 0.800 msecs
[   10.005200] PM: late suspend of devices failed
[   10.006000] PM: resume of devices complete after 0.500 msecs
[   10.006200] OOM killer enabled.
[   10.007000] PM: suspend exit
";
    let cycle = one(text);
    assert_eq!(
        stages(&cycle)[1..],
        [
            (K::SuspendLate, 10_004_300, 10_004_700),
            (K::ResumeEarly, 10_004_700, 10_005_000),
            (K::Resume, 10_005_500, 10_006_000),
            (K::Complete, 10_006_000, 10_006_200),
        ]
    );
    assert_eq!(cycle.failures[0].stage, Some(K::SuspendLate));
}

#[test]
fn tasks_that_do_not_freeze_give_a_cycle_of_freezing_and_thawing() {
    let cycle = one("\
[   10.000000] PM: suspend entry (deep)
[   10.001000] Freezing user space processes
[   30.010000] Freezing user space processes failed after 20.009 seconds (1 tasks refusing to freeze, wq_busy=0):
[   30.010100] task:fuse state:D stack:0 pid:1234
[   30.011000] OOM killer enabled.
[   30.011100] Restarting tasks ... done.
[   30.012000] PM: suspend exit
");
    assert_eq!(stages(&cycle), [(K::Freeze, 10_001_000, 30_010_000)]);
    assert_eq!(cycle.failures.len(), 1);
    assert_eq!(cycle.failures[0].stage, Some(K::Freeze));
    assert!(!cycle.cut);
}

#[test]
fn a_watchdogs_message_ends_a_cycle_that_never_resumed() {
    let cycle = one("\
[  100.000000] PM: suspend entry (deep)
[  101.000000] i915 0000:00:02.0: PM: calling pci_pm_suspend+0x0/0x170 @ 203, parent: none
[  221.000000] i915 0000:00:02.0: PM: **** DPM device timeout ****
[  221.000100] Kernel panic - not syncing: i915 0000:00:02.0: unrecoverable failure
");
    assert!(cycle.cut);
    assert_eq!(cycle.failures.len(), 2);
    assert_eq!(cycle.failures[0].device.as_deref(), Some("0000:00:02.0"));
    assert_eq!(call(&cycle, "0000:00:02.0", K::Suspend).end, None);
}

#[test]
fn in_suspend_to_idle_the_time_asleep_is_between_the_kernels_markers_despite_wakes() {
    let cycle = one("\
[   10.000000] PM: suspend entry (s2idle)
[   10.003000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)
[   10.004000] PM: suspend of devices complete after 0.900 msecs
[   10.004500] PM: late suspend of devices complete after 0.400 msecs
[   10.005000] PM: noirq suspend of devices complete after 0.400 msecs
[   10.005100] PM: suspend-to-idle
[   10.005200] PM: Timekeeping suspended for 2.000 seconds
[   10.005300] ACPI: EC: noise
[   10.005400] PM: Timekeeping suspended for 3.500 seconds
[   10.005500] PM: resume from suspend-to-idle
[   10.006000] PM: noirq resume of devices complete after 0.400 msecs
[   10.006500] PM: early resume of devices complete after 0.400 msecs
[   10.007000] PM: resume of devices complete after 0.400 msecs
[   10.008000] OOM killer enabled.
[   10.009000] PM: suspend exit
");
    assert_eq!(cycle.asleep_us, Some(5_500_000));
    assert_eq!(cycle.sleep.as_deref(), Some("s2idle"));
    let idle = cycle
        .stages
        .iter()
        .find(|stage| stage.kind == K::Idle)
        .unwrap();
    assert_eq!((idle.start, idle.end), (10_005_100, 10_005_500));
    assert!(cycle.cpus.is_empty());
}

#[test]
fn an_incomplete_pair_is_kept_and_counted() {
    let text: String = TODAY
        .lines()
        .filter(|line| {
            !line.contains("calling ata_port")
                && !line.contains("pci_pm_resume_early+0x0/0x40 returned")
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let log = log(&text);
    let ata = call(&log.cycles[0], "ata1", K::Resume);
    assert_eq!((ata.start, ata.end), (Some(10_009_510), Some(10_309_500)));
    assert_eq!((&ata.parent, ata.worker), (&None, None));
    let early = call(&log.cycles[0], "0000:00:02.0", K::ResumeEarly);
    assert_eq!(
        (early.start, early.end, early.result),
        (Some(10_009_200), None, None)
    );
    assert_eq!(
        log.left_out,
        LeftOut {
            returns_without_call: 1,
            calls_without_end: 1,
            ..LeftOut::default()
        }
    );
    // The kernel's old microseconds are 1024 ns.
    let old: String = OLD
        .lines()
        .filter(|line| !line.contains("calling  input2"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(
        call(&one(&old), "input2", K::Suspend).start,
        Some(30_163_481 - 2011 * 1024 / 1000)
    );
}

#[test]
fn a_return_before_its_call_belongs_to_the_call() {
    let mut lines: Vec<&str> = TODAY.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("calling pci_pm_suspend_late"))
        .unwrap();
    lines.swap(at, at + 1);
    let log = log(&lines.join("\n"));
    assert_eq!(log.cycles[0], one(TODAY));
    assert_eq!(log.left_out, LeftOut::default());
}

#[test]
fn other_kinds_of_sleep_are_skipped() {
    let disk = moved(TODAY, "20")
        .replace("suspend entry (deep)", "hibernation: hibernation entry")
        .replace("suspend exit", "hibernation: hibernation exit");
    let found = log(&format!("{disk}{}", moved(TODAY, "30")));
    assert_eq!(found.cycles.len(), 1);
    assert_eq!(found.left_out.hibernations, 1);
    // CPUs also go offline and online by hand; the kernel says `CPU1 is up` in a resume only.
    let found = log("[    5.000000] smpboot: CPU 1 is now offline\n\
         [    6.000000] smpboot: Booting Node 0 Processor 1 APIC 0x2\n");
    assert_eq!(found.cycles, []);
}

#[test]
fn a_log_that_is_repeated_is_read_once() {
    let syslog: String = TODAY
        .lines()
        .map(|line| format!("Nov 21 18:00:00 host kernel: {line}\n"))
        .collect();
    let log = read_all([TODAY.as_bytes(), syslog.as_bytes()]).unwrap();
    assert_eq!(log.cycles.len(), 1);
    assert_eq!(log.left_out.repeated_cycles, 1);
}

#[test]
fn a_log_without_a_suspend_is_reported_in_one_line() {
    let texts = [
        "",
        "[    1.000000] usb 1-1: hello\n",
        "PM: suspend entry (deep)\nPM: suspend exit\n",
        "03-12 10:11:12.355     0     0 I         : Freezing user space processes\n",
        "[    0.920000] pci 0000:00:1f.2: hash matches\n",
        "Sat 2026-11-21 18:00:00.900000 UTC [s=1;i=2]\n    _TRANSPORT=kernel\n    MESSAGE=PM: suspend \
         entry (deep)\n",
    ];
    let said = texts.map(|text| {
        let error = log(text)
            .or_no_suspend(Path::new("dmesg.txt"))
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n'));
        (format!("{text:?}"), error)
    });
    reveille_snapshot::snapshot!("unreadable", said);
    let error = read_files(&["/nonexistent/dmesg".into()])
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("/nonexistent/dmesg: "), "{error}");
}

#[test]
fn a_call_of_the_resume_continues_a_cycle_whose_clock_restarts() {
    let (down, up) = TODAY.split_at(TODAY.find("[   10.006500]").unwrap());
    // By more than the clocks of one machine differ.
    let down = moved(down, "40");
    let call = up.find("[   10.008000] ahci").unwrap();
    let found = log(&format!("{down}{}", moved(&up[call..], "02")));
    assert_eq!(found.cycles.len(), 1);
    assert_eq!(found.left_out.clock_jumps, 1);
    // One of a suspend does not.
    let suspend =
        "[    2.000000] usb usb1: PM: calling usb_dev_suspend+0x0/0x20 @ 31, parent: none\n";
    assert!(log(&format!("{down}{suspend}")).cycles[0].cut);
    assert_eq!(log(&format!("{down}{suspend}")).left_out.clock_jumps, 0);
}

#[test]
fn without_the_stages_times_a_calls_function_gives_its_stage() {
    let cycle = one("\
[   10.000000] PM: suspend entry (deep)
[   10.001000] usb usb1: PM: calling usb_dev_suspend+0x0/0x20 @ 31, parent: none
[   10.002000] usb usb1: PM: usb_dev_suspend+0x0/0x20 returned 0 after 990 usecs
[   10.003000] Disabling non-boot CPUs ...
[   10.004000] smpboot: CPU 1 is now offline
[   10.100000] Enabling non-boot CPUs ...
[   10.101000] CPU1 is up
[   10.102000] usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 31, parent: none
[   10.103000] usb usb1: PM: usb_dev_resume+0x0/0x20 returned 0 after 990 usecs
[   10.104000] Restarting tasks ... done.
[   10.105000] PM: suspend exit
");
    let kinds: Vec<StageKind> = cycle.calls.iter().map(|call| call.stage).collect();
    assert_eq!(kinds, [K::Suspend, K::Resume]);
}

#[test]
fn a_clock_that_continues_in_sleep_is_set_back_by_the_time_asleep() {
    let (down, up) = TODAY.split_at(TODAY.find("[   10.006500]").unwrap());
    let later = |line: &str| {
        let at: f64 = line[1..13].trim().parse().unwrap();
        format!("[{:12.6}]{}\n", at + 2.856, &line[14..])
    };
    let up: String = up.lines().map(later).collect();
    let cycle = one(&format!("{down}{up}"));
    assert_eq!(stages(&cycle), expected_stages(0));
    assert_eq!(cycle.asleep_us, Some(2_856_000));
}

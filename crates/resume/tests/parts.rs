//! The start and the end of a cycle, its parts if its kernel logs little, and failures in it.

use reveille_resume::analysis::{Analysis, Input, LinkKind, Machine, Question, Source, analyse};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::graph::Half;
use reveille_resume::times;
use reveille_resume::what_if::Change;

use crate::reading::{log, one};

fn lasted(cycle: &Cycle, kind: StageKind) -> Option<Us> {
    let stage = cycle.stages.iter().find(|stage| stage.kind == kind);
    stage.map(|stage| stage.end - stage.start)
}

fn analysis(text: &str, changes: Vec<Change>) -> Result<Analysis, String> {
    let input = Input {
        name: "log".to_owned(),
        source: Source::default(),
        cycles: log(text).cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    let question = Question {
        changes,
        ..Question::default()
    };
    analyse(vec![input], &question).map_err(|error| error.to_string())
}

fn machine(text: &str) -> Machine {
    analysis(text, Vec::new()).unwrap().machines.remove(0)
}

/// The stages of a resume of this many ms, starting at this second.
fn resume(at: u32, took: u32) -> String {
    let end = 100 + took;
    let line =
        |ms: u32, words: &str| format!("[{:5}.{:03}000] {words}\n", at + ms / 1000, ms % 1000);
    [
        line(0, "PM: noirq resume of devices complete after 5.000 msecs"),
        line(
            100,
            "PM: early resume of devices complete after 2.000 msecs",
        ),
        line(
            end,
            &format!("PM: resume of devices complete after {took}.000 msecs"),
        ),
    ]
    .concat()
}

#[test]
fn a_resume_after_another_ones_thawing_is_separate() {
    let cpus = "[   49.900000] Enabling non-boot CPUs ...\n[   49.910000] CPU1 is up\n";
    let call = "[   49.990000] pci 0:1: PM: calling pci_pm_resume_noirq+0x0/0x9 @ 31, parent: none\n\
                [   49.991000] pci 0:1: PM: pci_pm_resume_noirq+0x0/0x9 returned 0 after 900 usecs\n";
    for before in ["", cpus, call] {
        for thaw in ["[   11.500000] Restarting tasks ... done.\n", ""] {
            let text = resume(10, 900) + thaw + before + &resume(50, 1900) + &resume(90, 400);
            let found = log(&text);
            let resumes: Vec<_> = found
                .cycles
                .iter()
                .map(|one| lasted(one, StageKind::Resume))
                .collect();
            assert_eq!(
                resumes,
                [Some(900_000), Some(1_900_000), Some(400_000)],
                "{text}"
            );
            let second = &found.cycles[1];
            assert_eq!(second.cpus.len(), usize::from(before == cpus), "{text}");
            assert_eq!(second.calls.len(), usize::from(before == call), "{text}");
            assert_eq!(found.left_out.late_calls, 0);
        }
    }
    let suspend = |at: u32| {
        resume(at, 900)
            .replace("resume", "suspend")
            .replace("early", "late")
    };
    assert_eq!(
        log(&[suspend(10), suspend(50), suspend(90)].concat())
            .cycles
            .len(),
        3
    );
}

#[test]
fn a_repeated_stage_is_in_one_cycle() {
    let text = resume(10, 900);
    let twice: String = text
        .lines()
        .map(|line| format!("{line}\n{line}\n"))
        .collect();
    assert_eq!(one(&twice).stages, one(&text).stages);
    // For a device that continues while processes run: its stage started before.
    let late = "[   11.500000] Restarting tasks ... done.\n\
                [   11.600000] PM: resume of devices complete after 1500.000 msecs\n\
                [   11.700000] PM: suspend exit\n";
    let found = log(&(text.clone() + late));
    assert_eq!(found.cycles.len(), 1);
    assert_eq!(found.left_out.late_calls, 1, "it is counted");
    assert_eq!(lasted(&found.cycles[0], StageKind::Resume), Some(900_000));
}

/// Kernels without pm_debug_messages; a driver takes 65 s and fails.
const REFUSED: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.010000] Filesystems sync: 0.010 seconds
[  100.020000] Freezing user space processes
[  100.023500] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  100.023600] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.040000] mydrv 0000:04:00.0: waiting for firmware to stop
[  165.040000] mydrv 0000:04:00.0: PM: pci_pm_suspend(): mydrv_suspend [mydrv] returns -110
[  165.040010] mydrv 0000:04:00.0: PM: dpm_run_callback(): pci_pm_suspend returns -110
[  165.040020] mydrv 0000:04:00.0: PM: failed to suspend async: error -110
[  165.050000] PM: Some devices failed to suspend, or early wake event detected
[  165.300000] OOM killer enabled.
[  165.300100] Restarting tasks ... done.
[  165.310000] PM: suspend exit
";

#[test]
fn a_device_that_fails_to_suspend_keeps_its_time() {
    let quiet: String = REFUSED
        .lines()
        .filter(|line| !line.contains("Some devices"))
        .map(|line| format!("{line}\n"))
        .collect();
    for (text, us) in [(REFUSED, 65_050_000), (&quiet, 65_040_020)] {
        let cycle = one(text);
        let times = times::of(&cycle).unwrap();
        assert!(times.aborted);
        assert_eq!(times.suspend_us, Some(us));
        assert!(
            cycle
                .failures
                .iter()
                .all(|one| one.stage == Some(StageKind::Suspend))
        );
        let machine = machine(text);
        let path = &machine.shown().suspend_path;
        assert_eq!(path.iter().map(|link| link.duration_us).sum::<Us>(), us);
        let longest = path.iter().max_by_key(|link| link.duration_us).unwrap();
        assert_eq!(longest.duration_us, 65_000_000);
        assert_eq!(
            longest.message.as_deref(),
            Some("mydrv 0000:04:00.0: waiting for firmware to stop")
        );
        assert!(machine.shown().path.is_empty() && machine.removals.is_empty());
    }
}

#[test]
fn a_device_that_fails_to_resume_does_not_contradict_the_sleep() {
    let text = "\
[  100.000000] PM: suspend entry (s2idle)
[  100.020000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  100.022000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  100.023000] printk: Suspending console(s) (use no_console_suspend to debug)
[  101.000000] ACPI: EC: interrupt blocked
[ 3701.000000] ACPI: EC: interrupt unblocked
[ 3702.000000] amdgpu 0000:04:00.0: PM: dpm_run_callback(): pci_pm_resume returns -110
[ 3702.000000] amdgpu 0000:04:00.0: PM: failed to resume async: error -110
[ 3702.110000] Restarting tasks ... done.
[ 3702.120000] PM: suspend exit
";
    let cycle = one(text);
    let times = times::of(&cycle).unwrap();
    assert!(!times.aborted);
    assert_eq!(
        (times.suspend_us, times.resume_us),
        (None, None),
        "the place of the sleep is unknown"
    );
    assert!(
        cycle
            .failures
            .iter()
            .all(|one| one.stage == Some(StageKind::Resume))
    );
    // An ARM kernel logs nothing about the sleep except its CPUs' lines.
    let text = "\
[  100.000000] PM: suspend entry (deep)
[  100.013000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.113000] PM: suspend of devices complete after 99.000 msecs
[  100.115000] PM: late suspend of devices complete after 2.000 msecs
[  100.117000] PM: noirq suspend of devices complete after 2.000 msecs
[  100.118000] Disabling non-boot CPUs ...
[  101.119000] Enabling non-boot CPUs ...
[  101.129000] CPU1 is up
[  101.140000] PM: noirq resume of devices complete after 9.000 msecs
[  101.150000] PM: early resume of devices complete after 9.000 msecs
[  101.250000] PM: resume of devices complete after 99.000 msecs
[  101.350000] usb 1-1: PM: failed to resume async: error -19
[  101.460000] PM: suspend exit
";
    let cycle = one(text);
    let times = times::of(&cycle).unwrap();
    assert_eq!((times.aborted, times.suspend_us), (false, Some(118_000)));
    assert_eq!(
        cycle.failures[0].stage,
        Some(StageKind::Resume),
        "a device fails in no other"
    );
}

#[test]
fn the_path_of_a_suspend_ends_at_the_kernels_last_message() {
    // Entering s2idle takes 3 s after the last stage; a log has no line of the devices' stages or
    // of the CPUs; it is woken before its devices sleep.
    let entry = "\
[  100.000000] PM: suspend entry (s2idle)
[  100.012000] Freezing user space processes completed (elapsed 0.002 seconds)
[  100.013000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.213000] PM: suspend of devices complete after 200.000 msecs
[  100.217000] PM: noirq suspend of devices complete after 2.000 msecs
[  100.218000] ACPI: lps0 entry
[  103.218000] PM: suspend-to-idle
[  113.300000] PM: resume from suspend-to-idle
[  113.400000] PM: noirq resume of devices complete after 90.000 msecs
[  114.500000] PM: resume of devices complete after 990.000 msecs
[  114.650000] PM: suspend exit
";
    let quiet = "\
[  100.000000] PM: suspend entry (deep)
[  100.020000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  100.022200] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  100.023600] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.040000] ACPI: lps0 entry
[  165.040000] Disabling non-boot CPUs ...
[  165.060000] Enabling non-boot CPUs ...
[  165.070000] CPU1 is up
[  165.300100] Restarting tasks ... done.
[  165.310000] PM: suspend exit
";
    for (text, suspend, silence) in [
        (entry, 3_218_000, 3_000_000),
        (quiet, 65_040_000, 65_000_000),
    ] {
        let machine = machine(text);
        let cycle = machine.shown();
        assert_eq!(cycle.suspend_us, Some(suspend));
        let path = &cycle.suspend_path;
        assert_eq!(
            path.iter().map(|link| link.duration_us).sum::<Us>(),
            suspend,
            "{path:#?}"
        );
        let longest = path.iter().max_by_key(|link| link.duration_us).unwrap();
        assert_eq!(longest.what, LinkKind::Silence);
        assert_eq!(longest.duration_us, silence);
        assert_eq!(longest.message.as_deref(), Some("ACPI: lps0 entry"));
        for half in [Half::Suspend, Half::Resume] {
            let path = cycle.path_of(half);
            let ends = path.iter().map(|link| link.start_us + link.duration_us);
            let begins = path.iter().skip(1).map(|link| link.start_us);
            assert!(
                ends.zip(begins).all(|(end, begin)| end == begin),
                "{path:#?}"
            );
        }
    }
}

/// A complete cycle with a device that takes 900 ms, and one without a resuming device.
const WHOLE: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.012000] Freezing user space processes completed (elapsed 0.002 seconds)
[  100.013000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.014000] sd 0:0:0:0: PM: calling scsi_bus_suspend @ 100, parent: target0:0:0
[  100.013950] sd 0:0:0:0: PM: scsi_bus_suspend returned 0 after 12 usecs
[  100.216000] PM: suspend of devices complete after 202.000 msecs
[  100.220000] PM: noirq suspend of devices complete after 2.000 msecs
[  100.221000] ACPI: PM: Preparing to enter system sleep state S3
[  100.246000] ACPI: PM: Waking up from system sleep state S3
[  100.254000] PM: noirq resume of devices complete after 4.000 msecs
[  100.255000] sd 0:0:0:0: PM: calling scsi_bus_resume @ 100, parent: target0:0:0
[  101.155000] sd 0:0:0:0: PM: scsi_bus_resume returned 0 after 900000 usecs
[  101.156000] PM: resume of devices complete after 902.000 msecs
[  101.158100] Restarting tasks ... done.
[  101.161100] PM: suspend exit
";

#[test]
fn a_failed_freeze_and_an_aborted_suspend_are_in_no_what_if_over_cycles() {
    let frozen = "\
[  300.000000] PM: suspend entry (deep)
[  300.011000] Freezing user space processes
[  320.011000] Freezing user space processes failed after 20.005 seconds (1 tasks refusing to freeze, wq_busy=0):
[  320.012200] Restarting tasks ... done.
[  320.013200] PM: suspend exit
";
    let second = WHOLE.replace("[  10", "[  20");
    let text = format!("{WHOLE}{second}{frozen}{}", REFUSED.replace("[  1", "[  4"));
    let found = analysis(&text, vec![Change::without("sd*").unwrap()]).unwrap();
    let machine = &found.machines[0];
    assert_eq!(machine.cycles.len(), 4);
    let all = machine.what_if.as_ref().unwrap().all_cycles_us.unwrap();
    assert_eq!((all.count, all.min), (2, all.max));
}

#[test]
fn a_call_that_returns_before_its_start_took_the_time_that_the_kernel_states() {
    let machine = machine(WHOLE);
    let call = &machine
        .shown()
        .calls
        .iter()
        .find(|one| one.call.stage == StageKind::Suspend);
    assert_eq!(call.unwrap().duration_us, Some(12));
    let stage = machine
        .shown()
        .stages
        .iter()
        .find(|one| one.stage == StageKind::Suspend);
    assert_eq!(stage.unwrap().calls_us, 12);
}

#[test]
fn a_cycle_with_stages_is_shown_if_none_has_a_resume() {
    let bare = "\
2024-09-20 20:39:41,992 DEBUG:\tPM: suspend entry (s2idle)
2024-09-20 20:39:41,992 DEBUG:\tPM: suspend exit
";
    let staged = "\
2024-09-20 20:49:41,992 DEBUG:\tPM: suspend entry (s2idle)
2024-09-20 20:49:41,992 DEBUG:\tPM: suspend of devices complete after 69.000 msecs
2024-09-20 20:49:41,992 DEBUG:\tTimekeeping suspended for 109.500 seconds
2024-09-20 20:49:41,992 DEBUG:\tPM: noirq resume of devices complete after 25.000 msecs
2024-09-20 20:49:41,992 DEBUG:\tPM: resume of devices complete after 2800.000 msecs
2024-09-20 20:49:41,992 DEBUG:\tPM: suspend exit
";
    let stamped = "\
[  100.000000] PM: suspend entry (s2idle)
[  100.012000] Freezing user space processes completed (elapsed 0.002 seconds)
[  160.013000] Restarting tasks ... done.
[  160.161100] PM: suspend exit
";
    for text in [
        format!("{stamped}{bare}{staged}"),
        format!("{staged}{stamped}"),
    ] {
        let machine = machine(&text);
        let shown = &machine.shown().stages;
        assert!(
            shown.iter().any(|one| one.stage == StageKind::Resume),
            "{shown:?}"
        );
        assert!(
            machine
                .stages
                .iter()
                .any(|one| one.stage == StageKind::Resume)
        );
    }
}

#[test]
fn a_log_of_only_short_cycles_is_kept_up_to_a_limit() {
    let mut text = String::new();
    for cycle in 0..8_000_u64 {
        text += &format!("[{:8}.000000] PM: suspend entry (deep)\n", cycle * 10);
        text += &format!(
            "[{:8}.000500] PM: Wakeup pending, aborting suspend\n",
            cycle * 10
        )
        .repeat(10);
        for line in 1..=64 {
            text += &format!("[{:8}.{:06}] one of 64 words\n", cycle * 10, line * 6000);
        }
    }
    let found = log(&text);
    let gaps: usize = found.cycles.iter().map(|cycle| cycle.gaps.len()).sum();
    let failures: usize = found.cycles.iter().map(|cycle| cycle.failures.len()).sum();
    assert!((1..=200_000).contains(&gaps), "{gaps}");
    assert!((1..=20_000).contains(&failures), "{failures}");
    assert!(found.left_out.too_many > 0);
    let bare: String = (0..110_000)
        .map(|at| format!("[{at:8}.000000] PM: suspend entry (deep)\n"))
        .collect();
    let found = log(&bare);
    assert_eq!(found.cycles.len(), 100_000);
    assert_eq!(found.left_out.too_many, 10_000);
}

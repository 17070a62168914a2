//! Logs as people send them: cut, pasted twice, read by a logger, of old kernels, with failures only. What is
//! compared is the JSON.

use reveille_resume::analysis::{Analysis, Question, analyse, inputs};
use reveille_resume::show::sheet;
use reveille_show::text::Detail;
use serde_json::{Value, json};

/// The analysis of a log with this text.
pub fn analysis(text: &str) -> Result<Analysis, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    std::fs::write(&path, text).unwrap();
    let inputs = inputs(&[path], &[]).map_err(|error| error.to_string())?;
    analyse(inputs, &Question::default()).map_err(|error| error.to_string())
}

pub fn machine(text: &str) -> Value {
    let analysis = analysis(text).unwrap_or_else(|why| panic!("{why}"));
    serde_json::to_value(&analysis.machines[0]).unwrap()
}

/// Its cycles.
pub fn cycles(text: &str) -> Vec<Value> {
    machine(text)["cycles"].as_array().unwrap().clone()
}

pub fn one(text: &str) -> Value {
    let mut cycles = cycles(text);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    cycles.remove(0)
}

/// These fields of a cycle.
pub fn fields(cycle: &Value, names: &[&str]) -> Value {
    names.iter().map(|&name| cycle[name].clone()).collect()
}

/// Suspend, time asleep and resume, µs.
fn times(cycle: &Value) -> Value {
    fields(cycle, &["suspend_us", "asleep_us", "resume_us"])
}

/// Each stage with its length.
pub fn stages(cycle: &Value) -> Value {
    let stages = cycle["stages"].as_array().unwrap().iter();
    stages
        .map(|stage| json!([stage["stage"], stage["duration_us"]]))
        .collect()
}

pub fn failed(text: &str) -> Vec<(&'static str, String)> {
    let failed = analysis(text).unwrap().machines[0].failed();
    failed.into_iter().map(|one| (one.how, one.what)).collect()
}

pub fn fact(text: &str, name: &str) -> Option<String> {
    let analysis = analysis(text).unwrap();
    let facts = sheet(&analysis, None).facts;
    let mut found = facts.into_iter().filter(|(one, _)| *one == name);
    found.next().map(|(_, words)| words)
}

/// A suspend to memory: file systems are synced in 40 ms, notifiers take 10, freezing 6, devices 200, the CPU 2;
/// then the CPU 2, devices 300, thawing 4, notifiers 50.
const MEM: &str = "\
[  500.000000] PM: suspend entry (deep)
[  500.040000] Filesystems sync: 0.040 seconds
[  500.050000] Freezing user space processes
[  500.053000] Freezing user space processes completed (elapsed 0.002 seconds)
[  500.053100] OOM killer disabled.
[  500.053200] Freezing remaining freezable tasks
[  500.056000] Freezing remaining freezable tasks completed (elapsed 0.002 seconds)
[  500.056100] printk: Suspending console(s) (use no_console_suspend to debug)
[  500.260000] PM: suspend devices took 0.200 seconds
[  500.261000] ACPI: PM: Preparing to enter system sleep state S3
[  500.262000] Disabling non-boot CPUs ...
[  500.264000] smpboot: CPU 1 is now offline
[  500.265000] ACPI: PM: Low-level resume complete
[  500.266000] Enabling non-boot CPUs ...
[  500.268000] CPU1 is up
[  500.269000] ACPI: PM: Waking up from system sleep state S3
[  500.570000] PM: resume devices took 0.300 seconds
[  500.571000] OOM killer enabled.
[  500.572000] Restarting tasks: Starting
[  500.575000] Restarting tasks: Done
[  500.625000] PM: suspend exit
";

/// With the lines that contain one of these words only.
fn only(text: &str, words: &[&str]) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| words.iter().any(|word| line.contains(word)));
    lines.map(|line| format!("{line}\n")).collect()
}

/// All stamps later by so many seconds.
fn later(text: &str, seconds: f64) -> String {
    let line = |line: &str| {
        let at: f64 = line[1..13].trim().parse().unwrap();
        format!("[{:12.6}]{}\n", at + seconds, &line[14..])
    };
    text.lines().map(line).collect()
}

#[test]
fn sync_freezing_thawing_and_notifiers_are_apart() {
    let cycle = one(MEM);
    assert_eq!(times(&cycle), json!([264_000, null, 360_000]));
    assert_eq!(
        stages(&cycle),
        json!([
            ["sync", 40_000],
            ["freeze", 6_000],
            ["prepare", 3_900],
            ["suspend", 200_000],
            ["cpus_off", 2_000],
            ["platform", 1_000],
            ["cpus_on", 2_000],
            ["resume", 300_000],
            ["thaw", 4_000]
        ])
    );
    // The notifiers are pieces of the paths, which add up to the whole.
    for (path, piece) in [("suspend_path", 10_000), ("path", 50_000)] {
        let path = cycle[path].as_array().unwrap();
        assert!(
            path.iter().any(|link| link["duration_us"] == piece),
            "{path:?}"
        );
    }
    // To 6.15 one line has the beginning of thawing only, and the time until the exit is no stage.
    let old = MEM.replace("tasks: Starting", "tasks ... done.");
    let old = only(
        &old,
        &[
            "[  500.0", "[  500.2", "500.570", "500.571", "500.572", "exit",
        ],
    );
    let cycle = one(&old);
    assert_eq!(cycle["resume_us"], 360_000);
    let kinds = cycle["stages"].as_array().unwrap().iter();
    assert!(kinds.clone().all(|stage| stage["stage"] != "thaw"));
}

#[test]
fn a_trace_has_the_sync_as_a_stage_of_its_own() {
    let event = |at: &str, what: &str| format!("  sh-9 [000] ..... {at}: suspend_resume: {what}\n");
    let text = [
        ("70.000000", "suspend_enter[3] begin"),
        ("70.000010", "sync_filesystems[0] begin"),
        ("72.000010", "sync_filesystems[0] end"),
        ("72.500000", "freeze_processes[0] begin"),
        ("72.503000", "freeze_processes[0] end"),
        ("72.504000", "dpm_suspend[2] begin"),
        ("72.604000", "dpm_suspend[2] end"),
        ("72.605000", "machine_suspend[3] begin"),
        ("72.606000", "machine_suspend[3] end"),
        ("72.700000", "thaw_processes[0] begin"),
        ("72.709000", "thaw_processes[0] end"),
    ];
    let text: String = text.map(|(at, what)| event(at, what)).concat();
    let found = stages(&one(&text));
    let expected = json!([
        ["sync", 2_000_000],
        ["freeze", 3_000],
        ["suspend", 100_000],
        ["platform", 1_000],
        ["thaw", 9_000]
    ]);
    assert_eq!(found, expected);
}

#[test]
fn a_stage_with_an_end_only_does_not_get_the_rest_of_its_half() {
    let failed = "\
[   60.000000] PM: suspend entry (deep)
[   60.001000] Freezing user space processes
[   60.003000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[   60.003100] printk: Suspending console(s) (use no_console_suspend to debug)
[   67.000000] foo 1-1: PM: dpm_run_callback(): foo_suspend_noirq returns -5
[   67.000100] foo 1-1: PM: failed to suspend noirq: error -5
[   67.010000] PM: noirq suspend of devices failed
[   67.100000] OOM killer enabled.
[   67.101000] PM: suspend exit
";
    let cycle = one(failed);
    assert_eq!(stages(&cycle), json!([["freeze", 2_000]]));
    assert_eq!(cycle["suspend_us"], 7_010_000);
    let excerpt = "\
[   60.000000] PM: suspend entry (s2idle)
[   90.000000] PM: resume from suspend-to-idle
[   90.300000] PM: noirq resume of devices complete after 300.000 msecs
[   93.300000] PM: suspend exit
";
    let cycle = one(excerpt);
    assert_eq!(stages(&cycle), json!([["resume_noirq", 300_000]]));
    assert_eq!(cycle["resume_us"], 3_300_000);
}

#[test]
fn each_entry_begins_a_cycle_whatever_stands_before_it() {
    let stray = "[    3.000000] Freezing user space processes ... (elapsed 0.001 seconds) done.\n";
    let both = cycles(&format!("{stray}{MEM}"));
    assert_eq!(times(&both[1]), times(&one(MEM)));
    let refused = "\
[  500.000000] PM: suspend entry (deep)
[  520.000000] Freezing of tasks failed after 19.990 seconds (2 tasks refusing to freeze, wq_busy=0):
";
    let both = cycles(&format!("{stray}{refused}"));
    assert_eq!(both[1]["suspend_us"], 20_000_000);
}

#[test]
fn a_suspend_after_a_resume_in_lines_of_ends_is_another_cycle() {
    let cycle = |at: u32, device: &str| {
        let ends = ["suspend", "suspend_noirq", "resume_noirq", "resume"];
        let line = |(place, name): (usize, &str)| {
            format!(
                "[  {at}.{place}00000] ahci {device}: pci_pm_{name}+0x0/0x1 returned 0 after 7000 usecs\n"
            )
        };
        ends.into_iter().enumerate().map(line).collect::<String>()
    };
    for device in ["0000:00:02.0", "0000:00:03.0"] {
        let found = cycles(&(cycle(200, "0000:00:02.0") + &cycle(300, device)));
        assert_eq!(found.len(), 2, "{device}");
        let expected = json!([
            ["suspend", 7_000],
            ["suspend_noirq", 7_000],
            ["resume_noirq", 7_000],
            ["resume", 7_000]
        ]);
        // The calls are its stages.
        let calls = |one: &Value| -> Value {
            let calls = one["calls"].as_array().unwrap().iter();
            calls
                .map(|call| json!([call["stage"], call["duration_us"]]))
                .collect()
        };
        assert_eq!(
            (calls(&found[0]), calls(&found[1])),
            (expected.clone(), expected)
        );
    }
}

#[test]
fn a_suspend_that_never_freezes_is_a_failure() {
    let stalled = "\
[  900.000000] PM: suspend entry (deep)
[  900.001000] Filesystems sync: 0.001 seconds
[  950.000000] loop1: detected capacity change from 0 to 4
";
    let found = failed(&format!("{MEM}{stalled}"));
    assert_eq!(found.len(), 1, "{found:?}");
    for fact in ["900.000", "50 s", "Filesystems sync"] {
        assert!(found[0].1.contains(fact), "{found:?}");
    }
    // An entry that other messages follow for a moment is a log that is cut.
    assert_eq!(failed(&stalled.replace("950.000000", "900.500000")), []);
}

#[test]
fn failures_without_the_beginning_of_their_suspend_are_a_cycle_that_is_cut() {
    let device = "\
[   20.000000] port serial8250.0:0.1: PM: dpm_run_callback(): serial_suspend+0x0/0x120 returns -16
[   20.000010] port serial8250.0:0.1: PM: failed to suspend: error -16
[   20.100000] PM: Some devices failed to suspend, or early wake event detected
";
    let noirq = "\
[   20.000000] ACPI: EC: interrupt blocked
[   20.300000] gpu 0000:03:00.0: PM: pci_pm_suspend_noirq(): gpu_suspend_noirq+0x0/0x40 [gpu] returns -22
[   20.300100] gpu 0000:03:00.0: PM: dpm_run_callback(): pci_pm_suspend_noirq+0x0/0x2a0 returns -22
[   20.300200] gpu 0000:03:00.0: PM: failed to suspend async: error -22
[   20.400000] PM: noirq suspend of devices failed
";
    for (text, device, stage) in [
        (device, "serial8250.0:0.1", "suspend"),
        (noirq, "0000:03:00.0", "suspend_noirq"),
    ] {
        let cycle = one(text);
        let known = fields(&cycle, &["cut", "aborted", "suspend_us", "resume_us"]);
        assert_eq!(known, json!([true, true, null, null]), "{device}");
        let failures = cycle["failures"].as_array().unwrap();
        assert!(
            failures.iter().all(|one| one["stage"] == stage),
            "{failures:?}"
        );
        assert_eq!(failures[0]["device"], device);
        // The next suspend is another cycle.
        assert_eq!(cycles(&format!("{text}{MEM}")).len(), 2);
    }
}

#[test]
fn one_failure_is_one_line_and_counted_over_the_cycles() {
    let cycle = "\
[   20.000000] PM: suspend entry (deep)
[   20.001000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[   20.300000] gpu 0000:03:00.0: PM: dpm_run_callback(): genpd_suspend_noirq returns -110
[   20.300100] gpu 0000:03:00.0: PM: failed to suspend noirq: error -110
[   20.400000] PM: noirq suspend of devices failed
[   20.500000] PM: suspend exit
";
    let found = failed(cycle);
    assert_eq!(found.len(), 1, "{found:?}");
    for fact in ["0000:03:00.0", "genpd_suspend_noirq", "-110", "noirq"] {
        assert!(found[0].1.contains(fact), "{found:?}");
    }
    assert_eq!(failed(&(cycle.to_owned() + &later(cycle, 50.0))).len(), 1);
    // Two devices fail twice.
    let two = cycle.replace(
        "[   20.400000]",
        "[   20.300200] net 1-1: PM: failed to suspend: error -5\n[   20.400000]",
    );
    assert_eq!(failed(&two).len(), 2);
}

/// Of the lines of one failure, each in a log of its own: the first facts are there, the last one is not.
#[test]
fn a_failure_has_its_driver_its_callback_and_its_cause() {
    let cases: [(&str, &[&str], &str); 9] = [
        (
            "[   20.301000] xhci_hcd 0000:0c:00.3: PM: pci_pm_suspend(): hcd_pci_suspend returns -16\n\
             [   20.302000] xhci_hcd 0000:0c:00.3: PM: dpm_run_callback(): pci_pm_suspend returns -16\n\
             [   20.303000] xhci_hcd 0000:0c:00.3: PM: failed to suspend async: error -16",
            &["0000:0c:00.3 (xhci_hcd)", "hcd_pci_suspend returned -16"],
            " pci_pm_suspend",
        ),
        (
            "[   20.301000] PM: dpm_run_callback(): usb_dev_suspend+0x0/0x20 returns -110\n\
             [   20.302000] PM: Device 3-1 failed to suspend async: error -110",
            &["3-1: usb_dev_suspend returned -110"],
            "Device",
        ),
        (
            "[   20.301000] mmcblk mmc0:0001: PM: not prepared for power transition: code -16\n\
             [   20.302000] PM: Some devices failed to suspend, or early wake event detected",
            &["mmc0:0001 (mmcblk)", "-16", "(prepare)"],
            "early",
        ),
        (
            "[   20.301000] pci_device_suspend(): ohci_pci_suspend+0x0/0x20 [ohci_hcd] returns -16\n\
             [   20.302000] suspend_device(): pci_device_suspend+0x0/0x61 returns -16\n\
             [   20.303000] Could not suspend device 0000:00:02.0: error -16\n\
             [   20.304000] Some devices failed to suspend",
            &["0000:00:02.0: ohci_pci_suspend returned -16"],
            "Some",
        ),
        (
            "[   20.301000] PM: Wakeup pending, aborting suspend\n\
             [   20.302000] PM: active wakeup source: PNP0C0A:00\n\
             [   20.303000] PM: Wakeup pending, aborting suspend\n\
             [   20.304000] PM: noirq suspend of devices failed",
            &["Wakeup pending", "PNP0C0A:00", "(suspend noirq)"],
            "of devices",
        ),
        (
            "[   20.301000] PM: PM: Pending Wakeup Sources: [timerfd]\n\
             [   20.302000] Abort: Pending Wakeup Sources: [timerfd]",
            &["[timerfd]"],
            "Abort",
        ),
        (
            "[   20.301000] Disabling non-boot CPUs ...\n\
             [   20.302000] Wakeup pending. Abort CPU freeze\n\
             [   20.303000] Non-boot CPUs are not disabled",
            &["Wakeup pending", "(CPUs off)"],
            "Non-boot",
        ),
        (
            "[   20.301000] BUG: kernel NULL pointer dereference, address: 00000000000001c8\n\
             [   20.302000] Oops: 0002 [#1] PREEMPT SMP NOPTI\n\
             [   20.303000] Kernel panic - not syncing: Fatal exception",
            &["NULL pointer"],
            "Oops",
        ),
        (
            "[   20.301000] amdgpu 0000:03:00.0: **** DPM device timeout ****\n\
             [   20.302000] Kernel panic - not syncing: amdgpu 0000:03:00.0: unrecoverable failure",
            &["0000:03:00.0 (amdgpu)", "timeout"],
            "panic",
        ),
    ];
    for (lines, facts, not) in cases {
        let log = format!(
            "[   20.000000] PM: suspend entry (deep)\n\
             [   20.001000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)\n\
             [   20.002000] Suspending console(s) (use no_console_suspend to debug)\n{lines}\n\
             [   20.500000] PM: suspend exit\n"
        );
        let found = failed(&log);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            facts.iter().all(|fact| found[0].1.contains(fact)),
            "{found:?}"
        );
        assert!(!found[0].1.contains(not), "{found:?}");
    }
}

/// What the answer is about, as JSON has it.
fn answer(text: &str) -> Value {
    machine(text)["answer"].clone()
}

#[test]
fn a_failure_is_what_the_answer_is_about() {
    let aborted = "[   20.000000] PM: suspend entry (s2idle)\n\
                   [   20.010000] Filesystems sync: 0.009 seconds\n\
                   [   20.300000] PM: Wakeup pending, aborting suspend\n\
                   [   20.300100] PM: active wakeup source: PNP0C0A:00\n\
                   [   20.900000] PM: resume of devices complete after 599.000 msecs\n\
                   [   20.910000] Restarting tasks ... done.\n\
                   [   20.920000] PM: suspend exit\n";
    let found = answer(aborted);
    let failed = found["failed"].as_str().unwrap();
    assert!(failed.contains("aborted") && failed.contains("PNP0C0A:00"));
    assert_eq!(found["half"], Value::Null);
    // Then the time of a suspend that succeeded, and of that alone.
    let slept = IDLE.to_owned() + aborted;
    let found = answer(&slept);
    assert!(found["failed"].as_str().unwrap().contains("cycle 2"));
    let time = fields(&found, &["half", "by_path", "stage"]);
    assert_eq!(time, json!(["resume", false, null]));
    assert_eq!(found["gap"]["end"], 321_300_000);
    // A device that fails to resume does not keep the machine from sleeping.
    let fails = "[  320.600000] amdgpu 0000:03:00.0: PM: failed to resume async: error -110\n";
    let resumes = IDLE.replace("[  321.300000]", &format!("{fails}[  321.300000]"));
    let found = answer(&resumes);
    assert!(!found["failed"].as_str().unwrap().contains("aborted"));
    assert_eq!(found["half"], "resume");
}

#[test]
fn a_long_silence_is_what_the_answer_is_about_where_the_path_has_little_of_it() {
    let silent = IDLE
        .split_inclusive('\n')
        .take(4)
        .chain([
            "[  301.000000] intel_pch_thermal 0000:00:12.0: CPU-PCH is cool [49C], continue to suspend\n",
            "[  531.000000] snd_hda_codec_realtek ehdaudio0D0: Unable to sync register\n",
            "[  532.000000] ACPI: EC: interrupt blocked\n",
        ]);
    let found = answer(&String::from_iter(silent));
    assert_eq!(found["failed"], Value::Null);
    let time = fields(&found, &["half", "by_path", "stage"]);
    assert_eq!(time, json!(["suspend", false, null]));
    let silence = fields(&found["gap"], &["start", "end"]);
    assert_eq!(silence, json!([301_000_000, 531_000_000]));
}

/// The log of a suspend to idle with these lines at the end of its sleep.
fn wakes(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("[  320.400000] {line}\n"));
    IDLE.replace(
        "[  320.500000]",
        &(String::from_iter(lines) + "[  320.500000]"),
    )
}

#[test]
fn what_woke_it_is_read_in_every_form() {
    for (line, what) in [
        ("PM: ACPI non-EC GPE wakeup", "ACPI non-EC GPE"),
        ("ACPI: PM: ACPI non-EC GPE wakeup", "ACPI non-EC GPE"),
        (
            "ACPI: PM: Wakeup after ACPI Notify sync",
            "ACPI Notify sync",
        ),
        (
            "PM: pm_system_irq_wakeup: 479 triggered dhdpcie_host_wake",
            "IRQ 479, dhdpcie_host_wake",
        ),
        (
            "pm_system_irq_wakeup: 57 triggered qpnp_rtc_alarm",
            "IRQ 57, qpnp_rtc_alarm",
        ),
        (
            "gic_show_resume_irq: 200 triggered qcom,smd-rpm",
            "IRQ 200, qcom,smd-rpm",
        ),
    ] {
        assert_eq!(one(&wakes(&[line]))["woken"], json!([what]), "{line}");
    }
    // The same in the words of two.
    let both = [
        "PM: pm_system_irq_wakeup: 479 triggered dhdpcie_host_wake",
        "Resume caused by IRQ 479, dhdpcie_host_wake",
    ];
    assert_eq!(
        one(&wakes(&both))["woken"],
        json!(["IRQ 479, dhdpcie_host_wake"])
    );
    // A log that has nothing else of a suspend.
    let cut = "[   42.335804] PM: Suspending system (s2idle)\n\
               [   42.475210] PM: pm_system_irq_wakeup: 11 triggered pinctrl_amd\n\
               [   42.535294] PM: resume from suspend-to-idle\n";
    assert_eq!(one(cut)["woken"], json!(["IRQ 11, pinctrl_amd"]));
}

#[test]
fn a_sleep_that_was_not_deep_is_no_failure_of_the_suspend() {
    for (line, driver) in [
        (
            "intel_pmc_core INT33A1:00: CPU did not enter SLP_S0!!! (S0ix cnt=0)",
            "intel_pmc_core",
        ),
        (
            "amd_pmc AMDI0007:00: Last suspend didn't reach deepest state",
            "amd_pmc",
        ),
    ] {
        let cycle = one(&wakes(&[line]));
        let failure = fields(&cycle["failures"][0], &["driver", "stage"]);
        assert_eq!(failure, json!([driver, "idle"]));
        assert_eq!(cycle["aborted"], false);
        // It begins no cycle.
        assert!(analysis(&format!("[  320.400000] {line}\n")).is_err());
    }
}

#[test]
fn failures_and_the_sleep_of_lines_without_stamps_are_read() {
    let failed_alone = "PM: suspend entry (deep)\n\
                        alarmtimer alarmtimer.0.auto: PM: failed to suspend: error -16\n\
                        PM: Some devices failed to suspend, or early wake event detected\n\
                        PM: suspend exit\n";
    let found = failed(failed_alone);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.contains("alarmtimer.0.auto") && found[0].1.contains("-16"));
    let slept = one("> > PM: suspend-to-idle\n\
                     > > Timekeeping suspended for 11.138 seconds\n\
                     > > PM: Triggering wakeup from IRQ 9\n\
                     > > PM: resume from suspend-to-idle\n");
    let times = fields(&slept, &["suspend_us", "asleep_us", "resume_us", "woken"]);
    assert_eq!(times, json!([null, 11_138_000, null, ["IRQ 9"]]));
}

#[test]
fn calls_of_kernels_before_3_6_have_no_parent() {
    let log = "[  300.125000] PM: Entering mem sleep\n\
               [  300.127000] calling  0000:00:02.0+ @ 2300\n\
               [  300.127500] calling  1-1+ @ 88\n\
               [  300.157500] call 1-1+ returned 0 after 29296 usecs\n\
               [  300.527000] call 0000:00:02.0+ returned 0 after 390625 usecs\n\
               [  300.600000] PM: suspend of devices complete after 474.000 msecs\n";
    let calls = one(log)["calls"].as_array().unwrap().clone();
    let call = |call: &Value| fields(call, &["device", "worker", "parent", "start", "end"]);
    let calls = Value::from_iter(calls.iter().map(call));
    let expected = json!([
        ["0000:00:02.0", 2300, null, 300_127_000, 300_527_000],
        ["1-1", 88, null, 300_127_500, 300_157_500],
    ]);
    assert_eq!(calls, expected);
    // What is left of a damaged line is no call that never returned.
    let begun = "[  300.120000] PM: Syncing filesystems ... done.\n";
    let cut = begun.to_owned() + &log.replace("@ 2300", "@ 2300, parent: pci0000:00");
    let cut =
        cut.replace("[  300.157500] call", "call") + "[  300.700000] Restarting tasks ... done.\n";
    assert_eq!(failed(&cut), []);
}

/// What a crash leads to is not known: it may have slept.
#[test]
fn a_crash_of_the_kernel_says_nothing_of_the_sleep() {
    let log = "[   20.000000] PM: suspend entry (deep)\n\
               [   20.300000] BUG: unable to handle page fault for address: ffffc90000000000\n\
               [   21.000000] PM: suspend exit\n\
               [   22.000000] Oops: 0002 [#1] PREEMPT SMP NOPTI\n";
    let cycle = &cycles(log)[0];
    assert_eq!(cycle["failures"].as_array().map(Vec::len), Some(1));
    assert_eq!(cycle["aborted"], false);
}

#[test]
fn stamps_of_a_logger_are_recognised_in_the_form_of_the_kernels() {
    // Stamped when the logger ran again: everything in 2 ms, 3 s after the entry.
    let late = |with_figures: bool| -> String {
        let lines = MEM
            .lines()
            .enumerate()
            .filter(|(_, line)| with_figures || !line.contains(" took "));
        let line = |(place, line): (usize, &str)| {
            let at = if place < 2 {
                500.0
            } else {
                503.0 + place as f64 * 1e-4
            };
            format!("[{at:12.6}] host kernel:{}\n", &line[14..])
        };
        lines.map(line).collect()
    };
    for with_figures in [true, false] {
        let cycle = one(&late(with_figures));
        assert_eq!(times(&cycle), json!([null, null, null]), "{with_figures}");
        assert_eq!(cycle["stamped"], false);
    }
    let known = json!([["sync", 40_000], ["suspend", 200_000], ["resume", 300_000]]);
    assert_eq!(stages(&one(&late(true))), known);
    // The same form with the kernel's stamps, as older journals have it.
    let own: String = MEM
        .lines()
        .map(|line| line.replace("] ", "] host kernel: ") + "\n")
        .collect();
    assert_eq!(times(&one(&own)), times(&one(MEM)));
}

#[test]
fn a_journal_of_today_has_the_kernels_stamp_under_another_name() {
    let entry = |at: u64, message: &str| {
        let fields = json!({"_TRANSPORT": "kernel", "MESSAGE": message, "__REALTIME_TIMESTAMP": "1795284000000000",
            "_SOURCE_BOOTTIME_TIMESTAMP": at.to_string()});
        format!("{fields}\n")
    };
    let line = |line: &str| {
        let at: f64 = line[1..13].trim().parse().unwrap();
        entry((at * 1e6).round() as u64, &line[15..])
    };
    let text: String = MEM.lines().map(line).collect();
    assert_eq!(times(&one(&text)), times(&one(MEM)));
}

/// The whole by which clock, where neither half is known.
#[test]
fn the_whole_says_of_the_sleep_only_what_the_log_shows() {
    let kernel = "[  300.000000] PM: suspend entry (deep)\n[  301.450000] PM: suspend exit\n";
    for sleep in ["deep", "s2idle"] {
        let found = fact(&kernel.replace("deep", sleep), "Whole").unwrap();
        assert!(
            found.contains("1.45 s") && !found.contains("included"),
            "{found}"
        );
    }
    // Two stamps of whole seconds do not show it.
    let wall = "2026-11-01T10:00:01+0000 host kernel: PM: suspend entry (deep)\n\
                2026-11-01T10:00:01+0000 host kernel: PM: suspend exit\n";
    assert_eq!(fact(wall, "Whole"), None);
}

/// Suspend to idle, of which the sleep has no lines of its own.
const IDLE: &str = "\
[  300.000000] PM: suspend entry (s2idle)
[  300.010000] Freezing user space processes
[  300.020000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  300.020100] printk: Suspending console(s) (use no_console_suspend to debug)
[  300.500000] ACPI: EC: interrupt blocked
[  320.500000] ACPI: EC: interrupt unblocked
[  321.300000] OOM killer enabled.
[  321.300100] Restarting tasks ... done.
[  321.500000] PM: suspend exit
";

#[test]
fn what_is_not_known_whole_has_the_bounds_that_the_log_has() {
    let cycle = one(IDLE);
    assert_eq!(times(&cycle), json!([null, null, null]));
    let bounds = [
        "suspend_at_least_us",
        "asleep_at_most_us",
        "resume_at_least_us",
    ];
    assert_eq!(
        fields(&cycle, &bounds),
        json!([500_000, 20_000_000, 1_000_000])
    );
    // A clock that stands still does not bound a sleep.
    let deep = one(&IDLE.replace("s2idle", "deep"));
    assert_eq!(fields(&deep, &bounds), json!([500_000, null, 1_000_000]));
    // Nothing of a suspend stands under the resume.
    let analysis = analysis(IDLE).unwrap();
    let mut text = Vec::new();
    reveille_show::text::write(&sheet(&analysis, None), Detail::Short, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let resume = text.split("of the resume goes").nth(1).unwrap();
    let (resume, suspend) = resume.split_once("of the suspend goes").unwrap();
    assert!(suspend.contains("480 ms"), "{suspend}");
    assert!(
        !resume.contains("Suspending console") && !resume.contains("20 s"),
        "{resume}"
    );
}

#[test]
fn entry_and_exit_alone_are_no_stages_of_zero() {
    let cycle = one(&only(MEM, &["entry", "exit"]));
    assert_eq!(stages(&cycle), json!([]));
    assert_eq!(times(&cycle), json!([null, null, null]));
    assert_eq!(
        fields(&cycle, &["start_us", "end_us"]),
        json!([500_000_000, 500_625_000])
    );
}

#[test]
fn modes_are_counted_where_they_differ() {
    let (deep, idle) = (MEM.to_owned(), later(IDLE, 500.0));
    let log = fact(&(deep.clone() + &later(MEM, 100.0) + &idle), "Log").unwrap();
    assert!(log.contains("2 deep") && log.contains("1 s2idle"), "{log}");
    assert!(
        !fact(&(deep.clone() + &later(&deep, 100.0)), "Log")
            .unwrap()
            .contains("2 deep")
    );
}

/// As kernels to 4.4 print it.
const FREEZE: &str = "\
[   30.000000] PM: Syncing filesystems ... done.
[   30.050000] PM: Preparing system for freeze sleep
[   30.051000] Freezing user space processes ... (elapsed 0.002 seconds) done.
[   30.054000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[   30.056000] PM: Entering freeze sleep
[   30.156000] PM: suspend of devices complete after 99.000 msecs
[   30.166000] PM: late suspend of devices complete after 9.000 msecs
[   30.176000] PM: noirq suspend of devices complete after 9.000 msecs
[   50.196000] PM: noirq resume of devices complete after 20.000 msecs
[   50.206000] PM: early resume of devices complete after 9.000 msecs
[   50.406000] PM: resume of devices complete after 199.000 msecs
[   50.407000] PM: Finishing wakeup.
[   50.407100] Restarting tasks ... done.
";

#[test]
fn freeze_is_suspend_to_idle() {
    let later = FREEZE.replace("for freeze sleep", "for sleep (freeze)");
    let later = later.replace("Entering freeze sleep", "Suspending system (freeze)");
    for text in [FREEZE, &later] {
        let cycle = one(text);
        let known = fields(&cycle, &["sleep", "asleep_us", "platform_us"]);
        assert_eq!(known, json!(["freeze", 20_000_000, null]));
    }
    let mem = one(&FREEZE.replace("freeze sleep", "mem sleep"));
    assert_eq!(fields(&mem, &["sleep", "asleep_us"]), json!(["mem", null]));
    assert_eq!(one(FREEZE)["stages"][0]["duration_us"], 50_000, "the sync");
}

#[test]
fn a_cpu_that_is_killed_or_loses_its_interrupts_is_going_off() {
    for line in [
        "psci: CPU1 killed (polled 0 ms)",
        "IRQ 9: no longer affine to CPU1",
        "CPU1 killed.",
    ] {
        let cycle = one(&MEM.replace("smpboot: CPU 1 is now offline", line));
        let stages = cycle["stages"].as_array().unwrap();
        let off = stages.iter().find(|stage| stage["stage"] == "cpus_off");
        assert_eq!(
            off.map(|off| off["duration_us"].clone()),
            Some(json!(2_000)),
            "{line}"
        );
        assert_eq!(cycle["suspend_us"], 264_000);
    }
    // Two lines for one CPU.
    let twice = MEM.replace(
        "smpboot: CPU 1 is now offline",
        "CPU1: shutdown\n[  500.264500] psci: CPU1 killed",
    );
    let cycle = one(&twice);
    let off = cycle["cpus"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["on"] == false);
    assert_eq!((off.count(), &cycle["suspend_us"]), (1, &json!(264_500)));
}

#[test]
fn a_log_that_is_pasted_twice_counts_once() {
    let head = "[    0.000000] Linux version 6.1.0\n";
    let whole = machine(&format!("{MEM}\nFull log:\n{head}{MEM}"));
    assert_eq!(whole["cycles"].as_array().unwrap().len(), 1);
    assert!(!whole["source"]["left_out"].as_array().unwrap().is_empty());
    // A part of it, before it or behind it; within ten seconds of where it ends.
    for part in ["[  500.2", "exit"] {
        let part = only(MEM, &[part]);
        for text in [
            format!("{part}{head}{MEM}"),
            format!("{MEM}{part}"),
            format!("{part}{MEM}"),
        ] {
            let found = cycles(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(times(&found[0]), times(&one(MEM)));
        }
    }
    // Two suspends of two boots.
    assert_eq!(
        cycles(&format!("{MEM}{head}{}", later(MEM, 0.000_003))).len(),
        2
    );
}

#[test]
fn neither_a_failed_resume_nor_the_next_boot_hides_the_sleep() {
    let logged = "\
Jan 10 10:00:00 host kernel: PM: suspend entry (deep)
Jan 10 11:00:00 host kernel: Freezing user space processes
Jan 10 11:00:00 host kernel: wifi 0000:03:00.0: PM: dpm_run_callback(): pci_pm_resume returns -5
Jan 10 11:00:00 host kernel: wifi 0000:03:00.0: PM: failed to resume async: error -5
Jan 10 11:00:00 host kernel: PM: suspend exit
";
    assert_eq!(one(logged)["asleep_us"], 3_600_000_000_i64);
    let both: String = FREEZE
        .replace("freeze", "mem")
        .lines()
        .enumerate()
        .map(|(place, line)| {
            let wall = if place < 3 { "10:00:00" } else { "11:00:20" };
            format!("Jan 10 {wall} host kernel: {line}\n")
        })
        .collect();
    let boot = "Jan 10 11:30:00 host kernel: [    1.500000] usb 1-1: new device\n";
    // From 30.051 s on to 50.4071 s the kernel counted 20.3561 of 3620 s.
    assert_eq!(one(&both)["asleep_us"], 3_599_643_900_i64);
    assert_eq!(one(&(both + boot))["asleep_us"], 3_599_643_900_i64);
}

#[test]
fn nvs_lines_are_the_kernels_last_and_first() {
    let nvs = "[   30.180000] PM: Saving platform NVS memory\n[   30.190000] PM: Restoring platform NVS memory\n";
    let text = FREEZE
        .replace("freeze", "mem")
        .replace("[   50.196000]", &format!("{nvs}[   50.196000]"));
    let cycle = one(&only(&text, &["PM: "]));
    assert_eq!(
        fields(&cycle, &["suspend_us", "platform_us"]),
        json!([180_000, 10_000])
    );
    assert_eq!(cycle["resume_us"], 20_217_000);
}

#[test]
fn a_sleep_that_is_read_from_a_clock_with_seconds_does_not_stop_the_logs_clock() {
    // 30 s in all, of which the kernel says that it slept 10.1, 8.0 and 5 s.
    let sleep = "\
[   30.176000] PM: suspend-to-idle
[   41.176000] Suspended for 10.100 seconds
[   48.976000] Suspended for 7.999 seconds
[   60.176000] Suspended for 5.000 seconds
[   60.176000] PM: resume from suspend-to-idle
[   60.196000]";
    let text = FREEZE
        .replace("[   50.196000]", sleep)
        .replace("[   50.4", "[   60.4")
        .replace("[   50.2", "[   60.2");
    let cycle = one(&text);
    assert_eq!(cycle["asleep_us"], 23_099_000);
    let stages = cycle["stages"].as_array().unwrap();
    let idle = stages
        .iter()
        .find(|stage| stage["stage"] == "idle")
        .unwrap();
    assert_eq!(idle["duration_us"], 30_000_000 - 23_099_000);
    assert_eq!(cycle["resume_us"], 231_100);
}

#[test]
fn zero_seconds_asleep_are_no_figure_and_the_kernels_wall_clock_is_one() {
    let zero = FREEZE.replace("freeze", "mem").replace(
        "[   50.196000]",
        "[   30.190000] Suspended for 0.000 seconds\n[   50.196000]",
    );
    assert_eq!(one(&zero)["asleep_us"], json!(null));
    let dated = format!(
        "[   29.900000] PM: suspend entry 2020-05-01 10:00:00.100000000 UTC\n{zero}\
         [   50.500000] PM: suspend exit 2020-05-01 10:02:00.700000000 UTC\n"
    );
    // 120.6 s by that clock, of which 20.6 by the log's.
    assert_eq!(one(&dated)["asleep_us"], 100_000_000);
}

#[test]
fn a_sleep_without_its_beginning_is_a_cycle_with_what_woke_the_machine() {
    let text = "\
[   12.000000] PM: suspend-to-idle
[   12.010000] Timekeeping suspended for 2.500 seconds
[   12.010000] PM: Triggering wakeup from IRQ 11
[   12.300000] Timekeeping suspended for 1.500 seconds
[   12.300000] PM: Triggering wakeup from IRQ 4
[   12.300000] PM: resume from suspend-to-idle
";
    let cycle = one(text);
    let known = fields(&cycle, &["sleep", "asleep_us", "cut", "woken"]);
    assert_eq!(
        known,
        json!(["s2idle", 4_000_000, true, ["IRQ 11", "IRQ 4"]])
    );
    for (line, woken) in [
        ("ACPI: PM: ACPI fixed event wakeup", "ACPI fixed event"),
        ("ACPI: PM: ACPI non-EC GPE wakeup", "ACPI non-EC GPE"),
        ("PM: IRQ wakeup: IRQ 31", "IRQ 31"),
        ("PM: Wakeup source RTC Alarm", "RTC Alarm"),
        (
            "PM: Resume caused by IRQ 57, qpnp_rtc_alarm",
            "IRQ 57, qpnp_rtc_alarm",
        ),
    ] {
        let cycle = one(&text.replace("PM: Triggering wakeup from IRQ 4", line));
        assert_eq!(cycle["woken"][1], woken);
    }
    let kept = one(&MEM.replace(
        "PM: suspend devices took 0.200 seconds",
        "Abort: Last active Wakeup Source: eventpoll",
    ));
    assert!(
        kept["failures"][0]["message"]
            .as_str()
            .unwrap()
            .ends_with("eventpoll")
    );
}

#[test]
fn a_pending_wake_up_is_in_the_stage_that_the_next_line_names_or_in_none() {
    let text = "\
[   70.000000] PM: suspend entry (deep)
[   70.010000] Freezing user space processes ... (elapsed 0.004 seconds) done.
[   70.020000] Freezing remaining freezable tasks ... (elapsed 0.003 seconds) done.
[   70.024000] Suspending console(s) (use no_console_suspend to debug)
[   72.000000] PM: Wakeup pending, aborting suspend
[   72.001000] PM: late suspend of devices failed
[   72.100000] OOM killer enabled.
[   72.200000] PM: suspend exit
";
    let cycle = one(text);
    assert_eq!(cycle["failures"][0]["stage"], "suspend_late");
    assert_eq!(cycle["suspend_us"], 2_001_000);
    let alone = one(&only(text, &["70.0", "72.000", "72.1", "72.2"]));
    assert_eq!(alone["failures"][0]["stage"], json!(null));
    assert_eq!(alone["suspend_us"], 2_000_000);
}

#[test]
fn a_silence_has_the_messages_at_both_its_ends() {
    let slow = MEM.replace("[  500.260000]", "[  500.058000] pcieport: enabled\n[  500.258000] usbhid 1-7: suspend error -5\n[  500.260000]");
    let cycle = one(&slow);
    let gaps = cycle["gaps"].as_array().unwrap();
    let longest = gaps
        .iter()
        .find(|gap| gap["message"] == "pcieport: enabled")
        .unwrap();
    assert_eq!(longest["ended_by"], "usbhid 1-7: suspend error -5");
    let path = cycle["suspend_path"].as_array().unwrap();
    assert!(
        path.iter()
            .any(|link| link["ended_by"] == "usbhid 1-7: suspend error -5")
    );
}

#[test]
fn the_first_line_of_a_minute_of_dmesg_h_stands_before_its_deltas() {
    let mut before = None;
    let mut human = |line: &str| {
        let at: f64 = line[1..13].trim().parse().unwrap();
        let delta = before
            .replace(at)
            .map(|before: f64| format!("  +{:.6}", at - before));
        format!(
            "[{}]{}\n",
            delta.unwrap_or("Jun 3 09:41".to_owned()),
            &line[14..]
        )
    };
    let text: String = MEM.lines().map(&mut human).collect();
    let cycle = one(&text);
    assert_eq!(times(&cycle), times(&one(MEM)));
    assert_eq!(cycle["sleep"], "deep");
    // Within a cycle such a line is anywhere in its minute.
    let place = text.find("Enabling").unwrap() - "[  +0.001000] ".len();
    let cut = format!(
        "{}[Jun 3 09:42{}",
        &text[..place],
        &text[place + "[  +0.001000".len()..]
    );
    assert_eq!(times(&one(&cut)), json!([null, null, null]));
}

#[test]
fn a_log_with_the_newest_line_first_is_turned_round() {
    let turned: Vec<&str> = MEM.lines().rev().collect();
    let found = machine(&(turned.join("\n") + "\n"));
    let cycles = found["cycles"].as_array().unwrap();
    assert_eq!((cycles.len(), times(&cycles[0])), (1, times(&one(MEM))));
    assert!(!found["source"]["left_out"].as_array().unwrap().is_empty());
}

#[test]
fn lines_without_times_have_the_durations_that_they_state() {
    let text = "\
ahci 0000:00:02.0: calling pci_pm_suspend+0x0/0xad @ 5, parent: pci0000:00
ahci 0000:00:02.0: pci_pm_suspend+0x0/0xad returned 0 after 150000 usecs
PM: suspend of devices complete after 160.000 msecs
PM: noirq resume of devices complete after 12.000 msecs
ahci 0000:00:02.0: calling pci_pm_resume+0x0/0x7c @ 6, parent: pci0000:00
ahci 0000:00:02.0: pci_pm_resume+0x0/0x7c returned 0 after 7000 usecs
PM: resume of devices complete after 90.000 msecs
";
    let cycle = one(text);
    let known = json!([
        ["suspend", 160_000],
        ["resume_noirq", 12_000],
        ["resume", 90_000]
    ]);
    assert_eq!(stages(&cycle), known);
    let calls = cycle["calls"].as_array().unwrap().iter();
    let calls: Value = calls.map(|call| call["duration_us"].clone()).collect();
    assert_eq!(
        (calls, times(&cycle)),
        (json!([150_000, 7_000]), json!([null, null, null]))
    );
    // A line without a time among others is left out.
    assert_eq!(cycles(&format!("{text}{MEM}")).len(), 1);
}

#[test]
fn firmwares_times_stand_beside_the_kernels() {
    let head = "# fwsuspend 3000000 fwresume 4250000000\n";
    let cycle = one(&format!("{head}{MEM}"));
    assert_eq!(
        cycle["firmware"],
        json!({"suspend_us": 3_000, "resume_us": 4_250_000})
    );
    assert_eq!(times(&cycle), times(&one(MEM)));
    let second = cycles(&format!("{MEM}{head}{}", later(MEM, 20.0)));
    assert_eq!(second[0]["firmware"], json!(null));
    assert_eq!(second[1]["firmware"]["resume_us"], 4_250_000);
}

#[test]
fn hours_are_hours() {
    let text = "\
Jan 10 10:00:00 host kernel: PM: suspend entry (s2idle)
Jan 10 13:29:31 host kernel: Freezing user space processes
Jan 10 13:29:31 host kernel: PM: suspend exit
";
    assert_eq!(fact(text, "Asleep").as_deref(), Some("3 h 30 min"));
}

#[test]
fn a_slow_console_does_not_hide_what_a_call_waited_for() {
    // Each line takes 6 ms to print. The display takes 300 ms in another thread; its light waits for it.
    let text = "\
[   40.000000] PM: suspend entry (s2idle)
[   40.010000] PM: suspend-to-idle
[   50.000000] PM: resume from suspend-to-idle
[   50.010000] gpu 0000:00:02.0: calling pci_pm_resume+0x0/0xa0 @ 70, parent: pci0000:00
[   50.016000] rtc rtc0: calling rtc_resume+0x0/0x20 @ 65, parent: platform
[   50.022000] rtc rtc0: rtc_resume+0x0/0x20 returned 0 after 3 usecs
[   50.316000] gpu 0000:00:02.0: pci_pm_resume+0x0/0xa0 returned 0 after 300000 usecs
[   50.322000] backlight light: calling backlight_resume+0x0/0x80 @ 65, parent: card0
[   50.328000] backlight light: backlight_resume+0x0/0x80 returned 0 after 30 usecs
[   50.334000] input input1: calling input_resume+0x0/0x50 @ 65, parent: card1
[   50.340000] input input1: input_resume+0x0/0x50 returned 0 after 1 usecs
[   50.346000] PM: suspend exit
";
    let cycle = one(text);
    let path = cycle["path"].as_array().unwrap().iter();
    let on_path: Vec<&str> = path
        .clone()
        .filter(|link| link["what"] == "call")
        .map(|link| link["device"].as_str().unwrap())
        .collect();
    assert_eq!(on_path, ["0000:00:02.0", "light", "input1"]);
    assert!(path.clone().all(|link| link["what"] != "not_told"));
}

#[test]
fn the_answer_is_about_the_half_that_takes_most() {
    let answer = |text: &str| {
        let analysis = analysis(text).unwrap();
        sheet(&analysis, None).answer
    };
    let slow = MEM
        .replace("[  500.260000]", "[  565.260000]")
        .replace("[  500.26", "[  565.26")
        .replace("[  500.5", "[  565.5")
        .replace("[  500.6", "[  565.6");
    let slow = slow.replace("took 0.200", "took 65.200");
    assert!(
        answer(&slow).contains("suspend") && answer(&slow).contains("65.3 s"),
        "{}",
        answer(&slow)
    );
    assert!(answer(MEM).contains("resume") && answer(MEM).contains("360 ms"));
    // Where no path can be drawn the longest stage is the answer.
    let copied: String = (0..3)
        .map(|n| {
            format!(
                "2024-05-01 10:0{n}:00,000 DEBUG:\tPM: suspend entry (s2idle)\n\
         2024-05-01 10:0{n}:00,000 DEBUG:\tPM: resume of devices complete after 2810.000 msecs\n\
         2024-05-01 10:0{n}:00,000 DEBUG:\tPM: suspend exit\n"
            )
        })
        .collect();
    let said = answer(&copied);
    assert!(
        said.contains("2.81 s") && said.contains("3 cycles"),
        "{said}"
    );
}

#[test]
fn suspends_to_disk_have_their_images_and_failures() {
    let text = "\
[   10.000000] PM: hibernation: hibernation entry
[   10.100000] PM: hibernation: Allocated 1048576 kbytes in 0.50 seconds (2097.15 MB/s)
[   10.200000] PM: Image allocation is 289 pages short
[   12.000000] PM: hibernation: Wrote 524288 kbytes in 2.00 seconds (262.14 MB/s)
[   14.000000] usb 1-1: PM: failed to restore async: error -19
[   14.500000] PM: hibernation: hibernation exit
[   20.000000] PM: hibernation entry
[   21.000000] PM: Read 524288 kbytes in 1.25 seconds (419.43 MB/s)
";
    let found = machine(text)["hibernations"].clone();
    let image = |kbytes: u64, took_us: u64| json!({"kbytes": kbytes, "took_us": took_us});
    assert_eq!(found[0]["allocated"], image(1_048_576, 500_000));
    assert_eq!(found[0]["written"], image(524_288, 2_000_000));
    assert_eq!(found[0]["failures"].as_array().unwrap().len(), 2);
    assert_eq!(
        fields(&found[1], &["read", "ended"]),
        json!([image(524_288, 1_250_000), false])
    );
    // Beside other suspends they are in no median of these.
    let both = machine(&format!("{text}{}", later(MEM, 100.0)));
    assert_eq!(both["hibernations"].as_array().unwrap().len(), 2);
    assert_eq!(both["cycles"].as_array().unwrap().len(), 1);
}

#[test]
fn what_follows_thawing_is_not_the_devices_though_no_line_shows_their_stages() {
    let text = only(MEM, &["  500.0", "500.26", "500.57", "exit"]);
    let text: String = only(&text.replace("resume devices", "x"), &["  500"]);
    let cycle = one(&text);
    let path = cycle["path"].as_array().unwrap();
    let late = |link: &&Value| link["start_us"].as_i64() >= Some(500_571_000);
    assert!(
        path.iter().filter(late).all(|link| link["stage"] == "thaw"),
        "{path:#?}"
    );
    assert!(path.iter().any(|link| link["stage"] == "resume"));
    let sum: i64 = path
        .iter()
        .filter_map(|link| link["duration_us"].as_i64())
        .sum();
    assert_eq!(cycle["resume_us"], sum);
}

#[test]
fn a_freeze_that_fails_names_the_work_that_keeps_a_workqueue_busy() {
    let text = "\
[   60.000000] PM: suspend entry (deep)
[   60.001000] Freezing remaining freezable tasks
[   80.010000] Freezing remaining freezable tasks failed after 20.009 seconds (0 tasks refusing to freeze, wq_busy=1):
[   80.010100] Showing busy workqueues and worker pools:
[   80.010200] workqueue events_freezable: flags=0x4
[   80.010300]   pwq 2: cpus=1 node=0 flags=0x0 nice=0 active=1/256 refcnt=2
[   80.010400]     in-flight: 88:thermal_poll_work
[   80.020000] OOM killer enabled.
[   80.030000] PM: suspend exit
";
    let found = failed(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("thermal_poll_work"), "{found:?}");
}

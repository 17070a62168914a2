//! `reveille resume analyze`, from a log to the tables, the JSON and the page.

use std::path::{Path, PathBuf};

use crate::complains::complains;
use crate::program::{as_nobody, reveille, run};
use crate::suspended::dmesg;
use serde_json::Value;

fn log(folder: &Path, cycles: usize) -> PathBuf {
    let log = folder.join("chromebook.txt");
    std::fs::write(&log, dmesg(cycles)).unwrap();
    log
}

/// Standard output; the command has to succeed.
fn said(arguments: &[&str], log: &Path) -> String {
    let mut command = reveille();
    command.args(["resume", "analyze"]).arg(log).args(arguments);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn analysis(arguments: &[&str], log: &Path) -> Value {
    let text = said(&[arguments, &["--json"]].concat(), log);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_json_has_the_logs_true_times() {
    let folder = tempfile::tempdir().unwrap();
    let analysis = analysis(&[], &log(folder.path(), 3));
    assert_eq!(analysis["format"], "reveille-resume");
    assert_eq!(analysis["version"], 4);
    let machine = &analysis["machines"][0];
    assert_eq!(machine["name"], "chromebook.txt");
    assert_eq!(machine["cycles"].as_array().unwrap().len(), 3);
    for (name, us) in [
        ("suspend_us", 49_000),
        ("asleep_us", 20_000_000),
        ("resume_us", 600_000),
    ] {
        let spread = &machine[name];
        for figure in ["median", "min", "max"] {
            assert_eq!(spread[figure], us, "{name} {figure}");
        }
        assert_eq!(spread["count"], 3);
        assert_eq!(machine["cycles"][1][name], us);
    }
    let cycle = &machine["cycles"][0];
    let path = cycle["path"].as_array().unwrap();
    let sum: i64 = path
        .iter()
        .map(|link| link["duration_us"].as_i64().unwrap())
        .sum();
    assert_eq!(sum, 600_000);
    let longest = path
        .iter()
        .max_by_key(|link| link["duration_us"].as_i64())
        .unwrap();
    assert_eq!(longest["device"], "0000:00:1b.0");
    assert_eq!(longest["duration_us"], 593_000);
    let calls = cycle["calls"].as_array().unwrap();
    let slack = |device: &str| {
        let mut resumes = calls.iter().filter(|call| call["stage"] == "resume");
        resumes.find(|call| call["device"] == device).unwrap()["slack_us"].clone()
    };
    assert_eq!(slack("0000:00:1b.0"), 0);
    assert_eq!(slack("0000:00:02.0"), 598_000 - 305_000);
    assert_eq!(slack("usb1"), 598_000 - 535_000);
}

#[test]
fn the_paper_reduces_600_ms_to_50_ms_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), 1);
    let what_if = [
        "--without",
        "snd*",
        "--without",
        "uvc*",
        "--without",
        "i915",
        "--defer",
        "usb*",
    ];
    let analysis = analysis(&what_if, &log);
    let replays = analysis["machines"][0]["what_if"]["replays"]
        .as_array()
        .unwrap();
    let totals: Vec<i64> = replays
        .iter()
        .map(|one| one["total_us"].as_i64().unwrap())
        .collect();
    // The stage's end follows its last call, 2 ms before the total: webcam, graphics, hub, disk.
    assert_eq!(totals, [537_000, 307_000, 87_000, 52_000]);
    assert_eq!(replays[3]["deferred"][0]["device"], "usb1");
    assert_eq!(replays[3]["deferred"][0]["ready_us"], 52_000 + 80_000);

    let text = said(&what_if, &log);
    assert!(text.contains("defer usb*"), "{text}");
    assert!(
        text.lines()
            .any(|line| line.contains("as measured") && line.contains("600"))
    );

    let steps = said(&["--steps", "3"], &log);
    let part = steps.split("Step by step").nth(1).unwrap();
    let order: Vec<&str> = part.lines().skip(3).take(3).collect();
    assert!(
        order[0].contains("0000:00:1b.0") && order[0].contains("537"),
        "{part}"
    );
    assert!(
        order[1].contains("1-1:1.0") || order[1].contains("usb1"),
        "{part}"
    );
}

#[test]
fn every_line_fits_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), 4);
    for arguments in [
        &[][..],
        &[
            "--without",
            "snd*",
            "--defer",
            "usb*",
            "--set",
            "ahci=10ms",
            "--cpus",
            "8",
            "--steps",
            "5",
        ],
        &["--cycle", "2", "--top", "3"],
    ] {
        let text = said(arguments, &log);
        let first = text.lines().next().unwrap();
        assert!(first.contains("chromebook.txt, "), "{text}");
        for line in text.lines() {
            assert!(
                line.chars().count() <= 80,
                "{} letters: {line}",
                line.chars().count()
            );
        }
    }
    let text = said(
        &[log.to_str().unwrap(), "--name", "before", "--name", "after"],
        &log,
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let line = |first: &str, others: &[&str]| {
        let is_it = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some(first) && words.take(others.len()).eq(others.iter().copied())
        };
        assert!(text.lines().any(is_it), "{first} {others:?}: {text}");
    };
    line("before", &["4"]);
    line("after", &["4"]);
    line("stage", &["before", "after"]);
}

#[test]
fn a_log_and_its_json_give_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), 2);
    let page = folder.path().join("page.html");
    let text = said(&["--out", page.to_str().unwrap()], &log);
    let named = |line: &str| line.starts_with("Page ") && line.ends_with("page.html");
    assert!(text.lines().any(named), "{text}");
    let by_log = std::fs::read_to_string(&page).unwrap();
    assert!(by_log.contains("Timeline of the resume"));
    for outside in ["src=\"", "href=\"http", "url(http", "@import"] {
        assert!(!by_log.contains(outside), "{outside}");
    }
    // An older page may be overwritten; other files may not.
    said(&["--out", page.to_str().unwrap()], &log);

    let json = folder.path().join("resume.json");
    std::fs::write(&json, said(&["--json"], &log)).unwrap();
    let mut command = reveille();
    let output = command
        .arg("report")
        .arg(&json)
        .args(["-o", "-"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), by_log);
}

#[test]
fn a_power_meter_file_is_aligned_with_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), 1);
    // 10 samples a second: 10 W, and 0.6 W from 5.049 s for 20 s; then 1 Hz.
    let meter = |interval_ms: i64| {
        let line = |place: i64| {
            let asleep = (5_049 + interval_ms..=25_049).contains(&(place * interval_ms));
            format!(
                "{:.1},{}\n",
                (place * interval_ms) as f64 / 1e3,
                if asleep { 0.6 } else { 10.0 }
            )
        };
        let lines: String = (0..40_000 / interval_ms).map(line).collect();
        format!("time_s,watts\n{lines}")
    };
    let file = folder.path().join("meter.csv");
    std::fs::write(&file, meter(100)).unwrap();
    let arguments = ["--power", file.to_str().unwrap(), "--power-offset", "5s"];
    let power = &analysis(&arguments, &log)["machines"][0]["power"];
    assert_eq!(power["laid_by"], "offset");
    for (name, expected) in [("asleep_w", 0.6), ("idle_w", 10.0), ("transition_w", 10.0)] {
        let found = power[name].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9, "{name} {found}");
    }

    std::fs::write(&file, meter(1_000)).unwrap();
    let text = said(&arguments[..2], &log);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("by the drop in power"), "{text}");
    assert!(words.contains("no mean for the transitions"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn it_needs_no_root_and_reads_standard_input() {
    let (_folder, mut command) = match as_nobody() {
        Some((folder, command)) => (Some(folder), command),
        None => (None, reveille()),
    };
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::open(log(folder.path(), 1)).unwrap();
    let output = command.args(["resume", "analyze", "-"]).stdin(log).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("standard input, 1 cycle"), "{text}");
}

#[test]
fn bad_input_gets_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path(), 1);
    let log = log.to_str().unwrap();
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let nothing = file("nothing.txt", "[    0.0] Linux version 6.1\n");
    let empty = file("empty.txt", "");
    let temperatures = file("temperatures.csv", "time,temperature\n0,20\n1,21\n");
    let flat = file("flat.csv", "time,watts\n0,20\n1,20\n2,20\n");
    for (arguments, words) in [
        (&["/nonexistent"][..], "no such file"),
        (&[log, "--power", "/nonexistent"], "No such file"),
        (
            &[folder.path().to_str().unwrap()],
            "neither dmesg.txt nor trace.txt",
        ),
        (&[log, "--cycle", "7"], "has 1 cycle,"),
        (&[log, "--cycle", "0"], "1 or more"),
        (
            &[log, "--without", "nosuch*"],
            "nothing in the resume is named so",
        ),
        (&[log, "--without", "a,,b"], "is empty"),
        (&[log, "--set", "ata1=fast"], "not a time such as 50ms"),
        (&[log, "--set", "ata1"], "no '='"),
        (&[log, "--cpus", "0"], "not a number of CPUs"),
        (&[log, "--name", "a", "--name", "b"], "2 names for 1 log;"),
        (&[log, log, "--power", &flat], "belongs to one machine"),
        (&[log, "--power-offset", "3s"], "--power"),
        (&["-", "-"], "once only"),
        (&[log, "--out", log], "is not a page of reveille"),
        (&[log, "--json", "--out", "-"], "name a file"),
        (&[log, "--title", "t"], "--out"),
    ] {
        complains(
            reveille().args(["resume", "analyze"]).args(arguments),
            2,
            words,
        );
    }
    for (arguments, words) in [
        (&[nothing.as_str()][..], "no suspend"),
        (&[&empty], "empty"),
        (&[log, "--power", &temperatures], "no column of watts"),
        (&[log, "--power", &flat], "never drops"),
        (&[log, "--power", log], "not a power meter's file"),
    ] {
        complains(
            reveille().args(["resume", "analyze"]).args(arguments),
            1,
            words,
        );
    }
    let ended = run(reveille().arg("resume"));
    assert_eq!(ended.code, 2);
}

#[test]
fn a_failure_is_reported_from_any_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("aborted.txt");
    let refused = "\
[  300.000000] PM: suspend entry (deep)
[  300.003000] sd 0:0:0:0: PM: calling scsi_bus_suspend @ 31, parent: target0:0:0
[  300.004000] xhci_hcd 0000:00:14.0: PM: calling pci_pm_suspend @ 32, parent: pci0000:00
[  300.038000] xhci_hcd 0000:00:14.0: PM: pci_pm_suspend returned -16 after 34000 usecs
[  300.038100] xhci_hcd 0000:00:14.0: PM: failed to suspend async: error -16
[  300.039000] PM: Some devices failed to suspend, or early wake event detected
[  300.051000] PM: resume of devices complete after 12.000 msecs
[  300.052000] Restarting tasks ... done.
[  300.053000] PM: suspend exit
";
    std::fs::write(&log, dmesg(1) + refused).unwrap();
    let text = said(&[], &log);
    assert!(
        text.contains("FAILED cycle 2: 0000:00:14.0 (xhci_hcd): failed"),
        "{text}"
    );
    assert!(text.contains("NEVER RETURNED cycle 2: 0:0:0:0"), "{text}");
    assert!(!text.contains("returned -16"), "it is said once: {text}");
    assert!(text.contains("1 of 2 cycles is without a sleep"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    // The complete cycle is the one that is shown and counted.
    assert_eq!(analysis(&[], &log)["machines"][0]["resume_us"]["count"], 1);
}

#[test]
fn a_capture_adds_what_its_logs_lack() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("night");
    std::fs::create_dir(&capture).unwrap();
    let text = dmesg(1).replace("Timekeeping suspended for 20.000 seconds", "");
    std::fs::write(capture.join("dmesg.txt"), text).unwrap();
    std::fs::write(capture.join("trace.txt"), "").unwrap();
    let without = &analysis(&[], &capture)["machines"][0];
    assert_eq!(without["name"], "night");
    assert_eq!(without["cycles"][0]["asleep_us"], Value::Null);

    let record = serde_json::json!({
        "format": "reveille-capture", "version": 1, "started": "2026-11-21T18:00:00Z",
        "machine": { "kernel": "6.12.9" }, "model": null, "mode": "mem", "state": "mem",
        "sleep": "deep", "alarm": "rtc0", "wake_after_s": 20, "cycles_asked": 1,
        "cycles": [{
            "number": 1, "started": "2026-11-21T18:00:01.5Z", "awake_us": 650_000,
            "asleep_us": 21_000_000, "error": null, "alarm_rang": true, "wakeup_irq": 8,
            "log_records": 30, "log_lost": 0, "trace_events": 0, "trace_lost": 0,
        }],
        "interrupted": false, "notes": ["no trace: tracefs is not mounted"],
        "suspend_stats_before": {}, "suspend_stats_after": {}, "left_changed": [],
    });
    std::fs::write(capture.join("capture.json"), record.to_string()).unwrap();
    let machine = &analysis(&[], &capture)["machines"][0];
    assert_eq!(machine["cycles"][0]["asleep_us"], 21_000_000);
    assert_eq!(machine["cycles"][0]["at"], "2026-11-21T18:00:01.5Z");
    assert_eq!(machine["source"]["kernel"], "6.12.9");
    assert_eq!(machine["notes"][0], "no trace: tracefs is not mounted");

    // Its logs are complete without it, and a note reports the missing file.
    std::fs::write(capture.join("capture.json"), &record.to_string()[..90]).unwrap();
    let machine = &analysis(&[], &capture)["machines"][0];
    assert_eq!(machine["cycles"][0]["asleep_us"], Value::Null);
    let note = machine["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("capture.json cannot be read (EOF"),
        "{note}"
    );
}

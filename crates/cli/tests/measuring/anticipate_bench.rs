//! `reveille anticipate bench` as a user meets it: short runs, an interruption, and bad input.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::complains::complains;
use crate::program::{as_nobody, reveille, run};
use crate::{json_schemas, meter};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take_to_change};
use serde_json::Value;

/// Its policies hold bounds.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

/// Longer than any of these runs on the slowest machine.
const LONG: Duration = Duration::from_secs(300);

/// A short one, on its own file in that folder.
fn bench(folder: &Path) -> Command {
    rounds(folder, "2", "8")
}

fn rounds(folder: &Path, rounds: &str, ios: &str) -> Command {
    let mut command = reveille();
    command.args(["anticipate", "bench", "--rounds", rounds, "--ios", ios]);
    command.args(["--warm-up", "2", "--file-size", "1MiB", "--dir"]);
    command.arg(folder);
    command
}

/// A folder on a disk: files in memory are refused.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// The benchmark's JSON; `None`, with a message, if this machine cannot run it.
fn json(test: &str, command: &mut Command) -> Option<Value> {
    parsed(test, &command.arg("--json").output().unwrap(), 0)
}

fn parsed(test: &str, output: &Output, code: i32) -> Option<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        println!("skipped: {test}: {errors}");
        return None;
    }
    assert_eq!(output.status.code(), Some(code), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn policies(bench: &Value) -> Vec<&str> {
    let used = bench["policies"].as_array().unwrap().iter();
    used.map(|used| used["policy"].as_str().unwrap()).collect()
}

fn metered(folder: &Path, meter: &str, turn: &str) -> Command {
    let mut command = reveille();
    command.args([
        "anticipate",
        "bench",
        "--meter",
        meter,
        "--rounds",
        "3",
        "--turn",
        turn,
    ]);
    command.args([
        "--policies",
        "as-is,no-sleep",
        "--gaps",
        "3ms",
        "--warm-up",
        "2",
    ]);
    command.args(["--file-size", "1MiB", "--dir"]).arg(folder);
    command
}

#[test]
fn a_meter_gives_the_power_of_each_policy() {
    let Some(_alone) = alone() else {
        return;
    };
    let test = "a benchmark's power";
    let Some(name) = meter::by_no_sleep() else {
        return println!("skipped: {test}: no bound of latency is honoured");
    };
    let folder = folder();
    let Some(bench) = json(test, &mut metered(folder.path(), &name, "900ms")) else {
        return;
    };
    json_schemas::matches("anticipate-bench", std::slice::from_ref(&bench));
    assert_eq!(bench["meter"]["name"], name);
    if bench["policies"][1]["how"].to_string().contains("threads") {
        return println!("skipped: {test}: threads keep the CPUs awake here");
    }
    for (row, true_w) in [(0, 40.0), (1, 60.0)] {
        let power_w = bench["rows"][row]["power_w"]["estimate"].as_f64();
        let off = power_w.unwrap() / true_w - 1.0;
        assert!(off.abs() < 0.02, "{row}: {power_w:?}");
    }
    let output = metered(folder.path(), &name, "300ms").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("a turn of 0.3s: too short for shelly:"),
        "{errors}"
    );
    assert!(errors.contains(": at least 0."), "{errors}");
}

#[test]
fn invalid_arguments_get_one_line() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::write(&data, vec![1; 8192]).unwrap();
    let data = data.to_str().unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    for (flags, words) in [
        (vec!["--device", "no-such-disk"], "no such device"),
        (vec!["--device", data], "not a block device"),
        (vec!["--file", missing], "no such file"),
        (vec!["--file", data, "--op", "write"], "destroy"),
        (
            vec!["--file", data, "--size", "64KiB"],
            "less than one read",
        ),
        (
            vec!["--file", data, "--device", "vda"],
            "cannot be used with",
        ),
        (vec!["--dir", missing], "no such folder"),
        (vec!["--size", "1000"], "not a multiple of 512"),
        (vec!["--size", "0"], "not a size"),
        (vec!["--file-size", "1"], "--file-size 1 bytes: is less"),
        (vec!["--file-size", "5000"], "is not a multiple of 512"),
        (vec!["--gaps", "1"], "no unit; write 1ms"),
        (vec!["--gaps=-1ms"], "cannot be negative"),
        (vec!["--gaps", "1min"], "too long; maximum 10s"),
        (vec!["--depth", "0"], "--depth"),
        (vec!["--rounds", "0"], "--rounds"),
        (vec!["--turn", "0s"], "above zero"),
        (vec!["--cpu", "4000"], "no such CPU"),
        (vec!["--policies", "as-is,doze"], "not one of as-is"),
        (vec!["--budget", "101%"], "not a share"),
        (vec!["--budget", "nan%"], "not a share"),
        (vec!["--accelerator", "--depth", "8"], "cannot be used with"),
        (vec!["--op", "erase"], "erase"),
    ] {
        let mut command = reveille();
        command.args(["anticipate", "bench"]).args(&flags);
        complains(&mut command, 2, words);
    }
    assert_eq!(fs::read(data).unwrap(), vec![1; 8192]);
}

#[test]
fn a_short_run_compares_policies_and_makes_a_page() {
    let test = "a short run";
    let Some(_alone) = alone() else {
        return;
    };
    let folder = folder();
    let out = folder.path().join("kept");
    let mut command = bench(folder.path());
    command.args(["--gaps", "1ms,0", "--policies", "as-is,no-sleep", "--out"]);
    let Some(bench) = json(test, command.arg(&out)) else {
        return;
    };
    assert_eq!(policies(&bench), ["as_is", "no_sleep"]);
    let points: Vec<&Value> = bench["points"].as_array().unwrap().iter().collect();
    let idle: Vec<u64> = points
        .iter()
        .filter_map(|one| one["idle_ns"].as_u64())
        .collect();
    assert_eq!(idle, [0, 1_000_000]);
    let rows = bench["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["waits"], 16, "{row}");
        assert!(row["median_ns"]["estimate"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["median_ns"]["rounds"], 2, "{row}");
        // 16 reads have no 99th percentile.
        assert!(row["p99_ns"].is_null(), "{row}");
    }
    assert!(bench["turns"].is_null());
    // Its own file has no name, and is gone.
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // A kept result is never overwritten, and makes a page.
    let mut again = reveille();
    let again = again.args(["anticipate", "bench", "--out"]).arg(&out);
    complains(again, 2, "is there already");
    let ended = run(reveille().arg("report").arg(&out));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("class=\"panel\"").count(), 2);
}

#[test]
fn the_table_has_a_line_for_each_policy() {
    let Some(_alone) = alone() else {
        return;
    };
    let folder = folder();
    let mut command = bench(folder.path());
    command.args(["--gaps", "0", "--policies", "no-sleep", "--depth", "3"]);
    command.args(["--op", "write"]);
    let output = command.output().unwrap();
    if output.status.code() == Some(3) {
        let why = String::from_utf8_lossy(&output.stderr);
        println!("skipped: the table: {why}");
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    // A fact may continue on the next line.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("random direct writes of 4 KiB"), "{text}");
    assert!(words.contains("3 in flight"), "{text}");
    for policy in ["as is", "no sleep"] {
        let mut lines = text.lines();
        let has_row = lines.any(|line| line.contains(policy) && line.contains(" 16 "));
        assert!(has_row, "{policy}: {text}");
    }
}

#[test]
fn the_engine_wakes_cpus_for_the_benchmarks_own_reads() {
    let test = "the engine";
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: {test}: needs root");
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let folder = folder();
    let mut command = bench(folder.path());
    command.args(["--gaps", "300us", "--policies", "anticipate"]);
    let Some(bench) = json(test, &mut command) else {
        return;
    };
    assert_eq!(policies(&bench), ["as_is", "anticipate"]);
    let row = &bench["rows"][1];
    assert_eq!(row["policy"], "anticipate");
    assert_eq!(row["waits"], 16);
    // How many were assisted depends on the machine; that they were observed does not.
    assert!(row["assisted_percent"]["estimate"].is_number(), "{row}");
    assert!(row["kept_awake_percent"]["estimate"].is_number(), "{row}");
    match row["own_cost_ns"].as_f64() {
        Some(own_ns) => assert!(own_ns > 0.0, "{row}"),
        None => println!("skipped: {test}: its own cost: the kernel does not count it"),
    }
    assert!(bench["rows"][0]["own_cost_ns"].is_null(), "{bench}");
}

#[test]
fn without_root_unavailable_policies_are_skipped_with_a_note() {
    let Some((folder, mut command)) = as_nobody() else {
        println!("skipped: without root: needs root to become nobody");
        return;
    };
    let Some(_alone) = alone() else {
        return;
    };
    command.args([
        "anticipate",
        "bench",
        "--rounds",
        "1",
        "--ios",
        "2",
        "--gaps",
        "0",
    ]);
    command.args(["--warm-up", "0", "--file-size", "1MiB", "--dir"]);
    command.arg(folder.path());
    let Some(bench) = json("without root", &mut command) else {
        return;
    };
    // Some containers have no asynchronous I/O.
    let mut compared = policies(&bench);
    compared.retain(|policy| *policy != "poll");
    assert_eq!(compared, ["as_is", "no_sleep"]);
    let skipped = &bench["skipped"];
    let mut skipped = skipped.as_array().unwrap().iter();
    assert!(skipped.any(|one| one["policy"] == "anticipate"), "{bench}");
    command.args(["--policies", "anticipate"]);
    let ended = run(&mut command);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
}

#[test]
fn it_waits_for_a_simulated_accelerator() {
    let test = "the stand-in for an accelerator";
    let Some(_alone) = alone() else {
        return;
    };
    let mut command = reveille();
    command.args(["anticipate", "bench", "--accelerator", "--rounds", "1"]);
    let Some(bench) = json(test, command.args(["--ios", "5"])) else {
        return;
    };
    assert_eq!(policies(&bench), ["as_is", "no_sleep", "anticipate"]);
    let rows = bench["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(row["waits"], 5, "{row}");
        // Five calls of at least 450 µs, the first one four times as long.
        assert!(
            row["run_ns"]["estimate"].as_f64() > Some(3_600_000.0),
            "{row}"
        );
    }
}

/// Waits until the condition is true.
fn until(what: &str, child: &mut Child, mut is_so: impl FnMut(&mut Child) -> bool) {
    let began = Instant::now();
    while !is_so(child) {
        if began.elapsed() > LONG {
            // Report the error; do not let it run on.
            let _ = child.kill();
            panic!("{what} does not happen");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does the process have an open file from this folder without a name?
fn has_nameless_file(child: &Child, folder: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{}/fd", child.id()));
    let files = files.into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| link.starts_with(folder) && link.to_string_lossy().ends_with("(deleted)"))
}

#[test]
fn an_interrupted_run_keeps_its_rounds_and_leaves_no_file() {
    let test = "an interrupted run";
    let Some(_alone) = alone() else {
        return;
    };
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = folder();
        let mut command = rounds(folder.path(), "200", "100");
        command.args(["--gaps", "10ms", "--json", "--policies", "no-sleep"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut has_ended = false;
        until("the file", &mut child, |child| {
            has_ended = child.try_wait().unwrap().is_some();
            has_ended || has_nameless_file(child, folder.path())
        });
        if has_ended {
            // An unsupported machine reports that; anything else fails.
            parsed(test, &child.wait_with_output().unwrap(), 3);
            return;
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        until("the end", &mut child, |child| {
            child.try_wait().unwrap().is_some()
        });
        let output = child.wait_with_output().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        if signal == Signal::SIGINT {
            assert_eq!(output.status.code(), Some(130), "{output:?}");
        }
    }
}

#[test]
fn rounds_completed_before_an_interruption_are_kept() {
    let test = "complete rounds";
    let Some(_alone) = alone() else {
        return;
    };
    let folder = folder();
    let out = folder.path().join("kept");
    let mut command = rounds(folder.path(), "200", "2");
    command.args([
        "--gaps",
        "200ms",
        "--json",
        "--policies",
        "no-sleep",
        "--out",
    ]);
    command.arg(&out);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A round takes about 1 s, and all of them at least 160 s.
    std::thread::sleep(Duration::from_secs(4));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    until("the end", &mut child, |child| {
        child.try_wait().unwrap().is_some()
    });
    let Some(bench) = parsed(test, &child.wait_with_output().unwrap(), 130) else {
        return;
    };
    assert_eq!(bench["ended"], "interrupted");
    let kept: Value = serde_json::from_slice(&fs::read(out.join("bench.json")).unwrap()).unwrap();
    let turns = kept["turns"].as_array().unwrap();
    // On a machine that takes more than 4 s for a round there is none, but never a partial one.
    assert!(turns.len().is_multiple_of(2) && turns.len() < 400);
    for pair in turns.chunks(2) {
        assert_eq!(pair[0]["round"], pair[1]["round"]);
        assert_ne!(pair[0]["policy"], pair[1]["policy"]);
    }
}

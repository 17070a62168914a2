//! `reveille top --json` and `--csv`: what scripts read.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::program::{as_nobody, reveille, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn json_is_an_object_per_line_and_refresh() {
    let lines = lines(reveille().args(["top", "--json", "--count", "2", "--interval", "200ms"]));
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let refresh: Value = serde_json::from_str(line).unwrap();
        assert_eq!(refresh["schema_version"], 1);
        let elapsed = refresh["elapsed_s"].as_f64().unwrap();
        assert!(elapsed > 0.1, "{elapsed}");
        assert!(!refresh["cpus"].as_array().unwrap().is_empty());
        assert!(refresh["own"]["cpu_percent"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn csv_is_a_heading_and_lines_of_seven_fields() {
    let lines = lines(reveille().args(["top", "--csv", "--count", "1", "--interval", "200ms"]));
    assert_eq!(lines[0], "time_unix_s,what,unit,name,command,figure,value");
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with(",unit,machine,,,online,1"))
    );
    for line in &lines {
        // Names with commas are quoted.
        let mut quoted = false;
        let commas = line.chars().filter(|&c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        assert_eq!(commas.count(), 6, "{line}");
    }
}

#[test]
fn without_root_it_shows_counts_and_names_the_missing_data() {
    let Some((_folder, mut nobody)) = as_nobody() else {
        return println!("skipped: top without root: this test needs root to give it up");
    };
    let lines = lines(nobody.args(["top", "--json", "--count", "1", "--interval", "200ms"]));
    let refresh: Value = serde_json::from_str(&lines[0]).unwrap();
    let notes = refresh["notes"].to_string();
    assert!(
        notes.contains("run as root") || notes.contains("built without BPF"),
        "{notes}"
    );
    assert_eq!(refresh["machine"]["wakeups_per_s"], Value::Null);
    assert!(
        !refresh["wakers"].as_array().unwrap().is_empty(),
        "/proc/interrupts is everybody's"
    );
}

#[test]
fn an_interrupted_stream_ends_after_a_whole_line() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut top = reveille();
        let top = top.args(["top", "--json", "--interval", "100ms"]);
        let mut child = top.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        for line in lines {
            serde_json::from_str::<Value>(&line.unwrap()).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut top = reveille();
    let top = top.args(["top", "--json", "--interval", "100ms"]);
    let mut child = top
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn wrong_use_is_one_line() {
    let wrong: [&[&str]; 4] = [
        &["--json", "--csv"],
        &["--interval", "5"],
        &["--interval", "1us"],
        &["--count", "0"],
    ];
    for flags in wrong {
        let ended = run(reveille().arg("top").args(flags));
        assert_eq!(
            (ended.code, ended.stderr.lines().count()),
            (2, 1),
            "{}",
            ended.stderr
        );
    }
}

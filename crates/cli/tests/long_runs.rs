//! What takes more than a minute says so first, also where standard error is no terminal.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::program::{reveille, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Part, Use, take_to_change};

/// The line that says how long the run takes; it is interrupted then. Without such a line it ends by itself.
fn announced(arguments: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = reveille();
    command.args(arguments).current_dir(folder.path());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut announced = None;
    for line in lines.map_while(Result::ok) {
        if announced.is_none() && line.contains("Ctrl-C ends it and keeps the results so far") {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
            announced = Some(line);
        }
    }
    child.wait().unwrap();
    announced
}

fn takes(words: &str, arguments: &[&str]) {
    let line = announced(arguments).unwrap_or_else(|| panic!("no line: {arguments:?}"));
    let begin = format!("reveille: {words}");
    assert!(line.starts_with(&begin), "{arguments:?}: {line}");
}

#[test]
fn a_run_of_more_than_a_minute_says_so_first() {
    let Some(_held) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    let measure = ["measure", "--probe", "user", "--no-report"];
    takes(
        "measuring takes up to 1m 1s;",
        &[&measure[..], &["--duration", "61s"]].concat(),
    );
    takes(
        "measuring takes at least 2m 2s;",
        &[&measure[..], &["--protocol", "sweep"]].concat(),
    );
    takes(
        "this takes about ",
        &[
            "model",
            "simulate",
            "--utilisation",
            "0.2",
            "--requests",
            "10000000000",
        ],
    );
    let test = "a_run_of_more_than_a_minute_says_so_first";
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: {test}: trial, cost, path: needs root");
    }
    let trial = ["trial", "--echo", "self", "--settings", "no-sleep"];
    takes(
        "this takes about 1m",
        &[&trial[..], &["--rounds", "15"]].concat(),
    );
    let of_init = ["cost", "--pid", "1", "--duration"];
    let ended = run(reveille().args(of_init).arg("10ms"));
    if ended.code == 3 {
        return println!("skipped: {test}: cost, path: {}", ended.stderr);
    }
    takes("this takes about 1m", &[&of_init[..], &["61s"]].concat());
    takes(
        "this takes about 1m",
        &["path", "--ping", "--duration", "61s"],
    );
}

//! `reveille anticipate`, from the command line.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::complains::complains;
use crate::elsewhere::elsewhere;
use crate::program::{as_nobody, reveille, run};
use reveille_alone::{Held, Part, Use, take};
use reveille_expect::{Refusal, Served, Waker};
use serde_json::Value;

/// The longest wait for an expected event, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn bad_input_gets_one_line() {
    for (arguments, words) in [
        (
            &["--device", "no-such-disk"][..],
            "no block device no-such-disk",
        ),
        (&["--pid", "99999999"], "no process 99999999"),
        (&["--cgroup", "no-such-group"], "no-such-group"),
        (&["--op", "erase"], "not an operation"),
        (&["--budget", "5"], "no unit; write 5%"),
        (&["--budget", "0%"], "budget"),
        (&["--budget", "200%"], "from 0% to 100%"),
        (&["--lead", "0s"], "lead"),
        (&["--lead", "1s"], "lead"),
        (&["--nap", "1s"], "nap"),
        (&["--clients", "0"], "clients"),
        (&["--clients", "10001"], "clients"),
        (&["--user-wakeups", "0"], "user-wakeups"),
        (&["--interval", "1ms"], "minimum 100ms"),
        (&["--result", "/no/such/result"], "/no/such/result"),
    ] {
        complains(reveille().arg("anticipate").args(arguments), 2, words);
    }
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere(folder.path());
    let by = ["anticipate", "--duration", "1s", "--result", &elsewhere];
    complains(reveille().args(by), 2, "CPU 0 has other idle states");
}

#[test]
fn without_permission_it_names_the_remedy() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_permission_it_names_the_remedy: it takes root to leave root");
        return;
    };
    let disks = reveille_anticipate::BlockDevice::all(&reveille_kernel::Root::default());
    if disks.is_empty() {
        println!("skipped: without_permission_it_names_the_remedy: there is no disk here");
        return;
    }
    complains(command.args(["anticipate", "--duration", "1s"]), 3, "root");
}

/// While no CPU goes offline; `None`, with a message, if anticipation is unavailable.
fn socket(test: &str) -> Option<((tempfile::TempDir, Held), String)> {
    let held = take(&[Use::Beside(Part::IdleStates)]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket").display().to_string();
    let tried =
        run(reveille().args(["anticipate", "--no-socket", "--duration", "100ms", "--json"]));
    match tried.code {
        0 => Some(((folder, held), socket)),
        _ => {
            println!("skipped: {test}: {}", tried.stderr.trim());
            None
        }
    }
}

/// Ends with the test, whatever its outcome.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running engine, until it is stopped.
fn started(socket: &str, flags: &[&str]) -> Running {
    let mut engine = reveille()
        .args(["anticipate", "--socket", socket])
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = engine.stderr.take().unwrap();
    let engine = Running(engine);
    let mut said = String::new();
    BufReader::new(stderr).read_line(&mut said).unwrap();
    assert!(said.contains("until Ctrl-C"), "{said}");
    engine
}

#[test]
fn it_reports_its_statistics_and_leaves_no_socket() {
    let Some((_folder, socket)) = socket("it_reports_its_statistics_and_leaves_no_socket") else {
        return;
    };
    let flags = [
        "anticipate",
        "--duration",
        "500ms",
        "--json",
        "--socket",
        &socket,
    ];
    let done = reveille().args(flags).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(said["elapsed_s"].as_f64().unwrap() >= 0.5);
    assert!(!said["cpus"].as_array().unwrap().is_empty());
    assert!(!Path::new(&socket).exists());
}

#[test]
fn its_markdown_statistics_fit_an_issue() {
    let Some((_folder, socket)) = socket("its_markdown_statistics_fit_an_issue") else {
        return;
    };
    let flags = ["anticipate", "--duration", "100ms", "--markdown"];
    let done = reveille().args(flags).args(["--socket", &socket]).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.starts_with("## Anticipatory wake-up\n\n**"), "{text}");
}

#[test]
fn with_an_interval_it_reports_line_by_line() {
    let Some((_folder, socket)) = socket("with_an_interval_it_reports_line_by_line") else {
        return;
    };
    let mut flags = vec!["anticipate", "--duration", "3s", "--json"];
    flags.extend(["--interval", "200ms", "--socket", &socket]);
    let done = reveille().args(flags).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let lines = said.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["elapsed_s"].as_f64().unwrap()
    });
    let elapsed: Vec<f64> = lines.collect();
    assert!(elapsed.len() >= 2, "{elapsed:?}");
    assert!(elapsed.is_sorted(), "{elapsed:?}");
}

#[test]
fn a_second_engine_leaves_the_first_its_socket() {
    let Some((_folder, socket)) = socket("a_second_engine_leaves_the_first_its_socket") else {
        return;
    };
    let mut first = started(&socket, &[]);
    complains(
        reveille().args(["anticipate", "--socket", &socket]),
        3,
        "--no-socket",
    );
    assert!(Path::new(&socket).exists());
    assert_eq!(first.0.try_wait().unwrap(), None);
    let pid = nix::unistd::Pid::from_raw(first.0.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let began = Instant::now();
    while first.0.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(first.0.wait().unwrap().success());
    assert!(!Path::new(&socket).exists());
}

#[test]
fn applications_may_request_what_the_budget_allows() {
    let Some((_folder, socket)) = socket("applications_may_request_what_the_budget_allows") else {
        return;
    };
    let _engine = started(&socket, &["--budget", "4%"]);
    // On a busy machine the engine may answer later than within a client's second.
    let began = Instant::now();
    let mut waker = loop {
        let waker = Waker::connect_to(Path::new(&socket));
        match waker.served() {
            Served::ByEngine => break waker,
            other => assert!(began.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    assert_eq!(waker.limits().awake_ppm, 40_000);
    // The process may request 10 ms at once, and the engine's own budget holds what accrues in 100
    // ms: 4 ms, for the lead and half of a window.
    let later = Instant::now() + Duration::from_secs(5);
    let mut refused = |window| {
        let _ = waker.expect(later, window);
        assert!(waker.wait_for_answers(PATIENCE));
        waker.counts().refused(Refusal::Budget)
    };
    assert_eq!(refused(Duration::from_millis(9)), 1);
    assert_eq!(refused(Duration::from_millis(6)), 1);
    assert_eq!(refused(Duration::from_millis(6)), 2);
}

/// The program with this file descriptor limit, without permission to raise it.
fn with_descriptors(soft: &str, hard: &str) -> Command {
    let mut command = Command::new("setpriv");
    let program = reveille();
    command
        .args(["--bounding-set", "-sys_resource", "prlimit"])
        .arg(format!("--nofile={soft}:{hard}"))
        .arg(program.get_program())
        .envs(
            program
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
    command
}

#[test]
fn the_needed_descriptors_are_provided_or_named_in_the_refusal() {
    let test = "the_needed_descriptors_are_provided_or_named_in_the_refusal";
    let Some((_folder, socket)) = socket(test) else {
        return;
    };
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: {test}: no setpriv here");
        return;
    }
    let flags = ["anticipate", "--duration", "100ms", "--socket", &socket];
    let mut few = with_descriptors("40", "20000");
    let raised = run(few.args(flags));
    assert_eq!(raised.code, 0, "{}", raised.stderr);
    let mut many = with_descriptors("40", "20000");
    many.args(flags).args(["--clients", "10000"]);
    complains(&mut many, 3, "lower --clients");
}

/// The engine's loaded BPF programs.
fn loaded() -> usize {
    let programs = libbpf_rs::query::ProgInfoIter::default();
    programs
        .filter(|program| program.name == "on_issue")
        .count()
}

#[test]
fn kill_9_leaves_nothing_in_the_kernel() {
    let Some((_folder, socket)) = socket("kill_9_leaves_nothing_in_the_kernel") else {
        return;
    };
    let mut engine = started(&socket, &[]);
    let before = loaded();
    assert!(before >= 1, "it is seen where it is there");
    engine.0.kill().unwrap();
    engine.0.wait().unwrap();
    let began = Instant::now();
    // Other tests start and stop engines at the same time.
    while loaded() > 0 && loaded() >= before {
        assert!(began.elapsed() < PATIENCE, "its programs stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The next one takes over the socket.
    let flags = [
        "anticipate",
        "--duration",
        "100ms",
        "--json",
        "--socket",
        &socket,
    ];
    let next = run(reveille().args(flags));
    assert_eq!(next.code, 0, "{}", next.stderr);
}

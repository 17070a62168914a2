//! `reveille top` in its own terminal: it shows data, obeys keys, and restores the terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::session::{PATIENCE, Session};
use crate::held::{is_loaded, programs_of};
use crate::program::{as_nobody, reveille, run};

fn top(arguments: &[&str]) -> Session {
    Session::start(reveille().arg("top").args(arguments))
}

/// It ended successfully, and the terminal is restored.
fn ends_well(mut top: Session) {
    let status = top.ended();
    until_left(&top);
    assert_eq!(status.code(), Some(0), "{}", top.sent());
    assert!(top.is_restored());
    let unknown = top.seen(|screen| screen.unknown.clone());
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The last bytes may still be in the terminal.
fn until_left(top: &Session) {
    let end = Instant::now() + PATIENCE;
    // It left the alternate screen, and the cursor is visible again.
    while !["\x1b[?1049l", "\x1b[?25h"]
        .iter()
        .all(|left| top.sent().contains(left))
    {
        assert!(Instant::now() < end, "{}", top.sent());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn q_quits_and_restores_the_terminal() {
    let mut top = top(&[]);
    top.until_shown("wake-ups");
    top.press("q");
    ends_well(top);
}

#[test]
fn a_signal_quits() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = top(&[]);
        top.until_shown("reveille");
        top.send(signal);
        ends_well(top);
    }
}

#[test]
fn keys_change_the_view_at_once() {
    // One refresh in an hour: changes are due to the keys.
    let mut top = top(&["--interval", "1h"]);
    top.until_shown("machine");
    top.press("2");
    top.until_shown("woken");
    top.press("h");
    top.until_shown("quit");
    top.press("\x03");
    ends_well(top);
}

#[test]
fn the_view_follows_the_terminal_size() {
    // One refresh in an hour: what is drawn after a change of size is due to it.
    let mut top = top(&["--interval", "1h"]);
    top.until_shown("wake-ups");
    // The keys are being read when the size changes: none may be lost.
    top.press("v");
    top.until_shown("mean stay");
    while !top.sent().is_empty() {
        top.forget();
        std::thread::sleep(Duration::from_millis(1500));
    }
    for (columns, rows) in [(20, 5), (1, 1), (200, 60)] {
        top.forget();
        top.resize(columns, rows);
        let end = Instant::now() + PATIENCE;
        while top.sent().is_empty() {
            assert!(Instant::now() < end, "nothing is drawn");
            std::thread::sleep(Duration::from_millis(20));
        }
        top.until(&format!("{columns} x {rows}"), |screen| {
            columns < 20 || screen.text().contains("awake")
        });
        assert_eq!(top.seen(|screen| screen.wraps), 0, "{columns} x {rows}");
    }
    top.press("q");
    ends_well(top);
}

#[test]
fn a_closed_terminal_quits() {
    let mut top = top(&[]);
    top.until_shown("reveille");
    top.close();
    let ended = top.ended();
    assert_eq!(ended.code(), Some(0), "{ended}");
}

#[test]
fn kill_9_leaves_nothing_in_the_kernel() {
    let mut top = top(&[]);
    top.until_shown("wake-ups");
    let loaded = programs_of(top.child.id());
    if loaded.is_empty() {
        println!("skipped: kill_9_leaves_nothing_in_the_kernel: no BPF here");
        return;
    }
    top.send(Signal::SIGKILL);
    top.ended();
    // The kernel frees them once all its CPUs have moved on.
    let end = Instant::now() + PATIENCE;
    while is_loaded(&loaded) {
        assert!(Instant::now() < end, "{loaded:?} are there still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn control_z_releases_the_terminal_until_resumed() {
    let mut top = top(&[]);
    top.until_shown("wake-ups");
    top.press("\x1a");
    until_left(&top);
    top.forget();
    top.send(Signal::SIGCONT);
    top.until_shown("machine");
    top.press("q");
    ends_well(top);
}

#[test]
fn without_root_the_missing_data_is_named() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_root_the_missing_data_is_named: not root, so all tests are");
        return;
    };
    let mut top = Session::start(command.arg("top"));
    top.until_shown("note:");
    top.press("h");
    top.until_shown("quit");
    top.press("xq");
    ends_well(top);
}

#[test]
fn a_count_quits() {
    let top = top(&["--count", "2", "--interval", "250ms"]);
    ends_well(top);
}

#[test]
fn without_a_terminal_it_prints_tables() {
    let output = reveille()
        .args(["top", "--count", "2", "--interval", "250ms"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("machine").count() / 2, 2, "{said}");
    assert!(!said.contains('\x1b'), "{said}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let line = format!(
        "{} top --interval 100ms | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_reveille")
    );
    let ended = run(Command::new("bash").args(["-c", &line]));
    assert_eq!((ended.code, &*ended.stderr), (0, ""));
}

#[test]
fn wrong_use_is_one_line() {
    for arguments in [
        &["--interval", "1"][..],
        &["--interval", "1ms"],
        &["--count", "0"],
        &["--json", "--csv"],
    ] {
        let ended = run(reveille().arg("top").args(arguments));
        assert_eq!(ended.code, 2, "{arguments:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

//! A signal that the program was started to ignore stays ignored: SIGHUP under `nohup`, SIGINT in the
//! background of a shell.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

use crate::program::reveille;
use crate::{alone, state_of_cpu_0};

/// What is waited for comes within this, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn ignoring_hangups_and_interrupts(command: &mut Command) -> &mut Command {
    let before_exec = || {
        for one in [Signal::SIGHUP, Signal::SIGINT] {
            // SAFETY: to ignore is no handler of ours.
            unsafe { signal(one, SigHandler::SigIgn) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) is called.
    unsafe { command.pre_exec(before_exec) }
}

/// Is the signal in that set of the process, `SigIgn` or `SigCgt` (proc(5))? False where it is gone.
fn has(pid: u32, set: &str, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix(set)?.strip_prefix(':'));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    mask >> (signal as i32 - 1) & 1 == 1
}

/// Waits until it catches SIGTERM; what it said where it has ended instead.
fn wait_for_handlers(child: &mut Child) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while !has(child.id(), "SigCgt", Signal::SIGTERM) {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
            return Err(format!("{status}: {}", said.trim()));
        }
        assert!(Instant::now() < until, "it never caught SIGTERM");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Starts it, sends it both signals, which must not end it, and ends it.
fn goes_on(arguments: &[&str], code: i32) {
    let what = arguments.join(" ");
    let mut command = reveille();
    ignoring_hangups_and_interrupts(command.args(arguments));
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    if let Err(why) = wait_for_handlers(&mut child) {
        // This machine cannot, or there is nothing to anticipate.
        assert!(why.contains("exit status: 3"), "{what}: {why}");
        println!("skipped: {what}: {why}");
        return;
    }
    let pid = Pid::from_raw(child.id() as i32);
    for one in [Signal::SIGHUP, Signal::SIGINT] {
        kill(pid, one).unwrap();
    }
    // Time for it to end, if it does.
    std::thread::sleep(Duration::from_millis(300));
    let ended = child.try_wait().unwrap();
    assert_eq!(ended, None, "{what}");
    for one in [Signal::SIGHUP, Signal::SIGINT] {
        assert!(
            has(child.id(), "SigIgn", one),
            "{what} does not ignore {one}"
        );
    }
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{what}");
}

#[test]
fn a_signal_that_was_ignored_at_the_start_ends_no_command() {
    let _alone = alone();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let folder = folder.path().to_str().unwrap();
    let result = Path::new(folder).join("result");
    let result = result.to_str().unwrap();
    goes_on(&["top", "--json", "--interval", "1s"], 0);
    goes_on(&["trial", "--serve", "127.0.0.1:0"], 0);
    goes_on(
        &[
            "measure",
            "--probe",
            "user",
            "--duration",
            "1h",
            "--no-report",
            "--out",
            result,
        ],
        130,
    );
    goes_on(
        &[
            "model",
            "simulate",
            "--requests",
            "1000000000",
            "--replications",
            "1",
        ],
        130,
    );
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: a_signal_that_was_ignored_at_the_start_ends_no_command: not root");
        return;
    }
    goes_on(&["cost", "--all", "--duration", "1h"], 130);
    goes_on(&["path", "--ping", "--duration", "1h"], 130);
    goes_on(&["hold", "--latency", "0", "--cpu", "0"], 0);
    if let Some(state) = state_of_cpu_0() {
        goes_on(&["limit", "--deepest", &state, "--cpu", "0"], 0);
    }
    goes_on(
        &[
            "trial",
            "--echo",
            "self",
            "--settings",
            "no-sleep",
            "--rounds",
            "200",
        ],
        130,
    );
    goes_on(&["anticipate", "--no-socket"], 0);
    let bench = [
        "anticipate",
        "bench",
        "--file-size",
        "1MiB",
        "--dir",
        folder,
        "--rounds",
        "200",
    ];
    goes_on(
        &[&bench[..], &["--policies", "as-is,no-sleep"]].concat(),
        130,
    );
    // And of a command, which ignores them as well.
    goes_on(
        &[
            "hold",
            "--latency",
            "0",
            "--cpu",
            "0",
            "--",
            "sleep",
            "1000",
        ],
        143,
    );
}

//! A signal that was ignored when the program started stays ignored: SIGHUP under `nohup`, SIGINT
//! in the background of a shell. Others that would end it at once, with settings left changed, end
//! it regularly or are errors.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

use super::streams::settings;
use super::{alone, state_of_cpu_0};
use crate::complains::complains;
use crate::program::{reveille, run, with_own_journal};

/// The longest wait for an expected event, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn ignoring_hangups_and_interrupts(command: &mut Command) -> &mut Command {
    let before_exec = || {
        for one in [Signal::SIGHUP, Signal::SIGINT] {
            // SAFETY: SIG_IGN is no handler.
            unsafe { signal(one, SigHandler::SigIgn) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) is called.
    unsafe { command.pre_exec(before_exec) }
}

/// Is the signal in that set of the process, `SigIgn` or `SigCgt` (proc(5))? False if the process
/// is gone.
fn has(pid: u32, set: &str, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix(set)?.strip_prefix(':'));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    mask >> (signal as i32 - 1) & 1 == 1
}

/// Waits until it catches SIGTERM; its message if it has ended instead.
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
        // This machine cannot run it, or has nothing to anticipate.
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

/// Limits the size of the files that the command writes, bytes, as `ulimit -f` does.
fn limiting_files(mut command: Command, bytes: u64) -> Command {
    use nix::sys::resource::{Resource, setrlimit};
    let before_exec = move || Ok(setrlimit(Resource::RLIMIT_FSIZE, bytes, bytes)?);
    // SAFETY: between fork and exec only setrlimit(2) is called.
    unsafe { command.pre_exec(before_exec) };
    command
}

#[test]
fn a_file_size_limit_is_an_error_and_settings_are_restored() {
    let Some(_alone) = alone() else {
        return;
    };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let page = folder.path().join("sweep.csv");
    let output = std::fs::File::create(&page).unwrap();
    let mut command = limiting_files(reveille(), 100);
    command.args(["model", "sweep", "--csv"]).stdout(output);
    complains(&mut command, 1, "standard output: File too large");

    if !nix::unistd::geteuid().is_root() || state_of_cpu_0().is_none() {
        return println!("skipped: a_file_size_limit...: not root, or no idle states");
    }
    let before = settings();
    let result = folder.path().join("result");
    let mut command = limiting_files(with_own_journal(reveille()), 8192);
    command.args(["measure", "--cpu", "0", "--probe", "user", "--each-state"]);
    command.args(["--duration", "20s", "--no-report", "--out"]);
    let ended = run(command.arg(&result));
    assert_eq!(settings(), before);
    // A CPU that is hardly ever idle gives too few datapoints to reach the limit.
    let rows = reveille_results::open(&result).map(|result| result.columns.rows);
    if ended.stderr.contains("not idle at the launch")
        || ended.code == 0 && rows.as_ref().is_ok_and(|rows| *rows < 100)
    {
        return println!("skipped: a_file_size_limit...: CPU 0 is busy");
    }
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
    // The earlier content is kept.
    let kept = rows.unwrap();
    assert!(kept > 10, "{kept}");
}

#[test]
fn after_any_end_a_setting_is_restored_and_the_command_is_signalled() {
    let test = "after_any_end_a_setting_is_restored_and_the_command_is_signalled";
    let Some(_alone) = alone() else {
        return;
    };
    let held = ["hold", "--latency", "0", "--cpu", "0"];
    if !nix::unistd::geteuid().is_root()
        || run(reveille().args(held).args(["--", "true"])).code != 0
    {
        return println!("skipped: {test}: nothing can be held");
    }
    let before = settings();
    let deadly = "XCPU USR1 USR2 ALRM VTALRM PROF IO PWR STKFLT QUIT HUP ABRT TRAP SYS";
    let named = |one| format!("SIG{one}").parse::<Signal>().unwrap() as i32;
    let real_time = [nix::libc::SIGRTMIN(), nix::libc::SIGRTMAX()];
    for one in deadly.split(' ').map(named).chain(real_time) {
        let command = ["--", "sh", "-c", "echo begun; exec sleep 1000"];
        for (command, code) in [(None, 0), (Some(command), 128 + one)] {
            let mut child = with_own_journal(reveille())
                .args(held)
                .args(command.iter().flatten())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // Both report when the setting is in force.
            let said = BufReader::new(child.stdout.as_mut().unwrap())
                .lines()
                .next();
            assert!(said.is_some(), "{command:?}");
            // Without cpuidle a thread keeps the CPU awake.
            assert_eq!(settings() != before, state_of_cpu_0().is_some(), "{said:?}");
            // SAFETY: it sends a signal to a process that this test started. nix has no real-time
            // signals.
            assert_eq!(unsafe { nix::libc::kill(child.id() as i32, one) }, 0);
            let ended = child.wait().unwrap();
            assert_eq!(settings(), before, "{one}: {ended}");
            assert_eq!(ended.code(), Some(code), "{one}: {ended}");
        }
    }
    // A timer of the caller's; the kernel sends its signal to this process alone.
    let mut command = with_own_journal(reveille());
    let before_exec = || {
        // SAFETY: the call takes a number.
        unsafe { nix::libc::alarm(1) };
        Ok(())
    };
    // SAFETY: between fork and exec only alarm(2) is called.
    unsafe { command.pre_exec(before_exec) };
    let status = command.args(held).args(["--", "sleep", "20"]).status();
    assert_eq!(status.unwrap().code(), Some(128 + Signal::SIGALRM as i32));
}

#[test]
fn a_signal_ignored_at_the_start_ends_no_command() {
    let Some(_alone) = alone() else {
        return;
    };
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
        println!("skipped: a_signal_ignored_at_the_start_ends_no_command: not root");
        return;
    }
    goes_on(&["cost", "--all-tasks", "--duration", "1h"], 130);
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
    // And from a command, which ignores them as well.
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

//! Standard streams that are closed, full, or without a reader.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::libc;
use reveille_alone::{Held, Part, Use, take};
use reveille_results::{Datapoint, First, ResultFolder, Source, WokenBy, read};

use super::{alone, state_of_cpu_0};
use crate::complains::complains;
use crate::program::{Ended, own_journal, reveille, run, with_own_journal};

/// The writing end of a pipe without a reader.
fn unread() -> Stdio {
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    OwnedFd::from(writes).into()
}

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// As with `N>&-` in a shell.
fn closing(mut command: Command, descriptors: &'static [i32]) -> Command {
    let before_exec = move || {
        for &descriptor in descriptors {
            // SAFETY: the call closes a standard stream that nothing here uses afterwards.
            unsafe { libc::close(descriptor) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec only close(2) is called.
    unsafe { command.pre_exec(before_exec) };
    command
}

fn code(command: &mut Command) -> i32 {
    command.status().unwrap().code().unwrap_or(-1)
}

/// A result of 300 datapoints.
fn result(folder: &Path) {
    let folder = ResultFolder::create(folder).unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    for time_ns in 0..300 {
        let datapoint = Datapoint {
            time_ns,
            cpu: 0,
            source: Source::Timer,
            woken_by: WokenBy::Interrupt,
            requested_state_index: Some(1),
            requested_state: Some("C1".into()),
            launch_distance_ns: 1_000_000,
            launch_error_ns: None,
            launch_clock: None,
            silent_time_ns: None,
            wake_latency_ns: 1000 + time_ns * 7 % 100,
            interrupt_latency_ns: None,
            first: First::AfterIdle,
            smi_count: None,
            nmi_count: None,
            interrupt_count: None,
            softirq_count: None,
            round: None,
            residency_percent: vec![],
        };
        writer.push(&datapoint).unwrap();
    }
    writer.finish().unwrap();
}

/// A trial changes settings; others tell of them.
fn uses(arguments: &[String]) -> Option<Held> {
    match arguments[0].as_str() {
        "trial" => alone(),
        "states" | "doctor" | "hold" | "anticipate" => Some(take(&[Use::Beside(Part::IdleStates)])),
        _ => Some(take(&[])),
    }
}

/// Every command that writes to standard output itself, with its requirements; `None` if this
/// machine cannot run it.
fn that_print(folder: &Path) -> Vec<Vec<String>> {
    let kept = folder.join("result");
    result(&kept);
    let kept = kept.to_str().unwrap();
    let log = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../resume/tests/logs/6.12-dmesg.txt"
    );
    let mut all = Vec::new();
    for line in [
        "states",
        "states --json",
        "doctor",
        "restore",
        "top --count 1 --interval 100ms",
        "top --json --count 1 --interval 100ms",
        "top --csv --count 1 --interval 100ms",
        "hold --latency 0 --dry-run",
        "hold --latency 0 --dry-run --json",
        "trial --dry-run --echo self",
        "trial --dry-run --echo self --json",
        "trial --settings no-sleep --settle 0s --rounds 1 -- true",
        "trial --settings no-sleep --settle 0s --rounds 1 --json -- true",
        "cost --all-tasks --duration 100ms",
        "cost --all-tasks --duration 100ms --json",
        "cost --json -- sh -c 'exit_7'",
        "anticipate --no-socket --duration 100ms",
        "anticipate --no-socket --duration 100ms --json",
        "model sweep",
        "model sweep --json",
        "model sweep --csv",
        "model run --utilisation 0.2",
        "model simulate --requests 1000 --replications 2",
        "model simulate --requests 1000 --replications 2 --json",
        "report RESULT",
        "report RESULT --out -",
        "export RESULT --csv",
        "advise RESULT --budget 1ms",
        "advise RESULT --budget 1ms --json",
        "resume analyze LOG",
        "resume analyze LOG --json",
        "measure --help",
        "--version",
    ] {
        let word = |word: &str| match word {
            "RESULT" => kept.to_owned(),
            "LOG" => log.to_owned(),
            "'exit_7'" => "exit 7".to_owned(),
            word => word.to_owned(),
        };
        all.push(line.split(' ').map(word).collect());
    }
    all
}

#[test]
fn a_closed_pipe_changes_no_exit_code_and_a_full_disk_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in that_print(folder.path()) {
        let _uses = uses(&arguments);
        let run_with = |stdout: Stdio| -> Ended { run(reveille().args(&arguments).stdout(stdout)) };
        let as_usual = run_with(Stdio::null());
        if as_usual.code == 3 {
            println!("skipped: {arguments:?}: {}", as_usual.stderr.trim());
            continue;
        }
        let unread = run_with(unread());
        assert_eq!(
            unread.code, as_usual.code,
            "{arguments:?}: {}",
            unread.stderr
        );
        let lines = |ended: &Ended| ended.stderr.lines().count();
        assert_eq!(
            lines(&unread),
            lines(&as_usual),
            "{arguments:?}: {}",
            unread.stderr
        );
        let full = run_with(full());
        assert_eq!(full.code, 1, "{arguments:?}: {}", full.stderr);
        let last = full.stderr.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("reveille: standard output: No space left"),
            "{arguments:?}: {}",
            full.stderr
        );
    }
}

#[test]
fn closed_streams_change_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in that_print(folder.path()) {
        let _uses = uses(&arguments);
        let as_usual = code(
            reveille()
                .args(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        for closed in [&[1][..], &[2], &[0, 1, 2]] {
            let mut command = closing(reveille(), closed);
            let command = command
                .args(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            assert_eq!(code(command), as_usual, "{arguments:?} without {closed:?}");
        }
        let mut command = reveille();
        let command = command
            .args(&arguments)
            .stdout(Stdio::null())
            .stderr(unread());
        assert_eq!(
            code(command),
            as_usual,
            "{arguments:?} without a reader of standard error"
        );
    }
}

#[test]
fn a_commands_exit_code_is_passed_on_if_standard_error_is_closed() {
    let Some(_alone) = alone() else {
        return;
    };
    let test = "a_commands_exit_code_is_passed_on_if_standard_error_is_closed";
    for first in ["cost", "hold --latency 0 --cpu 0"] {
        let arguments: Vec<&str> = first
            .split(' ')
            .chain(["--", "sh", "-c", "exit 7"])
            .collect();
        let as_usual = run(reveille().args(&arguments));
        if as_usual.code == 3 {
            println!("skipped: {test}: {first}: {}", as_usual.stderr.trim());
            continue;
        }
        assert_eq!(
            code(reveille().args(&arguments).stderr(unread())),
            7,
            "{first}"
        );
        assert_eq!(
            code(closing(reveille(), &[0, 1, 2]).args(&arguments)),
            7,
            "{first}"
        );
    }
}

/// What a limit or a bound on CPU 0 may change, and this test's journal.
pub fn settings() -> Vec<String> {
    let cpu = "/sys/devices/system/cpu/cpu0";
    let mut all: Vec<String> = (0..10)
        .map(|state| format!("{cpu}/cpuidle/state{state}/disable"))
        .chain([format!("{cpu}/power/pm_qos_resume_latency_us")])
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .collect();
    let pages = std::fs::read_dir(own_journal()).into_iter().flatten();
    all.extend(pages.map(|page| page.unwrap().path().display().to_string()));
    all.sort();
    all
}

#[test]
fn a_setting_is_restored_if_its_report_has_no_reader() {
    let test = "a_setting_is_restored_if_its_report_has_no_reader";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(state) = state_of_cpu_0().filter(|_| nix::unistd::geteuid().is_root()) else {
        println!("skipped: {test}: not root, or no cpuidle driver");
        return;
    };
    let limit = ["limit", "--deepest", &state, "--cpu", "0"];
    let hold = ["hold", "--latency", "0", "--cpu", "0"];
    let before = settings();
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).unwrap();
    // Under haltpoll a limit has no effect, and none is kept.
    let is_kept = idle.governor.as_deref() != Some("haltpoll");
    let kept = [
        [&limit[..], &["--keep"]].concat(),
        [&limit[..], &["--keep", "--json"]].concat(),
    ];
    let others = [
        limit.to_vec(),
        hold.to_vec(),
        [&hold[..], &["--json"]].concat(),
    ];
    let kept = kept.into_iter().filter(|_| is_kept);
    for arguments in kept.chain(others) {
        let arguments = arguments.as_slice();
        for (stdout, why) in [(unread(), "Broken pipe"), (full(), "No space left")] {
            let mut command = with_own_journal(reveille());
            complains(command.args(arguments).stdout(stdout), 1, why);
            assert_eq!(settings(), before, "{arguments:?}: {why}");
        }
        let mut command = with_own_journal(reveille());
        let command = command.args(arguments).stdout(full()).stderr(unread());
        assert_eq!(
            (code(command), settings()),
            (1, before.clone()),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_damaged_result_gets_one_line_even_if_the_parquet_crate_panics() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("result");
    result(&folder);
    let file = folder.join("datapoints.parquet");
    let whole = std::fs::read(&file).unwrap();
    let damaged = (0..whole.len()).flat_map(|at| [0, 255, whole[at] ^ 1].map(|value| (at, value)));
    let damaged = damaged.map(|(at, value)| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    });
    // A panic's message, which no error of the parquet crate contains.
    let panics = |bytes: &Vec<u8>| {
        let why = read::read_parquet(bytes.clone().into()).err();
        why.is_some_and(|why| why.to_string().contains("assertion failed"))
    };
    let Some(bytes) = damaged.into_iter().find(panics) else {
        println!(
            "skipped: a_damaged_result_gets_one_line...: no byte makes the parquet crate panic"
        );
        return;
    };
    std::fs::write(&file, bytes).unwrap();
    complains(
        reveille().args(["export", "--csv"]).arg(&folder),
        1,
        "is damaged",
    );
}

//! `reveille measure` as a user meets it: what bad input gets, what an interrupted run keeps.

mod program;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use program::{Ended, as_nobody, reveille, run};

/// Two measurements at a time would be each other's noise.
static ALONE: Mutex<()> = Mutex::new(());

fn measure(out: &Path, flags: &[&str]) -> Ended {
    let mut command = reveille();
    command.arg("measure").arg("--out").arg(out).args(flags);
    run(&mut command)
}

fn has_bpf() -> bool {
    reveille_wake::try_bpf(0).is_ok()
}

#[test]
fn what_cannot_be_meant_is_one_line_with_exit_code_2_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    for (flags, word) in [
        (["--cpu", "4000"], "no such CPU"),
        (["--state", "C99"], "C99"),
        (["--distance", "8ms..100us"], "upside down"),
        (["--distance", "0us..100us"], "above 0"),
        (["--distance", "1ns..100us"], "can do"),
        (["--distance", "1ms..100s"], "can do"),
        (["--distance", "far"], "not a duration"),
        (["--duration", "0s"], "nothing to measure"),
        (["--datapoints", "0"], "nothing to measure"),
        (["--source", "card"], "card"),
        (["--sweep-factor", "1"], "factor"),
    ] {
        let mut flags = flags.to_vec();
        if flags[0] == "--sweep-factor" {
            flags.extend(["--protocol", "sweep"]);
        }
        let ended = measure(&out, &flags);
        assert_eq!(ended.code, 2, "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(word), "{flags:?}: {}", ended.stderr);
        assert_eq!(
            ended.stderr.lines().count(),
            1,
            "{flags:?}: {}",
            ended.stderr
        );
        assert!(!out.exists(), "{flags:?}");
    }
}

#[test]
fn a_folder_that_holds_a_result_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("result.json"), "{}").unwrap();
    let ended = measure(folder.path(), &["--duration", "1s"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("holds a result already"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(
        fs::read_to_string(folder.path().join("result.json")).unwrap(),
        "{}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_run_keeps_what_it_gathered() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let mut child = reveille()
        .args([
            "measure",
            "--duration",
            "60s",
            "--distance",
            "200us..1ms",
            "--out",
        ])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Until a few datapoints are there.
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(100));
        let partial = fs::read_dir(&out).into_iter().flatten().flatten();
        let size = |entry: fs::DirEntry| entry.metadata().map_or(0, |meta| meta.len());
        if partial.map(size).max().unwrap_or(0) > 20_000 {
            break;
        }
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let loaded = reveille_dataset::open(&out).unwrap();
    assert!(
        loaded.columns.rows > 20,
        "{} datapoints",
        loaded.columns.rows
    );
    assert_eq!(loaded.description.counts.kept, loaded.columns.rows as u64);
    assert!(out.join("datapoints.parquet").exists());
}

#[test]
fn without_root_a_thread_measures_and_says_so() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((folder, mut command)) = as_nobody() else {
        println!(
            "skipped: without_root_a_thread_measures_and_says_so: needs root to become nobody"
        );
        return;
    };
    let out = folder.path().join("result");
    command.args([
        "measure",
        "--duration",
        "1s",
        "--distance",
        "200us..1ms",
        "--json",
        "--out",
    ]);
    let ended = run(command.arg(&out));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("user probe"), "{}", ended.stderr);
    let description = reveille_dataset::open(&out).unwrap().description;
    assert_eq!(
        description.probe,
        reveille_dataset::description::Probe::User
    );
    assert!(description.counts.kept > 100, "{:?}", description.counts);
    assert!(
        description
            .notes
            .iter()
            .any(|note| note.contains("scheduling"))
    );
}

#[test]
fn bpf_that_is_asked_for_and_cannot_be_had_is_exit_code_3() {
    let Some((folder, mut command)) = as_nobody() else {
        println!("skipped: bpf_that_is_asked_for_and_cannot_be_had: needs root to become nobody");
        return;
    };
    command.args(["measure", "--probe", "bpf", "--duration", "1s", "--out"]);
    let ended = run(command.arg(folder.path().join("result")));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("--probe user"), "{}", ended.stderr);
}

#[test]
fn a_full_disk_ends_the_run_with_one_line_and_keeps_the_datapoints() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let disk = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| {
        let done = Command::new("mount")
            .args(arguments)
            .arg(disk.path())
            .stderr(Stdio::null())
            .status();
        done.is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        println!("skipped: a_full_disk_ends_the_run: needs root to mount a small file system");
        return;
    }
    let out = disk.path().join("result");
    let ended = measure(&out, &["--duration", "30s", "--distance", "100us..300us"]);
    let loaded = reveille_dataset::open(&out);
    let unmounted = Command::new("umount").arg(disk.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    assert!(loaded.unwrap().columns.rows > 100);
}

#[test]
fn a_run_leaves_no_journal_and_no_program_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    if !has_bpf() {
        println!("skipped: a_run_leaves_no_journal_and_no_program_behind: no BPF here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ended = measure(&folder.path().join("result"), &["--duration", "1s"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let journals = fs::read_dir(reveille_machine::journal::FOLDER)
        .into_iter()
        .flatten()
        .count();
    assert_eq!(journals, 0);
    let ours = || {
        let programs = libbpf_rs::query::ProgInfoIter::default();
        programs
            .filter(|program| program.name.to_string_lossy() == "on_cpu_idle")
            .count()
    };
    // The kernel frees a program some time after its last user is gone.
    let begun = std::time::Instant::now();
    while ours() > 0 && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ours(), 0);
}

#[test]
fn what_a_held_up_reader_misses_is_counted() {
    use nix::sys::signal::{Signal, kill};

    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    if !has_bpf() {
        println!("skipped: what_a_held_up_reader_misses_is_counted: no BPF here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let mut child = reveille()
        .args([
            "measure",
            "--probe",
            "bpf",
            "--duration",
            "8s",
            "--distance",
            "50us..100us",
        ])
        .args(["--no-report", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    // Past the characterisation; then the kernel side goes on alone until the ring is full.
    std::thread::sleep(Duration::from_secs(5));
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let counts = reveille_dataset::open(&out).unwrap().description.counts;
    assert!(counts.ring_buffer_full > 0, "{counts:?}");
    let accounted = counts.kept + counts.dropped.values().sum::<u64>();
    assert!(accounted.abs_diff(counts.launched) <= 1, "{counts:?}");
}

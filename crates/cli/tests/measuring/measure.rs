//! `reveille measure` as a user meets it: the response to bad input, the data of an interrupted
//! run.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::held::{is_loaded, programs_of};
use crate::load::Load;
use crate::meter;
use crate::program::{Ended, as_nobody, reveille, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take, while_spinning};
use reveille_kernel::{Idle, Root};

/// What others do with CPUs would disturb the measurement.
fn measures() -> Held {
    take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)])
}

fn measure(out: &Path, flags: &[&str]) -> Ended {
    let mut command = reveille();
    command.arg("measure").arg("--out").arg(out).args(flags);
    run(&mut command)
}

/// Far longer than any run, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the run has kept this many datapoints; `false` if that takes longer than a minute.
fn has_kept(out: &Path, datapoints: usize) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let partial = fs::read_to_string(out.join("datapoints.partial.csv"));
        if partial.is_ok_and(|partial| partial.lines().count() > datapoints) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn has_bpf() -> bool {
    reveille_measure::try_bpf(0).is_ok()
}

#[test]
fn invalid_arguments_get_one_line_and_exit_code_2_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    for (flags, word) in [
        (["--cpu", "4000"], "no such CPU"),
        (["--state", "C99"], "C99"),
        (["--distance", "8ms..100us"], "above the maximum"),
        (["--distance", "0us..100us"], "above 0"),
        (["--distance", "1ns..100us"], "valid are"),
        (["--distance", "1ms..100s"], "valid are"),
        (["--distance", "18446744074s"], "valid are"),
        (["--distance", "far"], "not a time such as 100us"),
        (["--duration", "0s"], "above zero"),
        (["--datapoints", "0"], "1 or more"),
        (["--source", "card"], "card"),
        (["--sweep-factor", "1"], "factor"),
        (["--sweep-factor", "1.000000001"], "at most 1000 steps"),
        (["--sweep-datapoints", "9"], "--protocol sweep"),
        (["--nic-pin", "SDP0"], "--source nic:IF"),
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
fn the_mean_power_of_a_run_is_a_note_of_its_result() {
    let _alone = measures();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let name = meter::made_up(Duration::from_millis(20), || 40.0);
    let load = Load::begin();
    let ended = measure(
        &out,
        &["--probe", "user", "--duration", "3s", "--meter", &name],
    );
    if ended.code == 3 {
        return println!("skipped: the power of a measurement: {}", ended.stderr);
    }
    if let (1, Some(why)) = (ended.code, load.busy()) {
        return println!("skipped: the power of a measurement: {why}");
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let result = fs::read_to_string(out.join("result.json")).unwrap();
    let (_, note) = result.split_once("preparation included, is ").unwrap();
    let (watts, by) = note.split_once(" W by ").unwrap();
    let off = watts.parse::<f64>().unwrap() / 40.0 - 1.0;
    assert!(off.abs() < 0.02 && by.starts_with(&name), "{note}");
}

#[test]
fn a_folder_that_holds_a_result_is_refused_and_unchanged() {
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
fn a_result_path_without_a_parent_folder_is_refused_before_measuring() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "mine").unwrap();
    for out in [&file, Path::new("/dev/null"), &file.join("below")] {
        let ended = measure(out, &["--duration", "10min"]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains("is not a folder"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn an_interrupted_run_keeps_its_datapoints() {
    let _alone = measures();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let mut child = reveille()
        .args([
            "measure",
            "--duration",
            "10min",
            "--distance",
            "200us..1ms",
            "--out",
        ])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let load = Load::begin();
    let has_some = has_kept(&out, 21);
    let busy = load.busy();
    send(&child, Signal::SIGINT);
    let code = child.wait().unwrap().code();
    if let (false, Some(why)) = (has_some, busy) {
        return println!("skipped: an_interrupted_run_keeps_its_datapoints: {why}");
    }
    assert_eq!(code, Some(130));
    let loaded = reveille_results::open(&out).unwrap();
    assert!(
        loaded.columns.rows > 20,
        "{} datapoints",
        loaded.columns.rows
    );
    assert_eq!(loaded.description.counts.kept, loaded.columns.rows as u64);
    assert!(out.join("datapoints.parquet").exists());
}

#[test]
fn without_root_a_thread_measures_and_is_reported() {
    let _alone = measures();
    let Some((folder, mut command)) = as_nobody() else {
        println!(
            "skipped: without_root_a_thread_measures_and_is_reported: needs root to become nobody"
        );
        return;
    };
    let out = folder.path().join("result");
    command.args([
        "measure",
        "--datapoints",
        "100",
        "--distance",
        "200us..1ms",
        "--json",
        "--out",
    ]);
    let load = Load::begin();
    let ended = run(command.arg(&out));
    assert!(ended.stderr.contains("user probe"), "{}", ended.stderr);
    let description = reveille_results::open(&out).unwrap().description;
    if let (true, Some(why)) = (description.counts.kept < 100, load.busy()) {
        return println!("skipped: without_root_a_thread_measures_and_is_reported: {why}");
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(
        description.probe,
        reveille_results::description::Probe::User
    );
    assert_eq!(description.counts.kept, 100, "{:?}", description.counts);
    assert!(
        description
            .notes
            .iter()
            .any(|note| note.contains("scheduling"))
    );
}

#[test]
fn requested_but_unavailable_bpf_is_exit_code_3() {
    // A bound that another test holds would be reported as well.
    let _alone = measures();
    let Some((folder, mut command)) = as_nobody() else {
        println!(
            "skipped: requested_but_unavailable_bpf_is_exit_code_3: needs root to become nobody"
        );
        return;
    };
    let mut remote = Command::new(command.get_program());
    command.args(["measure", "--probe", "bpf", "--duration", "1s", "--out"]);
    let ended = run(command.arg(folder.path().join("result")));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("--probe user"), "{}", ended.stderr);
    // With a source that accepts the option.
    remote
        .uid(65534)
        .gid(65534)
        .args(["measure", "--source", "remote", "--out"]);
    let ended = run(remote.arg(folder.path().join("result")));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sources other than timer need BPF"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_full_disk_ends_the_run_with_one_line_and_keeps_the_datapoints() {
    let _alone = measures();
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
        println!("skipped: a_full_disk_ends_the_run...: needs root to mount a small file system");
        return;
    }
    let out = disk.path().join("result");
    // Fill the disk.
    let load = Load::begin();
    let endless = ["--probe", "user", "--datapoints", "1000000"];
    let ended = measure(
        &out,
        &[&endless[..], &["--distance", "100us..300us"]].concat(),
    );
    let loaded = reveille_results::open(&out);
    let unmounted = Command::new("umount").arg(disk.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    // A run that gives up also ends with 1.
    let is_full = ended.stderr.contains("No space left");
    if let (false, Some(why)) = (is_full, load.busy()) {
        return println!("skipped: a_full_disk_ends_the_run...: nothing to write: {why}");
    }
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(is_full, "{}", ended.stderr);
    let line = ended.stderr.lines().last().unwrap();
    assert!(line.starts_with("reveille: ended early: "), "{line}");
    let kept = line.split_once("; ").map(|(_, kept)| kept.to_owned());
    let is_kept = format!(" datapoints are kept in {}", out.display());
    assert!(kept.is_some_and(|kept| kept.ends_with(&is_kept)), "{line}");
    assert!(loaded.unwrap().columns.rows > 100);
}

#[test]
fn a_run_without_a_datapoint_prints_no_empty_table() {
    let _alone = measures();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let child = reveille()
        .args(["measure", "--probe", "user", "--duration", "10min", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The floor is measured next, for a second.
    let end = Instant::now() + PATIENCE;
    while !out.join("result.json").exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    if !said.contains("\nWake-ups  0 valid of 0 attempts") {
        return println!("skipped: a_run_without_a_datapoint...: it was too late: {said}");
    }
    assert!(!said.contains("above floor"), "{said}");
    assert!(!said.contains("\n\n\n"), "{said}");
}

#[test]
fn a_run_leaves_no_journal_and_no_program_behind() {
    let _alone = measures();
    if !has_bpf() {
        println!("skipped: a_run_leaves_no_journal_and_no_program_behind: no BPF here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = reveille()
        .args(["measure", "--probe", "bpf", "--duration", "2s", "--out"])
        .arg(folder.path().join("result"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its own: others may measure on this machine as well.
    let mut programs = Vec::new();
    let code = loop {
        programs.extend(programs_of(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // On a CPU that is never idle there is nothing to measure, which is a failure.
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    assert!(!programs.is_empty(), "it was not seen to hold any");
    let page = Path::new(reveille_kernel::journal::FOLDER).join("settings.json");
    let claims = fs::read_to_string(page).unwrap_or_default();
    let own = format!("\"pid\":{},", child.id());
    assert!(!claims.contains(&own), "{claims}");
    // The kernel frees a program some time after its last user is gone.
    let end = Instant::now() + PATIENCE;
    while is_loaded(&programs) {
        assert!(Instant::now() < end, "{programs:?} are there still");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_cpu_that_never_sleeps_gives_no_datapoint_and_exit_code_1_with_the_reason() {
    let _alone = measures();
    let idle = Idle::read(&Root::default()).unwrap();
    let cpu = idle.cpus.iter().rfind(|cpu| cpu.online).unwrap().number;
    let folder = tempfile::tempdir().unwrap();
    let mut tried = vec![("user", "timer")];
    match has_bpf() {
        true if idle.cpus.iter().filter(|cpu| cpu.online).count() > 1 => {
            tried.extend([("bpf", "timer"), ("bpf", "remote")]);
        }
        true => tried.push(("bpf", "timer")),
        false => println!("skipped: the BPF probe of a CPU that never sleeps: no BPF here"),
    }
    let number = cpu.to_string();
    let measured = |(probe, source): &(&str, &str)| {
        let out = folder.path().join(format!("{probe}-{source}"));
        let flags = ["--cpu", &number, "--probe", probe, "--source", source];
        let short = ["--duration", "1s", "--distance", "200us..1ms"];
        (out.clone(), measure(&out, &[&flags[..], &short].concat()))
    };
    let ended: Vec<_> = while_spinning(cpu, || tried.iter().map(measured).collect());
    for (out, ended) in ended {
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        let why = ended.stderr.lines().last().unwrap_or_default();
        assert!(why.contains("no datapoint"), "{}", ended.stderr);
        assert!(why.contains("not idle at the launch"), "{}", ended.stderr);
        let counts = reveille_results::open(&out).unwrap().description.counts;
        assert_eq!((counts.kept, counts.idle_periods), (0, 0), "{counts:?}");
    }
}

/// How often the CPU has entered idle states; `None` if nothing counts it.
fn idle_entries(cpu: u32) -> Option<u64> {
    let idle = Idle::read(&Root::default()).unwrap();
    let states = &idle.cpu(cpu)?.states;
    let uses = states.iter().map(|state| state.usage);
    uses.reduce(|sum, more| Some(sum? + more?))?
}

#[test]
fn datapoints_lost_to_a_slow_reader_are_counted() {
    const TEST: &str = "datapoints_lost_to_a_slow_reader_are_counted";
    /// The ring buffer holds about 6000 events, at most one per idle period.
    const MANY: u64 = 30_000;
    let _alone = measures();
    if !has_bpf() {
        return println!("skipped: {TEST}: no BPF here");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let idle = Idle::read(&Root::default()).unwrap();
    let cpu = idle.cpus.iter().rfind(|cpu| cpu.online).unwrap().number;
    let mut child = reveille()
        .args(["measure", "--probe", "bpf", "--cpu", &cpu.to_string()])
        .args(["--duration", "10min", "--distance", "50us..100us"])
        .args(["--no-report", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let load = Load::begin();
    // After the characterization; then the kernel side continues alone until the ring is full.
    let measures = has_kept(&out, 1);
    send(&child, Signal::SIGSTOP);
    let (before, end) = (idle_entries(cpu), Instant::now() + PATIENCE);
    let slept = || Some(idle_entries(cpu)? - before?);
    while measures && slept().is_none_or(|slept| slept < MANY) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    let idle = load.idle_percent(cpu);
    // If nothing counts it, a minute is enough for an idle CPU.
    let slept = slept().unwrap_or(if idle < 50.0 { 0 } else { MANY });
    send(&child, Signal::SIGCONT);
    send(&child, Signal::SIGINT);
    let code = child.wait().unwrap().code();
    if !measures || slept < MANY {
        assert!(idle < 50.0, "{measures}, CPU {cpu} slept {slept} times");
        return println!("skipped: {TEST}: CPU {cpu} was idle for {idle:.0}% of the time");
    }
    assert_eq!(code, Some(130));
    let counts = reveille_results::open(&out).unwrap().description.counts;
    assert!(counts.ring_buffer_full > 0, "{counts:?}");
    let accounted = counts.kept + counts.dropped.values().sum::<u64>();
    assert_eq!(accounted, counts.launched, "{counts:?}");
}

#[test]
fn a_file_size_limit_is_reported_and_leaves_no_unfinished_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            "ulimit -f 1; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_reveille"),
        ])
        .args(["measure", "--probe", "user", "--duration", "1s", "--out"])
        .arg(&out);
    let ended = run(&mut limited);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
    let left = fs::read_dir(&out).into_iter().flatten().flatten();
    for file in left {
        let name = file.file_name().into_string().unwrap();
        assert!(!name.ends_with(".unfinished"), "{name}");
    }
}

#[test]
fn a_source_that_needs_bpf_is_refused_without_it() {
    let Some((folder, mut nobody)) = as_nobody() else {
        return println!("skipped: a_source_that_needs_bpf...: only root can become another user");
    };
    nobody.args(["measure", "--source", "remote", "--out"]);
    let ended = run(nobody.arg(folder.path().join("result")));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("need BPF"), "{}", ended.stderr);
}

/// Runs the program after `mounts` in its own mount namespace; `None`, with a message, if that is
/// unavailable.
fn within(mounts: &str, words: &[&str]) -> Option<(Ended, String)> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]);
    command.arg(format!("{mounts} || exit 77; exec \"$@\""));
    command
        .args(["sh", env!("CARGO_BIN_EXE_reveille")])
        .args(words);
    let output = command.output().ok()?;
    let ended = Ended {
        code: output.status.code().unwrap_or(-1),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    if ended.code == 77 || ended.stderr.contains("unshare") {
        println!("skipped: {mounts}: {}", ended.stderr);
        return None;
    }
    Some((ended, String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn without_sysfs_measuring_is_refused_and_doctor_reports_it() {
    const WITHOUT: &str = "mount -t tmpfs none /sys";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let words = ["measure", "--probe", "user", "--out", out.to_str().unwrap()];
    let Some((ended, _)) = within(WITHOUT, &words) else {
        return;
    };
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("mount sysfs"), "{}", ended.stderr);
    let (_, said) = within(WITHOUT, &["doctor"]).unwrap();
    assert!(
        said.contains("reveille measure cannot run: /sys/"),
        "{said}"
    );
    let (_, json) = within(WITHOUT, &["doctor", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["measure_will_use"].is_null(), "{json}");
    assert!(json["measure_cannot"].is_string(), "{json}");
}

#[test]
fn a_read_only_sysfs_makes_a_setting_unavailable() {
    const READ_ONLY: &str = "mount -o remount,bind,ro /sys";
    let _held = take(&[Use::Beside(Part::IdleStates)]);
    let idle = Idle::read(&Root::default()).unwrap();
    let (Some(cpu), true) = (idle.cpus.iter().find(|cpu| cpu.online), has_bpf()) else {
        return println!("skipped: a_read_only_sysfs...: BPF");
    };
    let Some(state) = cpu.states.first() else {
        return println!("skipped: a_read_only_sysfs...: no idle states");
    };
    let Some((ended, _)) = within(
        READ_ONLY,
        &["limit", "--disable", &state.name, "--", "true"],
    ) else {
        return;
    };
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("read-only, as in most containers"),
        "{}",
        ended.stderr
    );
}

//! `reveille hold`, from the command line to the kernel and back.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::complains::complains;
use crate::program::{as_nobody, reveille, run, with_own_journal};
use crate::recorded::recorded;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take_to_change};
use reveille_kernel::pm_qos;
use reveille_results::{Datapoint, First, ResultFolder, Source, WokenBy};
use serde_json::Value;

/// Who sets bounds on this machine.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

/// Is there a driver that honours bounds, a device for requests, and permission to use it?
fn can_hold(test: &str) -> bool {
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).unwrap();
    let why = if !nix::unistd::geteuid().is_root() {
        "not root"
    } else if !Path::new(pm_qos::DEVICE).exists() {
        "no /dev/cpu_dma_latency"
    } else if !reveille_kernel::requests::honoured(&idle) {
        "no cpuidle driver"
    } else {
        return true;
    };
    println!("skipped: {test}: {why}");
    false
}

/// This bound, or 0 if the governor honours no other.
fn kept_to(bound: &'static str) -> &'static str {
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).unwrap();
    match reveille_kernel::requests::is_kept_to(&idle, 1) {
        true => bound,
        false => "0",
    }
}

fn hold(arguments: &[&str]) -> Command {
    let mut command = with_own_journal(reveille());
    command.arg("hold").args(arguments);
    command
}

fn dry(root: &Path, arguments: &[&str]) -> String {
    let root = root.to_str().unwrap();
    let output = hold(&["--dry-run", "--root", root])
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(root: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&dry(root, &[&["--json"], arguments].concat())).unwrap()
}

/// The names of a group's states with that effect.
fn names(group: &Value, fate: &str) -> Vec<String> {
    let states = group["states"].as_array().unwrap().iter();
    let names = states.filter(|state| state["fate"] == fate);
    names
        .map(|state| state["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn bad_input_gets_one_line() {
    for (arguments, words) in [
        (&["--latency", "-5us"][..], "negative"),
        (&["--latency", "100"], "no unit; write 100us"),
        (&["--latency", "2000s"], "beyond what the kernel takes"),
        (&["--latency", "1.5us"], "fraction"),
        (&["--latency", "soon"], "not a time"),
        (&[], "--latency"),
        (
            &["--latency", "1ms", "--cpu", "4000"],
            "CPU 4000: no such CPU",
        ),
        (&["--latency", "1ms", "--cpu", "x"], "not a list of CPUs"),
        (&["--latency", "1ms", "--root", "/"], "--dry-run"),
        (&["--latency", "1ms", "--percentile", "99"], "--result"),
        (
            &["--latency", "1ms", "--result", "/nonexistent"],
            "/nonexistent",
        ),
        (&["--latency", "1ms", "--result", "/usr"], "no result"),
        (
            &["--latency", "0", "--", "no-such-command"],
            "no such command in PATH",
        ),
        (&["--latency", "0", "--", "/tmp"], "/tmp: no such program"),
    ] {
        complains(&mut hold(arguments), 2, words);
    }
}

#[test]
fn without_root_holding_is_refused_and_a_dry_run_works() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_root_holding_is_refused_and_a_dry_run_works: not root");
        return;
    };
    if !can_hold("without_root_holding_is_refused_and_a_dry_run_works") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let program = command.get_program().to_owned();
    complains(
        command.args(["hold", "--latency", kept_to("1ms")]),
        3,
        "root",
    );
    let again = || {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&program);
        command
            .uid(65534)
            .gid(65534)
            .args(["hold", "--latency", kept_to("1ms")]);
        command
    };
    complains(again().args(["--cpu", "0"]), 3, "root");
    assert_eq!(run(again().arg("--dry-run")).code, 0);
}

const HYBRID: &str = "\
Bound  150 µs for all CPUs, through /dev/cpu_dma_latency

CPUs 0-7, cores up to 4.6 GHz
#  state    exit  bound
              µs
0  POLL        0  left
1  C1_ACPI     1  left
2  C2_ACPI   127  left
3  C3_ACPI  1048  stopped

CPUs 8-15, cores up to 3.4 GHz
#  state    exit  bound
              µs
0  POLL        0  left
1  C1_ACPI     1  left
2  C2_ACPI   127  left
3  C3_ACPI  1048  stopped

The bound leaves POLL, C1_ACPI and C2_ACPI and stops C3_ACPI.
";

#[test]
fn the_remaining_states_are_reported_per_kind_of_core() {
    let Some(folder) = recorded("rpl0") else {
        return;
    };
    assert_eq!(dry(folder.path(), &["--latency", "150us"]), HYBRID);
    let plan = json(folder.path(), &["--latency", "127us", "--cpu", "7-8"]);
    assert_eq!(plan["through"], "pm_qos_resume_latency_us");
    assert_eq!(plan["groups"].as_array().unwrap().len(), 2);
    // A state whose figure equals the bound remains.
    assert_eq!(names(&plan["groups"][1], "stopped"), ["C3_ACPI"]);
}

#[test]
fn zero_leaves_only_polling_and_a_disabled_state_is_neither_left_nor_stopped() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let group = &json(folder.path(), &["--latency", "0"])["groups"][0];
    assert_eq!(names(group, "left"), ["POLL"]);
    assert_eq!(names(group, "disabled"), ["C3"]);
    let group = &json(folder.path(), &["--latency", "20us"])["groups"][0];
    assert_eq!(names(group, "left"), ["POLL", "C1", "C1E"]);
    assert_eq!(names(group, "stopped"), ["C6"]);
}

/// CPU 0 with states: names, and exit latencies.
fn with_states(states: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = without_driver("");
    let cpus = folder.path().join("sys/devices/system/cpu");
    let write = |file: &str, text: &str| {
        let file = cpus.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("online", "0");
    write("cpuidle/current_driver", "some_idle");
    write("cpuidle/current_governor", "menu");
    for (index, (name, exit)) in states.iter().enumerate() {
        write(&format!("cpu0/cpuidle/state{index}/name"), name);
        write(&format!("cpu0/cpuidle/state{index}/latency"), exit);
    }
    folder
}

#[test]
fn a_state_of_unknown_exit_latency_is_neither_left_nor_stopped() {
    let folder = with_states(&[("POLL", "0"), ("C1", "2"), ("C6", "-5")]);
    let plan = json(folder.path(), &["--latency", "50us"]);
    assert_eq!(names(&plan["groups"][0], "unknown"), ["C6"]);
    let said = dry(folder.path(), &["--latency", "50us"]);
    assert!(said.contains("whether it stops C6"), "{said}");
}

#[test]
fn no_state_is_left_where_a_thread_keeps_the_cpu_awake() {
    let folder = with_states(&[("WFI", "1"), ("cpu-sleep", "300")]);
    let left = |bound| {
        let plan = json(folder.path(), &["--latency", bound]);
        names(&plan["groups"][0], "left")
    };
    assert_eq!(left("0"), [""; 0]);
    assert_eq!(left("1us"), ["WFI"]);
}

/// Three CPUs without cpuidle.
fn without_driver(command_line: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpus).unwrap();
    std::fs::create_dir_all(folder.path().join("proc")).unwrap();
    std::fs::write(cpus.join("present"), "0-2\n").unwrap();
    std::fs::write(cpus.join("online"), "0-2\n").unwrap();
    std::fs::write(folder.path().join("proc/cmdline"), command_line).unwrap();
    folder
}

#[test]
fn without_a_driver_only_no_sleep_can_be_held_and_by_threads() {
    let folder = without_driver("cpuidle.off=1");
    let root = folder.path().to_str().unwrap();
    let bound = ["--latency", "100us", "--dry-run", "--root", root];
    {
        complains(
            &mut hold(&bound),
            3,
            "cpuidle.off=1 on the kernel command line",
        );
    }
    let plan = json(folder.path(), &["--latency", "0", "--cpu", "1-2"]);
    assert_eq!(plan["through"], Value::Null);
    assert_eq!(plan["kept_awake_cpus"], serde_json::json!([1, 2]));
}

#[test]
fn cpus_that_already_poll_need_no_threads() {
    let folder = without_driver("idle=poll");
    let plan = json(folder.path(), &["--latency", "100us"]);
    assert_eq!(plan["kept_awake_cpus"], serde_json::json!([]));
    assert!(plan["notes"][0].as_str().unwrap().contains("poll"));
}

/// A result of CPU 0 of hswep0: per state the number of datapoints and their latency, µs.
fn result(states: &[(&str, usize, i64)]) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("result");
    let folder = ResultFolder::create(&path).unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    for (name, count, latency_us) in states {
        for time in 0..*count {
            let datapoint = Datapoint {
                time_ns: time as i64,
                cpu: 0,
                source: Source::Timer,
                woken_by: WokenBy::Interrupt,
                requested_state_index: None,
                requested_state: Some((*name).into()),
                launch_distance_ns: 1_000_000,
                launch_error_ns: None,
                launch_clock: None,
                silent_time_ns: None,
                wake_latency_ns: latency_us * 1000,
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
    }
    writer.finish().unwrap();
    // As left by a killed run: datapoints alone.
    (parent, path)
}

#[test]
fn a_result_replaces_the_drivers_latencies_by_measured_ones() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let slow = [("C1", 10_000, 1), ("C1E", 10_000, 12), ("C6", 10_000, 300)];
    let (_parent, path) = result(&slow);
    let by = ["--result", path.to_str().unwrap()];
    let request = |bound: &str| {
        let plan = json(folder.path(), &[&by[..], &["--latency", bound]].concat());
        (plan["request_us"].as_u64().unwrap(), plan)
    };
    // The table has 133 µs for C6; it takes 300. C3 is disabled.
    let (asked, plan) = request("200us");
    assert_eq!(asked, 10);
    assert_eq!(names(&plan["groups"][0], "stopped"), ["C6"]);
    assert_eq!(plan["groups"][0]["states"][4]["measured_ns"], 300_000);
    assert_eq!(request("300us").0, 300);
    let (quick_parent, quick) =
        result(&[("C1", 10_000, 1), ("C1E", 10_000, 12), ("C6", 10_000, 80)]);
    let by = ["--result", quick.to_str().unwrap(), "--latency", "100us"];
    assert_eq!(json(folder.path(), &by)["request_us"], 133);
    drop(quick_parent);
}

#[test]
fn a_result_is_judged_as_by_advise() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    // Too few for a p99.9 (10 000), and enough for a verdict: C1E takes 26 µs and not 10.
    let (_parent, path) = result(&[("C1", 3000, 1), ("C1E", 3000, 26), ("C6", 200, 90)]);
    let (result, root) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
    for (bound, left) in [
        ("20us", &["POLL", "C1"][..]),
        ("50us", &["POLL", "C1", "C1E"]),
        // C6 is not proven to be within it.
        ("100us", &["POLL", "C1", "C1E"]),
        ("0", &["POLL"]),
    ] {
        let plan = json(folder.path(), &["--latency", bound, "--result", result]);
        assert_eq!(names(&plan["groups"][0], "left"), left, "{bound}: {plan}");
        let mut advise = reveille();
        let advised = advise.args([
            "advise", result, "--json", "--budget", bound, "--root", root,
        ]);
        let advised = advised.output().unwrap();
        let advised: Value = serde_json::from_slice(&advised.stdout).unwrap();
        let allowed = advised["states"].as_array().unwrap().iter();
        let allowed = allowed.filter(|state| state["allowed"] == true);
        let allowed: Vec<&str> = allowed.map(|one| one["state"].as_str().unwrap()).collect();
        assert_eq!(allowed, left, "{bound}");
    }
    let plan = json(folder.path(), &["--latency", "100us", "--result", result]);
    let notes = plan["notes"].as_array().unwrap().iter();
    let notes: Vec<&str> = notes.map(|note| note.as_str().unwrap()).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("too few datapoints of C6")),
        "{plan}"
    );
    // The result is a made-up one.
    assert!(
        notes[0].ends_with("the machine that was measured is unknown"),
        "{plan}"
    );
}

#[test]
fn a_result_of_another_machine_is_refused_as_by_advise() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let root = folder.path().to_str().unwrap();
    let (_kept, other_case) = result(&[("c1", 3000, 1)]);
    let (_kept, one_more) = result(&[("C1", 3000, 1), ("C7s", 3000, 90)]);
    let parent = tempfile::tempdir().unwrap();
    // wult's: names alone, and a missing CPU.
    let theirs = |name: &str, cpu: u32, state: &str| {
        let folder = parent.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let info = format!("toolname: wult\nformat_version: '1.3'\ncpunum: {cpu}\n");
        std::fs::write(folder.join("info.yml"), info).unwrap();
        let rows = format!("3,1,{state}\n").repeat(3000);
        let csv = format!("WakeLatency,IntrOff,ReqCState\n{rows}");
        std::fs::write(folder.join("datapoints.csv"), csv).unwrap();
        folder
    };
    for (result, words) in [
        (other_case, "CPU 0 has other idle states (POLL, C1,"),
        (one_more, "than the result is of (C1, C7s)"),
        (theirs("names", 0, "C2"), "than the result is of (C2)"),
        (theirs("cpu", 4000, "C1"), "no CPU 4000, which was measured"),
    ] {
        let result = result.to_str().unwrap();
        for bound in ["50us", "0"] {
            let flags = [
                "--dry-run",
                "--root",
                root,
                "--result",
                result,
                "--latency",
                bound,
            ];
            complains(&mut hold(&flags), 2, words);
            let flags = ["advise", result, "--root", root, "--budget", bound];
            complains(reveille().args(flags), 2, words);
        }
    }
}

#[test]
fn a_result_with_a_table_of_another_machine_is_refused() {
    let (Some(measured), Some(other)) = (recorded("hswep0"), recorded("icx2s3")) else {
        return;
    };
    let states = reveille_kernel::Idle::read(&reveille_kernel::Root::at(measured.path()))
        .unwrap()
        .cpus[0]
        .states
        .clone();
    for datapoints in [3000, 0] {
        let (_kept, path) = result(&[("C1", datapoints, 1)]);
        let mut described = reveille_results::open_description(&path).unwrap();
        described.states.clone_from(&states);
        let text = serde_json::to_vec(&described).unwrap();
        std::fs::write(path.join("result.json"), text).unwrap();
        let by = [
            "--dry-run",
            "--latency",
            "50us",
            "--result",
            path.to_str().unwrap(),
        ];
        let root = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
        complains(
            hold(&by).args(["--root", &root(&other)]),
            2,
            "other idle states (POLL, C1, C1E, C6)",
        );
        let here = run(hold(&by).args(["--root", &root(&measured)]));
        assert_eq!(here.code, i32::from(datapoints == 0), "{}", here.stderr);
    }
}

#[test]
fn a_result_does_not_apply_to_cpus_of_another_kind() {
    let Some(folder) = recorded("rpl0") else {
        return;
    };
    let (_kept, path) = result(&[("C1_ACPI", 10_000, 1), ("C2_ACPI", 10_000, 90)]);
    let by = ["--latency", "100us", "--result", path.to_str().unwrap()];
    // CPU 0 is a P core; one of the two groups is measured.
    let plan = json(folder.path(), &by);
    let notes = plan["notes"].to_string();
    assert!(
        notes.contains("of another kind than the measured one"),
        "{notes}"
    );
    let measured = plan["groups"].as_array().unwrap().iter();
    let measured = measured.map(|group| group["states"][1]["measured_ns"].as_u64());
    assert_eq!(measured.collect::<Vec<_>>(), [Some(1000), None]);
    let root = folder.path().to_str().unwrap();
    let others = [&by[..], &["--dry-run", "--root", root, "--cpu", "8-15"]].concat();
    complains(
        &mut hold(&others),
        2,
        "is of CPU 0, and none of these CPUs is of its kind",
    );
}

#[test]
fn an_unproven_shallowest_state_prevents_holding() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let (_parent, path) = result(&[("C6", 10_000, 300)]);
    let by = ["--latency", "200us", "--result", path.to_str().unwrap()];
    let root = ["--dry-run", "--root", folder.path().to_str().unwrap()];
    complains(
        &mut hold(&[&by[..], &root].concat()),
        3,
        "too few datapoints of C1",
    );
    // Nor does a rule hold what its result does not show.
    let rules = folder.path().join("rules.toml");
    let text = format!(
        "result = \"{}\"\n[[rule]]\nname = \"a\"\nlatency = \"50us\"\n",
        path.display()
    );
    std::fs::write(&rules, text).unwrap();
    let mut check = reveille();
    check.args(["govern", "check", "--json", "--root"]);
    let output = check.arg(folder.path()).arg(&rules).output().unwrap();
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    let group = &checked["rules"][0]["groups"][0];
    assert_eq!(group["bound_us"], Value::Null);
    assert_eq!(group["judged_by"], "result");
    assert_eq!(group["by_table_us"], 50);
    let why = group["why_nothing"].as_str().unwrap();
    assert!(why.contains("datapoints of C1"), "{why}");
}

#[test]
fn a_bound_that_no_setting_is_shown_to_meet_is_not_held() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let root = ["--dry-run", "--root", folder.path().to_str().unwrap()];
    let slow = ("C1", 3000, 300);
    let quick = ("C1", 3000, 1);
    for (poll, c1, code, words) in [
        (
            None,
            slow,
            3,
            "what wakes take without sleep was not measured",
        ),
        (Some(90), slow, 3, "even without sleep"),
        (Some(90), quick, 3, "even without sleep"),
        (Some(90), ("C1", 20, 1), 3, "even without sleep"),
        (Some(1), slow, 0, ""),
    ] {
        let states = poll.map(|us| ("POLL", 3000, us)).into_iter().chain([c1]);
        let (_parent, path) = result(&states.collect::<Vec<_>>());
        let by = ["--latency", "50us", "--result", path.to_str().unwrap()];
        let ended = run(&mut hold(&[&by[..], &root].concat()));
        assert_eq!(ended.code, code, "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    // Who asks for no sleep gets it.
    let (_parent, path) = result(&[slow]);
    let by = ["--latency", "0", "--result", path.to_str().unwrap()];
    assert_eq!(run(&mut hold(&[&by[..], &root].concat())).code, 0);
}

#[test]
fn a_bound_that_the_governor_ignores_is_not_held() {
    let folder = without_driver("");
    let cpus = folder.path().join("sys/devices/system/cpu");
    let write = |file: &str, text: &str| {
        let file = cpus.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("cpuidle/current_driver", "haltpoll");
    for cpu in 0..3 {
        for (index, name, exit) in [(0, "POLL", "0"), (1, "haltpoll idle", "1")] {
            write(&format!("cpu{cpu}/cpuidle/state{index}/name"), name);
            write(&format!("cpu{cpu}/cpuidle/state{index}/latency"), exit);
        }
    }
    let root = folder.path().to_str().unwrap();
    for (governor, bound, code) in [
        ("haltpoll", "1us", 3),
        ("haltpoll", "100us", 3),
        ("haltpoll", "0", 0),
        ("menu", "100us", 0),
    ] {
        write("cpuidle/current_governor", governor);
        let ended = run(&mut hold(&[
            "--latency",
            bound,
            "--dry-run",
            "--root",
            root,
        ]));
        assert_eq!(ended.code, code, "{governor} {bound}: {}", ended.stderr);
        let would = ended
            .stderr
            .contains("`reveille hold --latency 0` keeps the CPUs");
        assert_eq!(would, code == 3, "{}", ended.stderr);
    }
}

#[test]
fn the_command_runs_under_the_bound_and_its_exit_code_is_passed_on() {
    if !can_hold("the_command_runs_under_the_bound_and_its_exit_code_is_passed_on") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    // The kernel reports the tightest of all requests.
    let script = "od -An -td4 /dev/cpu_dma_latency; exit 7";
    let output = hold(&["--latency", kept_to("7us"), "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let held: u32 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(held <= 7, "{held}");
    let said = String::from_utf8_lossy(&output.stderr);
    let bound = match kept_to("7us") {
        "0" => "0 (no sleep)",
        _ => "7 µs",
    };
    assert!(said.contains(&format!("{bound} held on CPU")), "{said}");
    let died = run(&mut hold(&[
        "--latency",
        kept_to("7us"),
        "--",
        "sh",
        "-c",
        "kill -9 $$",
    ]));
    assert_eq!(died.code, 128 + 9);
}

/// Started without a command; its output was read up to its last line.
fn held(arguments: &[&str]) -> Child {
    let mut child = hold(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        said.any(|line| line.unwrap().ends_with("Ctrl-C.")),
        "it ended without holding"
    );
    child
}

fn end(child: Child, signal: Signal) -> (Option<i32>, String) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

fn is_holder(pid: u32) -> bool {
    let (holders, _) = pm_qos::holders(Path::new("/proc")).unwrap();
    holders.iter().any(|holder| holder.pid == pid)
}

#[test]
fn a_request_is_held_until_signalled_and_ends_with_kill_9() {
    if !can_hold("a_request_is_held_until_signalled_and_ends_with_kill_9") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let child = held(&["--latency", kept_to("500us")]);
        let pid = child.id();
        assert!(is_holder(pid));
        assert!(pm_qos::current_bound_us().unwrap() <= Some(500));
        let (code, _) = end(child, signal);
        assert_eq!(code, (signal != Signal::SIGKILL).then_some(0), "{signal}");
        assert!(!is_holder(pid));
    }
}

#[test]
fn a_signal_goes_to_the_command_whose_end_is_the_exit_code() {
    if !can_hold("a_signal_goes_to_the_command_whose_end_is_the_exit_code") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    for (signal, code) in [(Signal::SIGUSR1, 9), (Signal::SIGTERM, 128 + 15)] {
        let mut child = hold(&["--latency", kept_to("500us"), "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.as_mut().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert_eq!(end(child, signal).0, Some(code));
    }
}

/// The program with its own mounts, by a line of shell; `None` if it may not mount.
fn under_mounts(test: &str, mounts: &str, arguments: &[&str]) -> Option<Command> {
    let under = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.arg(env!("CARGO_BIN_EXE_reveille")).args(arguments);
        command
    };
    if run(&mut under(mounts)).code != 0 {
        println!("skipped: {test}: mount namespaces are unavailable: {mounts}");
        return None;
    }
    Some(under(&format!("{mounts} && exec \"$0\" \"$@\"")))
}

#[test]
fn a_hidden_or_read_only_machine_is_refused_with_the_reason() {
    let test = "a_hidden_or_read_only_machine_is_refused_with_the_reason";
    if !can_hold(test) {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let all = &["hold", "--latency", "0", "--", "true"][..];
    let one = &["hold", "--latency", "0", "--cpu", "0", "--", "true"][..];
    for (mounts, arguments, words) in [
        (
            "mount --bind /dev/null /dev/cpu_dma_latency",
            all,
            "holds no latency bound",
        ),
        (
            "mount --bind /sys /sys && mount -o remount,bind,ro /sys",
            one,
            "read-only, as in most containers",
        ),
        (
            "mount -t tmpfs -o ro none /run",
            one,
            "/run/reveille: the file system is read-only",
        ),
        ("mount -t tmpfs none /sys", one, "mount sysfs"),
        ("mount -t tmpfs none /sys", &["states"], "mount sysfs"),
        ("mount -t tmpfs none /sys", &["measure"], "mount sysfs"),
        ("mount -t tmpfs none /sys", &["anticipate"], "mount sysfs"),
    ] {
        if let Some(mut command) = under_mounts(test, mounts, arguments) {
            complains(&mut command, 3, words);
        }
    }
    let hidden = "mount -t tmpfs none /sys";
    if let Some(mut command) = under_mounts(test, hidden, &["doctor"]) {
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let last = shown.lines().rev().take(2).collect::<Vec<_>>();
        let is_reported =
            |line: &&str| line.contains("cannot run: /sys/devices/system/cpu/present");
        assert!(last.iter().any(is_reported), "{shown}");
    }
}

const BOUND: &str = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";

fn bound() -> String {
    std::fs::read_to_string(BOUND).unwrap().trim().to_owned()
}

#[test]
fn a_cpus_own_bound_is_restored_after_any_end_unless_changed_meanwhile() {
    let test = "a_cpus_own_bound_is_restored_after_any_end_unless_changed_meanwhile";
    if !can_hold(test) {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    if !Path::new(BOUND).exists() || bound() != "0" {
        println!("skipped: {test}: CPU 0 has no bound of its own to set, or has one already");
        return;
    }
    let us = kept_to("700us");
    let only = ["--latency", us, "--cpu", "0"];
    let child = held(&only);
    assert_eq!(bound(), if us == "0" { "n/a" } else { "700" });
    assert_eq!(end(child, Signal::SIGTERM), (Some(0), String::new()));
    assert_eq!(bound(), "0");

    let child = held(&["--latency", "0", "--cpu", "0"]);
    assert_eq!(bound(), "n/a");
    end(child, Signal::SIGKILL);
    assert_eq!(bound(), "n/a");
    let next = run(with_own_journal(reveille()).arg("states"));
    assert!(
        next.stderr.contains("restored 1 setting "),
        "{}",
        next.stderr
    );
    assert_eq!(bound(), "0");

    let child = held(&only);
    std::fs::write(BOUND, "123").unwrap();
    let (code, said) = end(child, Signal::SIGTERM);
    assert_eq!((code, bound()), (Some(0), "123".to_owned()));
    std::fs::write(BOUND, "0").unwrap();
    assert!(said.contains("has another program's value, 123;"), "{said}");
}

#[test]
fn if_nothing_honours_bounds_a_thread_keeps_the_cpu_awake() {
    let test = "if_nothing_honours_bounds_a_thread_keeps_the_cpu_awake";
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).unwrap();
    if reveille_kernel::requests::honoured(&idle) {
        println!("skipped: {test}: there is a cpuidle driver");
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let child = held(&["--latency", "0", "--cpu", "0"]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut names = tasks.flatten().filter_map(name);
    assert!(names.any(|name| name.trim() == "awake-0"));
    assert_eq!(end(child, Signal::SIGINT).0, Some(0));
}

//! `reveille limit` and `reveille restore`, from the command line to the kernel and back.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::complains::complains;
use crate::program::{as_nobody, reveille, run, with_own_journal};
use crate::recorded::recorded;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take_to_change};
use reveille_kernel::{Idle, Root};
use serde_json::Value;

/// Who limits states on this machine.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

fn limit(arguments: &[&str]) -> Command {
    let mut command = with_own_journal(reveille());
    command.arg("limit").args(arguments);
    command
}

fn dry(root: &Path, arguments: &[&str]) -> String {
    let root = root.to_str().unwrap();
    let output = limit(&["--dry-run", "--root", root])
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str], code: i32, words: &str) {
    complains(&mut limit(arguments), code, words);
}

fn json(root: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&dry(root, &[&["--json"], arguments].concat())).unwrap()
}

/// The planned settings, as `3-C6` (CPU 3's C6 disabled) and `3+C6` (enabled).
fn settings(plan: &Value) -> Vec<String> {
    let one = |setting: &Value| {
        let sign = if setting["disable"] == true { '-' } else { '+' };
        let name = setting["name"].as_str().unwrap();
        format!("{}{sign}{name}", setting["cpu"])
    };
    plan["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(one)
        .collect()
}

/// A hybrid whose two kinds of cores have differently named states: CPU 0, CPU 1.
fn hybrid() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("sys/devices/system/cpu");
    let write = |path: PathBuf, value: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    };
    write(cpus.join("present"), "0-1");
    write(cpus.join("online"), "0-1");
    write(cpus.join("cpuidle/current_driver"), "intel_idle");
    write(cpus.join("cpuidle/current_governor"), "menu");
    let kinds = [
        [("POLL", 0), ("C1E", 2), ("C6", 170), ("C10", 230)],
        [("POLL", 0), ("C1", 1), ("C6A", 140), ("C6S", 270)],
    ];
    for (cpu, states) in kinds.iter().enumerate() {
        for (index, (name, exit)) in states.iter().enumerate() {
            let state = cpus.join(format!("cpu{cpu}/cpuidle/state{index}"));
            write(state.join("name"), name);
            write(state.join("latency"), &exit.to_string());
            write(state.join("disable"), "0");
        }
    }
    folder
}

const TWO_KINDS: &str = "\
CPU 0
#  state  exit  was  limited
            µs
0  POLL      0  on   on
1  C1E       2  on   on
2  C6      170  on   on
3  C10     230  on   off

CPU 1
#  state  exit  was  limited
            µs
0  POLL      0  on   on
1  C1        1  on   on
2  C6A     140  on   on
3  C6S     270  on   off

Note  no c6 on CPU 1: C6A (140 µs) is the deepest there that wakes no slower.

The limit leaves POLL, C1E and C6 and disables C10 on CPU 0; it leaves POLL, C1
and C6A and disables C6S on CPU 1.
";

#[test]
fn names_are_matched_cpu_by_cpu() {
    let folder = hybrid();
    assert_eq!(dry(folder.path(), &["--deepest", "c6"]), TWO_KINDS);
    let plan = json(folder.path(), &["--disable", "C10,c6s"]);
    assert_eq!(settings(&plan), ["0-C10", "1-C6S"]);
    assert_eq!(plan["notes"].as_array().unwrap().len(), 2);
    let plan = json(folder.path(), &["--deepest", "C1", "--cpu", "1"]);
    assert_eq!(settings(&plan), ["1+C1", "1-C6A", "1-C6S"]);
    let root = folder.path().to_str().unwrap();
    let other_kind = [
        "--dry-run",
        "--root",
        root,
        "--disable",
        "C10",
        "--cpu",
        "1",
    ];
    refused(&other_kind, 2, "these CPUs have POLL, C1, C6A, C6S");
    // A dry run changes nothing.
    let disable = "sys/devices/system/cpu/cpu0/cpuidle/state3/disable";
    assert_eq!(
        std::fs::read_to_string(folder.path().join(disable)).unwrap(),
        "0\n"
    );
}

#[test]
fn the_kernels_effect_on_the_setting_is_reported() {
    let folder = hybrid();
    let said = |arguments: &[&str]| dry(folder.path(), arguments);
    assert!(said(&["--disable", "POLL"]).contains("without POLL"));
    let all = said(&["--disable", "POLL,C1E,C6,C10", "--cpu", "0"]);
    assert!(all.contains("still uses the shallowest one"), "{all}");
    let governor = "sys/devices/system/cpu/cpuidle/current_governor";
    std::fs::write(folder.path().join(governor), "haltpoll\n").unwrap();
    assert!(said(&["--deepest", "C6"]).contains("ignores disabled states"));
}

#[test]
fn a_bound_in_force_rules_out_states_that_a_limit_leaves() {
    let folder = hybrid();
    let power = folder.path().join("sys/devices/system/cpu/cpu0/power");
    std::fs::create_dir_all(&power).unwrap();
    for (bound, in_force, ruled_out) in [
        ("n/a", Value::from(0), &["C1E", "C6", "C10"][..]),
        ("20", Value::from(20), &["C6", "C10"]),
        ("0", Value::Null, &[]),
    ] {
        std::fs::write(power.join("pm_qos_resume_latency_us"), bound).unwrap();
        let plan = json(folder.path(), &["--deepest", "C6", "--cpu", "0"]);
        let group = &plan["groups"][0];
        assert_eq!(group["in_force_us"], in_force);
        let states = group["states"].as_array().unwrap().iter();
        let names = states.filter(|state| state["ruled_out"] == true);
        let names: Vec<_> = names.map(|state| state["name"].as_str().unwrap()).collect();
        assert_eq!(names, ruled_out, "{bound}");
        // What the limit disables it does not name again.
        let said = dry(folder.path(), &["--deepest", "C6", "--cpu", "0"]);
        let answer = said.split("The limit leaves").nth(1).unwrap();
        assert_eq!(answer.contains("latency bound"), bound != "0", "{said}");
        assert_eq!(answer.matches("C10").count(), 1, "{said}");
        assert_eq!(answer.starts_with(" POLL and d"), bound == "n/a", "{said}");
    }
}

#[test]
fn cpus_that_are_all_offline_are_a_usage_error_as_for_a_bound() {
    let folder = hybrid();
    let online = folder.path().join("sys/devices/system/cpu/online");
    std::fs::write(online, "0\n").unwrap();
    let root = folder.path().to_str().unwrap();
    let offline = ["--dry-run", "--root", root, "--cpu", "1"];
    refused(&[&["--deepest", "C1"], &offline[..]].concat(), 2, "offline");
    let mut hold = with_own_journal(reveille());
    let hold = hold.args(["hold", "--latency", "9us"]).args(offline);
    complains(hold, 2, "offline");
}

#[test]
fn a_disabled_state_is_enabled_while_it_is_the_deepest() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    let said = dry(folder.path(), &["--deepest", "C3"]);
    assert!(said.contains("3  C3       33  off  on\n"), "{said}");
    assert!(said.contains("C3 was disabled on CPUs 0-55"), "{said}");
    let said = dry(folder.path(), &["--deepest", "C6"]);
    assert!(said.contains("3  C3       33  off  off\n"), "{said}");
}

#[test]
fn bad_input_gets_one_line() {
    let folder = hybrid();
    let root = folder.path().to_str().unwrap();
    for (arguments, words) in [
        (&[][..], "--deepest"),
        (
            &["--deepest", "C1", "--disable", "C6"],
            "cannot be used with",
        ),
        (&["--deepest", "C9"], "state \"C9\": no such idle state"),
        (
            &["--disable", "C6,C9"],
            "state \"C9\": no such idle state; these CPUs have",
        ),
        (&["--disable", ""], "state \"\": no such idle state"),
        (&["--deepest", "C1", "--cpu", "7"], "CPU 7: no such CPU"),
        (&["--deepest", "C1", "--cpu", "a"], "not a list of CPUs"),
        (&["--deepest", "C1", "--keep"], "cannot be used with"),
    ] {
        let looking = ["--dry-run", "--root", root];
        refused(&[&looking[..], arguments].concat(), 2, words);
    }
    refused(&["--deepest", "C1", "--root", root], 2, "--dry-run");
    let kept = ["--deepest", "C1", "--keep", "--", "true"];
    refused(&kept, 2, "cannot be used with");
}

#[test]
fn without_a_driver_there_is_nothing_to_limit() {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpus).unwrap();
    std::fs::write(cpus.join("present"), "0\n").unwrap();
    let root = folder.path().to_str().unwrap();
    let looking = ["--deepest", "C1", "--dry-run", "--root", root];
    refused(&looking, 3, "`reveille hold --latency 0`");
    // Where nothing sleeps, `hold` has nothing to do.
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/cmdline"), "idle=poll\n").unwrap();
    refused(&looking, 3, "idle CPUs poll here already");
}

/// The deepest state of CPU 0 of this machine, and its setting; `None`, with a message, if it
/// cannot be limited.
fn deepest(test: &str) -> Option<(String, PathBuf)> {
    let skip = |why: &str| {
        println!("skipped: {test}: {why}");
        None
    };
    if !nix::unistd::geteuid().is_root() {
        return skip("not root");
    }
    let idle = Idle::read(&Root::default()).unwrap();
    let Some(state) = idle.cpu(0).and_then(|cpu| cpu.states.last()) else {
        return skip("no cpuidle driver");
    };
    if state.disabled != Some(false) {
        return skip("its deepest state is disabled already");
    }
    let path = format!(
        "/sys/devices/system/cpu/cpu0/cpuidle/state{}/disable",
        state.index
    );
    Some((state.name.clone(), path.into()))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Started without a command; its output was read up to its last line.
fn limited(name: &str) -> Child {
    let mut child = limit(&["--disable", name, "--cpu", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        said.any(|line| line.unwrap().ends_with("Ctrl-C.")),
        "it ended without limiting"
    );
    child
}

fn end(child: Child, signal: Signal) -> (Option<i32>, String) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn a_state_is_disabled_while_the_command_runs() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest("a_state_is_disabled_while_the_command_runs") else {
        return;
    };
    let path = setting.to_str().unwrap();
    let only = ["--disable", &name.to_uppercase(), "--cpu", "0", "--"];
    let script = format!("cat {path}; exit 7");
    let output = limit(&[&only[..], &["sh", "-c", &script]].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
    assert_eq!(read(&setting), "0");
    // A command that is killed, and a missing one.
    let died = run(&mut limit(
        &[&only[..], &["sh", "-c", "kill -9 $$"]].concat(),
    ));
    assert_eq!((died.code, read(&setting).as_str()), (137, "0"));
    complains(
        &mut limit(&[&only[..], &["no-such-command"]].concat()),
        2,
        "PATH",
    );
    assert_eq!(read(&setting), "0");
}

#[test]
fn a_limit_is_undone_after_any_end_unless_changed_meanwhile() {
    let test = "a_limit_is_undone_after_any_end_unless_changed_meanwhile";
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest(test) else {
        return;
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let child = limited(&name);
        assert_eq!(read(&setting), "1");
        assert_eq!(end(child, signal), (Some(0), String::new()));
        assert_eq!(read(&setting), "0");
    }
    let child = limited(&name);
    end(child, Signal::SIGKILL);
    assert_eq!(read(&setting), "1");
    run(with_own_journal(reveille()).arg("states"));
    assert_eq!(read(&setting), "0");

    // Two at once: the state is restored when both have ended.
    let (one, other) = (limited(&name), limited(&name));
    end(one, Signal::SIGTERM);
    assert_eq!(read(&setting), "1");
    end(other, Signal::SIGTERM);
    assert_eq!(read(&setting), "0");
}

#[test]
fn limits_that_end_at_the_same_instant_restore_the_state() {
    let test = "limits_that_end_at_the_same_instant_restore_the_state";
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest(test) else {
        return;
    };
    for _ in 0..10 {
        let limits: Vec<Child> = (0..3).map(|_| limited(&name)).collect();
        for child in &limits {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        }
        for child in limits {
            assert!(child.wait_with_output().unwrap().status.success());
        }
        assert_eq!(read(&setting), "0");
    }
}

#[test]
fn a_start_in_another_pid_namespace_keeps_a_limit_in_force() {
    let test = "a_start_in_another_pid_namespace_keeps_a_limit_in_force";
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest(test) else {
        return;
    };
    let elsewhere = |command: &str| {
        let program = reveille().get_program().to_owned();
        with_own_journal(Command::new("unshare"))
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(program)
            .arg(command)
            .output()
    };
    let child = limited(&name);
    match elsewhere("states") {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: {test}: a PID namespace is unavailable: {other:?}");
            end(child, Signal::SIGTERM);
            return;
        }
    }
    let restored = elsewhere("restore").unwrap();
    let said = String::from_utf8_lossy(&restored.stdout);
    assert!(said.contains("another PID namespace"), "{said}");
    assert_eq!(read(&setting), "1");
    end(child, Signal::SIGTERM);
    assert_eq!(read(&setting), "0");
}

#[test]
fn a_kept_limit_stays_until_restore() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest("a_kept_limit_stays_until_restore") else {
        return;
    };
    let kept = run(&mut limit(&["--disable", &name, "--cpu", "0", "--keep"]));
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).unwrap();
    if idle.governor.as_deref() == Some("haltpoll") {
        assert_eq!((kept.code, read(&setting).as_str()), (3, "0"));
        assert!(kept.stderr.contains("hold --latency 0"), "{}", kept.stderr);
        println!("skipped: a_kept_limit_stays_until_restore: the governor would not look at it");
        return;
    }
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    run(with_own_journal(reveille()).arg("states"));
    run(with_own_journal(reveille()).args(["restore", "--killed"]));
    assert_eq!(read(&setting), "1");
    // Another limit of the same state does not end it.
    let again = limited(&name);
    end(again, Signal::SIGTERM);
    assert_eq!(read(&setting), "1");
    let output = with_own_journal(reveille())
        .arg("restore")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("back to 0"),
        "{said}"
    );
    assert_eq!(read(&setting), "0");
}

#[test]
fn without_root_it_is_refused_and_changes_nothing() {
    let test = "without_root_it_is_refused_and_changes_nothing";
    let Some(_alone) = alone() else {
        return;
    };
    let Some((name, setting)) = deepest(test) else {
        return;
    };
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: {test}: not root");
        return;
    };
    complains(command.args(["limit", "--disable", &name]), 3, "root");
    assert_eq!(read(&setting), "0");
}

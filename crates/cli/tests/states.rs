//! `reveille states`, from the command line to the table.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::recorded::recorded;
use serde_json::Value;

fn reveille(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reveille"))
        .args(arguments)
        .output()
        .unwrap()
}

fn states(root: &Path, arguments: &[&str]) -> Output {
    let root = root.to_str().unwrap();
    reveille(&[&["states", "--root", root], arguments].concat())
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// One line on standard error, and the exit code of a usage error.
fn is_refused(output: &Output, with: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(with) && output.stdout.is_empty(), "{error}");
}

/// A machine of a few files below sys/devices/system/cpu.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, value) in files {
        let path: PathBuf = folder.path().join("sys/devices/system/cpu").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    }
    folder
}

const HYBRID: &str = "\
CPU       13th Gen Intel(R) Core(TM) i5-1340P; 16 CPUs, 12 cores, 1 package
Kernel    6.19.0
Driver    intel_idle
Governor  menu (also: ladder, teo)
Table     the firmware's: intel_idle has none for this CPU (_ACPI)

CPUs 0-7, cores up to 4.6 GHz
#  name     exit  target  dflt  now     uses  time   share  above  below
              µs      µs                         s       %      %      %
0  POLL        0       0  on    on     2,600  0.17  0.0048      0   99.5
1  C1_ACPI     1       1  on    on    38,717  4.40    0.12   5.99   9.93
2  C2_ACPI   127     381  on    on    22,991  17.5    0.49   21.7  0.017
3  C3_ACPI  1048    3144  on    on   140,065  3533    99.4   44.4      0

CPUs 8-15, cores up to 3.4 GHz
#  name     exit  target  dflt  now     uses  time   share  above  below
              µs      µs                         s       %      %      %
0  POLL        0       0  on    on     2,869  0.15  0.0042      0   97.8
1  C1_ACPI     1       1  on    on    22,364  2.50   0.070   0.56   8.98
2  C2_ACPI   127     381  on    on    17,895  14.6    0.41   15.8      0
3  C3_ACPI  1048    3144  on    on    87,190  3548    99.5   86.4      0

Note      uses, time: sums over the CPUs of the group.
Note      share: of the time in the group's idle states.

The CPUs slept longest in C3_ACPI: 99.4% of the time in idle states. No state is
off, and no known bound rules one out.
";

#[test]
fn a_hybrid_has_two_kinds_of_cores() {
    let Some(folder) = recorded("rpl0") else {
        return;
    };
    assert_eq!(text(&states(folder.path(), &[])), HYBRID);
}

const ONE_STATE_OFF: &str = "\
CPU       Intel(R) Xeon(R) CPU E5-2697 v3 @ 2.60GHz; 56 CPUs, 28 cores, 2
          packages
Kernel    6.18.8-200.fc43.x86_64
Driver    intel_idle
Governor  menu (also: ladder, teo)

CPUs 0-55
#  name  exit  target  dflt  now     uses   time    share  above  below
           µs      µs                          s        %      %      %
0  POLL     0       0  on    on     1,281  17 ms  0.00052      0   86.2
1  C1       2       2  on    on    65,381   2.90    0.090   0.32   7.55
2  C1E     10      20  on    on    25,341   5.16     0.16   15.1   15.8
3  C3      33     100  off   off        0      0        0      -      -
4  C6     133     400  on    on   546,717   3228     99.8   68.5      0

Note      uses, time: sums over the CPUs of the group.
Note      share: of the time in the group's idle states.

The CPUs slept longest in C6: 99.8% of the time in idle states. Off now: C3.
";

#[test]
fn a_disabled_state_is_marked_beside_its_default() {
    let Some(folder) = recorded("hswep0") else {
        return;
    };
    assert_eq!(text(&states(folder.path(), &[])), ONE_STATE_OFF);
}

#[test]
fn a_machine_without_cpuidle_reports_its_default_idle() {
    let folder = machine(&[
        ("present", "0-1"),
        ("online", "0-1"),
        ("cpuidle/current_driver", "none"),
    ]);
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/cmdline"), "ro idle=halt\n").unwrap();
    let shown = text(&states(folder.path(), &[]));
    assert!(shown.contains("Driver       none\n"), "{shown}");
    assert!(
        shown.contains("Booted with  idle=halt: idle CPUs halt"),
        "{shown}"
    );
    assert!(
        shown.ends_with("Likely why: idle=halt on the kernel command line.\n"),
        "{shown}"
    );
    assert!(
        shown.contains("CPUs 0-1: no idle states known to the kernel\n"),
        "{shown}"
    );
}

#[test]
fn offline_cpus_bounds_and_missing_states_are_listed() {
    let state = |cpu: u32, index: u32| format!("cpu{cpu}/cpuidle/state{index}");
    let named: Vec<(String, &str)> = (0..4)
        .flat_map(|cpu| {
            [
                (format!("{}/name", state(cpu, 0)), "POLL"),
                (format!("{}/latency", state(cpu, 0)), "0"),
                (format!("{}/name", state(cpu, 1)), "C6"),
                (format!("{}/latency", state(cpu, 1)), "133"),
            ]
        })
        .chain([
            ("present".to_owned(), "0-5"),
            ("online".to_owned(), "0-4"),
            ("cpuidle/current_driver".to_owned(), "some_idle"),
            ("cpu2/power/pm_qos_resume_latency_us".to_owned(), "20"),
            ("cpu3/cpuidle/state1/disable".to_owned(), "1"),
        ])
        .collect();
    let files: Vec<(&str, &str)> = named
        .iter()
        .map(|(file, value)| (file.as_str(), *value))
        .collect();
    let folder = machine(&files);
    let shown = text(&states(folder.path(), &[]));
    let titles: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("CPU"))
        .collect();
    let expected = [
        "CPU     of unknown model; 6 CPUs, 1 offline",
        "CPUs 0-1",
        "CPU 2",
        "CPU 3",
        "CPU 4: no idle states",
        "CPU 5: offline",
    ];
    assert_eq!(titles, expected, "{shown}");
    assert!(
        shown.contains("bound by pm_qos_resume_latency_us to 20 µs: rules out C6"),
        "{shown}"
    );
    let answer = "Off now: C6 (CPU 3). A latency bound rules out C6 (CPU 2).\n";
    assert!(shown.ends_with(answer), "{shown}");
    // Missing values are not zero.
    assert!(
        shown.contains("1  C6     133       -  -     -       -     -      -      -      -\n"),
        "{shown}"
    );
}

#[test]
fn what_is_not_known_of_states_is_not_made_up() {
    let state = |file| format!("cpu0/cpuidle/state0/{file}");
    let (name, time, latency) = (state("name"), state("time"), state("latency"));
    let all = "18446744073709551615";
    let folder = machine(&[
        ("present", "0-1"),
        ("online", "0"),
        ("cpuidle/current_driver", "some_idle"),
        ("cpu0/power/pm_qos_resume_latency_us", "20"),
        (&name, "C1"),
        (&time, all),
        (&latency, "2"),
        ("cpu0/cpuidle/state1/name", "C6"),
        ("cpu0/cpuidle/state1/time", all),
    ]);
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/uptime"), "9.00 2.00\n").unwrap();
    let json: Value = serde_json::from_str(&text(&states(folder.path(), &["--json"]))).unwrap();
    assert_eq!(json["groups"][0]["time_share_of"], "idle_time");
    for state in json["groups"][0]["states"].as_array().unwrap() {
        assert_eq!(state["time_share_percent"], Value::Null);
    }
    let shown = text(&states(folder.path(), &[]));
    let (_, answer) = shown.trim_end().rsplit_once("\n\n").unwrap();
    assert!(!answer.contains('%') && answer.contains("C6"), "{shown}");
    // That a CPU is offline says nothing of its states.
    let shown = text(&states(folder.path(), &["--cpu", "1"]));
    let (_, answer) = shown.trim_end().rsplit_once("\n\n").unwrap();
    assert!(!answer.contains("idle states"), "{shown}");
}

#[test]
fn json_has_units_in_its_names_and_null_for_unknown() {
    let folder = machine(&[
        ("present", "0-1"),
        ("cpuidle/current_driver", "some_idle"),
        ("cpu0/cpuidle/state0/latency", "7"),
        ("cpu0/cpuidle/state0/time", "250000"),
    ]);
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/uptime"), "1.00 2.00\n").unwrap();
    let json: Value = serde_json::from_str(&text(&states(folder.path(), &["--json"]))).unwrap();
    assert_eq!(json["driver"], "some_idle");
    assert_eq!(json["governor"], Value::Null);
    assert_eq!(json["groups"][0]["cpus"], serde_json::json!([0]));
    let state = &json["groups"][0]["states"][0];
    assert_eq!(
        (&state["exit_latency_us"], &state["usage"]),
        (&7.into(), &Value::Null)
    );
    assert_eq!(json["groups"][0]["time_share_of"], "cpu_time_since_boot");
    assert_eq!(state["time_share_percent"], 25.0);
    assert_eq!(json["cpus"][1]["number"], 1);
}

#[test]
fn only_the_requested_cpus_are_shown() {
    let folder = machine(&[("present", "0-7")]);
    let shown = text(&states(folder.path(), &["--cpu", "2-3,6"]));
    assert!(
        shown.contains("CPUs 2-3,6: no idle states known to the kernel"),
        "{shown}"
    );
    assert!(
        shown.contains("of unknown model; CPUs 2-3,6 of 8\n"),
        "{shown}"
    );
    is_refused(
        &states(folder.path(), &["--cpu", "2,9"]),
        "CPU 9: no such CPU; this machine has 0-7",
    );
    for list in ["", "a", "3-1", "1-"] {
        is_refused(
            &states(folder.path(), &["--cpu", list]),
            "not a list of CPUs",
        );
    }
}

#[test]
fn a_folder_that_is_no_machine_gets_one_line() {
    is_refused(
        &reveille(&["states", "--root", "/nonexistent"]),
        "/nonexistent: not a folder",
    );
    is_refused(
        &reveille(&["states", "--root", "/dev/null"]),
        "/dev/null: not a folder",
    );
    let empty = tempfile::tempdir().unwrap();
    let output = states(empty.path(), &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("has no sys/ in it") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn this_machine_has_states_or_a_reason() {
    let shown = text(&reveille(&["states"]));
    assert!(
        shown.contains("uses") || shown.contains("Likely why"),
        "{shown}"
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 100),
        "{shown}"
    );
}

//! `reveille advise` as a user meets it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::load;
use crate::made_up::result_of;
use crate::program::{as_nobody, reveille, run};
use reveille_alone::{Part, Use, take_to_change};
use serde_json::{Value, json};

/// A result on disk: 3000 wakes from each of C1 (3 µs), C1E (30 µs) and C6 (90 µs).
fn result(folder: &Path) -> PathBuf {
    let states = [(1, "C1", 3), (2, "C1E", 30), (3, "C6", 90)];
    result_of(
        folder,
        &states.map(|(index, name, us)| (index, name, us, 3000)),
    )
}

fn advise(result: &Path, flags: &[&str]) -> Command {
    let mut command = reveille();
    command.arg("advise").arg(result).args(flags);
    command
}

fn printed(result: &Path, flags: &[&str]) -> String {
    let output = advise(result, flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_answer_has_the_evidence_the_bound_the_cost_and_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--budget", "50us", "--form", "all", "--all"];
    let text = printed(&result(folder.path()), &flags);
    for words in [
        "Allow C1 and C1E; keep out of C6: a latency bound of",
        "50 µs, in the driver's figures; any up to 132 µs leaves the same",
        "75.0%",
        "reveille hold --latency 50us",
        "reveille limit --deepest C1E",
        "intel_idle.max_cstate=2",
        "force_latency=50",
        "ExecStart=reveille hold --latency 50us",
        "pm_qos_resume_latency_us}=\"50\"",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    // A rule or a path cannot be wrapped; everything else fits a terminal.
    let wide = text.lines().filter(|line| line.chars().count() > 80);
    assert!(
        wide.clone().all(|line| line.contains("ACTION==")),
        "{:?}",
        wide.collect::<Vec<_>>()
    );
}

#[test]
fn json_has_the_same_with_units_in_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&result(folder.path()), &["--budget", "50us", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["question"]["budget_us"], 50);
    assert_eq!(json["question"]["demand"]["percentile"], 99.9);
    assert_eq!(json["question"]["confidence_percent"], 95.0);
    assert_eq!(json["setting"]["leaves"], "up_to");
    assert_eq!(json["setting"]["bound"]["us"], 50);
    assert_eq!(json["setting"]["forbidden"], json!(["C6"]));
    let c6 = &json["states"][3];
    assert_eq!(
        (&c6["state"], &c6["allowed"]),
        (&json!("C6"), &json!(false))
    );
    let evidence = &c6["evidence"][0];
    assert_eq!(evidence["finding"], "exceeds");
    assert_eq!(evidence["exceeded"], 3000);
    assert_eq!(evidence["percentile_high_ns"], 90_000);
    assert_eq!(json["cost"]["forbidden_time_percent"], 75.0);
    assert_eq!(json["forms"].as_array().unwrap().len(), 6);
}

#[test]
fn a_form_alone_is_ready_for_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    let form = |name| printed(&result, &["--budget", "50us", "--form", name]);
    assert_eq!(form("limit"), "reveille limit --deepest C1E\n");
    assert_eq!(form("kernel"), "intel_idle.max_cstate=2\n");
    assert!(form("systemd").starts_with("[Unit]\n"));
    let table = printed(&result, &["--table", "--form", "kernel"]);
    assert_eq!(table, "intel_idle.table=C1:3:3,C1E:30:30,C6:90:600\n");
}

#[test]
fn break_evens_of_another_machine_or_of_other_states_are_named_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    // Of C1 and C6, of a machine whose host name is `bench`.
    let states = folder.path().join("power-states.json");
    let kept = include_str!("../../govern/src/judge/power-states.json");
    std::fs::write(&states, kept).unwrap();
    let table = |flags: &[&str]| -> Value {
        let flags = [&["--table", "--json"], flags].concat();
        serde_json::from_str(&printed(&result, &flags)).unwrap()
    };
    let with = table(&["--break-even", states.to_str().unwrap()]);
    let warnings = with["warnings"].as_array().unwrap();
    let names = |one: &Value| one.as_str().unwrap().contains("bench");
    assert!(warnings.iter().any(names), "{warnings:?}");
    let unknown = |table: &Value, row: usize| table["rows"][row]["break_even_unknown"].is_string();
    assert_eq!(
        [0, 1, 2].map(|row| unknown(&with, row)),
        [false, true, false]
    );
    let without = table(&[]);
    assert_eq!([0, 1, 2].map(|row| unknown(&without, row)), [false; 3]);
    assert!(without["warnings"].as_array().unwrap().len() < warnings.len());
}

#[test]
fn no_setting_is_printed_without_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let result = result_of(folder.path(), &[(3, "C6", 90, 3000)]);
    let text = printed(&result, &["--budget", "50us"]);
    assert!(
        text.contains("\n\nUnknown: too few datapoints of C1 "),
        "{text}"
    );
    assert!(text.contains("Over the budget: C6."), "{text}");
    for setting in ["idle=poll", "hold --latency", "--form", "Bound"] {
        assert!(!text.contains(setting), "{setting}: {text}");
    }
    let json = printed(&result, &["--budget", "50us", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["setting"]["leaves"], "unknown");
    for name in ["hold", "limit", "kernel", "tuned", "systemd", "udev"] {
        let ended = run(&mut advise(&result, &["--budget", "50us", "--form", name]));
        assert_eq!(ended.code, 3, "{name}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("too few datapoints"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_machine_with_other_states_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let machine = folder.path().join("machine");
    let cpuidle = machine.join("sys/devices/system/cpu/cpu0/cpuidle");
    for (index, name) in ["POLL", "C1_ACPI", "C2_ACPI"].iter().enumerate() {
        let state = cpuidle.join(format!("state{index}"));
        std::fs::create_dir_all(&state).unwrap();
        std::fs::write(state.join("name"), name).unwrap();
    }
    for list in ["present", "online"] {
        std::fs::write(machine.join("sys/devices/system/cpu").join(list), "0").unwrap();
    }
    let csv = folder.path().join("alone.csv");
    std::fs::write(&csv, "WakeLatency,IntrOff,ReqCState\n3,1,C1\n").unwrap();
    let root = machine.to_str().unwrap();
    // With a table of its own, and without.
    for result in [result(folder.path()), csv] {
        let ended = run(&mut advise(&result, &["--budget", "50us", "--root", root]));
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(
            ended
                .stderr
                .contains("other idle states (POLL, C1_ACPI, C2_ACPI)"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_driver_that_takes_no_table_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    let file = result.join("result.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"intel_idle\"", "\"haltpoll\"")).unwrap();
    for flags in [
        &["--table"][..],
        &["--table", "--form", "kernel"],
        &["--table", "--json"],
    ] {
        let output = advise(&result, flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            output.stdout.is_empty() && said.contains("only intel_idle"),
            "{said}"
        );
    }
}

#[test]
fn what_the_data_refute_is_in_no_form_and_in_no_table() {
    let folder = tempfile::tempdir().unwrap();
    // Even POLL takes longer than the budget, whatever is known of the others.
    for (nth, states) in [
        &[(0, "POLL", 81, 3000)][..],
        &[(0, "POLL", 81, 3000), (1, "C1", 3, 20)],
        &[
            (0, "POLL", 81, 3000),
            (1, "C1", 3, 3000),
            (2, "C1E", 3, 3000),
            (3, "C6", 3, 3000),
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let result = result_of(&folder.path().join(nth.to_string()), states);
        let json = printed(&result, &["--budget", "50us", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["setting"]["leaves"], "no_setting");
        assert_eq!(json["without_sleep"]["exceeded_at_least"], 3000);
        for name in ["hold", "limit", "kernel", "tuned", "systemd", "udev"] {
            let flags = ["--budget", "50us", "--form", name];
            let output = advise(&result, &flags).output().unwrap();
            let ended = (output.status.code(), output.stdout.len());
            assert_eq!(ended, (Some(3), 0), "{name}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("no setting meets"), "{said}");
        }
        for flags in [&["--table"][..], &["--table", "--form", "kernel"]] {
            let output = advise(&result, flags).output().unwrap();
            let code = if states.len() == 4 { 0 } else { 3 };
            assert_eq!(output.status.code(), Some(code), "{flags:?}");
            assert_eq!(output.stdout.is_empty(), code == 3);
        }
    }
}

#[test]
fn a_state_forbidden_for_lack_of_datapoints_is_reported_beside_a_form() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "--budget",
        "50us",
        "--percentile",
        "99.99",
        "--form",
        "kernel",
    ];
    let enough = result_of(
        &folder.path().join("enough"),
        &[(1, "C1", 3, 30_000), (2, "C1E", 30, 3000)],
    );
    let output = advise(&enough, &flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "intel_idle.max_cstate=1\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("too few datapoints"), "{said}");

    let text = printed(&result(&folder.path().join("again")), &flags[..4]);
    // ln 0.05 / ln (1 - 1/10 000), rounded up.
    assert!(text.contains("29,956"), "{text}");
}

#[test]
fn the_sufficient_run_is_named_whatever_the_poll_state_shows() {
    let folder = tempfile::tempdir().unwrap();
    // After this one wake no number of further datapoints would prove POLL, but it is always
    // allowed.
    let wakes = [
        (0, "POLL", 1, 804),
        (0, "POLL", 4404, 1),
        (1, "C1", 3, 1000),
    ];
    let result = result_of(folder.path(), &wakes);
    let text = printed(&result, &["--budget", "50us"]);
    assert!(text.contains("\nMore  "), "{text}");
}

#[test]
fn interrupt_latency_is_judged_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    let flags = ["--budget", "30us", "--form", "limit"];
    assert_eq!(printed(&result, &flags), "reveille limit --deepest C1E\n");
    let flags = [&flags[..], &["--latency", "interrupt"]].concat();
    assert_eq!(printed(&result, &flags), "reveille limit --deepest C1\n");
}

#[test]
fn another_tools_result_is_judged_with_a_machines_table() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("datapoints.csv");
    let mut text = "LDist,SilentTime,WakeLatency,ReqCState,CPUFreq\n".to_owned();
    for (state, latency) in [("C1", 3), ("C6", 90)] {
        for _ in 0..3000 {
            text += &format!("500,490,{latency},{state},2100\n");
        }
    }
    std::fs::write(&csv, text).unwrap();
    let without = printed(&csv, &["--budget", "50us", "--all"]);
    assert!(without.contains("Allow C1; keep out of C6."), "{without}");
    assert!(without.contains("--root"), "{without}");
    assert!(
        without.contains("reveille limit --deepest C1\n"),
        "{without}"
    );
    assert!(without.contains("2.1 GHz after C6"), "{without}");

    let cpuidle = "sys/devices/system/cpu/cpu0/cpuidle";
    let files = [
        ("sys/devices/system/cpu/present", "0"),
        ("sys/devices/system/cpu/online", "0"),
        (
            "sys/devices/system/cpu/cpuidle/current_driver",
            "intel_idle",
        ),
        ("state0/name", "POLL"),
        ("state0/latency", "0"),
        ("state0/residency", "0"),
        ("state1/name", "C1"),
        ("state1/latency", "2"),
        ("state1/residency", "2"),
        ("state2/name", "C6"),
        ("state2/latency", "133"),
        ("state2/residency", "600"),
    ];
    for (file, text) in files {
        let path = match file.starts_with("state") {
            true => folder.path().join(cpuidle).join(file),
            false => folder.path().join(file),
        };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = folder.path().to_str().unwrap();
    let flags = ["--budget", "50us", "--root", root, "--form"];
    let form = |name| printed(&csv, &[&flags[..], &[name]].concat());
    assert_eq!(form("hold"), "reveille hold --latency 50us\n");
    assert_eq!(form("kernel"), "intel_idle.max_cstate=1\n");
}

#[test]
fn invalid_arguments_get_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    for (flags, word) in [
        (&["--budget", "-5us"][..], "negative"),
        (&["--budget", "50"], "unit"),
        (&["--budget", "soon"], "not a time"),
        (&["--budget", "50us", "--percentile", "100"], "below 100"),
        (&["--budget", "50us", "--percentile", "50"], "above 50"),
        (&["--budget", "50us", "--percentile", "p99"], "99.9"),
        (&["--budget", "50us", "--confidence", "100"], "below 100"),
        (
            &["--budget", "50us", "--max", "--percentile", "99"],
            "--max",
        ),
        (&["--budget", "50us", "--form", "cron"], "cron"),
        (
            &["--budget", "50us", "--root", "/nonexistent"],
            "not a folder",
        ),
        (&["--budget", "50us", "--table"], "--table"),
        (&["--table", "--form", "udev"], "kernel"),
        (&[], "--budget"),
    ] {
        let ended = run(&mut advise(&result, flags));
        assert_eq!(ended.code, 2, "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(word), "{flags:?}: {}", ended.stderr);
        assert_eq!(
            ended.stderr.lines().count(),
            1,
            "{flags:?}: {}",
            ended.stderr
        );
    }
    let ended = run(&mut advise(Path::new("/nonexistent"), &["--budget", "5us"]));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let lacks = folder.path().join("alone.csv");
    std::fs::write(&lacks, "WakeLatency,IntrOff,ReqCState\n3,1,C1\n").unwrap();
    for flags in [
        &["--table"][..],
        &["--budget", "5us", "--latency", "interrupt"],
    ] {
        let ended = run(&mut advise(&lacks, flags));
        assert_eq!(ended.code, 2, "{flags:?}: {}", ended.stderr);
    }
}

#[test]
fn a_setting_that_a_form_cannot_express_is_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("alone.csv");
    std::fs::write(&csv, "WakeLatency,IntrOff,ReqCState\n3,1,C1\n").unwrap();
    let ended = run(&mut advise(&csv, &["--budget", "5us", "--form", "udev"]));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = advise(&result(folder.path()), &["--budget", "50us"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
}

#[test]
fn advice_needs_no_root() {
    let Some((folder, mut command)) = as_nobody() else {
        println!("skipped: advice_needs_no_root: needs root to become nobody");
        return;
    };
    command.arg("advise").arg(result(folder.path()));
    let ended = run(command.args(["--budget", "50us", "--form", "hold"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn advice_works_on_a_measurement_of_this_kernel() {
    // measure sets a bound for its floor.
    let Some(_held) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("measured");
    let load = load::Load::begin();
    let mut measure = reveille();
    measure.arg("measure").arg("--out").arg(&out).args([
        "--datapoints",
        "60",
        "--duration",
        "20s",
        "--distance",
        "200us..1ms",
        "--no-report",
    ]);
    let ended = run(&mut measure);
    if let (true, Some(why)) = (ended.code != 0, load.busy()) {
        return println!("skipped: advice_works_on_a_measurement_of_this_kernel: {why}");
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    // A second exceeds every wake on the busiest machine; ln 0.05 / ln 0.6 = 5.9.
    let flags = ["--budget", "1s", "--percentile", "60", "--json"];
    let json: Value = serde_json::from_str(&printed(&out, &flags)).unwrap();
    for state in json["states"].as_array().unwrap() {
        for evidence in state["evidence"].as_array().unwrap() {
            assert_eq!(evidence["exceeded"], 0, "{state}");
            let enough = evidence["count"].as_u64().unwrap() >= 6;
            assert_eq!(evidence["finding"] == "within", enough, "{state}");
        }
    }
    assert_eq!(
        printed(&out, &["--budget", "0", "--form", "hold"]),
        "reveille hold --latency 0\n"
    );
}

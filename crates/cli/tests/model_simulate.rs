//! `reveille model simulate` as a user meets it.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::{as_nobody, reveille, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn simulate(arguments: &[&str]) -> Command {
    let mut command = reveille();
    command.args(["model", "simulate"]).args(arguments);
    command
}

fn text(arguments: &[&str]) -> String {
    let output = simulate(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(arguments)).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    ended(arguments, 2)
}

fn ended(arguments: &[&str], code: i32) -> String {
    let ended = run(&mut simulate(arguments));
    assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    ended.stderr
}

const FARM: [&str; 8] = [
    "--servers",
    "20",
    "--dispatcher",
    "packing:3",
    "--utilisation",
    "0.3",
    "--requests",
    "20000",
];

#[test]
fn the_same_seed_gives_the_same_output_and_the_table_fits_a_terminal() {
    let shown = text(&FARM);
    assert_eq!(shown, text(&FARM));
    assert!(
        shown.lines().all(|line| line.chars().count() <= 110),
        "{shown}"
    );
    let tables = shown.lines().skip_while(|line| !line.is_empty());
    assert!(
        tables.into_iter().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let other = text(&[&FARM[..], &["--seed", "2"]].concat());
    assert_ne!(shown, other);
}

#[test]
fn policies_are_compared_with_always_on_on_the_same_requests() {
    let all = read(&[&FARM[..], &["--json"]].concat());
    // 20 servers at 30% load of 38 ms.
    let rate = all["rate_per_s"].as_f64().unwrap();
    assert!((rate - 20.0 * 0.3 / 0.038).abs() < 1e-6, "{rate}");
    let policies = all["policies"].as_array().unwrap();
    assert_eq!(policies[0]["policy"], "always on");
    assert_eq!(policies[0]["above_first"], Value::Null);
    let power = |row: &Value| row["simulated"]["power_mean_w"]["value"].as_f64().unwrap();
    for row in &policies[1..] {
        let above = row["above_first"]["power_mean_w"]["value"]
            .as_f64()
            .unwrap();
        let expected = power(row) - power(&policies[0]);
        assert!((above - expected).abs() < 1e-9, "{above} {expected}");
    }
    let simulated = &policies[1]["simulated"];
    assert_eq!(simulated["replications"], 10);
    assert_eq!(simulated["by_server"].as_array().unwrap().len(), 20);
    assert!(simulated["found_asleep"]["half_width"].as_f64().unwrap() > 0.0);
    assert_eq!(simulated["response_percentiles"][3]["share"], 0.99);
}

#[test]
fn a_trace_is_found_relative_to_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("requests.csv"), "arrival,service\n5,1\n5.5,1\n10,2\n").unwrap();
    let parameters = "[simulation]\ntrace = \"requests.csv\"\n\n[[policy]]\nname = \"nap\"\n\
                      kind = \"power_nap\"\nsuspend = 0.25\nresume = 0.25\n";
    std::fs::write(at("server.toml"), parameters).unwrap();
    let all = read(&["--params", &at("server.toml"), "--json"]);
    // By hand: served to 1 and 2, woken at 5, ready at 5.25, served to 7.25.
    let nap = &all["policies"][1]["simulated"];
    assert_eq!(nap["window_s"], 7.25);
    let response = nap["response_mean_s"]["value"].as_f64().unwrap();
    assert!((response - (1.0 + 1.5 + 2.25) / 3.0).abs() < 1e-12);
    assert_eq!(nap["response_mean_s"]["half_width"], Value::Null);
    let notes = all["notes"].to_string();
    assert!(notes.contains("nothing is drawn at random"), "{notes}");
    let same = read(&["--trace", &at("requests.csv"), "--json"]);
    assert_eq!(same["recorded_service_mean_s"].as_f64(), Some(4.0 / 3.0));
    let shown = text(&["--trace", &at("requests.csv")]);
    assert!(shown.contains("as recorded, mean 1.33 s"), "{shown}");

    std::fs::write(at("bad.csv"), "0,1\n1,-1\n").unwrap();
    let said = ended(&["--trace", &at("bad.csv")], 1);
    assert!(
        said.contains("bad.csv") && said.contains("line 2"),
        "{said}"
    );
    std::fs::write(at("empty.csv"), "").unwrap();
    assert!(ended(&["--trace", &at("empty.csv")], 1).contains("no request"));
}

#[test]
fn without_arrivals_the_given_key_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.toml");
    let at = file.to_str().unwrap();
    let trace = folder.path().join("requests.csv");
    std::fs::write(&trace, "0,1\n1,1\n").unwrap();
    let recorded = ["--trace", trace.to_str().unwrap()];
    for (lines, flags, expected) in [
        ("requests = 0", &[][..], "requests: 0; give 1 or above"),
        // With this seed there is no arrival.
        (
            "requests = 1\nreplications = 1\nseed = 3",
            &[],
            "requests: 1 in the mean",
        ),
        (
            "horizon = \"1us\"\nreplications = 1",
            &[],
            "horizon: no request",
        ),
        ("warm_up = \"1h\"", &recorded, "shorter `warm_up`"),
    ] {
        std::fs::write(&file, format!("[simulation]\n{lines}\n")).unwrap();
        let said = refused(&[&["--params", at], flags].concat());
        assert!(said.contains(expected), "{lines}: {said}");
    }
}

#[test]
fn simulations_run_without_root() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: simulating as nobody: this user cannot become nobody");
        return;
    };
    let ended = run(command.args(["model", "simulate", "--requests", "1000"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn wrong_use_is_reported_in_one_line() {
    for (arguments, expected) in [
        (&["--utilisation", "1"][..], "the load is 1.000"),
        (&["--dispatcher", "nearest"], "least-loaded"),
        (&["--dispatcher", "packing:0"], "1 or above"),
        (&["--servers", "0"], "--servers"),
        (&["--horizon", "5"], "no unit; write 5ms"),
        (&["--horizon", "0"], "above 0"),
        (&["--horizon", "-3s"], "cannot be negative"),
        (&["--horizon", "inf"], "finite"),
        (&["--utilisation", "1e-300"], "rounding"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_missing_trace_is_wrong_use() {
    let ended = run(&mut simulate(&["--trace", "/nonexistent/trace.csv"]));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("/nonexistent/trace.csv"));
}

/// CPU time that a process has used, in clock ticks.
fn used(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let times = fields.skip(11).take(2);
    times.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn ctrl_c_keeps_completed_replications() {
    // It would run for many minutes.
    let mut child = simulate(&["--replications", "1000000", "--requests", "10000", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A replication takes a millisecond or two: after half a second of CPU time some are complete.
    while used(child.id()) < 50 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &all["policies"][0]["simulated"];
    let completed = first["replications"].as_u64().unwrap();
    assert!((1..1_000_000).contains(&completed), "{completed}");
    assert_eq!(first["replications_asked"], 1_000_000);
    let last = all["policies"].as_array().unwrap().last().unwrap();
    assert_eq!(last["why"], "interrupted");
}

#[test]
fn the_answer_is_about_the_policies_that_were_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.toml");
    let of = |rule: f64| {
        let text = format!(
            "[[policy]]\nname = \"nap\"\nkind = \"power_nap\"\nsuspend = \"1ms\"\nresume = \"1ms\"\n\
             [[policy]]\nname = \"slow\"\nkind = \"dvfs\"\nfloor = 0.1\nprocessor_share = 0.3\n\
             idle_share = 0.1\nlaw = \"cubic\"\nrule = {{ fixed = {rule} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let params = ["--params", file.to_str().unwrap()];
        let small = ["--utilisation", "0.5", "--requests", "200"];
        let output = simulate(&[&params[..], &small].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(of(0.9).contains("draws least in these runs: "));
    // It serves less than comes.
    let text = of(0.4);
    assert!(
        text.contains("draws least of the policies simulated: "),
        "{text}"
    );
}

//! `reveille trial` as a user meets it: between network namespaces, over loopback, with commands,
//! and with bad input.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::bounded::can_govern;
use crate::program::{as_nobody, reveille, run};
use crate::recorded::recorded;
use crate::{json_schemas, meter};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take, take_to_change};
use serde_json::Value;

/// A trial changes settings.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

fn is_root(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        println!("skipped: {test}: needs root");
    }
    is_root
}

/// The trial's JSON of a run that must succeed.
fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    parsed(&output, 0)
}

fn parsed(output: &Output, code: i32) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The setting of that name.
fn setting<'a>(trial: &'a Value, name: &str) -> &'a Value {
    let settings = trial["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["name"] == name);
    found.unwrap_or_else(|| panic!("no setting {name}: {settings:?}"))
}

/// The settings that a trial may change.
fn settings_of_the_machine() -> Vec<String> {
    let mut all = Vec::new();
    for cpu in 0..nix::sched::CpuSet::count() {
        let cpu = format!("/sys/devices/system/cpu/cpu{cpu}");
        all.extend(fs::read_to_string(format!(
            "{cpu}/power/pm_qos_resume_latency_us"
        )));
        for state in 0..10 {
            all.extend(fs::read_to_string(format!(
                "{cpu}/cpuidle/state{state}/disable"
            )));
        }
    }
    all
}

fn short(meter: &str, more: &str) -> Command {
    let mut command = reveille();
    command.args([
        "trial",
        "--meter",
        meter,
        "--echo",
        "self",
        "--settings",
        "no-sleep",
    ]);
    command.args(more.split(' '));
    command
}

#[test]
fn a_meter_gives_the_power_of_each_setting() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(name) = meter::by_no_sleep() else {
        return println!("skipped: a trial's power: no bound of latency is honoured");
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("trial");
    let line = "--rounds 2 --requests 150 --interval 10ms";
    let trial = json(short(&name, line).arg("--out").arg(&out));
    json_schemas::matches("trial", std::slice::from_ref(&trial));
    assert_eq!(trial["meter"]["name"], name);
    assert_eq!(trial["cost"], "power");
    for (name, true_w) in [("as is", 40.0), ("no sleep", 60.0)] {
        let power_w = setting(&trial, name)["observed"]["power_w"].as_f64();
        let off = power_w.unwrap() / true_w - 1.0;
        assert!(off.abs() < 0.02, "{name}: {power_w:?}");
    }
    let shown = reveille().arg("show").arg(&out).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("Meter ") && text.contains("power"), "{text}");
}

#[test]
fn turns_that_are_too_short_for_the_meter_are_refused_with_the_time_that_it_needs() {
    let name = meter::made_up(Duration::from_millis(50), || 40.0);
    let requests = short(&name, "--requests 20 --interval 10ms");
    let mut command = reveille();
    command.args([
        "trial",
        "--meter",
        &name,
        "--settings",
        "as-is",
        "--setting",
        "hold --latency 0",
        "--",
        "sleep",
        "0.2",
    ]);
    for mut command in [requests, command] {
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(3) {
            return println!("skipped: {errors}");
        }
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("s: too short for shelly:"), "{errors}");
        // How often it is refreshed is measured.
        let needed = errors
            .rsplit_once(": at least ")
            .unwrap()
            .1
            .trim()
            .trim_end_matches('s');
        assert!((1.0..5.0).contains(&needed.parse().unwrap()), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn invalid_input_is_reported_in_one_line_and_changes_nothing() {
    let _alone = take(&[Use::Beside(Part::IdleStates)]);
    let before = settings_of_the_machine();
    for (code, flags, word) in [
        (2, vec![], "no workload"),
        (2, vec!["--ping", "no-such-host.invalid"], "unknown host"),
        (2, vec!["--echo", "localhost:http!"], "is not a port"),
        (
            2,
            vec!["--ping", "127.0.0.1", "--echo", "self"],
            "cannot be used with",
        ),
        (
            2,
            vec!["--ping", "127.0.0.1", "--", "true"],
            "cannot be used with",
        ),
        (2, vec!["--ping", "127.0.0.1", "--size", "3"], "from 8 to"),
        (
            2,
            vec!["--ping", "127.0.0.1", "--interval", "0s"],
            "above 0",
        ),
        (
            2,
            vec!["--echo", "self", "--bursts", "1000/s,100ms"],
            "not RATE,LENGTH,PAUSE, such as",
        ),
        (
            2,
            vec!["--echo", "self", "--bursts", "0/s,100ms,1s"],
            "rate 0/s: must be from",
        ),
        (
            2,
            vec!["--ping", "127.0.0.1", "--bursts", "9/s,1s,1h"],
            "pause 1h: must be above 0 and at most 10s",
        ),
        (
            2,
            vec![
                "--echo",
                "self",
                "--bursts",
                "9/s,1s,1s",
                "--interval",
                "1ms",
            ],
            "cannot be used with '--interval",
        ),
        (2, vec!["--bursts", "9/s,1s,1s"], "no workload"),
        (
            2,
            vec!["--bursts", "9/s,1s,1s", "--", "true"],
            "cannot be used with",
        ),
        (2, vec!["--echo", "self", "--cpu", "4000"], "no such CPU"),
        (2, vec!["--rounds", "0", "--", "true"], "--rounds"),
        (2, vec!["--figure", "(", "--", "true"], "--figure"),
        (2, vec!["--latency", "5", "--", "true"], "no unit"),
        (2, vec!["--latency", "-5us", "--", "true"], "-5"),
        (
            2,
            vec!["--setting", "limit --disable C99", "--", "true"],
            "C99",
        ),
        (
            2,
            vec!["--setting", "sleep well", "--", "true"],
            "sleep: not a setting",
        ),
        (
            2,
            vec!["--setting", "govern --config /none", "--", "true"],
            "/none: no such file of rules",
        ),
        (
            1,
            vec!["--setting", "govern --config /etc/passwd", "--", "true"],
            "/etc/passwd: ",
        ),
        (
            2,
            vec!["--setting", "quiet run --within 1s", "--", "true"],
            "quiet run: the following required arguments were not provided: <--cgroup <G>",
        ),
        (
            2,
            vec!["--setting", "quiet run --cgroup /none", "--", "true"],
            "--cgroup: no ",
        ),
        (
            2,
            vec!["--dry-run", "--setting", "quiet run --after 1s"],
            "quiet run: the following required",
        ),
        (2, vec!["--settings", "C99", "--", "true"], "C99"),
        (
            2,
            vec!["--settings", "as-is", "--", "true"],
            "nothing to compare",
        ),
        (2, vec!["--", "no-such-command-anywhere"], "no such command"),
        (
            2,
            vec!["--root", "/nonexistent", "--dry-run"],
            "not a folder",
        ),
    ] {
        let ended = run(reveille().arg("trial").args(&flags));
        // A machine without idle states reports that instead, or one without cgroup2.
        let missing = ["no cpuidle", "no cgroup2"].map(|what| ended.stderr.contains(what));
        let cannot = ended.code == 3 && missing.contains(&true);
        assert!(ended.code == code || cannot, "{flags:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(word) || cannot,
            "{flags:?}: {}",
            ended.stderr
        );
        assert_eq!(
            ended.stderr.lines().count(),
            1,
            "{flags:?}: {}",
            ended.stderr
        );
    }
    assert_eq!(settings_of_the_machine(), before);
}

#[test]
fn an_unreachable_host_is_reported_before_any_measurement() {
    if !is_root("who does not answer") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    // A port that was free a moment ago.
    let port = {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    };
    for transport in [&["--settings", "no-sleep"][..], &["--tcp"]] {
        let mut command = reveille();
        command.args([
            "trial",
            "--settings",
            "no-sleep",
            "--echo",
            &port.to_string(),
        ]);
        if transport.contains(&"--tcp") {
            command.arg("--tcp");
        }
        let ended = run(&mut command);
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("none of 3 requests was answered"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
    }
}

#[test]
fn a_command_that_fails_ends_the_trial_with_its_exit_code() {
    if !is_root("a command that fails") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let trial = [
        "trial",
        "--settings",
        "no-sleep",
        "--settle",
        "0s",
        "--rounds",
        "2",
    ];
    let ended = run(reveille()
        .args(trial)
        .args(["--", "sh", "-c", "echo oh dear >&2; exit 7"]));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("exit code 7; last line: oh dear"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let ended = run(reveille()
        .args(trial)
        .args(["--figure", r"(\d+) ms", "--", "echo", "quick"]));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("nothing in its output"),
        "{}",
        ended.stderr
    );
}

#[test]
fn without_root_the_trial_is_refused_before_it_runs_anything() {
    let Some((folder, mut command)) = as_nobody() else {
        println!("skipped: without root: needs root to become nobody");
        return;
    };
    let ran = folder.path().join("ran");
    let touch = [
        "trial",
        "--settings",
        "no-sleep",
        "--settle",
        "0s",
        "--rounds",
        "1",
        "--",
        "touch",
    ];
    let ended = run(command.args(touch).arg(&ran));
    // If no driver honours a bound, threads keep the CPUs awake, which needs no permission.
    if Path::new("/sys/devices/system/cpu/cpu0/cpuidle/state0").exists() {
        assert_eq!(ended.code, 3, "{}", ended.stderr);
        assert!(ended.stderr.contains("root"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(!ran.exists());
    } else {
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

/// A command that prints the number of disabled idle states: the setting in force.
const DISABLED: &str = "cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | \
                        awk '{ sum += $1 } END { print \"disabled \" sum }'";

#[test]
fn rules_that_another_program_keeps_out_are_no_setting() {
    let test = "rules that another program keeps out are no setting";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, "[[rule]]\nname = \"a\"\nlatency = \"0\"\n").unwrap();
    let line = format!("govern --config {}", rules.display());
    let of_another = "/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us";
    for (value, code) in [("0", 0), ("33", 1)] {
        fs::write(of_another, value).unwrap();
        let mut command = reveille();
        command.args(["trial", "--json", "--rounds", "2", "--settings", "as-is"]);
        command.args(["--setting", &line, "--", "sh", "-c", "sleep 0.05"]);
        let output = command.output();
        fs::write(of_another, "0").unwrap();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{value}: {errors}");
    }
}

#[test]
fn a_limit_is_in_force_during_its_turns_only() {
    let test = "a limit is in force during its turns only";
    let states = Path::new("/sys/devices/system/cpu/cpu0/cpuidle/state1");
    if !is_root(test) {
        return;
    }
    if !states.exists() {
        println!("skipped: {test}: CPU 0 has no two idle states");
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let before = settings_of_the_machine();
    let first = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name").unwrap();
    let first = first.trim();
    let mut command = reveille();
    command.args(["trial", "--json", "--settings", first, "--rounds", "3"]);
    command.args(["--settle", "0s", "--figure", r"disabled (\d+)"]);
    command.args(["--", "sh", "-c", DISABLED]);
    let trial = parsed(&command.output().unwrap(), 0);
    let median = |name: &str| setting(&trial, name)["figure"]["median"].as_f64().unwrap();
    assert!(
        median(&format!("up to {first}")) > median("as is"),
        "{trial}"
    );
    assert_eq!(settings_of_the_machine(), before);
}

#[test]
fn an_interrupted_trial_keeps_its_rounds_and_restores_the_machine() {
    if !is_root("an interrupted trial") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let before = settings_of_the_machine();
    let folder = tempfile::tempdir().unwrap();
    let (out, runs) = (folder.path().join("trial"), folder.path().join("runs"));
    let mut child = reveille()
        .args([
            "trial",
            "--settings",
            "no-sleep",
            "--settle",
            "0s",
            "--rounds",
            "200",
            "--out",
        ])
        .arg(&out)
        .args(["--json", "--", "sh", "-c"])
        .arg(format!("echo >>{}; sleep 0.2", runs.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first round of both settings is over, and the second nearly.
    let began = Instant::now();
    while fs::read(&runs).map_or(0, |runs| runs.len()) < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        assert!(began.elapsed() < Duration::from_secs(60), "it runs nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let trial = parsed(&child.wait_with_output().unwrap(), 130);
    assert_eq!(trial["ended"], "interrupted");
    assert!(
        setting(&trial, "as is")["rounds"].as_u64().unwrap() >= 1,
        "{trial}"
    );
    let kept: Value = serde_json::from_slice(&fs::read(out.join("trial.json")).unwrap()).unwrap();
    assert_eq!(kept["ended"], "interrupted");
    assert!(!kept["rounds"].as_array().unwrap().is_empty());
    assert_eq!(settings_of_the_machine(), before);
    // A kept result is never overwritten, and makes a page.
    let mut again = reveille();
    let ended = run(again
        .args(["trial", "--out"])
        .arg(&out)
        .args(["--", "true"]));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("is there already"),
        "{}",
        ended.stderr
    );
    let ended = run(reveille().arg("report").arg(&out));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("early, interrupted") && page.contains("no sleep"));
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
}

#[test]
fn a_served_port_answers_udp_and_tcp_until_interrupted() {
    if !is_root("a served port") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let mut server = reveille()
        .args(["trial", "--serve", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    let address = said.split_whitespace().find_map(|word| {
        let word = word.trim_end_matches(';');
        word.starts_with("127.0.0.1:").then(|| word.to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("{said}"));
    for tcp in [false, true] {
        let mut command = reveille();
        command.args([
            "trial",
            "--echo",
            &address,
            "--settings",
            "no-sleep",
            "--settle",
            "0s",
        ]);
        command.args(["--rounds", "2", "--requests", "5", "--interval", "1ms"]);
        if tcp {
            command.arg("--tcp");
        }
        let trial = json(&mut command);
        assert_eq!(setting(&trial, "as is")["figure"]["count"], 10, "{trial}");
        assert_eq!(setting(&trial, "no sleep")["failed"], 0, "{trial}");
    }
    interrupt(&server);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn requests_in_bursts_have_each_bursts_first_apart_and_the_sleep_in_the_pauses() {
    if !is_root("requests in bursts") {
        return;
    }
    let Some(_alone) = alone() else {
        return;
    };
    let has_cpuidle = Path::new("/sys/devices/system/cpu/cpu0/cpuidle/state0").exists();
    for (workload, flags) in [
        (["--echo", "self"], &["--tcp"][..]),
        (["--echo", "self"], &[]),
        (["--ping", "127.0.0.1"], &["--cpu", "0"]),
    ] {
        let mut command = reveille();
        command.arg("trial").args(workload).args(flags);
        command.args(["--settings", "no-sleep", "--settle", "0s", "--rounds", "2"]);
        // Rounded up to three bursts of ten.
        let bursts = ["--bursts", "1000/s,10ms,40ms", "--requests", "21"];
        let trial = json(command.args(bursts));
        json_schemas::matches("trial", std::slice::from_ref(&trial));
        let pace = &trial["workload"]["pace"];
        assert_eq!(pace["requests_per_round"], 30, "{trial}");
        assert_eq!(pace["bursts"]["requests"], 10, "{trial}");
        for name in ["as is", "no sleep"] {
            let setting = setting(&trial, name);
            assert_eq!(setting["figure"]["count"], 2 * 3 * 9, "{trial}");
            let bursts = &setting["bursts"];
            assert_eq!(bursts["first"]["count"], 2 * 3, "{trial}");
            // Half of each pause, and the periods of each burst, at least.
            let elapsed_s = setting["observed"]["elapsed_s"].as_f64().unwrap();
            assert!(elapsed_s >= 3.0 * (0.020 + 0.009), "{trial}");
            let asleep = bursts["asleep_percent"].as_f64();
            if name == "no sleep" && has_cpuidle {
                assert!(asleep.unwrap() < 20.0, "{trial}");
            }
        }
    }
}

#[test]
fn no_sleep_differs_from_as_is_over_loopback() {
    let test = "no_sleep_differs_from_as_is_over_loopback";
    if !is_root(test) {
        return;
    }
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
    else {
        return;
    };
    // Waking takes more than a tenth of such a round trip. Other load may hide the effect for a
    // while: up to three attempts are made, and an interval that is too wide decides nothing.
    const NARROW: f64 = 0.1;
    let mut intervals = Vec::new();
    for rounds in ["10", "14", "18"] {
        let trial = json(reveille().args([
            "trial",
            "--echo",
            "self",
            "--settings",
            "no-sleep",
            "--settle",
            "20ms",
            "--rounds",
            rounds,
            "--requests",
            "60",
            "--interval",
            "4ms",
        ]));
        let awake = setting(&trial, "as is")["observed"]["awake_percent"]
            .as_f64()
            .unwrap();
        if awake > 40.0 {
            println!("skipped: {test}: the CPUs are awake {awake:.0}% of the time without it");
            return;
        }
        let no_sleep = setting(&trial, "no sleep");
        assert!(
            no_sleep["observed"]["awake_percent"].as_f64().unwrap() > 95.0,
            "{trial}"
        );
        let high = no_sleep["median_difference"]["interval"][1]
            .as_f64()
            .unwrap();
        if high < 0.0 {
            assert_eq!(
                trial["settings"][trial["verdict"]["best"].as_u64().unwrap() as usize]["name"],
                "no sleep"
            );
            return;
        }
        let low = no_sleep["median_difference"]["interval"][0]
            .as_f64()
            .unwrap();
        let round_trip = setting(&trial, "as is")["figure"]["median"]
            .as_f64()
            .unwrap();
        intervals.push((low / round_trip, high / round_trip));
    }
    let narrow = |&(low, high): &(f64, f64)| high - low < NARROW;
    assert!(
        !intervals.iter().any(narrow),
        "no sleep is as slow: {intervals:?}"
    );
    println!("skipped: {test}: the machine is too busy for a verdict: {intervals:?}");
}

/// Two network namespaces with a cable between them; removed when this is dropped.
struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    const ADDRESSES: [&str; 2] = ["10.213.77.1", "10.213.77.2"];

    /// `None`, with a message, if this machine has none.
    fn new(test: &str) -> Option<Self> {
        let id = std::process::id();
        let namespaces = Self {
            names: ["a", "b"].map(|end| format!("reveille-{id}-{end}")),
        };
        let [a, b] = &namespaces.names;
        let mut done = ip(&["netns", "add", a]) && ip(&["netns", "add", b]);
        done = done
            && ip(&[
                "-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
                b,
            ]);
        for (name, address) in namespaces.names.iter().zip(Self::ADDRESSES) {
            let address = format!("{address}/24");
            done = done && ip(&["-n", name, "addr", "add", &address, "dev", "cable"]);
            done = done && ip(&["-n", name, "link", "set", "cable", "up"]);
        }
        if !done {
            println!("skipped: {test}: no network namespaces with a veth pair can be made");
        }
        done.then_some(namespaces)
    }

    /// The program in the first of them.
    fn reveille(&self) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.names[0],
            env!("CARGO_BIN_EXE_reveille"),
        ]);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn ip(words: &[&str]) -> bool {
    let output = Command::new("ip").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn pings_between_namespaces_are_answered_and_those_to_no_host_are_not() {
    let test = "pings between namespaces";
    if !is_root(test) {
        return;
    }
    let Some(namespaces) = Namespaces::new(test) else {
        return;
    };
    let Some(_alone) = alone() else {
        return;
    };
    let quick = [
        "--settings",
        "no-sleep",
        "--settle",
        "0s",
        "--rounds",
        "2",
        "--requests",
        "5",
        "--interval",
        "1ms",
    ];
    for size in ["8", "1400"] {
        let mut command = namespaces.reveille();
        let trial = json(
            command
                .args(["trial", "--ping", Namespaces::ADDRESSES[1], "--size", size])
                .args(quick),
        );
        for name in ["as is", "no sleep"] {
            let setting = setting(&trial, name);
            assert_eq!(
                (&setting["figure"]["count"], &setting["failed"]),
                (&10.into(), &0.into()),
                "{trial}"
            );
            assert!(setting["figure"]["min"].as_f64().unwrap() > 0.0);
            assert!(
                setting["reading_median_ns"].as_f64().unwrap() > 0.0,
                "{trial}"
            );
        }
    }
    let mut command = namespaces.reveille();
    let ended = run(command
        .args(["trial", "--ping", "10.213.77.3", "--timeout", "50ms"])
        .args(quick));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("none of 3 requests was answered"),
        "{}",
        ended.stderr
    );
    let mut command = namespaces.reveille();
    let ended = run(command.args(["trial", "--ping", "192.0.2.1"]).args(quick));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("no route"), "{}", ended.stderr);
}

#[test]
fn a_dry_run_lists_the_settings_of_a_recorded_machine() {
    for (machine, settings) in [
        (
            "cfl-u",
            &[
                "as is",
                "up to C1",
                "up to C1E",
                "up to C3",
                "up to C6",
                "up to C7s",
                "up to C8",
                "up to C9",
                "hold 20us",
                "no sleep",
            ][..],
        ),
        // A hybrid: two kinds of core, three ACPI states.
        (
            "rpl0",
            &[
                "as is",
                "up to C1_ACPI",
                "up to C2_ACPI",
                "hold 20us",
                "no sleep",
            ],
        ),
        ("milan0", &["as is", "up to C1", "hold 20us", "no sleep"]),
    ] {
        let Some(folder) = recorded(machine) else {
            return;
        };
        let planned = json(
            reveille()
                .args(["trial", "--dry-run", "--latency", "20us", "--root"])
                .arg(folder.path()),
        );
        let names = planned["settings"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, settings, "{machine}");
        let mut command = reveille();
        command.args(["trial", "--dry-run", "--markdown", "--root"]);
        let markdown = command.arg(folder.path()).output().unwrap().stdout;
        let markdown = String::from_utf8(markdown).unwrap();
        assert!(
            markdown.starts_with("## Settings of a trial\n"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| as is | nothing is changed |\n"),
            "{markdown}"
        );
    }
}

//! `reveille power` with made-up meters, whose truth is known: what it measures.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::meter::made_up;
use crate::power::{json, power};
use crate::program::{reveille, with_own_journal};
use crate::{json_schemas, meter};
use reveille_alone::{Held, Part, Use, take};
use serde_json::Value;
/// What others do with CPUs would disturb the measurement.
fn measures() -> Held {
    take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)])
}

/// It also switches states off.
fn measures_states() -> Held {
    take(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
}

/// Whether other load ended the run, which is then said.
fn is_disturbed(test: &str, output: &Output) -> bool {
    let errors = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let ended = json["ended"].to_string();
    let is_disturbed = meter::is_disturbed(&errors) || meter::is_disturbed(&ended);
    if is_disturbed {
        println!("skipped: {test}: {errors}{ended}");
    }
    is_disturbed
}

/// Idle ticks of each CPU, and all of its ticks.
fn ticks() -> Vec<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let of_cpu = stat
        .lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    of_cpu
        .map(|line| {
            let fields = line
                .split_whitespace()
                .skip(1)
                .map(|field| field.parse().unwrap());
            let fields: Vec<u64> = fields.collect();
            (fields[3] + fields[4], fields[..8].iter().sum())
        })
        .collect()
}

/// 20 W while all CPUs are idle, 37 W more for the first that is busy, 8 W for each further one.
fn by_busy_cpus() -> impl FnMut() -> f64 + Send {
    let mut before = ticks();
    move || {
        let after = ticks();
        let both = before.iter().zip(&after);
        let busy = both
            .filter(|(before, after)| 2 * (after.0 - before.0) < after.1 - before.1)
            .count();
        before = after;
        if busy == 0 {
            20.0
        } else {
            57.0 + 8.0 * (busy as f64 - 1.0)
        }
    }
}

/// The result has the listed fields and is what was kept: `show` prints it again, and this as text.
fn is_kept(schema: &str, result: &Value, out: &Path) -> String {
    json_schemas::matches(schema, std::slice::from_ref(result));
    let show = |flags: &[&str]| {
        let shown = reveille().arg("show").arg(out).args(flags).output();
        let shown = shown.unwrap();
        assert!(shown.status.success(), "{shown:?}");
        shown
    };
    let mut kept = json(&show(&["--json"]));
    // Those are kept for `show`, and printed by no command.
    kept["turns"] = Value::Array(Vec::new());
    assert_eq!(&kept, result);
    let markdown = show(&["--markdown"]).stdout;
    assert!(markdown.starts_with(b"## "), "{markdown:?}");
    String::from_utf8(show(&[]).stdout).unwrap()
}

#[test]
fn the_power_of_busy_cpus_is_found_within_two_per_cent() {
    let _alone = measures();
    let name = made_up(Duration::from_millis(20), by_busy_cpus());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let mut command = power("cpus --json --rounds 6 --dwell 700ms", &name);
    let output = command.arg("--out").arg(&out).output().unwrap();
    if is_disturbed("the power of busy CPUs", &output) {
        return;
    }
    let result = json(&output);
    let curve = &result["orders"][0];
    for point in curve["points"].as_array().unwrap() {
        let busy = point["busy"].as_f64().unwrap();
        let true_w = if busy == 0.0 {
            20.0
        } else {
            57.0 + 8.0 * (busy - 1.0)
        };
        let off = point["power_w"]["estimate"].as_f64().unwrap() / true_w - 1.0;
        assert!(off.abs() < 0.02, "{point}");
        let joint_percent = point["joint_percent"][1].as_f64();
        let most = if busy == 0.0 { 100.0 } else { 5.0 };
        assert!(
            joint_percent.is_none_or(|percent| percent <= most),
            "{point}"
        );
    }
    let first_w = curve["first_w"]["estimate"].as_f64().unwrap();
    assert!((36.0..38.0).contains(&first_w), "{curve}");
    let shown = is_kept("power-cpus", &result, &out);
    assert!(shown.contains("he first busy CPU costs 3"), "{shown}");
    let page = reveille().arg("report").arg(&out).output().unwrap();
    assert!(page.status.success() && out.join("report.html").is_file());
}

#[test]
fn a_meter_that_is_too_coarse_is_refused() {
    let name = made_up(Duration::from_millis(200), || 40.0);
    let output = power("cpus --dwell 2s", &name).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("too short for shelly:127.0.0.1"),
        "{errors}"
    );
    // It is slower than it is watched for at first.
    let _alone = measures();
    let name = made_up(Duration::from_millis(2500), || 40.0);
    let output = power("cpus --dwell 2s", &name).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("watching it for up to a minute"),
        "{errors}"
    );
    let refresh_s = errors.split("which has a new value every ").nth(1);
    let refresh_s = refresh_s.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let refresh_s = refresh_s.expect("it is known");
    assert!((2.4..2.7).contains(&refresh_s), "{errors}");
}

/// Entries to an idle state so far, all CPUs together.
fn entries(state: u32) -> f64 {
    let cpus = fs::read_dir("/sys/devices/system/cpu").unwrap();
    let files = cpus.map(|cpu| {
        cpu.unwrap()
            .path()
            .join(format!("cpuidle/state{state}/usage"))
    });
    let counts = files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<f64>().ok());
    counts.sum()
}

/// Each state's power, W, and the energy of an entry, J: the first one polls. The state is that with more entries.
const STATES: [(f64, f64); 2] = [(60.0, 0.0), (20.0, 0.012)];

fn by_entries() -> impl FnMut() -> f64 + Send {
    let mut before = (Instant::now(), [entries(0), entries(1)]);
    move || {
        let now = (Instant::now(), [entries(0), entries(1)]);
        let s = now.0.duration_since(before.0).as_secs_f64().max(1e-3);
        let rates = [0, 1].map(|state| (now.1[state] - before.1[state]) / s);
        before = now;
        let (power_w, entry_j) = STATES[usize::from(rates[1] > rates[0])];
        power_w + entry_j * rates[0].max(rates[1])
    }
}

#[test]
fn a_break_even_is_found_within_a_tenth_and_the_states_are_restored() {
    let disabled = || {
        let of = |state| {
            fs::read_to_string(format!(
                "/sys/devices/system/cpu/cpu0/cpuidle/state{state}/disable"
            ))
        };
        [of(0), of(1)].map(Result::ok)
    };
    let [Some(_), Some(_)] = disabled() else {
        return println!("skipped: a break-even: this machine has no two idle states");
    };
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: a break-even: needs root");
    }
    let _alone = measures_states();
    let before = disabled();
    let name = made_up(Duration::from_millis(20), by_entries());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let words = "states --json --rounds 6 --rates 50,2000 --dwell 800ms";
    let output = power(words, &name).arg("--out").arg(&out).output().unwrap();
    assert_eq!(disabled(), before);
    if is_disturbed("a break-even", &output) {
        return;
    }
    let result = json(&output);
    let states = result["idle_states"].as_array().unwrap();
    let [shallow, deep] = &states[..] else {
        return println!(
            "skipped: a break-even: this machine has {} states",
            states.len()
        );
    };
    let cpus = result["cpus"].as_f64().unwrap();
    let true_us = 1e6 * cpus * (STATES[1].1 - STATES[0].1) / (STATES[0].0 - STATES[1].0);
    let even = &deep["break_even"];
    let off = even["estimate_us"].as_f64().unwrap() / true_us - 1.0;
    assert!(off.abs() < 0.1, "{even}, true {true_us}; {shallow} {deep}");
    let shown = is_kept("power-states", &result, &out);
    assert!(shown.contains(" pays from stays of "), "{shown}");
}

#[test]
fn a_killed_run_is_restored() {
    let file = "/sys/devices/system/cpu/cpu0/cpuidle/state0/disable";
    let read = || {
        fs::read_to_string(file)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if read().as_deref() != Some("0") || !nix::unistd::geteuid().is_root() {
        return println!("skipped: a killed run: needs root and an idle state that is on");
    }
    let _alone = measures_states();
    let name = made_up(Duration::from_millis(20), || 40.0);
    let mut command = with_own_journal(power("states --rounds 50 --rates 50,100", &name));
    let mut run = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // Until a turn is one of a state other than the first.
    while read().as_deref() == Some("0") && began.elapsed() < Duration::from_secs(60) {
        if run.try_wait().unwrap().is_some() {
            let output = run.wait_with_output().unwrap();
            assert!(is_disturbed("a killed run", &output), "it ended early");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(read().as_deref(), Some("1"), "a turn switched it off");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(
        with_own_journal(reveille())
            .arg("restore")
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(read().as_deref(), Some("0"));
}

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::exposition_reader::{Scrape, read};
use super::*;
use crate::judge::Judged;
use crate::metrics::latency;
use crate::status::{Accounted, CpuStatus, HoldStatus, Own, SCHEMA_VERSION};

const CPU: &str = "sys/devices/system/cpu";

/// A machine with two CPUs that have POLL and C1; CPU 1 has two states C1, and no count of the second.
fn machine() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    put(&root, &format!("{CPU}/present"), "0-1");
    put(&root, &format!("{CPU}/online"), "0-1");
    put(
        &root,
        &format!("{CPU}/cpuidle/current_driver"),
        "intel_idle",
    );
    for (cpu, names) in [(0, &["POLL", "C1"][..]), (1, &["POLL", "C1", "C1"])] {
        for (nth, name) in names.iter().enumerate() {
            let state = format!("{CPU}/cpu{cpu}/cpuidle/state{nth}");
            put(&root, &format!("{state}/name"), name);
            put(&root, &format!("{state}/latency"), &(nth * 33).to_string());
            put(&root, &format!("{state}/time"), "2500000");
            if nth < 2 {
                put(&root, &format!("{state}/usage"), "7");
                put(&root, &format!("{state}/above"), "3");
            }
        }
    }
    (folder, root)
}

fn put(root: &Root, file: &str, text: &str) {
    let path = root.path(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{text}\n")).unwrap();
}

fn cpu(number: u32, bound_us: Option<u32>) -> CpuStatus {
    CpuStatus {
        cpu: number,
        bound_us,
        since_s: None,
        in_the_way: None,
        failed: None,
        why: Vec::new(),
    }
}

fn hold(uid: u32) -> HoldStatus {
    HoldStatus {
        number: 1,
        uid,
        pid: 1,
        name: "evil\"} 1\n".into(),
        reason: "evil\"} 1\n".into(),
        held_s: 1.0,
        judged: Judged::default(),
    }
}

fn status() -> Status {
    let rule = RuleStatus {
        judged: Judged {
            rule: "ssh \"fast\" \\".into(),
            ..Judged::default()
        },
        waits_for: Some("interface eth9".into()),
        in_force: vec![1],
        times: 4,
        held_s: 1.5,
        requests: Some(3),
        packets: Some(9),
    };
    Status {
        schema_version: SCHEMA_VERSION,
        tool: "reveille 0.1.0".into(),
        pid: 1,
        running_s: 1.0,
        file: "rules.toml".into(),
        read: "2026-11-24T10:00:00Z".into(),
        refused: Some("line 1".into()),
        problems: vec!["a".into(), "b".into()],
        wake_latency: false,
        rules: vec![rule],
        holds: vec![hold(1000), hold(0), hold(1000)],
        cpus: vec![cpu(0, None), cpu(1, Some(50))],
        own: Own {
            cpu_s: 0.25,
            wakeups: 12,
        },
        accounted: Some(Accounted {
            packets: 9,
            late: 1,
            program_runs: 2,
            program_ns: 3_000_000_000,
        }),
    }
}

fn scrape(root: &Root, status: &Status) -> Scrape {
    let started = UNIX_EPOCH + Duration::from_millis(2500);
    read(&Content::new(root.clone(), started, |_| {}).text(status))
}

#[test]
fn each_state_has_its_counts_and_unknown_ones_are_left_out() {
    let (_folder, root) = machine();
    let scrape = scrape(&root, &status());
    let of = |name: &str, cpu: &str, state: &str| {
        scrape.value(
            &format!("reveille_idle_{name}"),
            &[("cpu", cpu), ("state", state)],
        )
    };
    assert_eq!(of("seconds_total", "0", "C1"), Some(2.5));
    assert_eq!(of("entries_total", "0", "POLL"), Some(7.0));
    assert_eq!(of("above_total", "0", "C1"), Some(3.0));
    assert_eq!(of("below_total", "0", "C1"), None);
    assert_eq!(of("exit_latency_seconds", "0", "C1"), Some(0.000_033));
    // Two states of one name are two.
    assert_eq!(of("exit_latency_seconds", "1", "C1.2"), Some(0.000_066));
    assert_eq!(of("entries_total", "1", "C1.1"), Some(7.0));
    assert_eq!(of("entries_total", "1", "C1.2"), None);
    // POLL is no sleep; and a sum with an unknown part is unknown.
    assert_eq!(
        scrape.value("reveille_wakeups_total", &[("cpu", "0")]),
        Some(7.0)
    );
    assert_eq!(
        scrape.value("reveille_wakeups_total", &[("cpu", "1")]),
        None
    );
}

#[test]
fn counts_are_read_anew_and_cpus_come_and_go() {
    let (_folder, root) = machine();
    let mut content = Content::new(root.clone(), UNIX_EPOCH, |_| {});
    let entries = |text: &str| {
        let scrape = read(text);
        scrape
            .all("reveille_idle_entries_total")
            .iter()
            .map(|(_, value)| value)
            .sum::<f64>()
    };
    assert_eq!(entries(&content.text(&status())), 28.0);
    put(&root, &format!("{CPU}/cpu0/cpuidle/state1/usage"), "8");
    assert_eq!(entries(&content.text(&status())), 29.0);
    put(&root, &format!("{CPU}/present"), "0");
    put(&root, &format!("{CPU}/online"), "0");
    assert_eq!(entries(&content.text(&status())), 15.0);
}

#[test]
fn the_service_and_its_rules_are_as_the_status_has_them() {
    let (_folder, root) = machine();
    let scrape = scrape(&root, &status());
    for (name, expected) in [
        ("rules", 1.0),
        ("rules_refused", 1.0),
        ("rules_read_time_seconds", 1_795_514_400.0),
        ("problems", 2.0),
        ("service_start_time_seconds", 2.5),
        ("service_cpu_seconds_total", 0.25),
        ("service_wakeups_total", 12.0),
        ("bounds_late_total", 1.0),
        ("bpf_runs_total", 2.0),
        ("bpf_seconds_total", 3.0),
    ] {
        assert_eq!(
            scrape.value(&format!("reveille_{name}"), &[]),
            Some(expected),
            "{name}"
        );
    }
    for (name, expected) in [
        ("cpus", 1.0),
        ("waits", 1.0),
        ("holds_total", 4.0),
        ("held_seconds_total", 1.5),
        ("packets_total", 9.0),
    ] {
        let rule = [("rule", "ssh \"fast\" \\")];
        assert_eq!(
            scrape.value(&format!("reveille_rule_{name}"), &rule),
            Some(expected),
            "{name}"
        );
    }
    let version = [("version", "0.1.0")];
    assert_eq!(scrape.value("reveille_build_info", &version), Some(1.0));
    let mut status = status();
    (status.accounted, status.refused) = (None, None);
    status.rules[0].packets = None;
    let scrape = self::scrape(&root, &status);
    assert_eq!(scrape.value("reveille_rules_refused", &[]), Some(0.0));
    assert!(scrape.all("reveille_bpf_runs_total").is_empty());
    assert!(scrape.all("reveille_rule_packets_total").is_empty());
}

#[test]
fn a_bound_that_something_keeps_out_is_not_in_force() {
    let (_folder, root) = machine();
    let mut status = status();
    let of = |status: &Status, name: &str| {
        let scrape = scrape(&root, status);
        scrape.value(&format!("reveille_bound_{name}"), &[("cpu", "1")])
    };
    assert_eq!(of(&status, "seconds"), Some(0.000_05));
    assert_eq!(of(&status, "in_the_way"), Some(0.0));
    status.cpus[1].in_the_way = Some("20".into());
    assert_eq!(of(&status, "seconds"), None);
    assert_eq!(of(&status, "wanted"), Some(1.0));
    assert_eq!(of(&status, "in_the_way"), Some(1.0));
    status.cpus[1] = cpu(1, Some(0));
    assert_eq!(of(&status, "seconds"), Some(0.0));
    status.cpus[1].failed = Some("EIO".into());
    assert_eq!(
        (of(&status, "seconds"), of(&status, "failed")),
        (None, Some(1.0))
    );
}

#[test]
fn users_are_numbers_and_as_many_as_there_may_be() {
    let (_folder, root) = machine();
    let mut content = Content::new(root, UNIX_EPOCH, |_| {});
    let mut status = status();
    let text = content.text(&status);
    assert!(
        !text.contains("evil"),
        "what a program says of itself is no label"
    );
    let first = read(&text);
    assert_eq!(
        first.value("reveille_program_holds", &[("uid", "1000")]),
        Some(2.0)
    );
    assert_eq!(
        first.value("reveille_program_holds", &[("uid", "0")]),
        Some(1.0)
    );
    // Others in turn, as a user with many ids can.
    let mut labels = BTreeSet::new();
    for uid in 2000..2200 {
        status.holds = vec![hold(uid)];
        let scrape = read(&content.text(&status));
        for (of, _) in scrape.all("reveille_program_holds") {
            labels.insert(of["uid"].clone());
        }
    }
    assert_eq!(labels.len(), USERS_MAX - 2 + 1);
    assert!(labels.contains("other"));
}

#[test]
fn energy_and_a_discharging_battery_are_there_if_the_machine_has_them() {
    let (_folder, root) = machine();
    let without = scrape(&root, &status());
    assert!(without.all("reveille_energy_joules_total").is_empty());
    assert!(without.all("reveille_battery_power_watts").is_empty());
    put(&root, "sys/class/powercap/intel-rapl:0/name", "package-0");
    put(
        &root,
        "sys/class/powercap/intel-rapl:0/energy_uj",
        "2500000",
    );
    put(&root, "sys/class/power_supply/BAT0/type", "Battery");
    put(&root, "sys/class/power_supply/BAT0/status", "Discharging");
    put(&root, "sys/class/power_supply/BAT0/power_now", "7500000");
    let with = scrape(&root, &status());
    let package = [("domain", "package"), ("package", "0")];
    assert_eq!(
        with.value("reveille_energy_joules_total", &package),
        Some(2.5)
    );
    let battery = [("battery", "BAT0")];
    assert_eq!(
        with.value("reveille_battery_power_watts", &battery),
        Some(7.5)
    );
}

#[test]
fn recorded_machines_are_as_they_were_recorded() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines/lay-out");
    if !program.exists() {
        println!("skipped: recorded_machines_are_as_they_were_recorded: no ../shared/machines");
        return;
    }
    for name in ["cfl-u", "milan0", "rpl0", "bdwex0-nocpuidle"] {
        let folder = tempfile::tempdir().unwrap();
        let laid_out = Command::new(&program).arg(name).arg(folder.path()).status();
        assert!(laid_out.unwrap().success());
        let root = Root::at(folder.path());
        let scrape = scrape(&root, &status());
        let mut states = 0;
        for cpu in &Idle::read(&root).unwrap().cpus {
            for state in &cpu.states {
                let number = cpu.number.to_string();
                let labels = [("cpu", number.as_str()), ("state", state.name.as_str())];
                let of = |name: &str| scrape.value(&format!("reveille_idle_{name}"), &labels);
                assert_eq!(of("entries_total"), state.usage.map(|usage| usage as f64));
                let exit = state.exit_latency_us.map(|us| us as f64 / 1e6);
                assert_eq!(of("exit_latency_seconds"), exit);
                states += 1;
            }
        }
        let exits = scrape.all("reveille_idle_exit_latency_seconds").len();
        assert_eq!(exits, states, "{name}");
    }
}

/// Words of a text that look like names of metrics.
fn named(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    let names = words.filter(|word| word.starts_with("reveille_"));
    names.map(str::to_owned).collect()
}

#[test]
fn the_book_the_dashboard_and_the_alerts_name_the_metrics_that_there_are() {
    let (_folder, root) = machine();
    let mut there: BTreeSet<String> = scrape(&root, &status()).kinds.into_keys().collect();
    let mut latencies = Exposition::default();
    latency::write(&BTreeMap::new(), &mut latencies);
    there.extend(read(&latencies.into_text()).kinds.into_keys());
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |file: &str| std::fs::read_to_string(top.join(file)).unwrap();
    assert_eq!(named(&text("docs/src/reference/metrics.md")), there);
    let dashboard = text("package/grafana-dashboard.json");
    for (file, text) in [
        ("dashboard", &dashboard),
        ("alerts", &text("package/alerts.yml")),
    ] {
        let of_histograms = |name: String| name.trim_end_matches("_bucket").to_owned();
        let named: BTreeSet<String> = named(text).into_iter().map(of_histograms).collect();
        assert!(
            named.len() > 4 && named.is_subset(&there),
            "{file}: {named:?}"
        );
    }
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let ids = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|panel| panel["id"].as_u64());
    let ids: Vec<u64> = ids.map(|id| id.expect("a panel has a number")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

//! `reveille path`, from the command line to the page.

use std::process::Command;

use crate::complains::complains;
use crate::elsewhere::elsewhere;
use crate::program::{as_nobody, reveille, run};
use serde_json::Value;

#[test]
fn bad_input_gets_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("path.json"), "{}").unwrap();
    let occupied = folder.path().to_str().unwrap();
    for (arguments, words) in [
        (&["path"][..], "--ping"),
        (&["path", "--ping", "--nic", "lo"], "cannot be used with"),
        (&["path", "--ping", "--port", "53"], "cannot be used with"),
        (
            &["path", "--nic", "nosuchif"],
            "no interface \"nosuchif\"; this machine has ",
        ),
        (&["path", "--nic", ""], "no interface \"\""),
        (&["path", "--nic", "../lo"], "no interface"),
        (&["path", "--nic", "lo", "--port", "0"], "from 1 to 65535"),
        (
            &["path", "--ping", "--duration", "0s"],
            "must be above zero",
        ),
        (&["path", "--ping", "--duration=-1s"], "--duration"),
        (&["path", "--ping", "--count", "0"], "from 1 to 1000000"),
        (
            &["path", "--ping", "--result", "/nonexistent"],
            "/nonexistent",
        ),
        (&["path", "--ping", "--out", occupied], "is there already"),
        (
            &["path", "--ping", "--out", "/proc/version"],
            "not a folder",
        ),
    ] {
        complains(reveille().args(arguments), 2, words);
    }
    let elsewhere = elsewhere(folder.path());
    let by = ["path", "--ping", "--duration", "1s", "--result", &elsewhere];
    complains(reveille().args(by), 2, "CPU 0 has other idle states");
}

#[test]
fn without_permission_it_names_the_remedy() {
    let Some((_folder, mut command)) = as_nobody() else {
        return println!(
            "skipped: {}: it needs root to become nobody",
            module_path!()
        );
    };
    let ended = run(command.args(["path", "--ping", "--duration", "1s"]));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("run as root") || ended.stderr.contains("BTF"),
        "{}",
        ended.stderr
    );
}

/// Pings over the loopback of a network namespace that lives as long as its one command.
fn pings_over_loopback(folder: &str) -> Option<std::process::Output> {
    let busybox = Command::new("busybox")
        .args(["ping", "-c1", "127.0.0.1"])
        .output();
    if !busybox.is_ok_and(|output| output.status.success()) {
        println!("skipped: {}: there is no `busybox ping`", module_path!());
        return None;
    }
    let script = format!(
        "ip link set lo up
         while :; do busybox ping -c 1 127.0.0.1 >/dev/null; sleep 0.05; done &
         {} path --ping --count 5 --duration 60s --json --out {folder}
         code=$?; kill $!; exit $code",
        env!("CARGO_BIN_EXE_reveille")
    );
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", &script])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(output),
        Some(3) | Some(1) if error.contains("unshare") || error.contains("BPF") => {
            println!("skipped: {}: {error}", module_path!());
            None
        }
        code => panic!("{code:?}: {error}"),
    }
}

#[test]
fn pings_become_json_a_folder_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("pings");
    let Some(output) = pings_over_loopback(kept.to_str().unwrap()) else {
        return;
    };
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["follow"], "ping");
    // It checks four times a second, and more may arrive in between.
    assert!(json["counts"]["followed"].as_u64() >= Some(5), "{json}");
    let packets = json["groups"].as_array().unwrap().iter();
    assert_eq!(
        packets
            .map(|group| group["packets"].as_u64().unwrap())
            .sum::<u64>(),
        5
    );
    for group in json["groups"].as_array().unwrap() {
        assert_eq!(group["from_sender"], true);
        for stage in group["stages"].as_array().unwrap() {
            assert!(stage["median_ns"].as_i64() >= Some(0), "{stage}");
        }
    }
    let delays = json["delays"].as_array().unwrap();
    assert!(
        delays
            .iter()
            .any(|delay| delay["now"].as_str().unwrap().contains("virtual"))
    );
    let file: Value =
        serde_json::from_slice(&std::fs::read(kept.join("path.json")).unwrap()).unwrap();
    assert_eq!(file, json);
    let ended = run(reveille().arg("report").arg(&kept));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let page = std::fs::read_to_string(kept.join("report.html")).unwrap();
    assert!(page.contains("Latency of pings by stage"));
    let filtered = ["report", kept.to_str().unwrap(), "--filter", "cpu == 1"];
    complains(reveille().args(filtered), 2, "combined or filtered");
}

#[test]
fn no_packet_in_the_time_is_reported() {
    let output = Command::new("unshare")
        .args([
            "-n",
            env!("CARGO_BIN_EXE_reveille"),
            "path",
            "--ping",
            "--duration",
            "300ms",
        ])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("unshare") || output.status.code() == Some(3) {
        return println!("skipped: {}: {error}", module_path!());
    }
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("no ICMP echo request reached this machine in 0.3 s"),
        "{error}"
    );
}

/// /sys shows the interfaces of the namespace that mounted it.
#[test]
fn an_interface_of_another_network_namespace_is_refused() {
    let names = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let Some(name) = names.into_iter().find(|name| name != "lo") else {
        return println!("skipped: {}: no interface but lo", module_path!());
    };
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--net").args(arguments);
        command
    };
    if run(&mut inside(&["true"])).code != 0 {
        return println!("skipped: {}: no network namespace", module_path!());
    }
    let program = env!("CARGO_BIN_EXE_reveille");
    let mut command = inside(&[program, "path", "--nic", &name, "--duration", "1s"]);
    complains(&mut command, 2, "not in this network namespace");
}

//! Programs and buses that end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::bus::Bus;
use super::client::Client;
use super::service::Service;
use super::{alone, until};
use crate::bounded::{can_govern, setting, values_during};
use crate::complains::complains;
use crate::program::{reveille, run};

fn hold_via(service: &Service, arguments: &[&str]) -> Command {
    let mut command = reveille();
    service.beside(&mut command, &["hold", "--latency", "0", "--via-service"]);
    command.args(arguments);
    command
}

#[test]
fn a_program_that_is_killed_takes_its_hold_along() {
    let test = "a_program_that_is_killed_takes_its_hold_along";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let mut killed = hold_via(&service, &["--cpu", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(killed.stdout.as_mut().unwrap())
        .lines()
        .next();
    assert_eq!(said.unwrap().unwrap(), "Bound  0 (no sleep) for CPU 0");
    assert_eq!(service.holds(), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("its hold is gone", || service.holds() == 0);
    let client = Client::root(&bus);
    until("its bound is taken back", || client.effective(0) == Ok(-1));
}

#[test]
fn a_command_runs_under_the_hold_and_its_exit_code_is_passed_on() {
    let test = "a_command_runs_under_the_hold_and_its_exit_code_is_passed_on";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let ended = run(&mut hold_via(
        &service,
        &["--cpu", "0", "--", "sh", "-c", "exit 7"],
    ));
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    assert!(ended.stderr.contains("held on CPU 0"), "{}", ended.stderr);
    until("its hold is gone", || service.holds() == 0);
    // The command has no copy of the descriptor, which would keep the hold.
    let script = "ls -l /proc/self/fd | grep -c pipe: >&2; sleep 1000 >/dev/null 2>&1 & echo $!";
    let output = hold_via(&service, &["--cpu", "0", "--", "sh", "-c", script]).output();
    let output = output.unwrap();
    until("its hold is gone", || service.holds() == 0);
    let left = String::from_utf8(output.stdout).unwrap();
    let left = Pid::from_raw(left.trim().parse().unwrap());
    kill(left, Signal::SIGKILL).unwrap();
}

#[test]
fn a_hold_that_another_programs_bound_keeps_out_says_so() {
    let test = "a_hold_that_another_programs_bound_keeps_out_says_so";
    let Some(_alone) = alone() else {
        return;
    };
    // No other program's bound is overwritten.
    if !can_govern(test) {
        return;
    }
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let of_another = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    for (value, is_told) in [("0", false), ("20", true)] {
        std::fs::write(of_another, value).unwrap();
        let mut hold = hold_via(&service, &["--cpu", "0", "--json"]);
        let mut hold = hold.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = hold.stdout.take().unwrap();
        let mut values = serde_json::Deserializer::from_reader(stdout).into_iter();
        let plan = values.next();
        std::fs::write(of_another, "0").unwrap();
        hold.kill().unwrap();
        hold.wait().unwrap();
        let plan: serde_json::Value = plan.unwrap().unwrap();
        let held = if is_told { vec![] } else { vec![0] };
        assert_eq!(plan["cpus"], serde_json::json!(held), "{plan}");
        let groups = plan["groups"].as_array().unwrap();
        assert_eq!(groups.is_empty(), is_told, "{plan}");
        until("its hold is gone", || service.holds() == 0);
    }
}

#[test]
fn a_stopped_service_is_not_waited_for() {
    let test = "a_stopped_service_is_not_waited_for";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let send = |signal| kill(Pid::from_raw(service.pid() as i32), signal).unwrap();
    let mut held = hold_via(&service, &["--cpu", "0"]);
    let mut held = held.stdout(Stdio::null()).spawn().unwrap();
    until("it is held", || service.holds() == 1);
    let mut status = reveille();
    status
        .args(["govern", "status", "--socket"])
        .arg(service.socket());
    let mut check = reveille();
    check
        .args(["govern", "check", "--json"])
        .arg(service.socket().with_file_name("rules.toml"))
        .arg("--socket")
        .arg(service.socket());
    send(Signal::SIGSTOP);
    for command in [&mut hold_via(&service, &["--", "true"]), &mut status] {
        let began = Instant::now();
        complains(command, 1, "it may be stopped");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
    let checked = check.output().unwrap();
    send(Signal::SIGCONT);
    let words = String::from_utf8_lossy(&checked.stderr);
    assert!(words.contains("it may be stopped"), "{words}");
    // The bound on CPU 0 may be its own.
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["in_the_way"], serde_json::Value::Null);
    held.kill().unwrap();
    held.wait().unwrap();
    until("nothing is held for who has gone", || service.holds() == 0);
}

#[test]
fn without_a_bus_or_a_service_there_is_one_line() {
    let test = "without_a_bus_or_a_service_there_is_one_line";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let none = "unix:path=/nonexistent/bus";
    let service = Service::unserved(none, "");
    until("the problem is named", || !service.problems().is_empty());
    let problems = service.problems();
    assert!(
        problems.starts_with("D-Bus is not served: no system bus"),
        "{problems}"
    );
    assert_eq!(service.log().lines().count(), 1, "{}", service.log());
    complains(&mut hold_via(&service, &[]), 3, "no system bus");
    let mut command = hold_via(&service, &[]);
    command.env("DBUS_SYSTEM_BUS_ADDRESS", bus.address());
    complains(&mut command, 3, "no service; start it");
}

#[test]
fn a_hold_outlasts_the_bus_and_a_bus_that_restarts_is_served_again() {
    let test = "a_hold_outlasts_the_bus_and_a_bus_that_restarts_is_served_again";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(mut bus) = Bus::start(test) else {
        return;
    };
    let service = Service::start(&bus);
    let held = Client::root(&bus).hold("0", 0).unwrap();
    let before = service.descriptors();
    for _ in 0..3 {
        bus.end();
        // It soon tries again, and then names what that met.
        until("a problem is named", || !service.problems().is_empty());
        assert_eq!(service.holds(), 1);
        bus.again();
        until("it is served", || service.problems().is_empty());
    }
    until("no connection is left", || service.descriptors() <= before);
    let client = Client::root(&bus);
    assert_eq!(client.effective(0), Ok(0));
    assert_eq!(client.holds().unwrap().len(), 1);
    drop(held);
    until("it is taken back", || client.effective(0) == Ok(-1));
    drop(client.hold("0", 0).unwrap());
}

#[test]
fn a_hold_stays_in_force_while_rules_are_read_again() {
    let test = "a_hold_stays_in_force_while_rules_are_read_again";
    let _alone = alone();
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let client = Client::root(&bus);
    let _held = client.hold("0", 0).unwrap();
    until("it is in force", || setting(0) == "n/a");
    let rule = "[[rule]]\nname = \"a\"\nlatency = \"0\"\nwhen.traffic.interface = \"lo\"\n";
    let seen = values_during(0, || {
        for nth in 0..8 {
            let rules = ["", rule][nth % 2];
            service.reload(rules);
            until("they are read", || client.rules().unwrap().len() == nth % 2);
        }
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["n/a"]);
    assert_eq!(client.holds().unwrap().len(), 1);
}

/// How often the service's threads ran after they had waited.
fn wakeups(service: &Service) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", service.pid())).unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    threads.map(of).sum()
}

#[test]
fn the_service_sleeps_while_nobody_asks_even_with_a_hold() {
    let test = "the_service_sleeps_while_nobody_asks_even_with_a_hold";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let client = Client::root(&bus);
    let _held = client.hold("0", 0).unwrap();
    until("it is held", || client.effective(0) == Ok(0));
    // A signal of the change is yet to come, and what a device of this machine does.
    std::thread::sleep(Duration::from_secs(1));
    let slept = (0..5).any(|_| {
        let before = wakeups(&service);
        std::thread::sleep(Duration::from_secs(3));
        wakeups(&service) == before
    });
    assert!(slept, "it wakes in each of 3 s");
}

//! `reveille govern`, from rules and packets to the CPUs' settings and back.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bounded::{alone, can_govern, setting, until, values_during};
use crate::complains::complains;
use crate::program::without_terminal;
use crate::program::{self, reveille, with_own_journal};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Part, Use, take_to_change};
use reveille_kernel::{Idle, Root, requests};
use serde_json::Value;

fn put(cpu: u32, value: &str) {
    fs::write(requests::file_of(cpu), value).unwrap();
}

/// A service with rules of its own.
struct Service {
    folder: tempfile::TempDir,
    child: Child,
}

impl Service {
    /// `None` with a word if it cannot watch traffic here.
    fn start(test: &str, rules: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("rules.toml"), rules).unwrap();
        let mut service = Self {
            child: Self::spawn(folder.path()),
            folder,
        };
        service.wait();
        let problems = service.status()["problems"].clone();
        let problems = problems.as_array().unwrap().iter();
        let mut problems = problems.map(|problem| problem.as_str().unwrap());
        match problems.find(|problem| problem.starts_with("traffic is not watched")) {
            None => Some(service),
            Some(problem) => {
                println!("skipped: {test}: {problem}");
                None
            }
        }
    }

    fn spawn(folder: &Path) -> Child {
        let log = fs::File::create(folder.join("log")).unwrap();
        without_terminal(&mut with_own_journal(reveille()))
            .args(["govern", "--accounting", "--config"])
            .arg(folder.join("rules.toml"))
            .arg("--socket")
            .arg(folder.join("socket"))
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Until it answers.
    fn wait(&mut self) {
        until("it answers", || {
            assert_eq!(self.child.try_wait().unwrap(), None, "{}", self.log());
            self.ask("status").is_some()
        });
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("rules.toml")
    }

    /// Without what it logs on machines that have no D-Bus.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let lines = log.split_inclusive('\n');
        lines
            .filter(|line| !line.contains("D-Bus is not served: no system bus"))
            .collect()
    }

    fn ask(&self, command: &str) -> Option<Value> {
        let output = reveille()
            .args(["govern", command, "--json", "--socket"])
            .arg(self.folder.path().join("socket"))
            .output()
            .unwrap();
        let answer = output.status.success();
        answer.then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    fn status(&self) -> Value {
        self.ask("status").expect("the service answers")
    }

    /// Why that rule is in force on a CPU, or not.
    fn why(&self, cpu: usize) -> String {
        let cpus = self.ask("explain").expect("the service answers");
        cpus[cpu]["why"][0]["why"].as_str().unwrap().to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Ends it; what it logged.
    fn end(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A rule for datagrams to a port of this test's own, on loopback.
struct Traffic {
    receiver: UdpSocket,
    port: u16,
}

impl Traffic {
    fn new() -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        Self { receiver, port }
    }

    fn rule(&self, more: &str) -> String {
        let port = self.port;
        format!(
            "[[rule]]\nname = \"test\"\nlatency = \"0\"\n\
             when.traffic = {{ interface = \"lo\", port = {port}, protocol = \"udp\", {more} }}\n"
        )
    }

    /// Sends a datagram, which arrives on this thread's CPU.
    fn send(&self) {
        let to = self.receiver.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"x", to).unwrap();
        let _ = self.receiver.recv(&mut [0; 8]);
    }
}

/// The governors of idle states; the present one is back when this is dropped.
struct Governors {
    present: String,
    others: Vec<String>,
}

impl Governors {
    const FILE: &str = "/sys/devices/system/cpu/cpuidle/current_governor";

    fn read() -> Self {
        let line = |path| fs::read_to_string(path).unwrap_or_default();
        let present = line(Self::FILE).trim().to_owned();
        let all = line("/sys/devices/system/cpu/cpuidle/available_governors");
        let others = all.split_whitespace().filter(|name| *name != present);
        Self {
            others: others.map(str::to_owned).collect(),
            present,
        }
    }

    fn choose(name: &str) {
        fs::write(Self::FILE, name).unwrap();
    }
}

impl Drop for Governors {
    fn drop(&mut self) {
        if !self.others.is_empty() {
            let _ = fs::write(Self::FILE, &self.present);
        }
    }
}

fn run_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

#[test]
fn a_bound_is_held_on_the_cpu_of_the_traffic_while_it_lasts() {
    let test = "a_bound_is_held_on_the_cpu_of_the_traffic_while_it_lasts";
    let Some(_alone) = alone() else {
        return;
    };
    let traffic = Traffic::new();
    let rules = traffic.rule("").replace("when", "quiet = \"300ms\"\nwhen");
    if !can_govern(test) {
        return;
    }
    let Some(service) = Service::start(test, &rules) else {
        return;
    };
    assert_eq!(
        [setting(0), setting(1)],
        ["0", "0"],
        "nothing without traffic"
    );
    run_on(1);
    traffic.send();
    until("it is held", || setting(1) == "n/a");
    assert_eq!(setting(0), "0", "the other CPU is not touched");
    assert_eq!(
        service.status()["rules"][0]["in_force"],
        serde_json::json!([1])
    );
    until("it is released", || setting(1) == "0");
    let status = service.status();
    let rule = &status["rules"][0];
    assert_eq!(
        (&rule["times"], &rule["packets"]),
        (&1.into(), &1.into()),
        "{rule}"
    );
    // The time without traffic begins with the packet, and the hold a little later.
    assert!(rule["held_s"].as_f64().unwrap() >= 0.1, "{rule}");
    assert!(
        service.why(1).contains("held for 300 ms only"),
        "{}",
        service.why(1)
    );
    assert!(service.why(0).contains("came to this CPU yet"));
    assert_eq!(service.end(), "");
}

#[test]
fn the_readers_cpu_is_held_too_unless_the_rule_excludes_it() {
    let test = "the_readers_cpu_is_held_too_unless_the_rule_excludes_it";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let in_force = |readers: &str| {
        let traffic = Traffic::new();
        let rules = traffic
            .rule(readers)
            .replace("when", "quiet = \"10s\"\nwhen");
        let service = Service::start(test, &rules)?;
        let to = traffic.receiver.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            run_on(1);
            traffic.receiver.recv(&mut [0; 8]).unwrap();
        });
        // Until the reader waits, on its CPU.
        std::thread::sleep(Duration::from_millis(200));
        run_on(0);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"x", to).unwrap();
        reader.join().unwrap();
        until("it is held", || setting(0) == "n/a");
        std::thread::sleep(Duration::from_millis(50));
        let cpus = service.status()["rules"][0]["in_force"].clone();
        service.end();
        Some(cpus)
    };
    let Some(with) = in_force("") else { return };
    assert_eq!(with, serde_json::json!([0, 1]));
    let without = in_force("readers = false").expect("it started before");
    assert_eq!(without, serde_json::json!([0]));
}

#[test]
fn other_traffic_and_too_few_packets_ask_for_nothing() {
    let test = "other_traffic_and_too_few_packets_ask_for_nothing";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let (traffic, other) = (Traffic::new(), Traffic::new());
    // It is held for long: its thread may be late.
    let rules = traffic.rule("packets = 3, window = \"1h\"");
    let rules = rules.replace("when", "quiet = \"10s\"\nwhen");
    let Some(service) = Service::start(test, &rules) else {
        return;
    };
    run_on(1);
    other.send();
    traffic.send();
    traffic.send();
    let rule = service.status()["rules"][0].clone();
    assert_eq!(
        (&rule["packets"], &rule["times"]),
        (&2.into(), &0.into()),
        "{rule}"
    );
    traffic.send();
    until("the third one asks", || {
        service.status()["rules"][0]["times"] == 1
    });
    service.end();
}

#[test]
fn addresses_are_networks() {
    let test = "addresses_are_networks";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let traffic = Traffic::new();
    for (address, packets) in [
        ("127.0.0.0/8", 1),
        ("127.0.0.1", 1),
        ("127.0.0.2/31", 0),
        ("128.0.0.0/1", 0),
        ("::1", 0),
    ] {
        let rules = traffic.rule(&format!("address = \"{address}\""));
        let Some(service) = Service::start(test, &rules) else {
            return;
        };
        traffic.send();
        assert_eq!(
            service.status()["rules"][0]["packets"],
            packets,
            "{address}"
        );
        service.end();
    }
}

#[test]
fn anothers_value_stays_and_is_named() {
    let test = "anothers_value_stays_and_is_named";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    put(1, "777");
    let Some(service) = Service::start(test, "[[rule]]\nname = \"all\"\nlatency = \"0\"\n") else {
        return put(1, "0");
    };
    until("CPU 0 is held", || setting(0) == "n/a");
    let status = service.status();
    let log = service.end();
    let left = [setting(0), setting(1)];
    put(1, "0");
    assert_eq!(left, ["0", "777"], "{log}");
    assert_eq!(status["cpus"][1]["in_the_way"], "777");
    assert_eq!(status["cpus"][0]["in_the_way"], Value::Null);
    assert_eq!(status["rules"][0]["in_force"], serde_json::json!([0]));
    let is_in_force = |cpu: usize| &status["cpus"][cpu]["why"][0]["in_force"];
    assert_eq!([is_in_force(0), is_in_force(1)], [true, false]);
}

#[test]
fn a_bound_that_another_program_takes_away_comes_back() {
    let test = "a bound that another program takes away";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let rules = "[[rule]]\nname = \"always\"\nlatency = \"0\"\n";
    let Some(service) = Service::start(test, rules) else {
        return;
    };
    let is_held = || setting(1) == "n/a";
    until("the bound is in force", is_held);
    put(1, "0");
    until("it is back after it was taken away", is_held);
    put(1, "33");
    until("another's value is named", || {
        service.status()["cpus"][1]["in_the_way"] == "33"
    });
    assert_eq!(setting(1), "33");
    put(1, "0");
    until("it is back after another's value", is_held);
    service.end();
    assert_eq!(setting(1), "0");
}

#[test]
fn each_bounds_thread_stays_on_its_cpu() {
    let test = "each bound's thread stays on its CPU";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    // By chance a thread starts on its CPU.
    for _ in 0..5 {
        let Some(service) = Service::start(test, &Traffic::new().rule("")) else {
            return;
        };
        let tasks = fs::read_dir(format!("/proc/{}/task", service.child.id())).unwrap();
        for task in tasks.map(|task| task.unwrap().path()) {
            let name = fs::read_to_string(task.join("comm")).unwrap();
            let Some(cpu) = name.trim().strip_prefix("bound-") else {
                continue;
            };
            let status = fs::read_to_string(task.join("status")).unwrap();
            let allowed = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            assert_eq!(allowed.unwrap().trim(), cpu);
        }
        service.end();
    }
}

#[test]
fn rules_that_would_wait_for_ever_are_refused_and_the_service_ends_when_told() {
    let test = "rules that would wait for ever";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let Some(service) = Service::start(test, "") else {
        return;
    };
    let fifo = service.folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut check = reveille();
    check.args(["govern", "check"]).arg(&fifo);
    complains(&mut check, 1, "is not a file");
    fs::rename(&fifo, service.file()).unwrap();
    until("the FIFO is refused", || {
        let refused = service.status()["refused"].clone();
        refused
            .as_str()
            .is_some_and(|why| why.ends_with("is not a file"))
    });
    service.end();
}

#[test]
fn a_file_with_an_error_is_refused_whole_and_a_good_one_taken() {
    let test = "a_file_with_an_error_is_refused_whole_and_a_good_one_taken";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let rule = |name: &str, cpu: u32| {
        format!("[[rule]]\nname = \"{name}\"\nlatency = \"0\"\ncpus = \"{cpu}\"\n")
    };
    let Some(service) = Service::start(test, &rule("one", 1)) else {
        return;
    };
    until("CPU 1 is held", || setting(1) == "n/a");
    fs::write(service.file(), rule("two", 0) + "nonsense = 1\n").unwrap();
    until("it is refused", || {
        service.status()["refused"] != Value::Null
    });
    assert_eq!(
        [setting(0), setting(1)],
        ["0", "n/a"],
        "the rules before stay"
    );
    // As editors do.
    let next = service.folder.path().join("next");
    fs::write(&next, rule("two", 0)).unwrap();
    fs::rename(&next, service.file()).unwrap();
    until("the new rule is in force", || {
        setting(0) == "n/a" && setting(1) == "0"
    });
    assert_eq!(service.status()["refused"], Value::Null);
    fs::write(service.file(), "").unwrap();
    service.signal(Signal::SIGHUP);
    until("nothing is held", || setting(0) == "0");
    let log = service.end();
    assert!(log.contains("line 5: unknown field `nonsense`"), "{log}");
    assert!(log.contains("the rules before stay in force"), "{log}");
}

#[test]
fn with_another_governor_the_rules_are_judged_anew() {
    let test = "with_another_governor_the_rules_are_judged_anew";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let governors = Governors::read();
    if governors.others.is_empty() {
        return println!("skipped: {test}: no other governor");
    }
    // Stops the deepest state: with haltpoll that takes 0, where others keep to what is asked for.
    let cpu = &Idle::read(&Root::default()).unwrap().cpus[0];
    let exits = cpu.states.iter().filter_map(|state| state.exit_latency_us);
    let latency = exits.max().unwrap_or(0).saturating_sub(1);
    let rules = format!("[[rule]]\nname = \"all\"\nlatency = \"{latency}us\"\n");
    let Some(service) = Service::start(test, &rules) else {
        return;
    };
    until("it is held", || setting(0) != "0");
    for governor in governors.others.iter().chain([&governors.present]) {
        Governors::choose(governor);
        let rule = service.status()["rules"][0].clone();
        let mut check = reveille();
        check
            .args(["govern", "check", "--json"])
            .arg(service.file());
        let check: Value = serde_json::from_slice(&check.output().unwrap().stdout).unwrap();
        let judged = &check["rules"][0];
        assert_eq!(rule["groups"], judged["groups"], "{governor}");
        assert_eq!(rule["notes"], judged["notes"], "{governor}");
        let bound = judged["groups"][0]["bound_us"].as_u64().unwrap();
        let bound = requests::text_of(bound as u32);
        until("the bound follows", || setting(0) == bound);
    }
    let log = service.end();
    let judged = log.matches("rules.toml: 1 rule in force").count();
    assert_eq!(judged, governors.others.len() + 1, "{log}");
    assert_eq!([setting(0), setting(1)], ["0", "0"], "{log}");
}

#[test]
fn what_the_kernel_does_not_watch_is_named_with_the_remedy() {
    let test = "what_the_kernel_does_not_watch_is_named_with_the_remedy";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    // A user namespace has limits of its own.
    let none = "echo 0 >/proc/sys/user/max_inotify_watches";
    let limited = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-ec", script]);
        command
    };
    if !limited(none).status().is_ok_and(|ended| ended.success()) {
        return println!("skipped: {test}: no user namespace");
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nname = \"a\"\nlatency = \"0\"\nwhen.cgroup = \"**\"\n";
    fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let mut command = limited(&format!("{none}\nexec \"$@\""));
    command.arg("sh").arg(reveille().get_program());
    let child = command
        .args(["govern", "--config"])
        .arg(folder.path().join("rules.toml"))
        .arg("--socket")
        .arg(folder.path().join("socket"))
        .stderr(log)
        .spawn()
        .unwrap();
    let mut service = Service { folder, child };
    service.wait();
    let problems = service.status()["problems"].to_string();
    let file = service.file();
    let log = service.end();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let cgroups = mounts
        .contains(" - cgroup2 ")
        .then_some("cgroups of rule `a`");
    for what in cgroups.into_iter().chain(file.to_str()) {
        let problem = format!(
            "changes of {what} are not seen: no inotify watch is left; \
             raise the sysctl fs.inotify.max_user_watches"
        );
        assert!(problems.contains(&problem), "{problems}");
        assert_eq!(log.matches(&problem).count(), 1, "{log}");
    }
}

#[test]
fn after_kill_9_the_next_command_takes_the_bounds_back() {
    let test = "after_kill_9_the_next_command_takes_the_bounds_back";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let Some(mut service) = Service::start(test, "[[rule]]\nname = \"all\"\nlatency = \"0\"\n")
    else {
        return;
    };
    until("both are held", || {
        setting(0) == "n/a" && setting(1) == "n/a"
    });
    service.signal(Signal::SIGKILL);
    service.child.wait().unwrap();
    assert_eq!([setting(0), setting(1)], ["n/a", "n/a"]);
    // Another program's value, since then.
    put(0, "555");
    let output = with_own_journal(reveille())
        .arg("restore")
        .output()
        .unwrap();
    let left = [setting(0), setting(1)];
    put(0, "0");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(left, ["555", "0"]);
    let status = reveille()
        .args(["govern", "status", "--socket"])
        .arg(service.folder.path().join("socket"))
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(3));
    // The socket that the killed one left is no obstacle.
    service.child = Service::spawn(service.folder.path());
    until("it answers again", || service.ask("status").is_some());
    service.end();
}

#[test]
fn a_second_service_is_refused() {
    let test = "a_second_service_is_refused";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let Some(service) = Service::start(test, "") else {
        return;
    };
    let mut second = reveille();
    second
        .args(["govern", "--config"])
        .arg(service.file())
        .arg("--socket")
        .arg(service.folder.path().join("socket"));
    complains(&mut second, 3, "socket");
    service.end();
}

#[test]
fn what_is_missing_is_named_by_check_and_waited_for() {
    let test = "what_is_missing_is_named_by_check_and_waited_for";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let rules =
        "[[rule]]\nname = \"gone\"\nlatency = \"0\"\nwhen.traffic.interface = \"nowhere0\"\n";
    let Some(service) = Service::start(test, rules) else {
        return;
    };
    assert_eq!(
        service.status()["rules"][0]["waits_for"],
        "interface nowhere0"
    );
    assert_eq!(service.why(0), "interface nowhere0 is missing");
    // A pair: its other end gets a name by itself.
    if Command::new("ip")
        .args(["link", "add", "nowhere0", "type", "veth"])
        .status()
        .is_ok_and(|status| status.success())
    {
        until("it is found", || {
            service.status()["rules"][0]["waits_for"] == Value::Null
        });
        let deleted = Command::new("ip")
            .args(["link", "delete", "nowhere0"])
            .status()
            .unwrap();
        assert!(deleted.success());
        until("it is gone", || {
            service.status()["rules"][0]["waits_for"] != Value::Null
        });
    } else {
        println!("skipped: {test}: an interface that appears: no `ip`, or no veth");
    }
    service.end();
}

#[test]
fn check_tells_what_each_rule_would_hold() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = reveille();
        command.args(["govern", "check"]).arg(&file);
        command
    };
    let output = check("").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("The file has no rules: nothing is held."),
        "{text}"
    );
    complains(
        &mut check("[[rule]]\nname = \"a\"\nlatency = \"50\"\n"),
        1,
        "line 3: no unit; write 50us",
    );
    complains(&mut check("\u{0}"), 1, "line 1");
    fs::write(&file, [0xff, 0xfe]).unwrap();
    complains(
        reveille().args(["govern", "check"]).arg(&file),
        1,
        "is not UTF-8 text",
    );
    complains(
        reveille().args(["govern", "check"]).arg(folder.path()),
        1,
        "is not a file",
    );
    complains(
        reveille().args(["govern", "check", "/nowhere.toml"]),
        2,
        "/nowhere.toml",
    );
}

#[test]
fn without_a_service_status_names_the_way_to_start_it() {
    complains(
        reveille().args(["govern", "status", "--socket", "/nowhere/socket"]),
        3,
        "sudo systemctl start reveille",
    );
}

#[test]
fn without_root_the_service_does_not_start() {
    let Some((folder, mut command)) = program::as_nobody() else {
        return println!("skipped: without_root_the_service_does_not_start: not root");
    };
    let file = folder.path().join("rules.toml");
    fs::write(&file, "").unwrap();
    let socket = folder.path().join("socket");
    command
        .args(["govern", "--config"])
        .arg(&file)
        .arg("--socket")
        .arg(socket);
    complains(&mut command, 3, "root");
}

#[test]
fn what_rules_before_and_after_ask_for_stays_in_force_without_a_gap() {
    let test = "what_rules_before_and_after_ask_for_stays_in_force_without_a_gap";
    let _alone = alone();
    if !can_govern(test) {
        return;
    }
    let traffic = Traffic::new();
    let kept = traffic
        .rule("readers = false")
        .replace("when", "quiet = \"10m\"\nwhen");
    let always =
        |cpu: u32| format!("[[rule]]\nname = \"always\"\nlatency = \"0\"\ncpus = \"{cpu}\"\n");
    let another = Traffic::new().rule("").replace("test", "another");
    // By traffic, and by a rule that is always in force, which moves to another place.
    for [before, after] in [
        [kept.clone(), format!("{another}{}{kept}", always(0))],
        [always(1), format!("{another}{}", always(1))],
    ] {
        let Some(service) = Service::start(test, &before) else {
            return;
        };
        run_on(1);
        traffic.send();
        until("it is held", || setting(1) == "n/a");
        let read_again = || {
            for rules in [&after, &before].into_iter().cycle().take(4) {
                fs::write(service.file(), rules).unwrap();
                let count = rules.matches("[[rule]]").count();
                until("they are in force", || {
                    service.status()["rules"].as_array().unwrap().len() == count
                });
            }
        };
        let seen = values_during(1, read_again);
        assert_eq!(seen, BTreeSet::from(["n/a".to_owned()]), "{before}");
        let governors = Governors::read();
        let seen = values_during(1, || {
            for governor in governors.others.iter().chain([&governors.present]) {
                Governors::choose(governor);
                service.status();
            }
        });
        assert_eq!(seen, BTreeSet::from(["n/a".to_owned()]), "{before}");
        // And it came into force once.
        assert_eq!(service.status()["rules"][0]["times"], 1, "{before}");
        service.end();
    }
}

#[test]
fn a_bound_that_is_too_late_says_which_quiet_time_would_do() {
    let test = "a_bound_that_is_too_late_says_which_quiet_time_would_do";
    let _alone = alone();
    if !can_govern(test) {
        return;
    }
    let traffic = Traffic::new();
    let chosen = traffic.rule("readers = false");
    let given = chosen.replace("when", "quiet = \"20ms\"\nwhen");
    let send = |gap: Duration| {
        run_on(1);
        for _ in 0..12 {
            traffic.send();
            std::thread::sleep(gap);
        }
    };
    let Some(service) = Service::start(test, &given) else {
        return;
    };
    send(Duration::from_millis(60));
    let check = || {
        let mut check = reveille();
        check
            .args(["govern", "check", "--json"])
            .arg(service.file());
        check
            .arg("--socket")
            .arg(service.folder.path().join("socket"));
        let output = check.output().unwrap().stdout;
        serde_json::from_slice::<Value>(&output).unwrap()["rules"][0]["late"].clone()
    };
    for late in [service.status()["rules"][0]["late"].clone(), check()] {
        // The first packet on each CPU has no gap before it.
        assert_eq!(late["packets"], 12);
        assert!((9..12).contains(&late["late"].as_u64().unwrap()), "{late}");
        assert!(late["above_s"].as_f64().unwrap() >= 0.06, "{late}");
    }
    assert!(service.why(1).contains("raise `quiet` above"));
    // What the file asks for now is another quiet time.
    let longer = given.replace("20ms", "10s");
    fs::write(service.file(), longer).unwrap();
    assert_eq!(check(), Value::Null);
    service.end();
    // A rule without one follows the traffic.
    let service = Service::start(test, &chosen).expect("it started before");
    let by_states = service.status()["rules"][0]["quiet_s"].as_f64().unwrap();
    if by_states > 0.5 {
        println!("skipped: {test}: this machine's quiet time is {by_states} s");
    } else {
        send(Duration::from_secs_f64(by_states * 1.5));
        let rule = service.status()["rules"][0].clone();
        assert_eq!(rule["quiet_by"], "the traffic's gaps", "{rule}");
        assert!(
            rule["quiet_s"].as_f64().unwrap() > by_states * 1.5,
            "{rule}"
        );
    }
    service.end();
}

#[test]
fn a_cpu_that_goes_and_comes_quickly_is_back() {
    let test = "a_cpu_that_goes_and_comes_quickly_is_back";
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
    else {
        return;
    };
    let online = Path::new("/sys/devices/system/cpu/cpu1/online");
    if !can_govern(test) || !online.exists() {
        return println!("skipped: {test}: CPU 1 stays online");
    }
    let Some(service) = Service::start(test, "[[rule]]\nname = \"all\"\nlatency = \"0\"\n") else {
        return;
    };
    let seen = values_during(0, || {
        for _ in 0..6 {
            for value in ["0", "1"].into_iter().cycle().take(12) {
                fs::write(online, value).unwrap();
            }
            let cpus = || service.status()["rules"][0]["in_force"].clone();
            until("CPU 1 is back", || {
                cpus() == serde_json::json!([0, 1]) && setting(1) == "n/a"
            });
        }
    });
    // Nor does the other CPU notice.
    assert_eq!(seen, BTreeSet::from(["n/a".to_owned()]));
    service.end();
}

/// Has threads of that user connect to a socket in a loop while `happens`.
fn while_flooded(path: &Path, uid: u32, happens: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = || {
            // SAFETY: the call takes numbers. As a system call it changes this thread alone, which ends below.
            let left = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, uid, uid, uid) };
            assert_eq!(left, 0);
            while !over.load(Ordering::Relaxed) {
                let _ = UnixStream::connect(path).map(|mut one| one.read(&mut [0; 64]));
            }
        };
        for _ in 0..32 {
            scope.spawn(flood);
        }
        let ended = catch_unwind(AssertUnwindSafe(happens));
        over.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|failed| resume_unwind(failed));
    });
}

#[test]
fn a_user_who_asks_in_a_loop_does_not_keep_others_waiting() {
    let test = "a_user_who_asks_in_a_loop_does_not_keep_others_waiting";
    let _alone = alone();
    if !can_govern(test) {
        return;
    }
    let Some(service) = Service::start(test, "") else {
        return;
    };
    use std::os::unix::fs::PermissionsExt;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(service.folder.path(), open).unwrap();
    let socket = service.folder.path().join("socket");
    let mut waits = Vec::new();
    let before = service.status()["own"]["cpu_s"].as_f64().unwrap();
    let began = Instant::now();
    while_flooded(&socket, 65534, || {
        for _ in 0..9 {
            // From the last answer on root rests, too.
            std::thread::sleep(Duration::from_millis(300));
            let asked = Instant::now();
            let mut answer = Vec::new();
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.read_to_end(&mut answer).unwrap();
            assert!(!answer.is_empty());
            waits.push(asked.elapsed());
        }
    });
    let took = began.elapsed();
    let used = service.status()["own"]["cpu_s"].as_f64().unwrap() - before;
    waits.sort();
    println!("others waited {waits:?}; the service used {used:.3} s in {took:?}");
    assert!(waits[4] < Duration::from_secs(1), "{waits:?}");
    service.end();
}

/// `ROUNDS` sets the number of rounds.
fn rounds() -> u32 {
    let given = std::env::var("ROUNDS").ok();
    given.map_or(10, |rounds| rounds.parse().expect("a number"))
}

#[test]
fn killed_at_any_point_the_machine_is_as_before() {
    let test = "killed_at_any_point_the_machine_is_as_before";
    // A CPU goes offline, too.
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
    else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let traffic = Traffic::new();
    let rules = traffic.rule("").replace("when", "quiet = \"1ms\"\nwhen");
    let Some(mut service) = Service::start(test, &rules) else {
        return;
    };
    let online = Path::new("/sys/devices/system/cpu/cpu1/online");
    let may_go = online.exists();
    let governors = Governors::read();
    let random = fastrand::Rng::with_seed(13);
    let (mut random, mut held) = (random, 0);
    for round in 0..rounds() {
        // A burst, with a CPU that goes and returns, another governor, or rules that are read again.
        let end = Instant::now() + Duration::from_micros(random.u64(0..20_000));
        run_on(random.usize(0..2));
        while Instant::now() < end {
            traffic.send();
            std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
        }
        match random.u8(0..5) {
            0 if may_go => fs::write(online, "0").unwrap(),
            1 => service.signal(Signal::SIGHUP),
            2 if !governors.others.is_empty() => {
                let all = governors.others.iter().chain([&governors.present]);
                Governors::choose(all.clone().nth(random.usize(0..all.count())).unwrap());
                // Asked, the service looks at the governor; it may be killed meanwhile.
                let _ = UnixStream::connect(service.folder.path().join("socket"));
                std::thread::sleep(Duration::from_micros(random.u64(0..30_000)));
            }
            _ => {}
        }
        if may_go && random.bool() {
            fs::write(online, "1").unwrap();
        }
        run_on(0);
        traffic.send();
        service.signal(Signal::SIGKILL);
        service.child.wait().unwrap();
        held += u32::from([setting(0), setting(1)] != ["0", "0"]);
        if may_go {
            fs::write(online, "1").unwrap();
        }
        let restored = with_own_journal(reveille())
            .arg("restore")
            .output()
            .unwrap();
        assert!(restored.status.success(), "round {round}: {restored:?}");
        assert_eq!(
            [setting(0), setting(1)],
            ["0", "0"],
            "round {round}: {restored:?}"
        );
        let files = fs::read_dir(program::own_journal())
            .into_iter()
            .flatten()
            .flatten();
        let of_killed = format!("-{}-", service.child.id());
        let mut files = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let left = files.find(|name| name.starts_with("live-") && name.contains(&of_killed));
        assert_eq!(left, None, "round {round}");
        service.child = Service::spawn(service.folder.path());
        // Sometimes it is killed while it starts.
        if random.u8(0..4) > 0 {
            service.wait();
        }
    }
    println!(
        "{held} of {} were killed while a bound was in force",
        rounds()
    );
    service.wait();
    service.end();
}

/// A file on a disk, read past the page cache.
struct OnDisk {
    file: fs::File,
    disk: String,
}

impl OnDisk {
    /// `None` with a word if the build's folder is on no disk.
    fn new(test: &str) -> Option<Self> {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("govern-disk");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        let number = fs::metadata(&path).unwrap().dev();
        let (major, minor) = (nix::libc::major(number), nix::libc::minor(number));
        let disk = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
        let options = fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_DIRECT)
            .open(path);
        match (disk, options) {
            (Ok(disk), Ok(file)) => Some(Self {
                file,
                disk: disk.file_name().unwrap().to_str().unwrap().to_owned(),
            }),
            (disk, file) => {
                println!("skipped: {test}: no file on a disk: {disk:?}, {file:?}");
                None
            }
        }
    }

    fn read(&self) {
        use std::os::unix::fs::FileExt;
        // O_DIRECT wants an aligned buffer.
        let mut buffer = vec![0; 8192];
        let start = buffer.as_ptr().align_offset(4096);
        let read = self.file.read_at(&mut buffer[start..start + 4096], 4096);
        assert_eq!(read.unwrap(), 4096);
    }
}

#[test]
fn a_request_to_a_disk_has_the_bound_held_or_is_anticipated() {
    let test = "a_request_to_a_disk_has_the_bound_held_or_is_anticipated";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let Some(file) = OnDisk::new(test) else {
        return;
    };
    let rules = |by: &str| {
        let disk = &file.disk;
        format!(
            "[[rule]]\nname = \"disk\"\nlatency = \"0\"\nwhen.disk = {{ device = \"{disk}\", by = \"{by}\" }}\n"
        )
    };
    let Some(service) = Service::start(
        test,
        &rules("bound").replace("when", "quiet = \"10s\"\nwhen"),
    ) else {
        return;
    };
    run_on(1);
    file.read();
    until("it is held", || setting(1) == "n/a");
    assert!(service.status()["rules"][0]["requests"].as_u64().unwrap() > 0);
    service.end();
    let Some(service) = Service::start(test, &rules("anticipation")) else {
        return;
    };
    until("requests are seen", || {
        file.read();
        service.status()["rules"][0]["requests"].as_u64() > Some(0)
    });
    let status = service.status();
    assert_eq!(status["rules"][0]["in_force"], serde_json::json!([0, 1]));
    assert_eq!(
        status["cpus"][1]["bound_us"],
        Value::Null,
        "no bound is held"
    );
    service.end();
}

#[test]
fn applications_are_served_if_the_rules_ask_for_it() {
    let test = "applications_are_served_if_the_rules_ask_for_it";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let Some(service) = Service::start(test, "applications = \"5%\"\n") else {
        return;
    };
    let name = Path::new(reveille_expect::SOCKET).file_name().unwrap();
    let at = &program::own_journal().join(name);
    until("it serves applications", || {
        let waker = reveille_expect::Waker::connect_to(at);
        waker.served() == reveille_expect::Served::ByEngine && waker.limits().awake_ppm == 50_000
    });
    service.end();
    assert!(!at.exists());
}

#[test]
fn packets_of_a_rule_that_is_not_in_force_wake_nobody() {
    let test = "packets_of_a_rule_that_is_not_in_force_wake_nobody";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    const PACKETS: u64 = 2000;
    let traffic = Traffic::new();
    // For another CPU, and at a time that has gone by.
    for more in ["cpus = \"0\"\nwhen", "when.battery_below = \"1%\"\nwhen"] {
        let rules = traffic
            .rule("readers = false")
            .replace("when", "quiet = \"10s\"\nwhen")
            .replacen("\nwhen", &format!("\n{more}"), 1);
        let Some(service) = Service::start(test, &rules) else {
            return;
        };
        run_on(1);
        let wakeups = |status: &Value| status["own"]["wakeups"].as_u64().unwrap();
        let before = wakeups(&service.status());
        for _ in 0..PACKETS {
            traffic.send();
            // The CPU's thread gives way to this one.
            std::thread::sleep(Duration::from_micros(50));
        }
        let status = service.status();
        assert_eq!(status["rules"][0]["times"], 0, "{more}");
        assert_eq!(setting(1), "0");
        let woken = wakeups(&status) - before;
        assert!(woken < PACKETS / 20, "{more}: {woken} wake-ups");
        service.end();
    }
}

#[test]
fn a_hold_of_another_run_and_a_rule_share_a_cpu() {
    let test = "a_hold_of_another_run_and_a_rule_share_a_cpu";
    let Some(_alone) = alone() else {
        return;
    };
    if !can_govern(test) {
        return;
    }
    let traffic = Traffic::new();
    let rules = traffic.rule("").replace("when", "quiet = \"20ms\"\nwhen");
    let Some(service) = Service::start(test, &rules) else {
        return;
    };
    run_on(1);
    let mut hold = with_own_journal(reveille());
    hold.args(["hold", "--latency", "0", "--cpu", "1"]);
    let mut hold = hold
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the hold is in force", || setting(1) == "n/a");
    for _ in 0..10 {
        traffic.send();
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(setting(1), "n/a", "the burst's end does not end the hold");
    }
    kill(Pid::from_raw(hold.id() as i32), Signal::SIGTERM).unwrap();
    assert!(hold.wait().unwrap().success());
    until("nothing is held", || setting(1) == "0");
    traffic.send();
    until("the rule holds it alone", || setting(1) == "n/a");
    until("and releases it", || setting(1) == "0");
    assert_eq!(service.end(), "");
}

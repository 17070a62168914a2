//! `reveille anticipate` for packets: periodic ones, and those that hints announce.

use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::complains::complains;
use crate::port;
use crate::program::{reveille, run};
use reveille_alone::{Held, Part, Use, take};
use reveille_expect::remote::{Announced, Hint, Key, Sender, Service};
use reveille_kernel::affinity::{self, Binding};
use serde_json::Value;

/// They are sent and read in time, on two CPUs.
fn alone() -> Held {
    take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)])
}

/// An engine for some time; `None`, with a word, where there is none.
fn engine(test: &str, words: &[&str]) -> Option<Child> {
    let line = ["anticipate", "--no-socket", "--json"];
    let tried = run(reveille()
        .args(line)
        .args(words)
        .args(["--duration", "100ms"]));
    if tried.code != 0 {
        println!("skipped: {test}: {}", tried.stderr.trim());
        return None;
    }
    let child = reveille()
        .args(line)
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its programs take a second or two to load.
    std::thread::sleep(Duration::from_secs(3));
    Some(child)
}

fn end(child: Child) -> Value {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Sends a packet at each of these times, if `before`, which gets the port, wants it sent. A thread on another CPU reads so
/// many.
fn exchange(gaps: &[Duration], reads: usize, mut before: impl FnMut(u16) -> bool) -> Option<u16> {
    let allowed = affinity::allowed();
    let [one, other, ..] = allowed[..] else {
        println!("skipped: packets need two CPUs");
        return None;
    };
    let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = reader.local_addr().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _here = Binding::here(one).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _there = Binding::here(other).unwrap();
            let mut packet = [0; 4];
            for _ in 0..reads {
                if reader.recv(&mut packet).unwrap() == 0 {
                    break;
                }
            }
        });
        let mut due = Instant::now();
        for gap in gaps {
            let is_sent = before(to.port());
            due += *gap;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if is_sent {
                sender.send_to(&[1; 4], to).unwrap();
            }
        }
        sender.send_to(&[], to).unwrap();
    });
    // This thread exchanges again.
    affinity::bind(&allowed).unwrap();
    Some(to.port())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_periodic_flow_is_anticipated_and_its_period_is_true() {
    const TEST: &str = "a_periodic_flow_is_anticipated_and_its_period_is_true";
    let _alone = alone();
    let Some(engine) = engine(
        TEST,
        &["--nic", "lo", "--budget", "50%", "--control", "10%"],
    ) else {
        return;
    };
    let port = exchange(&[Duration::from_millis(10); 400], usize::MAX, |_| true);
    let seen = end(engine);
    let Some(port) = port else { return };
    let packets = &seen["packets"];
    let to = format!("127.0.0.1:{port}");
    let mut flows = packets["flows"].as_array().unwrap().iter();
    let Some(flow) = flows.find(|flow| flow["to"] == to) else {
        assert!(number(&packets["assistance"]["irregular"]) > 100, "{seen}");
        return println!("skipped: {TEST}: this machine is too busy to send every 10 ms");
    };
    let period_us = flow["period_us"].as_f64().unwrap();
    assert!((9_900.0..10_100.0).contains(&period_us), "{flow}");
    let (assisted, in_time) = (number(&flow["assisted"]), number(&flow["in_time"]));
    let control = number(&packets["assistance"]["control"]);
    assert!(control > 10 && assisted + control <= 400, "{packets}");
    if number(&packets["assistance"]["cpu_busy"]) > assisted / 4 || assisted < 200 {
        return println!("skipped: {TEST}: the reader's CPU is kept busy: {packets}");
    }
    // By the scheduler alone the share would be the windows' part of the time: 1%.
    assert!(in_time > assisted / 3, "{packets}");
}

/// They have a mean gap, too.
#[test]
fn packets_at_random_times_are_left_alone() {
    const TEST: &str = "packets_at_random_times_are_left_alone";
    let _alone = alone();
    let Some(engine) = engine(TEST, &["--nic", "lo", "--budget", "50%"]) else {
        return;
    };
    let mut random = fastrand::Rng::with_seed(1);
    let gap = |_| Duration::from_secs_f64(-0.01 * (1.0 - random.f64()).ln());
    let gaps: Vec<Duration> = (0..400).map(gap).collect();
    let exchanged = exchange(&gaps, usize::MAX, |_| true);
    let seen = end(engine);
    let Some(port) = exchanged else { return };
    let packets = &seen["packets"];
    assert!(number(&packets["assistance"]["irregular"]) > 200, "{seen}");
    // Of these: others send on this interface, too.
    let to = format!("127.0.0.1:{port}");
    let mut flows = packets["flows"].as_array().unwrap().iter();
    let assisted = flows.find(|flow| flow["to"] == to);
    assert!(
        assisted.is_none_or(|flow| number(&flow["assisted"]) < 20),
        "{seen}"
    );
}

#[test]
fn a_hint_keeps_the_reader_ready_and_forged_or_flooding_ones_do_not() {
    const TEST: &str = "a_hint_keeps_the_reader_ready_and_forged_or_flooding_ones_do_not";
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "sixteen letters.\n").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let at = format!("127.0.0.1:{}", port::free());
    let words = [
        "--hints",
        &at,
        "--allow",
        "127.0.0.1",
        "--hint-key",
        key.to_str().unwrap(),
        "--budget",
        "50%",
        "--client-budget",
        "20%",
    ];
    let Some(engine) = engine(TEST, &words) else {
        return;
    };
    let mut sender = Sender::new(&at, Some(Key::read(&key).unwrap())).unwrap();
    let mut forger = Sender::new(&at, None).unwrap();
    let announced = Announced {
        after: Duration::from_millis(10),
        within: Duration::from_millis(1),
    };
    let (mut last, mut nth) = (0, 0);
    let exchanged = exchange(&[Duration::from_millis(20); 100], usize::MAX, |port| {
        // The first half of a gap is the client's.
        std::thread::sleep(Duration::from_millis(10));
        let hint = Hint {
            service: Service::udp(port),
            announced,
        };
        sender.send(&hint).unwrap();
        forger.send(&hint).unwrap();
        last = port;
        nth += 1;
        // One that is announced and does not come changes nothing for those after it.
        nth != 30
    });
    // Recorded, and sent again by a stranger; and a flood of one's own.
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(&[0; 32], &at).unwrap();
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..2_000 {
        flood.send_to(&[0; 32], &at).unwrap();
    }
    let service = format!("tcp:{last}");
    let by_command = run(reveille()
        .args(["anticipate", "hint", &at, "--service", &service])
        .args(["--after", "1ms", "--hint-key", key.to_str().unwrap()]));
    assert_eq!(by_command.code, 0, "{}", by_command.stderr);
    std::thread::sleep(Duration::from_millis(300));
    let seen = end(engine);
    if exchanged.is_none() {
        return;
    }
    let hints = &seen["hints"];
    assert_eq!(number(&hints["strangers"]), 1, "{hints}");
    assert!(number(&hints["floods"]) > 1_000, "{hints}");
    let refused = |why: &str| hints["refused"].get(why).map_or(0, number);
    assert_eq!(refused("wrong signature"), 100, "{hints}");
    // The first two, and the one of another service.
    let unknown = refused("no reader of that service's packets is known");
    assert!((1..=6).contains(&unknown), "{hints}");
    let followed = number(&hints["followed"]);
    assert!((80..=100).contains(&followed), "{hints}");
    let helped = number(&hints["helped"]);
    if number(&seen["hinted"]["cpu_busy"]) > followed / 4 {
        return println!("skipped: {TEST}: the reader's CPU is kept busy: {hints}");
    }
    assert!(helped > followed / 3, "{seen}");
}

#[test]
fn what_nobody_reads_is_left_alone() {
    const TEST: &str = "what_nobody_reads_is_left_alone";
    let _alone = alone();
    let Some(engine) = engine(TEST, &["--nic", "lo", "--budget", "50%"]) else {
        return;
    };
    let gaps = [Duration::from_millis(10); 200];
    // A socket that nobody waits at, and one that is read for a while.
    let unread = exchange(&gaps, 0, |_| true);
    let given_up = exchange(&gaps, 100, |_| true);
    let seen = end(engine);
    let (Some(unread), Some(given_up)) = (unread, given_up) else {
        return;
    };
    let flows = seen["packets"]["flows"].as_array().unwrap();
    let of = |port: u16| {
        let to = format!("127.0.0.1:{port}");
        flows.iter().find(move |flow| flow["to"] == to)
    };
    assert_eq!(of(unread), None);
    if let Some(flow) = of(given_up) {
        if number(&flow["arrivals"]) < 190 {
            return println!("skipped: {TEST}: this machine is too busy to send every 10 ms");
        }
        // The first ones are learnt from, and the last four of those that are not read are still anticipated.
        assert!(number(&flow["assisted"]) <= 104, "{flow}");
    }
}

#[test]
fn mistakes_get_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "sixteen letters.\n").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let key = key.to_str().unwrap();
    for (words, code, why) in [
        (vec!["--nic", "nosuch"], 2, "no interface"),
        (vec!["--nic", "lo", "--pid", "1"], 2, "cannot be used with"),
        (vec!["--hints", "7171"], 2, "invalid value '7171'"),
        (vec!["--allow", "10.0.0.0/8"], 2, "--hints"),
        (
            vec!["--hints", ":0", "--allow", "10.0.0.0/33"],
            2,
            "--hints",
        ),
        (
            vec!["--hints", "127.0.0.1:0", "--allow", "10.0.0.0/33"],
            2,
            "not an address or network",
        ),
        (
            vec!["hint", "127.0.0.1:1", "--service", "http", "--after", "1ms"],
            2,
            "not a service",
        ),
        (
            vec![
                "hint",
                "127.0.0.1:1",
                "--service",
                "tcp:1",
                "--after",
                "1ms",
                "--hint-key",
                key,
            ],
            2,
            "chmod 600",
        ),
        (
            vec![
                "hint",
                "no.such.host.invalid:1",
                "--service",
                "tcp:1",
                "--after",
                "1ms",
            ],
            3,
            "no.such.host.invalid",
        ),
    ] {
        complains(reveille().arg("anticipate").args(words), code, why);
    }
}

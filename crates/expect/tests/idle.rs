//! An idle server sleeps. (In a process of its own, whose threads are counted.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use reveille_alone::is_apart;
use reveille_expect::server::{Owner, Plan, Server, Settings, Ticket};
use reveille_expect::{Refusal, Served, Waker, monotonic_ns};

struct Anything;

impl Plan for Anything {
    fn expect(&self, _: u32, _: u64, _: u64, _: Owner) -> Result<Ticket, Refusal> {
        Ok(Ticket(0))
    }

    fn cancel(&self, _: Ticket) {}
}

/// How often the thread of that name has gone to sleep.
fn slept(name: &str) -> Option<u64> {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().to_owned())
        };
        if field("Name:").as_deref() == Some(name) {
            return field("voluntary_ctxt_switches:")?.parse().ok();
        }
    }
    None
}

/// The count, once it has been the same for half a second.
fn settled(name: &str) -> u64 {
    let begun = Instant::now();
    let mut last = slept(name);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = slept(name);
        if let (Some(count), true) = (now, now == last) {
            return count;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{name} is woken again and again"
        );
        last = now;
    }
}

#[test]
fn server_and_waker_thread_do_not_wake_up_while_idle() {
    if !is_apart(
        "idle::server_and_waker_thread_do_not_wake_up_while_idle",
        &[],
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        path: folder.path().join("engine.sock"),
        ..Settings::default()
    };
    let server = Server::start(&settings, Arc::new(Anything)).unwrap();
    let mut waker = Waker::connect_to(server.path());
    if waker.served() == Served::ByEngine {
        // A window far ahead concerns only the plan; the server does not wait for it.
        let at_ns = monotonic_ns() + 9_000_000_000;
        waker.expect_on(0, at_ns, 1_000).unwrap();
        waker.wait_for_answers(Duration::from_secs(60));
    }
    let _alone = Waker::alone();
    let (server_slept, thread_slept) = (settled("expect-server"), settled("expect"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(slept("expect-server"), Some(server_slept));
    assert_eq!(slept("expect"), Some(thread_slept));
}

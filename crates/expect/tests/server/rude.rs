//! Clients that send invalid messages, flood, or do not read: the server's response, and its
//! absence of effect on others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nix::errno::Errno;
use reveille_expect::monotonic_ns;
use reveille_expect::protocol::{Answer, CloseReason, Request, VERSION};
use reveille_expect::server::Quotas;

use super::plan::Engine;
use super::raw::{Raw, SECOND, US, wait_for};

const HELLO: Request = Request::Hello { version: VERSION };

/// Sends it, gets one answer with the reason, and is disconnected.
#[track_caller]
fn sent_away(raw: &Raw, bytes: &[u8], why: CloseReason) {
    raw.send(bytes);
    assert_eq!(raw.answer(), Some(Answer::Closing { why }));
    assert_eq!(raw.answer(), None);
}

fn expecting(id: u64) -> Request {
    Request::Expect {
        id,
        at_ns: monotonic_ns() + 9 * SECOND,
        window_ns: US,
        cpu: 0,
    }
}

#[test]
fn an_invalid_message_is_answered_once_and_ends_only_its_own_connection() {
    let engine = Engine::start();
    let other = Raw::welcomed(&engine.path);
    assert_eq!(other.ask(1, 9 * SECOND, US), Ok(()));
    let rude = Raw::welcomed(&engine.path);
    assert_eq!(rude.ask(1, 9 * SECOND, 2 * US), Ok(()));
    sent_away(
        &rude,
        b"GET / HTTP/1.1\r\n\r\n",
        CloseReason::InvalidMessage,
    );
    wait_for("its request to go", || engine.server.counts().orphaned == 1);
    let cancelled = engine.plan.cancelled_of(std::process::id());
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0].window_ns, 2 * US);
    assert_eq!(other.ask(2, 9 * SECOND, US), Ok(()));
    wait_for("the one client", || engine.server.clients().len() == 1);
}

#[test]
fn unknown_and_out_of_order_messages_are_invalid() {
    let engine = Engine::start();
    let long = [b'r'; 4_096];
    let mut cut = expecting(1).encode().as_ref().to_vec();
    cut.pop();
    let answer = Answer::Accepted { id: 1 }.encode();
    for bytes in [
        &b"x"[..],
        &long,
        &cut,
        answer.as_ref(),
        HELLO.encode().as_ref(),
    ] {
        sent_away(
            &Raw::welcomed(&engine.path),
            bytes,
            CloseReason::InvalidMessage,
        );
    }
    // Before a hello.
    for request in [expecting(1), Request::Cancel { id: 1 }] {
        let raw = Raw::connect(&engine.path);
        sent_away(&raw, request.encode().as_ref(), CloseReason::InvalidMessage);
    }
    // The same number twice.
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask(1, 9 * SECOND, US), Ok(()));
    sent_away(
        &raw,
        expecting(1).encode().as_ref(),
        CloseReason::InvalidMessage,
    );
    wait_for("the count", || {
        engine
            .server
            .counts()
            .sent_away(CloseReason::InvalidMessage)
            == 8
    });
    assert!(engine.server.clients().is_empty());
}

#[test]
fn an_empty_message_ends_the_connection() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    raw.send(b"");
    assert_eq!(raw.answer(), None);
}

#[test]
fn another_version_is_refused_by_name() {
    let engine = Engine::start();
    let raw = Raw::connect(&engine.path);
    let hello = Request::Hello {
        version: VERSION + 1,
    };
    sent_away(&raw, hello.encode().as_ref(), CloseReason::Version);
}

#[test]
fn a_flooding_client_is_slowed_and_others_are_answered() {
    let engine = Engine::with(|settings| settings.limits.messages_per_second = 1_000);
    let begun = Instant::now();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also if this thread panics: the flooding client would be waited for.
        let stops = Stops(&stop);
        let flood = || {
            let raw = Raw::welcomed(&engine.path);
            while !stop.load(Ordering::Relaxed) {
                match raw.try_send(Request::Cancel { id: 1 }.encode().as_ref()) {
                    Ok(_) => {}
                    Err(Errno::EAGAIN) => std::thread::yield_now(),
                    Err(errno) => panic!("{errno}"),
                }
            }
        };
        let flooding = [scope.spawn(flood), scope.spawn(flood)];
        wait_for("the flood to be held back", || {
            engine.server.counts().held_back > 10
        });
        // Rates are per process, so the other one is a separate process.
        let mut other = super::killed::Child::start(&engine.path);
        wait_for("the other's answers", || {
            engine.server.counts().accepted >= 3
        });
        assert!(flooding.iter().all(|thread| !thread.is_finished()));
        other.kill();
        // Each time, both of them wait until they may send a message, and not only for a moment.
        let held_back = engine.server.counts().held_back;
        let allowed = 100 + begun.elapsed().as_millis();
        assert!(
            u128::from(held_back) <= 4 * allowed,
            "{held_back} times for {allowed} messages"
        );
        drop(stops);
    });
}

/// Sets the flag when dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_never_reads_does_not_block_the_server() {
    let engine = Engine::start();
    let deaf = Raw::welcomed(&engine.path);
    // Until its buffer is full of answers. Each is a refusal: they are of the same instant.
    let mut id = 0;
    wait_for("an answer that does not fit", || {
        for _ in 0..100 {
            id += 1;
            deaf.send(expecting(id).encode().as_ref());
        }
        engine.server.counts().unheard > 0
    });
    let other = Raw::welcomed(&engine.path);
    other.request(&Request::Cancel { id: 1 });
    assert!(other.ask(1, 8 * SECOND, US).is_ok());
    // It is still a client, and may request again what it has not read an answer to.
    wait_for("both clients", || engine.server.clients().len() == 2);
    assert!(matches!(deaf.answer(), Some(Answer::Accepted { id: 1 })));
}

#[test]
fn a_client_without_a_hello_in_time_is_refused_and_disconnected() {
    let engine = Engine::with(|settings| settings.quotas.hello_ns = 100 * 1_000 * US);
    let silent = Raw::connect(&engine.path);
    let other = Raw::welcomed(&engine.path);
    let late = Answer::Closing {
        why: CloseReason::Late,
    };
    assert_eq!(silent.answer(), Some(late));
    assert_eq!(silent.answer(), None);
    // A welcomed client may be silent.
    assert_eq!(other.ask(1, 9 * SECOND, US), Ok(()));
    assert_eq!(engine.server.clients().len(), 1);
    assert_eq!(engine.server.counts().clients, 1);
}

/// The time that the thread spends on a user is the thread's run time.
#[test]
fn a_costly_client_gets_a_share_of_the_time() {
    let engine = Engine::with(|settings| {
        settings.limits.messages_per_second = 1_000_000;
        settings.quotas.messages = 1_000_000;
        settings.quotas.server_ppm = Quotas::default().server_ppm;
    });
    let raw = Raw::welcomed(&engine.path);
    let began = Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(2) {
        let _ = raw.try_send(Request::Cancel { id: 1 }.encode().as_ref());
    }
    let ran_ns = engine.server.users()[0].server_ns;
    let most_ns = began.elapsed().as_nanos() as u64 / 20;
    // It may be late by a turn.
    assert!(ran_ns < most_ns + 20_000 * US, "{ran_ns} of {most_ns}");
    assert!(engine.server.counts().held_back > 0);
}

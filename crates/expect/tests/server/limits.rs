//! The limits of a client's requests.

use std::time::Instant;

use reveille_expect::protocol::{Answer, CloseReason, Request, VERSION};
use reveille_expect::server::Quotas;
use reveille_expect::{Limits, MAX_OPEN, Refusal};

use super::plan::{Engine, NO_CPU};
use super::raw::{Raw, SECOND, US, wait_for};

#[test]
fn a_request_reaches_the_plan_with_its_sender_and_so_does_its_cancellation() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask_on(3, 17, 5 * SECOND, 100 * US), Ok(()));
    assert_eq!(raw.ask_on(1, 18, 6 * SECOND, 200 * US), Ok(()));
    raw.request(&Request::Cancel { id: 17 });
    wait_for("the cancellation", || engine.server.counts().cancelled == 1);
    let asked = engine.plan.asked.lock().unwrap().clone();
    assert_eq!((asked[0].cpu, asked[0].window_ns), (3, 100 * US));
    assert_eq!((asked[1].cpu, asked[1].window_ns), (1, 200 * US));
    assert_eq!(asked[0].owner.pid, std::process::id() as i32);
    // SAFETY: the call takes nothing.
    assert_eq!(asked[0].owner.uid, unsafe { nix::libc::getuid() });
    assert_eq!(engine.plan.cancelled_of(std::process::id()), [asked[0]]);
    let clients = engine.server.clients();
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].open, clients[0].accepted), (1, 2));
    assert_eq!(clients[0].asked_ns, 200 * US);
}

#[test]
fn the_welcome_has_the_engines_limits() {
    let limits = Limits {
        open: 3,
        window_ns: 77 * US,
        ..Limits::default()
    };
    let engine = Engine::with(|settings| settings.limits = limits);
    let raw = Raw::connect(&engine.path);
    raw.request(&Request::Hello { version: VERSION });
    let welcome = Answer::Welcome {
        version: VERSION,
        limits,
    };
    assert_eq!(raw.answer(), Some(welcome));
}

#[test]
fn invalid_windows_are_refused_with_their_reason() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask(1, SECOND, 0), Err(Refusal::Empty));
    assert_eq!(raw.ask(2, SECOND, 10_001 * US), Err(Refusal::TooLong));
    assert_eq!(raw.ask(3, 60 * SECOND, US), Err(Refusal::TooFar));
    assert_eq!(raw.ask_on(NO_CPU, 4, SECOND, US), Err(Refusal::Cpu));
    raw.request(&Request::Expect {
        id: 5,
        at_ns: 1,
        window_ns: US,
        cpu: 0,
    });
    let past = Answer::Refused {
        id: 5,
        why: Refusal::Past,
    };
    assert_eq!(raw.answer(), Some(past));
    assert!(engine.plan.asked.lock().unwrap().is_empty());
    for why in Refusal::ALL {
        let asked_for = [
            Refusal::Empty,
            Refusal::TooLong,
            Refusal::TooFar,
            Refusal::Cpu,
            Refusal::Past,
        ];
        let once = u64::from(asked_for.contains(&why));
        let counted = || engine.server.counts().refused(why) == once;
        wait_for("the count", counted);
    }
}

#[test]
fn the_65th_open_request_is_refused_until_one_is_cancelled() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    for id in 0..u64::from(MAX_OPEN) {
        assert_eq!(raw.ask(id, 9 * SECOND, US), Ok(()));
    }
    assert_eq!(raw.ask(1_000, 9 * SECOND, US), Err(Refusal::Limit));
    raw.request(&Request::Cancel { id: 5 });
    // One that is not open.
    raw.request(&Request::Cancel { id: 4_711 });
    assert_eq!(raw.ask(1_001, 9 * SECOND, US), Ok(()));
}

#[test]
fn a_finished_request_is_neither_open_nor_cancelled() {
    let engine = Engine::with(|settings| settings.limits.open = 1);
    let raw = Raw::welcomed(&engine.path);
    // On a busy machine it may be over before the message arrives.
    wait_for("a short one", || raw.ask(1, 50_000 * US, US).is_ok());
    // Its window passes.
    wait_for("room", || raw.ask(2, 9 * SECOND, US).is_ok());
    raw.request(&Request::Cancel { id: 1 });
    raw.request(&Request::Cancel { id: 2 });
    wait_for("the cancellation", || engine.server.counts().cancelled == 1);
    let cancelled = engine.plan.cancelled_of(std::process::id());
    let last = engine.plan.asked.lock().unwrap().last().copied().unwrap();
    assert_eq!(cancelled, [last]);
}

#[test]
fn a_process_has_one_budget_over_all_connections() {
    let engine = Engine::start();
    let first = Raw::welcomed(&engine.path);
    assert_eq!(first.ask(1, 9 * SECOND, 10_000 * US), Ok(()));
    assert_eq!(first.ask(2, 9 * SECOND, 10_000 * US), Err(Refusal::Budget));
    let second = Raw::welcomed(&engine.path);
    assert_eq!(second.ask(1, 9 * SECOND, 10_000 * US), Err(Refusal::Budget));
    // Five seconds earlier nothing is available yet.
    assert_eq!(second.ask(2, 4 * SECOND, 10_000 * US), Ok(()));
    // Cancelled time is available again; the plan sees only requests that the budget allows.
    first.request(&Request::Cancel { id: 1 });
    wait_for("the budget", || {
        second.ask(3, 9 * SECOND, 10_000 * US).is_ok()
    });
    assert_eq!(engine.plan.asked.lock().unwrap().len(), 3);
}

#[test]
fn a_request_that_the_plan_refuses_costs_no_budget() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    for id in 0..100 {
        let refused = raw.ask_on(NO_CPU, id, 9 * SECOND, 10_000 * US);
        assert_eq!(refused, Err(Refusal::Cpu));
    }
    assert_eq!(raw.ask(100, 9 * SECOND, 10_000 * US), Ok(()));
}

/// Connects, and gets the reason for the refusal.
#[track_caller]
fn no_place(engine: &Engine, why: CloseReason) {
    let raw = Raw::connect(&engine.path);
    assert_eq!(raw.answer(), Some(Answer::Closing { why }));
    assert_eq!(raw.answer(), None);
}

#[test]
fn a_client_over_the_limit_is_refused_until_another_leaves() {
    // A quarter of the eight that are not root's.
    let engine = Engine::with(|settings| settings.clients = 9);
    let first = Raw::welcomed(&engine.path);
    let second = Raw::welcomed(&engine.path);
    no_place(&engine, CloseReason::Places);
    drop(first);
    wait_for("room", || {
        let raw = Raw::connect(&engine.path);
        raw.try_send(Request::Hello { version: VERSION }.encode().as_ref())
            .is_ok()
            && matches!(raw.answer(), Some(Answer::Welcome { .. }))
    });
    assert_eq!(second.ask(1, 9 * SECOND, US), Ok(()));
    let in_all = Engine::with(|settings| settings.clients = 1);
    let _only = Raw::welcomed(&in_all.path);
    no_place(&in_all, CloseReason::Full);
}

#[test]
fn a_client_that_connects_too_often_is_refused() {
    let engine = Engine::with(|settings| settings.quotas.connects = 3);
    let began = Instant::now();
    wait_for("a refusal", || {
        let raw = Raw::connect(&engine.path);
        raw.try_send(Request::Hello { version: VERSION }.encode().as_ref())
            .is_err()
            || raw.answer()
                == Some(Answer::Closing {
                    why: CloseReason::TooOften,
                })
    });
    let welcomed = engine.server.counts().clients;
    assert!(welcomed >= 3 && welcomed <= 4 + 3 * began.elapsed().as_secs());
    assert!(engine.server.counts().sent_away(CloseReason::TooOften) >= 1);
}

#[test]
fn a_finished_window_on_one_cpu_leaves_a_later_one_of_its_number_on_another() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask_on(0, 7, 1000 * US, US), Ok(()));
    // It is over when its number is accepted again.
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(raw.ask_on(1, 7, 9 * SECOND, US), Ok(()));
    assert_eq!(raw.ask_on(0, 8, 9 * SECOND, US), Ok(()));
    drop(raw);
    wait_for("the end of both that are open", || {
        engine.server.counts().orphaned == 2
    });
}

#[test]
fn a_user_has_some_windows_of_a_cpu_and_each_finished_one_makes_room() {
    let engine = Engine::with(|settings| {
        settings.quotas.slots_of_user = Quotas::default().slots_of_user;
    });
    let (one, two) = (Raw::welcomed(&engine.path), Raw::welcomed(&engine.path));
    for id in 0..2 {
        assert_eq!(one.ask_on(3, id, 9 * SECOND, US), Ok(()));
        assert_eq!(two.ask_on(3, id, 9 * SECOND, US), Ok(()));
    }
    assert_eq!(one.ask_on(3, 9, 9 * SECOND, US), Err(Refusal::Slots));
    assert_eq!(two.ask_on(3, 9, 9 * SECOND, US), Err(Refusal::Slots));
    assert_eq!(two.ask_on(2, 9, 9 * SECOND, US), Ok(()));
    one.request(&Request::Cancel { id: 0 });
    // A short one that is soon over: its place becomes free without a message.
    wait_for("a window that is over", || {
        two.ask_on(3, 10, 20_000 * US, US).is_ok()
    });
    wait_for("its place", || two.ask_on(3, 11, 9 * SECOND, US).is_ok());
    assert_eq!(one.ask_on(3, 12, 9 * SECOND, US), Err(Refusal::Slots));
    drop(two);
    wait_for("the places of one that has gone", || {
        (20..23).all(|id| one.ask_on(3, id, 9 * SECOND, US).is_ok())
    });
}

#[test]
fn short_windows_wake_a_cpu_at_most_at_the_users_rate() {
    let engine = Engine::with(|settings| settings.quotas.wakeups = 100);
    let raw = Raw::welcomed(&engine.path);
    let began = Instant::now();
    let mut refused = 0;
    for id in 0..500 {
        refused += u64::from(raw.ask_on(1, id, SECOND, 1) == Err(Refusal::Wakeups));
    }
    let seconds = began.elapsed().as_secs() + 1;
    let taken = engine.plan.asked.lock().unwrap().len() as u64;
    assert!(refused > 0);
    assert_eq!(engine.server.counts().refused(Refusal::Wakeups), refused);
    assert!(2 * taken <= 100 * seconds, "{taken} in {seconds} s");
    assert_eq!(engine.server.users()[0].wakeups, 2 * taken);
}

#[test]
fn a_client_of_the_first_version_gets_reasons_of_that_version() {
    let engine = Engine::with(|settings| settings.quotas.slots_of_user = 1);
    let raw = Raw::connect(&engine.path);
    raw.request(&Request::Hello { version: 1 });
    let welcome = raw.answer();
    assert!(matches!(welcome, Some(Answer::Welcome { version: 1, .. })));
    assert_eq!(raw.ask(1, 9 * SECOND, US), Ok(()));
    assert_eq!(raw.ask(2, 9 * SECOND, US), Err(Refusal::Limit));
    assert_eq!(engine.server.counts().refused(Refusal::Slots), 1);
}

//! Applications, through the library that they use.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use reveille_expect::server::Settings;
use reveille_expect::{Error, Expected, Refusal, Served, Waker, monotonic_ns};

use super::fake::listener;
use super::plan::{Engine, NO_CPU};
use super::raw::{DEADLINE, SECOND, US, wait_for};

const AHEAD: Duration = Duration::from_secs(9);
const WINDOW: Duration = Duration::from_micros(50);

/// On a busy machine an engine may take longer to answer than the library waits for it.
pub fn served_by_engine(path: &Path) -> Waker {
    let begun = Instant::now();
    loop {
        let waker = Waker::connect_to(path);
        match waker.served() {
            Served::ByEngine => return waker,
            other => assert!(begun.elapsed() < DEADLINE, "{other:?}"),
        }
    }
}

/// One refused window is enough to show the reason.
fn why(done: reveille_expect::Result<Expected>) -> Refusal {
    match done {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_application_requests_its_own_cpu_and_cancels() {
    let engine = Engine::start();
    let mut waker = served_by_engine(&engine.path);
    // The CPU may change between the kernel's answer and here; its number is a valid one.
    let cpu = nix::sched::sched_getcpu().unwrap() as u32;
    let at = Instant::now() + AHEAD;
    let before_ns = monotonic_ns();
    if cpu < NO_CPU {
        waker.expect(at, WINDOW).unwrap();
    } else {
        waker.expect_on(0, before_ns + 9 * SECOND, 50 * US).unwrap();
    }
    waker.expect_on(1, before_ns + 9 * SECOND, 60 * US).unwrap();
    assert!(waker.wait_for_answers(DEADLINE));
    assert_eq!(waker.counts().accepted, 2);
    let asked = engine.plan.asked.lock().unwrap().clone();
    assert_eq!((asked[0].window_ns, asked[1].window_ns), (50 * US, 60 * US));
    assert!(asked[0].at_ns.abs_diff(before_ns + 9 * SECOND) < SECOND);
    waker.cancel().unwrap();
    wait_for("the cancellations", || {
        engine.server.counts().cancelled == 2
    });
    assert_eq!(waker.counts().cancelled, 2);
    // Nothing is left to cancel.
    waker.cancel().unwrap();
    assert_eq!(waker.counts().cancelled, 2);
}

#[test]
fn one_request_is_cancelled_without_the_others() {
    let engine = Engine::start();
    let mut waker = served_by_engine(&engine.path);
    let at_ns = monotonic_ns() + 9 * SECOND;
    let first = waker.expect_on(0, at_ns, 10 * US).unwrap();
    let second = waker.expect_on(0, at_ns, 20 * US).unwrap();
    assert_ne!(first, second);
    waker.cancel_one(first).unwrap();
    waker.cancel_one(first).unwrap();
    wait_for("the cancellation", || engine.server.counts().cancelled == 1);
    let cancelled = engine.plan.cancelled_of(std::process::id());
    assert_eq!(cancelled[0].window_ns, 10 * US);
    assert_eq!(waker.counts().cancelled, 1);
}

#[test]
fn later_refusals_are_counted_and_known_ones_are_immediate() {
    let engine = Engine::with(|settings| settings.limits.open = 2);
    let mut waker = served_by_engine(&engine.path);
    let now_ns = monotonic_ns();
    let soon_ns = now_ns + 9 * SECOND;
    assert_eq!(why(waker.expect_on(0, 1, US)), Refusal::Past);
    assert_eq!(why(waker.expect_on(0, soon_ns, 0)), Refusal::Empty);
    assert_eq!(why(waker.expect_on(0, soon_ns, SECOND)), Refusal::TooLong);
    let far_ns = now_ns + 60 * SECOND;
    assert_eq!(why(waker.expect_on(0, far_ns, US)), Refusal::TooFar);
    waker.expect_on(NO_CPU, soon_ns, US).unwrap();
    assert!(waker.wait_for_answers(DEADLINE));
    assert_eq!(waker.counts().refused(Refusal::Cpu), 1);
    // It is not open, so there is room for two.
    waker.expect_on(0, soon_ns, US).unwrap();
    waker.expect_on(0, soon_ns, US).unwrap();
    assert_eq!(why(waker.expect_on(0, soon_ns, US)), Refusal::Limit);
    assert!(waker.wait_for_answers(DEADLINE));
    let counts = waker.counts();
    assert_eq!((counts.asked, counts.accepted), (8, 2));
    assert_eq!(counts.refused_in_all(), 6);
}

#[test]
fn a_thread_takes_over_after_the_engine_ends() {
    let engine = Engine::start();
    let path = engine.path.clone();
    let mut waker = served_by_engine(&path);
    waker.expect(Instant::now() + AHEAD, WINDOW).unwrap();
    assert!(waker.awake().is_none() && waker.lead().is_none());
    assert!(waker.wait_for_answers(DEADLINE));
    drop(engine);
    // Without waiting for an answer nothing is received.
    assert_eq!(waker.counts().accepted, 1);
    assert_eq!(waker.served(), Served::ByEngine);
    waker.expect(Instant::now() + AHEAD, WINDOW).unwrap();
    assert_eq!(
        waker.served(),
        Served::ByThread("the engine has ended".into())
    );
    assert_eq!(waker.awake(), Some(Duration::ZERO));
    // The initial lead; it has learnt nothing yet.
    assert_eq!(waker.lead(), Some(Duration::from_micros(50)));
    waker.cancel().unwrap();
}

#[test]
fn without_an_engine_a_thread_serves_and_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nobody.sock");
    let waker = Waker::connect_to(&path);
    let Served::ByThread(why) = waker.served() else {
        panic!("{:?}", waker.served());
    };
    assert_eq!(why, format!("no engine listens at {}", path.display()));
    // A stale file, another program's socket, an invalid path.
    drop(UnixListener::bind(&path).unwrap());
    assert!(matches!(
        Waker::connect_to(&path).served(),
        Served::ByThread(_)
    ));
    let other = folder.path().join("other.sock");
    let _listener = UnixListener::bind(&other).unwrap();
    assert!(matches!(
        Waker::connect_to(&other).served(),
        Served::ByThread(_)
    ));
    let long = folder.path().join("x".repeat(200));
    assert!(matches!(
        Waker::connect_to(&long).served(),
        Served::ByThread(_)
    ));
}

#[test]
fn a_hung_engine_is_waited_for_briefly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hung.sock");
    let _listener = listener(&path);
    // No accept: first there is no answer, then no connection.
    for _ in 0..3 {
        let Served::ByThread(why) = Waker::connect_to(&path).served() else {
            panic!("it was served");
        };
        assert!(why.ends_with("does not answer"), "{why}");
    }
}

#[test]
fn a_full_engine_reports_that() {
    let engine = Engine::with(|settings: &mut Settings| settings.clients = 0);
    let waker = Waker::connect_to(&engine.path);
    let Served::ByThread(why) = waker.served() else {
        panic!("{:?}", waker.served());
    };
    let full = why.ends_with("reports: the engine has as many clients as it takes");
    // On a busy machine.
    assert!(full || why.ends_with("does not answer"), "{why}");
}

#[test]
fn a_clients_own_thread_has_the_same_limits() {
    let mut waker = Waker::alone();
    let now_ns = monotonic_ns();
    let soon_ns = now_ns + 9 * SECOND;
    assert_eq!(why(waker.expect_ns(soon_ns, SECOND)), Refusal::TooLong);
    assert_eq!(why(waker.expect_ns(1, US)), Refusal::Past);
    let far_ns = now_ns + 60 * SECOND;
    assert_eq!(why(waker.expect_ns(far_ns, US)), Refusal::TooFar);
    assert_eq!(why(waker.expect_on(5_000, soon_ns, US)), Refusal::Cpu);
    waker.expect_ns(soon_ns, 10_000 * US).unwrap();
    assert_eq!(why(waker.expect_ns(soon_ns, 10_000 * US)), Refusal::Budget);
    waker.cancel().unwrap();
    waker.expect_ns(soon_ns, 10_000 * US).unwrap();
    let counts = waker.counts();
    assert_eq!((counts.accepted, counts.cancelled), (2, 1));
    assert_eq!(counts.refused_in_all(), 5);
}

#[test]
fn a_waker_predicts_from_its_observations() {
    let mut waker = Waker::alone();
    assert_eq!(waker.predict("read"), None);
    for _ in 0..5 {
        waker.observe("read", Duration::from_micros(80)).unwrap();
    }
    let next = waker.predict("read").unwrap();
    assert_eq!(next.duration, Duration::from_micros(80));
    assert!(waker.observe("read", Duration::ZERO).is_err());
    assert_eq!(waker.history().refused(), 1);
}

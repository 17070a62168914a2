//! Engines that are older than the library, slow, or unusable.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect, listen,
    recv, send, socket,
};
use reveille_alone::Over;
use reveille_expect::protocol::{Answer, CloseReason, Request, VERSION};
use reveille_expect::{Limits, Served, Waker};

/// Listens there without accepting; one or two clients may wait.
pub fn listener(path: &Path) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    listener
}

/// Answers each hello, by its version, until the tests end.
fn answer_all(listener: OwnedFd, answer: impl Fn(u32) -> Answer + Send + 'static) {
    std::thread::spawn(move || {
        let mut clients = Vec::new();
        loop {
            let client = accept(listener.as_raw_fd()).unwrap();
            // SAFETY: accept returned it to no other owner.
            let client = unsafe { OwnedFd::from_raw_fd(client) };
            let mut buffer = [0; 64];
            // A client that has left again, or that only waits in the queue, sends nothing.
            let length = recv(client.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap_or(0);
            if let Ok(Request::Hello { version }) = Request::decode(&buffer[..length]) {
                let answer = answer(version).encode();
                let _ = send(client.as_raw_fd(), answer.as_ref(), MsgFlags::MSG_NOSIGNAL);
            }
            clients.push(client);
        }
    });
}

/// The serving side after a few attempts: on a busy machine an answer may be late.
fn served(path: &Path) -> Waker {
    let patient = |waker: &Waker| !matches!(waker.served(), Served::ByThread(why) if why.ends_with("does not answer"));
    (0..20)
        .map(|_| Waker::connect_to(path))
        .find(patient)
        .expect("no answer in time, twenty times")
}

fn engine(answer: impl Fn(u32) -> Answer + Send + 'static) -> (PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    answer_all(listener(&path), answer);
    (path, folder)
}

/// Other limits than the library's own.
const LIMITS: Limits = Limits {
    open: 3,
    window_ns: 1_000,
    ahead_ns: 2_000,
    messages_per_second: 4,
    awake_ppm: 5,
};

fn closing_for_version() -> Answer {
    let why = CloseReason::Version;
    Answer::Closing { why }
}

#[test]
fn an_older_engine_is_addressed_in_its_version() {
    let (path, _folder) = engine(|version| match version {
        1 => Answer::Welcome {
            version,
            limits: LIMITS,
        },
        _ => closing_for_version(),
    });
    let waker = served(&path);
    assert_eq!(waker.served(), Served::ByEngine);
    assert_eq!(waker.limits(), LIMITS);
}

#[test]
fn an_engine_of_unknown_version_or_with_a_protocol_error_is_not_used() {
    type Answering = fn(u32) -> Answer;
    let other_version = |_| Answer::Welcome {
        version: VERSION + 1,
        limits: LIMITS,
    };
    let too_often = |_| {
        let why = CloseReason::TooOften;
        Answer::Closing { why }
    };
    let answers: [(Answering, &str); 4] = [
        (
            |_| closing_for_version(),
            "reports: the engine speaks another version of the protocol",
        ),
        (other_version, "does not keep to the protocol"),
        (
            |_| Answer::Accepted { id: 1 },
            "does not keep to the protocol",
        ),
        (
            too_often,
            "reports: this user connects too often; wait a second",
        ),
    ];
    for (answer, expected) in answers {
        let (path, _folder) = engine(answer);
        let why = format!("the engine at {} {expected}", path.display());
        assert_eq!(served(&path).served(), Served::ByThread(why));
    }
}

#[test]
fn a_slow_engine_is_waited_for() {
    let (path, _folder) = engine(|version| {
        std::thread::sleep(Duration::from_millis(100));
        Answer::Welcome {
            version,
            limits: LIMITS,
        }
    });
    assert_eq!(served(&path).served(), Served::ByEngine);
}

/// Connects until the queue is full.
fn crowd(path: &Path) -> Vec<OwnedFd> {
    let address = UnixAddr::new(path).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let client = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        match connect(client.as_raw_fd(), &address) {
            Ok(()) => waiting.push(client),
            Err(errno) => {
                assert_eq!(errno, Errno::EAGAIN);
                return waiting;
            }
        }
    }
}

#[test]
fn a_client_waits_in_the_queue() {
    let attempt = || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = listener(&path);
        let waiting = crowd(&path);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            // They leave; their places become free when they are accepted.
            drop(waiting);
            answer_all(listener, |version| Answer::Welcome {
                version,
                limits: LIMITS,
            });
        });
        Waker::connect_to(&path).served() == Served::ByEngine
    };
    assert!((0..20).any(|_| attempt()));
}

extern "C" fn nothing(_: libc::c_int) {}

#[test]
fn signals_do_not_end_the_wait_in_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hung.sock");
    let _listener = listener(&path);
    let _waiting = crowd(&path);
    // Without SA_RESTART, so that it interrupts connect(2).
    let action = SigAction::new(
        SigHandler::Handler(nothing),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
    // SAFETY: it always succeeds.
    let connecting = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    let (waker, took) = std::thread::scope(|scope| {
        let _over = Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: that thread outlives the scope.
                unsafe { libc::pthread_kill(connecting, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let waker = Waker::connect_to(&path);
        (waker, begun.elapsed())
    });
    let why = format!("the engine at {} does not answer", path.display());
    assert_eq!(waker.served(), Served::ByThread(why));
    // The second within which an engine has to answer.
    assert!(took >= Duration::from_secs(1), "{took:?}");
}

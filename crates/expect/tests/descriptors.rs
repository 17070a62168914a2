//! A server without a free file descriptor. (In a process of its own, whose limit it lowers.)

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use reveille_alone::is_apart;
use reveille_expect::Refusal;
use reveille_expect::protocol::{Answer, CloseReason, Request, VERSION};
use reveille_expect::server::{Owner, Plan, Server, Settings, Ticket};

struct Anything;

impl Plan for Anything {
    fn expect(&self, _: u32, _: u64, _: u64, _: Owner) -> Result<Ticket, Refusal> {
        Ok(Ticket(0))
    }

    fn cancel(&self, _: Ticket) {}
}

/// The first answer; `None` if the connection has ended without one.
fn answer(client: &OwnedFd, path: &UnixAddr) -> Option<Answer> {
    // A silent server would block the read.
    setsockopt(client, ReceiveTimeout, &TimeVal::seconds(60)).unwrap();
    connect(client.as_raw_fd(), path).unwrap();
    let hello = Request::Hello { version: VERSION }.encode();
    // It may have been refused already.
    let _ = send(client.as_raw_fd(), hello.as_ref(), MsgFlags::MSG_NOSIGNAL);
    loop {
        let mut buffer = [0; 64];
        match recv(client.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(0) => return None,
            Ok(length) => return Answer::decode(&buffer[..length]).ok(),
            Err(Errno::ECONNRESET | Errno::EINTR) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn a_client_without_a_descriptor_left_is_refused_and_served_once_one_is_free() {
    const TEST: &str =
        "descriptors::a_client_without_a_descriptor_left_is_refused_and_served_once_one_is_free";
    if !is_apart(TEST, &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        path: folder.path().join("engine.sock"),
        ..Settings::default()
    };
    let server = Server::start(&settings, Anything).unwrap();
    let path = UnixAddr::new(server.path()).unwrap();
    // The clients' own exist before.
    let client = || {
        let kind = SockType::SeqPacket;
        socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap()
    };
    let mut clients: Vec<OwnedFd> = (0..40).map(|_| client()).collect();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let highest = clients.iter().map(|client| client.as_raw_fd()).max();
    let limit = highest.unwrap() as u64 + 10;
    setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();
    let mut welcomed = Vec::new();
    let refused = loop {
        let client = clients.pop().expect("not all of them find room");
        match answer(&client, &path) {
            Some(Answer::Welcome { .. }) => welcomed.push(client),
            other => break other,
        }
    };
    let why = CloseReason::Descriptors;
    assert_eq!(refused, Some(Answer::Closing { why }));
    assert!(!welcomed.is_empty());
    assert!(server.counts().sent_away(why) >= 1);
    welcomed.pop();
    let began = Instant::now();
    while !matches!(
        clients.pop().map(|client| answer(&client, &path)),
        Some(Some(Answer::Welcome { .. }))
    ) {
        assert!(began.elapsed() < Duration::from_secs(60), "in vain");
        std::thread::sleep(Duration::from_millis(50));
    }
}

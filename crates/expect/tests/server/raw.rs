//! A client that sends anything, valid or not.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use reveille_expect::protocol::{Answer, Request, VERSION};
use reveille_expect::{Refusal, monotonic_ns};

/// For expected events, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub const US: u64 = 1_000;
pub const SECOND: u64 = 1_000_000_000;

pub struct Raw(OwnedFd);

impl Raw {
    /// Connects, and sends nothing.
    pub fn connect(path: &Path) -> Self {
        let begun = Instant::now();
        loop {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
            match connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()) {
                Ok(()) => return Self(socket),
                // Others wait to be accepted.
                Err(Errno::EAGAIN) if begun.elapsed() < DEADLINE => std::thread::yield_now(),
                Err(errno) => panic!("{}: {errno}", path.display()),
            }
        }
    }

    /// Connects and is welcomed.
    pub fn welcomed(path: &Path) -> Self {
        let raw = Self::connect(path);
        raw.request(&Request::Hello { version: VERSION });
        assert!(matches!(raw.answer(), Some(Answer::Welcome { .. })));
        raw
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.0
    }

    /// Whether there was room.
    pub fn try_send(&self, bytes: &[u8]) -> nix::Result<usize> {
        send(self.0.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)
    }

    pub fn send(&self, bytes: &[u8]) {
        loop {
            match self.try_send(bytes) {
                Ok(_) => return,
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT),
                Err(errno) => panic!("{errno}"),
            }
        }
    }

    pub fn request(&self, request: &Request) {
        self.send(request.encode().as_ref());
    }

    /// The next answer; `None` if the connection has ended.
    pub fn answer(&self) -> Option<Answer> {
        loop {
            let mut buffer = [0; 256];
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(0) => return None,
                Ok(length) => return Some(Answer::decode(&buffer[..length]).unwrap()),
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN),
                Err(Errno::ECONNRESET) => {}
                Err(errno) => panic!("{errno}"),
            }
        }
    }

    /// The outcome of a request for a window this far ahead.
    pub fn ask(&self, id: u64, ahead_ns: u64, window_ns: u64) -> Result<(), Refusal> {
        self.ask_on(0, id, ahead_ns, window_ns)
    }

    pub fn ask_on(&self, cpu: u32, id: u64, ahead_ns: u64, window_ns: u64) -> Result<(), Refusal> {
        self.request(&Request::Expect {
            id,
            at_ns: monotonic_ns() + ahead_ns,
            window_ns,
            cpu,
        });
        match self.answer() {
            Some(Answer::Accepted { id: which }) if which == id => Ok(()),
            Some(Answer::Refused { id: which, why }) if which == id => Err(why),
            other => panic!("{other:?}"),
        }
    }

    fn wait(&self, events: PollFlags) {
        let mut polled = [PollFd::new(self.0.as_fd(), events)];
        let timeout = PollTimeout::try_from(DEADLINE).unwrap();
        assert_ne!(poll(&mut polled, timeout), Ok(0), "waited in vain");
    }
}

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

//! The connection to a running engine.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};

use crate::clock::monotonic_ns;
use crate::limits::Limits;
use crate::protocol::{Answer, LONGEST, Request, VERSION};

/// How long an engine may take to say welcome before it counts as hung, ns.
const WELCOME_NS: u64 = 1_000_000_000;

/// A connection that was welcomed. Nothing waits here but [`Link::connect`] and [`Link::wait`].
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pub limits: Limits,
}

/// What became of a message that was to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// The engine has not read the earlier ones yet.
    Busy,
    /// The connection has ended.
    Gone,
}

/// What is to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Answer(Answer),
    Nothing,
    /// The connection has ended, or the engine does not keep to the protocol.
    Gone,
}

impl Link {
    /// Connects and says hello.
    ///
    /// # Errors
    /// Why there is no connection, as the end of a sentence.
    pub fn connect(path: &Path) -> Result<Self, String> {
        let address =
            UnixAddr::new(path).map_err(|errno| format!("{}: {errno}", path.display()))?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
            .map_err(|errno| format!("no socket: {errno}"))?;
        connect(socket.as_raw_fd(), &address).map_err(|errno| match errno {
            Errno::ENOENT | Errno::ECONNREFUSED => {
                format!("no engine listens at {}", path.display())
            }
            Errno::EAGAIN => format!("the engine at {} does not answer", path.display()),
            errno => format!("{}: {errno}", path.display()),
        })?;
        let mut link = Self {
            socket,
            limits: Limits::default(),
        };
        link.be_welcomed()
            .map_err(|why| format!("the engine at {} {why}", path.display()))?;
        Ok(link)
    }

    fn be_welcomed(&mut self) -> Result<(), String> {
        if self.send(&Request::Hello { version: VERSION }) != Sent::Yes {
            // It may have said why before it closed.
            return Err(match self.hear() {
                Heard::Answer(Answer::Closing { why }) => format!("says: {why}"),
                _ => "closed the connection".into(),
            });
        }
        if !self.wait(monotonic_ns() + WELCOME_NS) {
            return Err("does not answer".into());
        }
        match self.hear() {
            Heard::Answer(Answer::Welcome { version, limits }) if version == VERSION => {
                self.limits = limits;
                Ok(())
            }
            Heard::Answer(Answer::Closing { why }) => Err(format!("says: {why}")),
            _ => Err("does not keep to the protocol".into()),
        }
    }

    /// Sends without waiting.
    pub fn send(&self, request: &Request) -> Sent {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        loop {
            return match send(self.socket.as_raw_fd(), request.encode().as_ref(), flags) {
                Ok(_) => Sent::Yes,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => Sent::Busy,
                Err(_) => Sent::Gone,
            };
        }
    }

    /// The next answer that is there.
    pub fn hear(&self) -> Heard {
        let mut buffer = [0; LONGEST];
        loop {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            return match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                // With MSG_TRUNC it is the length that the message had.
                Ok(length) => match buffer.get(..length).map(Answer::decode) {
                    Some(Ok(answer)) => Heard::Answer(answer),
                    _ => Heard::Gone,
                },
                // The other end closed before it had read everything: said once, before what it had
                // sent.
                Err(Errno::EINTR | Errno::ECONNRESET) => continue,
                Err(Errno::EAGAIN) => Heard::Nothing,
                Err(_) => Heard::Gone,
            };
        }
    }

    /// Waits until something is to be heard: false where nothing was until then.
    pub fn wait(&self, until_ns: u64) -> bool {
        loop {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            let timeout =
                PollTimeout::try_from(left_ns.div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
            let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, timeout) {
                Ok(0) if left_ns == 0 => return false,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }
}

//! The connection to a running engine.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::SendTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::clock::monotonic_ns;
use crate::limits::Limits;
use crate::protocol::{Answer, CloseReason, LONGEST, OLDEST_VERSION, Request, VERSION};

/// How long an engine may take to send `Welcome` before it counts as hung, ns.
const WELCOME_NS: u64 = 1_000_000_000;

/// A welcomed connection. Only [`Link::connect`] and [`Link::wait`] wait.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pub limits: Limits,
}

/// Why there is no connection.
enum NoLink {
    /// The engine speaks another version of the protocol.
    Version,
    /// The end of a sentence.
    Other(String),
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
pub(crate) enum Received {
    Answer(Answer),
    Nothing,
    /// The connection has ended, or the engine does not keep to the protocol.
    Gone,
}

impl Link {
    /// Connects and sends `Hello`, in an older version if the engine asks for it. An error is the end of a
    /// sentence.
    pub fn connect(path: &Path) -> Result<Self, String> {
        let mut link = Self::in_version(VERSION, path);
        for version in (OLDEST_VERSION..VERSION).rev() {
            match link {
                Err(NoLink::Version) => link = Self::in_version(version, path),
                _ => break,
            }
        }
        link.map_err(|why| match why {
            NoLink::Version => {
                let why = CloseReason::Version;
                format!("the engine at {} reports: {why}", path.display())
            }
            NoLink::Other(why) => why,
        })
    }

    fn in_version(version: u32, path: &Path) -> Result<Self, NoLink> {
        let until_ns = monotonic_ns() + WELCOME_NS;
        let socket = connect_until(path, until_ns)?;
        let limits = Limits::default();
        let mut link = Self { socket, limits };
        match link.be_welcomed(version, until_ns) {
            Ok(()) => Ok(link),
            Err(NoLink::Other(why)) => Err(NoLink::Other(format!(
                "the engine at {} {why}",
                path.display()
            ))),
            Err(version) => Err(version),
        }
    }

    fn be_welcomed(&mut self, spoken: u32, until_ns: u64) -> Result<(), NoLink> {
        let other = |why: &str| NoLink::Other(why.into());
        let reports = |why: CloseReason| NoLink::Other(format!("reports: {why}"));
        if self.send(&Request::Hello { version: spoken }) != Sent::Yes {
            // It may have sent the reason before it closed.
            return Err(match self.receive() {
                Received::Answer(Answer::Closing { why }) => reports(why),
                _ => other("closed the connection"),
            });
        }
        if !self.wait(until_ns) {
            return Err(other("does not answer"));
        }
        match self.receive() {
            Received::Answer(Answer::Welcome { version, limits }) if version == spoken => {
                self.limits = limits;
                Ok(())
            }
            Received::Answer(Answer::Closing {
                why: CloseReason::Version,
            }) => Err(NoLink::Version),
            Received::Answer(Answer::Closing { why }) => Err(reports(why)),
            _ => Err(other("does not keep to the protocol")),
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
    pub fn receive(&self) -> Received {
        let mut buffer = [0; LONGEST];
        loop {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            return match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                // With MSG_TRUNC it is the length that the message had.
                Ok(length) => match buffer.get(..length).map(Answer::decode) {
                    Some(Ok(answer)) => Received::Answer(answer),
                    _ => Received::Gone,
                },
                // The other end closed with unread messages: reported once, before what it had sent.
                Err(Errno::EINTR | Errno::ECONNRESET) => continue,
                Err(Errno::EAGAIN) => Received::Nothing,
                Err(_) => Received::Gone,
            };
        }
    }

    /// Waits for a message; false if none comes by then.
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

/// Connects; waits for its turn if others wait to be accepted.
fn connect_until(path: &Path, until_ns: u64) -> Result<OwnedFd, NoLink> {
    let shown = path.display();
    let failed = |errno: Errno| NoLink::Other(format!("{shown}: {errno}"));
    let address = UnixAddr::new(path).map_err(failed)?;
    let no_socket = |errno| NoLink::Other(format!("no socket: {errno}"));
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(no_socket)?;
    loop {
        // 0 would mean no timeout.
        let left_us = until_ns.saturating_sub(monotonic_ns()).max(1_000_000) / 1_000;
        let left = TimeVal::microseconds(left_us as i64);
        setsockopt(&socket, SendTimeout, &left).map_err(no_socket)?;
        return match connect(socket.as_raw_fd(), &address) {
            Ok(()) => Ok(socket),
            Err(Errno::EINTR) if monotonic_ns() < until_ns => continue,
            Err(Errno::ENOENT | Errno::ECONNREFUSED) => {
                Err(NoLink::Other(format!("no engine listens at {shown}")))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Err(NoLink::Other(format!(
                "the engine at {shown} does not answer"
            ))),
            Err(errno) => Err(failed(errno)),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use nix::sys::socket::socketpair;

    use super::*;

    /// A link, and the engine's end.
    fn pair() -> (Link, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (socket, engine) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let limits = Limits::default();
        (Link { socket, limits }, engine)
    }

    fn send_bytes(engine: &OwnedFd, bytes: &[u8]) {
        let sent = send(engine.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT);
        assert_eq!(sent, Ok(bytes.len()));
    }

    #[test]
    fn an_engine_that_closes_before_the_hello_may_send_a_reason() {
        for (said, expected) in [
            (
                Some(CloseReason::Full),
                "reports: the engine has as many clients as it takes",
            ),
            (None, "closed the connection"),
        ] {
            let (mut link, engine) = pair();
            if let Some(why) = said {
                send_bytes(&engine, Answer::Closing { why }.encode().as_ref());
            }
            drop(engine);
            match link.be_welcomed(VERSION, monotonic_ns()) {
                Err(NoLink::Other(why)) => assert_eq!(why, expected),
                Err(NoLink::Version) => panic!("no version was spoken of"),
                Ok(()) => panic!("no welcome"),
            }
        }
    }

    #[test]
    fn a_silent_or_hung_engine_is_not_waited_for() {
        let (link, engine) = pair();
        assert_eq!(link.receive(), Received::Nothing);
        let cancel = Request::Cancel { id: 1 };
        let room = (0..1_000_000).take_while(|_| link.send(&cancel) == Sent::Yes);
        assert!(room.count() > 0);
        assert_eq!(link.send(&cancel), Sent::Busy);
        assert!(!link.wait(monotonic_ns()), "nothing was said");
        drop(engine);
        assert_eq!(link.send(&cancel), Sent::Gone);
        assert_eq!(link.receive(), Received::Gone);
    }

    #[test]
    fn a_message_with_trailing_bytes_is_invalid() {
        let (link, engine) = pair();
        let welcome = Answer::Welcome {
            version: VERSION,
            limits: Limits::default(),
        };
        let mut bytes = welcome.encode().as_ref().to_vec();
        assert_eq!(bytes.len(), LONGEST);
        send_bytes(&engine, &bytes);
        assert!(link.wait(monotonic_ns()));
        assert_eq!(link.receive(), Received::Answer(welcome));
        bytes.push(0);
        send_bytes(&engine, &bytes);
        assert_eq!(link.receive(), Received::Gone);
    }
}

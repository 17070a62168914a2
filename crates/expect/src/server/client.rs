//! A connection: its socket, who is behind it, and what it has asked for.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{MsgFlags, getsockopt, recv, send};

use super::{Client, Owner, Ticket};
use crate::limits::Window;
use crate::protocol::{Answer, LONGEST, Request};

/// So many unread messages are thrown away before a connection is closed.
const MOST_UNREAD: usize = 256;

/// A client that is connected.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Readable once the process has ended; `None` where the kernel has no such thing, or the
    /// process cannot be seen from here.
    process: Option<OwnedFd>,
    pub owner: Owner,
    pub welcomed: bool,
    /// It sent too fast: it is not read before then, ns of CLOCK_MONOTONIC.
    pub held_until_ns: Option<u64>,
    pub open: Vec<Open>,
    pub accepted: u64,
    pub refused: u64,
    pub asked_ns: u64,
}

/// A request that was accepted.
#[derive(Debug)]
pub(super) struct Open {
    pub id: u64,
    pub window: Window,
    pub ticket: Ticket,
}

/// What is to be read from a client.
#[derive(Debug)]
pub(super) enum Heard {
    Request(Request),
    Nothing,
    Rubbish,
    Gone,
}

impl Connection {
    /// Of an accepted socket; `None` where its process has ended already.
    pub fn new(socket: OwnedFd) -> Option<Self> {
        let peer = getsockopt(&socket, PeerCredentials).ok()?;
        let process = match watch(peer.pid()) {
            Ok(process) => Some(process),
            Err(Errno::ESRCH) => return None,
            Err(_) => None,
        };
        Some(Self {
            socket,
            process,
            owner: Owner {
                pid: peer.pid(),
                uid: peer.uid(),
            },
            welcomed: false,
            held_until_ns: None,
            open: Vec::new(),
            accepted: 0,
            refused: 0,
            asked_ns: 0,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// The next message that is there.
    pub fn hear(&self) -> Heard {
        let mut buffer = [0; LONGEST];
        loop {
            // With MSG_TRUNC the length is the one that the message had. Descriptors that come with
            // it are closed by the kernel, since no room is given for them.
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            return match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                // The end; or an empty message, which is none.
                Ok(0) => Heard::Gone,
                Ok(length) => match buffer.get(..length).map(Request::decode) {
                    Some(Ok(request)) => Heard::Request(request),
                    _ => Heard::Rubbish,
                },
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Heard::Nothing,
                Err(_) => Heard::Gone,
            };
        }
    }

    /// Says it if there is room: whether there was.
    pub fn say(&self, answer: &Answer) -> bool {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        loop {
            match send(self.socket.as_raw_fd(), answer.encode().as_ref(), flags) {
                Err(Errno::EINTR) => {}
                // That it has gone is seen when it is listened to.
                Ok(_) | Err(Errno::EPIPE | Errno::ECONNRESET) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Says a last word. What the client has sent is read first: closed with something unread, the
    /// kernel would tell it of a broken connection instead.
    pub fn say_last(&self, answer: &Answer) {
        let heard = |_: &usize| !matches!(self.hear(), Heard::Nothing | Heard::Gone);
        (0..MOST_UNREAD).take_while(heard).for_each(drop);
        self.say(answer);
    }

    /// As told to who watches.
    pub fn client(&self, now_ns: u64) -> Client {
        let open = self
            .open
            .iter()
            .filter(|open| open.window.left_ns(now_ns) > 0);
        Client {
            owner: self.owner,
            open: open.count() as u32,
            accepted: self.accepted,
            refused: self.refused,
            asked_ns: self.asked_ns,
        }
    }
}

/// A descriptor that is readable once the process has ended (pidfd_open(2)).
fn watch(pid: i32) -> nix::Result<OwnedFd> {
    if pid <= 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the call takes plain values.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = Errno::result(opened)? as i32;
    // SAFETY: the kernel has just opened it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

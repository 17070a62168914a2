//! A connection: its socket, its process, and its requests.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::SndBuf;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};

use super::{Client, Owner, Ticket};
use crate::limits::Window;
use crate::protocol::{Answer, LONGEST, Request};

/// Unread messages that are discarded before a connection is closed.
const MOST_UNREAD: usize = 256;
/// Room for unread answers, bytes; the kernel doubles it, and an answer takes some 800: enough for all
/// requests that a client may have open.
const UNREAD_BYTES: usize = 32 * 1024;

/// Which connection, from 1; used once, so that an event of one that has ended finds no other.
pub(super) type Key = u64;

/// A client that is connected.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Readable once the process has ended; `None` where it cannot be watched.
    process: Option<OwnedFd>,
    pub owner: Owner,
    /// Of the protocol; `None` until its hello.
    pub version: Option<u32>,
    pub open: Vec<Open>,
    pub accepted: u64,
    pub refused: u64,
    pub asked_ns: u64,
}

/// A request that was accepted.
#[derive(Debug)]
pub(super) struct Open {
    pub id: u64,
    pub cpu: u32,
    pub window: Window,
    pub ticket: Ticket,
}

/// What is to be read from a client.
#[derive(Debug)]
pub(super) enum Received {
    Request(Request),
    Nothing,
    Invalid,
    Gone,
}

impl Connection {
    /// Of an accepted socket.
    pub fn new(socket: OwnedFd, process: Option<OwnedFd>, owner: Owner) -> Self {
        // The system's default is larger.
        let _ = setsockopt(&socket, SndBuf, &UNREAD_BYTES);
        Self {
            socket,
            process,
            owner,
            version: None,
            open: Vec::new(),
            accepted: 0,
            refused: 0,
            asked_ns: 0,
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// The next message that is there.
    pub fn receive(&self) -> Received {
        let mut buffer = [0; LONGEST];
        loop {
            // With MSG_TRUNC the result is the message's full length. The kernel closes descriptors that
            // come with it, as there is no room for them.
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            return match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                // The end, or an empty message.
                Ok(0) => Received::Gone,
                Ok(length) => match buffer.get(..length).map(Request::decode) {
                    Some(Ok(request)) => Received::Request(request),
                    _ => Received::Invalid,
                },
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Received::Nothing,
                Err(_) => Received::Gone,
            };
        }
    }

    /// Sends it if there is room; false otherwise.
    pub fn send(&self, answer: &Answer) -> bool {
        send_answer(&self.socket, answer)
    }

    /// Sends a last message. Unread messages are read first: otherwise the client would get a connection
    /// reset instead.
    pub fn send_last(&self, answer: &Answer) {
        let received = |_: &usize| !matches!(self.receive(), Received::Nothing | Received::Gone);
        (0..MOST_UNREAD).take_while(received).for_each(drop);
        self.send(answer);
    }

    /// Removes a request that is over. (A later one on another CPU may have its number.)
    pub fn forget(&mut self, id: u64, cpu: u32) {
        self.open.retain(|open| (open.id, open.cpu) != (id, cpu));
        self.shrink();
    }

    /// Removes requests that are over.
    pub fn forget_past(&mut self, now_ns: u64) {
        self.open.retain(|open| open.window.left_ns(now_ns) > 0);
        self.shrink();
    }

    /// Frees memory after many requests.
    fn shrink(&mut self) {
        if self.open.capacity() > 4 * self.open.len() + 4 {
            self.open.shrink_to_fit();
        }
    }

    /// For the server's owner.
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

/// Sends it if there is room; false otherwise.
pub(super) fn send_answer(socket: &OwnedFd, answer: &Answer) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    loop {
        match send(socket.as_raw_fd(), answer.encode().as_ref(), flags) {
            Err(Errno::EINTR) => {}
            // The end of the connection is handled when it is read.
            Ok(_) | Err(Errno::EPIPE | Errno::ECONNRESET) => return true,
            Err(_) => return false,
        }
    }
}

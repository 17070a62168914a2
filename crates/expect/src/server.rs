//! The engine's side of the socket.
//!
//! [`Server::start`] listens; one thread serves all clients and hands what they ask for to a
//! [`Plan`]. Clients are strangers:
//!
//! - Who they are comes from the kernel (SO_PEERCRED, SO_PEERPIDFD), not from them.
//! - Each process has its [`Limits`]: open requests, messages per second, how long and how far ahead a
//!   window may be, and its share of time awake. They survive a reconnection.
//! - Each user has [`Quotas`] besides, of all its processes together: places, connections and messages
//!   per second, windows and wake-ups of a CPU, time awake, and the server's own time. What is refused
//!   names them.
//! - Some places are root's, and of the others a user gets none that would leave no place to a user with
//!   none yet.
//! - When one ends, its requests end: its connection is closed by the kernel, `kill -9` included. A
//!   child that it left with the connection does not keep them: the process itself is watched, too
//!   (pidfd).
//! - An invalid message, one that may not be sent then, or no hello in time is answered with one error,
//!   and the connection is closed.
//! - Nothing waits for one: sockets do not block, in a turn each is heard a few times, one that sends
//!   faster than it may is not read until it may again, and an answer that does not fit into the
//!   buffer of one that does not read is dropped and counted.
//!
//! While nothing comes the thread sleeps, without a timer.

use std::path::PathBuf;
use std::sync::Arc;

use crate::SOCKET;
use crate::limits::{Limits, Refusal};
use crate::protocol::CloseReason;

mod account;
mod client;
mod listening;
mod peer;
mod serving;
mod socket_file;
mod windows;

pub use listening::Server;

/// The client of a connection, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process that connected; 0 where it is in a process namespace that is not seen from here.
    pub pid: i32,
    /// The process's effective user.
    pub uid: u32,
}

/// What a [`Plan`] gives for a request that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What keeps CPUs awake. It is called from the server's thread and should not wait.
pub trait Plan: Send + Sync + 'static {
    /// `cpu` is to be awake from `at_ns` (CLOCK_MONOTONIC; now or later) on, for `window_ns`, on
    /// behalf of `owner`. The client's own limits have been looked at.
    ///
    /// # Errors
    /// Why not: [`Refusal::Cpu`] for a CPU that is not there or is offline, [`Refusal::Budget`] where
    /// the plan's own budget is used up, [`Refusal::Slots`] where too many windows are open there.
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal>;

    /// The request is not needed any more. Each ticket comes back once at most; that of a window
    /// that is over does not.
    fn cancel(&self, ticket: Ticket);
}

impl<P: Plan + ?Sized> Plan for Arc<P> {
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal> {
        (**self).expect(cpu, at_ns, window_ns, owner)
    }

    fn cancel(&self, ticket: Ticket) {
        (**self).cancel(ticket);
    }
}

/// How a [`Server`] serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens. A folder that is not there is made (mode 0755), and removed in the end.
    pub path: PathBuf,
    /// Of each client.
    pub limits: Limits,
    /// Connections at a time, of all: at most [`MOST_CLIENTS`].
    pub clients: u32,
    /// Time awake that all clients of one user together may ask for in any second, in millionths.
    pub user_awake_ppm: u32,
    /// Of each user.
    pub quotas: Quotas,
}

/// Connections at a time, at most; each takes [`DESCRIPTORS_OF_A_CLIENT`].
pub const MOST_CLIENTS: u32 = 10_000;

/// Descriptors that a connection takes, at most: its socket, its process, its user.
pub const DESCRIPTORS_OF_A_CLIENT: u32 = 3;

/// What one user may use, with all processes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// The user to whom they do not apply: root, who may stop the engine as well.
    pub exempt: Option<u32>,
    /// Connections per second, and as many at once.
    pub connects: u32,
    /// Messages per second.
    pub messages: u32,
    /// Wake-ups that he causes on a CPU in any second: by a request two, that of the CPU's thread and
    /// that of the CPU for the window; by a cancellation while the window lasts one more. Also how
    /// often he wakes the server's thread.
    pub wakeups: u32,
    /// The server's own time in any second, in millionths, for one user.
    pub server_ppm: u32,
    /// The same for all together to whom this applies (one person may be thousands of users:
    /// /etc/subuid).
    pub server_of_users_ppm: u32,
    /// Windows on a CPU at a time, of one user; and not more than half as many as are left.
    pub slots_of_user: u32,
    /// Windows on a CPU at a time, of all users to whom this applies.
    pub slots_of_users: u32,
    /// Windows on a CPU at a time, of all.
    pub slots: u32,
    /// How long after connecting the hello is to come, ns.
    pub hello_ns: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            exempt: Some(0),
            connects: 100,
            messages: 20_000,
            wakeups: 100,
            server_ppm: 50_000,
            server_of_users_ppm: 200_000,
            // Of the 16 that the engine has for a CPU; the last ones are for I/O.
            slots_of_user: 4,
            slots_of_users: 10,
            slots: 12,
            hello_ns: 1_000_000_000,
        }
    }
}

impl Quotas {
    fn bind(&self, uid: u32) -> bool {
        self.exempt != Some(uid)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            path: SOCKET.into(),
            limits: Limits::default(),
            clients: 256,
            user_awake_ppm: 100_000,
            quotas: Quotas::default(),
        }
    }
}

impl Settings {
    /// For an engine that may keep each CPU awake for that share of its time, above 0 and at most 1:
    /// a process may ask for as much, all processes of a user for twice that (they may be on several
    /// CPUs).
    #[must_use]
    pub fn within(mut self, share: f64) -> Self {
        let ppm = |share: f64| (share * 1e6).round().clamp(1.0, 1e6) as u32;
        self.limits.awake_ppm = ppm(share);
        self.user_awake_ppm = ppm(2.0 * share);
        self
    }

    /// What a user's processes may ask for at once: as many times a process's as of a second.
    fn user_burst_ns(&self) -> u64 {
        let awake_ppm = u128::from(self.limits.awake_ppm.max(1));
        let burst_ns =
            u128::from(self.limits.window_ns) * u128::from(self.user_awake_ppm) / awake_ppm;
        u64::try_from(burst_ns).unwrap_or(u64::MAX)
    }
}

/// What a [`Server`] did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that were welcomed.
    pub clients: u64,
    /// Requests that were taken.
    pub accepted: u64,
    /// Cancelled by their clients before their window was over.
    pub cancelled: u64,
    /// Cancelled since their client ended.
    pub orphaned: u64,
    /// Answers that did not fit into the buffer of a client that does not read.
    pub unheard: u64,
    /// How often a client, or all of a user, was not read for a while: it sent too fast.
    pub held_back: u64,
    refused: [u64; Refusal::ALL.len()],
    sent_away: [u64; CloseReason::ALL.len()],
}

impl Counts {
    /// Requests that were refused for that reason, by the server or the plan.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why.index()]
    }

    /// Clients that were disconnected for that reason.
    pub fn sent_away(&self, why: CloseReason) -> u64 {
        self.sent_away[why as usize]
    }
}

/// A client that is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The process that connected.
    pub owner: Owner,
    /// Requests that are open.
    pub open: u32,
    /// Requests that were taken so far.
    pub accepted: u64,
    /// Requests that were refused so far.
    pub refused: u64,
    /// Time awake that was asked for and accepted, without what was cancelled, ns.
    pub asked_ns: u64,
}

/// A user, as far as he is known: at least while he is connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct User {
    /// His number.
    pub uid: u32,
    /// Connections that are open.
    pub connections: u32,
    /// Connections that were refused.
    pub sent_away: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// The server's own time that was spent for him, ns.
    pub server_ns: u64,
    /// How often the server's thread ran for him.
    pub turns: u64,
    /// Wake-ups of CPUs that he was charged.
    pub wakeups: u64,
}

/// What the server's thread saw at one instant.
#[derive(Debug, Default)]
struct Snapshot {
    counts: Counts,
    clients: Vec<Client>,
    users: Vec<User>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_may_ask_for_what_the_engine_may_use() {
        let of = |share| {
            let settings = Settings::default().within(share);
            (settings.limits.awake_ppm, settings.user_awake_ppm)
        };
        assert_eq!(of(0.05), (50_000, 100_000));
        assert_eq!(Settings::default().within(0.05), Settings::default());
        assert_eq!(of(0.001), (1_000, 2_000));
        assert_eq!(of(0.7), (700_000, 1_000_000));
        assert_eq!(of(1.0), (1_000_000, 1_000_000));
    }
}

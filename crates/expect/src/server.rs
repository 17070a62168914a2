//! The engine's side of the socket.
//!
//! [`Server::start`] listens; one thread serves all clients and passes their requests to a [`Plan`].
//! Clients are not trusted:
//!
//! - The kernel identifies them (SO_PEERCRED, SO_PEERPIDFD).
//! - Each process has [`Limits`], which survive a reconnection.
//! - Each user has [`Quotas`] for all its processes together. A refusal names the quota.
//! - Some places are root's, and no user gets a place that would leave none to a user without one.
//! - A client's requests end with its process, which is watched by a pidfd, and with its connection.
//! - An invalid message, one that is not allowed at that point, or a late hello is answered with one
//!   error, and the connection is closed.
//! - The server never waits for a client: sockets do not block, each client is read a few times in a
//!   turn, one that exceeds its rate is not read for a while, and an answer that does not fit into
//!   the client's buffer is dropped and counted.
//!
//! Without messages the thread sleeps, without a timer.

use std::path::PathBuf;
use std::sync::Arc;

use crate::SOCKET;
use crate::limits::{Limits, Refusal};
use crate::protocol::CloseReason;

mod account;
mod client;
mod gate;
mod listening;
mod peer;
mod rate;
mod serving;
mod socket_file;
mod windows;

pub use gate::{Admitted, Allowed, Gate, MOST_AHEAD, Rejected};
pub use listening::Server;
pub use rate::Rate;
pub use socket_file::SocketFile;

/// The client of a connection, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process that connected; 0 for one in a foreign PID namespace.
    pub pid: i32,
    /// The process's effective user.
    pub uid: u32,
}

/// A request that a [`Plan`] accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What keeps CPUs awake. The server's thread calls it; it should not wait.
pub trait Plan: Send + Sync + 'static {
    /// Keeps `cpu` awake from `at_ns` (CLOCK_MONOTONIC; now or later) on, for `window_ns`, on behalf of
    /// `owner`, whose limits the server has checked.
    ///
    /// # Errors
    /// [`Refusal::Cpu`] for a CPU that is missing or offline, [`Refusal::Budget`] if the plan's own
    /// budget is used up, [`Refusal::Slots`] if too many windows are open there.
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal>;

    /// Cancels a request whose window is not over; at most once.
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
    /// Where it listens. Missing folders are created (mode 0755), and removed at the end.
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
    /// The user without quotas: root.
    pub exempt: Option<u32>,
    /// Connections per second, and as many at once.
    pub connects: u32,
    /// Messages per second.
    pub messages: u32,
    /// Wake-ups of a CPU in any second: two for a request (the CPU's thread, and the CPU for the window),
    /// one for a cancellation during the window. Also wake-ups of the server's thread.
    pub wakeups: u32,
    /// The server's own time in any second, in millionths, for one user.
    pub server_ppm: u32,
    /// The same for all users with quotas together (one person may be thousands of users: /etc/subuid).
    pub server_of_users_ppm: u32,
    /// Windows on a CPU at a time, of one user; and at most half as many as are left.
    pub slots_of_user: u32,
    /// Windows on a CPU at a time, of all users with quotas.
    pub slots_of_users: u32,
    /// Windows on a CPU at a time, of all.
    pub slots: u32,
    /// Time for the hello after connecting, ns.
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
    /// For an engine that may keep each CPU awake for that share of its time, above 0 and at most 1: a
    /// process may ask for as much, all processes of a user for twice that.
    #[must_use]
    pub fn within(mut self, share: f64) -> Self {
        let ppm = |share: f64| (share * 1e6).round().clamp(1.0, 1e6) as u32;
        self.limits.awake_ppm = ppm(share);
        self.user_awake_ppm = ppm(2.0 * share);
        self
    }

    /// The burst of a user: in proportion to that of a process.
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
    /// Pauses in reading a client or a user that sent too fast.
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

/// A user, known at least while connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct User {
    /// The user ID.
    pub uid: u32,
    /// Connections that are open.
    pub connections: u32,
    /// Connections that were refused.
    pub sent_away: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// The server's own time for this user, ns.
    pub server_ns: u64,
    /// Runs of the server's thread for this user.
    pub turns: u64,
    /// Wake-ups of CPUs charged to this user.
    pub wakeups: u64,
}

/// The server's state at one instant.
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
    fn clients_may_request_what_the_engine_may_use() {
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

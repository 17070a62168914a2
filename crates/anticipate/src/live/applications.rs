//! What the socket's server did for applications, and for whom.

use std::collections::BTreeMap;

use reveille_expect::Refusal;
use reveille_expect::protocol::CloseReason;
use reveille_expect::server::{self, Server};
use serde::Serialize;

/// Users that are listed: those for whom the server worked longest.
const USERS: usize = 16;

/// The server's counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Applications {
    /// Connected at present.
    pub connected: usize,
    /// Connected so far.
    pub welcomed: u64,
    /// Requests that were accepted.
    pub accepted: u64,
    /// Of these, cancelled by their client.
    pub cancelled: u64,
    /// Of these, cancelled because their client ended.
    pub orphaned: u64,
    /// Answers that a client did not read.
    pub unheard: u64,
    /// Pauses of clients that sent too fast.
    pub held_back: u64,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Connections that the server ended, by reason.
    pub sent_away: BTreeMap<String, u64>,
    /// Those for whom the server worked longest.
    pub users: Vec<User>,
}

/// What the server did for a user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// Connected at present.
    pub connections: u32,
    /// Requests that were refused.
    pub refused: u64,
    /// Connections that the server ended.
    pub sent_away: u64,
    /// The server's own time, s.
    pub server_s: f64,
    /// How often the server's thread ran.
    pub turns: u64,
    /// Wake-ups of CPUs that count against the quota.
    pub wakeups: u64,
}

impl From<server::User> for User {
    fn from(user: server::User) -> Self {
        Self {
            uid: user.uid,
            connections: user.connections,
            refused: user.refused,
            sent_away: user.sent_away,
            server_s: user.server_ns as f64 / 1e9,
            turns: user.turns,
            wakeups: user.wakeups,
        }
    }
}

impl Applications {
    /// What the server has done so far.
    pub fn of(server: &Server) -> Self {
        let counts = server.counts();
        let mut users = server.users();
        users.sort_by_key(|user| std::cmp::Reverse(user.server_ns));
        users.truncate(USERS);
        let refused = Refusal::ALL.map(|why| (format!("{why:?}"), counts.refused(why)));
        let sent_away = CloseReason::ALL.map(|why| (format!("{why:?}"), counts.sent_away(why)));
        let some = |(_, count): &(String, u64)| *count > 0;
        Self {
            connected: server.clients().len(),
            welcomed: counts.clients,
            accepted: counts.accepted,
            cancelled: counts.cancelled,
            orphaned: counts.orphaned,
            unheard: counts.unheard,
            held_back: counts.held_back,
            refused: refused.into_iter().filter(some).collect(),
            sent_away: sent_away.into_iter().filter(some).collect(),
            users: users.into_iter().map(User::from).collect(),
        }
    }
}

//! What the socket's server did for applications, and for whom.

use std::collections::BTreeMap;
use std::io::{self, Write};

use reveille_expect::Refusal;
use reveille_expect::protocol::CloseReason;
use reveille_expect::server::{self, Server};
use serde::Serialize;

/// Users that are shown: those for whom the server worked longest.
const USERS: usize = 16;

/// As JSON.
#[derive(Debug, Serialize)]
pub struct Applications {
    /// Welcomed, at present and so far.
    pub connected: usize,
    pub welcomed: u64,
    /// Requests that were accepted; of them cancelled by the client, and for the client ended.
    pub accepted: u64,
    pub cancelled: u64,
    pub orphaned: u64,
    /// Answers that a client did not read; pauses of clients that sent too fast.
    pub unheard: u64,
    pub held_back: u64,
    /// Requests that were refused and connections that were ended, by reason.
    pub refused: BTreeMap<String, u64>,
    pub sent_away: BTreeMap<String, u64>,
    pub users: Vec<User>,
}

#[derive(Debug, Serialize)]
pub struct User {
    pub uid: u32,
    pub connections: u32,
    pub refused: u64,
    pub sent_away: u64,
    /// The server's own time, and how often its thread ran.
    pub server_s: f64,
    pub turns: u64,
    /// Wake-ups of CPUs that were charged.
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
    pub fn of(server: &Server) -> Self {
        let counts = server.counts();
        let mut users = server.users();
        users.sort_by_key(|user| std::cmp::Reverse(user.server_ns));
        users.truncate(USERS);
        let refused = Refusal::ALL.map(|why| (format!("{why:?}"), counts.refused(why)));
        let sent_away = CloseReason::ALL.map(|why| (format!("{why:?}"), counts.sent_away(why)));
        Self {
            connected: server.clients().len(),
            welcomed: counts.clients,
            accepted: counts.accepted,
            cancelled: counts.cancelled,
            orphaned: counts.orphaned,
            unheard: counts.unheard,
            held_back: counts.held_back,
            refused: some(refused),
            sent_away: some(sent_away),
            users: users.into_iter().map(User::from).collect(),
        }
    }

    /// As text: nothing where nobody came.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.welcomed == 0 && self.sent_away.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\nApplications  {} connected, {} requests accepted",
            self.connected, self.accepted
        )?;
        for (what, counts) in [("refused", &self.refused), ("sent away", &self.sent_away)] {
            if !counts.is_empty() {
                let told: Vec<String> = counts
                    .iter()
                    .map(|(why, count)| format!("{count} {why}"))
                    .collect();
                writeln!(out, "  {what}: {}", told.join(", "))?;
            }
        }
        Ok(())
    }
}

fn some<const N: usize>(counts: [(String, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

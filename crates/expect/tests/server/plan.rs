//! A plan that only records its requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use reveille_expect::Refusal;
use reveille_expect::server::{Owner, Plan, Quotas, Server, Settings, Ticket};
use tempfile::TempDir;

/// CPUs from this one on do not exist.
pub const NO_CPU: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub cpu: u32,
    pub at_ns: u64,
    pub window_ns: u64,
    pub owner: Owner,
}

#[derive(Default)]
pub struct Recording {
    /// A ticket is the index in it.
    pub asked: Mutex<Vec<Asked>>,
    pub cancelled: Mutex<Vec<Ticket>>,
}

impl Plan for Recording {
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> Result<Ticket, Refusal> {
        if cpu >= NO_CPU {
            return Err(Refusal::Cpu);
        }
        let mut asked = self.asked.lock().unwrap();
        asked.push(Asked {
            cpu,
            at_ns,
            window_ns,
            owner,
        });
        Ok(Ticket(asked.len() as u64 - 1))
    }

    fn cancel(&self, ticket: Ticket) {
        self.cancelled.lock().unwrap().push(ticket);
    }
}

impl Recording {
    /// This process's requests and cancellations, in the order of the requests.
    pub fn cancelled_of(&self, pid: u32) -> Vec<Asked> {
        let mut tickets = self.cancelled.lock().unwrap().clone();
        tickets.sort_by_key(|ticket| ticket.0);
        let before = tickets.len();
        tickets.dedup();
        assert_eq!(tickets.len(), before, "a ticket came back twice");
        let asked = self.asked.lock().unwrap();
        let all = tickets.iter().map(|ticket| asked[ticket.0 as usize]);
        all.filter(|asked| asked.owner.pid == pid as i32).collect()
    }
}

/// A server in its own folder.
pub struct Engine {
    pub plan: Arc<Recording>,
    pub server: Server,
    pub path: PathBuf,
    _folder: TempDir,
}

impl Engine {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let plan = Arc::new(Recording::default());
        let mut settings = Settings {
            path: path.clone(),
            ..Settings::default()
        };
        // The user who runs the tests is an ordinary one, with room for these requests.
        settings.quotas = Quotas {
            exempt: None,
            wakeups: 1_000_000,
            slots_of_user: 1_000,
            slots_of_users: 1_000,
            slots: 1_000,
            server_ppm: 1_000_000,
            ..settings.quotas
        };
        change(&mut settings);
        let server = Server::start(&settings, plan.clone()).unwrap();
        Self {
            plan,
            server,
            path,
            _folder: folder,
        }
    }
}

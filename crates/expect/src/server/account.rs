//! What processes and users have used, kept beyond their connections.

use std::collections::HashMap;

use super::{Owner, Settings};
use crate::budget::{Budget, Rate};
use crate::limits::{Refusal, Window};

/// A burst is the messages of a tenth of a second.
const BURSTS_PER_SECOND: u32 = 10;

/// Budgets of processes and users. One that is as new is forgotten once nobody is connected for it.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    processes: HashMap<Owner, Process>,
    users: HashMap<u32, User>,
}

#[derive(Debug)]
struct Process {
    budget: Budget,
    messages: Rate,
    connections: u32,
}

#[derive(Debug)]
struct User {
    budget: Budget,
    connections: u32,
}

impl Accounts {
    /// One more connection: false where the user has as many as may be.
    pub fn open(&mut self, settings: &Settings, owner: Owner, now_ns: u64) -> bool {
        self.forget(now_ns);
        let limits = &settings.limits;
        let user = self.users.entry(owner.uid).or_insert_with(|| User {
            budget: Budget::new(settings.user_awake_ppm, settings.user_burst_ns(), now_ns),
            connections: 0,
        });
        if user.connections >= settings.clients_of_user {
            return false;
        }
        user.connections += 1;
        let per_second = limits.messages_per_second;
        let process = self.processes.entry(owner).or_insert_with(|| Process {
            budget: Budget::new(limits.awake_ppm, limits.window_ns, now_ns),
            messages: Rate::new(per_second, per_second / BURSTS_PER_SECOND, now_ns),
            connections: 0,
        });
        process.connections += 1;
        true
    }

    /// One connection less.
    pub fn close(&mut self, owner: Owner) {
        if let Some(process) = self.processes.get_mut(&owner) {
            process.connections = process.connections.saturating_sub(1);
        }
        if let Some(user) = self.users.get_mut(&owner.uid) {
            user.connections = user.connections.saturating_sub(1);
        }
    }

    /// May it send one more message? If not, when.
    pub fn message(&mut self, owner: Owner, now_ns: u64) -> Result<(), u64> {
        match self.processes.get_mut(&owner) {
            Some(process) => process.messages.take(now_ns),
            None => Ok(()),
        }
    }

    /// It had none to send.
    pub fn no_message(&mut self, owner: Owner) {
        if let Some(process) = self.processes.get_mut(&owner) {
            process.messages.put_back();
        }
    }

    /// Takes the time of a window from the process's budget and the user's.
    pub fn take(&mut self, owner: Owner, now_ns: u64, window: Window) -> Result<(), Refusal> {
        let process = self.processes.get_mut(&owner).ok_or(Refusal::Budget)?;
        let user = self.users.get_mut(&owner.uid).ok_or(Refusal::Budget)?;
        if !process.budget.allows(now_ns, window) || !user.budget.allows(now_ns, window) {
            return Err(Refusal::Budget);
        }
        process.budget.take(window);
        user.budget.take(window);
        Ok(())
    }

    /// Gives back what is left of a window.
    pub fn give_back(&mut self, owner: Owner, now_ns: u64, window: Window) {
        if let Some(process) = self.processes.get_mut(&owner) {
            process.budget.give_back(now_ns, window);
        }
        if let Some(user) = self.users.get_mut(&owner.uid) {
            user.budget.give_back(now_ns, window);
        }
    }

    fn forget(&mut self, now_ns: u64) {
        self.processes.retain(|_, process| {
            let as_new = process.budget.is_full(now_ns) && process.messages.is_full(now_ns);
            process.connections > 0 || !as_new
        });
        self.users
            .retain(|_, user| user.connections > 0 || !user.budget.is_full(now_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn owner(pid: i32, uid: u32) -> Owner {
        Owner { pid, uid }
    }

    fn window(at_ns: u64) -> Window {
        Window {
            at_ns,
            length_ns: 10 * MS,
        }
    }

    #[test]
    fn a_new_connection_brings_no_new_budget() {
        let (mut accounts, settings) = (Accounts::default(), Settings::default());
        let one = owner(1, 1000);
        assert!(accounts.open(&settings, one, 0));
        assert_eq!(accounts.take(one, 0, window(0)), Ok(()));
        assert!(accounts.open(&settings, one, 0));
        assert_eq!(accounts.take(one, 0, window(0)), Err(Refusal::Budget));
        accounts.close(one);
        accounts.close(one);
        assert!(accounts.open(&settings, one, MS));
        assert_eq!(accounts.take(one, MS, window(MS)), Err(Refusal::Budget));
    }

    #[test]
    fn a_users_processes_have_a_budget_together_and_other_users_their_own() {
        let (mut accounts, settings) = (Accounts::default(), Settings::default());
        let mut asked = |pid, uid| {
            assert!(accounts.open(&settings, owner(pid, uid), 0));
            accounts.take(owner(pid, uid), 0, window(0))
        };
        // Twice what one process has.
        assert_eq!(asked(1, 1000), Ok(()));
        assert_eq!(asked(2, 1000), Ok(()));
        assert_eq!(asked(3, 1000), Err(Refusal::Budget));
        assert_eq!(asked(4, 1001), Ok(()));
    }

    #[test]
    fn a_user_has_so_many_connections_and_no_more() {
        let settings = Settings {
            clients_of_user: 2,
            ..Settings::default()
        };
        let mut accounts = Accounts::default();
        assert!(accounts.open(&settings, owner(1, 1000), 0));
        assert!(accounts.open(&settings, owner(2, 1000), 0));
        assert!(!accounts.open(&settings, owner(3, 1000), 0));
        assert!(accounts.open(&settings, owner(4, 1001), 0));
        accounts.close(owner(1, 1000));
        assert!(accounts.open(&settings, owner(3, 1000), 0));
    }

    #[test]
    fn what_is_as_new_is_forgotten() {
        let (mut accounts, settings) = (Accounts::default(), Settings::default());
        for pid in 0..100 {
            let one = owner(pid, 1000);
            assert!(accounts.open(&settings, one, 0));
            accounts.close(one);
        }
        assert!(accounts.open(&settings, owner(100, 1001), MS));
        assert_eq!((accounts.processes.len(), accounts.users.len()), (1, 1));
    }
}

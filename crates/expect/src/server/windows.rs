//! The open windows of each CPU: its plan has few slots, and no user may take all.

use std::collections::{BTreeMap, HashMap};

use super::client::{Connection, Key};
use super::{Owner, Quotas};
use crate::limits::Refusal;

/// By CPU. Windows that are over are removed when the next one is requested; so there are never more than
/// [`Quotas::slots`] per CPU.
#[derive(Debug, Default)]
pub(super) struct Windows {
    cpus: HashMap<u32, Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    uid: u32,
    connection: Key,
    id: u64,
    end_ns: u64,
}

impl Windows {
    /// Checks for room for one more window of that user; removes windows that are over.
    pub fn room(
        &mut self,
        cpu: u32,
        owner: Owner,
        quotas: &Quotas,
        now_ns: u64,
        connections: &mut BTreeMap<Key, Connection>,
    ) -> Result<(), Refusal> {
        let Some(slots) = self.cpus.get_mut(&cpu) else {
            return Ok(());
        };
        slots.retain(|slot| {
            let open = slot.end_ns > now_ns;
            if !open && let Some(connection) = connections.get_mut(&slot.connection) {
                connection.forget(slot.id, cpu);
            }
            open
        });
        let of = |wanted: &dyn Fn(u32) -> bool| {
            slots.iter().filter(|slot| wanted(slot.uid)).count() as u32
        };
        // A user has at most half as many as are left, so that one is left for the next user.
        let left = (quotas.slots_of_users).saturating_sub(of(&|uid| quotas.bind(uid)));
        let has = of(&|uid| uid == owner.uid);
        let full = left == 0 || has >= quotas.slots_of_user || has > 0 && 2 * has >= left;
        match quotas.bind(owner.uid) && full || of(&|_| true) >= quotas.slots {
            true => Err(Refusal::Slots),
            false => Ok(()),
        }
    }

    /// Adds a window. (The plan has checked the CPU's number.)
    pub fn open(&mut self, cpu: u32, owner: Owner, connection: Key, id: u64, end_ns: u64) {
        let slot = Slot {
            uid: owner.uid,
            connection,
            id,
            end_ns,
        };
        self.cpus.entry(cpu).or_default().push(slot);
    }

    /// Removes a cancelled window.
    pub fn close(&mut self, cpu: u32, connection: Key, id: u64) {
        if let Some(slots) = self.cpus.get_mut(&cpu) {
            slots.retain(|slot| (slot.connection, slot.id) != (connection, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_some_users_hold_the_next_user_and_root_get_windows() {
        let (mut windows, mut none) = (Windows::default(), BTreeMap::new());
        let quotas = Quotas::default();
        let mut take = |uid, now_ns| {
            let owner = Owner { pid: 1, uid };
            let room = |windows: &mut Windows, none: &mut BTreeMap<_, _>| {
                windows.room(0, owner, &quotas, now_ns, none).is_ok()
            };
            let mut opened = 0;
            while room(&mut windows, &mut none) {
                windows.open(0, owner, 0, opened, now_ns + 1_000);
                opened += 1;
            }
            opened
        };
        assert_eq!(
            [1000, 1001, 1002, 1003].map(|uid| take(uid, 0)),
            [4, 2, 2, 1]
        );
        // The engine has four more, for I/O.
        assert_eq!(take(0, 0), 3);
        assert_eq!(take(0, 999), 0);
        assert_eq!(take(1001, 1_000), 4, "those that were there are over");
    }
}

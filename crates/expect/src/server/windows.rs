//! The windows that are open on each CPU: its plan has a few places, and nobody is to take them all.

use std::collections::HashMap;

use super::places::{Key, Places};
use super::{Owner, Quotas};
use crate::limits::Refusal;

/// By CPU. A window that is over is forgotten when the next one is wanted there; so there are never
/// more than [`Quotas::slots`] a CPU.
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
    /// Is there room for one more window of that user? What is over is taken from its connection.
    pub fn room(
        &mut self,
        cpu: u32,
        owner: Owner,
        quotas: &Quotas,
        now_ns: u64,
        connections: &mut Places,
    ) -> Result<(), Refusal> {
        let Some(slots) = self.cpus.get_mut(&cpu) else {
            return Ok(());
        };
        slots.retain(|slot| {
            let open = slot.end_ns > now_ns;
            if !open && let Some(connection) = connections.get(slot.connection) {
                connection.forget(slot.id);
            }
            open
        });
        let of = |wanted: &dyn Fn(u32) -> bool| {
            slots.iter().filter(|slot| wanted(slot.uid)).count() as u32
        };
        let full = of(&|_| true) >= quotas.slots
            || quotas.bind(owner.uid)
                && (of(&|uid| uid == owner.uid) >= quotas.slots_of_user
                    || of(&|uid| quotas.bind(uid)) >= quotas.slots_of_users);
        match full {
            true => Err(Refusal::Slots),
            false => Ok(()),
        }
    }

    /// It is open now. (The plan knows that CPU, so there are not more of them than CPUs.)
    pub fn open(&mut self, cpu: u32, owner: Owner, connection: Key, id: u64, end_ns: u64) {
        let slot = Slot {
            uid: owner.uid,
            connection,
            id,
            end_ns,
        };
        self.cpus.entry(cpu).or_default().push(slot);
    }

    /// It was cancelled.
    pub fn close(&mut self, cpu: u32, connection: Key, id: u64) {
        if let Some(slots) = self.cpus.get_mut(&cpu) {
            slots.retain(|slot| (slot.connection, slot.id) != (connection, id));
        }
    }
}

//! Names that many calls share, each kept once.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::cycle::Name;

/// A name's number among those of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(u32);

#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<Vec<u8>, Id>,
    names: Vec<Name>,
}

impl Names {
    /// Bytes that are no UTF-8 become U+FFFD; names that differ in such only stay apart.
    pub(super) fn id(&mut self, bytes: &[u8]) -> Id {
        *self.ids.entry_ref(bytes).or_insert_with(|| {
            self.names.push(Arc::from(String::from_utf8_lossy(bytes)));
            Id(self.names.len() as u32 - 1)
        })
    }

    pub(super) fn known(&self, bytes: &[u8]) -> Option<Id> {
        self.ids.get(bytes).copied()
    }

    pub(super) fn name(&mut self, bytes: &[u8]) -> Name {
        let id = self.id(bytes);
        self.names[id.0 as usize].clone()
    }
}

//! Names that many calls share, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cycle::Name;

/// A name's number among those of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(u32);

#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<Box<[u8]>, Id>,
    names: Vec<Name>,
}

impl Names {
    /// Bytes that are no UTF-8 become U+FFFD; names that differ in such only stay apart.
    pub(super) fn id(&mut self, bytes: &[u8]) -> Id {
        if let Some(&id) = self.ids.get(bytes) {
            return id;
        }
        let id = Id(self.names.len() as u32);
        self.names.push(Arc::from(String::from_utf8_lossy(bytes)));
        self.ids.insert(bytes.into(), id);
        id
    }

    pub(super) fn known(&self, bytes: &[u8]) -> Option<Id> {
        self.ids.get(bytes).copied()
    }

    pub(super) fn name(&mut self, bytes: &[u8]) -> Name {
        let id = self.id(bytes);
        self.names[id.0 as usize].clone()
    }
}

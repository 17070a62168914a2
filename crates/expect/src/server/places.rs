//! Connections, each by a key that no other one has.

use super::client::Connection;

/// The place in the list, and the how many-th connection it is (of 2^31): an event that was meant for
/// one that has gone does not find its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    count: u32,
    place: u32,
}

const COUNTS: u32 = 1 << 31;

impl Key {
    /// In 63 bits.
    pub fn number(self) -> u64 {
        u64::from(self.count) << 32 | u64::from(self.place)
    }

    /// What [`Key::number`] gave.
    pub fn of(number: u64) -> Self {
        Self {
            count: (number >> 32) as u32,
            place: number as u32,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Option<(Key, Connection)>>,
    free: Vec<u32>,
    count: u32,
}

impl Places {
    pub fn insert(&mut self, connection: Connection) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.count = (self.count + 1) % COUNTS;
        let key = Key {
            count: self.count,
            place,
        };
        self.places[place as usize] = Some((key, connection));
        key
    }

    pub fn get(&mut self, key: Key) -> Option<&mut Connection> {
        match self.places.get_mut(key.place as usize)? {
            Some((there, connection)) if *there == key => Some(connection),
            _ => None,
        }
    }

    pub fn remove(&mut self, key: Key) -> Option<Connection> {
        self.get(key)?;
        self.free.push(key.place);
        let (_, connection) = self.places[key.place as usize].take()?;
        Some(connection)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Connection)> {
        self.places.iter().flatten().map(|(key, one)| (*key, one))
    }
}

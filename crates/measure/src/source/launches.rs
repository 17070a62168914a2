//! What is known of the latest launches, of sources that alone know their times.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::source::event_source::Launch;

/// More than are on their way between two looks at the events, at 2000 a second.
const KEPT: usize = 8192;

/// Launch times, by the launch's number, in the order of the launches.
#[derive(Debug, Default)]
pub struct Launches(VecDeque<(u32, Launch)>);

impl Launches {
    pub fn add(&mut self, number: u32, launch: Launch) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((number, launch));
    }

    /// That of the number, if it is known by now. Events come in the same order: those before it are forgotten.
    pub fn take(&mut self, number: u32) -> Option<Launch> {
        let place = self.0.iter().position(|(known, _)| *known == number)?;
        self.0.drain(..=place).next_back().map(|(_, launch)| launch)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a source's thread and the reader share; after the thread's panic, too, for what is switched off then.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Launch = Launch::Dropped("a");
    const B: Launch = Launch::Dropped("b");

    #[test]
    fn a_launch_is_taken_once_and_those_before_it_are_forgotten() {
        let mut launches = Launches::default();
        launches.add(1, A);
        launches.add(2, B);
        assert_eq!(launches.take(3), None);
        assert_eq!(launches.take(2), Some(B));
        assert_eq!(launches.take(2), None);
        assert_eq!(launches.take(1), None);
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut launches = Launches::default();
        (0..=KEPT as u32).for_each(|number| launches.add(number, A));
        assert_eq!(launches.0.len(), KEPT);
        assert_eq!(launches.take(0), None);
        assert_eq!(launches.take(1), Some(A));
    }
}

//! Holds: latency bounds that programs ask for while they run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::judge::Judged;

/// Of one user, at a time.
pub const MOST_OF_USER: usize = 16;
/// Of all users, at a time.
pub const MOST: usize = 1024;
/// Letters of a reason; a longer one is cut.
pub const REASON_MAX: usize = 120;

/// What a program asks for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who asks.
    pub owner: Owner,
    /// What for, in the program's words; in a hold short, and without control characters.
    pub reason: String,
    /// The longest wake latency, µs.
    pub latency_us: u32,
    /// On these CPUs, ascending; `None`: all.
    pub cpus: Option<Vec<u32>>,
}

/// A hold.
#[derive(Debug, Clone)]
pub struct Hold {
    /// What was asked for.
    pub asked: Asked,
    /// What that means on this machine.
    pub judged: Judged,
    /// Since when.
    pub since: Instant,
}

/// The program that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its user.
    pub uid: u32,
    /// Its process; 0 if unknown.
    pub pid: u32,
    /// Its name on the bus, or the process's name.
    pub name: String,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub struct Holds {
    holds: BTreeMap<u64, Arc<Hold>>,
    last: u64,
}

/// Why a hold is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// By [`MOST_OF_USER`].
    #[error("this user has {MOST_OF_USER} holds, which is the maximum")]
    OfUser,
    /// By [`MOST`].
    #[error("there are {MOST} holds, which is the maximum")]
    All,
}

impl Holds {
    /// Adds a hold; its number, which no other gets. One that is refused is not judged.
    ///
    /// # Errors
    /// Where its user, or all users, have too many.
    pub fn add(
        &mut self,
        mut asked: Asked,
        judge: impl FnOnce(&Asked) -> Judged,
    ) -> Result<u64, Refused> {
        let of_user = self.holds.values();
        let of_user = of_user.filter(|other| other.asked.owner.uid == asked.owner.uid);
        // Root's are the machine's own.
        if asked.owner.uid != 0 && of_user.count() >= MOST_OF_USER {
            return Err(Refused::OfUser);
        }
        if self.holds.len() >= MOST {
            return Err(Refused::All);
        }
        let reason = asked.reason.chars().take(REASON_MAX);
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        asked.reason = reason.map(plain).collect();
        self.last += 1;
        let hold = Hold {
            judged: judge(&asked),
            asked,
            since: Instant::now(),
        };
        self.holds.insert(self.last, Arc::new(hold));
        Ok(self.last)
    }

    /// Ends a hold; false if there is none of that number.
    pub fn remove(&mut self, number: u64) -> bool {
        self.holds.remove(&number).is_some()
    }

    /// With their numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Arc<Hold>)> {
        self.holds.iter().map(|(number, hold)| (*number, hold))
    }

    /// Judges all of them anew.
    pub fn judge(&mut self, judge: impl Fn(&Asked) -> Judged) {
        for hold in self.holds.values_mut() {
            let judged = judge(&hold.asked);
            Arc::make_mut(hold).judged = judged;
        }
    }

    /// The tightest bound of the holds on that CPU, µs.
    pub fn bound_us(&self, cpu: u32) -> Option<u32> {
        let bounds = self.holds.values();
        bounds.filter_map(|hold| hold.judged.bound_us(cpu)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uid: u32) -> Asked {
        Asked {
            owner: Owner {
                uid,
                pid: 7,
                name: ":1.7".into(),
            },
            reason: "au\u{1b}dio".repeat(100),
            latency_us: 50,
            cpus: None,
        }
    }

    /// Adds one of that user.
    fn add(holds: &mut Holds, uid: u32) -> Result<u64, Refused> {
        holds.add(asked(uid), |_| Judged::default())
    }

    #[test]
    fn one_user_cannot_take_the_places_of_others() {
        let mut holds = Holds::default();
        for _ in 0..MOST_OF_USER {
            add(&mut holds, 1000).unwrap();
        }
        assert_eq!(add(&mut holds, 1000), Err(Refused::OfUser));
        let other = add(&mut holds, 1001).unwrap();
        assert!(holds.remove(other) && !holds.remove(other));
    }

    #[test]
    fn all_together_are_bounded_and_numbers_are_not_used_again() {
        let mut holds = Holds::default();
        for _ in 0..MOST {
            add(&mut holds, 0).unwrap();
        }
        assert_eq!(add(&mut holds, 0), Err(Refused::All));
        assert!(holds.remove(1));
        assert_eq!(add(&mut holds, 0), Ok(MOST as u64 + 1));
    }

    #[test]
    fn a_hold_that_is_refused_is_not_judged() {
        let mut holds = Holds::default();
        let mut judged = 0;
        let mut count = |_: &Asked| {
            judged += 1;
            Judged::default()
        };
        for _ in 0..3 * MOST_OF_USER {
            let _ = holds.add(asked(1000), &mut count);
        }
        assert_eq!(judged, MOST_OF_USER);
    }

    #[test]
    fn a_reason_is_short_and_plain() {
        let mut holds = Holds::default();
        add(&mut holds, 0).unwrap();
        let (_, hold) = holds.iter().next().unwrap();
        assert!(!hold.asked.reason.contains(char::is_control));
        assert_eq!(hold.asked.reason.chars().count(), REASON_MAX);
    }
}

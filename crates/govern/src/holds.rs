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
    /// Adds a hold; its number, which no other gets.
    ///
    /// # Errors
    /// Where its user, or all users, have too many.
    pub fn add(&mut self, mut hold: Hold) -> Result<u64, Refused> {
        let of_user = self.holds.values();
        let of_user = of_user.filter(|other| other.asked.owner.uid == hold.asked.owner.uid);
        // Root's are the machine's own.
        if hold.asked.owner.uid != 0 && of_user.count() >= MOST_OF_USER {
            return Err(Refused::OfUser);
        }
        if self.holds.len() >= MOST {
            return Err(Refused::All);
        }
        let reason = hold.asked.reason.chars().take(REASON_MAX);
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        hold.asked.reason = reason.map(plain).collect();
        self.last += 1;
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

    fn hold(uid: u32) -> Hold {
        Hold {
            asked: Asked {
                owner: Owner {
                    uid,
                    pid: 7,
                    name: ":1.7".into(),
                },
                reason: "au\u{1b}dio".repeat(100),
                latency_us: 50,
                cpus: None,
            },
            judged: Judged::default(),
            since: Instant::now(),
        }
    }

    #[test]
    fn one_user_cannot_take_the_places_of_others() {
        let mut holds = Holds::default();
        for _ in 0..MOST_OF_USER {
            holds.add(hold(1000)).unwrap();
        }
        assert_eq!(holds.add(hold(1000)), Err(Refused::OfUser));
        let other = holds.add(hold(1001)).unwrap();
        assert!(holds.remove(other) && !holds.remove(other));
    }

    #[test]
    fn all_together_are_bounded_and_numbers_are_not_used_again() {
        let mut holds = Holds::default();
        for _ in 0..MOST {
            holds.add(hold(0)).unwrap();
        }
        assert_eq!(holds.add(hold(0)), Err(Refused::All));
        assert!(holds.remove(1));
        assert_eq!(holds.add(hold(0)), Ok(MOST as u64 + 1));
    }

    #[test]
    fn a_reason_is_short_and_plain() {
        let mut holds = Holds::default();
        holds.add(hold(0)).unwrap();
        let (_, hold) = holds.iter().next().unwrap();
        assert!(!hold.asked.reason.contains(char::is_control));
        assert_eq!(hold.asked.reason.chars().count(), REASON_MAX);
    }
}

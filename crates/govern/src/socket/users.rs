//! Who waits for an answer, user by user: one who asks all the time waits longer for the next, and nobody else does.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A user's answers take one of so many parts of the time: 5 % of a CPU.
const PARTS: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Clients of a user that wait, at a time; with a descriptor each.
const MOST_OF_USER: usize = 16;
/// Users that are known at a time; those who wait for nothing are forgotten.
const MOST: usize = 64;

/// All users, and the clients of each that wait.
pub struct Users<T>(HashMap<u32, User<T>>);

struct User<T> {
    waiting: Vec<T>,
    /// Until then it gets no answer.
    rests_until: Instant,
}

impl<T> Users<T> {
    /// Nobody yet.
    pub fn new() -> Self {
        Self(HashMap::new())
    }

    /// A client of that user comes; one too many is dropped. Root always has a place: a user may have many numbers.
    pub fn come(&mut self, uid: u32, client: T, now: Instant) {
        if self.0.len() >= MOST {
            self.0
                .retain(|_, user| !user.waiting.is_empty() || user.rests_until > now);
        }
        if self.0.len() >= MOST && uid != 0 && !self.0.contains_key(&uid) {
            return;
        }
        let user = self.0.entry(uid).or_insert_with(|| User {
            waiting: Vec::new(),
            rests_until: now,
        });
        if user.waiting.len() < MOST_OF_USER {
            user.waiting.push(client);
        }
    }

    /// When the next answer is due; `None`: nobody waits.
    pub fn next(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|user| !user.waiting.is_empty());
        waiting.map(|user| user.rests_until).min()
    }

    /// The clients whose answer is due, all of their users'.
    pub fn due(&mut self, now: Instant) -> Vec<(u32, T)> {
        let due = self
            .0
            .iter_mut()
            .filter(|(_, user)| user.rests_until <= now);
        let due = due.flat_map(|(uid, user)| user.waiting.drain(..).map(|one| (*uid, one)));
        due.collect()
    }

    /// These users have an answer, which took that long to make.
    pub fn answered(&mut self, uids: impl Iterator<Item = u32>, took: Duration, now: Instant) {
        let pause = took.saturating_mul(PARTS - 1).clamp(PAUSE_MIN, PAUSE_MAX);
        for uid in uids {
            if let Some(user) = self.0.get_mut(&uid) {
                user.rests_until = now + pause;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_all_the_time_waits_and_others_are_answered_at_once() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut users = Users::new();
        let mut answers = 0;
        for ms in 0..1000 {
            (0..50).for_each(|_| users.come(1000, (), at(ms)));
            let due = users.due(at(ms));
            assert!(due.len() <= MOST_OF_USER);
            if !due.is_empty() {
                answers += 1;
                let uids = due.iter().map(|(uid, ())| *uid);
                users.answered(uids, Duration::from_millis(5), at(ms));
            }
        }
        // 19 times 5 ms from one to the next.
        assert_eq!(answers, 11);
        users.come(1001, (), at(1000));
        assert_eq!(users.next(), Some(at(1000)));
        assert_eq!(users.due(at(1000)), [(1001, ())]);
        // Whoever waited has its answer in the end.
        assert_eq!(users.due(at(1100)).len(), MOST_OF_USER);
        assert_eq!(users.next(), None);
    }

    #[test]
    fn thousands_of_users_take_a_bounded_number_of_places() {
        let start = Instant::now();
        let mut users = Users::new();
        (1..10_000).for_each(|uid| users.come(uid, (), start));
        users.come(0, (), start);
        let due = users.due(start);
        assert_eq!(due.len(), MOST + 1);
        assert!(due.contains(&(0, ())));
        users.answered(0..10_000, Duration::ZERO, start);
        let later = start + PAUSE_MIN;
        users.come(20_000, (), later);
        assert_eq!(users.due(later), [(20_000, ())]);
    }
}

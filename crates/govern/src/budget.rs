//! CPU time that others may have the service take: a small part of the time, and at once what was saved of it.

use std::time::{Duration, Instant};

/// What can be saved, in CPU time. The metrics of 512 CPUs take a quarter.
const SAVED_MAX: Duration = Duration::from_secs(1);
/// Half of the time for which Prometheus waits by default.
const REST_MAX: Duration = Duration::from_secs(5);

/// What may be taken.
#[derive(Debug)]
pub struct Budget {
    /// One of so many parts of the time is theirs.
    parts: u32,
    saved: Duration,
    /// From then on more is saved.
    since: Instant,
}

impl Budget {
    /// One of so many parts of the time, with all that can be saved of it.
    pub fn full(parts: u32, now: Instant) -> Self {
        Self {
            parts,
            saved: SAVED_MAX,
            since: now,
        }
    }

    /// Pays for what was taken, and says for how long to rest where the savings are not enough.
    pub fn pay(&mut self, took: Duration, now: Instant) -> Duration {
        let more = now.saturating_duration_since(self.since) / self.parts;
        let saved = (self.saved + more).min(SAVED_MAX);
        let rest = (took.saturating_sub(saved) * self.parts).min(REST_MAX);
        self.saved = saved.saturating_sub(took);
        self.since = now + rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_pays_a_long_text_at_once_and_in_the_long_run_5_percent_are_taken() {
        let mut now = Instant::now();
        let mut budget = Budget::full(20, now);
        let quarter = Duration::from_millis(250);
        // 512 CPUs, every 5 s: no scrape waits.
        for _ in 0..100 {
            assert_eq!(budget.pay(quarter, now), Duration::ZERO);
            now += Duration::from_secs(5);
        }
        // One after the other: what was saved is soon taken, and then each has to be earned.
        let (begin, mut taken) = (now, Duration::ZERO);
        for _ in 0..100 {
            now += quarter + budget.pay(quarter, now);
            taken += quarter;
        }
        let share = (taken - SAVED_MAX).as_secs_f64() / (now - begin).as_secs_f64();
        assert!((0.045..0.0526).contains(&share), "{share}");
        // A pause longer than the savings are large adds nothing.
        now += Duration::from_secs(3600);
        assert_eq!(budget.pay(SAVED_MAX, now), Duration::ZERO);
        assert_eq!(budget.pay(quarter, now), 20 * quarter);
        assert_eq!(budget.pay(Duration::from_secs(60), now), REST_MAX);
    }
}

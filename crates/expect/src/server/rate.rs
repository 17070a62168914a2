//! How many events a client may cause in a second.

use crate::budget::LONGEST_WAIT_NS;

/// A rate limit of events: a token bucket, which may be in debt.
#[derive(Debug)]
pub struct Rate {
    per_second: u64,
    /// Billionths of an event.
    capacity: i64,
    level: i64,
    settled_ns: u64,
}

/// Parts of an event: each ns adds as many as events per second are allowed.
const BILLION: i64 = 1_000_000_000;

impl Rate {
    /// `per_second` (at least 1), and `burst` more at once.
    pub fn new(per_second: u32, burst: u32, now_ns: u64) -> Self {
        let capacity = i64::from(burst.max(1)) * BILLION;
        Self {
            per_second: u64::from(per_second.max(1)),
            capacity,
            level: capacity,
            settled_ns: now_ns,
        }
    }

    /// At most `in_a_second` in any second, a quarter of them at once.
    pub fn at_most(in_a_second: u32, now_ns: u64) -> Self {
        let burst = in_a_second / 4;
        Self::new(in_a_second - burst, burst, now_ns)
    }

    /// Whether an event is allowed; if not, when it will be, ns of CLOCK_MONOTONIC.
    pub fn ready(&mut self, now_ns: u64) -> Result<(), u64> {
        self.has(now_ns, 1)
    }

    /// As [`Rate::ready`], for several; if they exceed the capacity, a full bucket suffices.
    pub fn has(&mut self, now_ns: u64, things: u32) -> Result<(), u64> {
        self.settle(now_ns);
        let wanted = (i64::from(things) * BILLION).min(self.capacity);
        match u64::try_from(wanted.saturating_sub(self.level)) {
            Ok(missing @ 1..) => Err(now_ns + missing.div_ceil(self.per_second)),
            _ => Ok(()),
        }
    }

    /// As [`Rate::ready`], and charges the event if it is allowed.
    pub fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        self.ready(now_ns)?;
        self.charge(now_ns, 1);
        Ok(())
    }

    /// Charges events, into debt if necessary.
    pub fn charge(&mut self, now_ns: u64, things: u64) {
        self.settle(now_ns);
        let things = i64::try_from(things).unwrap_or(i64::MAX);
        self.level = self.level.saturating_sub(things.saturating_mul(BILLION));
    }

    /// Returns one event that was not needed.
    pub fn put_back(&mut self) {
        self.level = self.level.saturating_add(BILLION).min(self.capacity);
    }

    /// Whether it equals a new one.
    pub fn is_full(&mut self, now_ns: u64) -> bool {
        self.settle(now_ns);
        self.level == self.capacity
    }

    fn settle(&mut self, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.settled_ns).min(LONGEST_WAIT_NS);
        let brought = i64::try_from(waited_ns.saturating_mul(self.per_second)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(brought).min(self.capacity);
        self.settled_ns = self.settled_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_rate_gives_the_next_allowed_instant() {
        let mut rate = Rate::new(1_000, 2, 0);
        assert_eq!(rate.take(0), Ok(()));
        assert_eq!(rate.take(0), Ok(()));
        assert_eq!(rate.take(0), Err(MS));
        assert_eq!(rate.take(MS - 1), Err(MS));
        assert_eq!(rate.take(MS), Ok(()));
        rate.put_back();
        assert_eq!(rate.take(MS), Ok(()));
        assert!(!rate.is_full(2 * MS));
        assert!(rate.is_full(3 * MS));
        assert_eq!(rate.take(100 * SECOND), Ok(()));
    }

    #[test]
    fn a_rate_in_debt_waits_until_the_debt_is_paid() {
        let mut rate = Rate::new(1_000, 2, 0);
        rate.charge(0, 12);
        assert_eq!(rate.ready(0), Err(11 * MS));
        assert_eq!(rate.take(11 * MS), Ok(()));
        assert_eq!(rate.take(11 * MS), Err(12 * MS));
        assert_eq!(rate.has(12 * MS, 2), Err(13 * MS));
        // More than can ever fit.
        assert_eq!(rate.has(13 * MS, 5), Ok(()));
        rate.charge(13 * MS, u64::MAX);
        assert!(rate.ready(14 * MS).is_err());
    }

    #[test]
    fn no_second_exceeds_the_burst_limit() {
        let mut rate = Rate::at_most(100, 0);
        let taken = (0..10_000).filter(|ms| rate.take(ms * MS).is_ok());
        let taken: Vec<u64> = taken.collect();
        for (n, first) in taken.iter().enumerate() {
            let within = taken[n..].iter().take_while(|ms| **ms < first + 1_000);
            assert!(within.count() <= 100);
        }
        assert!(taken.len() >= 750, "{}", taken.len());
    }
}

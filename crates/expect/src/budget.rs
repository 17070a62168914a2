//! How much time awake a client may ask for: a token bucket, settled when the time is used.
//!
//! A request may be for a window ten seconds from now. Charging it when it is *made* would let a client
//! save up for ten seconds and then keep a CPU awake for half of one. So windows are charged when they
//! *begin*: a new one is accepted if no planned window would then overdraw the bucket.
//!
//! The bucket holds C and is filled at the rate R, so windows that begin within any second sum up to at
//! most C + R, the allowed share. C is the longest window, but at most half of the share.

use crate::limits::Window;

/// Millionths of a ns, so that refilling does not round.
const PARTS: u64 = 1_000_000;
/// A longer wait fills any bucket; beyond it the product would not fit.
pub(crate) const LONGEST_WAIT_NS: u64 = 1_000_000_000_000;

/// Windows for which an empty list keeps room.
const KEPT: usize = 4;

/// A client's budget of time awake.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Millionths of time.
    refill_ppm: u64,
    /// Millionths of a ns.
    capacity: u64,
    /// What was in it at `settled_ns`, in millionths of a ns.
    level: u64,
    settled_ns: u64,
    /// Windows that begin after `settled_ns`, in the order in which they begin.
    planned: Vec<Window>,
}

impl Budget {
    /// A full budget, of this share of each second; `burst_ns` may be used at once.
    pub fn new(awake_ppm: u32, burst_ns: u64, now_ns: u64) -> Self {
        let share_ppm = u64::from(awake_ppm).min(1_000_000);
        // A millionth of a second is 1000 ns.
        let capacity_ns = burst_ns.min(share_ppm * 1_000 / 2);
        Self {
            refill_ppm: share_ppm - capacity_ns / 1_000,
            capacity: capacity_ns * PARTS,
            level: capacity_ns * PARTS,
            settled_ns: now_ns,
            planned: Vec::new(),
        }
    }

    /// Whether the budget has the time for this window, which begins at `now_ns` or later.
    pub fn allows(&mut self, now_ns: u64, window: Window) -> bool {
        self.settle(now_ns);
        let place = self.place_of(window);
        let (before, after) = self.planned.split_at(place);
        let mut bucket = (self.level, self.settled_ns);
        let all = before.iter().chain([&window]).chain(after);
        for &next in all {
            match self.after(bucket, next) {
                Some(level) => bucket = (level, next.at_ns),
                None => return false,
            }
        }
        true
    }

    /// Takes the time of a window that is allowed.
    pub fn take(&mut self, window: Window) {
        let place = self.place_of(window);
        self.planned.insert(place, window);
    }

    /// Gives back what is left of a window that was taken.
    pub fn give_back(&mut self, now_ns: u64, window: Window) {
        self.settle(now_ns);
        match self.planned.iter().position(|planned| *planned == window) {
            Some(place) => {
                self.planned.remove(place);
            }
            // It has begun and was charged.
            None => {
                let back = window.left_ns(now_ns).saturating_mul(PARTS);
                self.level = self.level.saturating_add(back).min(self.capacity);
            }
        }
    }

    /// Whether it equals a new one.
    #[cfg(feature = "server")]
    pub fn is_full(&mut self, now_ns: u64) -> bool {
        self.settle(now_ns);
        self.planned.is_empty() && self.level == self.capacity
    }

    /// Charges the windows that have begun.
    fn settle(&mut self, now_ns: u64) {
        let begun = self.planned.partition_point(|next| next.at_ns <= now_ns);
        let mut bucket = (self.level, self.settled_ns);
        for &next in &self.planned[..begun] {
            bucket = (self.after(bucket, next).unwrap_or(0), next.at_ns);
        }
        self.planned.drain(..begun);
        if self.planned.is_empty() {
            // No memory is kept for earlier, longer plans.
            self.planned.shrink_to(KEPT);
        }
        self.level = self.filled(bucket, now_ns);
        self.settled_ns = bucket.1.max(now_ns);
    }

    fn place_of(&self, window: Window) -> usize {
        self.planned
            .partition_point(|next| next.at_ns <= window.at_ns)
    }

    /// The level after the window is charged; `None` if it would be overdrawn.
    fn after(&self, bucket: (u64, u64), window: Window) -> Option<u64> {
        let level = self.filled(bucket, window.at_ns);
        level.checked_sub(window.length_ns.checked_mul(PARTS)?)
    }

    fn filled(&self, (level, at_ns): (u64, u64), now_ns: u64) -> u64 {
        let waited_ns = now_ns.saturating_sub(at_ns).min(LONGEST_WAIT_NS);
        (level + waited_ns * self.refill_ppm).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn window(at_ns: u64, length_ns: u64) -> Window {
        Window { at_ns, length_ns }
    }

    fn budget() -> Budget {
        Budget::new(50_000, 10 * MS, 0)
    }

    fn ask(budget: &mut Budget, now_ns: u64, wanted: Window) -> bool {
        let allowed = budget.allows(now_ns, wanted);
        if allowed {
            budget.take(wanted);
        }
        allowed
    }

    #[test]
    fn used_budget_returns_with_time() {
        let mut budget = budget();
        assert!(ask(&mut budget, 0, window(0, 10 * MS)));
        assert!(!ask(&mut budget, 0, window(0, 1)));
        // 4% of 100 ms.
        assert!(!ask(&mut budget, 100 * MS, window(100 * MS, 4 * MS + 1)));
        assert!(ask(&mut budget, 100 * MS, window(100 * MS, 4 * MS)));
        assert!(!budget.is_full(101 * MS));
        assert!(budget.is_full(SECOND));
    }

    #[test]
    fn budget_cannot_be_saved_up_for_one_future_second() {
        let mut budget = budget();
        let mut got_ns = 0;
        // For nine seconds, repeatedly: one more window within the tenth.
        for n in 0..900 {
            let (now, at) = (n * 10 * MS, 9 * SECOND + n * MS);
            if ask(&mut budget, now, window(at, 10 * MS)) {
                got_ns += 10 * MS;
            }
        }
        assert!(got_ns <= 50 * MS, "{got_ns}");
        assert!(got_ns >= 40 * MS, "{got_ns}");
    }

    #[test]
    fn a_window_between_planned_ones_may_not_take_their_budget() {
        let mut budget = budget();
        assert!(ask(&mut budget, 0, window(SECOND, 10 * MS)));
        assert!(!ask(&mut budget, 0, window(SECOND - MS, 5 * MS)));
        // A second before there is time to refill.
        assert!(ask(&mut budget, 0, window(0, 10 * MS)));
    }

    #[test]
    fn a_cancelled_window_costs_its_used_part() {
        let mut budget = budget();
        assert!(ask(&mut budget, 0, window(SECOND, 10 * MS)));
        budget.give_back(MS, window(SECOND, 10 * MS));
        assert!(budget.is_full(MS));
        assert!(ask(&mut budget, MS, window(2 * MS, 10 * MS)));
        budget.give_back(5 * MS, window(2 * MS, 10 * MS));
        // 3 ms were used, and 4% of 3 ms are back.
        assert!(!ask(&mut budget, 5 * MS, window(5 * MS, 7 * MS + 120_001)));
        assert!(ask(&mut budget, 5 * MS, window(5 * MS, 7 * MS + 120_000)));
    }

    #[test]
    fn a_share_of_zero_allows_nothing() {
        let mut budget = Budget::new(0, 10 * MS, 0);
        assert!(!ask(&mut budget, 0, window(SECOND, 1)));
        assert!(budget.is_full(SECOND));
    }

    proptest! {
        /// For any requests and cancellations: windows that start within a second are at most the
        /// share, and planned windows are always paid for.
        #[test]
        fn no_second_exceeds_the_share(
            steps in prop::collection::vec(
                (0..200 * MS, 0..12 * SECOND, 1..10 * MS, any::<bool>()), 1..150),
            awake_ppm in 1_000..200_000u32,
        ) {
            let mut budget = Budget::new(awake_ppm, 10 * MS, 0);
            let mut now = 0;
            let mut used: Vec<Window> = Vec::new();
            for (wait, ahead, length, cancel) in steps {
                now += wait;
                let wanted = window(now + ahead, length);
                if ask(&mut budget, now, wanted) {
                    used.push(wanted);
                }
                if cancel && let Some(last) = used.pop() {
                    budget.give_back(now, last);
                    let spent = last.length_ns - last.left_ns(now);
                    used.push(window(last.at_ns, spent));
                }
            }
            used.sort_by_key(|window| window.at_ns);
            for (n, first) in used.iter().enumerate() {
                let within = |next: &&Window| next.at_ns < first.at_ns + SECOND;
                let sum: u64 = used[n..].iter().take_while(within).map(|w| w.length_ns).sum();
                // A cancelled window that had ended, or was the last but one, is counted in full.
                prop_assert!(sum <= u64::from(awake_ppm) * 1_000, "{sum}");
            }
        }
    }
}

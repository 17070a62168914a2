//! Bursts of several machines one after the other, so that they do not all take their peak power at once: pure, with the
//! time given.
//!
//! Each machine has a window, from when its burst is due to when that is answered. A burst whose window would overlap
//! another machine's goes earlier, as far as it can; never later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the machines of a process plan.
#[derive(Debug, Default)]
pub struct Plan(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By the machines' numbers.
    windows: BTreeMap<u64, Window>,
}

/// When a burst begins, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// When it is due.
    pub begins: Instant,
    /// Until it is answered.
    pub takes: Duration,
}

impl Window {
    fn overlaps(&self, other: &Self) -> bool {
        self.begins < other.begins + other.takes && other.begins < self.begins + self.takes
    }
}

/// A machine's place in the plan.
#[derive(Debug)]
pub struct Place {
    plan: Arc<Plan>,
    number: u64,
}

impl Plan {
    /// For one more machine.
    pub fn place(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        state.next += 1;
        Place {
            plan: Arc::clone(self),
            number: state.next,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// When that burst goes: at its time, or before.
    pub fn plan(&self, window: Window, now: Instant) -> Instant {
        let mut state = self.plan.state();
        state
            .windows
            .retain(|_, other| other.begins + other.takes > now);
        state.windows.remove(&self.number);
        let begins = before(window, state.windows.values().copied(), now);
        state
            .windows
            .insert(self.number, Window { begins, ..window });
        begins
    }

    /// Which of the grid's phases it has, 0 to 1: any number of machines in a row is spread over it.
    pub fn phase(&self) -> f64 {
        /// The golden ratio's fraction.
        const STEP: f64 = 0.618_033_988_749_894_9;
        ((self.number - 1) as f64 * STEP).fract()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.plan.state().windows.remove(&self.number);
    }
}

/// The latest instant, not after the window's begin, from which on it overlaps none of the others; the begin itself where
/// there is none from now on.
fn before(window: Window, others: impl Iterator<Item = Window>, now: Instant) -> Instant {
    let mut others: Vec<Window> = others.collect();
    others.sort_unstable_by_key(|other| std::cmp::Reverse(other.begins));
    let mut moved = window;
    // Each step goes before another one, from the last to the first.
    for other in others {
        if moved.overlaps(&other) {
            match other.begins.checked_sub(window.takes) {
                Some(begins) if begins >= now => moved.begins = begins,
                _ => return window.begins,
            }
        }
    }
    moved.begins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn bursts_of_two_machines_follow_each_other() {
        let now = Instant::now();
        let plan = Arc::new(Plan::default());
        let (a, b) = (plan.place(), plan.place());
        let of = |begins, takes| Window {
            begins: now + ms(begins),
            takes: ms(takes),
        };
        assert_eq!(a.plan(of(400, 20), now), now + ms(400));
        assert_eq!(b.plan(of(410, 30), now), now + ms(370));
        // Its own window is no other's.
        assert_eq!(b.plan(of(410, 30), now), now + ms(370));
        assert_eq!(b.plan(of(420, 30), now), now + ms(420));
        // There is no time before.
        assert_eq!(b.plan(of(410, 405), now), now + ms(410));
        drop(a);
        assert_eq!(b.plan(of(410, 30), now), now + ms(410));
    }

    #[test]
    fn phases_are_spread() {
        let plan = Arc::new(Plan::default());
        let mut phases: Vec<f64> = (0..8).map(|_| plan.place().phase()).collect();
        assert_eq!(phases[0], 0.0);
        phases.sort_by(f64::total_cmp);
        phases.push(1.0);
        assert!(
            phases.windows(2).all(|two| two[1] - two[0] > 0.05),
            "{phases:?}"
        );
    }

    proptest! {
        #[test]
        fn no_burst_is_late_and_windows_are_apart(
            windows in proptest::collection::vec((0_u64..1000, 1_u64..50), 1..20),
        ) {
            let now = Instant::now();
            let plan = Arc::new(Plan::default());
            let places: Vec<Place> = windows.iter().map(|_| plan.place()).collect();
            let mut planned: Vec<Window> = Vec::new();
            for (place, (begins, takes)) in places.iter().zip(windows) {
                let window = Window { begins: now + ms(begins), takes: ms(takes) };
                let begins = place.plan(window, now);
                prop_assert!(begins <= window.begins && begins >= now);
                let moved = Window { begins, ..window };
                // It overlaps only where it could not go earlier.
                if planned.iter().any(|other| other.overlaps(&moved)) {
                    prop_assert_eq!(begins, window.begins);
                }
                planned.push(moved);
            }
        }
    }
}

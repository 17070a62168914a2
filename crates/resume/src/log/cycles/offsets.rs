//! How far a syslog's wall clock is ahead of the kernel's, whose clock stands still in sleep: what it
//! gains over a cycle is the time asleep.
//!
//! A line is written when the logger runs, which is frozen for most of a cycle, so that a wall clock is
//! late and never early. The least offset among the lines before a cycle, and among those after it, is
//! the best one.

use crate::cycle::{Cycle, Us};
use crate::log::stamp::Instant;

/// So many lines around a cycle are looked at.
const LINES: usize = 200;
/// From a cycle's end on, µs of the kernel's clock: the logger runs again by then.
const WITHIN_US: Us = 30 * SECOND_US;
const SECOND_US: Us = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Of the lines before the next cycle, the latest last.
    before: Vec<Us>,
    /// Of those within it and after it.
    after: Vec<Us>,
    /// The wall clock's step.
    step_us: Us,
    /// The cycle that ended last, where it is not known how long it slept: its number and end.
    ended: Option<(usize, Us)>,
}

impl Offsets {
    /// A line with both clocks.
    pub(super) fn line(&mut self, kernel: Us, wall: Instant, within: bool) {
        let offset = wall.us - kernel;
        self.step_us = self.step_us.max(wall.resolution_us);
        let near = |end: Us| end - SECOND_US..end + WITHIN_US;
        let past = self
            .ended
            .is_some_and(|(_, end)| !near(end).contains(&kernel));
        if past || within && self.ended.is_some() {
            self.forget();
        }
        let list = match self.ended {
            Some(_) => &mut self.after,
            // The first lines of a cycle are written before its logger is frozen.
            None => &mut self.before,
        };
        if list.len() >= LINES && self.ended.is_none() && !within {
            list.remove(0);
        }
        if list.len() < LINES {
            list.push(offset);
        }
    }

    pub(super) fn cycle_ends(&mut self, cycle: &Cycle) {
        let end = cycle.stages.iter().map(|stage| stage.end).max();
        let untold = cycle.asleep_us.is_none() && cycle.failures.is_empty() && !cycle.cut;
        self.ended = end.filter(|_| untold).map(|end| (cycle.number, end));
        self.after.clear();
    }

    /// The cycle and how long it slept, as far as the lines so far tell: more than two steps of the
    /// wall clock.
    pub(super) fn slept(&self) -> Option<(usize, Us)> {
        let (number, _) = self.ended?;
        let us = self.after.iter().min()? - self.before.iter().min()?;
        (us >= 2 * self.step_us.max(1000)).then_some((number, us))
    }

    /// The lines after a cycle are those before the next.
    fn forget(&mut self) {
        self.ended = None;
        self.before = std::mem::take(&mut self.after);
    }
}

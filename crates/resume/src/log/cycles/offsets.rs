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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Stage, StageKind};

    /// A cycle that ends at 100 s, and of which nothing tells how long it slept.
    fn cycle() -> Cycle {
        let stage = Stage {
            kind: StageKind::Thaw,
            start: 99 * SECOND_US,
            end: 100 * SECOND_US,
            says_us: None,
        };
        Cycle {
            number: 3,
            sleep: None,
            at: None,
            stages: vec![stage],
            cpus: Vec::new(),
            calls: Vec::new(),
            asleep_us: None,
            failures: Vec::new(),
            cut: false,
            stamped: true,
            gaps: Vec::new(),
            devices: [].into(),
        }
    }

    fn line(offsets: &mut Offsets, kernel_s: Us, offset_s: Us, within: bool) {
        let wall = Instant {
            us: (kernel_s + offset_s) * SECOND_US,
            resolution_us: SECOND_US,
        };
        offsets.line(kernel_s * SECOND_US, wall, within);
    }

    #[test]
    fn a_sleep_is_what_the_least_offsets_differ_by() {
        let slept = |cycle: &Cycle, after: &[(Us, Us)]| {
            let mut offsets = Offsets::default();
            line(&mut offsets, 90, 1003, false);
            line(&mut offsets, 91, 1000, false);
            line(&mut offsets, 98, 1001, true);
            offsets.cycle_ends(cycle);
            assert_eq!(offsets.slept(), None, "no line after it");
            for &(kernel, offset) in after {
                line(&mut offsets, kernel, offset, false);
            }
            offsets.slept()
        };
        let known = cycle();
        assert_eq!(
            slept(&known, &[(101, 1025), (102, 1020)]),
            Some((3, 20 * SECOND_US))
        );
        // Two steps of the clock are enough, less is not.
        assert_eq!(slept(&known, &[(101, 1002)]), Some((3, 2 * SECOND_US)));
        assert_eq!(slept(&known, &[(101, 1001)]), None);
        // Lines from a second before the end to 30 s after it.
        assert_eq!(slept(&known, &[(99, 1020)]), Some((3, 20 * SECOND_US)));
        assert_eq!(slept(&known, &[(129, 1020)]), Some((3, 20 * SECOND_US)));
        assert_eq!(slept(&known, &[(98, 1020)]), None);
        assert_eq!(slept(&known, &[(130, 1020)]), None);
        for told in [
            |cycle: &mut Cycle| cycle.asleep_us = Some(1),
            |cycle: &mut Cycle| cycle.cut = true,
            |cycle: &mut Cycle| cycle.stages.clear(),
        ] {
            let mut cycle = known.clone();
            told(&mut cycle);
            assert_eq!(slept(&cycle, &[(101, 1020)]), None);
        }
    }
}

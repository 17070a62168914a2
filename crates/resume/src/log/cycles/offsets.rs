//! How far a syslog's wall clock is ahead of the kernel's, whose clock stands still in sleep: what it
//! gains over a cycle is the time asleep.
//!
//! A line is written when the logger runs, which is frozen for most of a cycle, so that a wall clock is
//! late and never early. The least offset among the lines shortly before a cycle, and among those after
//! it, is the best one. Neither are lines of another boot, nor those before another sleep.

use std::collections::VecDeque;

use crate::cycle::{Cycle, Us};
use crate::log::stamp::Instant;

/// So many lines around a cycle are looked at.
const LINES: usize = 200;
/// Before a cycle's begin and from its end on, µs of the kernel's clock: the logger runs, and nothing
/// sets the wall clock meanwhile.
const NEAR_US: Us = 30 * SECOND_US;
const SECOND_US: Us = 1_000_000;

/// The kernel's stamp of a line, and how far the wall clock is ahead of it.
type Line = (Us, Us);

#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Before the next cycle and within it.
    before: VecDeque<Line>,
    /// Behind the cycle that ended last.
    after: VecDeque<Line>,
    last: Option<Line>,
    /// The wall clock's step.
    step_us: Us,
    /// The cycle that ended last, where it is not known how long it slept: its number and end.
    ended: Option<(usize, Us)>,
}

impl Offsets {
    /// A boot's clock begins at zero.
    pub(super) fn is_of_another_boot(&self, kernel: Us) -> bool {
        self.last.is_some_and(|(last, _)| kernel < last - SECOND_US)
    }

    /// A line with both clocks.
    pub(super) fn line(&mut self, kernel: Us, wall: Instant, within: bool) {
        let step_us = self.step_us.max(wall.resolution_us);
        if self.is_of_another_boot(kernel) {
            *self = Self::default();
        }
        self.step_us = step_us;
        let line = (kernel, wall.us - kernel);
        self.last = Some(line);
        let is_over = |(_, end): (usize, Us)| within || kernel > end + NEAR_US;
        if self.ended.is_some_and(is_over) {
            // The lines after a cycle are those before the next.
            self.ended = None;
            self.before = std::mem::take(&mut self.after);
        }
        let list = match self.ended {
            Some(_) => &mut self.after,
            // The first lines of a cycle are written before its logger is frozen.
            None => &mut self.before,
        };
        let is_old = |&(at, _): &Line| at < kernel - NEAR_US;
        while !within
            && self.ended.is_none()
            && (list.len() >= LINES || list.front().is_some_and(is_old))
        {
            list.pop_front();
        }
        if list.len() < LINES {
            list.push_back(line);
        }
    }

    pub(super) fn cycle_ends(&mut self, cycle: &Cycle) {
        let end = cycle.stages.iter().map(|stage| stage.end).max();
        let untold = cycle.asleep_us.is_none() && !cycle.suspend_failed() && !cycle.cut;
        self.ended = end.filter(|_| untold).map(|end| (cycle.number, end));
        // The line that ended it is one behind it.
        let is_behind = |&(at, _): &Line| end.is_none_or(|end| at >= end);
        self.after = VecDeque::from_iter(self.last.filter(is_behind));
        if self.ended.is_none() {
            self.before = std::mem::take(&mut self.after);
        }
    }

    /// The cycle and how long it slept, as far as the lines so far show: more than two steps of the
    /// wall clock.
    pub(super) fn slept(&self) -> Option<(usize, Us)> {
        let (number, _) = self.ended?;
        let least = |list: &VecDeque<Line>| list.iter().map(|line| line.1).min();
        let us = least(&self.after)? - least(&self.before)?;
        (us >= 2 * self.step_us.max(1000)).then_some((number, us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Stage, StageKind};

    /// A cycle that ends at 100 s, with an unknown time asleep.
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
            resolution_us: 1,
            woke: None,
            gaps: Vec::new(),
            shift_us: 0,
            ..Cycle::default()
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
    fn the_sleep_is_the_difference_of_the_least_offsets() {
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
        // Two steps of the clock suffice, less does not.
        assert_eq!(slept(&known, &[(101, 1002)]), Some((3, 2 * SECOND_US)));
        assert_eq!(slept(&known, &[(101, 1001)]), None);
        // Lines up to 30 s after the end.
        assert_eq!(slept(&known, &[(99, 1020)]), Some((3, 20 * SECOND_US)));
        assert_eq!(slept(&known, &[(130, 1020)]), Some((3, 20 * SECOND_US)));
        assert_eq!(slept(&known, &[(131, 1020)]), None);
        for change in [
            |cycle: &mut Cycle| cycle.asleep_us = Some(1),
            |cycle: &mut Cycle| cycle.cut = true,
            |cycle: &mut Cycle| cycle.stages.clear(),
        ] {
            let mut cycle = known.clone();
            change(&mut cycle);
            assert_eq!(slept(&cycle, &[(101, 1020)]), None);
        }
    }

    /// Milliseconds of the kernel's clock, and the wall clock's lead in seconds.
    fn fine(offsets: &mut Offsets, kernel_ms: Us, offset_s: Us, within: bool) {
        let us = kernel_ms * 1000 + offset_s * SECOND_US;
        let wall = Instant {
            us,
            resolution_us: SECOND_US,
        };
        offsets.line(kernel_ms * 1000, wall, within);
    }

    /// The time asleep of a cycle that ends at 100 s, with a lead of 1020 s after it.
    fn slept_after(before: &[(Us, Us)]) -> Option<Us> {
        let mut offsets = Offsets::default();
        for &(kernel_ms, offset_s) in before {
            fine(&mut offsets, kernel_ms, offset_s, false);
        }
        offsets.cycle_ends(&cycle());
        fine(&mut offsets, 100_500, 1020, false);
        offsets.slept().map(|(_, us)| us / SECOND_US)
    }

    #[test]
    fn lines_of_another_boot_or_from_long_before_are_ignored() {
        // A second back is another CPU's clock, more is another boot.
        assert_eq!(slept_after(&[(90_000, 1000), (89_000, 1001)]), Some(20));
        assert_eq!(slept_after(&[(90_000, 1000), (88_999, 1001)]), Some(19));
        // A line counts up to 30 s before the last one.
        assert_eq!(slept_after(&[(60_000, 1000), (90_000, 1001)]), Some(20));
        assert_eq!(slept_after(&[(59_999, 1000), (90_000, 1001)]), Some(19));
        // Except the lines of the cycle itself, during which the logger is frozen.
        let mut offsets = Offsets::default();
        fine(&mut offsets, 50_000, 1000, false);
        fine(&mut offsets, 95_000, 1001, true);
        offsets.cycle_ends(&cycle());
        fine(&mut offsets, 100_500, 1020, false);
        assert_eq!(offsets.slept(), Some((3, 20 * SECOND_US)));
    }

    #[test]
    fn the_last_line_before_a_cycle_and_the_first_after_it_are_kept() {
        // 200 lines before it: of 201 the first one is dropped.
        let lines = |count: Us| -> Vec<(Us, Us)> {
            let of = |place| (90_000 + place, if place == 0 { 1000 } else { 1001 });
            (0..count).map(of).collect()
        };
        assert_eq!(slept_after(&lines(200)), Some(20));
        assert_eq!(slept_after(&lines(201)), Some(19));
        // After it the 201st is too late.
        let behind = |count: Us| {
            let mut offsets = Offsets::default();
            fine(&mut offsets, 90_000, 1000, false);
            offsets.cycle_ends(&cycle());
            for place in 1..=count {
                let ahead = if place == count { 1010 } else { 1020 };
                fine(&mut offsets, 100_000 + place, ahead, false);
            }
            offsets.slept().map(|(_, us)| us / SECOND_US)
        };
        assert_eq!(behind(200), Some(10));
        assert_eq!(behind(201), Some(20));
    }

    #[test]
    fn a_line_after_a_cycle_precedes_the_next_and_a_line_of_the_next_ends_it() {
        // 30 s after its end the lines belong to the time after it.
        let mut offsets = Offsets::default();
        fine(&mut offsets, 90_000, 1000, false);
        offsets.cycle_ends(&cycle());
        fine(&mut offsets, 130_000, 1020, false);
        assert_eq!(offsets.slept(), Some((3, 20 * SECOND_US)));
        fine(&mut offsets, 130_001, 1020, false);
        assert_eq!(offsets.slept(), None);
        // The next cycle's first line, directly after it: lines after the one are before the other.
        let mut offsets = Offsets::default();
        fine(&mut offsets, 90_000, 1000, false);
        offsets.cycle_ends(&cycle());
        fine(&mut offsets, 100_500, 1020, false);
        fine(&mut offsets, 101_000, 1021, true);
        assert_eq!(offsets.slept(), None);
        let mut next = cycle();
        next.number = 4;
        next.stages[0].end = 102 * SECOND_US;
        offsets.cycle_ends(&next);
        fine(&mut offsets, 102_500, 1050, false);
        assert_eq!(offsets.slept(), Some((4, 30 * SECOND_US)));
        // A failed suspend, and a truncated one, have no measurable time asleep.
        let failure = crate::cycle::Failure {
            stage: Some(StageKind::Suspend),
            ..crate::cycle::Failure::default()
        };
        for change in [
            |cycle: &mut Cycle, _: &crate::cycle::Failure| cycle.cut = true,
            |cycle: &mut Cycle, failure: &crate::cycle::Failure| {
                cycle.failures = vec![failure.clone()];
            },
            |cycle: &mut Cycle, failure: &crate::cycle::Failure| {
                cycle.asleep_us = Some(1);
                cycle.failures = vec![failure.clone()];
                cycle.cut = true;
            },
        ] {
            let mut offsets = Offsets::default();
            fine(&mut offsets, 90_000, 1000, false);
            let mut cycle = cycle();
            change(&mut cycle, &failure);
            offsets.cycle_ends(&cycle);
            fine(&mut offsets, 100_500, 1020, false);
            assert_eq!(offsets.slept(), None);
        }
    }

    #[test]
    fn less_than_two_steps_of_the_wall_clock_is_no_sleep() {
        let slept = |resolution_us: Us, us: Us| {
            let mut offsets = Offsets::default();
            let wall = |us| Instant { us, resolution_us };
            offsets.line(90 * SECOND_US, wall(90 * SECOND_US), false);
            offsets.cycle_ends(&cycle());
            offsets.line(101 * SECOND_US, wall(101 * SECOND_US + us), false);
            offsets.slept().map(|(_, us)| us)
        };
        assert_eq!(slept(SECOND_US, 2 * SECOND_US), Some(2 * SECOND_US));
        assert_eq!(slept(SECOND_US, 2 * SECOND_US - 1), None);
        // A step is at least a millisecond.
        assert_eq!(slept(1, 2000), Some(2000));
        assert_eq!(slept(1, 1999), None);
    }
}

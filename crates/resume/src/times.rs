//! How long a cycle's suspend, sleep and resume took.

use std::ops::Range;

use crate::cycle::{Cycle, Stage, StageKind, Us};

/// A cycle's times as far as the log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// By the log's clock.
    pub start: Us,
    /// By the log's clock.
    pub end: Us,
    /// From the start to the kernel's last message before it sleeps. `None` where the log does not
    /// have it whole.
    pub suspend_us: Option<Us>,
    /// From the kernel's last message to its first, by the log's clock: firmware's time, without the
    /// sleep itself. `None` with suspend to idle, where firmware has no part.
    pub platform_us: Option<Us>,
    /// As the kernel reports it.
    pub asleep_us: Option<Us>,
    /// From the kernel's first message after the sleep to the end. `None` where the log does not have
    /// it whole.
    pub resume_us: Option<Us>,
    /// From the kernel's last message before the sleep to its first one after it, by a clock that continues
    /// in sleep.
    /// `None` where it is not known how long it slept.
    pub away_us: Option<Us>,
    /// By the log's clock: where the resume starts.
    pub resume_start: Option<Us>,
    /// What the log's clock itself shows at the cycle's end: see [`Cycle::shift_us`].
    pub own_end: Us,
    /// It never slept: something failed, or woke it before.
    pub aborted: bool,
}

/// The times of a cycle; `None` where it has no stage.
pub fn of(cycle: &Cycle) -> Option<Times> {
    let (first, last) = (cycle.stages.first()?, cycle.stages.last()?);
    let end = cycle.stages.iter().map(|stage| stage.end).max()?;
    let rest = find(cycle, StageKind::is_rest);
    let before = find(cycle, |kind| kind < StageKind::Platform);
    let after = find(cycle, |kind| kind > StageKind::Test);
    let has_slept =
        rest.is_some_and(|rest| rest.kind != StageKind::Test) || cycle.asleep_us.is_some();
    let aborted = !has_slept && cycle.suspend_failed();
    let gave_up = aborted && before.is_some() && cycle.only_froze();
    // Between the devices' stages lies the sleep. In a log without any of them its place is unknown,
    // and what is left are a beginning and an end with a sleep of unknown length between.
    let within = |kinds: Range<StageKind>| {
        let stages = cycle.stages.iter();
        stages.filter(move |stage| kinds.contains(&stage.kind))
    };
    let suspend = within(StageKind::Suspend..StageKind::Platform).next_back();
    let resume = within(StageKind::CpusOn..StageKind::Complete).next();
    let suspend_end = match (rest, suspend, resume) {
        _ if gave_up => before.map(|freeze| freeze.end),
        (Some(rest), ..) => Some(rest.start),
        (None, _, Some(resume)) if aborted => Some(resume.start),
        (None, Some(suspend), _) => Some(suspend.end),
        (None, None, _) => aborted.then_some(end),
    };
    let resume_start = rest.map(|rest| rest.end).or(cycle.woke);
    let resume_start = resume_start.or(resume.map(|resume| resume.start));
    let resume_start = resume_start.filter(|_| after.is_some() && cycle.stamped);
    // A log that is cut lacks its beginning or its end; the stages show which.
    let is_whole_before = !cycle.cut || first.kind <= StageKind::Prepare;
    let is_whole_after = !cycle.cut || last.kind >= StageKind::Complete;
    let firmware = rest.filter(|rest| rest.kind == StageKind::Platform && cycle.stamped);
    let rested = rest.map_or(0, |rest| rest.end - rest.start);
    let away = cycle.asleep_us.map(|asleep| match rest {
        // Its own words bound the sleep, by a clock that goes on.
        Some(rest) if rest.kind == StageKind::Idle && asleep == rested => rested,
        _ => rested + asleep,
    });
    let suspended = suspend_end.filter(|_| before.is_some() && is_whole_before && cycle.stamped);
    let resumed = resume_start.filter(|_| is_whole_after);
    Some(Times {
        start: first.start,
        end,
        suspend_us: suspended.map(|end| end - first.start),
        platform_us: firmware.map(|platform| platform.end - platform.start),
        asleep_us: cycle.asleep_us,
        away_us: away,
        own_end: end - cycle.shift_us,
        resume_us: resumed.map(|start| end - start),
        resume_start,
        aborted,
    })
}

impl Cycle {
    /// Processes did not freeze, and no device was suspended: there is nothing to resume.
    fn only_froze(&self) -> bool {
        let is_end = |kind| matches!(kind, StageKind::Freeze | StageKind::Thaw);
        self.calls.is_empty() && self.stages.iter().all(|stage| is_end(stage.kind))
    }
}

fn find(cycle: &Cycle, is_meant: impl Fn(StageKind) -> bool) -> Option<&Stage> {
    cycle.stages.iter().find(|stage| is_meant(stage.kind))
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::log::read;

    fn times(log: &str) -> super::Times {
        of(&read(log.as_bytes()).unwrap().cycles[0]).unwrap()
    }

    #[test]
    fn a_missing_sleep_is_neither_suspend_nor_resume() {
        let times = times(
            "[ 100.000000] PM: suspend entry (s2idle)\n\
             [ 100.100000] Freezing user space processes\n\
             [ 100.200000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)\n\
             [ 160.000000] Restarting tasks ... done.\n\
             [ 160.010000] PM: suspend exit\n",
        );
        assert_eq!((times.suspend_us, times.resume_us), (None, None));
    }

    #[test]
    fn the_device_stages_bound_a_sleep_without_its_own_lines() {
        let times = times(
            "[ 100.000000] PM: suspend entry (s2idle)\n\
             [ 100.100000] Freezing user space processes\n\
             [ 100.200000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)\n\
             [ 100.300000] PM: suspend of devices complete after 100.000 msecs\n\
             [ 160.000000] PM: resume of devices complete after 40.000 msecs\n\
             [ 160.005000] Restarting tasks ... done.\n\
             [ 160.010000] PM: suspend exit\n",
        );
        assert_eq!(times.suspend_us, Some(300_000));
        assert_eq!(times.resume_us, Some(50_000));
    }
}

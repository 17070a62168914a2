//! How long a cycle's suspend, sleep and resume took.

use crate::cycle::{Cycle, Stage, StageKind, Us};

/// A cycle's times as far as the log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// By the log's clock.
    pub start: Us,
    pub end: Us,
    /// From the beginning to the kernel's last word before it sleeps. `None` where the log does not
    /// have it whole.
    pub suspend_us: Option<Us>,
    /// From the kernel's last word to its first, by the log's clock: firmware's time, without the
    /// sleep itself.
    pub platform_us: Option<Us>,
    /// As the kernel tells it.
    pub asleep_us: Option<Us>,
    /// From the kernel's first word after the sleep to the end. `None` where the log does not have
    /// it whole.
    pub resume_us: Option<Us>,
    /// By the log's clock: where the resume begins.
    pub resume_start: Option<Us>,
    /// It never slept: something failed, or woke it before.
    pub aborted: bool,
}

/// The times of a cycle; `None` where it has no stage.
pub fn of(cycle: &Cycle) -> Option<Times> {
    let (first, last) = (cycle.stages.first()?, cycle.stages.last()?);
    let end = cycle.stages.iter().map(|stage| stage.end).max()?;
    let platform = find(cycle, |kind| kind == StageKind::Platform);
    let before = find(cycle, |kind| kind < StageKind::Platform);
    let after = find(cycle, |kind| kind > StageKind::Platform);
    let suspend_end = match (platform, after) {
        (Some(platform), _) => platform.start,
        (None, Some(after)) => after.start,
        (None, None) => end,
    };
    let resume_start = platform
        .map(|platform| platform.end)
        .or(after.map(|after| after.start))
        .filter(|_| after.is_some());
    // A log that is cut lacks its beginning or its end; which one, the stages tell.
    let is_whole_before = !cycle.cut || first.kind <= StageKind::Prepare;
    let is_whole_after = !cycle.cut || last.kind >= StageKind::Complete;
    let has_slept = platform.is_some() || cycle.asleep_us.is_some();
    Some(Times {
        start: first.start,
        end,
        suspend_us: before
            .filter(|_| is_whole_before)
            .map(|_| suspend_end - first.start),
        platform_us: platform.map(|platform| platform.end - platform.start),
        asleep_us: cycle.asleep_us,
        resume_us: resume_start
            .filter(|_| is_whole_after)
            .map(|start| end - start),
        resume_start,
        aborted: !has_slept && !cycle.failures.is_empty(),
    })
}

fn find(cycle: &Cycle, is_meant: impl Fn(StageKind) -> bool) -> Option<&Stage> {
    cycle.stages.iter().find(|stage| is_meant(stage.kind))
}

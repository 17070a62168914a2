//! How long a cycle's suspend, sleep and resume took.

use crate::cycle::{Cycle, Stage, StageKind, Us};

/// A cycle's times as far as the log has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// By the log's clock.
    pub start: Us,
    /// By the log's clock.
    pub end: Us,
    /// From the start to the kernel's last message before it sleeps. `None` where the log does not
    /// have it whole.
    pub suspend_us: Option<Us>,
    /// Where that is `None`: a lower bound, if the log has one.
    pub suspend_at_least_us: Option<Us>,
    /// From the kernel's last message to its first, by the log's clock, without the sleep itself. `None`
    /// with suspend to idle.
    pub platform_us: Option<Us>,
    /// As the kernel reports it.
    pub asleep_us: Option<Us>,
    /// Where that is `None`, in suspend to idle: an upper bound by the log's clock, if it goes on in sleep.
    pub asleep_at_most_us: Option<Us>,
    /// From the kernel's first message after the sleep to the end. `None` where the log does not have
    /// it whole.
    pub resume_us: Option<Us>,
    /// Where that is `None`: a lower bound, if the log has one.
    pub resume_at_least_us: Option<Us>,
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

/// A stage's end that is computed is this near to the word that shows it.
const NEAR_US: Us = 10_000;

/// The times of a cycle; `None` where it has neither a stage nor a word of its beginning or its end.
pub fn of(cycle: &Cycle) -> Option<Times> {
    let words = &cycle.words;
    let (first, last) = (cycle.stages.first(), cycle.stages.last());
    let starts = [first.map(|first| first.start), words.first];
    let start = starts.into_iter().flatten().min().or(words.after_sleep)?;
    let ends = cycle.stages.iter().map(|stage| stage.end).max();
    let end = ends.max(words.last).max(words.before_sleep)?;
    let (rest, aborted) = (find(cycle, StageKind::is_rest), cycle.has_aborted());
    let resume_start = resume_start(cycle);
    // A log that is cut lacks its beginning or its end; its words, or else the stages, show which.
    let begins = words.first.is_some();
    let ends = words.last.is_some() || last.is_some_and(|one| one.kind >= StageKind::Complete);
    let suspend_us = suspend_end(cycle).filter(|_| begins || !cycle.cut);
    let suspend_us = suspend_us.map(|end| end - start);
    let resume_us = resume_start.filter(|_| ends || !cycle.cut);
    let resume_us = resume_us.map(|start| end - start);
    let firmware = rest.filter(|rest| rest.kind == StageKind::Platform && cycle.stamped);
    let rested = rest.map_or(0, |rest| rest.end - rest.start);
    let away = cycle.asleep_us.map(|asleep| match rest {
        // Its own words bound the sleep, by a clock that goes on.
        Some(rest) if rest.kind == StageKind::Idle && asleep == rested => rested,
        _ => rested + asleep,
    });
    // Where a half is not known whole its words bound it; two timestamps of whole seconds may be nearer by
    // one than they seem.
    let coarse = match cycle.resolution_us {
        ..=1 => 0,
        step => step,
    };
    let at_least =
        |from: Option<Us>, to: Option<Us>| Some(to? - from? - coarse).filter(|&us| us > 0);
    let at_most = |from: Option<Us>, to: Option<Us>| Some(to? - from? + coarse);
    let is_test = rest.is_some_and(|rest| rest.kind == StageKind::Test);
    let is_idle = cycle.asleep_us.is_none() && cycle.is_idle() && !aborted && !is_test;
    Some(Times {
        start,
        end,
        suspend_us,
        suspend_at_least_us: at_least(words.first, words.before_sleep)
            .filter(|_| suspend_us.is_none()),
        platform_us: firmware.map(|platform| platform.end - platform.start),
        asleep_us: cycle.asleep_us,
        asleep_at_most_us: at_most(words.before_sleep, words.after_sleep).filter(|_| is_idle),
        away_us: away,
        own_end: end - cycle.shift_us,
        resume_us,
        resume_at_least_us: at_least(words.after_sleep, words.last)
            .filter(|_| resume_us.is_none() && !aborted),
        resume_start,
        aborted,
    })
}

/// Where the sleep begins: with its own stage, with what failed, or else with the end of the devices' last stage,
/// if nothing of the suspend comes later.
fn suspend_end(cycle: &Cycle) -> Option<Us> {
    let within = |from, to| {
        let stages = cycle.stages.iter();
        stages.filter(move |one| (from..to).contains(&one.kind))
    };
    let suspend = within(StageKind::Suspend, StageKind::Platform).next_back();
    // Before the last stage of devices has ended, the suspend goes on; what follows it may be cut.
    let ends = !cycle.cut || cycle.words.after_sleep.is_some();
    let is_last = |one: &&Stage| match one.kind {
        StageKind::SuspendNoirq => true,
        kind => kind > StageKind::SuspendNoirq && ends,
    };
    let resume = within(StageKind::CpusOn, StageKind::Complete).next();
    let failures = cycle.failures.iter();
    let failures = failures.filter(|failure| failure.is_of_suspend());
    let end = match (find(cycle, StageKind::is_rest), suspend, resume) {
        (Some(rest), ..) => Some(rest.start),
        (None, _, Some(resume)) if cycle.has_aborted() => Some(resume.start),
        (None, ..) if cycle.has_aborted() => {
            let stages = within(StageKind::Sync, StageKind::Platform).map(|stage| stage.end);
            failures.map(|failure| failure.at).chain(stages).max()
        }
        (None, suspend, _) => suspend
            .filter(is_last)
            .map(|suspend| suspend.end)
            .filter(|&end| {
                let last = cycle.words.before_sleep;
                last.is_none_or(|last| last <= end + NEAR_US)
            }),
    };
    let begins =
        cycle.words.first.is_some() || find(cycle, |kind| kind < StageKind::Platform).is_some();
    end.filter(|_| begins && cycle.stamped)
}

/// Where the sleep ends: with its own stage, the kernel's first word, or the beginning of the devices' first
/// stage, if nothing of the resume comes before that.
fn resume_start(cycle: &Cycle) -> Option<Us> {
    // What never slept may have suspended no more than devices.
    let last = match cycle.has_aborted() {
        true => StageKind::Resume,
        false => StageKind::ResumeNoirq,
    };
    let resume = find(cycle, |kind| (StageKind::CpusOn..=last).contains(&kind));
    let resume = resume.map(|resume| resume.start).filter(|&start| {
        let first = cycle.words.after_sleep.filter(|_| !cycle.has_aborted());
        first.is_none_or(|first| first >= start - NEAR_US)
    });
    let rest = find(cycle, StageKind::is_rest).map(|rest| rest.end);
    let ends = cycle.words.last.is_some() || find(cycle, |kind| kind > StageKind::Test).is_some();
    rest.or(cycle.woke)
        .or(resume)
        .filter(|_| (ends || cycle.cut) && cycle.stamped)
}

impl Cycle {
    /// It never slept, for something failed or woke it before.
    pub(crate) fn has_aborted(&self) -> bool {
        let rest = find(self, StageKind::is_rest);
        let slept =
            rest.is_some_and(|rest| rest.kind != StageKind::Test) || self.asleep_us.is_some();
        !slept && self.suspend_failed()
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
             [ 100.300000] PM: noirq suspend of devices complete after 10.000 msecs\n\
             [ 160.000000] PM: noirq resume of devices complete after 40.000 msecs\n\
             [ 160.005000] Restarting tasks ... done.\n\
             [ 160.010000] PM: suspend exit\n",
        );
        assert_eq!(times.suspend_us, Some(300_000));
        assert_eq!(times.resume_us, Some(50_000));
    }
}

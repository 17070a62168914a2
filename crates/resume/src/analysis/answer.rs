//! What matters most of a machine's cycles: what failed, then what most of the time went to.

use super::failed::FAILED;
use super::{Answer, CycleResult, Machine};
use crate::cycle::{Gap, StageKind, Us};
use crate::graph::Half;

/// A whole suspend this many times as long as the whole resume matters more; a path of at least 1/2 of a half shows
/// what it went to.
const MATTERS: Us = 2;

/// At least 1/4 of a half is much of it.
const MUCH: Us = 4;

impl Machine {
    /// What matters most of it.
    pub fn answer(&self) -> Answer {
        let (cycle, is_as_it_was) = (self.shown(), self.what_if.is_none());
        let mut failed = self.failed();
        // A return that is missing while later stages are there got lost.
        failed.retain(|one| one.ends || one.how == FAILED);
        failed.sort_by_key(|one| !one.ends);
        let failed = failed
            .first()
            .map(|one| match one.ends && one.how == FAILED {
                true => format!("The suspend was aborted: {}.", self.placed(one)),
                false => format!(
                    "{}{}: {}.",
                    one.how[..1].to_uppercase(),
                    &one.how[1..],
                    self.placed(one)
                ),
            });
        let returns = cycle.returns(Half::Suspend) && cycle.returns(Half::Resume);
        let is_over = failed.is_some() && (cycle.aborted || !returns);
        if cycle.is_to_disk() || is_over && is_as_it_was {
            let mut to_disk = self.hibernations.iter().zip(1..);
            let to_disk = to_disk.find_map(|(one, number)| {
                let what = one.failures.first()?.trim_end_matches('.');
                Some(format!("Suspend to disk {number} failed: {what}."))
            });
            return Answer {
                failed: failed.or(to_disk),
                ..Answer::default()
            };
        }
        let [suspend, resume] = [Half::Suspend, Half::Resume].map(|half| cycle.known_us(half));
        let times = if cycle.resume_us.is_some() {
            MATTERS
        } else {
            1
        };
        let (half, known) = match is_as_it_was && suspend > times * resume {
            true => (Half::Suspend, suspend),
            false => (Half::Resume, resume),
        };
        let path = cycle.path_us(half);
        let by_path = path > 0 && path * MATTERS >= known;
        let length = |gap: &Gap| gap.end - gap.start;
        let silence = cycle.gaps_of(half).max_by_key(|gap| length(gap));
        let silence = silence.filter(|gap| !by_path && length(gap) * MUCH >= known);
        // Of a suspend that stops behind it the sync says nothing.
        let says = |stage| cycle.stop.is_none() || stage != StageKind::Sync;
        let stages = self.stages.iter();
        let stages = stages.filter(|one| !one.stage.is_rest() && says(one.stage));
        let stage = stages
            .max_by_key(|one| one.duration_us.median)
            .filter(|one| {
                let much = silence.map_or(known / MUCH, length);
                let least = if half.has(one.stage) { much } else { known };
                !by_path && one.duration_us.median >= least
            });
        Answer {
            failed,
            half: Some(half),
            by_path,
            stage: stage.map(|one| one.stage),
            gap: silence.filter(|_| stage.is_none()).cloned(),
        }
    }
}

impl CycleResult {
    /// How long a half took, or its lower bound, or what the path shows of it; 0 where nothing is known.
    fn known_us(&self, half: Half) -> Us {
        let known = self.us_of(half).or(self.at_least_us_of(half));
        known.unwrap_or(self.path_us(half))
    }

    fn path_us(&self, half: Half) -> Us {
        let links = self.path_of(half).iter();
        links.map(|link| link.duration_us).sum()
    }

    /// The times without a message of the kernel that are certainly in a half.
    pub(crate) fn gaps_of(&self, half: Half) -> impl Iterator<Item = &Gap> {
        let words = &self.words;
        let woken = words.after_sleep.filter(|_| !self.aborted);
        let from = half.of(words.first, self.resume_start_us.or(woken));
        let to = half.of(words.before_sleep, Some(Us::MAX));
        let span = from.zip(to).map_or(0..0, |(from, to)| from..to);
        let gaps = self.gaps.iter();
        gaps.filter(move |gap| gap.start >= span.start && gap.end <= span.end && !span.is_empty())
    }
}

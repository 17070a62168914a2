//! What matters most of a machine's cycles: what failed, then what most of the time went to.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::failed::FAILED;
use super::{CycleResult, Machine, Spread};
use crate::cycle::{Gap, StageKind, Us, WITH_CALLS};
use crate::graph::Half;

/// What matters most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What failed, or kept the machine from sleeping, in words.
    pub failed: Option<String>,
    /// Of the shown cycle, unless it ended with a failure.
    pub time: Option<Matter>,
}

/// What most of the time went to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Matter {
    /// The log has nothing but suspends to disk.
    Disk,
    /// A half whose critical path shows it.
    Path {
        /// Which.
        half: Half,
    },
    /// A half of which no path shows the most.
    Half {
        /// Which.
        half: Half,
        /// A lower bound.
        at_least_us: Option<Us>,
        /// The kernel's longest one in it, if it is much of that.
        silence: Option<Gap>,
    },
    /// A stage that takes longer than what else is known.
    Stage {
        /// Which half has no path.
        half: Half,
        /// Which stage.
        stage: StageKind,
        /// In all cycles.
        duration_us: Spread,
    },
}

/// A whole suspend this many times as long as the whole resume matters more.
const MATTERS: Us = 2;

/// A silence of at least 1/4 of a half, and a path of half of it, show what it went to.
const LEADS: Us = 4;

impl Machine {
    /// What matters most of it.
    pub fn answer(&self) -> Answer {
        let failed = self.failed();
        // A return that is missing while later stages are there got lost.
        let mut failed = Vec::from_iter(failed.iter().filter(|one| one.ends || one.how == FAILED));
        failed.sort_by_key(|one| !one.ends);
        let failed = failed.first().map(|one| {
            let how = match one.ends && one.how == FAILED {
                true => "The suspend was aborted".to_owned(),
                false => one.how[..1].to_uppercase() + &one.how[1..],
            };
            format!("{how}: {}.", self.placed(one))
        });
        let cycle = self.shown();
        let returns = [Half::Suspend, Half::Resume]
            .iter()
            .all(|&half| cycle.returns(half));
        let is_over = failed.is_some() && self.what_if.is_none() && (cycle.aborted || !returns);
        let mut to_disk = self.hibernations.iter().zip(1..);
        let to_disk = to_disk.find_map(|(one, number)| {
            let what = one.failures.first()?.trim_end_matches('.');
            Some(format!("Suspend to disk {number} failed: {what}."))
        });
        Answer {
            failed: failed.or(to_disk),
            time: (!is_over).then(|| self.matter()),
        }
    }

    fn matter(&self) -> Matter {
        let cycle = self.shown();
        if cycle.is_to_disk() {
            return Matter::Disk;
        }
        let half = self.half();
        let (known, path) = (cycle.known_us(half), cycle.path_us(half));
        if path > 0 && path * MATTERS >= known {
            return Matter::Path { half };
        }
        let silent_us = |gap: &Gap| gap.end - gap.start;
        let gaps = cycle.gaps_of(half).into_iter();
        let silence = gaps.max_by_key(|gap| silent_us(gap));
        let least = silence.map_or(0, silent_us).max(known / LEADS);
        // Of a suspend that stops behind it the sync says nothing.
        let says = |stage| cycle.stop.is_none() || stage != StageKind::Sync;
        let stages = self.stages.iter();
        let stages = stages.filter(|one| !one.stage.is_rest() && says(one.stage));
        let longest = stages.max_by_key(|one| one.duration_us.median);
        if let Some(longest) = longest.filter(|one| {
            let least = if half.has(one.stage) { least } else { known };
            one.duration_us.median >= least
        }) {
            return Matter::Stage {
                half,
                stage: longest.stage,
                duration_us: longest.duration_us,
            };
        }
        let silence = silence.filter(|gap| silent_us(gap) * LEADS >= known);
        Matter::Half {
            half,
            at_least_us: Some(known).filter(|&us| us > 0),
            silence: silence.cloned(),
        }
    }

    /// The half that most of the time goes to, as far as it is known.
    fn half(&self) -> Half {
        let cycle = self.shown();
        let [suspend, resume] = [Half::Suspend, Half::Resume];
        let times = if cycle.resume_us.is_some() {
            MATTERS
        } else {
            1
        };
        let is_longer = cycle.known_us(suspend) > times * cycle.known_us(resume);
        match self.what_if.is_none() && is_longer {
            true => suspend,
            false => resume,
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

    /// The times without a message of the kernel that are certainly in a half, and in none of its stages that have no
    /// callbacks.
    pub(crate) fn gaps_of(&self, half: Half) -> Vec<&Gap> {
        let (words, start) = (&self.words, self.resume_start_us);
        let (from, to) = match half {
            Half::Suspend => (words.first, words.before_sleep),
            Half::Resume => (start.or(words.after_sleep.filter(|_| !self.aborted)), None),
        };
        let stages = self.stages.iter();
        let stages = stages.filter(|one| !WITH_CALLS.contains(&one.stage));
        let stages = stages.filter_map(|one| Some(one.start_us..=one.start_us + one.duration_us?));
        let stages = Vec::from_iter(stages);
        let is_in = |gap: &&Gap| {
            let is_told =
                |span: &RangeInclusive<Us>| [gap.start, gap.end].iter().all(|at| span.contains(at));
            let begins = from.is_some_and(|from| gap.start >= from);
            begins && to.is_none_or(|to| gap.end <= to) && !stages.iter().any(is_told)
        };
        self.gaps.iter().filter(is_in).collect()
    }
}

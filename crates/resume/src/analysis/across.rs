//! Many cycles, side by side.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{CycleResult, DeviceSpread, LinkKind, StageSpread};
use crate::cycle::{Name, StageKind, Us};

/// Figures of several cycles, µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// A value that occurred: of an even number the lower one in the middle.
    pub median: Us,
    pub min: Us,
    pub max: Us,
    pub count: usize,
}

/// `None` where there is no figure.
pub fn spread(mut figures: Vec<Us>) -> Option<Spread> {
    figures.sort_unstable();
    Some(Spread {
        median: figures.get(figures.len().checked_sub(1)? / 2).copied()?,
        min: *figures.first()?,
        max: *figures.last()?,
        count: figures.len(),
    })
}

/// The whole cycles; where there is none, all.
pub fn counted(cycles: &[CycleResult]) -> Vec<&CycleResult> {
    let whole: Vec<&CycleResult> = cycles.iter().filter(|cycle| cycle.is_whole()).collect();
    match whole.is_empty() {
        true => cycles.iter().collect(),
        false => whole,
    }
}

pub fn stages(cycles: &[&CycleResult]) -> Vec<StageSpread> {
    let mut durations: BTreeMap<StageKind, Vec<Us>> = BTreeMap::new();
    for stage in cycles.iter().flat_map(|cycle| &cycle.stages) {
        durations
            .entry(stage.stage)
            .or_default()
            .push(stage.duration_us);
    }
    let one = |(stage, durations)| {
        let duration_us = spread(durations)?;
        Some(StageSpread { stage, duration_us })
    };
    durations.into_iter().filter_map(one).collect()
}

/// A device's name is its own on its bus only.
type Key<'a> = (&'a Name, Option<&'a Name>);

#[derive(Default)]
struct Sums {
    resume: Vec<Us>,
    suspend: Vec<Us>,
    slack: Vec<Us>,
    on_path: usize,
}

/// Every device that has a call in a resume, the one with the longest median first.
pub fn devices(cycles: &[&CycleResult]) -> Vec<DeviceSpread> {
    let mut all: BTreeMap<Key<'_>, Sums> = BTreeMap::new();
    for cycle in cycles {
        let calls = cycle.path.iter().filter(|link| link.what == LinkKind::Call);
        let paths: HashSet<usize> = calls.filter_map(|link| link.call).collect();
        for (key, sum) in of_cycle(cycle) {
            let sums = all.entry(key).or_default();
            sums.resume.extend(sum.resume);
            sums.suspend.extend(sum.suspend);
            if let Some(call) = sum.longest {
                let on_path = paths.contains(&call);
                sums.slack.extend(cycle.calls[call].slack_us);
                sums.on_path += usize::from(on_path);
            }
        }
    }
    let one = |((device, driver), sums): (Key<'_>, Sums)| {
        Some(DeviceSpread {
            device: device.clone(),
            driver: driver.cloned(),
            resume_us: spread(sums.resume)?,
            suspend_us: spread(sums.suspend),
            on_path: sums.on_path,
            slack_us: spread(sums.slack),
        })
    };
    let mut devices: Vec<DeviceSpread> = all.into_iter().filter_map(one).collect();
    // Those of the same length keep the order of their names.
    devices.sort_by_key(|device| std::cmp::Reverse(device.resume_us.median));
    devices
}

#[derive(Default)]
struct Sum {
    resume: Option<Us>,
    suspend: Option<Us>,
    /// Its longest call in the resume.
    longest: Option<usize>,
}

fn of_cycle(cycle: &CycleResult) -> BTreeMap<Key<'_>, Sum> {
    let mut sums: BTreeMap<Key<'_>, Sum> = BTreeMap::new();
    for (place, one) in cycle.calls.iter().enumerate() {
        let Some(us) = one.duration_us else {
            continue;
        };
        let key = (&one.call.device, one.call.driver.as_ref());
        let sum = sums.entry(key).or_default();
        if one.call.stage < StageKind::Platform {
            *sum.suspend.get_or_insert(0) += us;
            continue;
        }
        *sum.resume.get_or_insert(0) += us;
        let longest = sum.longest.map(|longest| &cycle.calls[longest]);
        if longest.is_none_or(|longest| longest.duration_us < one.duration_us) {
            sum.longest = Some(place);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_value_that_occurred() {
        let found = spread(vec![9, 1, 5, 7]).unwrap();
        assert_eq!(
            (found.median, found.min, found.max, found.count),
            (5, 1, 9, 4)
        );
        assert_eq!(spread(vec![]), None);
    }
}

//! Many cycles, side by side.

use std::collections::{BTreeMap, HashSet};

use super::spread;
use super::{CycleResult, DeviceSpread, LinkKind, StageSpread, SuspendDevice};
use crate::cycle::{Name, StageKind, Us};
use crate::graph::Half;

/// The whole cycles; where there is none, those that were not aborted, or else all.
pub fn compared(cycles: &[CycleResult]) -> Vec<&CycleResult> {
    let kinds: [fn(&&CycleResult) -> bool; 3] =
        [|one| one.is_whole(), |one| !one.aborted, |_| true];
    let of_kind = |is| Vec::from_iter(cycles.iter().filter(is));
    let mut kinds = kinds.into_iter().map(of_kind);
    kinds.find(|all| !all.is_empty()).unwrap_or_default()
}

pub fn stages(cycles: &[&CycleResult]) -> Vec<StageSpread> {
    let mut durations: BTreeMap<StageKind, Vec<Us>> = BTreeMap::new();
    for stage in cycles.iter().flat_map(|cycle| &cycle.stages) {
        let all = durations.entry(stage.stage).or_default();
        all.extend(stage.duration_us);
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
    us: Vec<Us>,
    slack: Vec<Us>,
    on_path: usize,
}

/// Every device that has a call in a resume, the one with the longest median first.
pub fn devices(cycles: &[&CycleResult]) -> Vec<DeviceSpread> {
    let mut suspends = sums(cycles, Half::Suspend);
    let resumes = sums(cycles, Half::Resume).into_iter();
    let spreads = resumes.filter_map(|(key, sums)| {
        Some(DeviceSpread {
            device: key.0.clone(),
            driver: key.1.cloned(),
            resume_us: spread(sums.us)?,
            suspend_us: suspends.remove(&key).and_then(|sums| spread(sums.us)),
            on_path: sums.on_path,
            slack_us: spread(sums.slack),
        })
    });
    let mut devices: Vec<DeviceSpread> = spreads.collect();
    // Those of the same length keep the order of their names.
    devices.sort_by_key(|device| std::cmp::Reverse(device.resume_us.median));
    devices
}

/// Every device that has a call in a suspend, likewise.
pub fn suspend_devices(cycles: &[&CycleResult]) -> Vec<SuspendDevice> {
    let one = |((device, driver), sums): (Key<'_>, Sums)| {
        Some(SuspendDevice {
            device: device.clone(),
            driver: driver.cloned(),
            suspend_us: spread(sums.us)?,
            on_path: sums.on_path,
            slack_us: spread(sums.slack),
        })
    };
    let suspends = sums(cycles, Half::Suspend).into_iter();
    let mut devices: Vec<SuspendDevice> = suspends.filter_map(one).collect();
    devices.sort_by_key(|device| std::cmp::Reverse(device.suspend_us.median));
    devices
}

fn sums<'a>(cycles: &[&'a CycleResult], half: Half) -> BTreeMap<Key<'a>, Sums> {
    let mut all: BTreeMap<Key<'a>, Sums> = BTreeMap::new();
    for &cycle in cycles {
        let path = cycle.path_of(half).iter();
        let calls = path.filter(|link| link.what == LinkKind::Call);
        let on_path: HashSet<usize> = calls.filter_map(|link| link.call).collect();
        for (key, (us, longest)) in of_cycle(cycle, half) {
            let sums = all.entry(key).or_default();
            sums.us.push(us);
            sums.slack.extend(cycle.calls[longest].slack_us);
            sums.on_path += usize::from(on_path.contains(&longest));
        }
    }
    all
}

/// Of each device the sum of its calls, and the longest of them.
fn of_cycle(cycle: &CycleResult, half: Half) -> BTreeMap<Key<'_>, (Us, usize)> {
    let mut sums: BTreeMap<Key<'_>, (Us, usize)> = BTreeMap::new();
    for (place, one) in cycle.calls_of(half) {
        let Some(us) = one.duration_us else {
            continue;
        };
        let key = (&one.call.device, one.call.driver.as_ref());
        let sum = sums.entry(key).or_insert((0, place));
        sum.0 += us;
        if cycle.calls[sum.1].duration_us < one.duration_us {
            sum.1 = place;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_two() {
        let found = spread(vec![9, 1, 5, 7]).unwrap();
        assert_eq!(
            (found.median, found.min, found.max, found.count),
            (6, 1, 9, 4)
        );
        assert_eq!(spread(vec![702, 720]).unwrap().median, 711);
        assert_eq!(spread(vec![9, 1, 5]).unwrap().median, 5);
        assert_eq!(spread(vec![]), None);
    }
}

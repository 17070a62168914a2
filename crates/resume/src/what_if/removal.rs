//! Which devices are worth taking out.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::run::Run;
use crate::Result;
use crate::cycle::{Name, StageKind, Us};
use crate::graph::{Graph, What};
use crate::path::{Part, Times, path_of};

/// The effect of removing a device and what lies below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The removed device, as the kernel names it.
    pub device: Name,
    /// Its driver; `None` if the log does not have it.
    pub driver: Option<Name>,
    /// The devices below it that go with it and have a call in this half.
    pub with_below: usize,
    /// Of the half, without it.
    pub total_us: Us,
    /// Against the total before.
    pub saves_us: Us,
    /// The device with the longest call on the critical path without it; `None` if there is no call.
    #[serde(default)]
    pub next: Option<Next>,
    /// Devices above it whose removal saves as much, since it goes with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_much: Vec<Name>,
}

impl Removal {
    /// This device's removal is in the row.
    pub fn takes(&self, device: &Name) -> bool {
        self.device == *device || self.as_much.contains(device)
    }
}

/// A device that limits what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// As the kernel names it.
    pub device: Name,
    /// Its driver; `None` if the log does not have it.
    pub driver: Option<Name>,
}

/// Every device that has a call of its own in this half's stages but `prepare` and `complete` (every
/// bus has these), taken out alone with what lies below it;
/// the one that saves most first, then the one with the fewest below it.
///
/// Buses and bridges without a call are not among them: they cannot be taken out. Of the devices on the critical
/// path those count that have, with what lies below them, the [`REPLAYS`] longest parts of it.
pub fn best_removals(graph: &Graph) -> Vec<Removal> {
    let removals = removals(graph, &Run::unchanged(graph)).into_iter();
    removals.map(|(one, _)| one).collect()
}

/// Step by step: after `changes`, the device whose removal saves most (of these the one with the
/// fewest below it), then the next one without it, and so on, at most `most` of them and as long as
/// something is saved. The totals are those after each step.
///
/// Where several devices take equally long side by side, none of them saves anything alone, and the
/// steps end there.
///
/// # Errors
/// As [`super::replay`].
pub fn steps(graph: &Graph, changes: &[Change], most: usize) -> Result<Vec<Removal>> {
    let mut run = Run::new(graph, changes)?;
    let mut taken = Vec::new();
    while taken.len() < most {
        let best = removals(graph, &run).into_iter().next();
        let Some((removal, device)) = best.filter(|(one, _)| one.saves_us > 0) else {
            break;
        };
        run = run.without(device);
        taken.push(removal);
    }
    Ok(taken)
}

/// So many devices are taken out of a run, each alone. A replay takes as long as the graph is large, and no machine has
/// as many devices on the path.
pub const REPLAYS: usize = 256;

/// Each device taken out of a run alone, and its place, the best one first.
fn removals(graph: &Graph, run: &Run<'_>) -> Vec<(Removal, usize)> {
    let tree = &graph.tree;
    let times = run.times();
    let with_call = removable(graph);
    let on_path = on_path(graph, &times);
    let unchanged = remainder(graph, &times);
    let mut own = vec![0; tree.devices.len()];
    with_call.iter().for_each(|&device| own[device] = 1);
    let with_those_below = tree.with_those_below(own);
    let mut longest = Vec::from_iter(with_call.iter().copied());
    longest.retain(|&device| on_path[device] > 0);
    longest.sort_by_key(|&device| (std::cmp::Reverse(on_path[device]), device));
    let too_many = HashSet::<usize>::from_iter(longest.into_iter().skip(REPLAYS));
    let without = |&device: &usize| {
        // What has no call on the path leaves the path as it is, and nothing gets longer; but a supplier
        // without a call in a stage may hold up others there.
        let (total_us, next) = match tree.has_suppliers || on_path[device] > 0 {
            true => remainder(graph, &run.without(device).times()),
            false => unchanged.clone(),
        };
        let removal = Removal {
            device: tree.devices[device].name.clone(),
            driver: tree.devices[device].driver.clone(),
            with_below: with_those_below[device] as usize - 1,
            total_us,
            saves_us: unchanged.0 - total_us,
            next,
            as_much: Vec::new(),
        };
        (removal, device)
    };
    let replayed = with_call.difference(&too_many);
    let mut removals: Vec<(Removal, usize)> = replayed.map(without).collect();
    removals.sort_by_key(|(one, device)| (one.total_us, one.with_below, *device));
    removals
}

/// Those with a call of their own in these stages.
pub(crate) fn removable(graph: &Graph) -> HashSet<usize> {
    let serial = |kind| matches!(kind, StageKind::Prepare | StageKind::Complete);
    let own = graph.steps.iter();
    let own = own.filter(|step| !serial(graph.stages[step.stage].kind));
    own.filter_map(|step| step.device).collect()
}

/// What the half takes, and the device with the longest call on its critical path.
fn remainder(graph: &Graph, times: &Times) -> (Us, Option<Next>) {
    let longest = calls_on_path(graph, times).max_by_key(|(us, _)| *us);
    let device = longest.and_then(|(_, step)| graph.steps[step].device);
    let next = device.map(|device| Next {
        device: graph.tree.devices[device].name.clone(),
        driver: graph.tree.devices[device].driver.clone(),
    });
    (times.end - times.start, next)
}

/// What each device, with those below it, has of the critical path; 0 without a call on it.
fn on_path(graph: &Graph, times: &Times) -> Vec<Us> {
    let mut own = vec![0; graph.tree.devices.len()];
    for (us, step) in calls_on_path(graph, times) {
        if let Some(device) = graph.steps[step].device {
            own[device] += us.max(1);
        }
    }
    graph.tree.with_those_below(own)
}

/// The lengths of its calls, and their steps.
fn calls_on_path(graph: &Graph, times: &Times) -> impl Iterator<Item = (Us, usize)> {
    let steps = graph.steps.iter().enumerate();
    let calls = steps.filter_map(|(place, step)| match step.what {
        What::Call(call) => Some((call, place)),
        What::Cpu(_) => None,
    });
    let places: HashMap<usize, usize> = calls.collect();
    let links = path_of(graph, times).links.into_iter();
    links.filter_map(move |link| match link.part {
        Part::Call(call) => Some((link.us(), *places.get(&call)?)),
        _ => None,
    })
}

//! The devices of a machine: from the calls of its cycles, and from sysfs if a capture kept it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cycle::{Call, Cycle, Name, StageKind, Us};
use crate::devices::{self, of_usb_interface};
use crate::known_as::KnownAs;

/// The devices that calls name, and what lies below what.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Those that have calls, and their parents.
    pub devices: Vec<Device>,
    by_name: HashMap<Name, Vec<usize>>,
    /// Other names of the devices.
    pub known_as: Arc<KnownAs>,
    /// Names of parents that several devices have.
    pub ambiguous: usize,
    /// Only a capture's tree has them.
    pub(crate) has_suppliers: bool,
}

/// A device, or a parent that has no calls of its own.
#[derive(Debug, Default, Clone)]
pub struct Device {
    pub name: Name,
    /// Its driver, or its bus or class where it has none: what the kernel writes before the name.
    pub driver: Option<Name>,
    /// In [`Tree::devices`].
    pub parent: Option<usize>,
    pub children: Vec<usize>,
    /// Those that it waits for besides, and that wait for it. Only a capture has them.
    pub suppliers: Vec<usize>,
    pub consumers: Vec<usize>,
    /// In all cycles that the tree was made of.
    pub calls: usize,
}

impl Tree {
    /// The tree of the devices that `cycle` names, and of those that the machine's other cycles do.
    /// If cycles name different parents, `cycle` counts, and sysfs before any log.
    pub fn of(cycle: &Cycle, machine: &[Cycle]) -> Tree {
        let mut tree = Tree {
            known_as: cycle.known_as.clone(),
            ..Tree::default()
        };
        let mut parents: Vec<Option<Name>> = Vec::new();
        let all = std::iter::once(cycle).chain(machine);
        for call in all.flat_map(|cycle| &cycle.calls) {
            let (name, driver) = (&call.device, &call.driver);
            let device = tree.find(name, driver.as_ref());
            let device = device.unwrap_or_else(|| tree.add(name.clone(), driver.clone()));
            parents.resize(tree.devices.len(), None);
            tree.devices[device].calls += 1;
            let parent = call.parent.as_ref().filter(|parent| &***parent != "none");
            if parents[device].is_none() {
                parents[device] = parent.cloned();
            }
        }
        tree.join_known(&cycle.devices, &mut parents);
        tree.join(parents);
        tree.join_usb_interfaces();
        tree
    }

    fn add(&mut self, name: Name, driver: Option<Name>) -> usize {
        let device = self.devices.len();
        self.by_name.entry(name.clone()).or_default().push(device);
        self.devices.push(Device {
            name,
            driver,
            ..Device::default()
        });
        device
    }

    /// The device of this name and driver. Names are unique on a bus only, so the driver counts.
    pub fn find(&self, name: &str, driver: Option<&Name>) -> Option<usize> {
        let mut named = self.by_name.get(name)?.iter().copied();
        named.find(|&device| self.devices[device].driver.as_ref() == driver)
    }

    /// The devices that have calls get the parents and suppliers of sysfs, and these theirs.
    /// Their parents' names in the log are not looked at any more.
    fn join_known(&mut self, known: &[devices::Device], parents: &mut [Option<Name>]) {
        let mut by_name: HashMap<&Name, Vec<usize>> = HashMap::new();
        for (at, one) in known.iter().enumerate() {
            by_name.entry(&one.name).or_default().push(at);
        }
        // A device may have another driver than it had then; its name alone is enough if no other
        // device has it.
        let place_of = |device: &Device| {
            let named = by_name.get(&device.name)?;
            let same = named.iter().find(|&&at| known[at].driver == device.driver);
            same.or(named.first().filter(|_| named.len() == 1)).copied()
        };
        let places = self.devices.iter().enumerate();
        let places = places.filter_map(|(device, one)| Some((place_of(one)?, device)));
        let mut next: Vec<(usize, usize)> = places.collect();
        let mut there: HashMap<usize, usize> = next.iter().copied().collect();
        while let Some((at, device)) = next.pop() {
            let one = &known[at];
            let parent = one.parent.map(|parent| (parent, true));
            let suppliers = one.suppliers.iter().map(|&supplier| (supplier, false));
            for (other, is_parent) in parent.into_iter().chain(suppliers) {
                let Some(named) = known.get(other) else {
                    continue;
                };
                let other = *there.entry(other).or_insert_with(|| {
                    let added = self.add(named.name.clone(), named.driver.clone());
                    next.push((other, added));
                    added
                });
                if is_parent {
                    self.lies_below(device, other);
                } else {
                    self.has_suppliers = true;
                    self.devices[device].suppliers.push(other);
                    self.devices[other].consumers.push(device);
                }
            }
            if let Some(parent) = parents.get_mut(device) {
                *parent = None;
            }
        }
    }

    /// Parents are known by name only. Where several devices have it, the one with the most calls is
    /// taken; where none has, the parent has no calls and is added.
    fn join(&mut self, parents: Vec<Option<Name>>) {
        let mut chosen: HashMap<Name, usize> = HashMap::new();
        for (device, parent) in parents.into_iter().enumerate() {
            let Some(name) = parent else { continue };
            let chosen = chosen.entry(name);
            let parent = *chosen.or_insert_with_key(|name| self.named(name));
            self.lies_below(device, parent);
        }
    }

    /// Unless the parent is already known to lie below the device.
    fn lies_below(&mut self, device: usize, parent: usize) {
        let has_below = !self.devices[device].children.is_empty() || parent == device;
        if !(has_below && self.is_below(parent, device)) {
            self.devices[device].parent = Some(parent);
            self.devices[parent].children.push(device);
        }
    }

    /// An interface of a USB device has no calls, so no line has its parent; its name does.
    fn join_usb_interfaces(&mut self) {
        for interface in 0..self.devices.len() {
            let one = &self.devices[interface];
            if one.parent.is_some() || one.calls > 0 {
                continue;
            }
            let named = of_usb_interface(&one.name);
            let named = named.and_then(|name| self.by_name.get(name.as_str()));
            if let Some(&device) = named.and_then(|named| named.first()) {
                self.lies_below(interface, device);
            }
        }
    }

    fn named(&mut self, name: &Name) -> usize {
        let Some(named) = self.by_name.get(name) else {
            return self.add(name.clone(), None);
        };
        self.ambiguous += usize::from(named.len() > 1);
        let calls = |&device: &usize| (self.devices[device].calls, std::cmp::Reverse(device));
        let most = named.iter().copied().max_by_key(calls);
        most.expect("a name is kept with its devices")
    }

    /// What a device waits for in a resume: its parent and its suppliers.
    pub(crate) fn superiors(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        let one = &self.devices[device];
        one.parent.into_iter().chain(one.suppliers.iter().copied())
    }

    /// What a device waits for in a suspend: its children and its consumers.
    pub(crate) fn inferiors(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        let one = &self.devices[device];
        one.children.iter().chain(&one.consumers).copied()
    }

    /// Whether `device` is `ancestor` or lies below it.
    pub fn is_below(&self, device: usize, ancestor: usize) -> bool {
        self.with_ancestors(device).any(|one| one == ancestor)
    }

    /// The device, its parent, and so on up.
    pub(crate) fn with_ancestors(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(device), |&one| self.devices[one].parent)
    }

    /// Of each device, the sum of its own figure and of those below it.
    pub(crate) fn with_those_below(&self, mut sums: Vec<Us>) -> Vec<Us> {
        let devices = 0..self.devices.len();
        let tops = devices.filter(|&device| self.devices[device].parent.is_none());
        for device in self.all_below(tops.collect()).into_iter().rev() {
            if let Some(parent) = self.devices[device].parent {
                sums[parent] += sums[device];
            }
        }
        sums
    }

    /// These and all that lies below them.
    fn all_below(&self, mut found: Vec<usize>) -> Vec<usize> {
        let mut next = 0;
        while next < found.len() {
            found.extend(&self.devices[found[next]].children);
            next += 1;
        }
        found
    }

    /// The device and all that lies below it.
    pub fn with_below(&self, device: usize) -> Vec<usize> {
        self.all_below(vec![device])
    }
}

/// The process that suspends, as far as the cycle's calls show it.
///
/// `prepare` and `complete` run in no other. A kernel's log has no lines of these. There, a synchronous
/// device never runs anywhere else, and an asynchronous one in whatever thread takes it: so it is the
/// worker whose devices ran in no other one, with the most calls of devices that ran more than once
/// (one call alone shows nothing). Before Linux 3.15 all devices were synchronous in the late, noirq
/// and early stages: if all calls of those ran in one worker, it is that one, unless what it ran in the
/// other stages speaks for another.
pub fn main_worker(cycle: &Cycle) -> Option<u32> {
    let calls = |kinds: &'static [StageKind]| {
        let calls = cycle.calls.iter();
        calls.filter(move |call| kinds.contains(&call.stage))
    };
    let serial = calls(&[StageKind::Prepare, StageKind::Complete]).find_map(|call| call.worker);
    if serial.is_some() {
        return serial;
    }
    let mut ran: HashMap<u32, usize> = HashMap::new();
    for worker in calls(&NOIRQ).filter_map(|call| call.worker) {
        *ran.entry(worker).or_default() += 1;
    }
    let one = ran.iter().next().filter(|&(_, &calls)| calls >= 3);
    let one = one.filter(|_| ran.len() == 1).map(|(&worker, _)| worker);
    let main_stages = faithful(calls(&[StageKind::Suspend, StageKind::Resume]));
    one.filter(|_| one == main_stages)
        .or_else(|| faithful(cycle.calls.iter()))
        .or(one)
}

const NOIRQ: [StageKind; 4] = [
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
];

/// The worker whose devices ran in no other one, with the most calls of devices that ran more than
/// once; none if there is a tie.
fn faithful<'a>(calls: impl Iterator<Item = &'a Call> + Clone) -> Option<u32> {
    let ran = calls.filter_map(|call| Some(((&call.device, call.driver.as_ref()), call.worker?)));
    let mut by_device: HashMap<_, (u32, usize, bool)> = HashMap::new();
    for (device, worker) in ran.clone() {
        let one = by_device.entry(device).or_insert((worker, 0, true));
        one.1 += 1;
        one.2 &= one.0 == worker;
    }
    let mut evidence: HashMap<u32, usize> = HashMap::new();
    for &(worker, calls, alone) in by_device.values() {
        if alone && calls > 1 {
            *evidence.entry(worker).or_default() += calls;
        }
    }
    for (device, worker) in ran {
        if !by_device[&device].2 {
            evidence.remove(&worker);
        }
    }
    let most = evidence.values().copied().max()?;
    let mut best = evidence.iter().filter(|&(_, &calls)| calls == most);
    match (best.next(), best.next()) {
        (Some((&worker, _)), None) => Some(worker),
        _ => None,
    }
}

//! cpuidle: the driver, the governor and every CPU's idle states.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::topology::{self, CoreKind};
use crate::{Error, Result, Root, cpulist};

const CPU: &str = "sys/devices/system/cpu";

/// One idle state of one CPU, as cpuidle shows it.
/// Source of the names: Documentation/admin-guide/pm/cpuidle.rst of the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// N of `stateN`.
    pub index: u32,
    /// `name`, or the folder's name (`state3`) where that file is missing.
    pub name: String,
    /// `desc`, as the driver describes it: `MWAIT 0x20`.
    pub description: Option<String>,
    /// The driver's figure, µs.
    pub exit_latency_us: Option<u64>,
    /// The driver's target residency, µs.
    pub target_residency_us: Option<u64>,
    /// `disable`: true if 1 was written there, or the state is off by default and 0 was not written.
    pub disabled: Option<bool>,
    /// `default_status`: whether the driver enables it.
    pub enabled_by_default: Option<bool>,
    /// Entries since boot.
    pub usage: Option<u64>,
    /// Time spent in it since boot, µs, as the kernel counts it.
    pub time_us: Option<u64>,
    /// Requests that the hardware or firmware rejected.
    pub rejected: Option<u64>,
    /// Entries that were too deep for the idle time.
    pub above: Option<u64>,
    /// Entries for which a deeper state would have been better.
    pub below: Option<u64>,
}

/// One CPU: its place, its bound and its idle states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// N of `cpuN`.
    pub number: u32,
    /// Whether it is in the kernel's list `online`.
    pub online: bool,
    /// The processor package, by `topology`; `None` where it is unknown.
    pub package: Option<u32>,
    /// The core, unique within its package only; `None` where it is unknown.
    pub core: Option<u32>,
    /// The CPU's latency bound (`power/pm_qos_resume_latency_us`), µs; `None` without that file. `Some(0)`
    /// is not a bound, as the kernel documents; the text `n/a` is `Some(-1)`: no latency is tolerated.
    pub resume_latency_us: Option<i64>,
    /// Itself and the CPUs that share its core, ascending; empty if unknown.
    #[serde(default)]
    pub siblings: Vec<u32>,
    /// The kind of core on a hybrid machine; `None` if all are alike.
    #[serde(default)]
    pub kind: Option<CoreKind>,
    /// Empty where this CPU has no cpuidle folder.
    pub states: Vec<IdleState>,
}

/// cpuidle's state of the whole machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// `None` where no driver is registered (the file is absent, or holds `none`).
    pub driver: Option<String>,
    /// `None` where there is no cpuidle or none is chosen.
    pub governor: Option<String>,
    /// As the kernel lists them: `menu`, `teo`, ...; empty where it does not.
    pub available_governors: Vec<String>,
    /// Ascending by number; offline CPUs are among them.
    pub cpus: Vec<Cpu>,
    /// CPUs kept from the scheduler's balancing (`isolcpus=`).
    #[serde(default)]
    pub isolated: Vec<u32>,
    /// CPUs without a periodic tick while one task runs (`nohz_full=`).
    #[serde(default)]
    pub nohz_full: Vec<u32>,
}

impl Idle {
    /// The error for a CPU that this machine lacks.
    pub fn no_cpu(&self, cpu: u32) -> Error {
        let numbers: Vec<u32> = self.cpus.iter().map(|cpu| cpu.number).collect();
        let has = cpulist::format(&numbers);
        Error::Usage(format!("CPU {cpu}: no such CPU; this machine has {has}"))
    }

    /// Those of these CPUs that are online.
    ///
    /// # Errors
    /// [`Error::Usage`] where none is.
    pub fn online<'a>(cpus: &[&'a Cpu]) -> Result<Vec<&'a Cpu>> {
        let online: Vec<&Cpu> = cpus.iter().copied().filter(|cpu| cpu.online).collect();
        match online.is_empty() {
            true => Err(Error::Usage("--cpu: these CPUs are all offline".into())),
            false => Ok(online),
        }
    }

    /// Reads cpuidle below `root`. A machine without cpuidle is not an error: it has no driver.
    ///
    /// # Errors
    /// If the list of CPUs cannot be read.
    pub fn read(root: &Root) -> Result<Self> {
        let cpuidle = |file: &str| root.line(&format!("{CPU}/cpuidle/{file}"));
        let (present, online) = present_and_online(root)?;
        let places = topology::places(root, &present);
        let kinds = topology::kinds(root, &present);
        let cores = cores(&places);
        let cpu = |&number: &u32| {
            let place = places.get(&number).cloned().unwrap_or_default();
            let core = place.package.zip(place.core);
            let siblings = place.siblings.or_else(|| cores.get(&core?).cloned());
            Cpu {
                number,
                online: online.binary_search(&number).is_ok(),
                package: place.package,
                core: place.core,
                resume_latency_us: read_resume_latency(root, number),
                siblings: siblings.unwrap_or_default(),
                kind: kinds.get(&number).cloned(),
                states: states(root, number),
            }
        };
        let cpus = present.iter().map(cpu).collect();
        let list = |file: &str| {
            let text = root.text(&format!("{CPU}/{file}")).unwrap_or_default();
            // Without `nohz_full=`, some kernels write `(null)` there.
            cpulist::parse(&text).unwrap_or_default()
        };
        Ok(Self {
            driver: cpuidle("current_driver").filter(|name| name != "none"),
            governor: governor(root),
            available_governors: cpuidle("available_governors")
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            cpus,
            isolated: list("isolated"),
            nohz_full: list("nohz_full"),
        })
    }

    /// Reads again what changes: governor, counters, limits and bounds, or everything if CPUs or the driver
    /// changed.
    ///
    /// # Errors
    /// As [`Idle::read`].
    pub fn reread(&mut self, root: &Root) -> Result<()> {
        let (present, online) = present_and_online(root)?;
        let driver = root.line(&format!("{CPU}/cpuidle/current_driver"));
        let same = present.iter().eq(self.cpus.iter().map(|cpu| &cpu.number))
            && driver.filter(|name| name != "none") == self.driver
            && (self.cpus.iter())
                .all(|cpu| cpu.online == online.binary_search(&cpu.number).is_ok());
        if !same {
            *self = Self::read(root)?;
            return Ok(());
        }
        self.governor = governor(root);
        for cpu in &mut self.cpus {
            cpu.resume_latency_us = read_resume_latency(root, cpu.number);
            for state in &mut cpu.states {
                let folder = format!("{CPU}/cpu{}/cpuidle/state{}", cpu.number, state.index);
                count(root, &folder, state);
            }
        }
        Ok(())
    }

    /// Bit N: state N [polls]. Without a driver it is state 0 (`idle=poll`).
    pub fn polling_states(&self) -> u32 {
        let states = self.cpus.iter().flat_map(|cpu| &cpu.states);
        let polling = states.filter(|state| polls(&state.name) && state.index < 32);
        let mask = polling.fold(0, |mask, state| mask | 1 << state.index);
        if self.driver.is_none() { 1 } else { mask }
    }

    /// The CPU of that number.
    pub fn cpu(&self, number: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }
}

/// Whether a CPU that is in the state of that name polls and does not sleep: `POLL`, and `snooze` of powernv_idle and
/// pseries_idle.
pub fn polls(state: &str) -> bool {
    matches!(state, "POLL" | "snooze")
}

/// The CPUs that are present, offline ones among them, and those of them that are online.
fn present_and_online(root: &Root) -> Result<(Vec<u32>, Vec<u32>)> {
    let list = |file: &str| -> Option<Vec<u32>> {
        let cpus = cpulist::parse(&root.text(&format!("{CPU}/{file}"))?)?;
        (!cpus.is_empty()).then_some(cpus)
    };
    let online = list("online");
    let folders = || Some(numbered(root, CPU, "cpu")).filter(|cpus| !cpus.is_empty());
    let present = list("present").or_else(folders).or(online.clone());
    let present = present.ok_or_else(|| no_cpus(root))?;
    let online = online.unwrap_or_else(|| {
        let is_online = |cpu: &u32| root.number(&format!("{CPU}/cpu{cpu}/online")) != Some(0);
        present.iter().copied().filter(is_online).collect()
    });
    Ok((present, online))
}

/// N of every `prefixN` in a folder, ascending; empty where there is no such folder.
pub(crate) fn numbered(root: &Root, folder: &str, prefix: &str) -> Vec<u32> {
    let names = root.names(folder).unwrap_or_default().into_iter();
    let numbers = names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

fn no_cpus(root: &Root) -> Error {
    let path = root.path(&format!("{CPU}/present"));
    match std::fs::read_to_string(&path) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound && root.is_live() => {
            Error::Cannot(format!(
                "{}: no such file; mount sysfs (mount -t sysfs sysfs /sys)",
                path.display()
            ))
        }
        Err(source) => Error::Io { path, source },
        Ok(found) => Error::Content {
            path,
            expected: "a list of CPUs such as 0-3",
            // Its start: an invalid file may be long.
            found: found.trim_end().chars().take(40).collect(),
        },
    }
}

/// Threads of every core, by (package, core).
fn cores(places: &HashMap<u32, topology::Place>) -> HashMap<(u32, u32), Vec<u32>> {
    let mut cores: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    for (&number, place) in places {
        if let Some(core) = place.package.zip(place.core) {
            cores.entry(core).or_default().push(number);
        }
    }
    cores.values_mut().for_each(|cpus| cpus.sort_unstable());
    cores
}

fn governor(root: &Root) -> Option<String> {
    let cpuidle = |file: &str| root.line(&format!("{CPU}/cpuidle/{file}"));
    cpuidle("current_governor").or_else(|| cpuidle("current_governor_ro"))
}

fn read_resume_latency(root: &Root, cpu: u32) -> Option<i64> {
    let text = root.text(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"))?;
    resume_latency(&text)
}

/// The bound in `pm_qos_resume_latency_us`, µs: `n/a` is -1, no latency is tolerated.
/// Source: Documentation/ABI/testing/sysfs-devices-power of the kernel.
fn resume_latency(text: &str) -> Option<i64> {
    match text.trim() {
        "n/a" => Some(-1),
        number => number.parse().ok().filter(|&bound| bound >= 0),
    }
}

fn states(root: &Root, cpu: u32) -> Vec<IdleState> {
    let folder = format!("{CPU}/cpu{cpu}/cpuidle");
    let state = |index| state(root, &format!("{folder}/state{index}"), index);
    let indices = numbered(root, &folder, "state");
    indices.into_iter().map(state).collect()
}

fn state(root: &Root, folder: &str, index: u32) -> IdleState {
    let text = |file: &str| root.line(&format!("{folder}/{file}"));
    let number = |file: &str| root.number(&format!("{folder}/{file}"));
    let chosen = |file: &str, yes: &str, no: &str| {
        let text = text(file)?;
        (text == yes || text == no).then_some(text == yes)
    };
    let mut state = IdleState {
        index,
        name: text("name").unwrap_or_else(|| format!("state{index}")),
        description: text("desc"),
        exit_latency_us: number("latency"),
        target_residency_us: number("residency"),
        disabled: None,
        enabled_by_default: chosen("default_status", "enabled", "disabled"),
        usage: None,
        time_us: None,
        rejected: None,
        above: None,
        below: None,
    };
    count(root, folder, &mut state);
    state
}

/// What changes: counters, and whether it is disabled.
fn count(root: &Root, folder: &str, state: &mut IdleState) {
    let number = |file: &str| root.number(&format!("{folder}/{file}"));
    state.disabled = match number("disable") {
        Some(0) => Some(false),
        Some(1) => Some(true),
        _ => None,
    };
    state.usage = number("usage");
    state.time_us = number("time");
    state.rejected = number("rejected");
    state.above = number("above");
    state.below = number("below");
}

/// `driver intel_idle, governor menu`.
pub fn driver_and_governor(driver: Option<&str>, governor: Option<&str>) -> String {
    let [driver, governor] = [driver, governor].map(|name| name.unwrap_or("none"));
    format!("driver {driver}, governor {governor}")
}

#[cfg(test)]
mod tests;

//! The machine that the advice is for: as the result describes it, and as its sysfs does.

use reveille_kernel::polls;
use reveille_kernel::{Cpu, Identity, Idle, IdleState, Root};
use reveille_results::description::Probe;
use reveille_results::statistics::UNKNOWN;
use reveille_results::{Description, Loaded};
use serde::Serialize;

use crate::{Error, Result};

/// The driver and its table, and the CPUs that the measured one stands for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// cpuidle's driver, such as `intel_idle`; `None` if none is registered or it is unknown.
    pub driver: Option<String>,
    /// cpuidle's governor, such as `menu`; `None` if there is none or it is unknown.
    pub governor: Option<String>,
    /// Is the driver known, if there is one? It is not in another tool's results.
    pub is_known: bool,
    /// As uname gives it: `x86_64`; `None` if unknown.
    pub architecture: Option<String>,
    /// The number of the CPU that was measured; `None` where the result lacks it.
    pub measured_cpu: Option<u32>,
    /// In the driver's order, which is that of depth; empty if it is unknown.
    pub states: Vec<IdleState>,
    /// The CPUs that the advice holds for.
    pub coverage: Coverage,
}

/// Which CPUs the measured one stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "known_by")]
pub enum Coverage {
    /// The result names one CPU and not what the others are.
    Result,
    /// All of the machine's CPUs are of one kind.
    AllAlike,
    /// The machine has several kinds of core.
    Hybrid {
        /// The kind of core that was measured: `P-core`, ...
        kind: String,
        /// CPUs of the measured one's kind, ascending.
        cpus: Vec<u32>,
        /// The others, of which nothing is known.
        others: Vec<u32>,
        /// The first CPU of each kind among the others.
        one_of_each: Vec<u32>,
    },
}

impl Target {
    /// As the result describes it. `machine` is the machine that it was measured on, where that can
    /// be read: it has the other CPUs, and the table where the result has none.
    pub fn new(description: &Description, machine: Option<(&Identity, &Idle)>) -> Self {
        let mut target = Self {
            driver: description.driver.clone(),
            governor: description.governor.clone(),
            is_known: description.probe != Probe::Foreign || machine.is_some(),
            architecture: description.machine.architecture.clone(),
            measured_cpu: description.settings.cpu,
            states: description.states.clone(),
            coverage: Coverage::Result,
        };
        if let Some((identity, idle)) = machine {
            if target.states.is_empty() {
                target.driver.clone_from(&idle.driver);
                target.governor.clone_from(&idle.governor);
                let cpu = speaks_for(target.measured_cpu, idle);
                target.states = cpu.map(|cpu| cpu.states.clone()).unwrap_or_default();
            }
            if target.architecture.is_none() {
                target.architecture.clone_from(&identity.architecture);
            }
            target.coverage = coverage(idle, target.measured_cpu);
        }
        target
    }

    /// Is it an x86? `None` if unknown.
    pub fn is_x86(&self) -> Option<bool> {
        match (self.architecture.as_deref(), self.driver.as_deref()) {
            (Some(architecture), _) => Some(matches!(architecture, "x86_64" | "i686" | "i386")),
            (None, Some("intel_idle" | "haltpoll")) => Some(true),
            (None, _) => None,
        }
    }

    /// The driver's row of that state.
    pub fn state(&self, name: &str) -> Option<&IdleState> {
        self.states.iter().find(|state| state.name == name)
    }

    /// The driver's state in which the CPU polls and does not sleep.
    pub fn poll(&self) -> Option<&str> {
        let mut names = self.states.iter().map(|state| state.name.as_str());
        names.find(|name| !sleeps(name))
    }

    /// The governor haltpoll ignores disabled states, and every bound but 0.
    /// Source: drivers/cpuidle/governors/haltpoll.c of the kernel.
    pub(crate) fn ignores_states_and_bounds(&self) -> bool {
        self.governor.as_deref() == Some("haltpoll")
    }

    /// The CPUs to set where not all are; `None` stands for all.
    pub fn cpus(&self) -> Option<&[u32]> {
        match &self.coverage {
            Coverage::Hybrid { cpus, .. } => Some(cpus),
            Coverage::Result | Coverage::AllAlike => None,
        }
    }
}

/// The CPU that a result speaks for: the measured one or, where its number is unknown, any on a machine
/// whose CPUs are all of one kind. `None` where there is no such CPU.
pub fn speaks_for(measured: Option<u32>, idle: &Idle) -> Option<&Cpu> {
    match measured {
        Some(number) => idle.cpu(number),
        None => {
            let first = idle.cpus.first()?;
            let all_alike = idle.cpus.iter().all(|cpu| cpu.kind == first.kind);
            all_alike.then_some(first)
        }
    }
}

/// The machine that a result is of: the one at `root`; without it this one, if the result is from here.
///
/// # Errors
/// [`Error::OtherMachine`] where `root` is not that machine, and where it cannot be read.
pub fn machine(loaded: &Loaded, root: Option<&Root>) -> Result<Option<(Identity, Idle)>> {
    let Some(root) = root else {
        let (here, measured) = (
            Identity::read(&Root::default()),
            &loaded.description.machine,
        );
        let is_told = here.hostname.is_some() && here.cpu_model.is_some();
        let is_same = here.hostname == measured.hostname && here.cpu_model == measured.cpu_model;
        let idle = Idle::read(&Root::default()).ok();
        let is_its = |idle: &Idle| is_told && is_same && why_other_machine(loaded, idle).is_none();
        return Ok(idle.filter(is_its).map(|idle| (here, idle)));
    };
    let idle = Idle::read(root)?;
    match why_other_machine(loaded, &idle) {
        Some(other) => Err(Error::OtherMachine(other)),
        None => Ok(Some((Identity::read(root), idle))),
    }
}

/// Why a machine is not the one that the result is of, in words; `None` where it may be. It has the
/// measured CPU, and that CPU has the idle states of the result's table, or those that its datapoints
/// name (the column `requested_state`).
pub fn why_other_machine(loaded: &Loaded, idle: &Idle) -> Option<String> {
    let number = loaded.description.settings.cpu;
    let Some(cpu) = speaks_for(number, idle) else {
        return Some(match number {
            Some(number) => format!("no CPU {number}, which was measured"),
            None => {
                "it has CPUs of several kinds, and which CPU was measured is unknown".to_owned()
            }
        });
    };
    let number = cpu.number;
    let here: Vec<&str> = cpu.states.iter().map(|one| one.name.as_str()).collect();
    let table = &loaded.description.states;
    let there: Vec<&str> = match table.is_empty() {
        false => table.iter().map(|one| one.name.as_str()).collect(),
        true => named(loaded),
    };
    let is_same = match table.is_empty() {
        false => here == there,
        true => there.iter().all(|name| here.contains(name)),
    };
    let list = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    (!is_same).then(|| {
        format!(
            "CPU {number} has other idle states ({}) than the result is of ({})",
            list(&here),
            list(&there)
        )
    })
}

/// The states that datapoints name, without those that are no state of the driver's.
fn named(loaded: &Loaded) -> Vec<&str> {
    let Some((codes, names)) = loaded.columns.names("requested_state") else {
        return Vec::new();
    };
    let occurs = |at: usize| codes.iter().any(|&code| usize::from(code) == at);
    let names = names.iter().enumerate().filter(|(at, _)| occurs(*at));
    let names = names.map(|(_, name)| name.as_str());
    names
        .filter(|name| ![UNKNOWN, reveille_results::schema::AWAKE].contains(name))
        .collect()
}

/// Does a CPU sleep in the state of that name?
pub(crate) fn sleeps(state: &str) -> bool {
    !polls(state) && state != reveille_results::schema::AWAKE
}

fn coverage(idle: &Idle, measured: Option<u32>) -> Coverage {
    let Some(cpu) = speaks_for(measured, idle) else {
        return Coverage::Result;
    };
    let alike = |other: &&Cpu| other.kind == cpu.kind;
    let (same, others): (Vec<_>, Vec<_>) = idle.cpus.iter().partition(alike);
    let mut kinds: Vec<&Cpu> = Vec::new();
    for other in &others {
        if !kinds.iter().any(|one| one.kind == other.kind) {
            kinds.push(other);
        }
    }
    match &cpu.kind {
        Some(kind) if !others.is_empty() => Coverage::Hybrid {
            kind: kind.to_string(),
            one_of_each: kinds.iter().map(|cpu| cpu.number).collect(),
            cpus: same.iter().map(|cpu| cpu.number).collect(),
            others: others.iter().map(|cpu| cpu.number).collect(),
        },
        _ => Coverage::AllAlike,
    }
}

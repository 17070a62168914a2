//! Limits on the idle states that CPUs may use.
//!
//! A limit is planned for each CPU, because a name may have another index or depth, or be missing, on the
//! other kind of core of a hybrid machine. The governors menu, teo and ladder use no disabled state
//! (except the shallowest, if all are disabled); haltpoll ignores limits.
//! Source: drivers/cpuidle/governors/ of the kernel.

mod plan;

use std::fs::OpenOptions;

use serde::Serialize;

use crate::{Cpu, Error, Idle, IdleState, Journal, Result, Root, cpulist};

pub use plan::{LimitedGroup, LimitedState, Plan};

/// Which states CPUs may use, by the states' names in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// This state and what is shallower.
    Deepest(String),
    /// All but these.
    Disable(Vec<String>),
}

/// One state of one CPU, and what its `disable` is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The CPU's number.
    pub cpu: u32,
    /// N of cpuidle's `stateN`.
    pub index: u32,
    /// As the driver calls it: `C6`.
    pub name: String,
    /// What to write into `disable`.
    pub disable: bool,
}

/// What a limit sets on these CPUs, except offline ones, whose settings cannot be written.
///
/// With [`Limit::Deepest`], a CPU without a state of that name is limited by exit latency: to its
/// deepest state that is not deeper than any of that name elsewhere on the machine. A named state
/// that was disabled is enabled, and shallower ones are left as they are.
///
/// # Errors
/// [`Error::Usage`] for an unknown CPU, where all are offline, and for a name that none of these CPUs has;
/// [`Error::Cannot`] if none of them has idle states.
pub fn settings(idle: &Idle, cpus: &[u32], limit: &Limit) -> Result<Vec<Setting>> {
    let mut chosen = Vec::new();
    for &cpu in cpus {
        let there = idle.cpu(cpu);
        chosen.push(there.ok_or_else(|| idle.no_cpu(cpu))?);
    }
    let chosen = Idle::online(&chosen)?;
    if chosen.iter().all(|cpu| cpu.states.is_empty()) {
        let why = "these CPUs have no idle states to limit";
        return Err(Error::Cannot(why.into()));
    }
    match limit {
        Limit::Deepest(name) => {
            a_cpu_has(&chosen, name)?;
            let settings = chosen.iter().map(|cpu| deepest(idle, cpu, name));
            Ok(settings.collect::<Vec<_>>().concat())
        }
        Limit::Disable(names) => {
            names.iter().try_for_each(|name| a_cpu_has(&chosen, name))?;
            let is_named = |state: &&IdleState| names.iter().any(|name| is(state, name));
            let of_cpu = |cpu: &&Cpu| {
                let named = cpu.states.iter().filter(is_named);
                let number = cpu.number;
                named
                    .map(|state| setting(number, state, true))
                    .collect::<Vec<_>>()
            };
            Ok(chosen.iter().flat_map(of_cpu).collect())
        }
    }
}

fn a_cpu_has(cpus: &[&Cpu], name: &str) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for state in cpus.iter().flat_map(|cpu| &cpu.states) {
        if is(state, name) {
            return Ok(());
        }
        if !names.contains(&state.name.as_str()) {
            names.push(&state.name);
        }
    }
    Err(Error::Usage(format!(
        "state {name:?}: no such idle state; these CPUs have {}",
        names.join(", ")
    )))
}

fn deepest(idle: &Idle, cpu: &Cpu, name: &str) -> Vec<Setting> {
    let Some(Deepest { state, how }) = Deepest::of(idle, cpu, name) else {
        return Vec::new();
    };
    let mut settings = up_to(cpu.number, &cpu.states, state.index);
    // If it was not named itself, it stays disabled if it is.
    settings.retain(|setting| setting.disable || how == How::Named);
    settings
}

/// The state at which a limit ends on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deepest<'a> {
    /// The CPU's.
    pub state: &'a IdleState,
    how: How,
}

/// How the state was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Named,
    /// By the exit latency that the named one has on other CPUs.
    WakesNoSlower,
    /// All are slower.
    Shallowest,
}

impl<'a> Deepest<'a> {
    /// The CPU's state of that name, in any case; or else its deepest with at most the exit latency that a state of
    /// that name has elsewhere on the machine; or else its shallowest. `None` for a CPU without states, and for a name that
    /// no CPU's state has.
    pub fn of(idle: &Idle, cpu: &'a Cpu, name: &str) -> Option<Self> {
        if let Some(state) = cpu.states.iter().find(|state| is(state, name)) {
            let how = How::Named;
            return Some(Self { state, how });
        }
        let all = idle.cpus.iter().flat_map(|cpu| &cpu.states);
        let exits = all
            .filter(|state| is(state, name))
            .map(|state| state.exit_latency_us);
        let slowest = exits.max()?;
        let fits = |state: &&IdleState| {
            let exit_and_slowest = state.exit_latency_us.zip(slowest);
            exit_and_slowest.is_some_and(|(exit, slowest)| exit <= slowest)
        };
        let (state, how) = match cpu.states.iter().rfind(fits) {
            Some(state) => (state, How::WakesNoSlower),
            None => (cpu.states.first()?, How::Shallowest),
        };
        Some(Self { state, how })
    }

    /// What stands for the name on these CPUs, if none of their states has it: for the user, without a full stop.
    pub fn note(&self, name: &str, cpus: &[u32]) -> Option<String> {
        let why = match self.how {
            How::Named => return None,
            How::WakesNoSlower => "the deepest there that wakes no slower",
            How::Shallowest => "the shallowest there",
        };
        let exit = self.state.exit_latency_us;
        let exit = exit.map_or_else(String::new, |us| format!(" ({us} µs)"));
        let (cpus, state) = (cpulist::named(cpus), &self.state.name);
        Some(format!("no {name} on {cpus}: {state}{exit} is {why}"))
    }
}

fn is(state: &IdleState, name: &str) -> bool {
    state.name.eq_ignore_ascii_case(name)
}

fn setting(cpu: u32, state: &IdleState, disable: bool) -> Setting {
    Setting {
        cpu,
        index: state.index,
        name: state.name.clone(),
        disable,
    }
}

/// Enables the state at `deepest` and disables what is deeper; shallower ones are left alone.
fn up_to(cpu: u32, states: &[IdleState], deepest: u32) -> Vec<Setting> {
    let from = states.iter().filter(|state| state.index >= deepest);
    from.map(|state| setting(cpu, state, state.index > deepest))
        .collect()
}

/// Applies the settings.
///
/// # Errors
/// [`Error::Cannot`] if this user may not, or a setting is missing or rejects the value; those before it
/// may have been changed, and are in the journal.
pub fn apply(journal: &mut Journal, settings: &[Setting]) -> Result<()> {
    let value = |disable| if disable { "1" } else { "0" };
    let changes = settings
        .iter()
        .map(|setting| (file_of(setting), value(setting.disable).into()));
    let set = journal.set_all(&changes.collect::<Vec<_>>());
    set.map_err(|error| error.by_root(LIMITED))
}

/// Whether this user may limit the CPU's idle states; changes nothing.
///
/// # Errors
/// As [`apply`].
pub fn may_limit(root: &Root, cpu: u32, states: &[IdleState]) -> Result<()> {
    let Some(state) = states.first() else {
        return Ok(());
    };
    let path = root.path(&file_of(&setting(cpu, state, true)));
    let opened = OpenOptions::new().write(true).open(&path);
    let may = opened.map(drop).map_err(Error::at_setting(&path));
    may.map_err(|error| error.by_root(LIMITED))
}

const LIMITED: &str = "idle states can only be limited";

fn file_of(setting: &Setting) -> String {
    let Setting { cpu, index, .. } = setting;
    format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{index}/disable")
}

/// Allows `deepest` on this CPU and disables deeper states, in a way that every governor honours.
/// Shallower states are not changed.
///
/// # Errors
/// As [`apply`].
pub fn allow_up_to(
    journal: &mut Journal,
    root: &Root,
    cpu: u32,
    states: &[IdleState],
    deepest: u32,
) -> Result<()> {
    if poll(states).is_some_and(|poll| poll.index == deepest) {
        // Some governors (haltpoll) ignore disabled states, but none halts if no latency is tolerated.
        match crate::requests::bound_cpus(journal, root, &[cpu], 0) {
            // A kernel without that setting.
            Err(Error::Cannot(_)) if !root.path(&crate::requests::file_of(cpu)).exists() => {}
            other => other?,
        }
    }
    apply(journal, &up_to(cpu, states, deepest))
}

/// The state of that name, in any case.
///
/// # Errors
/// [`Error::Usage`] if the CPU has no such state; it lists the CPU's states.
pub fn by_name<'a>(states: &'a [IdleState], cpu: u32, name: &str) -> Result<&'a IdleState> {
    let found = states.iter().find(|state| is(state, name));
    found.ok_or_else(|| {
        let names: Vec<_> = states.iter().map(|state| state.name.as_str()).collect();
        Error::Usage(match names.is_empty() {
            true => format!(
                "state {name:?}: CPU {cpu} has no idle states to choose from (no cpuidle driver); \
                 measure without --state"
            ),
            false => format!(
                "state {name:?}: no such idle state; CPU {cpu} has {}",
                names.join(", ")
            ),
        })
    })
}

/// The poll state: cpuidle's state 0, if it [polls](crate::polls).
pub fn poll(states: &[IdleState]) -> Option<&IdleState> {
    states
        .iter()
        .find(|state| state.index == 0 && crate::polls(&state.name))
}

#[cfg(test)]
mod tests;

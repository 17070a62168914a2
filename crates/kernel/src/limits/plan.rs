//! The settings of a limit, the states before and under it, and notes for the user.

use serde::Serialize;

use super::{Deepest, Limit, Setting, settings};
use crate::boot::WithoutDriver;
use crate::groups::{self, Group};
use crate::{Cpu, Error, Idle, IdleState, Result, Root, bounds, cpulist, pm_qos};

/// An idle state before and under the limit.
#[derive(Debug, Serialize)]
pub struct LimitedState {
    /// N of cpuidle's `stateN`.
    pub index: u32,
    /// As the driver calls it: `C6`.
    pub name: String,
    /// The driver's figure, µs; `None` where it gives none.
    pub exit_latency_us: Option<u64>,
    /// Before the limit; `None` where the kernel has no such setting.
    pub was_disabled: Option<bool>,
    /// While the limit holds.
    pub disabled: Option<bool>,
    /// A latency bound in force rules it out, whatever the limit leaves.
    pub ruled_out: bool,
}

/// CPUs that are alike.
#[derive(Debug, Serialize)]
pub struct LimitedGroup {
    /// Ascending.
    pub cpus: Vec<u32>,
    /// The same as a list: `0-3,8`.
    pub cpu_list: String,
    /// `None` where the machine has one kind of core.
    pub core_kind: Option<String>,
    /// The tightest latency bound on these CPUs, µs; `None` where there is none, or this user may not see it.
    pub in_force_us: Option<u32>,
    /// In the driver's order.
    pub states: Vec<LimitedState>,
}

/// What a limit changes.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The online CPUs of the limit.
    pub groups: Vec<LimitedGroup>,
    /// For [`super::apply`].
    pub settings: Vec<Setting>,
    /// Notes for the user, a sentence each without its full stop.
    pub notes: Vec<String>,
    /// Why disabling states has no effect here, and what does.
    #[serde(skip)]
    pub without_effect: Option<&'static str>,
}

impl Plan {
    /// Plans the limit on these CPUs; offline ones are left out, with a note.
    ///
    /// # Errors
    /// As [`settings`]; [`Error::Cannot`] without a cpuidle driver.
    pub fn of(root: &Root, idle: &Idle, cpus: &[u32], limit: &Limit) -> Result<Self> {
        if let Some(without) = WithoutDriver::of(idle, root) {
            let instead = match without.polls {
                true => "idle CPUs poll here already",
                false => "`reveille hold --latency 0` keeps CPUs awake here",
            };
            return Err(Error::Cannot(format!(
                "no idle states to limit (no cpuidle driver: {}); {instead}",
                without.reason
            )));
        }
        let settings = settings(idle, cpus, limit)?;
        let chosen: Vec<&Cpu> = cpus.iter().filter_map(|&cpu| idle.cpu(cpu)).collect();
        let online = chosen.iter().copied().filter(|cpu| cpu.online);
        let request_us = match root.is_live() {
            true => pm_qos::current_bound_us().ok().flatten(),
            false => None,
        };
        let limited = |group: &Group| {
            let first = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
            let in_force_us = first.and_then(|cpu| bounds::in_force_us(cpu, request_us));
            limited(group, &settings, in_force_us, idle.governor.as_deref())
        };
        let groups = groups::alike(online).iter().map(limited).collect();
        let mut plan = Self {
            groups,
            settings,
            notes: Vec::new(),
            without_effect: (idle.governor.as_deref() == Some("haltpoll")).then_some(
                "the governor haltpoll ignores disabled states, so the limit has no effect; \
                 `reveille hold --latency 0` keeps the CPUs from sleeping",
            ),
        };
        plan.note_offline(&chosen);
        plan.note_lacking(idle, limit);
        plan.note_enabled();
        plan.note_all_disabled();
        let without_effect = plan.without_effect.map(str::to_owned);
        plan.notes.extend(without_effect);
        Ok(plan)
    }

    fn note_offline(&mut self, chosen: &[&Cpu]) {
        let offline = chosen.iter().filter(|cpu| !cpu.online);
        let offline: Vec<u32> = offline.map(|cpu| cpu.number).collect();
        if !offline.is_empty() {
            let offline = cpulist::format(&offline);
            self.notes
                .push(format!("offline, so not limited: {offline}"));
        }
    }

    /// Names that only some of the CPUs have.
    fn note_lacking(&mut self, idle: &Idle, limit: &Limit) {
        let names = match limit {
            Limit::Deepest(name) => std::slice::from_ref(name),
            Limit::Disable(names) => names,
        };
        for name in names {
            for group in &self.groups {
                let has = |state: &LimitedState| state.name.eq_ignore_ascii_case(name);
                if group.states.iter().any(has) {
                    continue;
                }
                let first = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
                let first = first.filter(|_| matches!(limit, Limit::Deepest(_)));
                let instead = first.and_then(|cpu| Deepest::of(idle, cpu, name));
                let instead = instead.and_then(|instead| instead.note(name, &group.cpus));
                self.notes.push(instead.unwrap_or_else(|| {
                    let cpus = cpulist::named(&group.cpus);
                    format!("no {name} on {cpus}: nothing to disable there")
                }));
            }
        }
    }

    fn note_enabled(&mut self) {
        for group in &self.groups {
            let enabled = |state: &&LimitedState| {
                state.was_disabled == Some(true) && state.disabled == Some(false)
            };
            for state in group.states.iter().filter(enabled) {
                self.notes.push(format!(
                    "{} was disabled on {}; the limit enables it",
                    state.name,
                    cpulist::named(&group.cpus)
                ));
            }
        }
    }

    fn note_all_disabled(&mut self) {
        let is_off = |state: &LimitedState| state.disabled == Some(true);
        let all_off = |group: &LimitedGroup| group.states.iter().all(is_off);
        let groups = || self.groups.iter().filter(|group| !group.states.is_empty());
        let first = |group: &&LimitedGroup| group.states.first().is_some_and(is_off);
        if groups().any(all_off) {
            self.notes.push(
                "where all states are disabled, the kernel still uses the shallowest one".into(),
            );
            return;
        }
        let polling = groups().filter(first).map(|group| &group.states[0].name);
        if let Some(name) = polling.into_iter().find(|name| crate::polls(name)) {
            self.notes.push(format!(
                "without {name}, CPUs enter the next state even for the shortest idle periods"
            ));
        }
    }
}

/// A group's states before and under the limit.
fn limited(
    group: &Group,
    settings: &[Setting],
    in_force_us: Option<u32>,
    governor: Option<&str>,
) -> LimitedGroup {
    let mut under = group.states.clone();
    for state in &mut under {
        let mut set = settings.iter();
        let set =
            set.find(|setting| group.cpus.contains(&setting.cpu) && setting.index == state.index);
        state.disabled = set.map_or(state.disabled, |setting| Some(setting.disable));
    }
    let beyond = in_force_us.map(|us| bounds::ruled_out(&under, us, governor));
    let beyond: Vec<u32> = beyond.into_iter().flatten().map(|one| one.index).collect();
    let state = |(was, state): (&IdleState, &IdleState)| LimitedState {
        index: state.index,
        name: state.name.clone(),
        exit_latency_us: state.exit_latency_us,
        was_disabled: was.disabled,
        disabled: state.disabled,
        ruled_out: beyond.contains(&state.index),
    };
    LimitedGroup {
        cpus: group.cpus.clone(),
        cpu_list: cpulist::format(&group.cpus),
        core_kind: group.kind.as_ref().map(ToString::to_string),
        in_force_us,
        states: group.states.iter().zip(&under).map(state).collect(),
    }
}

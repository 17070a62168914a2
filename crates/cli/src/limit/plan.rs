//! What a limit sets on which CPUs, and what a user should know of it.

use reveille_kernel::boot::WithoutDriver;
use reveille_kernel::groups;
use reveille_kernel::limits::{self, Limit, Setting};
use reveille_kernel::{Cpu, Idle, IdleState, Root, cpulist};
use serde::Serialize;

use crate::chosen;
use crate::exit::Failure;

#[derive(Debug, Serialize)]
pub struct State {
    pub index: u32,
    pub name: String,
    pub exit_latency_us: Option<u64>,
    pub was_disabled: Option<bool>,
    /// While the limit holds.
    pub disabled: Option<bool>,
}

/// CPUs that are alike.
#[derive(Debug, Serialize)]
pub struct Group {
    pub cpus: Vec<u32>,
    pub cpu_list: String,
    pub core_kind: Option<String>,
    pub states: Vec<State>,
}

#[derive(Debug, Serialize)]
pub struct Plan {
    pub groups: Vec<Group>,
    pub settings: Vec<Setting>,
    pub notes: Vec<String>,
}

impl Plan {
    pub fn make(root: &Root, idle: &Idle, cpus: &[u32], limit: &Limit) -> anyhow::Result<Self> {
        if let Some(without) = WithoutDriver::of(idle, root) {
            return Err(Failure::cannot(format!(
                "there are no idle states to limit (no cpuidle driver: {}); `reveille hold \
                 --latency 0` keeps CPUs awake here",
                without.reason
            )));
        }
        let settings = limits::plan(idle, cpus, limit)?;
        let chosen: Vec<&Cpu> = cpus.iter().filter_map(|&cpu| idle.cpu(cpu)).collect();
        let online = chosen.iter().copied().filter(|cpu| cpu.online);
        let groups: Vec<Group> = groups::alike(online)
            .iter()
            .map(|group| limited(group, &settings))
            .collect();
        let mut plan = Self {
            groups,
            settings,
            notes: Vec::new(),
        };
        plan.say_offline(&chosen);
        plan.say_lacking(idle, limit);
        plan.say_enabled();
        plan.say_disabled_altogether();
        plan.notes.extend(without_effect(idle).map(str::to_owned));
        Ok(plan)
    }

    fn say_offline(&mut self, chosen: &[&Cpu]) {
        let offline = chosen.iter().filter(|cpu| !cpu.online);
        let offline: Vec<u32> = offline.map(|cpu| cpu.number).collect();
        if !offline.is_empty() {
            let offline = cpulist::format(&offline);
            self.notes
                .push(format!("offline, so not limited: {offline}"));
        }
    }

    /// Names that only some of the CPUs have.
    fn say_lacking(&mut self, idle: &Idle, limit: &Limit) {
        let names = match limit {
            Limit::Deepest(name) => std::slice::from_ref(name),
            Limit::Disable(names) => names,
        };
        for name in names {
            for group in &self.groups {
                let has = |state: &State| state.name.eq_ignore_ascii_case(name);
                if group.states.iter().any(has) {
                    continue;
                }
                let cpus = chosen::named(&group.cpus);
                let first = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
                let instead = first.and_then(|cpu| limits::not_deeper(idle, cpu, name));
                self.notes.push(match (limit, instead) {
                    (Limit::Deepest(_), Some(instead)) => format!(
                        "no {name} on {cpus}: {}{} is the deepest there that wakes no slower",
                        instead.name,
                        exit(instead)
                    ),
                    _ => format!("no {name} on {cpus}: nothing to disable there"),
                });
            }
        }
    }

    fn say_enabled(&mut self) {
        for group in &self.groups {
            let enabled =
                |state: &&State| state.was_disabled == Some(true) && state.disabled == Some(false);
            for state in group.states.iter().filter(enabled) {
                self.notes.push(format!(
                    "{} was off on {} and is on while this lasts",
                    state.name,
                    chosen::named(&group.cpus)
                ));
            }
        }
    }

    fn say_disabled_altogether(&mut self) {
        let is_off = |state: &State| state.disabled == Some(true);
        let all_off = |group: &Group| group.states.iter().all(is_off);
        let groups = || self.groups.iter().filter(|group| !group.states.is_empty());
        let first = |group: &&Group| group.states.first().is_some_and(is_off);
        if groups().any(all_off) {
            self.notes.push(
                "where all states are disabled, the kernel uses the shallowest one all the same"
                    .into(),
            );
        } else if groups().any(|group| first(&group) && group.states[0].name == "POLL") {
            self.notes.push(
                "without POLL, CPUs enter the next state even for the shortest idle periods".into(),
            );
        }
    }
}

/// Why disabling states changes nothing here, and what would.
pub fn without_effect(idle: &Idle) -> Option<&'static str> {
    (idle.governor.as_deref() == Some("haltpoll")).then_some(
        "the governor haltpoll does not look at disabled states, so this has no effect under it; \
         `reveille hold --latency 0` does",
    )
}

fn exit(state: &IdleState) -> String {
    let exit = state.exit_latency_us;
    exit.map_or_else(String::new, |us| format!(" ({us} µs)"))
}

/// A group's states before and under the limit.
fn limited(group: &groups::Group, settings: &[Setting]) -> Group {
    let state = |state: &IdleState| {
        let set = settings
            .iter()
            .find(|setting| group.cpus.contains(&setting.cpu) && setting.index == state.index);
        State {
            index: state.index,
            name: state.name.clone(),
            exit_latency_us: state.exit_latency_us,
            was_disabled: state.disabled,
            disabled: set.map_or(state.disabled, |setting| Some(setting.disable)),
        }
    };
    Group {
        cpus: group.cpus.clone(),
        cpu_list: cpulist::format(&group.cpus),
        core_kind: group.kind.as_ref().map(ToString::to_string),
        states: group.states.iter().map(state).collect(),
    }
}

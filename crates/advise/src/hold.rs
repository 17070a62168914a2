//! A latency bound: the request to the kernel, and the idle states that it leaves.

use std::collections::BTreeSet;

use reveille_kernel::boot::WithoutDriver;
pub use reveille_kernel::bounds::Effect;
use reveille_kernel::groups::{self, Group};
use reveille_kernel::requests::{self, Request};
use reveille_kernel::{
    Awake, Cpu, Error, Identity, Idle, Journal, Root, bounds, cpulist, limits, pm_qos,
};
use serde::Serialize;

use crate::{Advice, MachineResult, Standing, StateAdvice, Unfit};

/// What the user asks for.
pub struct Options<'a> {
    /// The longest wake latency, µs; 0: no sleep.
    pub bound_us: u32,
    /// Ascending.
    pub cpus: &'a [u32],
    /// They are all CPUs of the machine: one request does.
    pub all: bool,
    /// Judge states by what was measured.
    pub result: Option<&'a MachineResult>,
}

/// The kernel's interface for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Through {
    /// `/dev/cpu_dma_latency`, for all CPUs.
    #[serde(rename = "cpu_dma_latency")]
    Device,
    /// `power/pm_qos_resume_latency_us` of each CPU.
    #[serde(rename = "pm_qos_resume_latency_us")]
    EachCpu,
}

/// An idle state under the bound.
#[derive(Debug, Serialize)]
pub struct HeldState {
    /// N of cpuidle's `stateN`.
    pub index: u32,
    /// As the driver calls it: `C6`.
    pub name: String,
    /// The driver's figure, µs; `None` where it gives none.
    pub exit_latency_us: Option<u64>,
    /// The percentile of measured wake latencies, ns; `None` without enough datapoints.
    pub measured_ns: Option<i64>,
    /// `None` where it was not measured.
    pub datapoints: Option<u64>,
    /// What the bounds in force do to it.
    #[serde(rename = "fate")]
    pub effect: Effect,
}

/// CPUs that are alike.
#[derive(Debug, Serialize)]
pub struct HeldGroup {
    /// Ascending.
    pub cpus: Vec<u32>,
    /// The same as a list: `0-3,8`.
    pub cpu_list: String,
    /// `None` where the machine has one kind of core.
    pub core_kind: Option<String>,
    /// The tightest of all bounds on these CPUs, this one among them, µs.
    pub in_force_us: u32,
    /// In the driver's order.
    pub states: Vec<HeldState>,
}

/// How a latency bound is held, and its effect.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The bound that the user asks for, µs.
    pub bound_us: u32,
    /// What the kernel is asked for, µs: another figure where a result calls for it.
    pub request_us: u32,
    /// `None` if nothing honours requests.
    pub through: Option<Through>,
    /// Is it for all CPUs of the machine?
    pub all: bool,
    /// The online CPUs, ascending.
    pub cpus: Vec<u32>,
    /// CPUs that a thread on each keeps from sleeping.
    #[serde(rename = "kept_awake_cpus")]
    pub kept_awake: Vec<u32>,
    /// The result's path.
    pub result: Option<String>,
    /// `p99.9`.
    pub percentile: Option<&'static str>,
    /// Empty if nothing honours requests.
    pub groups: Vec<HeldGroup>,
    /// What a user should know, a sentence each without its full stop.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans the bound; offline CPUs are left out, with a note.
    ///
    /// # Errors
    /// [`Error::Usage`] where all CPUs are offline, [`Error::Cannot`] where nothing here keeps to the bound; [`Unfit`]
    /// where the result does not judge these CPUs, or shows no setting that meets the bound.
    pub fn of(root: &Root, idle: &Idle, options: &Options) -> Result<Self, Unfit> {
        let chosen: Vec<&Cpu> = options
            .cpus
            .iter()
            .filter_map(|&cpu| idle.cpu(cpu))
            .collect();
        let online = Idle::online(&chosen)?;
        let mut plan = Self {
            bound_us: options.bound_us,
            request_us: options.bound_us,
            through: None,
            all: options.all,
            cpus: numbers(&online),
            kept_awake: Vec::new(),
            result: options.result.map(|measured| measured.name.clone()),
            percentile: options.result.map(|measured| measured.percentile.name()),
            groups: Vec::new(),
            notes: Vec::new(),
        };
        if online.len() < chosen.len() && !options.all {
            let offline: Vec<&Cpu> = chosen.into_iter().filter(|cpu| !cpu.online).collect();
            let offline = cpulist::format(&numbers(&offline));
            plan.notes.push(format!("offline, so not held: {offline}"));
        }
        if requests::honoured(idle) {
            plan.by_request(root, idle, options, &online)?;
        } else {
            plan.without_driver(root, idle)?;
        }
        // Groups that differ in their bound only have the same notes.
        let mut seen = BTreeSet::new();
        plan.notes.retain(|note| seen.insert(note.clone()));
        Ok(plan)
    }

    /// Holds the bound until the value is dropped; CPUs' own bounds, until the journal is restored.
    ///
    /// # Errors
    /// [`Error::Cannot`] where this user may not, or the kernel does not take the bound.
    pub fn hold(
        &self,
        journal: &mut Journal,
        root: &Root,
    ) -> Result<(Option<Request>, Awake), Error> {
        let request = match self.through {
            Some(Through::Device) => Some(Request::hold(self.request_us)?),
            Some(Through::EachCpu) => {
                requests::bound_cpus(journal, root, &self.cpus, self.request_us)?;
                None
            }
            None => None,
        };
        Ok((request, Awake::keep(&self.kept_awake)?))
    }

    /// A driver and a governor choose states by the bound.
    fn by_request(
        &mut self,
        root: &Root,
        idle: &Idle,
        options: &Options,
        online: &[&Cpu],
    ) -> Result<(), Unfit> {
        let groups = groups::alike(online.iter().copied());
        let identity = Identity::read(root);
        if let Some(measured) = options.result {
            self.notes.extend(measured.notes(&identity));
            self.request_us = self.request_by_result(&groups, idle, measured)?;
        }
        if !requests::is_kept_to(idle, self.request_us) {
            let why = format!(
                "--latency: the governor haltpoll ignores all bounds but 0, so {} µs \
                 would have no effect; `reveille hold --latency 0` keeps the CPUs from sleeping",
                self.request_us
            );
            return Err(Error::Cannot(why).into());
        }
        self.through = Some(match options.all {
            true => Through::Device,
            false => Through::EachCpu,
        });
        // Zero makes governors choose the shallowest state: a sleep where there is none that polls.
        if self.request_us == 0 {
            let sleeps = online
                .iter()
                .filter(|cpu| limits::poll(&cpu.states).is_none());
            self.kept_awake = sleeps.map(|cpu| cpu.number).collect();
        }
        let held = self.held_by_others(root);
        self.note_own_bounds(&groups, idle);
        let under_bound = |group: &Group| self.under_bound(group, idle, options.result, held);
        self.groups = groups.iter().map(under_bound).collect();
        self.note_kept_awake();
        Ok(())
    }

    /// Takes CPUs out on which nothing is held after all, with a note.
    pub fn leave_out(&mut self, cpus: &[u32], note: String) {
        let stays = |cpu: &u32| !cpus.contains(cpu);
        self.cpus.retain(stays);
        for group in &mut self.groups {
            group.cpus.retain(stays);
            group.cpu_list = cpulist::format(&group.cpus);
        }
        self.groups.retain(|group| !group.cpus.is_empty());
        self.all = false;
        self.notes.push(note);
    }

    /// Nothing honours bounds: threads can still prevent all sleep.
    fn without_driver(&mut self, root: &Root, idle: &Idle) -> Result<(), Error> {
        let without = WithoutDriver::of(idle, root);
        if without.as_ref().is_some_and(|without| without.polls) {
            self.notes
                .push("idle CPUs poll here already; nothing to hold".into());
            return Ok(());
        }
        if self.bound_us > 0 {
            let why = without.map_or_else(
                || "no governor chooses idle states".to_owned(),
                |without| format!("no cpuidle driver: {}", without.reason),
            );
            return Err(Error::Cannot(format!(
                "--latency: latency bounds have no effect here ({why}); only --latency 0 works, by \
                 threads that keep the CPUs awake"
            )));
        }
        self.kept_awake = self.cpus.clone();
        self.note_kept_awake();
        Ok(())
    }

    fn note_kept_awake(&mut self) {
        if self.kept_awake.is_empty() {
            return;
        }
        let why = match self.through {
            Some(_) => "no state polls there",
            None => "latency bounds have no effect here",
        };
        let cpus = cpulist::named(&self.kept_awake);
        self.notes.push(format!(
            "{why}: {cpus} kept awake by a thread of idle priority on each"
        ));
    }

    /// The request that leaves exactly the states within the bound: by measurement on CPUs of the measured kind,
    /// by the driver's figures on others.
    fn request_by_result(
        &mut self,
        groups: &[Group],
        idle: &Idle,
        measured: &MachineResult,
    ) -> Result<u32, Unfit> {
        let is_of = |group: &Group| measured.is_of(group.kind.as_ref(), &group.states);
        if !groups.iter().any(is_of) {
            return Err(Unfit::OtherKind {
                result: measured.name.clone(),
                cpu: measured.cpu(),
            });
        }
        let mut states = Vec::new();
        for group in groups {
            let notes = &mut self.notes;
            let (judged, advice) = within(group, idle, Some(measured), self.bound_us, notes)?;
            if let Some(why) = advice.as_ref().and_then(Advice::why_nothing) {
                return Err(Unfit::NothingMeets(why));
            }
            states.extend(judged);
        }
        Ok(request_for(self.bound_us, &states))
    }

    /// CPUs whose own bound is tighter: it stays as it is.
    fn note_own_bounds(&mut self, groups: &[Group], idle: &Idle) {
        for group in groups {
            let first = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
            let own = first.and_then(|cpu| bounds::in_force_us(cpu, None));
            if let Some(own) = own.filter(|&own| own < self.request_us) {
                self.notes.push(format!(
                    "{}: already bound to {own} µs by their own setting, which is tighter",
                    cpulist::named(&group.cpus)
                ));
            }
        }
    }

    /// The bound of other processes, with a note if it is tighter.
    fn held_by_others(&mut self, root: &Root) -> Option<u32> {
        if !root.is_live() {
            return None;
        }
        let held = pm_qos::current_bound_us().ok().flatten()?;
        if held < self.request_us {
            let holders = pm_qos::holders(&root.path("proc")).map(|(holders, _)| holders);
            let names = holders.unwrap_or_default();
            let names: Vec<String> = names
                .iter()
                .map(|holder| format!("{} ({})", holder.name, holder.pid))
                .collect();
            let by = match names.is_empty() {
                true => String::new(),
                false => format!(", by {}", names.join(", ")),
            };
            self.notes.push(format!(
                "a tighter bound of {held} µs already holds for all CPUs{by}"
            ));
        }
        Some(held)
    }

    fn under_bound(
        &self,
        group: &Group,
        idle: &Idle,
        measured: Option<&MachineResult>,
        held: Option<u32>,
    ) -> HeldGroup {
        let first = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
        let others = first.and_then(|cpu| bounds::in_force_us(cpu, held));
        let in_force_us = others.unwrap_or(u32::MAX).min(self.request_us);
        let measured =
            measured.filter(|measured| measured.is_of(group.kind.as_ref(), &group.states));
        let governor = idle.governor.as_deref();
        let mut effects = bounds::effects(&group.states, in_force_us, governor);
        // The bound leaves the shallowest state; the thread does not.
        if group.cpus.iter().all(|cpu| self.kept_awake.contains(cpu)) {
            let left = effects.iter_mut().filter(|one| **one == Effect::Left);
            left.for_each(|one| *one = Effect::Stopped);
        }
        let states = group.states.iter().zip(effects);
        let states = states.map(|(state, effect)| {
            let figure = measured.and_then(|measured| measured.of_state(&state.name));
            HeldState {
                index: state.index,
                name: state.name.clone(),
                exit_latency_us: state.exit_latency_us,
                measured_ns: figure.and_then(|figure| figure.latency_ns),
                datapoints: figure.map(|figure| figure.datapoints),
                effect,
            }
        });
        HeldGroup {
            cpus: group.cpus.clone(),
            cpu_list: cpulist::format(&group.cpus),
            core_kind: group.kind.as_ref().map(ToString::to_string),
            in_force_us,
            states: states.collect(),
        }
    }
}

fn numbers(cpus: &[&Cpu]) -> Vec<u32> {
    cpus.iter().map(|cpu| cpu.number).collect()
}

/// What CPUs that are alike are asked for, so that they wake within a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What the kernel is asked for, µs.
    pub request_us: u32,
    /// States that can be entered under it.
    pub leaves: Vec<String>,
    /// States that it stops; where there are none, nothing has to be asked.
    pub stops: Vec<String>,
    /// It is judged by the result, and not by the driver's table.
    pub by_result: bool,
    /// Why no setting is shown to meet the bound: then nothing is asked.
    pub unmet: Option<String>,
    /// What a user should know, a sentence each without its full stop.
    pub notes: Vec<String>,
}

/// The request that leaves exactly the states within the bound, µs, on CPUs that are alike: by the result if
/// it is of such CPUs. The governor haltpoll, which honours only 0, is asked for 0 where a state exceeds the
/// bound.
///
/// # Errors
/// As [`MachineResult::judge`].
pub fn asked(
    group: &Group,
    idle: &Idle,
    result: Option<&MachineResult>,
    bound_us: u32,
) -> Result<Asked, Unfit> {
    let mut notes = Vec::new();
    let result = result.filter(|result| result.is_of(group.kind.as_ref(), &group.states));
    let (states, advice) = within(group, idle, result, bound_us, &mut notes)?;
    let mut unmet = advice.as_ref().and_then(Advice::why_nothing);
    let mut request_us = match result {
        Some(_) => request_for(bound_us, &states),
        None => bound_us,
    };
    let those = |request_us, wanted| {
        let effects = bounds::effects(&group.states, request_us, idle.governor.as_deref());
        let states = group.states.iter().zip(effects);
        let states = states.filter(|(_, effect)| *effect == wanted);
        states
            .map(|(state, _)| state.name.clone())
            .collect::<Vec<_>>()
    };
    let is_kept_to = requests::is_kept_to(idle, request_us);
    if unmet.is_none() && !is_kept_to && !those(request_us, Effect::Stopped).is_empty() {
        let ignores = "the governor haltpoll ignores all bounds but 0";
        let why = advice.and_then(|advice| advice.without_sleep.why_not(&advice.question));
        unmet = why.map(|why| format!("{ignores}, and {why}"));
        if unmet.is_none() {
            notes.push(format!("{ignores}: 0 is held instead of {request_us} µs"));
            request_us = 0;
        }
    }
    if let Some(why) = unmet {
        notes.push(format!("{why}; nothing is held for it"));
        let names = group.states.iter().map(|state| state.name.clone());
        return Ok(Asked {
            request_us: bound_us,
            leaves: names.collect(),
            stops: Vec::new(),
            by_result: true,
            unmet: Some(why),
            notes,
        });
    }
    Ok(Asked {
        request_us,
        leaves: those(request_us, Effect::Left),
        stops: those(request_us, Effect::Stopped),
        by_result: result.is_some(),
        unmet: None,
        notes,
    })
}

/// Of each state the exit latency, µs, and whether it is within the bound.
type Judged = Vec<(u64, bool)>;

/// The states by the result, with its advice, if it is of such CPUs; else by the driver's table.
fn within(
    group: &Group,
    idle: &Idle,
    measured: Option<&MachineResult>,
    bound_us: u32,
    notes: &mut Vec<String>,
) -> Result<(Judged, Option<Advice>), Unfit> {
    let exits = group
        .states
        .iter()
        .filter_map(|state| state.exit_latency_us);
    let by_table = || exits.map(|exit| (exit, exit <= u64::from(bound_us)));
    let Some(measured) = measured else {
        return Ok((by_table().collect(), None));
    };
    if !measured.is_of(group.kind.as_ref(), &group.states) {
        notes.push(format!(
            "{}: of another kind than the measured one; the driver's figures are used there",
            cpulist::named(&group.cpus)
        ));
        return Ok((by_table().collect(), None));
    }
    let advice = measured.judge(&group.states, idle, bound_us)?;
    if let Some(end) = advice.decision.open() {
        notes.push(format!(
            "{} and deeper states are not left: {}",
            end.state,
            end.why(&advice.question)
        ));
    }
    let is_on = |state: &&StateAdvice| state.standing != Standing::Off;
    let judged = advice.states.iter().filter(is_on);
    let judged = judged.filter_map(|one| Some((one.driver_exit_latency_us?, one.allowed)));
    Ok((judged.collect(), Some(advice)))
}

/// The request, µs, that leaves states within the bound, up to the first that exceeds it by the driver's
/// figure, which the kernel compares. `states`: each state's exit latency, µs, and whether it is within the bound.
fn request_for(bound_us: u32, states: &[(u64, bool)]) -> u32 {
    let beyond = states.iter().filter(|(_, within)| !within);
    let first_beyond = beyond.map(|&(exit, _)| exit).min();
    let fits = |exit: u64| first_beyond.is_none_or(|beyond| exit < beyond);
    let deepest = states.iter().map(|&(exit, _)| exit);
    let deepest = deepest.filter(|&exit| fits(exit)).max().unwrap_or(0);
    match u64::from(bound_us) {
        bound if bound >= deepest && fits(bound) => bound_us,
        _ => u32::try_from(deepest).unwrap_or(bound_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_bound_unless_measured_latencies_differ() {
        // C6 is slower than its figure of 133 µs: for a bound of 200 µs the request is lower.
        let slow = [(0, true), (2, true), (10, true), (133, false)];
        assert_eq!(request_for(200, &slow), 10);
        // It is quicker: a bound of 100 µs allows a higher request.
        let quick = [(0, true), (2, true), (10, true), (133, true)];
        assert_eq!(request_for(100, &quick), 133);
        // The figures agree with the table: no note.
        assert_eq!(request_for(100, &slow), 100);
        assert_eq!(request_for(500, &quick), 500);
    }

    #[test]
    fn a_state_below_a_slow_one_is_unreachable() {
        assert_eq!(request_for(50, &[(0, true), (2, false), (10, true)]), 0);
        // No request separates two states with one figure.
        assert_eq!(
            request_for(50, &[(0, true), (10, true), (10, false), (30, true)]),
            0
        );
    }

    #[test]
    fn without_states_the_request_is_the_bound() {
        assert_eq!(request_for(50, &[]), 50);
    }
}

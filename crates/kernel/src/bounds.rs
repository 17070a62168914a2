//! What keeps CPUs from deep idle states, and its holders: requests, per-CPU latencies, disabled states,
//! the kernel's command line.

use serde::Serialize;

use crate::pm_qos::Holder;
use crate::{Cpu, Idle, IdleState, Root, boot, cpulist};

/// Something that keeps CPUs from deep states.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// How it is set.
    pub kind: BoundKind,
    /// The CPUs that it concerns; empty: all.
    pub cpus: Vec<u32>,
    /// The latency that is still allowed, µs; `None` where it names states, or is unknown.
    pub bound_us: Option<u32>,
    /// The states that it rules out, by the driver's exit latencies.
    pub rules_out: Vec<String>,
    /// The process that holds it, if any.
    pub pid: Option<u32>,
    /// `comm` of that process, at most 15 characters.
    pub name: Option<String>,
    /// Its command line; empty for one that has none.
    pub command: Option<String>,
    /// All of it in a sentence.
    pub text: String,
}

/// How CPUs can be kept from deep states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    /// The lowest of the requests held through `/dev/cpu_dma_latency`, `/dev/cpu_wakeup_latency` or by drivers: the
    /// bound itself, or a process that has a device open (the kernel does not report its own figure).
    Request,
    /// `power/pm_qos_resume_latency_us` of a CPU.
    PerCpu,
    /// States that are disabled.
    DisabledState,
    /// A parameter on the kernel's command line.
    CommandLine,
}

/// All that keeps the CPUs of `idle` from deep states. `request_us` and `holders` are the bound on
/// all CPUs and who has its device open ([`crate::pm_qos`]).
pub fn of(idle: &Idle, root: &Root, request_us: Option<u32>, holders: &[Holder]) -> Vec<Bound> {
    let mut bounds: Vec<Bound> = request_us.map(|us| request(idle, us)).into_iter().collect();
    bounds.extend(holders.iter().map(holder));
    bounds.extend(per_cpu(idle));
    bounds.extend(disabled(idle));
    let command_line = root.text("proc/cmdline").unwrap_or_default();
    bounds.extend(boot::settings(&command_line).iter().map(|setting| {
        let text = format!("{setting} on the command line: {}", setting.meaning);
        plain(BoundKind::CommandLine, text)
    }));
    bounds
}

/// The lowest latency bound that holds for a CPU, µs; `None` where there is none. 0 means no
/// idle state at all but polling.
/// Source: `cpuidle_governor_latency_req()` of the kernel takes the lower one of the two.
pub fn in_force_us(cpu: &Cpu, request_us: Option<u32>) -> Option<u32> {
    [cpu.resume_latency_us.and_then(own_us), request_us]
        .into_iter()
        .flatten()
        .min()
}

/// What a bound does to a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It can be entered.
    Left,
    /// It is not entered.
    Stopped,
    /// It is disabled, with or without the bound.
    Disabled,
    /// The driver gives no exit latency.
    Unknown,
}

/// What a bound does to each state of a CPU. Where no enabled state is within it, governors take the
/// shallowest enabled one all the same; with a bound of 0 they take state 0, disabled or not.
pub fn effects(states: &[IdleState], bound_us: u32, governor: Option<&str>) -> Vec<Effect> {
    let effect = |(state, is_beyond): (&IdleState, bool)| match state.exit_latency_us {
        _ if is_shallowest(states, state, bound_us) => Effect::Left,
        _ if state.disabled == Some(true) => Effect::Disabled,
        _ if is_beyond => Effect::Stopped,
        None => Effect::Unknown,
        Some(_) => Effect::Left,
    };
    let beyond = beyond(states, bound_us, governor);
    states.iter().zip(beyond).map(effect).collect()
}

/// The states of a CPU that a bound rules out, disabled ones among them.
pub fn ruled_out<'a>(
    states: &'a [IdleState],
    bound_us: u32,
    governor: Option<&str>,
) -> impl Iterator<Item = &'a IdleState> {
    let beyond = beyond(states, bound_us, governor);
    let beyond = states
        .iter()
        .zip(beyond)
        .filter(|(_, is_beyond)| *is_beyond);
    beyond.map(|(state, _)| state)
}

/// The bound, µs, that leaves this state and the shallower ones; `None` where the driver gives it no exit latency. 0
/// leaves nothing but state 0.
pub fn that_leaves(states: &[IdleState], deepest: &IdleState) -> Option<u32> {
    let up_to = states.iter().filter(|state| state.index <= deepest.index);
    let longest = up_to.filter_map(|state| state.exit_latency_us).max();
    let least = u64::from(deepest.index > 0);
    let exit = deepest.exit_latency_us.and(longest)?.max(least);
    u32::try_from(exit).ok()
}

/// The state that governors fall back to although the bound rules it out: it takes longer, or sleeps where a bound of 0
/// tolerates no sleep.
pub fn entered_all_the_same(states: &[IdleState], bound_us: u32) -> Option<&IdleState> {
    let shallowest = states.iter();
    let mut shallowest = shallowest.filter(|state| is_shallowest(states, state, bound_us));
    shallowest.next().filter(|state| match bound_us {
        0 => !crate::polls(&state.name),
        us => state
            .exit_latency_us
            .is_some_and(|exit| exit > u64::from(us)),
    })
}

/// Whether a state is the one that governors fall back to.
fn is_shallowest(states: &[IdleState], state: &IdleState, bound_us: u32) -> bool {
    let is_enabled = |state: &&IdleState| state.disabled != Some(true);
    let shallowest = match bound_us {
        0 => states.first(),
        _ => states.iter().find(is_enabled).or(states.first()),
    };
    shallowest.is_some_and(|shallowest| shallowest.index == state.index)
}

/// Whether a governor passes each state over because of a bound. teo compares each exit latency with it. The
/// others stop at the first enabled state above it, and take a bound of 0 to mean state 0, whatever the next one's
/// latency is.
/// Source: drivers/cpuidle/governors/{menu,ladder,teo,haltpoll}.c of the kernel.
fn beyond(states: &[IdleState], bound_us: u32, governor: Option<&str>) -> Vec<bool> {
    let only_compares = governor == Some("teo");
    let mut stopped = bound_us == 0 && !only_compares;
    let is_beyond = |state: &IdleState| {
        let is_above = state
            .exit_latency_us
            .is_some_and(|exit| exit > u64::from(bound_us));
        let is_beyond = (stopped || is_above) && !is_shallowest(states, state, bound_us);
        stopped |= is_above && state.disabled != Some(true) && !only_compares;
        is_beyond
    };
    states.iter().map(is_beyond).collect()
}

/// The bound of `pm_qos_resume_latency_us`, µs; `None` where there is none.
pub fn own_us(resume_latency_us: i64) -> Option<u32> {
    match resume_latency_us {
        // `n/a`: no latency is tolerated.
        -1 => Some(0),
        // No bound.
        0 => None,
        us => u32::try_from(us).ok(),
    }
}

fn plain(kind: BoundKind, text: String) -> Bound {
    Bound {
        kind,
        cpus: Vec::new(),
        bound_us: None,
        rules_out: Vec::new(),
        pid: None,
        name: None,
        command: None,
        text,
    }
}

/// Names of states ruled out on any of these CPUs, each once.
fn ruled_out_on<'a>(
    cpus: impl Iterator<Item = &'a Cpu>,
    bound_us: u32,
    governor: Option<&str>,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for state in cpus.flat_map(|cpu| ruled_out(&cpu.states, bound_us, governor)) {
        if !names.contains(&state.name) {
            names.push(state.name.clone());
        }
    }
    names
}

/// `rules out C6`, of a bound on CPUs with these states: what it rules out, and what is known of it.
pub fn in_words<'a>(
    rules_out: &[String],
    states: impl IntoIterator<Item = &'a IdleState>,
) -> String {
    let mut states = states.into_iter();
    match rules_out {
        [] if states.any(|state| state.exit_latency_us.is_none()) => {
            "rules out no state whose exit latency is known".to_owned()
        }
        [] => "rules out no state".to_owned(),
        names => format!("rules out {}", names.join(", ")),
    }
}

/// A bound on all CPUs.
pub(crate) fn request(idle: &Idle, bound_us: u32) -> Bound {
    let rules_out = ruled_out_on(idle.cpus.iter(), bound_us, idle.governor.as_deref());
    let text = format!(
        "{bound_us} µs requested for all CPUs: {}",
        in_words(&rules_out, idle.cpus.iter().flat_map(|cpu| &cpu.states))
    );
    Bound {
        bound_us: Some(bound_us),
        rules_out,
        ..plain(BoundKind::Request, text)
    }
}

fn holder(holder: &Holder) -> Bound {
    let text = format!(
        "{} ({}) has {} open",
        holder.name, holder.pid, holder.device
    );
    Bound {
        pid: Some(holder.pid),
        name: Some(holder.name.clone()),
        command: Some(holder.command.clone()),
        ..plain(BoundKind::Request, text)
    }
}

/// CPUs with the same value in `pm_qos_resume_latency_us` are one bound.
pub(crate) fn per_cpu(idle: &Idle) -> Vec<Bound> {
    let mut groups: Vec<(u32, Vec<&Cpu>)> = Vec::new();
    for cpu in &idle.cpus {
        let Some(us) = cpu.resume_latency_us.and_then(own_us) else {
            continue;
        };
        match groups.iter_mut().find(|(bound, _)| *bound == us) {
            Some((_, group)) => group.push(cpu),
            None => groups.push((us, vec![cpu])),
        }
    }
    let bound = |(us, group): (u32, Vec<&Cpu>)| {
        let numbers: Vec<u32> = group.iter().map(|cpu| cpu.number).collect();
        let states = group.clone().into_iter().flat_map(|cpu| &cpu.states);
        let rules_out = ruled_out_on(group.into_iter(), us, idle.governor.as_deref());
        let text = format!(
            "{us} µs by pm_qos_resume_latency_us of {}: {}",
            cpulist::named(&numbers),
            in_words(&rules_out, states)
        );
        Bound {
            cpus: numbers,
            bound_us: Some(us),
            rules_out,
            ..plain(BoundKind::PerCpu, text)
        }
    };
    groups.into_iter().map(bound).collect()
}

/// CPUs whose same states are disabled are one bound.
fn disabled(idle: &Idle) -> Vec<Bound> {
    let mut groups: Vec<(Vec<String>, Vec<u32>)> = Vec::new();
    for cpu in &idle.cpus {
        let states = cpu
            .states
            .iter()
            .filter(|state| state.disabled == Some(true));
        let states: Vec<String> = states.map(|state| state.name.clone()).collect();
        if states.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(names, _)| *names == states) {
            Some((_, numbers)) => numbers.push(cpu.number),
            None => groups.push((states, vec![cpu.number])),
        }
    }
    let bound = |(states, numbers): (Vec<String>, Vec<u32>)| {
        let text = format!(
            "{} disabled on {}",
            states.join(", "),
            cpulist::named(&numbers)
        );
        Bound {
            cpus: numbers,
            rules_out: states,
            ..plain(BoundKind::DisabledState, text)
        }
    };
    groups.into_iter().map(bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str = "sys/devices/system/cpu";

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    /// Three CPUs with C1 (2 µs) and C6 (133 µs); CPU 1 is bounded, C6 of CPU 2 is disabled.
    fn bounded() -> (tempfile::TempDir, Root) {
        let mut files = vec![(format!("{CPU}/present"), "0-2")];
        for cpu in 0..3 {
            for (state, name, latency) in [(0, "C1", "2"), (1, "C6", "133")] {
                let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
                files.push((format!("{folder}/name"), name));
                files.push((format!("{folder}/latency"), latency));
                let disabled = (cpu, name) == (2, "C6");
                files.push((
                    format!("{folder}/disable"),
                    if disabled { "1" } else { "0" },
                ));
            }
            let bound = if cpu == 1 { "50" } else { "0" };
            files.push((
                format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"),
                bound,
            ));
        }
        files.push(("proc/cmdline".into(), "ro intel_idle.max_cstate=2"));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(file, text)| (file.as_str(), *text))
            .collect();
        machine(&files)
    }

    fn tuned() -> Holder {
        Holder {
            pid: 7,
            name: "tuned".into(),
            command: "/usr/sbin/tuned -l".into(),
            device: crate::pm_qos::DEVICE,
        }
    }

    #[test]
    fn each_bound_reports_the_states_it_rules_out_and_the_cpus() {
        let (_folder, root) = bounded();
        let idle = Idle::read(&root).unwrap();
        let bounds = of(&idle, &root, Some(1), &[tuned()]);
        let said = bounds
            .iter()
            .map(|bound| (format!("{:?}", bound.cpus), &bound.text));
        reveille_snapshot::snapshot!("bounds", said);
        assert_eq!(bounds[2].rules_out, ["C6"]);
    }

    /// States with these exit latencies, all enabled.
    fn states(exits: &[Option<u64>]) -> Vec<IdleState> {
        let (_folder, root) = bounded();
        let one = Idle::read(&root).unwrap().cpus[0].states[0].clone();
        let state = |(index, exit): (usize, &Option<u64>)| IdleState {
            index: index as u32,
            exit_latency_us: *exit,
            ..one.clone()
        };
        exits.iter().enumerate().map(state).collect()
    }

    #[test]
    fn a_bound_stops_what_the_governor_passes_over() {
        use Effect::{Disabled, Left, Stopped, Unknown};
        let of =
            |states: &[IdleState], bound_us, governor| effects(states, bound_us, Some(governor));
        // C1 without latency: only teo compares with a bound of 0.
        let free = states(&[Some(0), Some(0), Some(10)]);
        for governor in ["menu", "ladder", "haltpoll"] {
            assert_eq!(
                of(&free, 0, governor),
                [Left, Stopped, Stopped],
                "{governor}"
            );
        }
        assert_eq!(of(&free, 0, "teo"), [Left, Left, Stopped]);
        assert_eq!(effects(&free, 0, None), [Left, Stopped, Stopped]);
        assert_eq!(of(&free, 1, "menu"), [Left, Left, Stopped]);
        // The table is not in order: menu does not get past the slower state.
        let mut unordered = states(&[Some(0), Some(1), Some(400), Some(350), None]);
        assert_eq!(
            of(&unordered, 360, "menu"),
            [Left, Left, Stopped, Stopped, Stopped]
        );
        assert_eq!(
            of(&unordered, 360, "teo"),
            [Left, Left, Stopped, Left, Unknown]
        );
        assert_eq!(
            of(&unordered, 400, "menu"),
            [Left, Left, Left, Left, Unknown]
        );
        // A disabled state stops nobody.
        unordered[2].disabled = Some(true);
        assert_eq!(
            of(&unordered, 360, "menu"),
            [Left, Left, Disabled, Left, Unknown]
        );
        let beyond = ruled_out(&unordered, 360, Some("menu"));
        assert_eq!(beyond.map(|state| state.index).collect::<Vec<_>>(), [2]);
        // None is within: the shallowest enabled one, but state 0 with a bound of 0.
        let mut slow = states(&[Some(2), Some(5)]);
        slow[0].disabled = Some(true);
        assert_eq!(of(&slow, 1, "menu"), [Disabled, Left]);
        assert_eq!(of(&slow, 0, "menu"), [Left, Stopped]);
    }

    #[test]
    fn the_lower_of_two_bounds_applies() {
        let (_folder, root) = bounded();
        let mut idle = Idle::read(&root).unwrap();
        assert_eq!(in_force_us(&idle.cpus[0], None), None);
        assert_eq!(in_force_us(&idle.cpus[1], None), Some(50));
        assert_eq!(in_force_us(&idle.cpus[1], Some(20)), Some(20));
        assert_eq!(in_force_us(&idle.cpus[1], Some(90)), Some(50));
        // `n/a`
        idle.cpus[1].resume_latency_us = Some(-1);
        assert_eq!(in_force_us(&idle.cpus[1], Some(90)), Some(0));
    }

    #[test]
    fn a_machine_without_bounds_has_none() {
        let file = format!("{CPU}/present");
        let (_folder, root) = machine(&[(&file, "0-3")]);
        let idle = Idle::read(&root).unwrap();
        assert!(of(&idle, &root, None, &[]).is_empty());
    }

    #[test]
    fn cpus_with_equal_bounds_are_grouped() {
        let (_folder, root) = bounded();
        let mut idle = Idle::read(&root).unwrap();
        for (cpu, us) in [(0, 1), (1, 50), (2, 1)] {
            idle.cpus[cpu].resume_latency_us = Some(us);
        }
        // C1 off on CPU 0, C6 on the others.
        idle.cpus[0].states[0].disabled = Some(true);
        idle.cpus[1].states[1].disabled = Some(true);
        let listed: Vec<_> = of(&idle, &root, None, &[])
            .into_iter()
            .map(|bound| (bound.kind, bound.cpus, bound.bound_us, bound.rules_out))
            .collect();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(
            listed[..4],
            [
                (BoundKind::PerCpu, vec![0, 2], Some(1), names(&["C1", "C6"])),
                (BoundKind::PerCpu, vec![1], Some(50), names(&["C6"])),
                (BoundKind::DisabledState, vec![0], None, names(&["C1"])),
                (BoundKind::DisabledState, vec![1, 2], None, names(&["C6"])),
            ]
        );
        assert_eq!((listed.len(), listed[4].0), (5, BoundKind::CommandLine));
    }

    #[test]
    fn bounds_name_their_cpus_and_may_rule_out_nothing() {
        let (_folder, root) = bounded();
        let mut idle = Idle::read(&root).unwrap();
        for cpu in 0..3 {
            idle.cpus[cpu].resume_latency_us = Some(if cpu == 1 { 133 } else { 132 });
        }
        // A state whose latency equals the bound remains.
        let said = per_cpu(&idle)
            .into_iter()
            .map(|bound| (format!("{:?}", bound.cpus), bound.text));
        reveille_snapshot::snapshot!("bounds", said);
    }

    #[test]
    fn a_request_and_its_holder_are_described_field_by_field() {
        let (_folder, root) = bounded();
        let idle = Idle::read(&root).unwrap();
        let bounds = of(&idle, &root, Some(2), &[tuned()]);
        let (request, holder) = (&bounds[0], &bounds[1]);
        assert_eq!(
            (request.kind, request.bound_us),
            (BoundKind::Request, Some(2))
        );
        assert_eq!(
            (request.rules_out.as_slice(), request.pid),
            (&["C6".to_owned()][..], None)
        );
        assert!(request.cpus.is_empty(), "of all");
        assert_eq!(
            (holder.kind, holder.bound_us, holder.pid),
            (BoundKind::Request, None, Some(7))
        );
        assert_eq!(holder.name.as_deref(), Some("tuned"));
        assert_eq!(holder.command.as_deref(), Some("/usr/sbin/tuned -l"));
        assert!(holder.rules_out.is_empty());
    }
}

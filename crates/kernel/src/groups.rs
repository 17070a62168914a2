//! Groups of CPUs with the same states, limits, kind of core and bound, so that offline CPUs, bounds and
//! disabled states stand out.

use serde::{Deserialize, Serialize};

use crate::{CoreKind, Cpu, Idle, IdleState};

/// CPUs that are alike, and their idle states taken together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Ascending.
    pub cpus: Vec<u32>,
    /// Whether they are online.
    pub online: bool,
    /// The kind of core; `None` where the machine has only one.
    pub kind: Option<CoreKind>,
    /// As in [`Cpu::resume_latency_us`].
    pub resume_latency_us: Option<i64>,
    /// Uses, times and counts are sums over the CPUs of the group.
    pub states: Vec<IdleState>,
}

impl Group {
    /// Time spent in all of the group's states, µs; `None` where a state has no time.
    pub fn idle_time_us(&self) -> Option<u64> {
        let mut times = self.states.iter().map(|state| state.time_us);
        let first = times.next()??;
        times.try_fold(first, |sum, time| sum.checked_add(time?))
    }
}

/// Groups of CPUs that are alike, in the order of their first CPU.
pub fn alike<'a>(cpus: impl IntoIterator<Item = &'a Cpu>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for cpu in cpus {
        match groups.iter_mut().find(|group| belongs(cpu, group)) {
            Some(group) => {
                group.cpus.push(cpu.number);
                for (sum, state) in group.states.iter_mut().zip(&cpu.states) {
                    add(sum, state);
                }
            }
            None => groups.push(Group {
                cpus: vec![cpu.number],
                online: cpu.online,
                kind: cpu.kind.clone(),
                resume_latency_us: cpu.resume_latency_us,
                states: cpu.states.clone(),
            }),
        }
    }
    groups
}

impl Idle {
    /// This machine's groups of CPUs that are alike.
    pub fn groups(&self) -> Vec<Group> {
        alike(&self.cpus)
    }
}

fn belongs(cpu: &Cpu, group: &Group) -> bool {
    cpu.online == group.online
        && cpu.kind == group.kind
        && cpu.resume_latency_us == group.resume_latency_us
        && cpu.states.len() == group.states.len()
        && (cpu.states.iter().zip(&group.states)).all(|(a, b)| are_alike(a, b))
}

/// The same figures and settings, and the same counters: a sum needs all of them.
fn are_alike(a: &IdleState, b: &IdleState) -> bool {
    let described = |state: &IdleState| IdleState {
        usage: state.usage.map(|_| 0),
        time_us: state.time_us.map(|_| 0),
        rejected: state.rejected.map(|_| 0),
        above: state.above.map(|_| 0),
        below: state.below.map(|_| 0),
        ..state.clone()
    };
    described(a) == described(b)
}

fn add(sum: &mut IdleState, state: &IdleState) {
    let plus = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    sum.usage = plus(sum.usage, state.usage);
    sum.time_us = plus(sum.time_us, state.time_us);
    sum.rejected = plus(sum.rejected, state.rejected);
    sum.above = plus(sum.above, state.above);
    sum.below = plus(sum.below, state.below);
}

/// What a share of time is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareOf {
    /// The group's CPUs times the time since boot (suspend included).
    CpuTimeSinceBoot,
    /// The time in all of the group's idle states, if the time since boot is unknown.
    IdleTime,
}

/// The share of every state of the group, per cent, and what it is a share of; `None` if unknown.
/// `uptime_s` is the first figure of /proc/uptime.
pub fn shares(group: &Group, uptime_s: Option<f64>) -> (ShareOf, Vec<Option<f64>>) {
    let idle = group.idle_time_us();
    let times = group.states.iter().filter_map(|state| state.time_us);
    let known: f64 = times.map(|time_us| time_us as f64).sum();
    // A recording's uptime may be from another time, and offline CPUs do not count.
    let since_boot = uptime_s
        .map(|uptime| uptime * 1e6 * group.cpus.len() as f64)
        .filter(|&whole| group.online && known <= whole * 1.01);
    let (of, whole) = match since_boot {
        Some(whole) => (ShareOf::CpuTimeSinceBoot, Some(whole)),
        None => (ShareOf::IdleTime, idle.map(|idle| idle as f64)),
    };
    let whole = whole.filter(|&whole| whole > 0.0);
    let share = |state: &IdleState| Some(state.time_us? as f64 / whole? * 100.0);
    (of, group.states.iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, time_us: u64) -> IdleState {
        IdleState {
            index: 0,
            name: name.to_owned(),
            description: None,
            exit_latency_us: Some(2),
            target_residency_us: Some(2),
            disabled: Some(false),
            enabled_by_default: None,
            usage: Some(1),
            time_us: Some(time_us),
            rejected: None,
            above: Some(0),
            below: Some(0),
        }
    }

    fn cpu(number: u32, states: Vec<IdleState>) -> Cpu {
        Cpu {
            number,
            online: true,
            package: Some(0),
            core: Some(number),
            resume_latency_us: Some(0),
            siblings: vec![],
            kind: None,
            states,
        }
    }

    #[test]
    fn cpus_that_differ_only_in_counts_are_one_group_with_their_sum() {
        let groups = alike(&[cpu(0, vec![state("C1", 5)]), cpu(1, vec![state("C1", 7)])]);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].cpus, [0, 1]);
        assert_eq!(groups[0].states[0].time_us, Some(12));
        assert_eq!(groups[0].states[0].usage, Some(2));
        assert_eq!(groups[0].states[0].rejected, None);
    }

    #[test]
    fn bounds_kinds_disabled_and_missing_states_and_offline_cpus_form_groups() {
        let plain = || cpu(0, vec![state("C1", 5)]);
        let mut cpus = vec![plain(); 7];
        cpus[1].resume_latency_us = Some(20);
        cpus[2].kind = Some(CoreKind::Efficient);
        cpus[3].states[0].disabled = Some(true);
        cpus[4].states.clear();
        cpus[5].online = false;
        cpus[6].states[0].usage = None;
        assert_eq!(alike(&cpus).len(), 7);
    }

    #[test]
    fn shares_are_relative_to_the_cpu_time_since_boot_if_known() {
        let group = &alike(&[
            cpu(0, vec![state("C1", 250_000)]),
            cpu(1, vec![state("C1", 250_000)]),
        ])[0];
        let (of, share) = shares(group, Some(1.0));
        assert_eq!((of, share[0]), (ShareOf::CpuTimeSinceBoot, Some(25.0)));
        let (of, share) = shares(group, None);
        assert_eq!((of, share[0]), (ShareOf::IdleTime, Some(100.0)));
    }

    #[test]
    fn an_uptime_shorter_than_the_idle_time_is_ignored() {
        let group = &alike(&[cpu(0, vec![state("C1", 3_000_000)])])[0];
        assert_eq!(shares(group, Some(1.0)).0, ShareOf::IdleTime);
    }

    #[test]
    fn a_share_of_zero_is_unknown() {
        let group = &alike(&[cpu(0, vec![state("C1", 0)])])[0];
        assert_eq!(shares(group, None).1, [None]);
    }

    #[test]
    fn idle_time_may_exceed_the_uptime_by_one_percent() {
        for (time_us, of) in [
            (2_020_000, ShareOf::CpuTimeSinceBoot),
            (2_020_001, ShareOf::IdleTime),
        ] {
            let group = &alike(&[cpu(0, vec![state("C1", time_us)])])[0];
            assert_eq!(shares(group, Some(2.0)).0, of, "{time_us}");
        }
    }

    #[test]
    fn a_machines_groups_contain_its_cpus() {
        let cpus = vec![cpu(0, vec![state("C1", 5)]), cpu(1, vec![])];
        let idle = Idle {
            driver: None,
            governor: None,
            available_governors: vec![],
            cpus: cpus.clone(),
            isolated: vec![],
            nohz_full: vec![],
        };
        assert_eq!(idle.groups(), alike(&cpus));
        assert_eq!(idle.groups().len(), 2);
    }
}

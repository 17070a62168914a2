//! The idle states of a machine, grouped where CPUs are alike: the driver's figures, what is allowed, and
//! how each was used since boot.

pub mod show;

use reveille_kernel::boot::{self, WithoutDriver};
use reveille_kernel::groups::{self, Group, ShareOf};
use reveille_kernel::{Cpu, Identity, Idle, IdleState, Root, cpulist, pm_qos};
use serde::{Deserialize, Serialize};

/// A machine's idle states.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct States {
    /// The machine.
    pub machine: Identity,
    /// cpuidle's driver; `None` where none is registered.
    pub driver: Option<String>,
    /// cpuidle's governor; `None` where there is none.
    pub governor: Option<String>,
    /// Those that could be chosen.
    pub available_governors: Vec<String>,
    /// What idle CPUs do where there is no driver.
    pub without_driver: Option<WithoutDriver>,
    /// The kernel's command line, as far as it concerns idle states.
    pub command_line_settings: Vec<boot::Setting>,
    /// Seconds since boot; `None` where the recording lacks them.
    pub uptime_s: Option<f64>,
    /// The latency bound held through /dev/cpu_dma_latency; `None` where there is none or this user may
    /// not see it.
    pub bound_us: Option<u32>,
    /// Their numbers, ascending.
    pub offline_cpus: Vec<u32>,
    /// By the kernel's command line.
    pub isolated_cpus: Vec<u32>,
    /// By the kernel's command line.
    pub nohz_full_cpus: Vec<u32>,
    /// CPUs that are alike.
    pub groups: Vec<GroupStates>,
    /// Every CPU by itself, ungrouped.
    pub cpus: Vec<Cpu>,
    /// CPUs of the machine, these among them.
    #[serde(skip)]
    pub of_cpus: usize,
}

/// Of the JSON of [`States`], what a table of several machines has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StatesThere {
    /// As [`States::machine`].
    pub machine: Identity,
    /// As [`States::driver`].
    pub driver: Option<String>,
    /// As [`States::governor`].
    pub governor: Option<String>,
    /// As [`States::groups`].
    pub groups: Vec<GroupStates>,
}

/// CPUs that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupStates {
    /// Their numbers, ascending.
    pub cpus: Vec<u32>,
    /// The same as a list: `0-3,8`.
    pub cpu_list: String,
    /// Are they online?
    pub online: bool,
    /// `P-core`, ...; `None` where all cores are of one kind.
    pub core_kind: Option<String>,
    /// As sysfs has it: 0 for no bound, below 0 for no latency at all.
    pub resume_latency_us: Option<i64>,
    /// Time in all idle states, over all CPUs.
    pub idle_time_us: Option<u64>,
    /// What the states' shares are of.
    pub time_share_of: ShareOf,
    /// Shallow ones first.
    pub states: Vec<StateUse>,
}

/// An idle state of a group, and its share of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateUse {
    /// Counts and times are sums over the CPUs.
    #[serde(flatten)]
    pub state: IdleState,
    /// Of [`GroupStates::time_share_of`], per cent.
    pub time_share_percent: Option<f64>,
}

impl States {
    /// Of these CPUs of the machine.
    pub fn of(root: &Root, mut idle: Idle, cpus: &[u32]) -> Self {
        let without_driver = WithoutDriver::of(&idle, root);
        let of_cpus = idle.cpus.len();
        idle.cpus.retain(|cpu| cpus.contains(&cpu.number));
        let machine = Identity::read(root);
        let uptime = root.text("proc/uptime");
        let uptime_s = uptime.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let offline = idle.cpus.iter().filter(|cpu| !cpu.online);
        Self {
            without_driver,
            command_line_settings: boot::settings(
                machine.command_line.as_deref().unwrap_or_default(),
            ),
            uptime_s,
            bound_us: match root.is_live() {
                true => pm_qos::current_bound_us().ok().flatten(),
                false => None,
            },
            offline_cpus: offline.map(|cpu| cpu.number).collect(),
            groups: idle
                .groups()
                .into_iter()
                .map(|group| GroupStates::of(group, uptime_s))
                .collect(),
            driver: idle.driver,
            governor: idle.governor,
            available_governors: idle.available_governors,
            isolated_cpus: idle.isolated,
            nohz_full_cpus: idle.nohz_full,
            cpus: idle.cpus,
            of_cpus,
            machine,
        }
    }
}

impl GroupStates {
    fn has_states(&self) -> bool {
        self.online && !self.states.is_empty()
    }

    fn of(group: Group, uptime_s: Option<f64>) -> Self {
        let (time_share_of, shares) = groups::shares(&group, uptime_s);
        let idle_time_us = group.idle_time_us();
        let states = group.states.into_iter().zip(shares);
        Self {
            cpu_list: cpulist::format(&group.cpus),
            cpus: group.cpus,
            online: group.online,
            core_kind: group.kind.as_ref().map(ToString::to_string),
            resume_latency_us: group.resume_latency_us,
            idle_time_us,
            time_share_of,
            states: states
                .map(|(state, time_share_percent)| StateUse {
                    state,
                    time_share_percent,
                })
                .collect(),
        }
    }
}

//! The policies, and the machine's setting under each of them.

use reveille_kernel::limits::{self, Limit};
use reveille_kernel::{Idle, IdleState, affinity, requests};
use reveille_trial::setting::{Kind, Setting, sleepless_by_request};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What is done about sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Nothing: the machine as it was found.
    AsIs,
    /// No idle state but the shallowest in which a CPU sleeps.
    Shallowest,
    /// No CPU sleeps.
    NoSleep,
    /// The waiting thread polls for the completion: its CPU sleeps between waits only. About the most
    /// that anticipatory wake-up can regain.
    Poll,
    /// CPUs are awake just when what is waited for completes.
    Anticipate,
}

impl Policy {
    /// In the order of tables.
    pub const ALL: [Self; 5] = [
        Self::AsIs,
        Self::Shallowest,
        Self::NoSleep,
        Self::Poll,
        Self::Anticipate,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as is",
            Self::Shallowest => "shallowest",
            Self::NoSleep => "no sleep",
            Self::Poll => "poll",
            Self::Anticipate => "anticipate",
        }
    }

    /// The policy of that name, with blanks or dashes, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.trim().to_lowercase().replace(['-', '_'], " ");
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// The machine's setting under a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySetting {
    /// The setting in force.
    pub kind: Kind,
    /// What it changes, in words.
    pub how: String,
}

impl PolicySetting {
    /// No setting is changed; `how` is what the workload does.
    pub fn as_is(how: &str) -> Self {
        Self {
            kind: Kind::AsIs,
            how: how.to_owned(),
        }
    }

    fn by(kind: Kind, idle: &Idle) -> Result<Self> {
        let setting = Setting::new("", kind);
        Ok(Self {
            how: setting.how(idle)?,
            kind: setting.kind,
        })
    }

    /// All CPUs may use that CPU's shallowest sleep only.
    pub fn shallowest(idle: &Idle, cpu: u32) -> Result<Self> {
        let state = shallowest(idle, cpu).ok_or_else(|| {
            Error::Cannot(format!("CPU {cpu} has no second idle state to sleep in"))
        })?;
        let limit = Limit::Deepest(state.name.clone());
        Self::by(Kind::Limit { limit, cpus: None }, idle)
    }

    /// No CPU sleeps: by a latency bound of 0 if that makes all CPUs poll and this user may hold one,
    /// otherwise by threads, on the CPUs that this process may use.
    pub fn no_sleep(idle: &Idle) -> Result<Self> {
        let kind = match sleepless_by_request(idle) && requests::Request::hold(0).is_ok() {
            true => Kind::NoSleep,
            false => {
                let online = |cpu: &u32| idle.cpu(*cpu).is_some_and(|cpu| cpu.online);
                Kind::KeepAwake(affinity::allowed().into_iter().filter(online).collect())
            }
        };
        Self::by(kind, idle)
    }
}

/// The shallowest state in which the CPU sleeps; `None` if it has no deeper one that would be left out.
pub fn shallowest(idle: &Idle, cpu: u32) -> Option<&IdleState> {
    let mut sleeping = idle.cpu(cpu)?.states.iter().filter(|state| {
        limits::poll(std::slice::from_ref(state)).is_none() && state.disabled != Some(true)
    });
    let shallowest = sleeping.next()?;
    sleeping.next().map(|_| shallowest)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reveille_kernel::Root;
    use reveille_trial::setting::Machine;

    use super::*;

    /// A CPU with these states below the test's root.
    fn machine(states: &[(&str, bool)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let system = folder.path().join("sys/devices/system/cpu");
        for (index, (name, disabled)) in states.iter().enumerate() {
            let state = system.join(format!("cpu0/cpuidle/state{index}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("name"), name).unwrap();
            fs::write(state.join("disable"), if *disabled { "1\n" } else { "0\n" }).unwrap();
        }
        fs::create_dir_all(&system).unwrap();
        for list in ["present", "online"] {
            fs::write(system.join(list), "0\n").unwrap();
        }
        let mut machine = Machine::read(Root::at(folder.path())).unwrap();
        machine.journal_folder = folder.path().join("run");
        (folder, machine)
    }

    #[test]
    fn policies_are_found_by_name() {
        for policy in Policy::ALL {
            assert_eq!(Policy::by_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::by_name("As-Is"), Some(Policy::AsIs));
        assert_eq!(Policy::by_name("no_sleep"), Some(Policy::NoSleep));
        assert_eq!(Policy::by_name("sleep"), None);
    }

    #[test]
    fn a_shallowest_state_exists_only_if_a_deeper_one_is_excluded() {
        let name = |states: &[(&str, bool)]| {
            let (_folder, machine) = machine(states);
            shallowest(&machine.idle, 0).map(|state| state.name.clone())
        };
        assert_eq!(name(&[("POLL", false), ("haltpoll", false)]), None);
        assert_eq!(name(&[]), None);
        let three = [("POLL", false), ("C1", false), ("C6", false)];
        assert_eq!(name(&three).as_deref(), Some("C1"));
        let off = [("C1", true), ("C2", false), ("C6", false)];
        assert_eq!(name(&off).as_deref(), Some("C2"));
    }

    #[test]
    fn if_no_bound_makes_cpus_poll_threads_keep_the_allowed_ones_awake() {
        let (_folder, machine) = machine(&[]);
        let setting = PolicySetting::no_sleep(&machine.idle).unwrap();
        // The machine has CPU 0 only.
        let cpus = match affinity::allowed().contains(&0) {
            true => vec![0],
            false => vec![],
        };
        assert_eq!(setting.kind, Kind::KeepAwake(cpus.clone()));
        let in_force = setting.kind.apply(&machine).unwrap();
        assert_eq!(in_force.interrupted(), None);
        in_force.end().unwrap();
        if !cpus.is_empty() {
            assert_eq!(setting.how, "idle-priority threads keep CPU 0 awake");
        }
    }

    #[test]
    fn the_shallowest_state_is_in_force_until_released() {
        let states = [("POLL", false), ("C1", false), ("C6", false), ("C8", true)];
        let (folder, machine) = machine(&states);
        let disabled = || {
            (0..4).map(|state| {
                let file = format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}/disable");
                fs::read_to_string(folder.path().join(file)).unwrap().trim() == "1"
            })
        };
        let setting = PolicySetting::shallowest(&machine.idle, 0).unwrap();
        let in_force = setting.kind.apply(&machine).unwrap();
        assert!(disabled().eq([false, false, true, true]));
        assert_eq!(setting.how, "C6, C8 disabled on all CPUs");
        in_force.end().unwrap();
        assert!(disabled().eq([false, false, false, true]));
    }
}

//! How the machine is kept while the workload runs: each policy, put in force and taken back.

use std::path::PathBuf;

use reveille_kernel::limits::{self, Limit};
use reveille_kernel::{Awake, Idle, IdleState, Journal, Root, requests};
use serde::{Deserialize, Serialize};

use crate::bench::{Account, OwnCost, Running};
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
    /// Whoever waits looks for the end by itself, again and again: its CPU sleeps between waits, and
    /// not in them. About the most that waking in time for the end can regain.
    Poll,
    /// CPUs are awake just when what is waited for is done.
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

    /// As tables call it.
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

/// The machine whose settings policies change.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `/` but in tests.
    pub root: Root,
    /// Its CPUs and idle states, as they were before the first policy.
    pub idle: Idle,
    /// Of the journal that undoes what was changed.
    pub journal_folder: PathBuf,
}

impl Machine {
    /// The shallowest state in which the CPU sleeps; `None` where there is no deeper one that would be
    /// left out.
    pub fn shallowest(&self, cpu: u32) -> Option<&IdleState> {
        let states = &self.idle.cpu(cpu)?.states;
        let mut sleeping = states.iter().filter(|state| {
            limits::poll(std::slice::from_ref(state)).is_none() && state.disabled != Some(true)
        });
        let shallowest = sleeping.next()?;
        sleeping.next().map(|_| shallowest)
    }

    fn online(&self) -> Vec<u32> {
        let online = self.idle.cpus.iter().filter(|cpu| cpu.online);
        online.map(|cpu| cpu.number).collect()
    }

    /// Allows CPUs their shallowest sleep only.
    ///
    /// # Errors
    /// [`Error::Cannot`] where that CPU has no two states of sleep, or this user may not; then the
    /// machine is as before.
    pub(crate) fn allow_shallowest(&self, cpu: u32) -> Result<InForce> {
        let state = self.shallowest(cpu).ok_or_else(|| {
            Error::Cannot(format!(
                "CPU {cpu} has no more than one idle state to sleep in"
            ))
        })?;
        let limit = Limit::Deepest(state.name.clone());
        let changes = limits::plan(&self.idle, &self.online(), &limit)?;
        let mut in_force = self.unchanged(format!("{} is the deepest idle state", state.name));
        limits::apply(&mut in_force.journal, &changes)?;
        Ok(in_force)
    }

    /// Keeps all CPUs from sleeping: by a latency bound of 0 where that is honoured and this user may
    /// hold one, else by threads that spin and let everything else go first.
    ///
    /// # Errors
    /// [`Error::System`] where no thread can be had; then the machine is as before.
    pub(crate) fn keep_awake(&self) -> Result<InForce> {
        let polls = |cpu: &reveille_kernel::Cpu| limits::poll(&cpu.states).is_some();
        let mut online = self.idle.cpus.iter().filter(|cpu| cpu.online);
        // A bound of 0 makes governors choose state 0, which sleeps where it is not the poll state.
        let by_request = requests::honoured(&self.idle) && online.all(polls);
        if by_request && let Ok(request) = requests::Request::hold(0) {
            let mut in_force = self.unchanged("a latency bound of 0: all CPUs poll".into());
            in_force._request = Some(request);
            return Ok(in_force);
        }
        let why = match by_request {
            true => "this user may hold no latency bound",
            false => "a latency bound of 0 would not make all CPUs poll",
        };
        let how = format!("idle-priority threads keep all CPUs awake ({why})");
        // Of those that this process may use: others it cannot keep awake, and does not run on.
        let allowed = reveille_kernel::affinity::allowed();
        let mut cpus = self.online();
        cpus.retain(|cpu| allowed.contains(cpu));
        let mut in_force = self.unchanged(how);
        in_force.awake = Some(Awake::keep(&cpus)?);
        Ok(in_force)
    }

    /// Nothing is changed.
    pub fn unchanged(&self, how: String) -> InForce {
        InForce {
            how,
            journal: Journal::new(&self.root, &self.journal_folder),
            _request: None,
            awake: None,
            assist: None,
        }
    }
}

/// A policy in force. Dropped, the machine is as before.
pub struct InForce {
    /// What is changed, in words.
    pub how: String,
    journal: Journal,
    _request: Option<requests::Request>,
    awake: Option<Awake>,
    assist: Option<Box<dyn Running>>,
}

impl InForce {
    /// This, and something that wakes CPUs in time.
    #[must_use]
    pub fn with(mut self, assist: Box<dyn Running>) -> Self {
        self.assist = Some(assist);
        self
    }

    /// What was done to be awake in time; `None` where nothing is, or nothing tells.
    pub fn account(&self) -> Option<Account> {
        self.assist.as_ref()?.account()
    }

    /// What waking in time takes itself while `waits` runs; `None` where nothing counts it.
    pub fn own_cost(&self, waits: &mut dyn FnMut()) -> Option<OwnCost> {
        self.assist.as_ref()?.own_cost(waits)
    }

    /// Why the policy was not in force all the time; `None` where it was, as far as that is known.
    pub fn interrupted(&self) -> Option<String> {
        self.awake.as_ref()?.interrupted()
    }

    /// Takes the policy back, and says what somebody else changed meanwhile or could not be put back;
    /// `None` where all is as before.
    pub fn end(mut self) -> Option<String> {
        drop(self.assist.take());
        self.journal.restore().complaints().into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A CPU with these states below a root of the test's.
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
        let root = Root::at(folder.path());
        let machine = Machine {
            idle: Idle::read(&root).unwrap(),
            root,
            journal_folder: folder.path().join("run"),
        };
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
    fn there_is_a_shallowest_state_only_where_a_deeper_one_is_left_out() {
        let name = |states: &[(&str, bool)]| {
            let (_folder, machine) = machine(states);
            machine.shallowest(0).map(|state| state.name.clone())
        };
        assert_eq!(name(&[("POLL", false), ("haltpoll", false)]), None);
        assert_eq!(name(&[]), None);
        let three = [("POLL", false), ("C1", false), ("C6", false)];
        assert_eq!(name(&three).as_deref(), Some("C1"));
        let off = [("C1", true), ("C2", false), ("C6", false)];
        assert_eq!(name(&off).as_deref(), Some("C2"));
    }

    #[test]
    fn the_shallowest_state_is_in_force_until_it_is_ended() {
        let states = [("POLL", false), ("C1", false), ("C6", false), ("C8", true)];
        let (folder, machine) = machine(&states);
        let disabled = || {
            (0..4).map(|state| {
                let file = format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}/disable");
                fs::read_to_string(folder.path().join(file)).unwrap().trim() == "1"
            })
        };
        let in_force = machine.allow_shallowest(0).unwrap();
        assert!(disabled().eq([false, false, true, true]));
        assert!(in_force.how.contains("C1"));
        assert_eq!(in_force.end(), None);
        assert!(disabled().eq([false, false, false, true]));
    }
}

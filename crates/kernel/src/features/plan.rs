//! What `reveille measure` will use of the features.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Feature, find, names};

/// How waking is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// BPF programs in the idle loop and at the interrupt's entry.
    Bpf,
    /// A waiting thread.
    User,
}

/// What a measurement uses here by default.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The one that is used unless another is asked for.
    pub probe: Probe,
    /// The first feature that stands in the BPF probe's way; `None` where nothing does.
    pub instead_of_bpf: Option<String>,
    /// `timer`, `remote`.
    pub sources: Vec<String>,
    /// How the timer is armed; `None` without a timer of BPF.
    pub arming: Option<String>,
    /// What is counted per wake-up beside interrupts.
    pub counted: Vec<String>,
    /// Is a counter read in the hardware? A hypervisor answers so slowly that the measurement may
    /// leave counters alone.
    pub cheap_counters: bool,
    /// Are there several idle states?
    pub states: bool,
}

impl Plan {
    /// The plan for these features.
    pub fn of(features: &[Feature]) -> Self {
        let has = |name: &str| find(features, name).is_some_and(|found| found.presence.is_yes());
        let needed = [names::BTF, names::CPU_IDLE, names::TRACING];
        // Where the probes themselves were tried, that decides.
        let tried = find(features, names::PROBES).map(|_| &names::PROBES);
        let missing = needed.iter().chain(tried).find(|name| !has(name));
        let probe = if missing.is_some() {
            Probe::User
        } else {
            Probe::Bpf
        };
        let mut sources = Vec::new();
        if probe == Probe::User || has(names::TIMER) {
            sources.push("timer".to_owned());
        }
        if probe == Probe::Bpf && has(names::SECOND_CPU) {
            sources.push("remote".to_owned());
        }
        let arming = match (has(names::TIMER_ABSOLUTE), has(names::TIMER_PINNED)) {
            (true, true) => "absolute, pinned",
            (true, false) => "absolute",
            (false, _) => "relative",
        };
        let counted = [
            (names::CORE_RESIDENCY, "core residency"),
            (names::PACKAGE_RESIDENCY, "package residency"),
            (names::SMI, "SMIs"),
        ];
        let virtual_machine = find(features, names::BARE_METAL);
        let virtual_machine = virtual_machine.is_some_and(|found| !found.presence.is_yes());
        let counted = counted
            .iter()
            .filter(|(name, _)| probe == Probe::Bpf && has(name));
        Self {
            probe,
            instead_of_bpf: missing.map(|&name| name.to_owned()),
            arming: (probe == Probe::Bpf && has(names::TIMER)).then(|| arming.to_owned()),
            sources,
            counted: counted.map(|(_, what)| (*what).to_owned()).collect(),
            cheap_counters: !virtual_machine,
            states: has(names::DRIVER),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.instead_of_bpf, self.probe) {
            (Some(missing), Probe::User) => {
                write!(f, "the user probe (BPF lacks: {missing})")?;
            }
            _ => f.write_str("the BPF probe")?,
        }
        match &self.arming {
            Some(arming) => write!(f, ", source timer ({arming})")?,
            None if self.probe == Probe::User => f.write_str(", a thread's timer")?,
            None => f.write_str(", no timer")?,
        }
        if self.sources.iter().any(|source| source == "remote") {
            f.write_str(" or, if asked, remote")?;
        }
        match self.counted.is_empty() {
            true => f.write_str("; no hardware counters")?,
            false => write!(f, "; counting {}", self.counted.join(", "))?,
        }
        if !self.counted.is_empty() && !self.cheap_counters {
            f.write_str(" unless that is slow")?;
        }
        match self.states {
            true => Ok(()),
            false => f.write_str("; in the kernel's one default idle state"),
        }
    }
}

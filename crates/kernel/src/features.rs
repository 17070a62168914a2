//! What this kernel, CPU and user allow, what each missing thing costs, and what would bring it.
//!
//! [`survey`] asks for everything once; it changes nothing (the one BPF program that it tries does
//! nothing and is gone before it returns). What only a real try can tell, the caller [`put`]s in
//! its place. [`Plan::of`] says what a measurement will make of it.

mod attach;
mod bpf;
mod clock;
mod counting;
mod idling;
mod plan;
mod surroundings;
mod survey;
mod tracepoints;
mod user;

use serde::Serialize;

use crate::capabilities::Credentials;
use crate::{Btf, Identity, Idle, Result, Root};
pub use plan::{Plan, Probe};
pub use survey::{outside_of_containers, survey};

/// What a feature is a matter of, in the order of showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Who runs it, with which capabilities.
    User,
    /// BTF, and what the kernel lets programs do.
    Bpf,
    /// Trace events of idle, timers and interrupts.
    Tracepoints,
    /// cpuidle: driver, governor, and what limits its states already.
    Idle,
    /// perf counters of residency, SMIs and cycles.
    Counters,
    /// The clock source, and on which CPU timers run.
    Clock,
    /// Hypervisor, number of CPUs, and what else bears on the figures.
    Machine,
    /// Suspend and resume; the crate that captures them tells.
    Sleep,
}

impl Group {
    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::User => "This user",
            Self::Bpf => "BPF",
            Self::Tracepoints => "Tracepoints",
            Self::Idle => "Idle states and their limits",
            Self::Counters => "Counters",
            Self::Clock => "Clocks and timers",
            Self::Machine => "The machine",
            Self::Sleep => "Suspend and resume",
        }
    }
}

/// Is it there?
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "present", content = "detail", rename_all = "snake_case")]
pub enum Presence {
    /// With what there is to say of it.
    Yes(String),
    /// With the reason.
    No(String),
    /// It is there, but this user may not have it: root may. With the reason.
    Denied(String),
    /// It could not be found out, for this reason.
    Unknown(String),
}

impl Presence {
    /// The kernel refused it: no, or not for this user.
    fn refused(credentials: Credentials, why: String) -> Self {
        match credentials.user {
            0 => Self::No(why),
            _ => Self::Denied(why),
        }
    }

    /// Only where it is there and this user may have it.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// The detail or the reason.
    pub fn words(&self) -> &str {
        let (Self::Yes(words) | Self::No(words) | Self::Denied(words) | Self::Unknown(words)) =
            self;
        words
    }
}

/// One thing that measuring makes use of, or that bears on what is measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feature {
    /// Unique: [`put`] and [`find`] go by it.
    pub name: String,
    /// Under which heading it is shown.
    pub group: Group,
    /// What was found out.
    #[serde(flatten)]
    pub presence: Presence,
    /// What its absence costs the user.
    pub costs: String,
    /// What would bring it.
    pub brings: String,
}

impl Feature {
    /// `costs` and `brings` are sentences.
    pub fn new(
        group: Group,
        name: impl Into<String>,
        presence: Presence,
        costs: impl Into<String>,
        brings: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            group,
            presence,
            costs: costs.into(),
            brings: brings.into(),
        }
    }
}

/// Names of features that others decide by.
pub mod names {
    pub(crate) const BTF: &str = "BTF";
    /// Programs that the kernel lets this user load.
    pub const TRACING: &str = "tracing programs";
    /// What the crate that measures finds when it loads its own programs.
    pub const PROBES: &str = "the probes";
    pub(crate) const TIMER: &str = "timers";
    pub(crate) const TIMER_ABSOLUTE: &str = "absolute timers";
    pub(crate) const TIMER_PINNED: &str = "pinned timers";
    pub(crate) const CPU_IDLE: &str = "power:cpu_idle";
    pub(crate) const DRIVER: &str = "cpuidle driver";
    pub(crate) const CORE_RESIDENCY: &str = "core residency";
    pub(crate) const PACKAGE_RESIDENCY: &str = "package residency";
    pub(crate) const SMI: &str = "SMI count";
    pub(crate) const BARE_METAL: &str = "bare metal";
    pub(crate) const SECOND_CPU: &str = "second CPU";
}

/// What several features are judged by, read once.
struct Facts<'a> {
    root: &'a Root,
    /// Of this process; `None` for a recorded machine.
    credentials: Option<Credentials>,
    idle: Result<Idle>,
    identity: Identity,
    btf: Option<Btf>,
}

impl Facts<'_> {
    /// The kernel said no: for want of rights, unless it is root who asked.
    fn refused(&self, why: String) -> Presence {
        match self.credentials {
            Some(credentials) => Presence::refused(credentials, why),
            None => Presence::No(why),
        }
    }
}

/// Puts a feature in the place of the one of the same name, or last in its group: the way in for
/// what was really tried.
pub fn put(features: &mut Vec<Feature>, feature: Feature) {
    match features.iter_mut().find(|known| known.name == feature.name) {
        Some(known) => *known = feature,
        None => {
            let end = features.partition_point(|known| known.group <= feature.group);
            features.insert(end, feature);
        }
    }
}

/// The feature of that name.
pub fn find<'a>(features: &'a [Feature], name: &str) -> Option<&'a Feature> {
    features.iter().find(|feature| feature.name == name)
}

/// Why nothing can be said of a recorded machine.
fn recorded() -> Presence {
    Presence::Unknown("a recorded machine does not tell".to_owned())
}

#[cfg(test)]
mod tests;

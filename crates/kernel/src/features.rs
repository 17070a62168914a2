//! Features of this kernel, CPU and user, and the effect and remedy of those missing.
//!
//! [`survey`] lists all; it changes nothing (it loads one BPF program that does nothing, and removes it).
//! The caller [`put`]s the results of tries. [`Plan::of`] is what a measurement uses.

/// Features of a group: `name, presence => effect of the absence, remedy;`, optionally with `, Weight`
/// if the absence matters.
macro_rules! table {
    ($group:ident; $($name:expr, $presence:expr =>
        $costs:expr, $brings:expr $(, $weight:ident)?;)*) => {
        vec![$(
            Feature::new(Group::$group, $name, $presence, $costs, $brings)
                $(.weighing(super::Weight::$weight))?
        ),*]
    };
}

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

use serde::{Deserialize, Serialize};

use crate::capabilities::Credentials;
use crate::{Btf, Identity, Idle, Result, Root};
pub use plan::{Plan, Probe};
pub use survey::{outside_of_containers, survey};

/// Subject of a feature, in the order shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The user and its capabilities.
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
    /// Hypervisor, number of CPUs, and what else affects the results.
    Machine,
    /// Suspend and resume; filled in by the crate that captures them.
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

/// Whether a feature is available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "present", content = "detail", rename_all = "snake_case")]
pub enum Presence {
    /// With details.
    Yes(String),
    /// With the reason.
    No(String),
    /// Present, but not permitted to this user. With the reason.
    Denied(String),
    /// Unknown, with the reason.
    Unknown(String),
}

impl Presence {
    /// Refused by the kernel: missing for root, denied for other users.
    fn refused(credentials: Credentials, why: String) -> Self {
        match credentials.user {
            0 => Self::No(why),
            _ => Self::Denied(why),
        }
    }

    /// Whether it is present and permitted.
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

/// How much the absence of a feature matters to a measurement; the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// No wake-ups in the kernel, or no idle states.
    Decides,
    /// Other influences are in the figures.
    Distorts,
    /// Extra information, or another command.
    Adds,
}

/// Something that measuring uses, or that affects its results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feature {
    /// Unique: [`put`] and [`find`] go by it.
    pub name: String,
    /// Under which heading it is shown.
    pub group: Group,
    /// What was found out.
    #[serde(flatten)]
    pub presence: Presence,
    /// The effect of its absence.
    pub costs: String,
    /// Its remedy.
    pub brings: String,
    /// How much its absence matters.
    #[serde(skip)]
    pub weight: Weight,
}

impl Feature {
    /// `costs` and `brings` are sentences. It weighs least: [`Weight::Adds`].
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
            weight: Weight::Adds,
        }
    }

    /// With this weight.
    pub fn weighing(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// Whether it is known to be missing.
    fn is_missing(&self) -> bool {
        matches!(self.presence, Presence::No(_) | Presence::Denied(_))
    }
}

/// Names of features that decisions depend on.
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
    pub(crate) const BARE_METAL: &str = "own hardware";
    pub(crate) const SECOND_CPU: &str = "second CPU";
}

/// What several features depend on, read once.
struct Facts<'a> {
    root: &'a Root,
    /// Of this process; `None` for a recorded machine.
    credentials: Option<Credentials>,
    idle: Result<Idle>,
    identity: Identity,
    btf: Option<Btf>,
}

impl Facts<'_> {
    /// The kernel refused: for lack of permission, unless root asked.
    fn refused(&self, why: String) -> Presence {
        match self.credentials {
            Some(credentials) => Presence::refused(credentials, why),
            None => Presence::No(why),
        }
    }
}

/// Replaces the feature of the same name, or adds one at the end of its group.
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

/// Missing features that matter, the most important first; one of each effect or remedy, and the first of
/// those that root would have: one step provides them all.
pub fn that_matter(features: &[Feature]) -> Vec<&Feature> {
    let missing = features.iter().filter(|feature| feature.is_missing());
    let mut missing: Vec<_> = missing
        .filter(|feature| feature.weight < Weight::Adds)
        .collect();
    missing.sort_by_key(|feature| feature.weight);
    let is_denied = |feature: &Feature| matches!(feature.presence, Presence::Denied(_));
    let mut chosen: Vec<&Feature> = Vec::new();
    for feature in missing {
        let covers = |other: &&Feature| {
            other.costs == feature.costs
                || other.brings == feature.brings
                || is_denied(other) && is_denied(feature)
        };
        if !chosen.iter().any(covers) {
            chosen.push(feature);
        }
    }
    chosen
}

/// `tsc (also: hpet, acpi_pm)`.
fn with_others<'a>(chosen: &str, all: impl Iterator<Item = &'a str>) -> String {
    let others: Vec<&str> = all.filter(|name| *name != chosen).collect();
    match others.is_empty() {
        true => chosen.to_owned(),
        false => format!("{chosen} (also: {})", others.join(", ")),
    }
}

/// Missing on the running machine, unknown for a recorded one.
fn absent(root: &Root, why: String) -> Presence {
    match root.is_live() {
        true => Presence::No(why),
        false => recorded(),
    }
}

/// A feature of a recorded machine.
fn recorded() -> Presence {
    Presence::Unknown("unknown for a recorded machine".to_owned())
}

#[cfg(test)]
mod tests;

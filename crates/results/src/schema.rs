//! What a datapoint is: one wake-up, one row of `datapoints.parquet`.
//!
//! Columns are `snake_case` with the unit at the end; the reader refuses a schema version that it
//! does not know. Words as in the book's method chapter: launch time (LT) is the instant for which
//! the wake-up was armed, TBI and TAI the times before and after idle, TIntr the interrupt's.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::Malformed;

/// The version of this schema, in `result.json` and the Parquet file (key `reveille.schema_version`).
pub const SCHEMA_VERSION: u32 = 1;

/// The name of the state of a CPU that was awake and running code when the event came: the floor
/// of the method on machines without a poll state. Its index is -1.
pub const AWAKE: &str = "awake";

/// The name of the state that the kernel enters without a cpuidle driver (index 1 in its trace).
pub const DEFAULT_IDLE: &str = "default_idle";

/// What woke the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A timer on the CPU itself.
    Timer,
    /// Another CPU, without warning.
    Remote,
    /// A timer of the HPET, outside the CPUs.
    Hpet,
    /// A network card, at an instant of its own clock.
    Nic,
    /// A network card, for the reply to a ping.
    Reply,
}

impl Source {
    /// As it stands in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Remote => "remote",
            Self::Hpet => "hpet",
            Self::Nic => "nic",
            Self::Reply => "reply",
        }
    }
}

/// How the waking reached the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WokenBy {
    /// An interrupt: a timer's, a device's, another CPU's.
    Interrupt,
    /// A write to the flag that the CPU monitors while idle.
    Flag,
}

impl WokenBy {
    /// As it stands in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Flag => "flag",
        }
    }
}

/// Which code ran first when the CPU was back; the wake latency ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum First {
    /// The idle loop, after the idle state (interrupts were off in it).
    AfterIdle,
    /// The interrupt's handler.
    Interrupt,
    /// The waiting thread: the user probe sees nothing earlier.
    Thread,
}

impl First {
    /// As it stands in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfterIdle => "after_idle",
            Self::Interrupt => "interrupt",
            Self::Thread => "thread",
        }
    }
}

/// One wake-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Datapoint {
    /// The launch time, ns since the start of the run.
    pub time_ns: i64,
    /// The CPU that was woken.
    pub cpu: u32,
    /// What woke it.
    pub source: Source,
    /// How the waking reached it.
    pub woken_by: WokenBy,
    /// As cpuidle numbers it (-1: awake); `None` where the user probe could not infer it.
    pub requested_state_index: Option<i32>,
    /// Its name; `None` as for the index.
    pub requested_state: Option<String>,
    /// From arming to the launch time, ns.
    pub launch_distance_ns: i64,
    /// The launch time is known to this, ns: half of the interval that surely has it. `None` if the launch time is
    /// of the CPU's own clock.
    pub launch_error_ns: Option<i64>,
    /// The launch time by the source's own clock, in its steps and with its width: the HPET's comparator has 32 bits.
    /// `None` if the launch time is of the CPU's own clock.
    pub launch_clock: Option<i64>,
    /// LT - TBI, ns; `None` with the user probe and for a CPU that was awake.
    pub silent_time_ns: Option<i64>,
    /// First of (TAI, TIntr) - LT - overhead, ns.
    pub wake_latency_ns: i64,
    /// TIntr - LT - overhead, ns.
    pub interrupt_latency_ns: Option<i64>,
    /// What ran first: the idle loop or the interrupt's handler.
    pub first: First,
    /// System management interrupts meanwhile; `None` where they are not counted.
    pub smi_count: Option<u32>,
    /// Non-maskable interrupts meanwhile; `None` where they are not counted.
    pub nmi_count: Option<u32>,
    /// Interrupts from TBI to the end, the waking one included.
    pub interrupt_count: Option<u32>,
    /// Softirqs meanwhile; `None` where they are not counted.
    pub softirq_count: Option<u32>,
    /// The round, from 0, where the sources took turns; `None` if there was one source.
    pub round: Option<u32>,
    /// Shares of the time from TBI to TAI, per cent, in the order of
    /// [`crate::Description::residency_columns`]; NaN where unknown.
    pub residency_percent: Vec<f32>,
}

/// The fixed columns in order: name, and whether it may be null. Residency columns follow; their
/// names end in `_percent`, for example `cc6_percent`, `pc6_percent`.
pub const COLUMNS: &[(&str, Kind, bool)] = &[
    ("time_ns", Kind::Integer, false),
    ("cpu", Kind::Integer, false),
    ("source", Kind::Name, false),
    ("woken_by", Kind::Name, true),
    ("requested_state_index", Kind::Integer, true),
    ("requested_state", Kind::Name, true),
    ("launch_distance_ns", Kind::Integer, true),
    ("launch_error_ns", Kind::Integer, true),
    ("launch_clock", Kind::Integer, true),
    ("silent_time_ns", Kind::Integer, true),
    ("wake_latency_ns", Kind::Integer, false),
    ("interrupt_latency_ns", Kind::Integer, true),
    ("first", Kind::Name, true),
    ("smi_count", Kind::Integer, true),
    ("nmi_count", Kind::Integer, true),
    ("interrupt_count", Kind::Integer, true),
    ("softirq_count", Kind::Integer, true),
    ("round", Kind::Integer, true),
];

/// The field `schema_version` of a JSON file.
pub(crate) fn version(text: &[u8]) -> serde_json::Result<Option<u32>> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: Option<u32>,
    }
    serde_json::from_slice(text).map(|version: Version| version.schema_version)
}

/// Is this a schema version that this program reads?
pub(crate) fn check_version(version: u32) -> Result<(), Malformed> {
    match version.cmp(&SCHEMA_VERSION) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(Malformed::new(format!(
            "has schema version {version}, but this program reads up to {SCHEMA_VERSION}; \
             read it with a newer reveille"
        ))),
        Ordering::Less => Err(Malformed::new(format!(
            "has the invalid schema version {version}"
        ))),
    }
}

/// A column's kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Per cent; NaN is null.
    Percent,
    /// One of a few names.
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_version_is_read() {
        let why = |version: u32| check_version(version).err().map(|wrong| wrong.to_string());
        assert_eq!(why(1), None);
        let later = why(2).unwrap();
        assert!(later.starts_with("has schema version 2, "), "{later}");
        assert_eq!(why(0).unwrap(), "has the invalid schema version 0");
    }

    #[test]
    fn column_names_are_those_of_the_schema() {
        let sources = [
            Source::Timer,
            Source::Remote,
            Source::Hpet,
            Source::Nic,
            Source::Reply,
        ]
        .map(Source::as_str);
        assert_eq!(sources, ["timer", "remote", "hpet", "nic", "reply"]);
        let woken = [WokenBy::Interrupt, WokenBy::Flag].map(WokenBy::as_str);
        assert_eq!(woken, ["interrupt", "flag"]);
        let first = [First::AfterIdle, First::Interrupt, First::Thread].map(First::as_str);
        assert_eq!(first, ["after_idle", "interrupt", "thread"]);
    }
}

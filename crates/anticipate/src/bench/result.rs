//! `bench.json`: the latency and cost of each policy, the machine, and every turn.

use reveille_meter::Watched;
use reveille_results::kept::{self, About};
use serde::{Deserialize, Serialize};

use crate::Operation;
use crate::bench::comparison::{Gain, Row};
pub use crate::bench::comparison::{PolicyUsed, Turn, conclude};
use crate::bench::policy::Policy;

/// The file's name in its folder.
pub const FILE: &str = "bench.json";

/// Of [`Bench`]; a reader refuses what it does not know.
pub const SCHEMA_VERSION: u32 = 1;

/// What waits, and for what.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Workload {
    /// `storage`, `accelerator` or `packets`.
    pub kind: String,
    /// What it does, in words.
    pub what: String,
    /// One of `read`, `write`, `completion`, `packet`.
    pub waits_for: String,
    /// The disk.
    pub device: Option<String>,
    /// Bytes in each I/O; `None` without storage.
    pub size_bytes: Option<u64>,
    /// I/Os in flight; `None` without storage.
    pub depth: Option<u64>,
    /// What each I/O does; `None` without storage.
    pub operation: Option<Operation>,
}

/// An idle time or series at which the policies are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `1 ms`, or a series' name.
    pub name: String,
    /// The idle time between I/Os, or from one packet to the next, ns.
    pub idle_ns: Option<u64>,
}

impl Point {
    /// An idle time between I/Os.
    pub fn idle(idle_ns: u64) -> Self {
        let name = match idle_ns {
            0 => "0".to_owned(),
            ns if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
            ns if ns >= 1_000_000 => format!("{} ms", ns as f64 / 1e6),
            ns if ns >= 1000 => format!("{} µs", ns as f64 / 1e3),
            ns => format!("{ns} ns"),
        };
        Self {
            name,
            idle_ns: Some(idle_ns),
        }
    }
}

/// A policy that was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which policy.
    pub policy: Policy,
    /// Why it is unavailable.
    pub why: String,
}

/// How the benchmark was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// As requested; [`Bench::turns`] has fewer if the run was cut short.
    pub rounds: u32,
    /// Waits in a turn, at most.
    pub waits: u64,
    /// Length of a turn, at most, s.
    pub turn_s: f64,
    /// Waits before those that count, at most 10 ms apart.
    pub warm_up: u64,
    /// Seed of the order and of the draws.
    pub seed: u64,
    /// The CPU on which the workload waits.
    pub cpu: u32,
}

/// A benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Where it was run, when and how it ended; [`SCHEMA_VERSION`] is its schema's version.
    #[serde(flatten)]
    pub about: About,
    /// What waited, and for what.
    pub workload: Workload,
    /// How many rounds, of what length.
    pub plan: Plan,
    /// The meter that was named, as it was seen before.
    pub meter: Option<Watched>,
    /// In the order of tables.
    pub points: Vec<Point>,
    /// The first is "as is".
    pub policies: Vec<PolicyUsed>,
    /// Policies that are unavailable here.
    pub skipped: Vec<Skipped>,
    /// By point, then by policy.
    pub rows: Vec<Row>,
    /// By point, then by policy; where "as is" and "no sleep" were both run.
    pub gains: Vec<Gain>,
    /// What a reader must know (one sentence each).
    pub notes: Vec<String>,
    /// In the order in which they were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

impl Bench {
    /// The row of that policy at that point.
    pub fn row(&self, point: usize, policy: Policy) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.point == point && row.policy == policy)
    }

    /// How much that policy regained at that point.
    pub fn gain(&self, point: usize, policy: Policy) -> Option<&Gain> {
        let mut gains = self.gains.iter();
        gains.find(|gain| gain.point == point && gain.policy == policy)
    }

    /// Is it I/O, with points that are idle times?
    pub fn is_storage(&self) -> bool {
        self.workload.kind == "storage"
    }

    /// Rounds that are complete at every point.
    pub fn complete_rounds(&self) -> u64 {
        let rounds = |point| {
            let row = self.row(point, Policy::AsIs)?;
            row.median_ns.as_ref().map(|median| median.rounds)
        };
        let rounds = (0..self.points.len()).map(|point| rounds(point).unwrap_or(0));
        rounds.min().unwrap_or(0)
    }
}

/// Reads the text of a `bench.json`.
///
/// # Errors
/// In words, if it is another file, or has an unknown schema.
pub fn parse(text: &[u8]) -> std::result::Result<Bench, String> {
    let bench: Bench = kept::parse(text, FILE, SCHEMA_VERSION)?;
    let rows = bench.rows.iter().map(|row| row.point);
    let gains = bench.gains.iter().map(|gain| gain.point);
    let turns = bench.turns.iter().map(|turn| turn.point);
    let mut points = rows.chain(gains).chain(turns);
    match points.all(|point| point < bench.points.len()) {
        true => Ok(bench),
        false => Err("names a point that it does not have; it is damaged".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_named() {
        for (ns, name) in [
            (0, "0"),
            (100_000, "100 µs"),
            (1_500_000, "1.5 ms"),
            (100_000_000, "100 ms"),
            (2_000_000_000, "2 s"),
            (500, "500 ns"),
        ] {
            assert_eq!(Point::idle(ns).name, name);
        }
    }
}

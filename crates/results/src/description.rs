//! `result.json`: what was measured, where and how, and its statistics.

use std::collections::BTreeMap;

use reveille_figures::quantile::{P90, P99, Share};
use reveille_kernel::{Identity, IdleState};
use serde::{Deserialize, Serialize};

use crate::Malformed;
use crate::columns::Columns;
use crate::schema::{self, SCHEMA_VERSION};
use crate::sources::{self, SourceDifference};
use crate::statistics::{self, Floor, StateStatistics};

/// Of [`Counts::dropped`]: something else ran on the CPU.
pub const NOT_IDLE: &str = "not idle at the launch";

/// How the waking was seen. Comparing results of different probes prints a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// BPF programs in the idle loop and at the interrupt's entry.
    Bpf,
    /// A waiting thread, as cyclictest: scheduling is in the figure.
    User,
    /// Another tool's: see `tool`.
    #[default]
    Foreign,
}

/// How a run ended. What was gathered is complete up to there in every case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It has as many datapoints, or took as long, as requested.
    #[default]
    Completed,
    /// By the user, or by a signal.
    Interrupted,
    /// Something changed under the run (the CPU went offline, the governor changed...).
    Disturbed(String),
}

impl Ended {
    /// The words for a run that a signal ended.
    pub const INTERRUPTED: &'static str = "early, interrupted";

    /// How a run that was not completed ended, in words that follow "ended".
    pub fn early(&self) -> Option<String> {
        match self {
            Self::Completed => None,
            Self::Interrupted => Some(Self::INTERRUPTED.to_owned()),
            Self::Disturbed(why) => Some(format!("early: {why}")),
        }
    }
}

/// What was requested.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Sources used, in order.
    pub sources: Vec<String>,
    /// The measured CPU's number; `None` where it is unknown (another tool's result, a CSV file alone).
    pub cpu: Option<u32>,
    /// Requested datapoints; `None`: the duration ends it.
    pub datapoints: Option<u64>,
    /// Requested seconds; `None`: the datapoints end it.
    pub duration_s: Option<f64>,
    /// The least launch distance, ns.
    pub distance_min_ns: u64,
    /// The largest launch distance, ns.
    pub distance_max_ns: u64,
    /// `random` (log-uniform) or `sweep`.
    pub protocol: String,
    /// Deepest states allowed in turn; empty where the machine's own setting was kept.
    pub deepest_states: Vec<String>,
    /// Bytes that were read before each idle period, so that wake-ups met cold caches; 0: none.
    pub cold_bytes: u64,
    /// The other CPUs, all but the one that read the events, were offline.
    pub offline_others: bool,
    /// How the wake-up was armed where kernels differ ("absolute, pinned", "relative", ...).
    pub arming: String,
    /// The seed of the launch distances.
    pub seed: u64,
}

/// `CPU 3`, or `an unknown CPU`.
pub fn cpu_name(number: Option<u32>) -> String {
    number.map_or("an unknown CPU".to_owned(), |cpu| format!("CPU {cpu}"))
}

impl Settings {
    /// The measured CPU, as [`cpu_name`].
    pub fn cpu_name(&self) -> String {
        cpu_name(self.cpu)
    }
}

/// A cost that was measured before the run: how often it was tried, and what it took, ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How often it was tried.
    pub count: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Median, ns; `None` in older results, which have the mean alone.
    #[serde(default)]
    pub median_ns: Option<f64>,
    /// The least, ns.
    pub min_ns: f64,
    /// The largest, ns.
    pub max_ns: f64,
}

/// What the instrument costs on this machine, measured before the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Characterisation {
    /// What is subtracted from every latency, ns, and why (the book's method chapter).
    pub overhead_ns: i64,
    /// The clock that all instants are of.
    pub clock: String,
    /// By what was tried: `timestamp`, `counter_read:NAME`, ...
    pub costs: BTreeMap<String, Cost>,
    /// The probes' cost per idle entry and exit together on the measured CPU, ns, as the kernel
    /// counts it (`bpf_stats_enabled`); `None` where it was not counted.
    pub probe_cost_per_idle_ns: Option<f64>,
    /// By source.
    pub floors: Vec<Floor>,
}

/// What became of the wake-ups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Wake-ups that were launched.
    pub launched: u64,
    /// Those that became datapoints.
    pub kept: u64,
    /// Those that did not, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Events that found the ring buffer full (also among `dropped`).
    pub ring_buffer_full: u64,
    /// How long it was measured, s.
    pub elapsed_s: f64,
    /// Wake-ups that the launch distances allow in that time; `None` where that is not defined.
    pub possible: Option<u64>,
    /// Idle periods that datapoints were kept of: one may give several where the CPU polls.
    pub idle_periods: u64,
    /// By how much cpuidle's own counts rose meanwhile on the measured CPU, the second method: at
    /// least as much. `None` where it does not count.
    pub cpuidle_entries: Option<u64>,
    /// All CPUs slept at once at least and at most so long, per cent of the run, preparation included; `None` where
    /// that is not counted, a CPU came or went, or others were taken offline. The kernel counts each CPU by itself, so
    /// these are bounds: a program that counted would run in each wake-up that is measured.
    pub joint_percent: Option<(f64, f64)>,
}

/// A result's description.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Description {
    /// The form of the result's folder: see [`crate::schema`].
    pub schema_version: u32,
    /// `reveille 0.1.0`, `wult 1.12.20`.
    pub tool: String,
    /// The result's name in reports: the folder's, unless it is set.
    pub name: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// What was run, word by word; empty where it is not known.
    pub command_line: Vec<String>,
    /// How waking was seen.
    pub probe: Probe,
    /// How the run ended.
    pub ended: Ended,
    /// The machine that was measured.
    pub machine: Identity,
    /// The driver's table for the measured CPU.
    pub driver: Option<String>,
    /// cpuidle's governor; `None` where there is none, or it is not known.
    pub governor: Option<String>,
    /// The driver's idle states; empty where there is no table.
    pub states: Vec<IdleState>,
    /// Names of the residency columns, in order.
    pub residency_columns: Vec<String>,
    /// What was requested.
    pub settings: Settings,
    /// What measuring takes, and the floors.
    pub characterisation: Characterisation,
    /// Datapoints that were kept and dropped, by reason.
    pub counts: Counts,
    /// Per requested state, as computed at the end of the run over all its datapoints.
    pub statistics: Vec<StateStatistics>,
    /// How the sources differ, if several took turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_differences: Vec<SourceDifference>,
    /// What a reader must know (one sentence each): what the figure includes, what was missing.
    pub notes: Vec<String>,
}

impl Description {
    /// Fills in what its datapoints give: the statistics, and how the sources differ.
    pub fn conclude(&mut self, columns: &Columns) {
        self.statistics = self.statistics_of(columns);
        let (sources, floors) = (&self.settings.sources, &self.characterisation.floors);
        self.source_differences = sources::differences(columns, sources, floors);
    }

    /// The statistics of its datapoints, by the driver's table and the floors that it holds.
    fn statistics_of(&self, columns: &Columns) -> Vec<StateStatistics> {
        let figure = |name: &str| {
            let state = self.states.iter().find(|state| state.name == name)?;
            state.exit_latency_us
        };
        statistics::by_state(columns, &figure, &self.characterisation.floors)
    }

    /// Of datapoints that came without a description.
    pub(crate) fn unknown(residency_columns: Vec<String>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool: "unknown".to_owned(),
            residency_columns,
            ..Self::default()
        }
    }
}

/// Reads a `result.json`; an error if it is another file, or has an unknown schema.
pub fn read(text: &[u8]) -> Result<Description, Malformed> {
    let wrong = |error: serde_json::Error| {
        Malformed::new(format!(
            "is not a result.json of reveille, or was cut short: {error}"
        ))
    };
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Malformed::new(
            "is empty; expected the description of a result",
        ));
    }
    // The version comes first: a newer file may differ in everything else.
    match schema::version(text).map_err(wrong)? {
        Some(version) => schema::check_version(version)?,
        None => {
            return Err(Malformed::new(
                "has no schema_version; it is not a result.json of reveille",
            ));
        }
    }
    let mut description: Description = serde_json::from_slice(text).map_err(wrong)?;
    for floor in &mut description.characterisation.floors {
        // Written by a version that gave them for any number.
        let is_carried = |quantile: Share| quantile.is_carried_by(floor.count as usize);
        floor.p90_ns = floor.p90_ns.filter(|_| is_carried(P90));
        floor.p99_ns = floor.p99_ns.filter(|_| is_carried(P99));
    }
    Ok(description)
}

/// A result in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it is, where, and by what.
    pub description: Description,
    /// Its datapoints.
    pub columns: Columns,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_was_not_completed_ended_early() {
        assert_eq!(Ended::Completed.early(), None);
        assert_eq!(Ended::Interrupted.early().unwrap(), "early, interrupted");
        let offline = Ended::Disturbed("CPU 3 went offline".into());
        assert_eq!(offline.early().unwrap(), "early: CPU 3 went offline");
    }

    #[test]
    fn a_floors_quantiles_from_too_few_datapoints_are_not_read() {
        let floor = |count: u64| {
            let mut value = serde_json::to_value(Description::unknown(Vec::new())).unwrap();
            value["characterisation"]["floors"] = serde_json::json!([{
                "state": "POLL", "source": "timer", "count": count, "median_ns": 5, "p90_ns": 7,
                "p99_ns": 8, "max_ns": 9,
            }]);
            let read = read(value.to_string().as_bytes()).unwrap();
            let floor = &read.characterisation.floors[0];
            (floor.p90_ns, floor.p99_ns)
        };
        assert_eq!(floor(0), (None, None));
        assert_eq!(floor(99), (None, None));
        assert_eq!(floor(100), (Some(7), None));
        assert_eq!(floor(999), (Some(7), None));
        assert_eq!(floor(1000), (Some(7), Some(8)));
    }
}

//! Statistics per requested state.

use reveille_figures::quantile::{MEDIAN, Moments, P90, P99, P99_9, P99_99, median};
use reveille_figures::tail::{self, Tail};
use serde::{Deserialize, Serialize};

use crate::columns::NO_NAME;
use crate::verdict::{Exceedance, Verdict};
use crate::{Columns, NULL};

/// Quantiles and moments of one sample, ns. A quantile is there only where the count carries it:
/// at least ten datapoints lie beyond it (so p99 from 1000, p99.9 from 10 000, ...).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Datapoints.
    pub count: u64,
    /// The least, ns.
    pub min_ns: i64,
    /// Median, ns.
    pub median_ns: i64,
    /// 90th percentile, ns; from 100 datapoints on.
    pub p90_ns: Option<i64>,
    /// 99th percentile, ns; from 1000 datapoints on.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile, ns; from 10 000 datapoints on.
    pub p99_9_ns: Option<i64>,
    /// 99.99th percentile, ns; from 100 000 datapoints on.
    pub p99_99_ns: Option<i64>,
    /// The largest, ns.
    pub max_ns: i64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// `None` for one datapoint.
    pub standard_deviation_ns: Option<f64>,
}

/// A percentile that a [`Summary`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// [`Summary::p90_ns`].
    P90,
    /// [`Summary::p99_ns`].
    P99,
    /// [`Summary::p99_9_ns`].
    P99_9,
    /// [`Summary::p99_99_ns`].
    P99_99,
}

impl Percentile {
    /// All of them, ascending.
    pub const ALL: [Self; 4] = [Self::P90, Self::P99, Self::P99_9, Self::P99_99];

    /// `p99.9`.
    pub fn name(self) -> &'static str {
        match self {
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
        }
    }

    /// In per cent: `99.9`.
    pub fn percent(self) -> &'static str {
        &self.name()[1..]
    }

    /// The one with that [`Percentile::percent`].
    pub fn of_percent(percent: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.percent() == percent)
    }

    /// That of the summary, ns; `None` where the datapoints are too few.
    pub fn of(self, summary: &Summary) -> Option<i64> {
        match self {
            Self::P90 => summary.p90_ns,
            Self::P99 => summary.p99_ns,
            Self::P99_9 => summary.p99_9_ns,
            Self::P99_99 => summary.p99_99_ns,
        }
    }
}

/// The floor of the method on this machine: the same event on a CPU where nothing sleeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The state it was measured in: the poll state's name, or [`crate::schema::AWAKE`].
    pub state: String,
    /// As in the column `source`.
    pub source: String,
    /// Wakes.
    pub count: u64,
    /// Median, ns.
    pub median_ns: i64,
    /// 90th percentile, ns; `None` below 100 datapoints.
    pub p90_ns: Option<i64>,
    /// 99th percentile, ns; `None` below 1000 datapoints.
    pub p99_ns: Option<i64>,
    /// The largest, ns.
    pub max_ns: i64,
    /// The median of each round, ns, where the sources took turns; `None` for a round without datapoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub medians_ns: Vec<Option<i64>>,
}

/// One requested state's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateStatistics {
    /// The requested state's name, [`UNKNOWN`] where it is not known.
    pub state: String,
    /// As cpuidle numbers it; `None` where it is not known.
    pub index: Option<i32>,
    /// As in the column `source`: sources are not mixed.
    pub source: String,
    /// The driver's figure.
    pub driver_exit_latency_us: Option<u64>,
    /// Of its wake latencies.
    pub wake_latency: Summary,
    /// Median wake latency minus the floor's median of the same source; `None` without a floor.
    pub median_above_floor_ns: Option<i64>,
    /// The median of how far its source's launch times are known, either way, ns; `None`: they are instants of the
    /// CPU's own clock.
    pub launch_error_ns: Option<i64>,
    /// `None` where the driver gives no figure (or the state is the floor's own).
    pub exceedance: Option<Exceedance>,
    /// Is the driver's figure true?
    pub verdict: Verdict,
    /// What lies beyond the data.
    pub tail: Tail,
}

/// The statistics of every (requested state, source) in `columns`, by state index; without indices
/// by median, which is the order of depth. `driver` gives the driver's exit latency for a state's
/// name, µs. Datapoints without a wake latency are passed over.
pub fn by_state(
    columns: &Columns,
    driver: &dyn Fn(&str) -> Option<u64>,
    floors: &[Floor],
) -> Vec<StateStatistics> {
    let mut statistics: Vec<StateStatistics> = samples(columns, WAKE_LATENCY)
        .into_iter()
        .filter_map(|(group, mut sample)| {
            let figure = driver(&group.state);
            let launch_error_ns = launch_error(columns, &group.source);
            let statistics = of_sample(group, &mut sample, figure, floors)?;
            Some(StateStatistics {
                launch_error_ns,
                ..statistics
            })
        })
        .collect();
    statistics.sort_by_key(|one| {
        (
            one.index.unwrap_or(i32::MAX),
            one.wake_latency.median_ns,
            one.source.clone(),
        )
    });
    statistics
}

/// What a sample is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// [`UNKNOWN`] where it is not known.
    pub state: String,
    /// As cpuidle numbers it; `None` where it is not known.
    pub index: Option<i32>,
    /// [`UNKNOWN`] where it is missing.
    pub source: String,
}

/// The name of an unknown state or source.
pub const UNKNOWN: &str = "unknown";

/// The column of wake latencies.
pub const WAKE_LATENCY: &str = "wake_latency_ns";

/// The known values of the column `latency` of every (requested state, source), in no order.
pub fn samples(columns: &Columns, latency: &str) -> Vec<(Group, Vec<i64>)> {
    let Some(latencies) = columns.integers(latency) else {
        return Vec::new();
    };
    let states = columns.names("requested_state");
    let sources = columns.names("source");
    let indices = columns.integers("requested_state_index");
    let code = |names: Option<(&[u8], &[String])>, row: usize| match names {
        Some((codes, _)) => codes[row],
        None => NO_NAME,
    };
    let mut keys: Vec<(u8, u8, i64)> = Vec::new();
    let mut samples: Vec<Vec<i64>> = Vec::new();
    // Neighbours are mostly of one group.
    let mut last = 0;
    for (row, &latency) in latencies.iter().enumerate() {
        if latency == NULL {
            continue;
        }
        let key = (
            code(states, row),
            code(sources, row),
            indices.map_or(NULL, |all| all[row]),
        );
        if keys.get(last) != Some(&key) {
            last = keys
                .iter()
                .position(|known| *known == key)
                .unwrap_or_else(|| {
                    keys.push(key);
                    samples.push(Vec::new());
                    keys.len() - 1
                });
        }
        samples[last].push(latency);
    }
    let name = |names: Option<(&[u8], &[String])>, code: u8| {
        let name = names.and_then(|(_, names)| names.get(usize::from(code)));
        name.map_or_else(|| UNKNOWN.to_owned(), String::clone)
    };
    let groups = keys.into_iter().map(|(state, source, index)| Group {
        state: name(states, state),
        source: name(sources, source),
        // Null is too small.
        index: index.try_into().ok(),
    });
    groups.zip(samples).collect()
}

fn of_sample(
    group: Group,
    sample: &mut [i64],
    figure: Option<u64>,
    floors: &[Floor],
) -> Option<StateStatistics> {
    let wake_latency = summarise(sample)?;
    let of_source = floors.iter().find(|floor| floor.source == group.source);
    let is_floor = of_source.is_some_and(|floor| floor.state == group.state);
    // The poll state's figure is 0: nothing sleeps in it, and no wake is as fast.
    let exceedance = figure
        .filter(|&figure| figure > 0 && !is_floor)
        .map(|figure| Exceedance::of_sorted(sample, figure));
    Some(StateStatistics {
        verdict: Verdict::of(exceedance.as_ref()),
        tail: tail::estimate(sample),
        median_above_floor_ns: of_source.map(|floor| wake_latency.median_ns - floor.median_ns),
        launch_error_ns: None,
        exceedance,
        wake_latency,
        driver_exit_latency_us: figure,
        state: group.state,
        index: group.index,
        source: group.source,
    })
}

/// The median of how far a source's launch times are known, ns; `None` where none has a bound.
pub(crate) fn launch_error(columns: &Columns, source: &str) -> Option<i64> {
    let errors = columns.integers("launch_error_ns")?.iter();
    let sources = columns.names("source");
    let of_source: Vec<f64> = errors
        .enumerate()
        .filter(|(row, error)| **error != NULL && name(sources, *row) == source)
        .map(|(_, error)| *error as f64)
        .collect();
    median(&of_source).map(|error| error as i64)
}

/// The name in a row of a column of names, [`UNKNOWN`] where it is not known.
pub(crate) fn name<'a>(column: Option<(&'a [u8], &'a [String])>, row: usize) -> &'a str {
    let name = column.and_then(|(codes, names)| {
        let code = Some(codes[row]).filter(|code| *code != NO_NAME)?;
        names.get(usize::from(code))
    });
    name.map_or(UNKNOWN, String::as_str)
}

/// The summary of a sample (any order; it is sorted in place). `None` if it is empty.
pub fn summarise(sample: &mut [i64]) -> Option<Summary> {
    sample.sort_unstable();
    let sorted: &[i64] = sample;
    let sum: i128 = sorted.iter().map(|&value| i128::from(value)).sum();
    let moments = Moments::about(sum as f64, sorted.iter().map(|&value| value as f64))?;
    Some(Summary {
        count: sorted.len() as u64,
        min_ns: *sorted.first()?,
        median_ns: MEDIAN.of(sorted)?,
        p90_ns: P90.carried(sorted),
        p99_ns: P99.carried(sorted),
        p99_9_ns: P99_9.carried(sorted),
        p99_99_ns: P99_99.carried(sorted),
        max_ns: *sorted.last()?,
        mean_ns: moments.mean,
        standard_deviation_ns: moments.standard_deviation,
    })
}

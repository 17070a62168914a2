//! The driver's table, written anew from what was measured: `intel_idle.table=` (Linux 7.0).
//!
//! A measured row's exit latency is the *upper confidence bound* of the chosen percentile, by the
//! source where it is largest. With such a table a latency bound leaves just those states that
//! advice for that bound, percentile and confidence would allow, state by state. Rows whose
//! datapoints carry no bound keep the driver's figures.
//!
//! What the kernel takes (`validate_cmdline_cstate` in drivers/idle/intel_idle.c): names that the
//! driver has, exit latencies from 1 µs to 5 ms, target residencies up to 100 ms and not below the
//! latency, both larger than the row's before. It refuses the whole table where one row breaks a
//! rule, and the driver's own tables may break them (two rows with one target residency); so a row
//! is lifted where necessary, with a note.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use reveille_results::Loaded;
use reveille_show::quantity::count as thousands;
use serde::Serialize;

use crate::finding::{needed, percentile_high};
use crate::form::{FOR_ALL, is_plain};
use crate::measured::Measured;
use crate::target::sleeps;
use crate::{Confidence, Error, Latency, Percentile, Result, Target};

/// The largest exit latency that the kernel takes, µs.
const EXIT_LATENCY_MAX_US: u64 = 5_000;

/// The largest target residency that the kernel takes, µs.
const TARGET_RESIDENCY_MAX_US: u64 = 100_000;

/// The kernel keeps this many bytes of the parameter's value (256 with the end of the string).
const BYTES_MAX: usize = 255;

/// What was measured of a state's break-even residency.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakEven {
    /// µs; `None` where it is not known.
    pub us: Option<u64>,
    /// In words: `at most 300 µs`.
    pub words: String,
}

/// How the driver's target residencies are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// They stay, unless they have to be lifted.
    Keep,
    /// They grow and shrink with the exit latency: the driver's ratio of the two is kept.
    Scale,
}

/// Where a row's exit latency comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "origin")]
pub enum Origin {
    /// The upper confidence bound of the percentile.
    Measured,
    /// The driver's, for too little was measured.
    Driver {
        /// Datapoints of each source that would carry the percentile.
        needed: Option<u64>,
    },
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// As the driver calls it: `C6`.
    pub state: String,
    /// Datapoints, of the source with the fewest.
    pub count: u64,
    /// The driver's own exit latency, µs.
    pub driver_exit_latency_us: u64,
    /// The driver's own target residency, µs.
    pub driver_target_residency_us: u64,
    /// The break-even residency that `power states` measured, µs; `None` if none was given, or it is not known.
    pub break_even_us: Option<u64>,
    /// What is known instead of one that was given: `at most 300 µs`.
    pub break_even_unknown: Option<String>,
    /// The percentile's upper confidence bound, by the source where it is largest.
    pub measured_high_ns: Option<i64>,
    /// Where [`Row::exit_latency_us`] comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// To be set: µs, 1 to 5000, more than the row's before.
    pub exit_latency_us: u64,
    /// To be set: µs, up to 100 000, no less than the exit latency, more than the row's before.
    pub target_residency_us: u64,
    /// What the kernel's rules changed, one sentence each.
    pub changes: Vec<String>,
}

/// The driver's table anew.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The percentile that exit latencies are the bounds of.
    pub percentile: Percentile,
    /// How sure each bound is, row by row.
    #[serde(rename = "confidence_percent")]
    pub confidence: Confidence,
    /// The latency whose percentile it is.
    pub latency: Latency,
    /// How the target residencies were chosen.
    pub residency: Residency,
    /// Shallow states first, without the poll state.
    pub rows: Vec<Row>,
    /// `intel_idle.table=C1:2:2,...`
    pub parameter: String,
    /// Caveats, one sentence each.
    pub warnings: Vec<String>,
}

impl Table {
    /// The table that a result gives. A state whose break-even is known has that target residency, whatever `residency`
    /// says.
    ///
    /// # Errors
    /// If the driver takes no table or its own is unknown, nothing was measured, or the kernel's
    /// rules leave no room for the figures.
    pub fn of(
        loaded: &Loaded,
        target: &Target,
        percentile: Percentile,
        confidence: Confidence,
        latency: Latency,
        residency: Residency,
        break_even: &BTreeMap<String, BreakEven>,
    ) -> Result<Self> {
        if let Some(driver) = target.driver.as_deref().filter(|one| *one != "intel_idle") {
            return Err(Error::NoTableTaken(driver.to_owned()));
        }
        let measured = Measured::of(loaded, target, latency)?;
        let mut rows: Vec<Row> = Vec::new();
        for state in target.states.iter().filter(|state| sleeps(&state.name)) {
            let (Some(exit), Some(residency_us)) =
                (state.exit_latency_us, state.target_residency_us)
            else {
                return Err(Error::NoTable);
            };
            let samples = measured.states.iter().find(|one| one.name == state.name);
            let samples = samples.map_or(&[][..], |one| &one.samples);
            let bound = Bound::of(samples, &measured.sources, percentile, confidence);
            let break_even = break_even.get(&state.name);
            let own = (exit, residency_us);
            let row = bound.row(&state.name, own, break_even, residency, rows.last());
            rows.push(row?);
        }
        if rows.is_empty() {
            return Err(Error::NoTable);
        }
        let is_new = |row: &Row| row.origin == Origin::Measured || row.break_even_us.is_some();
        if !rows.iter().any(is_new) {
            return Err(Error::CannotBeWritten(nothing_measured(&rows, percentile)));
        }
        // The kernel parts the figures by colons, and the parameters by spaces.
        let is_taken = |row: &&Row| !is_plain(&row.state) || row.state.contains([' ', ':']);
        if let Some(row) = rows.iter().find(is_taken) {
            let name = row.state.escape_debug();
            return Err(Error::CannotBeWritten(format!(
                "no table: a state's name cannot be written there: {name}"
            )));
        }
        let entry = |row: &Row| {
            let (exit, residency) = (row.exit_latency_us, row.target_residency_us);
            format!("{}:{exit}:{residency}", row.state)
        };
        let entries: Vec<String> = rows.iter().map(entry).collect();
        let value = entries.join(",");
        Ok(Self {
            percentile,
            confidence,
            latency,
            residency,
            warnings: warnings(target, &value),
            rows,
            parameter: format!("intel_idle.table={value}"),
        })
    }
}

fn warnings(target: &Target, value: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if target.driver.is_none() {
        warnings.push(
            "The idle driver is unknown, and only intel_idle takes a table on the command line."
                .to_owned(),
        );
    }
    if value.len() > BYTES_MAX {
        warnings.push(format!(
            "The table has {} bytes, and the kernel keeps {BYTES_MAX}: leave out rows that are as \
             in the driver's table.",
            value.len()
        ));
    }
    if target.cpus().is_some() {
        warnings.push(format!("{FOR_ALL}."));
    }
    warnings
}

/// Why there is no table where each row would be the driver's own.
fn nothing_measured(rows: &[Row], percentile: Percentile) -> String {
    let needed = rows.iter().find_map(|row| match row.origin {
        Origin::Driver { needed } => needed,
        Origin::Measured => None,
    });
    let needed = needed.map_or_else(|| "more".to_owned(), thousands);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
    format!(
        "no table: {percentile} takes {needed} datapoints of a state by each source, and none has \
         more than {}; `reveille measure --each-state` measures all",
        thousands(most)
    )
}

/// What was measured of a state, all sources together.
struct Bound {
    count: u64,
    high_ns: Option<i64>,
    needed: Option<u64>,
}

impl Bound {
    /// The largest over the sources; none where one of them carries none.
    fn of(
        samples: &[(String, Vec<i64>)],
        sources: &[String],
        percentile: Percentile,
        confidence: Confidence,
    ) -> Self {
        let risk = confidence.risk();
        let of_source = |source: &String| {
            let sample = samples.iter().find(|(name, _)| name == source);
            sample.map_or(&[][..], |(_, sample)| sample)
        };
        let bounds = sources
            .iter()
            .map(|source| percentile_high(of_source(source), percentile, risk));
        let counts = sources.iter().map(|source| of_source(source).len() as u64);
        Self {
            count: counts.min().unwrap_or(0),
            high_ns: bounds
                .collect::<Option<Vec<i64>>>()
                .and_then(|all| all.into_iter().max()),
            needed: needed(0, 0, percentile.beyond(), risk),
        }
    }

    fn row(
        &self,
        state: &str,
        (driver_exit_latency_us, driver_target_residency_us): (u64, u64),
        break_even: Option<&BreakEven>,
        residency: Residency,
        before: Option<&Row>,
    ) -> Result<Row> {
        let break_even_us = break_even.and_then(|even| even.us);
        let unknown = break_even.filter(|even| even.us.is_none());
        let measured_us = self
            .high_ns
            .map(|ns| ns.max(0).cast_unsigned().div_ceil(1000));
        let mut changes = Vec::new();
        let exit_latency_us = fit(
            "exit latency",
            measured_us.unwrap_or(driver_exit_latency_us),
            before.map_or(1, |before| before.exit_latency_us + 1)..=EXIT_LATENCY_MAX_US,
            &mut changes,
        )
        .ok_or_else(|| no_room(state))?;
        let wanted = match residency {
            Residency::Scale if measured_us.is_some() && driver_exit_latency_us > 0 => {
                (driver_target_residency_us * exit_latency_us).div_ceil(driver_exit_latency_us)
            }
            Residency::Keep | Residency::Scale => driver_target_residency_us,
        };
        let wanted = break_even_us.unwrap_or(wanted);
        let target_residency_us = fit(
            "target residency",
            wanted,
            exit_latency_us.max(before.map_or(0, |before| before.target_residency_us + 1))
                ..=TARGET_RESIDENCY_MAX_US,
            &mut changes,
        )
        .ok_or_else(|| no_room(state))?;
        Ok(Row {
            state: state.to_owned(),
            count: self.count,
            driver_exit_latency_us,
            driver_target_residency_us,
            break_even_us,
            break_even_unknown: unknown.map(|even| even.words.clone()),
            measured_high_ns: self.high_ns,
            origin: match self.high_ns {
                Some(_) => Origin::Measured,
                None => Origin::Driver {
                    needed: self.needed,
                },
            },
            exit_latency_us,
            target_residency_us,
            changes,
        })
    }
}

/// The figure, or the nearest to it that the kernel takes; `None` where it takes none.
fn fit(
    what: &str,
    wanted_us: u64,
    taken: RangeInclusive<u64>,
    changes: &mut Vec<String>,
) -> Option<u64> {
    if taken.is_empty() {
        return None;
    }
    let us = wanted_us.clamp(*taken.start(), *taken.end());
    if us > wanted_us {
        changes.push(format!(
            "{what} raised from {wanted_us} to {us} µs; the kernel requires it"
        ));
    } else if us < wanted_us {
        changes.push(format!(
            "{what} cut from {wanted_us} to {us} µs, the largest that the kernel takes"
        ));
    }
    Some(us)
}

fn no_room(state: &str) -> Error {
    Error::CannotBeWritten(format!(
        "no table: {state} must be slower than the state before it, and the kernel takes at most \
         {EXIT_LATENCY_MAX_US} µs of exit latency and {TARGET_RESIDENCY_MAX_US} µs of residency"
    ))
}

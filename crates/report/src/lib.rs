//! Results of measurements as one HTML page.
//!
//! [`page`] takes one result or several and gives a page that needs nothing else: its charts are
//! SVG drawn here, its style sheet and its script are in it, and it forbids itself the network and
//! every other script. It reads in light and dark, on a phone, on paper and without a script.
//!
//! ```no_run
//! use reveille_report::{Input, Options, page};
//!
//! let input = Input::new(reveille_results::open("my-result")?)?;
//! std::fs::write("report.html", page(&[input], &Options::default())?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All datapoints are shown, as counts over cells (`density.rs`); those beyond the 99.9th percentile
//! of their state (`groups.rs`) are drawn one by one and carry all their fields.

pub mod anticipate;
mod compared;
mod groups;
pub mod model;
mod outliers;
mod page;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
mod section;
pub mod trial;
mod view;

use reveille_results::columns::Values;
use reveille_results::{Columns, Filter, FilterError, Loaded, statistics};

pub use page::page;
pub use reveille_show::page::is_page;

/// One result.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub(crate) loaded: Loaded,
    pub(crate) before_filter: Option<usize>,
}

impl Input {
    /// A result with all its datapoints. Where its description holds no statistics (another tool's,
    /// or a run that was cut off) they are computed.
    ///
    /// # Errors
    /// [`Error::NoLatency`] where it has no wake latencies; [`Error::Uneven`] where a column has
    /// not one value for each datapoint.
    pub fn new(loaded: Loaded) -> Result<Self> {
        check(&loaded.columns)?;
        let mut input = Self {
            loaded,
            before_filter: None,
        };
        if input.loaded.description.statistics.is_empty() {
            input.compute_statistics();
        }
        Ok(input)
    }

    /// A result with those datapoints that `filter` keeps; its statistics are theirs.
    ///
    /// # Errors
    /// As [`Input::new`], and [`Error::Filter`] where the result lacks a column of the filter.
    pub fn filtered(mut loaded: Loaded, filter: &Filter) -> Result<Self> {
        check(&loaded.columns)?;
        let before = loaded.columns.rows;
        let kept = filter.apply(&loaded.columns)?;
        loaded.columns.retain(&kept);
        let mut input = Self {
            loaded,
            before_filter: Some(before),
        };
        input.compute_statistics();
        Ok(input)
    }

    /// How many datapoints are shown.
    pub fn datapoints(&self) -> usize {
        self.loaded.columns.rows
    }

    fn compute_statistics(&mut self) {
        let description = &self.loaded.description;
        let figure = |name: &str| {
            let state = description.states.iter().find(|state| state.name == name)?;
            state.exit_latency_us
        };
        let floors = &description.characterisation.floors;
        let computed = statistics::by_state(&self.loaded.columns, &figure, floors);
        self.loaded.description.statistics = computed;
    }
}

/// What the drawing relies on.
fn check(columns: &Columns) -> Result<()> {
    if columns.integers("wake_latency_ns").is_none() && columns.rows > 0 {
        return Err(Error::NoLatency);
    }
    for column in &columns.columns {
        let values = match &column.values {
            Values::Integer(values) => values.len(),
            Values::Percent(values) => values.len(),
            Values::Name { codes, .. } => codes.len(),
        };
        if values != columns.rows {
            let column = column.name.clone();
            return Err(Error::Uneven {
                column,
                values,
                rows: columns.rows,
            });
        }
    }
    Ok(())
}

/// What the reader of the page is told besides the results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// The page's title; the results' names where there is none.
    pub title: Option<String>,
    /// The expression that the datapoints were selected by.
    pub filter: Option<String>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was given.
    #[error("there is no result to report on; name at least one")]
    NoResult,
    /// The result has datapoints and no wake latencies.
    #[error("the datapoints have no column wake_latency_ns; a report needs it")]
    NoLatency,
    /// A column has not one value for each datapoint.
    #[error("the column {column} has {values} values for {rows} datapoints; the result is damaged")]
    Uneven {
        /// The column's name.
        column: String,
        /// How many it has.
        values: usize,
        /// How many there are datapoints.
        rows: usize,
    },
    /// The filter names a column that the result lacks.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

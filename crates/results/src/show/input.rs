//! What is shown: results, all their datapoints or those that a filter keeps.

use reveille_show::quantity::count;

use crate::{Columns, Description, Filter, FilterError, Loaded};

/// One result.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub(super) loaded: Loaded,
    is_filtered: bool,
}

impl Input {
    /// A result with all its datapoints. Statistics that its description lacks (another tool's, or an
    /// interrupted run's) are computed. [`Error::NoLatency`] if it has no wake latencies; [`Error::Uneven`] if
    /// a column has not one value for each datapoint.
    pub fn new(loaded: Loaded) -> Result<Self> {
        check(&loaded.columns)?;
        let mut input = Self {
            loaded,
            is_filtered: false,
        };
        if input.loaded.description.statistics.is_empty() {
            input.compute_statistics();
        }
        Ok(input)
    }

    /// A result with those datapoints that `filter` keeps; its statistics are theirs, and its first note says
    /// so. Errors as [`Input::new`], and [`Error::Filter`] if the result lacks a column of the filter.
    pub fn filtered(mut loaded: Loaded, filter: &Filter) -> Result<Self> {
        check(&loaded.columns)?;
        let before = loaded.columns.rows;
        let kept = filter.apply(&loaded.columns)?;
        loaded.columns.retain(&kept);
        let [kept, all] = [loaded.columns.rows, before].map(|rows| count(rows as u64));
        let note = format!("Only datapoints with {filter}: {kept} of {all}.");
        loaded.description.notes.insert(0, note);
        let mut input = Self {
            loaded,
            is_filtered: true,
        };
        input.compute_statistics();
        Ok(input)
    }

    /// How many datapoints are shown.
    pub fn datapoints(&self) -> usize {
        self.loaded.columns.rows
    }

    /// What is known of the result, with the statistics of its datapoints.
    pub fn description(&self) -> &Description {
        &self.loaded.description
    }

    /// An answer, which would not hold for all datapoints of a filtered result.
    pub(super) fn told(&self, answer: String) -> String {
        match self.is_filtered && !answer.is_empty() {
            true => format!("Of the datapoints that pass the filter: {answer}"),
            false => answer,
        }
    }

    fn compute_statistics(&mut self) {
        let Loaded {
            columns,
            description,
        } = &mut self.loaded;
        description.conclude(columns);
    }
}

/// What the drawing relies on.
fn check(columns: &Columns) -> Result<()> {
    if columns.integers("wake_latency_ns").is_none() && columns.rows > 0 {
        return Err(Error::NoLatency);
    }
    for column in &columns.columns {
        let values = column.values.len();
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

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was given.
    #[error("no result is given; name at least one")]
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

/// With this module's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

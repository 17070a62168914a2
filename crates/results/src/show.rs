//! Results for people: the names, units and words of their figures.
//!
//! [`summary`] is what a run prints at its end. [`sheet`] is the page of one result or several: all
//! datapoints as density, those beyond the 99.9th percentile of their state one by one with all their
//! fields, the statistics by state, and what differs between results.

mod charts;
mod difference;
mod groups;
mod input;
mod machine;
mod notices;
mod outliers;
mod page;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
mod sources;
mod statistics;
mod summary;
mod verdicts;
mod view;

pub use difference::all as comparisons;
pub use input::{Error, Input, Result};
pub use notices::{by_probe, subject};
pub use page::sheet;
pub use statistics::reference;
pub use summary::{nothing, summary, summary_of, summary_of_hosts};
pub use view::Views;

//! Results on disk: datapoints, their description and statistics.
//!
//! A result is a folder with `datapoints.parquet` (one row per wake-up, [`schema`]) and
//! `result.json` ([`Description`]). [`ResultFolder`] makes and opens one; [`open`] also reads a
//! result of wult. Over its [`Columns`] work the [`filter`], the [`statistics`], the [`verdict`] and
//! the comparison of two results ([`compare`]) and of one's sources ([`sources`]); [`show`] has their names and words, and makes the
//! page. What other commands keep is [`kept`]. Every output file is made in [`output`].

#[cfg(test)]
extern crate self as reveille_results;

pub mod columns;
pub mod compare;
mod csv;
mod csv_text;
mod decimal;
pub mod description;
mod export;
pub mod filter;
mod folder;
pub mod kept;
mod nearest;
mod newest;
pub mod output;
mod own_csv;
mod parquet_file;
pub mod read;
pub mod schema;
pub mod show;
pub mod sources;
pub mod statistics;
mod stream;
pub mod text;
pub mod verdict;
mod writer;
mod wult;

pub use columns::{Column, Columns, NULL, Values};
pub use description::{Description, Loaded};
pub use export::export_result;
pub use filter::{Filter, FilterError};
pub use folder::{
    ResultFolder, is_result, looks_like_result, open, open_columns, open_description,
};
pub use newest::{Newest, newest};
pub use parquet_file::panic_becomes_an_error;
pub use schema::{Datapoint, First, Source, WokenBy};
pub use stream::{StreamError, in_parts};
pub use writer::Writer;

pub use reveille_kernel::{Error, Result};

/// What is wrong with a file's content, without its path: "is empty; expected ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

impl Malformed {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(crate) fn at_line(self, line: usize) -> Self {
        Self(format!("line {line}: {}", self.0))
    }

    pub(crate) fn at(self, path: &std::path::Path) -> Error {
        Error::Unreadable {
            path: path.to_owned(),
            why: self.0,
        }
    }
}

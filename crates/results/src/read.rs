//! The readers of each file of a result, from memory or any stream: for programs without a folder, and for
//! the fuzz targets. [`crate::open`] is the usual way. Errors name line and column.

use std::io::Read;

use bytes::Bytes;

use crate::csv::{Csv, LastLine};
use crate::{Columns, Loaded, Malformed, own_csv, parquet_file, wult};

pub use crate::description::read as read_description;
pub use crate::wult::{Info, read_info_yml};

/// A `datapoints.parquet`.
pub fn read_parquet(file: Bytes) -> Result<Columns, Malformed> {
    parquet_file::read(file, None)
}

/// A `datapoints.csv` of wult; `info` is the content of the `info.yml` beside it.
pub fn read_wult_csv(file: impl Read + Send, info: Option<&Info>) -> Result<Loaded, Malformed> {
    wult::read_csv(file, info, None)
}

/// A CSV with our own columns: an export, or the partial file of an interrupted run.
pub fn read_csv(file: impl Read + Send) -> Result<Columns, Malformed> {
    let csv = Csv::new(file)?;
    let fields = own_csv::fields(&csv.header, None)?;
    Ok(csv.all(&fields, LastLine::MayLackNewline)?.columns)
}

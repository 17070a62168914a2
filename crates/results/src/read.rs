//! The readers of each file of a result, from memory or any stream: for programs that have no
//! folder, and for the fuzz targets. [`crate::open`] is the ordinary door.

use std::io::Read;

use bytes::Bytes;

use crate::csv::{Csv, LastLine};
use crate::{Columns, Description, Loaded, Malformed, own_csv, parquet_file};

pub use crate::wult::{Info, read_info_yml};

/// A `result.json`.
///
/// # Errors
/// Where it is none, or one of a schema that this program does not know.
pub fn read_description(text: &[u8]) -> Result<Description, Malformed> {
    crate::description::read(text)
}

/// A `datapoints.parquet`.
///
/// # Errors
/// Where it is none, is damaged, or has a schema that this program does not know.
pub fn read_parquet(file: Bytes) -> Result<Columns, Malformed> {
    parquet_file::read(file, None)
}

/// A `datapoints.csv` of wult; `info` is the content of the `info.yml` beside it.
///
/// # Errors
/// Where it is none, or its times may be in one unit or another; the message names the line and the
/// column.
pub fn read_wult_csv(file: impl Read + Send, info: Option<&Info>) -> Result<Loaded, Malformed> {
    crate::wult::read_csv(file, info, None)
}

/// A CSV with our own columns: an export, or the partial file of a run that was cut off.
///
/// # Errors
/// Where it is none; the message names the line and the column.
pub fn read_csv(file: impl Read + Send) -> Result<Columns, Malformed> {
    let csv = Csv::new(file)?;
    let fields = own_csv::fields(&csv.header, None)?;
    Ok(csv.all(&fields, LastLine::MayLackNewline)?.columns)
}

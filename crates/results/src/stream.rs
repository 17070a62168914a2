//! A result's datapoints one part after another, for results larger than memory.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use reveille_show::progress::Reading;

use crate::FilterError;
use crate::csv::{Csv, LastLine};
use crate::folder;
use crate::writer::PARTIAL;
use crate::{Columns, Error, Malformed, own_csv, parquet_file, wult};

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The result could not be read.
    #[error(transparent)]
    Read(#[from] Error),
    /// The consumer of the parts failed.
    #[error(transparent)]
    Sink(#[from] std::io::Error),
    /// The result lacks a column of the filter.
    #[error(transparent)]
    Filter(FilterError),
}

/// Gives `sink` all columns of the datapoints in order, some thousand datapoints at a time. Codes of names
/// hold within a part only. A result without datapoints is one empty part. Errors as [`crate::open`], and
/// those of `sink`.
pub fn in_parts(
    path: impl AsRef<Path>,
    mut sink: impl FnMut(&Columns) -> std::io::Result<()>,
) -> Result<(), StreamError> {
    let path = folder::datapoints_file(path.as_ref())?;
    let info = folder::wult_info_beside(&path)?;
    let mut file = folder::open_regular(&path)?;
    let mut failed = None;
    let mut any = false;
    let guarded = |part: Columns| {
        any = true;
        sink(&part).map_err(|error| {
            failed = Some(error);
            // Only ends the reading; the error itself is returned below.
            Malformed::new("the output could not be written")
        })
    };
    let streamed = stream(&mut file, &path, info.as_ref(), guarded);
    match (failed, streamed) {
        (Some(error), _) => Err(StreamError::Sink(error)),
        (None, Err(wrong)) => Err(StreamError::Read(wrong.at(&path))),
        (None, Ok(empty)) if !any => Ok(sink(&empty)?),
        (None, Ok(_)) => Ok(()),
    }
}

/// Gives back the columns without datapoints.
fn stream(
    file: &mut File,
    path: &Path,
    info: Option<&wult::Info>,
    mut sink: impl FnMut(Columns) -> Result<(), Malformed>,
) -> Result<Columns, Malformed> {
    let io = |error: std::io::Error| Malformed::new(format!("cannot be read: {error}"));
    let mut start = Vec::new();
    (&mut *file).take(4).read_to_end(&mut start).map_err(io)?;
    file.rewind().map_err(io)?;
    if start == parquet_file::MAGIC {
        let file = file.try_clone().map_err(io)?;
        parquet_file::in_parts(file, None, sink)?;
        return Ok(Columns::default());
    }
    let file = file.try_clone().map_err(io)?;
    let csv = Csv::new(Reading::of(file, path))?;
    if own_csv::is_own(&csv.header) {
        let fields = own_csv::fields(&csv.header, None)?;
        let last = match path.file_name().is_some_and(|name| name == PARTIAL) {
            true => LastLine::IsTorn,
            false => LastLine::MayLackNewline,
        };
        csv.in_parts(&fields, last, sink)?;
        return Ok(crate::csv::empty(&fields));
    }
    let plan = wult::Plan::of(&csv.header, info, None)?;
    csv.in_parts(&plan.fields, LastLine::MayLackNewline, |mut part| {
        wult::add_source(&mut part, info);
        sink(part)
    })?;
    let mut empty = crate::csv::empty(&plan.fields);
    wult::add_source(&mut empty, info);
    Ok(empty)
}

//! A result as CSV: our columns and units, whatever tool it came from.

use std::io::Write;
use std::path::Path;

use crate::columns::{Columns, NULL, Values};
use crate::csv_text;
use crate::filter::{Filter, FilterError};
use crate::stream::{self, StreamError};

/// Text that is handed on at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes all columns of all datapoints as CSV, or of those that `filter` keeps, with a line of names first;
/// unknown values are empty. [`crate::open`] reads such a file. Some thousand datapoints are in memory at a
/// time. Returns their number. Errors as [`stream::in_parts`], and [`StreamError::Filter`] if the result
/// lacks a column of the filter.
pub fn export_result(
    result: impl AsRef<Path>,
    filter: Option<&Filter>,
    target: &mut dyn Write,
) -> Result<u64, StreamError> {
    let mut rows = 0;
    let mut has_header = false;
    let mut wrong = None;
    let streamed = stream::in_parts(result, |part| {
        let kept = match filter.map(|filter| kept(part, filter)).transpose() {
            Ok(kept) => kept,
            Err(error) => {
                wrong = Some(error);
                // Only ends the reading.
                return Err(std::io::ErrorKind::InvalidInput.into());
            }
        };
        let part = kept.as_ref().unwrap_or(part);
        if !has_header {
            write_header(part, target)?;
            has_header = true;
        }
        rows += part.rows as u64;
        write_rows(part, target)
    });
    match wrong {
        Some(wrong) => return Err(StreamError::Filter(wrong)),
        None => streamed?,
    }
    target.flush()?;
    Ok(rows)
}

fn kept(part: &Columns, filter: &Filter) -> Result<Columns, FilterError> {
    let flags = filter.apply(part)?;
    let mut kept = part.clone();
    kept.retain(&flags);
    Ok(kept)
}

fn write_header(columns: &Columns, target: &mut dyn Write) -> std::io::Result<()> {
    let mut text = String::new();
    for column in &columns.columns {
        csv_text::name(&mut text, &column.name);
    }
    csv_text::end_line(&mut text);
    target.write_all(text.as_bytes())
}

fn write_rows(columns: &Columns, target: &mut dyn Write) -> std::io::Result<()> {
    let mut text = String::with_capacity(BUFFER_BYTES + 1024);
    for row in 0..columns.rows {
        for column in &columns.columns {
            match &column.values {
                Values::Integer(values) => {
                    let value = values[row];
                    csv_text::optional(&mut text, (value != NULL).then_some(value));
                }
                Values::Percent(values) => csv_text::percent(&mut text, values[row]),
                Values::Name { codes, names } => {
                    let name = names
                        .get(usize::from(codes[row]))
                        .map_or("", String::as_str);
                    csv_text::name(&mut text, name);
                }
            }
        }
        csv_text::end_line(&mut text);
        if text.len() >= BUFFER_BYTES {
            target.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    target.write_all(text.as_bytes())
}

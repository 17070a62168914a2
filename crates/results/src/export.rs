//! A result as CSV: our columns and units, whatever tool it came from.

use std::io::Write;
use std::path::Path;

use crate::columns::{Columns, NULL, Values};
use crate::csv_text;
use crate::stream::{self, StreamError};

/// Text that is handed on at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes all columns of all datapoints as CSV, with a line of names first; unknown values are empty.
/// [`crate::open`] reads such a file. Some thousand datapoints are in memory at a time. Returns their
/// number.
pub fn export_result(result: impl AsRef<Path>, target: &mut dyn Write) -> Result<u64, StreamError> {
    let mut rows = 0;
    let mut has_header = false;
    stream::in_parts(result, |part| {
        if !has_header {
            write_header(part, target)?;
            has_header = true;
        }
        rows += part.rows as u64;
        write_rows(part, target)
    })?;
    target.flush()?;
    Ok(rows)
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

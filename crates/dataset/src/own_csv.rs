//! CSV with the columns of our own schema: the partial file, and what `reveille export` wrote.

use crate::csv::Field;
use crate::schema::{COLUMNS, Kind};
use crate::{Malformed, wult};

/// May this be the name of a residency column?
pub(crate) fn is_residency_column(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() > "_percent".len() && name.ends_with("_percent") && name.bytes().all(plain)
}

/// Is this a header of ours?
pub(crate) fn is_own(header: &[String]) -> bool {
    header.iter().any(|name| name == "wake_latency_ns")
}

/// How each column of the header is read; `wanted` are the columns to read, all where it is `None`.
pub(crate) fn fields(header: &[String], wanted: Option<&[&str]>) -> Result<Vec<Field>, Malformed> {
    if !is_own(header) {
        return Err(Malformed::new("line 1: has no column wake_latency_ns"));
    }
    Ok(header
        .iter()
        .map(|name| {
            if wanted.is_some_and(|wanted| !wanted.contains(&name.as_str())) {
                return Field::Skip;
            }
            let known = COLUMNS.iter().find(|(known, _, _)| known == name);
            match known {
                Some(&(name, kind, nullable)) => Field::of_kind(name, kind, nullable),
                None if is_residency_column(name) => Field::of_kind(name, Kind::Percent, true),
                // Exported from a wult result: figures of its own.
                None if wult::EXTRA_COLUMNS.contains(&name.as_str()) => {
                    Field::of_kind(name, Kind::Integer, true)
                }
                None => Field::Skip,
            }
        })
        .collect())
}

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
pub(crate) fn fields(
    header: &[String],
    wanted: Option<&[&str]>,
) -> Result<Vec<Option<Field>>, Malformed> {
    if !is_own(header) {
        return Err(Malformed::new("line 1: has no column wake_latency_ns"));
    }
    Ok(header
        .iter()
        .map(|name| {
            if wanted.is_some_and(|wanted| !wanted.contains(&name.as_str())) {
                return None;
            }
            let known = COLUMNS.iter().find(|(known, _, _)| known == name);
            let (kind, nullable) = match known {
                Some(&(_, kind, nullable)) => (kind, nullable),
                None if is_residency_column(name) => (Kind::Percent, true),
                // Exported from a wult result: figures of its own.
                None if wult::EXTRA_COLUMNS.contains(&name.as_str()) => (Kind::Integer, true),
                None => return None,
            };
            Some(Field::of_kind(name, kind, nullable))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::Form;

    #[test]
    fn a_residency_column_is_lower_case_and_ends_in_percent() {
        for name in [
            "cc6_percent",
            "cc1_derived_percent",
            "a_percent",
            "7_percent",
        ] {
            assert!(is_residency_column(name), "{name}");
        }
        for name in [
            "",
            "percent",
            "_percent",
            "cc6",
            "cc6_percentage",
            "longer_than_that",
            "CC6_percent",
            "cc6%_percent",
            "a,b_percent",
        ] {
            assert!(!is_residency_column(name), "{name}");
        }
    }

    #[test]
    fn each_column_is_read_as_in_the_schema() {
        let header = [
            "wake_latency_ns",
            "requested_state",
            "smi_count",
            "cc6_percent",
            "latch_delay_ns",
            "weather",
        ]
        .map(str::to_owned);
        let integer = |name: &str, nullable| Some(Field::new(name, nullable, Form::Integer(0)));
        let state = Some(Field::new("requested_state", true, Form::Name));
        let share = Some(Field::new("cc6_percent", true, Form::Percent));
        assert_eq!(
            fields(&header, None).unwrap(),
            [
                integer("wake_latency_ns", false),
                state,
                integer("smi_count", true),
                share.clone(),
                integer("latch_delay_ns", true),
                None,
            ]
        );
        let some = fields(&header, Some(&["cc6_percent", "weather"])).unwrap();
        let skip = || None;
        assert_eq!(some, [skip(), skip(), skip(), share, skip(), skip()]);
    }

    #[test]
    fn a_header_without_wake_latencies_is_not_ours() {
        let header = ["time_ns".to_owned(), "cc6_percent".to_owned()];
        assert!(!is_own(&header));
        let wrong = fields(&header, None).unwrap_err().to_string();
        assert_eq!(wrong, "line 1: has no column wake_latency_ns");
        assert!(is_own(&[
            "time_ns".to_owned(),
            "wake_latency_ns".to_owned()
        ]));
    }
}

//! Datapoints as lines of text, for the partial file and for `reveille export`.

use std::fmt::{Display, Write};

/// Appends a field and its comma. Writing to a `String` does not fail.
pub(crate) fn field(line: &mut String, value: impl Display) {
    let _ = write!(line, "{value},");
}

/// Nothing where it is unknown.
pub(crate) fn optional(line: &mut String, value: Option<impl Display>) {
    match value {
        Some(value) => field(line, value),
        None => line.push(','),
    }
}

/// Nothing where it is NaN.
pub(crate) fn percent(line: &mut String, share: f32) {
    optional(line, (!share.is_nan()).then_some(share));
}

/// A name, quoted where it holds a comma (RFC 4180). What cannot stand in one line is replaced.
pub(crate) fn name(line: &mut String, name: &str) {
    let quoted = name.contains(',');
    if quoted {
        line.push('"');
    }
    line.extend(name.chars().map(|character| match character {
        '"' => '\'',
        control if control.is_control() => ' ',
        other => other,
    }));
    line.push_str(if quoted { "\"," } else { "," });
}

/// Ends the line in place of the last field's comma.
pub(crate) fn end_line(line: &mut String) {
    line.pop();
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_fields_and_leaves_unknown_ones_empty() {
        let mut line = String::new();
        field(&mut line, -7);
        optional(&mut line, Some(3));
        optional(&mut line, None::<i64>);
        percent(&mut line, 12.5);
        percent(&mut line, f32::NAN);
        name(&mut line, "C6");
        name(&mut line, "");
        // A comma is quoted; a quote, a tab and a line end are not possible there.
        name(&mut line, "C1, \"deep\"");
        name(&mut line, "a\tb\r\nc");
        end_line(&mut line);
        assert_eq!(line, "-7,3,,12.5,,C6,,\"C1, 'deep'\",a b  c\n");
    }
}

//! Wrapping sentences for terminals.

use std::io::{self, Write};

use crate::terminal::Stream;

/// The columns of standard output; `None` if it is not a terminal or does not report its size.
pub fn terminal() -> Option<usize> {
    Some(Stream::Output.size()?.0)
}

/// The usual width of a terminal.
pub const COLUMNS: usize = 80;

/// The width of prose: 80 columns, or a narrower terminal's.
pub(crate) fn width() -> usize {
    terminal().map_or(COLUMNS, |columns| columns.min(COLUMNS))
}

/// Words after `start`, wrapped with this indent.
pub fn wrapped(out: &mut impl Write, start: &str, indent: usize, words: &str) -> io::Result<()> {
    write!(out, "{start}")?;
    onward(out, width(), start.chars().count(), indent, words)?;
    writeln!(out)
}

/// Words from column `at` on, in lines of `columns`, further lines with this indent. Without a newline
/// at the end.
pub fn onward(
    out: &mut impl Write,
    columns: usize,
    at: usize,
    indent: usize,
    words: &str,
) -> io::Result<()> {
    let mut width = at;
    let mut is_first = true;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if !is_first && width + 1 + length > columns {
            write!(out, "\n{:indent$}", "")?;
            width = indent;
        } else if !is_first {
            write!(out, " ")?;
            width += 1;
        }
        write!(out, "{word}")?;
        width += length;
        is_first = false;
    }
    Ok(())
}

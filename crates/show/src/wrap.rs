//! Sentences in lines that a terminal holds.

use std::io::{self, IsTerminal, Write};

/// How many columns standard output has; `None` where it is no terminal, or one that does not tell.
pub fn terminal() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = crossterm::terminal::size().ok()?;
    (columns > 0).then_some(columns.into())
}

/// What fits into a terminal of the usual width.
pub const COLUMNS: usize = 80;

/// Words after `start`, wrapped with this indent.
pub fn wrapped(out: &mut impl Write, start: &str, indent: usize, words: &str) -> io::Result<()> {
    write!(out, "{start}")?;
    onward(out, COLUMNS, start.chars().count(), indent, words)?;
    writeln!(out)
}

/// Words from column `at` on, in lines of so many columns, further lines with this indent. The last
/// line is not ended.
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

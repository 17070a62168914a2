//! Sentences in lines that a terminal holds.

use std::io::{self, Write};

/// What fits into a terminal of the usual width.
pub const COLUMNS: usize = 80;

/// Words after `start`, wrapped with this indent.
pub fn wrapped(out: &mut impl Write, start: &str, indent: usize, words: &str) -> io::Result<()> {
    write!(out, "{start}")?;
    let mut width = start.chars().count();
    let mut is_first = true;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if !is_first && width + 1 + length > COLUMNS {
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
    writeln!(out)
}

//! Lines that change where they stand.

use std::io::Write;

use unicode_width::UnicodeWidthChar;

use super::drawn;
use super::stream::Stream;
use super::{Shown, is_control, is_style, is_styled};

/// Lines at the end of the terminal that each drawing writes over, as does whatever else is written. Dropped, they go.
/// Elsewhere than on a terminal nothing is drawn.
pub struct Live(Option<Stream>);

/// Of a terminal that does not say.
const USUAL: (usize, usize) = (80, 24);

impl Live {
    /// Draws on this terminal, if it is one.
    pub fn on(to: Stream) -> Self {
        Self(to.is_live().then_some(to))
    }

    /// Does it draw?
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The terminal's columns.
    pub fn columns(&self) -> usize {
        self.size().0
    }

    fn size(&self) -> (usize, usize) {
        self.0.and_then(Stream::size).unwrap_or(USUAL)
    }

    /// Draws these lines, each cut to the terminal's width; the last ones, if it has less rows.
    pub fn draw(&self, lines: &str) {
        if let Some(to) = self.0 {
            let (text, count) = fitted(lines, self.size(), is_styled(to));
            drawn::draw(to, &text, count);
        }
    }

    /// Takes them off the terminal.
    pub fn clear(&self) {
        if let Some(to) = self.0 {
            drawn::draw(to, "", 0);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The lines as they are sent to a terminal of that size, and how many.
fn fitted(lines: &str, (columns, rows): (usize, usize), styled: bool) -> (String, usize) {
    let lines: Vec<&str> = lines.lines().collect();
    let above = lines.len().saturating_sub(rows.saturating_sub(1).max(1));
    let cut: Vec<&str> = lines[above..]
        .iter()
        .map(|line| cut(line, columns))
        .collect();
    let mut out = Shown::new(Vec::new(), styled);
    // Writing to a Vec cannot fail; what ends the last style is the newline.
    let _ = out.write_all((cut.join("\n") + "\n").as_bytes());
    let text = String::from_utf8_lossy(&out.to).into_owned();
    (text.trim_end_matches('\n').to_owned(), cut.len())
}

/// As much of the line as so many columns hold.
fn cut(line: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = line.char_indices().find(|&(_, character)| {
        used += width(character);
        used > columns
    });
    end.map_or(line, |(end, _)| &line[..end])
}

/// The columns that a character takes, as it is shown.
fn width(character: char) -> usize {
    match character {
        style if is_style(style) => 0,
        // A tab ends at a multiple of eight; \u001b.
        '\t' => 8,
        control if is_control(control) => 6,
        other => other.width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NOTABLE, STRONG};
    use super::*;

    #[test]
    fn a_line_is_cut_to_the_columns_of_the_terminal() {
        let of = |lines: &str, columns| fitted(lines, (columns, 24), false);
        assert_eq!(of("abc", 3), ("abc".into(), 1));
        assert_eq!(of("abcd\nxy", 3), ("abc\nxy".into(), 2));
        // Wide ones are not halved, and combining ones take nothing.
        assert_eq!(of("a日本", 4).0, "a日");
        assert_eq!(of("e\u{301}bc", 2).0, "e\u{301}b");
        // A control character takes what it is shown with.
        assert_eq!(of("a\x1bb", 7).0, "a\\u001b");
        assert_eq!(of("a\x1bb", 6).0, "a");
        assert_eq!(of("", 3), (String::new(), 0));
    }

    #[test]
    fn a_style_takes_no_column_and_ends_with_its_line() {
        let line = format!("{STRONG}ab{STRONG:#}{NOTABLE}cd{NOTABLE:#}");
        let (text, _) = fitted(&line, (3, 24), true);
        assert_eq!(text, "\x1b[1mab\x1b[0m\x1b[33mc\x1b[0m");
        assert_eq!(fitted(&line, (3, 24), false).0, "abc");
    }

    #[test]
    fn the_last_lines_are_drawn_where_not_all_have_room() {
        assert_eq!(fitted("a\nb\nc", (80, 3), false), ("b\nc".into(), 2));
        assert_eq!(fitted("a\nb\nc", (80, 4), false).1, 3);
        assert_eq!(fitted("a\nb", (80, 1), false), ("b".into(), 1));
    }
}

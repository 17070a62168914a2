//! A part of the screen, filled from the top; lines that do not fit are omitted.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};

use crate::grid::Grid;
use crate::look::{Look, Tone};

pub struct Sheet<'a> {
    pub buffer: &'a mut Buffer,
    /// The empty rest.
    pub left: Rect,
    pub look: Look,
}

/// The minimum of a list before something is shown below it: two lines of heading and four rows.
pub const LIST_LEAST: usize = 6;
/// A blank line, a title, two lines of heading and two rows.
const REST_LEAST: usize = 6;

impl Sheet<'_> {
    pub fn put(&mut self, line: &Line) {
        if self.left.height > 0 {
            self.buffer
                .set_line(self.left.x, self.left.y, line, self.left.width);
            self.left.y += 1;
            self.left.height -= 1;
        }
    }

    /// Puts a line at the bottom of the empty rest.
    pub fn put_below(&mut self, line: &Line) {
        if self.left.height > 0 {
            self.left.height -= 1;
            let y = self.left.y + self.left.height;
            self.buffer.set_line(self.left.x, y, line, self.left.width);
        }
    }

    pub fn rows(&self) -> usize {
        usize::from(self.left.height)
    }

    pub fn width(&self) -> usize {
        usize::from(self.left.width)
    }

    pub fn line(&self, text: &str, tone: Tone) -> Line<'static> {
        let text = self.look.text(text).into_owned();
        Line::from(Span::styled(text, self.look.style(tone)))
    }

    /// Pieces with dots between them, in as many lines as they need.
    pub fn pieces(&self, pieces: &[String], tone: Tone) -> Vec<Line<'static>> {
        self.wrapped(pieces, " · ", tone)
    }

    /// A sentence, in as many lines as it needs.
    pub fn sentence(&self, words: &str, tone: Tone) -> Vec<Line<'static>> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        self.wrapped(&words, " ", tone)
    }

    fn wrapped(&self, pieces: &[String], between: &str, tone: Tone) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut rest = pieces;
        while !rest.is_empty() {
            let (line, used) = fitting(self.look, rest, self.width(), between);
            lines.push(self.line(&line, tone));
            rest = &rest[used..];
        }
        lines
    }

    /// A table with its heading, in lines.
    pub fn table(&self, grid: &Grid) -> Vec<Line<'static>> {
        let fitted = grid.fit(self.look, self.width());
        fitted
            .heading()
            .into_iter()
            .chain(fitted.rows(0..usize::MAX))
            .collect()
    }

    /// A list with the selected row in view; below it as much of `more` as fits, and then of `rest`.
    pub fn list(
        &mut self,
        grid: &Grid,
        selected: usize,
        more: &[Line<'static>],
        rest: &[Line<'static>],
    ) {
        let fitted = grid.fit(self.look, self.width());
        // The line of units is omitted first.
        let headings = match self.rows() {
            0 | 1 => 0,
            2..LIST_LEAST => 1,
            _ => 2,
        };
        for heading in &fitted.heading()[2 - headings..] {
            self.put(heading);
        }
        let rows = grid.rows.len();
        let least = (LIST_LEAST - 2).min(rows);
        let mut below = self.room_for(more, self.rows().saturating_sub(least));
        let left = self.rows().saturating_sub(rows + more.len());
        if left >= REST_LEAST.min(rest.len()) {
            below.extend(rest.iter().take(left).cloned());
        }
        let page = self.rows() - below.len();
        let first = selected
            .min(rows.saturating_sub(1))
            .saturating_sub(page / 2);
        let first = first.min(rows.saturating_sub(page));
        for (at, row) in (first..).zip(fitted.rows(first..first + page)) {
            if at == selected {
                self.put_selected(&row);
            } else {
                self.put(&row);
            }
        }
        below.iter().for_each(|line| self.put(line));
    }

    fn put_selected(&mut self, row: &Line) {
        let here = Rect {
            height: self.left.height.min(1),
            ..self.left
        };
        self.put(row);
        // In one weight and colour, so that the bar is uniform.
        let style = self.look.style(Tone::Inverse);
        let style = style.fg(Color::Reset).remove_modifier(Modifier::DIM);
        self.buffer.set_style(here, style);
    }

    /// As many of the lines as fit, and the number of the others; a few lines alone are useless.
    fn room_for(&self, lines: &[Line<'static>], room: usize) -> Vec<Line<'static>> {
        const WORTH_IT: usize = 7;
        if lines.len() <= room {
            return lines.to_vec();
        }
        if room < WORTH_IT {
            return Vec::new();
        }
        let mut shown = lines[..room - 1].to_vec();
        let rest = lines.len() + 1 - room;
        shown.push(self.line(
            &format!("{rest} more lines: enlarge the terminal"),
            Tone::Faint,
        ));
        shown
    }
}

/// As many of the pieces as fit, but at least the first one, and their number.
pub fn fitting(look: Look, pieces: &[String], width: usize, between: &str) -> (String, usize) {
    let mut line = String::new();
    for (used, piece) in pieces.iter().enumerate() {
        let piece = look.text(piece);
        let longer = match used {
            0 => piece.into_owned(),
            _ => format!("{line}{}{piece}", look.text(between)),
        };
        if used > 0 && Span::raw(&*longer).width() > width {
            return (line, used);
        }
        line = longer;
    }
    (line, pieces.len())
}

//! Stacked bars of times, a row each. As SVG for pages, as letters for a terminal.

use std::fmt::Write as _;
use std::io;

use super::rows::{self, Shape};
use super::{COLOURS, colour};
use crate::axis::Axis;
use crate::markup::escape;
use crate::quantity::duration;
use crate::wrap;

/// In units of the drawing.
const ROW: f64 = 34.0;
const BAR: f64 = 22.0;
const BOTTOM: f64 = 44.0;
/// Letters in a terminal's longest bar.
const LETTERS: f64 = 56.0;

/// A part of bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name in the legend.
    pub name: String,
    /// Its letter on a terminal.
    pub letter: char,
    /// Estimated: dashed on a page, not drawn on a terminal.
    pub is_estimate: bool,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The label before it.
    pub name: String,
    /// The lengths of its parts, ns, with their indices in the legend.
    pub lengths: Vec<(usize, f64)>,
    /// The total after it, ns.
    pub total_ns: f64,
}

/// Bars over one axis of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The text alternative.
    pub label: String,
    /// The label of the axis.
    pub axis: &'static str,
    /// The parts of the bars.
    pub parts: Vec<Part>,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// Also drawn on a terminal.
    pub on_terminals: bool,
}

impl Bars {
    /// The longest bar, ns.
    fn longest(&self) -> f64 {
        let whole = |row: &Row| row.lengths.iter().map(|(_, ns)| ns).sum();
        self.rows.iter().map(whole).fold(0.0, f64::max)
    }

    fn is_used(&self, place: usize) -> bool {
        let mut lengths = self.rows.iter().flat_map(|row| &row.lengths);
        lengths.any(|(part, ns)| *part == place && *ns > 0.0)
    }

    /// Parts beyond the number of colours repeat them in pale.
    fn pale(place: usize) -> &'static str {
        if place < COLOURS { "" } else { " pale" }
    }

    /// The legend and the drawing; empty if all times are 0.
    pub fn html(&self) -> String {
        let longest = self.longest();
        if longest <= 0.0 {
            return String::new();
        }
        let axis = Axis::from_zero(longest);
        let names = self.rows.iter().map(|row| row.name.as_str());
        let drawing = rows::drawn(names, |shape| self.svg(axis, shape));
        format!("{}<figure>{drawing}</figure>", self.legend())
    }

    fn svg(&self, axis: Axis, shape: &Shape) -> String {
        let row = ROW + shape.head;
        let height = row * self.rows.len() as f64;
        let mut svg = format!(
            "<svg class=\"{}\" viewBox=\"0 0 {} {:.0}\" role=\"img\" aria-label=\"{}\">{}",
            shape.class,
            shape.full,
            height + BOTTOM,
            escape(&self.label),
            axis.below_rows(shape.left, shape.width, height, duration)
        );
        for (place, one) in self.rows.iter().enumerate() {
            self.row(one, row * place as f64, axis, shape, &mut svg);
        }
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<text class=\"name\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text></svg>",
            shape.left + shape.width,
            height + BOTTOM - 6.0,
            self.axis
        );
        svg
    }

    fn row(&self, row: &Row, top: f64, axis: Axis, shape: &Shape, svg: &mut String) {
        let x = |ns: f64| shape.left + shape.width * axis.fraction(ns);
        let middle = top + shape.head + ROW / 2.0;
        let bar = middle - BAR / 2.0;
        *svg += &shape.name(&row.name, top, ROW);
        let mut from = 0.0;
        for (place, ns) in row.lengths.iter().filter(|(_, ns)| *ns > 0.0) {
            let part = &self.parts[*place];
            let (group, class) = match part.is_estimate {
                true => (String::new(), "unseen".to_owned()),
                false => (colour(*place), format!("stage{}", Self::pale(*place))),
            };
            let _ = write!(
                svg,
                "<g class=\"{group}\"><rect class=\"{class}\" x=\"{:.1}\" y=\"{bar:.1}\" \
                 width=\"{:.1}\" height=\"{BAR}\"><title>{}: {}</title></rect></g>",
                x(from),
                x(from + ns) - x(from),
                escape(&part.name),
                duration(*ns)
            );
            from += ns;
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(from) + 6.0,
            middle + 4.0,
            duration(row.total_ns)
        );
    }

    fn legend(&self) -> String {
        let mut html = String::from("<div class=\"keys\">");
        for (place, part) in self.parts.iter().enumerate() {
            if !self.is_used(place) {
                continue;
            }
            let name = escape(&part.name);
            let _ = match part.is_estimate {
                true => write!(html, "<span class=\"key\">dashed: {name}</span>"),
                false => write!(
                    html,
                    "<span class=\"key {}\"><i class=\"{}\"></i>{name}</span>",
                    colour(place),
                    Self::pale(place).trim()
                ),
            };
        }
        html + "</div>"
    }

    /// Writes a line for each row; the number of a part's letters is proportional to its length.
    ///
    /// # Errors
    /// Of `out`.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let longest = self.rows.iter().map(|row| row.total_ns).fold(0.0, f64::max);
        if longest <= 0.0 {
            return Ok(());
        }
        let scale = longest / LETTERS;
        let of = self.axis;
        writeln!(out, "One letter is {} of {of}", duration(scale))?;
        let names = self.rows.iter().map(|row| row.name.chars().count());
        let width = names.max().unwrap_or(0);
        for row in &self.rows {
            let (name, total) = (&row.name, duration(row.total_ns));
            writeln!(out, "{name:width$}  {} {total}", self.letters(row, scale))?;
        }
        let parts = self.parts.iter().enumerate();
        let drawn = parts.filter(|(place, part)| !part.is_estimate && self.is_used(*place));
        let drawn = drawn.map(|(_, part)| format!("{} {}", part.letter, part.name));
        wrap::wrapped(out, "", 2, &drawn.collect::<Vec<_>>().join(", "))
    }

    /// Rounds the ends of parts, so that the bar has the length of the whole.
    fn letters(&self, row: &Row, scale: f64) -> String {
        let (mut bar, mut end, mut letters) = (String::new(), 0.0, 0);
        for (place, ns) in &row.lengths {
            let part = &self.parts[*place];
            if part.is_estimate {
                continue;
            }
            end += ns / scale;
            let until = end.round() as usize;
            bar.extend(std::iter::repeat_n(
                part.letter,
                until.saturating_sub(letters),
            ));
            letters = letters.max(until);
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let part = |name: &str, letter, is_estimate| Part {
            name: name.to_owned(),
            letter,
            is_estimate,
        };
        Bars {
            label: "Mean time".into(),
            axis: "mean time",
            parts: vec![
                part("not seen", 'x', true),
                part("<softirq>", 's', false),
                part("reply", 'r', false),
                part("unused", 'u', false),
            ],
            rows: vec![Row {
                name: "awake".into(),
                lengths: vec![(0, 10_000.0), (1, 30_000.0), (2, 12_000.0)],
                total_ns: 42_000.0,
            }],
            on_terminals: true,
        }
    }

    #[test]
    fn the_letters_of_a_part_are_proportional_to_its_length() {
        let bars = bars();
        assert_eq!(
            bars.letters(&bars.rows[0], 2_000.0),
            "sssssssssssssssrrrrrr"
        );
        // The longest fills the line.
        let mut out = Vec::new();
        bars.write(&mut out).unwrap();
        let line = format!("awake  {}{} 42 µs", "s".repeat(40), "r".repeat(16));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("One letter is 750 ns of mean time\n{line}\ns <softirq>, r reply\n")
        );
    }

    #[test]
    fn a_drawing_has_a_rectangle_and_a_name_for_each_part() {
        let html = bars().html();
        assert_eq!(html.matches("<rect class=\"stage\"").count(), 2 * 2);
        assert_eq!(html.matches("<rect class=\"unseen\"").count(), 2);
        assert!(html.contains("<title>&lt;softirq&gt;: 30 µs</title>"));
        assert!(html.contains("dashed: not seen") && !html.contains("unused"));
        assert!(
            Bars {
                rows: Vec::new(),
                ..bars()
            }
            .html()
            .is_empty()
        );
    }
}

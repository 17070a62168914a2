//! The frame of charts: axes, grid, labels and reference lines.

use std::fmt::Write as _;

use crate::axis::{Axis, Scale, tick_text};
use crate::markup::escape;
use crate::quantity;

/// The position of the plot, in units of the drawing.
pub const LEFT: f64 = 88.0;
/// From the top of the drawing to the plane.
pub const TOP: f64 = 30.0;
/// Of the plane.
pub const WIDTH: f64 = 472.0;
/// Of the plane.
pub const HEIGHT: f64 = 280.0;
/// The whole drawing.
const FULL_WIDTH: f64 = 584.0;
const FULL_HEIGHT: f64 = 356.0;

/// How the values of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds.
    Duration,
    /// 0 to 100.
    Percent,
    /// A share from 0 to 1, as `10%`.
    Share,
    /// A share from 0 to 1, as `1 in 10`.
    OneIn,
    /// W.
    Watts,
    /// Without a unit.
    Number,
}

impl Quantity {
    /// A value as text, for ticks.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Duration => quantity::duration(value),
            Self::Percent => format!("{value:.0}%"),
            Self::Share => short_share(value),
            Self::OneIn if value >= 1.0 => "all".to_owned(),
            Self::OneIn => format!("1 in {}", short_count(1.0 / value)),
            Self::Watts => format!("{} W", quantity::three_digits(value)),
            Self::Number => quantity::three_digits(value),
        }
    }

    /// The name in the page's script.
    fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Percent => "percent",
            Self::Share => "share",
            Self::OneIn => "one-in",
            Self::Watts => "watts",
            Self::Number => "number",
        }
    }
}

/// `1000` as `1k`, because an axis has little room.
fn short_count(count: f64) -> String {
    match count {
        count if count >= 999_999.0 => format!("{:.0}M", count / 1e6),
        count if count >= 999.0 => format!("{:.0}k", count / 1e3),
        count => format!("{count:.0}"),
    }
}

fn short_share(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = (-percent.log10()).ceil().clamp(0.0, 9.0) as usize;
    format!("{percent:.decimals$}%")
}

/// A reference value, drawn across the whole plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// On the axis of the wake latency, ns.
    pub value: f64,
    /// Its name.
    pub text: String,
    /// Its class: `driver` or `floor`, and a colour if it has one.
    pub class: String,
}

/// A chart's axes and labels.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The label of the horizontal axis.
    pub x_name: &'a str,
    /// The label of the vertical axis.
    pub y_name: &'a str,
    /// How horizontal ticks are written.
    pub x_quantity: Quantity,
    /// How vertical ticks are written.
    pub y_quantity: Quantity,
}

impl Frame<'_> {
    /// The horizontal position of a value in the drawing.
    pub fn x(&self, value: f64) -> f64 {
        LEFT + WIDTH * self.x.fraction(value)
    }

    /// The vertical position of a value in the drawing, from its top.
    pub fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - self.y.fraction(value))
    }

    /// The chart with the content of `draw`. `label` is the text alternative; `attributes` are copied to
    /// the drawing.
    pub fn svg(&self, label: &str, attributes: &str, draw: impl FnOnce(&mut String)) -> String {
        let mut svg = String::new();
        let (x, y) = (
            axis_data(self.x, self.x_quantity),
            axis_data(self.y, self.y_quantity),
        );
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<svg class=\"plot\" viewBox=\"0 0 {FULL_WIDTH} {FULL_HEIGHT}\" role=\"img\" tabindex=\"0\" \
             aria-label=\"{}\" data-x=\"{x}\" data-y=\"{y}\" data-x-name=\"{}\" data-y-name=\"{}\"{attributes}>",
            escape(label),
            escape(self.x_name),
            escape(self.y_name),
        );
        self.grid(&mut svg);
        draw(&mut svg);
        self.names(&mut svg);
        svg.push_str("</svg>");
        svg
    }

    fn grid(&self, svg: &mut String) {
        let mut path = String::new();
        for tick in self.x.ticks() {
            let _ = write!(path, "M{:.1} {TOP}v{HEIGHT}", self.x(tick.value));
        }
        for tick in self.y.ticks() {
            let _ = write!(path, "M{LEFT} {:.1}h{WIDTH}", self.y(tick.value));
        }
        let _ = write!(svg, "<path class=\"grid\" d=\"{path}\"/>");
    }

    fn names(&self, svg: &mut String) {
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}v{HEIGHT}h{WIDTH}\"/><g class=\"ticks\">"
        );
        for tick in self.x.ticks() {
            let (x, words) = (self.x(tick.value), self.x_quantity.text(tick.value));
            *svg += &tick_text(x, LEFT + WIDTH, TOP + HEIGHT + 17.0, tick, &words);
        }
        for tick in self.y.ticks() {
            let _ = write!(
                svg,
                "<text{} text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                minor(tick.major),
                LEFT - 6.0,
                self.y(tick.value) + 4.0,
                self.y_quantity.text(tick.value)
            );
        }
        let _ = write!(
            svg,
            "</g><text class=\"name\" x=\"2\" y=\"15\">{}</text>\
             <text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            escape(self.y_name),
            LEFT + WIDTH,
            FULL_HEIGHT - 7.0,
            escape(self.x_name)
        );
    }

    /// Marks on the vertical axis, each with its text at the right end. A mark beyond the axis has only
    /// its text, at that edge.
    pub fn marks_across(&self, marks: &[Mark], svg: &mut String) {
        for (place, mark) in marks.iter().enumerate() {
            let y = self.y(mark.value);
            let (line, text) = if mark.value < self.y.min {
                (String::new(), format!("↓ {}", mark.text))
            } else if mark.value > self.y.max {
                (String::new(), format!("↑ {}", mark.text))
            } else {
                (
                    format!("<path d=\"M{LEFT} {y:.1}h{WIDTH}\"/>"),
                    mark.text.clone(),
                )
            };
            // Side by side if they are close, so that the texts do not overlap.
            let close = marks[..place]
                .iter()
                .any(|other| (self.y(other.value) - y).abs() < LINE);
            let x = if close {
                LEFT + WIDTH - 150.0
            } else {
                LEFT + WIDTH - 3.0
            };
            let _ = write!(
                svg,
                "<g class=\"mark {}\">{line}\
                 <text text-anchor=\"end\" x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                mark.class,
                if y < TOP + LINE { y + 14.0 } else { y - 4.0 },
                escape(&text)
            );
        }
    }

    /// Marks on the horizontal axis, their texts one below the other at the given end.
    pub fn marks_down(&self, marks: &[Mark], end: End, svg: &mut String) {
        for (place, mark) in marks.iter().enumerate() {
            let x = self.x(mark.value);
            let right = x < LEFT + WIDTH * 0.72;
            let line = LINE * place as f64;
            let y = match end {
                End::Top => TOP + 13.0 + line,
                // The lowest line belongs to the estimates, whose bars are on the axis.
                End::Bottom => TOP + HEIGHT - 26.0 - line,
            };
            let _ = write!(
                svg,
                "<g class=\"mark {}\"><path d=\"M{x:.1} {TOP}v{HEIGHT}\"/>\
                 <text text-anchor=\"{}\" x=\"{:.1}\" y=\"{y:.1}\">{}</text></g>",
                mark.class,
                if right { "start" } else { "end" },
                if right { x + 4.0 } else { x - 4.0 },
                escape(&mark.text)
            );
        }
    }
}

/// The line height of text.
const LINE: f64 = 17.0;

/// The position of marks' texts: where the curves leave room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the top of the plane.
    Top,
    /// At the bottom of the plane.
    Bottom,
}

fn minor(major: bool) -> &'static str {
    if major { "" } else { " class=\"minor\"" }
}

/// The data with which the page's script converts positions to values.
fn axis_data(axis: Axis, quantity: Quantity) -> String {
    let scale = match axis.scale {
        Scale::Logarithmic => "log",
        Scale::Linear => "linear",
    };
    format!("{scale} {} {} {}", axis.min, axis.max, quantity.name())
}

//! Charts of named rows, drawn twice: wide with names beside the rows, narrow with names above them. A wide
//! drawing scaled to a narrow window would not be legible.

use crate::markup::escape;
use crate::quantity::shortened;

/// Where the rows are, in units of the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The drawing's width.
    pub full: f64,
    /// From the left to the plane.
    pub left: f64,
    /// The plane's width; a total has room after it.
    pub width: f64,
    /// Room above a row for its name; 0 where the name is before it.
    pub head: f64,
    /// The drawing's classes.
    pub class: &'static str,
}

/// Names of at most so many letters need less room before the rows.
const SHORT: usize = 16;
/// The letters that a name has room for.
const NAME: usize = 33;

/// The drawing in both shapes, of which a figure shows one. `names`: of the rows.
pub fn drawn<'n>(
    names: impl IntoIterator<Item = &'n str>,
    draw: impl Fn(&Shape) -> String,
) -> String {
    let longest = names.into_iter().map(|name| name.chars().count()).max();
    let left = match longest {
        Some(letters) if letters > SHORT => 300.0,
        _ => 140.0,
    };
    let wide = Shape {
        full: 980.0,
        left,
        width: 880.0 - left,
        head: 0.0,
        class: "bars wide",
    };
    let slim = Shape {
        full: 420.0,
        left: 18.0,
        width: 330.0,
        head: 18.0,
        class: "bars slim",
    };
    draw(&wide) + &draw(&slim)
}

impl Shape {
    /// The name of the row from `top`; `high` is its height without its head.
    pub fn name(&self, name: &str, top: f64, high: f64) -> String {
        let name = shortened(name, NAME);
        let (anchor, x, y) = match self.head > 0.0 {
            true => ("start", 2.0, top + self.head - 3.0),
            false => ("end", self.left - 8.0, top + high / 2.0 + 4.0),
        };
        format!(
            "<text class=\"name\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(&name)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_before_their_rows_or_above_them_and_cut_where_they_have_no_room() {
        let long = "x".repeat(NAME + 1);
        let html = drawn([long.as_str()], |shape| shape.name(&long, 0.0, 34.0));
        let cut = format!(">{}…</text>", "x".repeat(NAME - 1));
        assert_eq!(html.matches(&cut).count(), 2, "{html}");
        assert!(
            html.contains("text-anchor=\"end\" x=\"292.0\" y=\"21.0\""),
            "{html}"
        );
        assert!(
            html.contains("text-anchor=\"start\" x=\"2.0\" y=\"15.0\""),
            "{html}"
        );
        let short = drawn(["eth0"], |shape| shape.name("<b>", 0.0, 34.0));
        assert!(
            short.contains("x=\"132.0\" y=\"21.0\">&lt;b&gt;"),
            "{short}"
        );
    }
}

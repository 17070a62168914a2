//! A density as a picture, with single outliers.

use std::fmt::Write as _;

use crate::chart::frame::{LEFT, TOP, WIDTH};
use crate::chart::{Frame, Mark};
use crate::density::Density;
use crate::quantity;

/// The number of shades.
pub const SHADES: usize = 8;
/// Up to this many datapoints cells are larger and darker, so that single ones are visible.
const FEW: u64 = 1000;

/// Datapoints drawn individually, in one colour.
#[derive(Debug, Clone)]
pub struct Dots {
    /// The class of their colour.
    pub class: String,
    /// For each: its index in the result's list of outliers, and its values on the two axes.
    pub dots: Vec<(usize, f64, f64)>,
}

/// Draws a density. `result`: the result's index in the page's data.
pub fn heat(
    frame: &Frame<'_>,
    label: &str,
    result: usize,
    density: &Density,
    marks: &[Mark],
    dots: &[Dots],
) -> String {
    let attributes = format!(" data-result=\"{result}\"");
    frame.svg(label, &attributes, |svg| {
        cells(density, svg);
        frame.marks_across(marks, svg);
        for dots in dots.iter().filter(|dots| !dots.dots.is_empty()) {
            singly(frame, dots, svg);
        }
    })
}

fn cells(density: &Density, svg: &mut String) {
    let levels = density.levels(SHADES);
    let size = WIDTH / density.width as f64;
    let listed: Vec<String> = levels.iter().map(u32::to_string).collect();
    // Writing to a String cannot fail.
    let few = is_few(density);
    let _ = write!(
        svg,
        "<g class=\"cells{}\" transform=\"translate({LEFT} {TOP})scale({size})\" data-levels=\"{}\" \
         data-size=\"{} {}\">",
        if few { " few" } else { "" },
        listed.join(" "),
        density.width,
        density.height
    );
    for (place, path) in density.paths(&levels).iter().enumerate() {
        let _ = write!(
            svg,
            "<path class=\"d{}\" d=\"{path}\"/>",
            shade(place, levels.len(), few)
        );
    }
    svg.push_str("</g>");
    legend(density, &levels, svg);
}

/// The shade of a level: levels are spread over all shades, so that the fullest cells are the darkest.
fn shade(place: usize, levels: usize, few: bool) -> usize {
    let first = if few { SHADES / 2 } else { 1 };
    match levels {
        0 | 1 => SHADES / 2,
        _ => first + place * (SHADES - first) / (levels - 1),
    }
}

fn is_few(density: &Density) -> bool {
    density.total() <= FEW
}

fn legend(density: &Density, levels: &[u32], svg: &mut String) {
    /// A swatch's width.
    const SWATCH: f64 = 13.0;
    let Some(most) = density.fullest() else {
        return;
    };
    let right = LEFT + WIDTH;
    let most = quantity::count(u64::from(most));
    let room = 10.0 + 8.0 * most.chars().count() as f64;
    let first = right - room - SWATCH * levels.len() as f64;
    let _ = write!(
        svg,
        "<g class=\"legend\"><text text-anchor=\"end\" x=\"{:.1}\" y=\"15\">per cell 1</text>",
        first - 5.0
    );
    for place in 0..levels.len() {
        let _ = write!(
            svg,
            "<rect class=\"d{}\" x=\"{:.1}\" y=\"5\" width=\"{SWATCH}\" height=\"11\"/>",
            shade(place, levels.len(), is_few(density)),
            first + SWATCH * place as f64
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"15\">{most}</text></g>",
        right - room + 5.0
    );
}

/// All dots of a colour are one path of strokes of zero length, whose round ends are the dots.
fn singly(frame: &Frame<'_>, dots: &Dots, svg: &mut String) {
    let mut path = String::new();
    let mut rows = String::new();
    for (outlier, x, y) in &dots.dots {
        let _ = write!(path, "M{:.1} {:.1}h0", frame.x(*x), frame.y(*y));
        let _ = write!(rows, "{}{outlier}", if rows.is_empty() { "" } else { " " });
    }
    let _ = write!(
        svg,
        "<path class=\"dots {}\" data-outliers=\"{rows}\" d=\"{path}\"/>",
        dots.class
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_datapoints_have_the_darker_shades_only() {
        let shades = |few| (0..8).map(|place| shade(place, 8, few)).collect::<Vec<_>>();
        assert_eq!(shades(false), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(shades(true), [4, 4, 5, 5, 6, 6, 7, 8]);
        let mut density = Density::new(4, 4);
        (0..FEW).for_each(|_| density.add(1, 1));
        let drawn = |density: &Density| {
            let mut svg = String::new();
            cells(density, &mut svg);
            svg
        };
        assert!(drawn(&density).contains("class=\"cells few\""));
        density.add(1, 1);
        assert!(drawn(&density).contains("class=\"cells\""));
    }
}

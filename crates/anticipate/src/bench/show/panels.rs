//! Panels one below the other over the same idle times, which are on a logarithmic axis with a place
//! for none at all before it.

use std::fmt::Write as _;

use reveille_figures::rounds::Estimate;
use reveille_show::axis::Axis;
use reveille_show::chart::Quantity;
use reveille_show::markup::escape;

use crate::bench::result::Point;

/// In units of the drawing.
const FULL_WIDTH: f64 = 584.0;
const LEFT: f64 = 76.0;
const WIDTH: f64 = 490.0;
/// Above a panel, for its name.
const HEAD: f64 = 38.0;
/// Below the last one, for the idle times.
const FOOT: f64 = 46.0;
/// From the plot's edge to the first and the last point.
const EDGE: f64 = 22.0;
/// From one policy to the next at a series, where no lines distinguish them.
const BESIDE: f64 = 22.0;
/// From no idle time to the shortest one.
const FROM_ZERO: f64 = 70.0;

/// One panel.
pub struct Panel {
    pub name: String,
    pub quantity: Quantity,
    pub axis: Axis,
    pub height: f64,
    pub lines: Vec<Line>,
}

/// A line through the points that have the figure.
pub struct Line {
    /// Colour, and `dashed` where it is.
    pub class: String,
    pub name: String,
    pub figures: Vec<(usize, Estimate)>,
}

impl Line {
    /// The policy's.
    fn colour(&self) -> &str {
        self.class.split(' ').next().unwrap_or_default()
    }
}

/// Are the points idle times, and not series side by side? A single one is no scale.
fn is_scale(points: &[Point]) -> bool {
    points.len() > 1 && points.iter().all(|point| point.idle_ns.is_some())
}

/// The panels as one drawing; `label` is the text alternative.
pub fn draw(points: &[Point], panels: &[Panel], label: &str) -> String {
    let height: f64 = panels.iter().map(|panel| HEAD + panel.height).sum();
    let mut svg = format!(
        "<svg class=\"bars panels\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        height + FOOT,
        escape(label)
    );
    let places = places(points);
    let mut top = 0.0;
    for panel in panels {
        top += HEAD;
        draw_panel(points, panel, &places, top, &mut svg);
        top += panel.height;
    }
    names(points, &places, top, &mut svg);
    svg.push_str("</svg>");
    svg
}

fn draw_panel(points: &[Point], panel: &Panel, places: &[f64], top: f64, svg: &mut String) {
    let bottom = top + panel.height;
    let y = |value: f64| bottom - panel.height * panel.axis.fraction(value);
    // Writing to a String cannot fail.
    let _ = write!(
        svg,
        "<g class=\"panel\"><text class=\"name\" x=\"2\" y=\"{:.1}\">{}</text>",
        top - 18.0,
        escape(&panel.name)
    );
    for tick in panel.axis.ticks() {
        let y = y(tick.value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}h{WIDTH}\"/>\
             <text class=\"ticks\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            panel.quantity.text(tick.value)
        );
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {top:.1}V{bottom:.1}h{WIDTH}\"/>"
    );
    let mut colours: Vec<&str> = Vec::new();
    for line in &panel.lines {
        if !colours.contains(&line.colour()) {
            colours.push(line.colour());
        }
    }
    for line in &panel.lines {
        let place = colours.iter().position(|colour| *colour == line.colour());
        let from_middle = place.unwrap_or(0) as f64 - (colours.len() - 1) as f64 / 2.0;
        let aside = match points.len() {
            1 => WIDTH / colours.len() as f64 * from_middle,
            _ if is_scale(points) => 0.0,
            _ => BESIDE * from_middle,
        };
        let places: Vec<f64> = places.iter().map(|x| x + aside).collect();
        draw_line(points, panel, line, &places, &y, svg);
    }
    svg.push_str("</g>");
}

fn draw_line(
    points: &[Point],
    panel: &Panel,
    line: &Line,
    places: &[f64],
    y: &dyn Fn(f64) -> f64,
    svg: &mut String,
) {
    let mut path = String::new();
    // Series are no scale: nothing lies between two of them.
    if is_scale(points) {
        for (point, figure) in &line.figures {
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{step}{:.1} {:.1}",
                places[*point],
                y(figure.estimate)
            );
        }
    }
    let _ = write!(
        svg,
        "<g class=\"policy {}\"><path d=\"{path}\"/>",
        line.class
    );
    for (point, figure) in &line.figures {
        let (x, middle) = (places[*point], y(figure.estimate));
        if let Some((low, high)) = figure.interval {
            let _ = write!(
                svg,
                "<path class=\"interval\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                y(low),
                y(high)
            );
        }
        let interval = figure.interval.map(|(low, high)| {
            let text = |value| panel.quantity.text(value);
            format!(" ({} to {})", text(low), text(high))
        });
        let title = format!(
            "{}, {}: {}{}",
            points[*point].name,
            line.name,
            panel.quantity.text(figure.estimate),
            interval.unwrap_or_default()
        );
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3.4\"><title>{}</title></circle>",
            escape(&title)
        );
    }
    svg.push_str("</g>");
}

/// The points' names below the last panel, and a break in the axis after no idle time.
fn names(points: &[Point], places: &[f64], bottom: f64, svg: &mut String) {
    for (point, place) in points.iter().zip(places) {
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{place:.1} {bottom:.1}v5\"/>\
             <text class=\"ticks\" text-anchor=\"middle\" x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 19.0,
            escape(&point.name)
        );
    }
    if points.len() > 1 && points.iter().any(|point| point.idle_ns == Some(0)) {
        let x = LEFT + EDGE + FROM_ZERO / 2.0;
        let _ = write!(
            svg,
            "<path class=\"axis break\" d=\"M{:.1} {:.1}l6 -10m4 0l-6 10\"/>",
            x - 5.0,
            bottom + 5.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT + WIDTH,
        bottom + 38.0,
        match points.iter().any(|point| point.idle_ns.is_some()) {
            true => "idle time after each",
            false => "series",
        }
    );
}

/// Where each point is, from the drawing's left: by the logarithm of its idle time, none at all a step
/// before the shortest; series side by side.
fn places(points: &[Point]) -> Vec<f64> {
    let first = LEFT + EDGE;
    let last = LEFT + WIDTH - EDGE;
    let all: Option<Vec<u64>> = points.iter().map(|point| point.idle_ns).collect();
    let Some(idle_ns) = all else {
        let each = WIDTH / points.len().max(1) as f64;
        let place = |place: usize| LEFT + each * (place as f64 + 0.5);
        return (0..points.len()).map(place).collect();
    };
    let above = || idle_ns.iter().copied().filter(|ns| *ns > 0);
    let (Some(least), Some(most)) = (above().min(), above().max()) else {
        return vec![LEFT + WIDTH / 2.0; points.len()];
    };
    let first_above = match idle_ns.contains(&0) {
        true => first + FROM_ZERO,
        false => first,
    };
    let decades = (most as f64 / least as f64).ln();
    let place = |ns: u64| match ns {
        0 => first,
        _ if decades == 0.0 => f64::midpoint(first_above, last),
        ns => first_above + (last - first_above) * (ns as f64 / least as f64).ln() / decades,
    };
    idle_ns.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(idle_ns: &[u64]) -> Vec<f64> {
        let points: Vec<Point> = idle_ns.iter().copied().map(Point::idle).collect();
        places(&points)
    }

    #[test]
    fn idle_times_are_on_a_log_axis_and_back_to_back_is_left_of_them() {
        let all = of(&[0, 1000, 10_000, 100_000]);
        assert_eq!(all[0], LEFT + EDGE);
        assert_eq!(all[1], LEFT + EDGE + FROM_ZERO);
        assert_eq!(all[3], LEFT + WIDTH - EDGE);
        assert!((all[2] - f64::midpoint(all[1], all[3])).abs() < 1e-9);
        assert_eq!(of(&[1000, 10_000])[0], LEFT + EDGE);
    }

    #[test]
    fn a_single_idle_time_has_a_position() {
        for alone in [of(&[0]), of(&[1000])] {
            assert_eq!(alone, [LEFT + WIDTH / 2.0]);
        }
        let two = of(&[0, 1000]);
        assert!(two[0] < two[1] && two[1] < LEFT + WIDTH);
    }
}

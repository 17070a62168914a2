//! Exceedance curves against limits: what exceeds a limit is thick, and ends of curves have names.

use std::fmt::Write as _;

use crate::axis::Axis;
use crate::chart::curves::{corners, single, steps_down, survival};
use crate::chart::frame::{HEIGHT, LEFT, TOP, WIDTH};
use crate::chart::labels::Labels;
use crate::chart::{Frame, Quantity};
use crate::markup::escape;

/// One curve's sample and its limit.
#[derive(Debug, Clone)]
pub struct Limited<'a> {
    /// The class of its colour and, if any, its dashes.
    pub class: String,
    /// At the curve's end, where there is room.
    pub name: String,
    /// Wake latencies, ns, ascending; not empty.
    pub latencies: &'a [i64],
    /// A latency that wakes should not exceed, ns, and its name.
    pub limit: Option<(f64, String)>,
}

/// The exceedance curves, down to 1 in the number of datapoints; a single datapoint is a point. What exceeds a
/// limit is thick, but where dashes tell curves apart.
pub fn against_limits(latency: Axis, label: &str, curves: &[Limited<'_>]) -> String {
    let most = curves.iter().map(|curve| curve.latencies.len()).max();
    let most = most.unwrap_or(1).max(10) as f64;
    let frame = Frame {
        x: latency,
        y: Axis::logarithmic(10f64.powf(-most.log10().ceil()), 1.0),
        x_name: "wake latency",
        y_name: "exceedance",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::OneIn,
    };
    frame.svg(label, "", |svg| {
        let mut labels = Labels::default();
        limits(&frame, curves, &mut labels, svg);
        for curve in curves {
            if let [only] = curve.latencies {
                svg.push_str(&single(&frame, colour(&curve.class), *only as f64));
                continue;
            }
            let path = survival(&frame, curve.latencies);
            // Writing to a String cannot fail.
            let _ = write!(svg, "<path class=\"curve {}\" d=\"{path}\"/>", curve.class);
            beyond(&frame, curve, svg);
            let begin = (frame.x(frame.x.min), frame.y(1.0));
            let stairs = corners(&frame, curve.latencies, 0);
            keep_off(&mut labels, &[&[begin], &stairs[..]].concat());
        }
        for curve in curves {
            end(&frame, curve, &mut labels, svg);
        }
    })
}

/// The limits, each once however many curves have it, with their names above the plane.
fn limits(frame: &Frame<'_>, curves: &[Limited<'_>], labels: &mut Labels, svg: &mut String) {
    let mut drawn: Vec<(&str, f64)> = Vec::new();
    for curve in curves {
        let Some((value, name)) = &curve.limit else {
            continue;
        };
        let colour = colour(&curve.class);
        if drawn.contains(&(name, *value)) {
            continue;
        }
        drawn.push((name, *value));
        let x = frame.x(*value);
        labels.cover([x - 2.0, TOP, x + 2.0, TOP + HEIGHT]);
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<g class=\"mark {colour} limit\"><path d=\"M{x:.1} {TOP}v{HEIGHT}\"/>"
        );
        let above = [TOP - 4.0, TOP - 4.0 - LINE].map(|y| (x, y, Anchor::Middle));
        write(labels, &above, name, svg);
        svg.push_str("</g>");
    }
}

/// The part of the curve beyond its limit.
fn beyond(frame: &Frame<'_>, curve: &Limited<'_>, svg: &mut String) {
    let Some((limit, _)) = &curve.limit else {
        return;
    };
    let sorted = curve.latencies;
    let within = sorted.partition_point(|ns| (*ns as f64) <= *limit);
    let (beyond, count) = (sorted.len() - within, sorted.len());
    if beyond == 0 {
        return;
    }
    let (x, y) = (frame.x(*limit), frame.y(beyond as f64 / count as f64));
    let colour = colour(&curve.class);
    if colour == curve.class {
        let path = steps_down(frame, sorted, within, x);
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<path class=\"curve beyond-limit {colour}\" d=\"{path}\"/>"
        );
    }
    let _ = write!(
        svg,
        "<circle class=\"point {colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
    );
}

/// The name of the curve where it ends.
fn end(frame: &Frame<'_>, curve: &Limited<'_>, labels: &mut Labels, svg: &mut String) {
    let sorted = curve.latencies;
    let Some(last) = sorted.last() else {
        return;
    };
    let (x, y) = (frame.x(*last as f64), frame.y(1.0 / sorted.len() as f64));
    let _ = write!(svg, "<g class=\"end {}\">", colour(&curve.class));
    let places = [
        (x + 6.0, y + 4.0, Anchor::Start),
        (x, y + 15.0, Anchor::Middle),
        (x - 6.0, y - 6.0, Anchor::End),
        (x + 6.0, y - 10.0, Anchor::Start),
        (x + 6.0, y + 18.0, Anchor::Start),
        (x - 6.0, y + 18.0, Anchor::End),
        (x + 6.0, y - 24.0, Anchor::Start),
        (x + 6.0, y - 38.0, Anchor::Start),
    ];
    write(labels, &places, &curve.name, svg);
    svg.push_str("</g>");
}

/// The first class: the colour, without the dashes.
fn colour(class: &str) -> &str {
    class.split(' ').next().unwrap_or_default()
}

/// The height of a line of text.
const LINE: f64 = 14.0;
/// The width of a letter, with room for the larger ones of narrow drawings.
const LETTER: f64 = 8.0;

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// Texts do not stand on a staircase with these corners.
fn keep_off(labels: &mut Labels, corners: &[(f64, f64)]) {
    for pair in corners.windows(2) {
        let [(left, top), (right, bottom)] = [pair[0], pair[1]];
        labels.cover([left - 1.0, top, left + 1.0, bottom]);
        labels.cover([left, bottom - 1.0, right, bottom + 1.0]);
    }
}

/// Writes the text at the first place that is free and in the drawing, if there is one.
fn write(labels: &mut Labels, places: &[(f64, f64, Anchor)], text: &str, svg: &mut String) {
    let width = LETTER * text.chars().count() as f64;
    for (x, y, anchor) in places {
        let (name, left) = match anchor {
            Anchor::Start => ("start", *x),
            Anchor::Middle => ("middle", x - width / 2.0),
            Anchor::End => ("end", x - width),
        };
        let place = [left, y - LINE + 3.0, left + width, y + 3.0];
        // The name of the axis stands in the corner.
        let is_inside = place[0] >= LEFT - 8.0
            && place[2] <= LEFT + WIDTH + 24.0
            && place[1] >= 0.0
            && place[3] <= TOP + HEIGHT;
        if is_inside && labels.is_free(&place) {
            labels.cover(place);
            let text = escape(text);
            let _ = write!(
                svg,
                "<text text-anchor=\"{name}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
            );
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited<'a>(name: &str, latencies: &'a [i64], limit: Option<f64>) -> Limited<'a> {
        Limited {
            class: "c1".to_owned(),
            name: name.to_owned(),
            latencies,
            limit: limit.map(|ns| (ns, format!("{name}: {ns}"))),
        }
    }

    fn drawn(curves: &[Limited<'_>]) -> String {
        against_limits(Axis::logarithmic(1.0, 1000.0), "label", curves)
    }

    #[test]
    fn what_exceeds_the_limit_is_thick_from_its_share_on() {
        let svg = drawn(&[limited("C1", &[10, 20, 30, 40], Some(25.0))]);
        let frame = Frame {
            x: Axis::logarithmic(1.0, 1000.0),
            y: Axis::logarithmic(0.1, 1.0),
            x_name: "",
            y_name: "",
            x_quantity: Quantity::Duration,
            y_quantity: Quantity::OneIn,
        };
        let (x, y) = (frame.x(25.0), frame.y(0.5));
        assert!(
            svg.contains(&format!(
                "curve beyond-limit c1\" d=\"M{x:.1} {y:.1}H{:.1}",
                frame.x(30.0)
            )),
            "{svg}"
        );
        assert!(svg.contains(&format!(
            "<circle class=\"point c1\" cx=\"{x:.1}\" cy=\"{y:.1}\""
        )));
        let mut dashed = limited("A", &[10, 20, 30, 40], Some(25.0));
        dashed.class += " dash1";
        let svg = drawn(&[dashed]);
        assert!(!svg.contains("beyond-limit") && svg.contains("<circle class=\"point c1\""));
        // A wake that takes exactly as long keeps to it.
        assert!(!drawn(&[limited("C1", &[10, 25], Some(25.0))]).contains("beyond-limit"));
        assert!(!drawn(&[limited("C1", &[10, 25], None)]).contains("limit"));
    }

    #[test]
    fn one_datapoint_is_a_point_with_its_name() {
        let svg = drawn(&[limited("C1", &[10], None)]);
        assert!(
            svg.contains("<circle") && svg.contains(">C1</text>"),
            "{svg}"
        );
        assert!(!svg.contains("class=\"curve"));
        let beyond = drawn(&[limited("C1", &[30], Some(25.0))]);
        assert!(beyond.matches("<circle").count() == 1 && !beyond.contains("beyond-limit"));
        let two = drawn(&[limited("C1", &[10, 20], None)]);
        assert!(two.contains("class=\"curve c1\"") && !two.contains("<circle"));
    }

    #[test]
    fn a_limit_of_several_curves_is_drawn_once_and_names_do_not_overlap() {
        let mut two = [
            limited("A", &[10, 20], Some(25.0)),
            limited("B", &[10, 20], Some(25.0)),
        ];
        assert_eq!(drawn(&two).matches("class=\"mark").count(), 2);
        two[1].limit = two[0].limit.clone();
        assert_eq!(drawn(&two).matches("class=\"mark").count(), 1);
        let mut labels = Labels::default();
        let place = [(200.0, 100.0, Anchor::Start)];
        let mut of = |x: f64| {
            let mut svg = String::new();
            write(
                &mut labels,
                &place.map(|(_, y, anchor)| (x, y, anchor)),
                "four",
                &mut svg,
            );
            !svg.is_empty()
        };
        assert!(of(200.0));
        assert!(!of(200.0 + 4.0 * LETTER - 1.0));
        assert!(of(200.0 + 4.0 * LETTER));
        assert!(!of(LEFT + WIDTH));
        let mut labels = Labels::default();
        keep_off(&mut labels, &[(100.0, 90.0), (300.0, 99.0)]);
        let mut svg = String::new();
        write(&mut labels, &place, "four", &mut svg);
        assert!(svg.is_empty());
    }
}

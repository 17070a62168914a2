//! Distributions as curves: histogram and exceedance.

use std::fmt::Write as _;

use reveille_figures::tail::Estimate;

use crate::axis::Axis;
use crate::chart::frame::End;
use crate::chart::{Frame, Mark, Quantity};

/// One curve's sample.
#[derive(Debug, Clone)]
pub struct Curve<'a> {
    /// The class of its colour and, if any, its dashes.
    pub class: String,
    /// Wake latencies, ns, ascending; not empty.
    pub latencies: &'a [i64],
    /// The fitted tail beyond the data, drawn dashed.
    pub tail: Option<&'a Estimate>,
}

/// Bins of a histogram over the latency axis.
const BINS: usize = 160;

/// Points of an exceedance curve per decade of the share: finer than a line's width.
const POINTS_PER_DECADE: f64 = 48.0;

/// The histogram: the share of the datapoints in each of 160 bins of equal width on the logarithmic
/// axis. The axis of the share is logarithmic too, to show the tail.
pub fn histogram(latency: Axis, label: &str, curves: &[Curve<'_>], marks: &[Mark]) -> String {
    let histograms: Vec<Vec<u32>> = curves.iter().map(|curve| bins(latency, curve)).collect();
    let shares = |counts: &[u32], curve: &Curve<'_>| -> Vec<f64> {
        let count = curve.latencies.len() as f64;
        counts.iter().map(|bin| f64::from(*bin) / count).collect()
    };
    let shares: Vec<Vec<f64>> = histograms
        .iter()
        .zip(curves)
        .map(|(counts, curve)| shares(counts, curve))
        .collect();
    let greatest = shares.iter().flatten().copied().fold(0.0, f64::max);
    let most = curves
        .iter()
        .map(|curve| curve.latencies.len())
        .max()
        .unwrap_or(1)
        .max(1);
    let frame = Frame {
        x: latency,
        // From half a datapoint, so that a bin with a single one is visible; with room above for text.
        y: Axis::logarithmic(0.5 / most as f64, (greatest * 3.0).min(1.0)),
        x_name: "wake latency",
        y_name: "share of the wakes, per bin",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::Share,
    };
    frame.svg(label, "", |svg| {
        for (curve, shares) in curves.iter().zip(&shares) {
            let path = steps(&frame, shares);
            let fill = if curves.len() == 1 { " filled" } else { "" };
            let _ = write!(
                svg,
                "<path class=\"curve {}{fill}\" d=\"{path}\"/>",
                curve.class
            );
        }
        frame.marks_down(marks, End::Top, svg);
    })
}

/// The counts of the curve's datapoints by bin.
fn bins(latency: Axis, curve: &Curve<'_>) -> Vec<u32> {
    let bin = latency.binning(BINS);
    let mut counts = vec![0; BINS];
    for ns in curve.latencies {
        counts[bin(*ns as f64)] += 1;
    }
    counts
}

/// The outline of the bins; empty ones are at the axis.
fn steps(frame: &Frame<'_>, shares: &[f64]) -> String {
    let bottom = frame.y(frame.y.min);
    let edge = |bin: usize| frame.x(frame.x.value(bin as f64 / BINS as f64));
    let mut path = format!("M{:.1} {bottom:.1}", edge(0));
    let mut level = bottom;
    for (bin, share) in shares.iter().enumerate() {
        let y = frame.y(*share);
        if (y - level).abs() > 0.05 {
            let _ = write!(path, "H{:.1}V{y:.1}", edge(bin));
            level = y;
        }
    }
    let _ = write!(path, "H{:.1}V{bottom:.1}", edge(BINS));
    path
}

/// The exceedance (complementary distribution), down to 1 in the number of datapoints. Beyond it the
/// tail's estimate is dashed, with its interval.
pub fn exceedance(latency: Axis, label: &str, curves: &[Curve<'_>], marks: &[Mark]) -> String {
    let far = curves.iter().map(|curve| match curve.tail {
        Some(tail) => tail.exceeded_by_one_in.max(curve.latencies.len() as u64),
        None => curve.latencies.len() as u64,
    });
    let far = far.max().unwrap_or(1).max(10) as f64;
    let frame = Frame {
        x: latency,
        y: Axis::logarithmic(10f64.powf(-far.log10().ceil()), 1.0),
        x_name: "wake latency",
        y_name: "exceedance",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::OneIn,
    };
    frame.svg(label, "", |svg| {
        for curve in curves {
            if let [only] = curve.latencies {
                *svg += &single(&frame, &curve.class, *only as f64);
                continue;
            }
            let path = survival(&frame, curve.latencies);
            let _ = write!(svg, "<path class=\"curve {}\" d=\"{path}\"/>", curve.class);
            if let Some(tail) = curve.tail {
                estimate(&frame, curve, tail, svg);
            }
        }
        estimate_label(&frame, curves, svg);
        frame.marks_down(marks, End::Bottom, svg);
    })
}

/// One value is no distribution: a dot at it, and no curve.
pub fn single(frame: &Frame<'_>, class: &str, value: f64) -> String {
    let (x, y) = (frame.x(value), frame.y(1.0));
    format!("<circle class=\"single {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>")
}

/// Names the estimates once, before the first: they are at about the same height.
fn estimate_label(frame: &Frame<'_>, curves: &[Curve<'_>], svg: &mut String) {
    let tails = curves.iter().filter_map(|curve| Some((curve, curve.tail?)));
    let Some((curve, tail)) = tails.min_by_key(|(_, tail)| tail.quantile_low_ns) else {
        return;
    };
    let far = 1.0 / tail.exceeded_by_one_in.max(1) as f64;
    let _ = write!(
        svg,
        "<g class=\"estimate {}\"><text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">estimate</text></g>",
        curve.class,
        frame.x(tail.quantile_low_ns as f64) - 5.0,
        frame.y(far) - 4.0
    );
}

/// The staircase through the sample.
pub(super) fn survival(frame: &Frame<'_>, sorted: &[i64]) -> String {
    steps_down(frame, sorted, 0, frame.x(frame.x.min))
}

/// The staircase from `left` through the datapoints from that place on.
pub(super) fn steps_down(frame: &Frame<'_>, sorted: &[i64], place: usize, left: f64) -> String {
    let mut path = String::new();
    for (x, y) in corners(frame, sorted, place) {
        let _ = match path.is_empty() {
            true => write!(path, "M{left:.1} {y:.1}H{x:.1}"),
            false => write!(path, "V{y:.1}H{x:.1}"),
        };
    }
    path
}

/// Where the stairs turn down: at a datapoint, from that place on, the share of datapoints not below it.
pub(super) fn corners(frame: &Frame<'_>, sorted: &[i64], place: usize) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let mut corners = Vec::new();
    let mut not_below = count - place;
    while not_below > 0 {
        let x = frame.x(sorted[count - not_below] as f64);
        corners.push((x, frame.y(not_below as f64 / count as f64)));
        let next = (not_below as f64 / 10f64.powf(1.0 / POINTS_PER_DECADE)) as usize;
        not_below = next.min(not_below - 1);
    }
    corners
}

/// The generalised Pareto tail from the largest datapoint to the far quantile:
/// P(X > x) = N_u/n · (1 + ξ (x − u)/σ)^(−1/ξ), and e^(−(x − u)/σ) for ξ = 0 (Coles, "An
/// Introduction to Statistical Modeling of Extreme Values", equation 4.2 and section 4.3.3).
fn estimate(frame: &Frame<'_>, curve: &Curve<'_>, tail: &Estimate, svg: &mut String) {
    let share = tail.exceedances as f64 / curve.latencies.len() as f64;
    let far = 1.0 / tail.exceeded_by_one_in.max(1) as f64;
    let mut path = String::new();
    let first = 1.0 / curve.latencies.len() as f64;
    /// Enough for a smooth line.
    const PIECES: u32 = 24;
    for piece in 0..=PIECES {
        let probability = first * (far / first).powf(f64::from(piece) / f64::from(PIECES));
        let ratio = probability / share;
        let excess = match tail.shape.abs() < 1e-9 {
            true => -tail.scale_ns * ratio.ln(),
            false => tail.scale_ns / tail.shape * (ratio.powf(-tail.shape) - 1.0),
        };
        let x = frame.x(tail.threshold_ns as f64 + excess);
        let verb = if piece == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{x:.1} {:.1}", frame.y(probability));
    }
    let (low, high) = (
        frame.x(tail.quantile_low_ns as f64),
        frame.x(tail.quantile_high_ns as f64),
    );
    let (middle, y) = (frame.x(tail.quantile_ns as f64), frame.y(far));
    let _ = write!(
        svg,
        "<g class=\"estimate {}\"><path class=\"beyond\" d=\"{path}\"/>\
         <path d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/>\
         <circle cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"3\"/></g>",
        curve.class,
        y - 4.0,
        y - 4.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(latencies: &[i64]) -> Curve<'_> {
        Curve {
            class: "c1".to_owned(),
            latencies,
            tail: None,
        }
    }

    #[test]
    fn the_bins_of_a_histogram_add_up_to_the_datapoints_even_beyond_the_axis() {
        let latencies = [-5, 0, 7, 130, 4_000, 5_000_000];
        let counts = bins(Axis::logarithmic(100.0, 10_000.0), &curve(&latencies));
        assert_eq!(counts.iter().sum::<u32>(), 6);
        assert_eq!((counts[0], counts[BINS - 1]), (3, 1));
    }

    #[test]
    fn a_single_datapoint_is_a_dot_and_no_curve() {
        let axis = Axis::logarithmic(10.0, 1000.0);
        let drawn = |latencies| exceedance(axis, "", &[curve(latencies)], &[]);
        assert!(drawn(&[100]).contains("class=\"single c1\""));
        assert!(!drawn(&[100]).contains("class=\"curve"));
        assert!(drawn(&[100, 200]).contains("class=\"curve c1\""));
    }

    #[test]
    fn an_exceedance_curve_begins_at_1_and_ends_at_one_in_the_count() {
        let latencies: Vec<i64> = (1..=1000).collect();
        let frame = Frame {
            x: Axis::logarithmic(1.0, 1000.0),
            y: Axis::logarithmic(0.001, 1.0),
            x_name: "",
            y_name: "",
            x_quantity: Quantity::Duration,
            y_quantity: Quantity::OneIn,
        };
        let path = survival(&frame, &latencies);
        let top = frame.y(1.0);
        let (bottom, right) = (frame.y(0.001), frame.x(1000.0));
        assert!(
            path.starts_with(&format!("M{:.1} {top:.1}", frame.x(1.0))),
            "{path}"
        );
        assert!(
            path.ends_with(&format!("V{bottom:.1}H{right:.1}")),
            "{path}"
        );
    }
}

//! Power during the cycles (figures 3 and 6 of Xi and others).

use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart::{self, Frame, Quantity};
use reveille_show::quantity::{counted, three_digits};

use crate::cycle::time;
use crate::power::align::{AlignedBy, Power};

/// The samples, how they were aligned with the log, and a cycle's energy.
pub fn sentence(power: &Power) -> String {
    let by = match power.aligned_by {
        AlignedBy::WallClock => "the wall clocks of both",
        AlignedBy::Offset => "--power-offset",
        AlignedBy::Drop => "the drop in power while the machine slept",
    };
    let mut words = format!(
        "{}, one every {}, aligned with the log by {by}.",
        counted(power.samples as u64, "sample"),
        time(power.interval_us)
    );
    if let Some(joules) = power.energy_j {
        let whole = power.cycles.iter().filter(|cycle| cycle.energy_j.is_some());
        // Writing to a String cannot fail.
        let _ = write!(
            words,
            " From suspend to resume a cycle takes {} J (median of {}).",
            three_digits(joules),
            whole.count()
        );
    }
    if power.gaps > 0 {
        let _ = write!(
            words,
            " Samples are missing in {}, {} in all; no mean covers them.",
            counted(power.gaps as u64, "gap"),
            time(power.gaps_us)
        );
    }
    let left = &power.left_out;
    if left.all() > 0 {
        let _ = write!(
            words,
            " Lines left out: {} unreadable, {} negative, {} out of order.",
            left.unreadable, left.negative, left.out_of_order
        );
    }
    words
}

pub fn chart(power: &Power) -> String {
    let (Some(first), Some(last)) = (power.series.first(), power.series.last()) else {
        return String::new();
    };
    let ns = |us: i64| (us - first.at_us) as f64 * 1e3;
    let most = power.series.iter().map(|point| point.max_w);
    let most = most.fold(0.0, f64::max);
    let frame = Frame {
        x: Axis::from_zero(ns(last.at_us)),
        y: Axis::from_zero(most * 1.05),
        x_name: "time since the first sample",
        y_name: "power",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::Watts,
    };
    let svg = frame.svg("Power over time", "", |svg| {
        svg.push_str("<g class=\"asleep\">");
        for cycle in &power.cycles {
            let (from, to) = (frame.x(ns(cycle.suspended_us)), frame.x(ns(cycle.woken_us)));
            let (top, bottom) = (frame.y(frame.y.max), frame.y(0.0));
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from).max(0.5),
                bottom - top
            );
        }
        svg.push_str("</g><path class=\"curve c5\" d=\"");
        for (place, point) in power.series.iter().enumerate() {
            let x = frame.x(ns(point.at_us));
            let begins = place == 0 || point.after_gap;
            let pen = if begins { 'M' } else { 'L' };
            let _ = write!(svg, "{pen}{x:.1} {:.1}", frame.y(point.max_w));
            if point.min_w < point.max_w {
                let _ = write!(svg, "V{:.1}", frame.y(point.min_w));
            }
        }
        svg.push_str("\"/>");
    });
    let figure = chart::figure("Power over time; shaded: asleep", &svg, "");
    format!("<div class=\"charts\">{figure}</div>")
}

//! How long waits for CPUs in each state took: the share of them that took at least so long.

use std::fmt::Write as _;

use reveille_watch::cost::{Cost, StateCost};

use reveille_show::axis::Axis;
use reveille_show::chart::{Frame, Quantity, colour};
use reveille_show::markup::escape;

/// All states in one chart.
pub fn charts(cost: &Cost) -> String {
    let states: Vec<&StateCost> = cost
        .by_state
        .iter()
        .filter(|state| state.mean_leaving_ns.is_some() && !state.distribution.bins.is_empty())
        .collect();
    if states.is_empty() {
        return String::new();
    }
    let bins = || states.iter().flat_map(|state| &state.distribution.bins);
    let shortest = bins().map(|bin| bin.from_ns).min().unwrap_or(1).max(1);
    let longest = bins().map(|bin| bin.below_ns).max().unwrap_or(1);
    let most = states.iter().map(|state| state.distribution.count()).max();
    let most = most.unwrap_or(1).max(10) as f64;
    let frame = Frame {
        x: Axis::logarithmic(shortest as f64, longest as f64),
        y: Axis::logarithmic(10f64.powf(-most.log10().ceil()), 1.0),
        x_name: "leaving the idle state",
        y_name: "waits that take at least so long",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::OneIn,
    };
    let mut keys = String::new();
    let label = "Share of waits that take at least so long, by idle state";
    let svg = frame.svg(label, "", |svg| {
        for (place, state) in states.iter().enumerate() {
            let colour = colour(place);
            let _ = write!(
                svg,
                "<path class=\"curve {colour}\" d=\"{}\"/>",
                curve(&frame, state)
            );
            let _ = write!(
                keys,
                "<span class=\"key {colour}\"><i></i>{}</span> ",
                escape(&state.state)
            );
        }
    });
    format!(
        "<section id=\"distributions\"><h2>How long waits took</h2><div class=\"keys\">{keys}</div>\
         <div class=\"charts\"><figure>{svg}</figure></div></section>"
    )
}

/// From bin to bin; within one the waits may lie anywhere.
fn curve(frame: &Frame<'_>, state: &StateCost) -> String {
    let all = state.distribution.count() as f64;
    let mut left = all;
    let mut path = String::new();
    for bin in &state.distribution.bins {
        // Writing to a String cannot fail.
        let _ = write!(
            path,
            "{}{:.1} {:.1}",
            if path.is_empty() { 'M' } else { 'L' },
            frame.x(bin.from_ns.max(1) as f64),
            frame.y(left / all)
        );
        left -= bin.count as f64;
        let share = (left / all).max(frame.y.min);
        let _ = write!(
            path,
            "L{:.1} {:.1}",
            frame.x(bin.below_ns as f64),
            frame.y(share)
        );
    }
    path
}

//! Exceedance of the time to leave the idle state, by state.

use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart::curves::single;
use reveille_show::chart::{Frame, Quantity, colour, legend};

use crate::cost::result::{Cost, StateCost};

/// All states in one chart.
pub(super) struct Chart<'a>(Vec<&'a StateCost>);

impl<'a> Chart<'a> {
    /// `None` without data.
    pub fn of(cost: &'a Cost) -> Option<Self> {
        let drawn = |state: &&StateCost| {
            state.mean_leaving_ns.is_some() && !state.distribution.bins.is_empty()
        };
        let states: Vec<_> = cost.by_state.iter().filter(drawn).collect();
        (!states.is_empty()).then_some(Self(states))
    }

    pub fn html(&self) -> String {
        let bins = || self.0.iter().flat_map(|state| &state.distribution.bins);
        let shortest = bins().map(|bin| bin.from_ns).min().unwrap_or(1).max(1);
        let longest = bins().map(|bin| bin.below_ns).max().unwrap_or(1);
        let most = self.0.iter().map(|state| state.distribution.count()).max();
        let most = most.unwrap_or(1).max(10) as f64;
        let frame = Frame {
            x: Axis::logarithmic(shortest as f64, longest as f64),
            y: Axis::logarithmic(10f64.powf(-most.log10().ceil()), 1.0),
            x_name: "time to leave the idle state",
            y_name: "exceedance",
            x_quantity: Quantity::Duration,
            y_quantity: Quantity::OneIn,
        };
        let mut keys = Vec::new();
        let label = "Exceedance of the time to leave the idle state, by state";
        let svg = frame.svg(label, "", |svg| {
            for (place, state) in self.0.iter().enumerate() {
                let colour = colour(place);
                if state.distribution.count() == 1 {
                    let from = state.distribution.bins[0].from_ns.max(1);
                    *svg += &single(&frame, &colour, from as f64);
                } else {
                    let curve = curve(&frame, state);
                    // Writing to a String cannot fail.
                    let _ = write!(svg, "<path class=\"curve {colour}\" d=\"{curve}\"/>");
                }
                keys.push((colour, &state.state));
            }
        });
        let keys = legend(keys);
        format!("{keys}<div class=\"charts\"><figure>{svg}</figure></div>")
    }
}

/// From bin to bin, linear within a bin.
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

//! When calls start and when they return, in bins (figures 2 and 5 of Xi and others).

use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart::{Frame, Quantity, figure, legend};

use crate::analysis::CycleResult;
use crate::cycle::{Us, time};
use crate::graph::Half;

/// About this many bins.
const BINS: Us = 16;

/// When the resume's calls start and return, each in time since the resume started.
pub struct Chart {
    starts: Vec<Us>,
    returns: Vec<Us>,
    last: Us,
}

impl Chart {
    /// `None` without calls, or where the log's timestamps are coarser than the resume.
    pub fn of(cycle: &CycleResult) -> Option<Self> {
        if cycle.resolution_us > 1 && cycle.resume_us.is_none() {
            return None;
        }
        let start = cycle.resume_start_us?;
        let calls = || cycle.calls_of(Half::Resume).map(|(_, one)| &one.call);
        let since = |at: Us| (at - start).max(0);
        let starts: Vec<Us> = calls().filter_map(|call| call.start).map(since).collect();
        let returns: Vec<Us> = calls().filter_map(|call| call.end).map(since).collect();
        let last = *starts.iter().chain(&returns).max()?;
        (last > 0).then_some(Self {
            starts,
            returns,
            last,
        })
    }

    /// The share of the calls in each bin, in per cent.
    fn shares(&self, instants: &[Us], width: Us) -> Vec<f64> {
        let mut shares = vec![0.0; (self.last / width + 1) as usize];
        for us in instants {
            shares[(us / width) as usize] += 100.0 / instants.len() as f64;
        }
        shares
    }

    pub fn html(&self) -> String {
        let width = width(self.last);
        let [starts, returns] = [&self.starts, &self.returns].map(|all| self.shares(all, width));
        let ns = |bins: usize| bins as f64 * width as f64 * 1e3;
        let most = starts.iter().chain(&returns).copied().fold(0.0, f64::max);
        let frame = Frame {
            x: Axis::from_zero(ns(starts.len())),
            y: Axis::from_zero(most * 1.05),
            x_name: "time since the start of the resume",
            y_name: "share of the calls",
            x_quantity: Quantity::Duration,
            y_quantity: Quantity::Percent,
        };
        let bins = time(width);
        let label = format!("Share of calls that start and that return, in bins of {bins}");
        let svg = frame.svg(&label, "", |svg| {
            for (class, shares, place) in [("c5", &starts, 0.0), ("c1", &returns, 1.0)] {
                // Writing to a String cannot fail.
                let _ = write!(svg, "<g class=\"bin {class}\">");
                for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                    let left = frame.x(ns(bin));
                    let wide = frame.x(ns(bin + 1)) - left;
                    let (y, bottom) = (frame.y(*share), frame.y(0.0));
                    let _ = write!(
                        svg,
                        "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                        left + wide * (0.08 + 0.42 * place),
                        wide * 0.42,
                        bottom - y
                    );
                }
                svg.push_str("</g>");
            }
        });
        let keys = [("c5", "calls that start"), ("c1", "calls that return")];
        let keys = legend(keys.map(|(class, name)| (class.to_owned(), name)));
        let title = format!("Starts and returns, bins of {bins}");
        let figure = figure(&title, &(svg + &keys), "");
        format!("<div class=\"charts\">{figure}</div>")
    }
}

/// The next 1, 2 or 5 of a decade above a sixteenth of the time.
fn width(last: Us) -> Us {
    let least = (last / BINS).max(1);
    let decade = 10_i64.pow(least.ilog10());
    let mut steps = [1, 2, 5, 10].into_iter().map(|step| step * decade);
    steps.find(|step| *step >= least).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_round_and_about_sixteen() {
        assert_eq!(width(650_000), 50_000);
        assert_eq!(width(100), 10);
        assert_eq!(width(1), 1);
        assert_eq!(width(3_300_000), 500_000);
    }
}

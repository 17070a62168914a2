//! When calls begin and when they return, in bins (figures 2 and 5 of Xi and others).

use std::fmt::Write as _;

use reveille_resume::analysis::CycleResult;
use reveille_resume::cycle::Us;

use super::time;
use reveille_show::axis::Axis;
use reveille_show::chart::{Frame, Quantity};

/// About so many bins.
const BINS: Us = 16;

pub fn chart(cycle: &CycleResult) -> String {
    // Stamps that do not tell the resume's length do not spread its calls.
    let is_told = cycle.resolution_us <= 1 || cycle.resume_us.is_some();
    let Some(start) = cycle.resume_start_us.filter(|_| is_told) else {
        return String::new();
    };
    let end = |call: &reveille_resume::cycle::Call| call.end.map(|end| end - start);
    let begin = |call: &reveille_resume::cycle::Call| call.start.map(|begin| begin - start);
    let starts: Vec<Us> = cycle
        .resume_calls()
        .filter_map(|(_, one)| begin(&one.call))
        .collect();
    let ends: Vec<Us> = cycle
        .resume_calls()
        .filter_map(|(_, one)| end(&one.call))
        .collect();
    let Some(last) = starts.iter().chain(&ends).max().filter(|last| **last > 0) else {
        return String::new();
    };
    let width = width(*last);
    let bins = (last / width + 1) as usize;
    let shares = |instants: &[Us]| {
        let mut counts = vec![0; bins];
        for us in instants {
            counts[(us.max(&0) / width) as usize] += 1;
        }
        let all = instants.len().max(1) as f64;
        counts
            .iter()
            .map(|count| f64::from(*count) * 100.0 / all)
            .collect::<Vec<f64>>()
    };
    let (starts, ends) = (shares(&starts), shares(&ends));
    let most = starts.iter().chain(&ends).copied().fold(0.0, f64::max);
    let frame = Frame {
        x: Axis::from_zero((bins as Us * width) as f64 * 1e3),
        y: Axis::from_zero(most * 1.05),
        x_name: "time from the resume's begin",
        y_name: "share of the calls",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::Percent,
    };
    let label = format!(
        "Share of calls that begin and that return, in bins of {}",
        time(width)
    );
    let svg = frame.svg(&label, "", |svg| {
        for (class, shares, place) in [("c5", &starts, 0.0), ("c1", &ends, 1.0)] {
            let _ = write!(svg, "<g class=\"bin {class}\">");
            for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let left = frame.x((bin as Us * width) as f64 * 1e3);
                let wide = frame.x((bin as Us + 1) as f64 * width as f64 * 1e3) - left;
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
    format!(
        "<div class=\"charts\"><figure><figcaption>Begins and ends, bins of {}</figcaption>{svg}\
         <p class=\"keys\"><span class=\"key c5\"><i></i>calls that begin</span> <span class=\"key \
         c1\"><i></i>calls that return</span></p></figure></div>",
        time(width)
    )
}

/// The next 1, 2 or 5 of a decade above a sixteenth of the time.
fn width(last: Us) -> Us {
    let least = (last / BINS).max(1);
    let decade = 10_i64.pow(least.ilog10());
    let steps = [1, 2, 5, 10].map(|step| step * decade);
    steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(least)
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

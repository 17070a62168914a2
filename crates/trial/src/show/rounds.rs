//! How the figures are spread, and how they went over the trial's time.

use std::fmt::Write as _;

use reveille_figures::quantile::median;
use reveille_show::axis::Axis;
use reveille_show::chart::{self, Frame, Quantity, colour};
use reveille_show::markup::escape;

use super::figure;
use crate::result::Trial;

/// In units of the drawing: its width, a row's height, and the room for names.
const FULL_WIDTH: f64 = 584.0;
const ROW: f64 = 34.0;
const NAMES: f64 = 165.0;
const WIDTH: f64 = 395.0;

/// A row for each setting: all its figures from the least to the greatest, their middle half, and
/// each round's median.
pub fn spread(trial: &Trial) -> String {
    const TITLE: &str = "All figures of each setting";
    let rounds = trial.rounds.iter();
    let all = rounds.flat_map(|round| round.figures.iter().copied());
    if all.clone().next().is_none() {
        return chart::not_drawn(TITLE, "no setting has a figure");
    }
    let axis = Axis::over(all);
    let height = ROW * trial.settings.len() as f64;
    let quantity = figure::quantity(&trial.workload);
    let mut svg = format!(
        "<svg class=\"bars narrow\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"{TITLE}: \
         least to greatest, the middle half, and each round's median\">{}\
         <text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        height + 40.0,
        axis.below_rows(NAMES, WIDTH, height, |value| quantity.text(value)),
        NAMES + WIDTH,
        height + 34.0,
        escape(&figure::name(&trial.workload))
    );
    for place in 0..trial.settings.len() {
        row(trial, axis, place, &mut svg);
    }
    svg.push_str("</svg>");
    let explained = "The line runs from the least figure to the greatest, the box holds the middle half, \
                     its bar is the median, the tick is the 99th percentile (1st, where more is \
                     better), dots are the rounds' medians.";
    chart::figure(TITLE, &svg, explained)
}

fn row(trial: &Trial, axis: Axis, place: usize, svg: &mut String) {
    let setting = &trial.settings[place];
    let middle = ROW * (place as f64 + 0.5);
    let name: String = setting.name.chars().take(25).collect();
    let _ = write!(
        svg,
        "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        NAMES - 8.0,
        middle + 4.0,
        escape(&name)
    );
    let rounds = || trial.rounds.iter().filter(|round| round.setting == place);
    let mut figures: Vec<f64> = rounds()
        .flat_map(|round| round.figures.iter().copied())
        .collect();
    figures.sort_unstable_by(f64::total_cmp);
    let (Some(summary), Some(least), Some(greatest)) =
        (&setting.figure, figures.first(), figures.last())
    else {
        return;
    };
    let x = |figure: f64| NAMES + WIDTH * axis.fraction(figure);
    let quarter = |share: usize| x(figures[(figures.len() - 1) * share / 4]);
    let _ = write!(
        svg,
        "<g class=\"spread {}\"><path d=\"M{:.1} {middle:.1}H{:.1}\"/>\
         <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"/>\
         <path class=\"median\" d=\"M{:.1} {:.1}v20\"/>",
        colour(place),
        x(*least),
        x(*greatest),
        quarter(1),
        middle - 7.0,
        (quarter(3) - quarter(1)).max(1.0),
        x(summary.median),
        middle - 10.0
    );
    let tail = match trial.workload.higher_is_better {
        true => summary.p1,
        false => summary.p99,
    };
    if let Some(tail) = tail {
        let _ = write!(svg, "<path d=\"M{:.1} {:.1}v12\"/>", x(tail), middle - 6.0);
    }
    for median in rounds().filter_map(|round| median(&round.figures)) {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2.4\"/>",
            x(median)
        );
    }
    svg.push_str("</g>");
}

/// Each round's median at the time of its turn: what drifts is seen here.
pub fn over_time(trial: &Trial) -> String {
    const TITLE: &str = "Medians of the rounds, in the order in which they were taken";
    let medians = trial.rounds.iter().filter_map(|round| {
        let median = median(&round.figures)?;
        Some((round.setting, round.began_s * 1e9, median))
    });
    let medians: Vec<(usize, f64, f64)> = medians.collect();
    if medians.is_empty() {
        return chart::not_drawn(TITLE, "no setting has a figure");
    }
    let end = medians.iter().map(|one| one.1).fold(1.0, f64::max);
    let y_name = figure::name(&trial.workload);
    let frame = Frame {
        x: Axis::from_zero(end * 1.02),
        y: Axis::over(medians.iter().map(|one| one.2)),
        x_name: "time since the start",
        y_name: &y_name,
        x_quantity: Quantity::Duration,
        y_quantity: figure::quantity(&trial.workload),
    };
    let svg = frame.svg(TITLE, "", |svg| {
        for place in 0..trial.settings.len() {
            let of_setting = medians.iter().filter(|one| one.0 == place);
            let mut line = String::new();
            for (_, time, median) in of_setting.clone() {
                let step = if line.is_empty() { 'M' } else { 'L' };
                let _ = write!(line, "{step}{:.1} {:.1}", frame.x(*time), frame.y(*median));
            }
            let _ = write!(
                svg,
                "<g class=\"over-time {}\"><path d=\"{line}\"/>",
                colour(place)
            );
            for (_, time, median) in of_setting {
                let (x, y) = (frame.x(*time), frame.y(*median));
                let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
            }
            svg.push_str("</g>");
        }
    });
    chart::figure(TITLE, &svg, "")
}

//! The figure against what it costs: the lower and the further left, the better, and what lies above
//! and to the right of another point is dominated by it.

use std::fmt::Write as _;

use reveille_figures::quantile::median;
use reveille_show::axis::Axis;
use reveille_show::chart::frame::{LEFT, WIDTH};
use reveille_show::chart::{self, Frame, Quantity, colour};
use reveille_show::markup::escape;

use super::figure;
use crate::observe::Observed;
use crate::result::{Setting, Trial};
use crate::verdict::Cost;

/// A setting's place, and its rounds' around it.
struct Point {
    setting: usize,
    cost: f64,
    figure: f64,
    rounds: Vec<(f64, f64)>,
    dominated: bool,
}

pub fn chart(trial: &Trial) -> String {
    let Some(cost) = trial.cost else {
        let why = "neither power nor the time awake is known";
        return chart::not_drawn("Median against its cost", why);
    };
    let (title, name, quantity) = match cost {
        Cost::Power => ("Median against power", "power", Quantity::Watts),
        Cost::TimeAwake => (
            "Median against time awake",
            "time awake, share of all CPUs' time",
            Quantity::Percent,
        ),
    };
    let points = points(trial, cost);
    if points.is_empty() {
        return chart::not_drawn(title, "no setting has a figure");
    }
    let all = || points.iter().flat_map(|point| &point.rounds);
    let y_name = figure::name(&trial.workload);
    let frame = Frame {
        x: match cost {
            Cost::Power => Axis::from_zero(all().map(|round| round.0).fold(0.0, f64::max) * 1.08),
            Cost::TimeAwake => Axis::from_zero(100.0),
        },
        y: Axis::over(all().map(|round| round.1)),
        x_name: name,
        y_name: &y_name,
        x_quantity: quantity,
        y_quantity: figure::quantity(&trial.workload),
    };
    let label = format!("{title}: one point for each setting, its rounds as dots around it");
    let svg = frame.svg(&label, "", |svg| draw(trial, &frame, &points, svg));
    let explained = "A disc is a setting: the median of all its figures, and its rounds' mean cost. \
                     Dots are its rounds. A ring instead of a disc is dominated: another setting is \
                     better in one respect and shown to be no worse in the other.";
    chart::figure(title, &svg, explained)
}

fn points(trial: &Trial, cost: Cost) -> Vec<Point> {
    let cost_of = |observed: &Observed| match cost {
        Cost::Power => observed.power_w,
        Cost::TimeAwake => observed.awake_percent,
    };
    let point = |(place, setting): (usize, &Setting)| {
        let rounds = trial.rounds.iter().filter(|round| round.setting == place);
        let rounds =
            rounds.filter_map(|round| Some((cost_of(&round.observed)?, median(&round.figures)?)));
        let mut dominated = trial.verdict.dominated.iter();
        Some(Point {
            setting: place,
            cost: cost_of(setting.observed.as_ref()?)?,
            figure: setting.figure.as_ref()?.median,
            rounds: rounds.collect(),
            dominated: dominated.any(|one| one.setting == place),
        })
    };
    let settings = trial.settings.iter().enumerate();
    settings.filter_map(point).collect()
}

fn draw(trial: &Trial, frame: &Frame<'_>, points: &[Point], svg: &mut String) {
    for point in points {
        // Writing to a String cannot fail.
        let _ = write!(svg, "<g class=\"rounds {}\">", colour(point.setting));
        for (cost, figure) in &point.rounds {
            let (x, y) = (frame.x(*cost), frame.y(*figure));
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        }
        svg.push_str("</g>");
    }
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for point in points {
        let (x, y) = (frame.x(point.cost), frame.y(point.figure));
        let right = x < LEFT + WIDTH * 0.7;
        let name = escape(&trial.settings[point.setting].name);
        let line = free(&taken, x, y + 4.0);
        taken.push((x, line));
        let class = if point.dominated {
            "setting dominated"
        } else {
            "setting"
        };
        let _ = write!(
            svg,
            "<g class=\"{class} {}\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>\
             <text text-anchor=\"{}\" x=\"{:.1}\" y=\"{line:.1}\">{name}</text></g>",
            colour(point.setting),
            if right { "start" } else { "end" },
            if right { x + 10.0 } else { x - 10.0 },
        );
    }
}

/// The nearest height to `y` where words have room beside those that have a place.
fn free(taken: &[(f64, f64)], x: f64, y: f64) -> f64 {
    /// About the width of a name, and the height of a line, in units of the drawing.
    const NAME: f64 = 110.0;
    const LINE: f64 = 14.0;
    let is_free = |y: f64| {
        let mut taken = taken.iter();
        !taken.any(|other| (other.0 - x).abs() < NAME && (other.1 - y).abs() < LINE)
    };
    let steps = (0..20).flat_map(|step| [1.0, -1.0].map(|way| y + way * LINE * f64::from(step)));
    steps.into_iter().find(|place| is_free(*place)).unwrap_or(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap() {
        assert_eq!(free(&[], 100.0, 50.0), 50.0);
        assert_eq!(free(&[(100.0, 50.0)], 300.0, 50.0), 50.0);
        assert_eq!(free(&[(100.0, 50.0)], 120.0, 52.0), 66.0);
        assert_eq!(free(&[(100.0, 50.0), (100.0, 64.0)], 100.0, 50.0), 36.0);
    }
}

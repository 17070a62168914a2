//! The figure against what it costs: the lower and the further left, the better, and what lies above
//! and to the right of another point is dominated by it.

use std::fmt::Write as _;

use reveille_figures::quantile::median;
use reveille_show::axis::Axis;
use reveille_show::chart::labels::Labels;
use reveille_show::chart::{self, Frame, Quantity, colour};

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
    let place = |point: &Point| (frame.x(point.cost), frame.y(point.figure));
    let mut labels = Labels::among(points.iter().map(place), 6.0);
    for point in points {
        let (x, y) = place(point);
        let class = if point.dominated {
            "setting dominated"
        } else {
            "setting"
        };
        let name = labels.write((x, y), &trial.settings[point.setting].name);
        let _ = write!(
            svg,
            "<g class=\"{class} {}\">{name}<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/></g>",
            colour(point.setting)
        );
    }
}

//! Lines over the load: figures 7 and 8 of the paper, and the figures themselves.

use std::fmt::Write as _;

use crate::policy::Outcome;
use crate::question::{Crossings, Figure};
use crate::sweep::{Compared, Point, Sweep};

use reveille_show::axis::Axis;
use reveille_show::chart::labels::Labels;
use reveille_show::chart::{self, COLOURS, Frame, Quantity, colour};
use reveille_show::quantity::digits;

/// The look of a server without power management.
const ALWAYS_ON: &str = "c6 dash2";

/// The look of the policy at that place.
fn class(place: usize) -> String {
    match place / COLOURS {
        0 => colour(place),
        round => format!("{} dash{}", colour(place), (round - 1) % 3 + 1),
    }
}

/// One chart.
struct Chart<'a> {
    title: &'a str,
    y_name: &'a str,
    quantity: Quantity,
    /// What is drawn of a policy.
    value: fn(&Compared) -> f64,
    /// What is drawn of always-on.
    always_on: fn(&Outcome) -> f64,
    /// The figure whose crossings are marked.
    figure: Figure,
    explained: &'a str,
}

const CHARTS: [Chart<'static>; 4] = [
    Chart {
        title: "Relative power against load",
        y_name: "power, by that of always-on",
        quantity: Quantity::Number,
        value: |one| one.relative_power,
        always_on: |_| 1.0,
        figure: Figure::Power,
        explained: "Rings are crossings of a policy that sleeps with one that scales the frequency.",
    },
    Chart {
        title: "Relative response time against load",
        y_name: "mean response time, by that of always-on",
        quantity: Quantity::Number,
        value: |one| one.relative_response,
        always_on: |_| 1.0,
        figure: Figure::Response,
        explained: "",
    },
    Chart {
        title: "Power",
        y_name: "mean power",
        quantity: Quantity::Watts,
        value: |one| one.outcome.power_mean,
        always_on: |outcome| outcome.power_mean,
        figure: Figure::Power,
        explained: "",
    },
    Chart {
        title: "Response time",
        y_name: "mean response time",
        quantity: Quantity::Duration,
        value: |one| one.outcome.response_mean * 1e9,
        always_on: |outcome| outcome.response_mean * 1e9,
        figure: Figure::Response,
        explained: "",
    },
];

pub fn all(sweep: &Sweep) -> String {
    let charts = CHARTS.iter().map(|chart| draw(chart, sweep));
    let charts: String = charts.collect();
    format!("{}<div class=\"charts\">{charts}</div>", legend(sweep))
}

/// Which colour is which policy; dashes where the colours begin again.
fn legend(sweep: &Sweep) -> String {
    let policies = sweep.parameters.policies.iter().enumerate();
    let keys = policies.map(|(place, named)| (class(place), named.name.as_str()));
    let always_on = match sweep.parameters.has_always_on() {
        true => None,
        false => Some((ALWAYS_ON.to_owned(), "always on")),
    };
    chart::legend(keys.chain(always_on))
}

fn draw<'a>(chart: &Chart<'_>, sweep: &'a Sweep) -> String {
    let frame = Frame {
        x: Axis::from_zero(100.0),
        y: axis(chart, sweep),
        x_name: "load",
        y_name: chart.y_name,
        x_quantity: Quantity::Percent,
        y_quantity: chart.quantity,
    };
    let label = format!("{}: a line for each policy", chart.title);
    let svg = frame.svg(&label, "", |svg| {
        let points = || sweep.points.iter();
        let awake = points().map(|point| Some((point, (chart.always_on)(&point.always_on))));
        line(&frame, ALWAYS_ON, awake, svg);
        for place in 0..sweep.parameters.policies.len() {
            let of = |point: &'a Point| point.policies[place].as_ref().map(chart.value);
            let own = points().map(|point| Some((point, of(point)?)));
            line(&frame, &class(place), own, svg);
        }
        rings(chart, &frame, sweep, svg);
    });
    chart::figure(chart.title, &svg, chart.explained)
}

/// From zero, or logarithmic where some figures would lie on the axis.
fn axis(chart: &Chart<'_>, sweep: &Sweep) -> Axis {
    /// Above this ratio of the greatest to the least.
    const RATIO: f64 = 8.0;
    let compared = sweep.points.iter();
    let compared = compared.flat_map(|point| point.policies.iter().flatten());
    let awake = sweep.points.iter();
    let awake = awake.map(|point| (chart.always_on)(&point.always_on));
    let values: Vec<f64> = compared.map(chart.value).chain(awake).collect();
    let greatest = values.iter().copied().fold(1.0, f64::max);
    let least = values.iter().copied().fold(greatest, f64::min);
    match (chart.figure, least > 0.0 && greatest / least > RATIO) {
        (Figure::Response, true) => Axis::logarithmic(least, greatest),
        _ => Axis::from_zero(greatest * 1.06),
    }
}

/// A line through the points; it ends where there is none.
fn line<'a>(
    frame: &Frame<'_>,
    class: &str,
    points: impl Iterator<Item = Option<(&'a Point, f64)>>,
    svg: &mut String,
) {
    let mut path = String::new();
    let mut verb = 'M';
    for point in points {
        let Some((point, value)) = point else {
            verb = 'M';
            continue;
        };
        let (x, y) = (frame.x(point.utilisation * 100.0), frame.y(value));
        // Writing to a String cannot fail.
        let _ = write!(path, "{verb}{x:.1} {y:.1}");
        verb = 'L';
    }
    let _ = write!(svg, "<path class=\"curve {class}\" d=\"{path}\"/>");
}

/// The crossings of all pairs, with their load.
fn rings(chart: &Chart<'_>, frame: &Frame<'_>, sweep: &Sweep, svg: &mut String) {
    let mut rings = Vec::new();
    for pair in &sweep.pairs {
        let crossings: &Crossings = match chart.figure {
            Figure::Power => &pair.power,
            Figure::Response => &pair.response,
        };
        let mut policies = sweep.parameters.policies.iter();
        let Some(place) = policies.position(|named| named.name == pair.first) else {
            continue;
        };
        for crossing in &crossings.crossings {
            let load = crossing.utilisation;
            if let Some(value) = at(chart, sweep, place, load) {
                let point = (frame.x(load * 100.0), frame.y(value));
                rings.push((class(place), point, load));
            }
        }
    }
    let mut labels = Labels::among(rings.iter().map(|(_, point, _)| *point), 5.0);
    for (class, point, load) in rings {
        let load = labels.write(point, &format!("{}%", digits(load * 100.0)));
        let (x, y) = point;
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<g class=\"crossing {class}\">{load}<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>"
        );
    }
}

/// What is drawn of the policy at this load; `None` outside of what is drawn.
fn at(chart: &Chart<'_>, sweep: &Sweep, place: usize, load: f64) -> Option<f64> {
    let (first, last) = (sweep.points.first()?, sweep.points.last()?);
    if load < first.utilisation || load > last.utilisation {
        return None;
    }
    let parameters = &sweep.parameters;
    let rate = load / parameters.service.mean();
    let point = crate::sweep::point(
        &parameters.policies[place..=place],
        &parameters.power,
        &parameters.service,
        rate,
    );
    Some((chart.value)(point.ok()?.policies[0].as_ref()?))
}

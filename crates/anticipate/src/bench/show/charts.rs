//! Latency above and its cost below; and the regained share of the cost of sleep.

use reveille_figures::rounds::Estimate;
use reveille_show::axis::Axis;
use reveille_show::chart::{Quantity, colour, figure, legend};

use super::panels::{Line, Panel, draw};
use crate::bench::comparison::{Gain, Row};
use crate::bench::policy::Policy;
use crate::bench::result::Bench;

/// The legend and both charts.
pub fn html(bench: &Bench) -> String {
    let policies = bench.policies.iter().map(|used| used.policy);
    let keys = policies.map(|policy| (colour_of(policy), policy.name()));
    format!(
        "{}<div class=\"charts\">{}{}</div>",
        legend(keys),
        latency_and_cost(bench),
        regained(bench)
    )
}

/// Figure 1 of the paper: latency and cost by idle time.
fn latency_and_cost(bench: &Bench) -> String {
    let title = match bench.is_storage() {
        true => format!("Latency of a {}, and its cost", bench.workload.waits_for),
        false => "From completion to the waiting thread, and its cost".to_owned(),
    };
    let of = |class: &str, what: &str, figure: fn(&Row) -> &Option<Estimate>| {
        lines(bench, class, what, |point, policy| {
            figure(bench.row(point, policy)?).clone()
        })
    };
    let median = of("", ", median", |row| &row.median_ns);
    let p99 = of(" dashed", ", 99th percentile", |row| &row.p99_ns);
    let latency: Vec<Line> = median.into_iter().chain(p99).collect();
    let mut panels = vec![Panel {
        name: "latency: median (discs) and 99th percentile (rings)".into(),
        quantity: Quantity::Duration,
        axis: Axis::over(values(&latency)),
        height: 230.0,
        lines: latency,
    }];
    let awake = of("", ", awake", |row| &row.awake_percent);
    if !is_empty(&awake) {
        panels.push(Panel {
            name: format!("time awake of CPU {}", bench.plan.cpu),
            quantity: Quantity::Percent,
            axis: Axis::from_zero(100.0),
            height: 120.0,
            lines: awake,
        });
    }
    let power = of("", ", power", |row| &row.power_w);
    if !is_empty(&power) {
        panels.push(Panel {
            name: "power of the processor packages".into(),
            quantity: Quantity::Watts,
            axis: Axis::from_zero(greatest(&power) * 1.08),
            height: 120.0,
            lines: power,
        });
    }
    let label = format!("{title}: a line for each policy");
    let explained = "Discs and rings are medians over rounds, bars their intervals.";
    figure(&title, &draw(&bench.points, &panels, &label), explained)
}

/// How much of what sleep costs each policy regains, and for how much of the time awake.
fn regained(bench: &Bench) -> String {
    const TITLE: &str = "Regained share of the cost of sleep, and its time awake";
    let of = |class: &str, what: &str, share: fn(&Gain) -> &Option<Estimate>| {
        lines(bench, class, what, |point, policy| {
            share(bench.gain(point, policy)?).clone()
        })
    };
    let mut all = of("", "", |gain| &gain.median.percent);
    all.extend(of(" dashed", ", 99th percentile", |gain| &gain.p99.percent));
    let awake = of("", "", |gain| &gain.awake_percent);
    if is_empty(&all) && is_empty(&awake) {
        return String::new();
    }
    // A share of a small difference can be anything: values far outside are at the edge.
    let shares = Axis {
        min: if least(&all) < 0.0 { -50.0 } else { 0.0 },
        ..Axis::from_zero(if greatest(&all) > 100.0 { 150.0 } else { 100.0 })
    };
    let mut panels = vec![Panel {
        name: "regained: median (discs) and 99th percentile (rings)".into(),
        quantity: Quantity::Percent,
        axis: shares,
        height: 230.0,
        lines: all,
    }];
    if !is_empty(&awake) {
        panels.push(Panel {
            name: "time awake beyond as is, as a share of that of no sleep".into(),
            quantity: Quantity::Percent,
            axis: Axis::from_zero(100.0),
            height: 120.0,
            lines: awake,
        });
    }
    let explained = "The cost of sleep is the latency as is less that without sleep. Without a \
                     significant cost the share is unknown.";
    figure(TITLE, &draw(&bench.points, &panels, TITLE), explained)
}

/// A line for each policy that has the figure at some point.
fn lines(
    bench: &Bench,
    class: &str,
    what: &str,
    value: impl Fn(usize, Policy) -> Option<Estimate>,
) -> Vec<Line> {
    let policies = bench.policies.iter().map(|used| used.policy);
    let line = |policy: Policy| Line {
        class: format!("{}{class}", colour_of(policy)),
        name: format!("{}{what}", policy.name()),
        figures: (0..bench.points.len())
            .filter_map(|point| Some((point, value(point, policy)?)))
            .collect(),
    };
    let lines = policies.map(line);
    lines.filter(|line| !line.figures.is_empty()).collect()
}

fn is_empty(lines: &[Line]) -> bool {
    lines.iter().all(|line| line.figures.is_empty())
}

/// All that is drawn: estimates and intervals.
fn values(lines: &[Line]) -> impl Iterator<Item = f64> + Clone {
    let figures = lines.iter().flat_map(|line| &line.figures);
    figures.flat_map(|(_, figure)| {
        let (low, high) = figure
            .interval
            .unwrap_or((figure.estimate, figure.estimate));
        [low, figure.estimate, high]
    })
}

fn least(lines: &[Line]) -> f64 {
    values(lines).fold(f64::MAX, f64::min)
}

fn greatest(lines: &[Line]) -> f64 {
    values(lines).fold(f64::MIN, f64::max)
}

/// The same colour on every page, far from each other.
fn colour_of(policy: Policy) -> String {
    colour(match policy {
        Policy::AsIs => 0,
        Policy::Shallowest => 2,
        Policy::NoSleep => 4,
        Policy::Poll => 3,
        Policy::Anticipate => 1,
    })
}

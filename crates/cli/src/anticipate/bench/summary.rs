//! What a benchmark found, in two tables and a few sentences.

use std::io::{self, Write};
use std::path::Path;

use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{Bench, Gain, Regained, Row};
use reveille_anticipate::bench::sentence::sentences;
use reveille_figures::rounds::Estimate;
use reveille_show::quantity::aligned as three_digits;

use reveille_show::table::{Side, Table};
use reveille_show::terminal;

use crate::compared;

const UNKNOWN: &str = "-";

pub fn print(bench: &Bench, folder: Option<&Path>) -> io::Result<()> {
    let mut out = terminal::stdout();
    head(bench, &mut out)?;
    if !bench.rows.is_empty() {
        figures(bench).write(&mut out)?;
        writeln!(out)?;
    }
    if !bench.gains.is_empty() {
        writeln!(
            out,
            "What sleep costs (as is less no sleep), and how much of it was regained [95 %]:"
        )?;
        gains(bench).write(&mut out)?;
        writeln!(out)?;
    }
    if let Some(own) = own_cost(bench) {
        writeln!(out, "{own}\n")?;
    }
    compared::said(&sentences(bench), &bench.notes, folder, &mut out)
}

fn head(bench: &Bench, out: &mut impl Write) -> io::Result<()> {
    let device = bench.workload.device.as_ref();
    let device = device.map_or(String::new(), |name| format!(", on {name}"));
    let (what, cpu) = (&bench.workload.what, bench.plan.cpu);
    let rounds = bench.plan.rounds;
    let more = [
        ("Workload", format!("{what}{device}; waits on CPU {cpu}")),
        (
            "Rounds",
            format!("{rounds}, policies in shuffled order; medians over rounds"),
        ),
    ];
    compared::head(&bench.about, &more, out)
}

/// What the engine takes itself.
fn own_cost(bench: &Bench) -> Option<String> {
    let mut costs = bench.rows.iter();
    let (point, ns, at_requests_ns) =
        costs.find_map(|row| Some((row.point, row.own_cost_ns?, row.own_cost_at_requests_ns?)))?;
    let at = match bench.points[point].idle_ns {
        Some(0) => ", one after the other".to_owned(),
        Some(_) => format!(", {} apart", bench.points[point].name),
        None => String::new(),
    };
    Some(format!(
        "Own cost  {:.2} µs for a {}{at}, {:.2} µs of it at its issue and completion; the time that \
         CPUs are kept awake is not in it",
        ns / 1e3,
        bench.workload.waits_for,
        at_requests_ns / 1e3
    ))
}

/// What each policy gave and took.
fn figures(bench: &Bench) -> Table {
    let (point, last) = match bench.workload.kind.as_str() {
        "storage" => ("idle", ("rate", "/s", Side::Right)),
        _ => ("series", ("run", "ms", Side::Right)),
    };
    let mut table = Table::new(&[
        (point, "", Side::Left),
        ("policy", "", Side::Left),
        ("waits", "", Side::Right),
        ("median", "µs", Side::Right),
        ("p90", "µs", Side::Right),
        ("p99", "µs", Side::Right),
        ("max", "µs", Side::Right),
        ("awake", "%", Side::Right),
        ("power", "W", Side::Right),
        last,
    ]);
    for row in &bench.rows {
        table.row(row_of(bench, row));
    }
    table
}

fn row_of(bench: &Bench, row: &Row) -> [String; 10] {
    // A point is named once.
    let is_first = row.policy == Policy::AsIs;
    let point = match is_first {
        true => bench.points[row.point].name.clone(),
        false => String::new(),
    };
    let us = |figure: &Option<Estimate>| estimate(figure, 1e-3);
    let last = match bench.workload.kind.as_str() {
        "storage" => estimate(&row.per_s, 1.0),
        _ => estimate(&row.run_ns, 1e-6),
    };
    [
        point,
        row.policy.name().into(),
        row.waits.to_string(),
        us(&row.median_ns),
        us(&row.p90_ns),
        us(&row.p99_ns),
        three_digits(row.max_ns * 1e-3),
        estimate(&row.awake_percent, 1.0),
        estimate(&row.power_w, 1.0),
        last,
    ]
}

/// How much of what sleep costs each policy regained.
fn gains(bench: &Bench) -> Table {
    let point = match bench.workload.kind.as_str() {
        "storage" => "idle",
        _ => "series",
    };
    let mut table = Table::new(&[
        (point, "", Side::Left),
        ("policy", "", Side::Left),
        ("median", "µs", Side::Right),
        ("regained", "%", Side::Right),
        ("p99", "µs", Side::Right),
        ("regained", "%", Side::Right),
        ("awake", "% of no sleep", Side::Right),
        ("median", "% of as is", Side::Right),
    ]);
    for gain in &bench.gains {
        table.row(gain_of(bench, gain));
    }
    table
}

fn gain_of(bench: &Bench, gain: &Gain) -> [String; 8] {
    let lost = |regained: &Regained| estimate(&regained.lost_ns, 1e-3);
    let share = |regained: &Regained| with_interval(regained.percent.as_ref());
    let change = bench.row(gain.point, gain.policy).and_then(|row| {
        let change = row.change.as_ref()?;
        change.median_percent.as_ref()
    });
    [
        bench.points[gain.point].name.clone(),
        gain.policy.name().into(),
        lost(&gain.median),
        share(&gain.median),
        lost(&gain.p99),
        share(&gain.p99),
        with_interval(gain.awake_percent.as_ref()),
        change.map_or(UNKNOWN.into(), |change| {
            change.text(|percent| format!("{percent:+.1}"))
        }),
    ]
}

fn estimate(figure: &Option<Estimate>, factor: f64) -> String {
    let figure = figure.as_ref();
    figure.map_or(UNKNOWN.into(), |figure| {
        three_digits(figure.estimate * factor)
    })
}

/// `80 [75, 90]`.
fn with_interval(figure: Option<&Estimate>) -> String {
    figure.map_or(UNKNOWN.into(), |figure| {
        figure.text(|percent| format!("{percent:.0}"))
    })
}

//! The benchmark's figures as tables.

use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{Bench, Row};
use reveille_figures::rounds::Estimate;

use crate::compared::signed;
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::quantity::{count, duration, three_digits};

/// A table that leaves out columns in which nothing is known.
struct Rows<const N: usize> {
    caption: &'static str,
    heads: [(&'static str, Option<Origin>); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Rows<N> {
    fn new(caption: &'static str, heads: &[(&'static str, Option<Origin>); N]) -> Self {
        Self {
            caption,
            heads: *heads,
            rows: Vec::new(),
        }
    }

    fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    fn html(&self) -> String {
        let is_known = |column: &usize| self.rows.iter().any(|row| !row[*column].is_empty());
        let columns: Vec<usize> = (0..N).filter(is_known).collect();
        let heads: Vec<_> = columns.iter().map(|column| self.heads[*column]).collect();
        // A point and a policy come first.
        let mut table = Table::new(self.caption, 2, &heads);
        for row in &self.rows {
            let cells: Vec<String> = columns.iter().map(|column| row[*column].clone()).collect();
            table.row(&cells);
        }
        table.html()
    }
}

/// The head of the points' column.
fn point_head(bench: &Bench) -> &'static str {
    match bench.workload.kind.as_str() {
        "storage" => "idle time",
        _ => "series",
    }
}

/// What each policy gave and took.
pub fn figures(bench: &Bench) -> String {
    let measured = Some(Origin::Measured);
    let mut rows = Rows::new(
        "Latency and what it takes [95 %]",
        &[
            (point_head(bench), None),
            ("policy", None),
            ("waits", measured),
            ("median", measured),
            ("p90", measured),
            ("p99", measured),
            ("max", measured),
            ("per s", measured),
            ("run", measured),
            ("awake, %", measured),
            ("other CPUs awake, %", measured),
            ("assisted, %", measured),
            ("kept awake by its own account, %", measured),
            ("power, W", measured),
        ],
    );
    for row in &bench.rows {
        let ns = |figure: &Option<Estimate>| with_interval(figure, duration);
        let number = |figure: &Option<Estimate>| with_interval(figure, three_digits);
        rows.row([
            bench.points[row.point].name.clone(),
            row.policy.name().into(),
            count(row.waits),
            ns(&row.median_ns),
            ns(&row.p90_ns),
            ns(&row.p99_ns),
            duration(row.max_ns),
            number(&row.per_s),
            ns(&row.run_ns),
            number(&row.awake_percent),
            number(&row.others_awake_percent),
            number(&row.assisted_percent),
            number(&row.kept_awake_percent),
            number(&row.power_w),
        ]);
    }
    rows.html()
}

/// How much of what sleep costs was regained; nothing where no policy is compared with no sleep.
pub fn gains(bench: &Bench) -> String {
    if bench.gains.is_empty() {
        return String::new();
    }
    let estimated = Some(Origin::Estimated);
    let mut rows = Rows::new(
        "What sleep costs (as is less no sleep), and how much of it was regained [95 %]",
        &[
            (point_head(bench), None),
            ("policy", None),
            ("cost at the median", estimated),
            ("regained, %", estimated),
            ("cost at p99", estimated),
            ("regained, %", estimated),
            ("time awake, % of that of no sleep", estimated),
            ("power, % of that of no sleep", estimated),
        ],
    );
    for gain in &bench.gains {
        let ns = |figure: &Option<Estimate>| with_interval(figure, duration);
        let percent = |figure: &Option<Estimate>| with_interval(figure, three_digits);
        rows.row([
            bench.points[gain.point].name.clone(),
            gain.policy.name().into(),
            ns(&gain.median.lost_ns),
            percent(&gain.median.percent),
            ns(&gain.p99.lost_ns),
            percent(&gain.p99.percent),
            percent(&gain.awake_percent),
            percent(&gain.power_percent),
        ]);
    }
    rows.html()
}

/// Every policy against "as is".
pub fn changes(bench: &Bench) -> String {
    let estimated = Some(Origin::Estimated);
    let mut rows = Rows::new(
        "Against as is [95 %]",
        &[
            (point_head(bench), None),
            ("policy", None),
            ("median, %", estimated),
            ("p99, %", estimated),
            ("per s, %", estimated),
            ("run, %", estimated),
            ("awake, points", estimated),
            ("other CPUs awake, points", estimated),
            ("power, W", estimated),
        ],
    );
    let compared = |row: &&Row| row.policy != Policy::AsIs;
    for row in bench.rows.iter().filter(compared) {
        let Some(change) = &row.change else {
            continue;
        };
        let number =
            |figure: &Option<Estimate>| with_interval(figure, |value| signed(value, three_digits));
        rows.row([
            bench.points[row.point].name.clone(),
            row.policy.name().into(),
            number(&change.median_percent),
            number(&change.p99_percent),
            number(&change.per_s_percent),
            number(&change.run_percent),
            number(&change.awake_points),
            number(&change.others_awake_points),
            number(&change.power_w),
        ]);
    }
    rows.html()
}

/// What each policy changed.
pub fn policies(bench: &Bench) -> String {
    let heads = [("policy", None), ("what was changed", None)];
    let mut table = Table::new("Policies", 2, &heads);
    for used in &bench.policies {
        table.row(&[used.policy.name().into(), used.how.clone()]);
    }
    for skipped in &bench.skipped {
        let why = format!("left out: {}", skipped.why);
        table.row(&[skipped.policy.name().into(), why]);
    }
    table.html()
}

/// `43.8 µs [43.1 µs, 45.0 µs]`.
fn with_interval(figure: &Option<Estimate>, text: impl Fn(f64) -> String) -> String {
    known(figure.as_ref(), |figure| figure.text(text))
}

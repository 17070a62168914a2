//! The statistics by state: what each figure is called, and in which tables it stands.

use reveille_figures::tail::{Estimate, Tail};
use reveille_show::quantity::{count, p_value};
use reveille_show::sheet::{Column, Heading, Section, Table, Unit, Value};

use crate::statistics::StateStatistics;
use crate::verdict::{Exceedance, Verdict};

use super::floors::FLOOR;
use super::machine;

/// A state of a result.
#[derive(Debug, Clone)]
pub struct Row {
    /// The result's letter where there are several.
    pub result: String,
    pub of: StateStatistics,
}

impl Row {
    fn exceedance(&self, figure: fn(&Exceedance) -> f64) -> Value {
        self.of.exceedance.as_ref().map(figure).into()
    }

    fn tail<T: Into<Value>>(&self, figure: fn(&Estimate) -> T) -> Value {
        match &self.of.tail {
            Tail::Estimated(tail) => figure(tail).into(),
            Tail::Refused(_) => Value::Unknown,
        }
    }
}

/// What a row is of; each table begins with them.
const KEYS: [Column<Row>; 3] = [
    Column::words("result", "result", "The result's letter", |row| {
        row.result.as_str().into()
    }),
    Column::words("state", "state", "The requested idle state", |row| {
        row.of.state.as_str().into()
    }),
    Column::words(
        "source",
        "source",
        "What woke the CPU; sources are not mixed",
        |row| row.of.source.as_str().into(),
    ),
];

const LATENCY: &[Column<Row>] = &[
    Column::driver(
        "driver_exit_latency_us",
        "exit latency",
        Unit::Us,
        "The driver's exit latency",
        |row| row.of.driver_exit_latency_us.into(),
    ),
    Column::measured(
        "wake_latency.count",
        "count",
        Unit::Count,
        "Datapoints",
        |row| row.of.wake_latency.count.into(),
    ),
    Column::detail(Column::measured(
        "wake_latency.min_ns",
        "min",
        Unit::Ns,
        "The shortest wake latency",
        |row| row.of.wake_latency.min_ns.into(),
    )),
    Column::measured(
        "wake_latency.median_ns",
        "median",
        Unit::Ns,
        "Median wake latency",
        |row| row.of.wake_latency.median_ns.into(),
    ),
    Column::measured(
        "median_above_floor_ns",
        "above floor",
        Unit::Ns,
        "The median less the floor's median of the same source",
        |row| row.of.median_above_floor_ns.into(),
    ),
    Column::detail(Column::measured(
        "wake_latency.p90_ns",
        "p90",
        Unit::Ns,
        "90th percentile; unknown with fewer than ten datapoints beyond, as the other quantiles",
        |row| row.of.wake_latency.p90_ns.into(),
    )),
    Column::measured(
        "wake_latency.p99_ns",
        "p99",
        Unit::Ns,
        "99th percentile",
        |row| row.of.wake_latency.p99_ns.into(),
    ),
    Column::measured(
        "wake_latency.p99_9_ns",
        "p99.9",
        Unit::Ns,
        "99.9th percentile",
        |row| row.of.wake_latency.p99_9_ns.into(),
    ),
    Column::detail(Column::measured(
        "wake_latency.p99_99_ns",
        "p99.99",
        Unit::Ns,
        "99.99th percentile",
        |row| row.of.wake_latency.p99_99_ns.into(),
    )),
    Column::measured(
        "wake_latency.max_ns",
        "max",
        Unit::Ns,
        "The longest wake latency",
        |row| row.of.wake_latency.max_ns.into(),
    ),
    Column::detail(Column::measured(
        "wake_latency.mean_ns",
        "mean",
        Unit::Ns,
        "Mean wake latency",
        |row| row.of.wake_latency.mean_ns.into(),
    )),
    Column::detail(Column::measured(
        "wake_latency.standard_deviation_ns",
        "sd",
        Unit::Ns,
        "Standard deviation of the wake latency",
        |row| row.of.wake_latency.standard_deviation_ns.into(),
    )),
    Column::measured(
        "exceedance.share",
        "beyond",
        Unit::Share,
        "Share of wakes that took longer than the driver's exit latency",
        |row| row.exceedance(|one| one.share),
    ),
    Column::detail(Column::measured(
        "exceedance.low",
        "95% from",
        Unit::Share,
        "Lower end of its 95 % interval",
        |row| row.exceedance(|one| one.low),
    )),
    Column::detail(Column::measured(
        "exceedance.high",
        "to",
        Unit::Share,
        "Upper end of its 95 % interval",
        |row| row.exceedance(|one| one.high),
    )),
];

/// First on a page; last on a terminal, which may be too narrow for it.
const VERDICT: &[Column<Row>] = &[Column::words(
    "verdict",
    "verdict",
    "Does the driver's exit latency hold?",
    |row| match &row.of.verdict {
        Verdict::TooFewDatapoints { .. } => "too few datapoints".into(),
        verdict => verdict.to_string().into(),
    },
)];

const TAIL: &[Column<Row>] = &[
    Column::words(
        "tail.estimated.exceeded_by_one_in",
        "exceeded by",
        "How rarely a wake takes longer",
        |row| row.tail(|tail| format!("1 wake in {}", count(tail.exceeded_by_one_in))),
    ),
    Column::estimated(
        "tail.estimated.quantile_ns",
        "latency",
        Unit::Ns,
        "The latency that few wakes exceed, by a fit to the tail",
        |row| row.tail(|tail| tail.quantile_ns),
    ),
    Column::estimated(
        "tail.estimated.quantile_low_ns",
        "95% from",
        Unit::Ns,
        "Lower end of its 95 % interval",
        |row| row.tail(|tail| tail.quantile_low_ns),
    ),
    Column::estimated(
        "tail.estimated.quantile_high_ns",
        "to",
        Unit::Ns,
        "Upper end of its 95 % interval",
        |row| row.tail(|tail| tail.quantile_high_ns),
    ),
    Column::detail(Column::estimated(
        "tail.estimated.shape",
        "shape ξ",
        Unit::Of(""),
        "Shape of the generalised Pareto distribution",
        |row| row.tail(|tail| tail.shape),
    )),
    Column::detail(Column::estimated(
        "tail.estimated.fit_p_value",
        "fit's p-value",
        Unit::Of(""),
        "Goodness of the fit, by the Anderson-Darling test; small is bad",
        |row| row.tail(|tail| p_value(tail.fit_p_value)),
    )),
    Column::detail(Column::measured(
        "tail.estimated.threshold_ns",
        "threshold",
        Unit::Ns,
        "The latency from which on the tail is fitted",
        |row| row.tail(|tail| tail.threshold_ns),
    )),
    Column::detail(Column::measured(
        "tail.estimated.exceedances",
        "fitted",
        Unit::Count,
        "Datapoints above the threshold",
        |row| row.tail(|tail| tail.exceedances),
    )),
];

/// The columns of every table, by the list in `result.json` that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    let statistics = [&KEYS[1..], LATENCY, VERDICT, TAIL]
        .map(Column::headings)
        .concat();
    vec![
        ("statistics[]", statistics),
        ("states[]", Column::headings(machine::STATES)),
        ("characterisation.floors[]", Column::headings(FLOOR)),
    ]
}

/// These columns of the rows, behind what a row is of.
fn table<'c>(
    caption: &str,
    columns: impl IntoIterator<Item = &'c Column<Row>>,
    rows: &[Row],
) -> Table {
    let mut table = Table::of(caption, &KEYS, rows).whole();
    for column in columns {
        let heading = column.heading.clone();
        table = table.column(heading, rows.iter().map(|row| (column.value)(row)));
    }
    match rows.iter().all(|row| row.result.is_empty()) {
        true => table.without(&["result"]),
        false => table,
    }
}

/// Every figure of the wake latency.
pub fn latency(rows: &[Row]) -> Table {
    let columns = LATENCY.iter().chain(VERDICT);
    table("Wake latency by idle state", columns, rows)
}

/// Does each state keep to the driver's figure? The first question.
pub fn verdicts(rows: &[Row]) -> Table {
    let columns = VERDICT.iter().chain(LATENCY);
    table("Wake latency by idle state", columns, rows).without(&[
        "wake_latency.min_ns",
        "wake_latency.p90_ns",
        "wake_latency.p99_9_ns",
        "wake_latency.p99_99_ns",
        "wake_latency.mean_ns",
        "wake_latency.standard_deviation_ns",
    ])
}

/// The figures that are not about the driver's.
pub fn distribution(rows: &[Row]) -> Table {
    table("Statistics of the wake latency", LATENCY, rows).without(&[
        "driver_exit_latency_us",
        "median_above_floor_ns",
        "exceedance.share",
        "exceedance.low",
        "exceedance.high",
    ])
}

/// What may lie beyond the data, and of which states nothing can be estimated.
pub fn tails<'a>(section: Section<'a>, rows: &[Row]) -> Section<'a> {
    let is_estimated = |row: &&Row| matches!(row.of.tail, Tail::Estimated(_));
    let estimated: Vec<Row> = rows.iter().filter(is_estimated).cloned().collect();
    let caption = "Beyond the data: an estimate, not a measurement";
    let section = section.table(table(caption, TAIL, &estimated));
    rows.iter()
        .fold(section, |section, row| match &row.of.tail {
            Tail::Estimated(_) => section,
            Tail::Refused(why) => {
                let StateStatistics { state, source, .. } = &row.of;
                let result = match row.result.as_str() {
                    "" => String::new(),
                    letter => format!("{letter}: "),
                };
                section.text(format!(
                    "{result}{state} ({source}): no estimate beyond the data: {why}."
                ))
            }
        })
}

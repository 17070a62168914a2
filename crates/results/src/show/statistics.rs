//! The statistics by state: what each figure is called, and in which tables it stands.

use reveille_figures::tail::{Estimate, Tail};
use reveille_show::quantity::{count, listed, p_value};
use reveille_show::sheet::{Column, EXIT, EXIT_LATENCY, Heading, Judgement, Section, Table, Value};

use crate::statistics::StateStatistics;
use crate::verdict::{Exceedance, Verdict};
use reveille_show::columns;

use super::machine::{FLOOR, STATES};
use super::sources;
use super::verdicts::figure_ns;

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

    fn exceeded(&self) -> Option<u64> {
        self.of.exceedance.as_ref().map(|one| one.exceeded)
    }

    fn verdict(&self) -> Value {
        Value::from(self.of.verdict.short()).judged(match self.of.verdict {
            Verdict::ExceededByOneIn(_) => Some(Judgement::Bad),
            Verdict::ExceededByMaxOnly => Some(Judgement::Notable),
            Verdict::Within => Some(Judgement::Good),
            Verdict::TooFewDatapoints { .. } | Verdict::NoFigure => None,
        })
    }

    /// A latency against the driver's figure, if it has one.
    fn against_figure(&self, ns: impl Into<Value>) -> Value {
        ns.into().within(figure_ns(&self.of))
    }

    fn tail<T: Into<Value>>(&self, figure: fn(&Estimate) -> T) -> Value {
        match &self.of.tail {
            Tail::Estimated(tail) => figure(tail).into(),
            Tail::Refused(_) => Value::Unknown,
        }
    }
}

/// What a row is of; each table begins with them.
const KEYS: [Column<Row>; 3] = columns!(|row|
    words "result", "result", row.result.as_str(), "The result's letter";
    words "state", "state", row.of.state.as_str(), "The requested idle state";
    words "source", "source", row.of.source.as_str(), "What woke the CPU; sources are not mixed";
);

const LATENCY: &[Column<Row>] = &columns!(|row|
    driver(Us) "driver_exit_latency_us", EXIT, row.of.driver_exit_latency_us,
        EXIT_LATENCY;
    measured(Count) "wake_latency.count", "count", row.of.wake_latency.count, "Datapoints";
    measured(Ns) detail "wake_latency.min_ns", "min", row.of.wake_latency.min_ns,
        "Minimum wake latency";
    measured(Ns) "wake_latency.median_ns", "median",
        row.against_figure(row.of.wake_latency.median_ns),
        "Median wake latency";
    measured(Ns) detail "median_above_floor_ns", "above floor", row.of.median_above_floor_ns,
        "The median less the floor's median of the same source";
    measured(Ns) detail "launch_error_ns", "launch error", row.of.launch_error_ns,
        "The launch times are known to this, either way: the median of the source's datapoints";
    measured(Ns) detail "wake_latency.p90_ns", "p90",
        row.against_figure(row.of.wake_latency.p90_ns),
        "90th percentile; unknown with fewer than ten datapoints beyond, as the other quantiles";
    measured(Ns) "wake_latency.p99_ns", "p99",
        row.against_figure(row.of.wake_latency.p99_ns), "99th percentile";
    measured(Ns) detail "wake_latency.p99_9_ns", "p99.9",
        row.against_figure(row.of.wake_latency.p99_9_ns),
        "99.9th percentile";
    measured(Ns) detail "wake_latency.p99_99_ns", "p99.99",
        row.against_figure(row.of.wake_latency.p99_99_ns),
        "99.99th percentile";
    measured(Ns) "wake_latency.max_ns", "max",
        row.against_figure(row.of.wake_latency.max_ns),
        "Maximum wake latency";
    measured(Ns) detail "wake_latency.mean_ns", "mean", row.of.wake_latency.mean_ns,
        "Mean wake latency";
    measured(Ns) detail "wake_latency.standard_deviation_ns", "sd",
        row.of.wake_latency.standard_deviation_ns,
        "Standard deviation of the wake latency";
    measured(Share) detail "exceedance.share", "beyond", row.exceedance(|one| one.share),
        "Share of wakes that took longer than the driver's exit latency";
    measured(Count) detail "exceedance.exceeded", "wakes beyond", row.exceeded(),
        "Wakes that took longer than the driver's exit latency";
    estimated(Share) detail "exceedance.low", "95% from", row.exceedance(|one| one.low),
        "Lower end of its 95% interval";
    estimated(Share) detail "exceedance.high", "to", row.exceedance(|one| one.high),
        "Upper end of its 95% interval";
);

/// First on a page; last on a terminal, which may be too narrow for it.
const VERDICT: &[Column<Row>] = &columns!(|row|
    words "verdict", "verdict", row.verdict(), "Does the driver's exit latency hold?";
);

const TAIL: &[Column<Row>] = &columns!(|row|
    words "tail.estimated.exceeded_by_one_in", "exceeded by",
        row.tail(|tail| format!("1 wake in {}", count(tail.exceeded_by_one_in))),
        "How rarely a wake takes longer";
    estimated(Ns) "tail.estimated.quantile_ns", "latency", row.tail(|tail| tail.quantile_ns),
        "The latency that few wakes exceed, by a fit to the tail";
    estimated(Ns) "tail.estimated.quantile_low_ns", "95% from",
        row.tail(|tail| tail.quantile_low_ns),
        "Lower end of its 95% interval";
    estimated(Ns) "tail.estimated.quantile_high_ns", "to", row.tail(|tail| tail.quantile_high_ns),
        "Upper end of its 95% interval";
    estimated(Of("")) detail "tail.estimated.shape", "shape ξ", row.tail(|tail| tail.shape),
        "Shape of the generalised Pareto distribution";
    estimated(Of("")) detail "tail.estimated.fit_p_value", "fit's p-value",
        row.tail(|tail| p_value(tail.fit_p_value)),
        "Goodness of the fit, by the Anderson-Darling test; small is bad";
    measured(Ns) detail "tail.estimated.threshold_ns", "threshold",
        row.tail(|tail| tail.threshold_ns),
        "The latency from which on the tail is fitted";
    measured(Count) detail "tail.estimated.exceedances", "fitted",
        row.tail(|tail| tail.exceedances),
        "Datapoints above the threshold";
);

/// The columns of every table, by the list in `result.json` that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    let statistics = [&KEYS[1..], LATENCY, VERDICT, TAIL]
        .map(Column::headings)
        .concat();
    vec![
        ("statistics[]", statistics),
        ("source_differences[]", Column::headings(sources::COLUMNS)),
        ("states[]", Column::headings(STATES)),
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
    hide_one_source(&mut table);
    match rows.iter().all(|row| row.result.is_empty()) {
        true => table.without(&["result"]),
        false => table,
    }
}

/// Hides the source column on a terminal if there is one source.
pub fn hide_one_source(table: &mut Table) {
    let Some(place) = table.headings.iter().position(|one| one.key == "source") else {
        return;
    };
    let mut values = table.rows.iter().map(|row| &row[place]);
    let first = values.next();
    table.headings[place].detail = values.all(|value| Some(value) == first);
}

/// Every figure of the wake latency.
pub fn latency(rows: &[Row]) -> Table {
    let columns = LATENCY.iter().chain(VERDICT);
    table("Wake latency by idle state", columns, rows)
}

/// Is each state within the driver's figure? The first question.
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
        "launch_error_ns",
        "exceedance.share",
        "exceedance.exceeded",
        "exceedance.low",
        "exceedance.high",
    ])
}

/// What may lie beyond the data, and of which states nothing can be estimated.
pub fn tails(rows: &[Row]) -> Section<'static> {
    let section = Section::new("tail", "Beyond the data").detail();
    let is_estimated = |row: &&Row| matches!(row.of.tail, Tail::Estimated(_));
    let estimated: Vec<Row> = rows.iter().filter(is_estimated).cloned().collect();
    let caption = "Beyond the data: an estimate, not a measurement";
    let section = section.table(table(caption, TAIL, &estimated));
    // A reason that several results share appears once.
    let mut refused: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let (Row { result, of }, Tail::Refused(why)) = (row, &row.of.tail) else {
            continue;
        };
        let words = format!(
            "{} ({}): no estimate beyond the data: {why}.",
            of.state, of.source
        );
        let results = (!result.is_empty()).then_some(result.as_str());
        match refused.iter_mut().find(|(known, _)| *known == words) {
            Some((_, all)) => all.extend(results),
            None => refused.push((words, results.into_iter().collect())),
        }
    }
    let refused = refused.into_iter();
    refused.fold(section, |section, (words, results)| match &results[..] {
        [] => section.text(words),
        results => section.text(format!("{}: {words}", listed(results))),
    })
}

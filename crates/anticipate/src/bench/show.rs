//! The names, units and words of a benchmark's figures.

mod charts;
mod panels;
mod words;

use reveille_figures::rounds::Estimate;
use reveille_show::quantity::duration;
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Unit, Value};
use reveille_trial::show::compared;

use super::policy::Policy;
use super::result::{Bench, Change, Gain, PolicyUsed, Row};

const FOOT: &str = "Policies took turns in shuffled order, round by round. A figure is the median over \
                    rounds of each round's figure, with the sign test's interval of at least 95 %; \
                    shares and differences are by round, too. Time awake is that of the CPU on which \
                    the workload waits, its own work and that of others included: what neither \
                    cpuidle nor the scheduler counts as sleep.";

/// A row with the name of its point.
struct At<T> {
    point: String,
    policy: Policy,
    one: T,
}

const fn point<T>() -> Column<At<T>> {
    let about = "The idle time after each I/O, or the series; in the JSON its place in `points`";
    Column::words("point", "idle", about, |at| at.point.as_str().into())
}

const fn policy<T>() -> Column<At<T>> {
    Column::words("policy", "policy", "The policy", |at| {
        at.policy.name().into()
    })
}

const FIGURES: &[Column<At<Row>>] = &[
    point(),
    policy(),
    Column::measured(
        "waits",
        "waits",
        Unit::Count,
        "I/Os or calls of all rounds",
        |at| at.one.waits.into(),
    ),
    Column::measured(
        "median_ns",
        "median",
        Unit::Ns,
        "Median latency: from issue, or a call's completion, until the waiting thread runs",
        |at| estimate(&at.one.median_ns),
    ),
    Column::measured(
        "p90_ns",
        "p90",
        Unit::Ns,
        "90th percentile of the latency; unknown if fewer than ten waits of all rounds lie beyond",
        |at| estimate(&at.one.p90_ns),
    ),
    Column::measured(
        "p99_ns",
        "p99",
        Unit::Ns,
        "99th percentile of the latency; unknown if fewer than ten waits of all rounds lie beyond",
        |at| estimate(&at.one.p99_ns),
    ),
    Column::measured(
        "max_ns",
        "max",
        Unit::Ns,
        "Maximum latency of all rounds",
        |at| at.one.max_ns.into(),
    ),
    Column::measured("per_s", "rate", Unit::Of("/s"), "Waits per second", |at| {
        estimate(&at.one.per_s)
    }),
    Column::measured(
        "run_ns",
        "run",
        Unit::Ns,
        "Time to the end of the series",
        |at| estimate(&at.one.run_ns),
    ),
    Column::measured(
        "awake_percent",
        "awake",
        Unit::Of("%"),
        "Time awake of the CPU on which the workload waits, its own work included",
        |at| estimate(&at.one.awake_percent),
    ),
    Column::detail(Column::measured(
        "others_awake_percent",
        "others awake",
        Unit::Of("%"),
        "Mean time awake of the other CPUs, whatever keeps them awake",
        |at| estimate(&at.one.others_awake_percent),
    )),
    Column::detail(Column::measured(
        "assisted_percent",
        "assisted",
        Unit::Of("%"),
        "Waits for which a CPU was to be awake, by the engine's own account",
        |at| estimate(&at.one.assisted_percent),
    )),
    Column::detail(Column::measured(
        "kept_awake_percent",
        "kept awake",
        Unit::Of("%"),
        "Time that the engine kept CPUs awake, by its own account: of one CPU's time",
        |at| estimate(&at.one.kept_awake_percent),
    )),
    Column::measured(
        "power_w",
        "power",
        Unit::Of("W"),
        "Power of the processor packages",
        |at| estimate(&at.one.power_w),
    ),
];

const GAINS: &[Column<At<Gain>>] = &[
    point(),
    policy(),
    Column::estimated(
        "median.lost_ns",
        "cost p50",
        Unit::Ns,
        "Cost of sleep: the median latency as is less that without sleep",
        |at| estimate(&at.one.median.lost_ns),
    ),
    Column::estimated(
        "median.percent",
        "regained",
        Unit::Of("%"),
        "Share of that cost that the policy regains; unknown if sleep is not shown to cost anything",
        |at| difference(&at.one.median.percent),
    ),
    Column::estimated(
        "p99.lost_ns",
        "cost p99",
        Unit::Ns,
        "Cost of sleep at the 99th percentile",
        |at| estimate(&at.one.p99.lost_ns),
    ),
    Column::estimated(
        "p99.percent",
        "regained p99",
        Unit::Of("%"),
        "Share of that cost that the policy regains",
        |at| difference(&at.one.p99.percent),
    ),
    Column::estimated(
        "awake_percent",
        "awake",
        Unit::Of("%"),
        "Time awake beyond as is, as a share of that of no sleep",
        |at| difference(&at.one.awake_percent),
    ),
    Column::detail(Column::estimated(
        "power_percent",
        "power",
        Unit::Of("%"),
        "Power beyond as is, as a share of that of no sleep",
        |at| difference(&at.one.power_percent),
    )),
];

const CHANGES: &[Column<At<Row>>] = &[
    point(),
    policy(),
    Column::estimated(
        "change.median_percent",
        "median",
        Unit::Of("%"),
        "Difference of the median latency from as is",
        |at| change(at, |one| &one.median_percent),
    ),
    Column::estimated(
        "change.p99_percent",
        "p99",
        Unit::Of("%"),
        "Difference of the 99th percentile from as is",
        |at| change(at, |one| &one.p99_percent),
    ),
    Column::estimated(
        "change.per_s_percent",
        "rate",
        Unit::Of("%"),
        "Difference of the waits per second from as is",
        |at| change(at, |one| &one.per_s_percent),
    ),
    Column::estimated(
        "change.run_percent",
        "run",
        Unit::Of("%"),
        "Difference of the time to the end of the series from as is",
        |at| change(at, |one| &one.run_percent),
    ),
    Column::estimated(
        "change.awake_points",
        "awake",
        Unit::Of("points"),
        "Difference of the time awake from as is, percentage points",
        |at| change(at, |one| &one.awake_points),
    ),
    Column::estimated(
        "change.others_awake_points",
        "others awake",
        Unit::Of("points"),
        "Difference of the other CPUs' time awake from as is, percentage points",
        |at| change(at, |one| &one.others_awake_points),
    ),
    Column::estimated(
        "change.power_w",
        "power",
        Unit::Of("W"),
        "Difference of the power from as is",
        |at| change(at, |one| &one.power_w),
    ),
];

const POLICIES: &[Column<PolicyUsed>] = &[
    Column::words("policy", "policy", "The policy", |used| {
        used.policy.name().into()
    }),
    Column::words(
        "how",
        "what it changes",
        "What it changes, or what the workload does",
        |used| used.how.as_str().into(),
    ),
];

fn estimate(figure: &Option<Estimate>) -> Value {
    figure.as_ref().into()
}

fn difference(figure: &Option<Estimate>) -> Value {
    Value::difference(figure.as_ref())
}

fn change(at: &At<Row>, of: fn(&Change) -> &Option<Estimate>) -> Value {
    at.one
        .change
        .as_ref()
        .map_or(Value::Unknown, |change| difference(of(change)))
}

/// The columns of every table, by the list of its rows in `bench.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    // The point and the policy are in both tables.
    let rows = [Column::headings(FIGURES), Column::headings(&CHANGES[2..])];
    vec![
        ("rows[]", rows.concat()),
        ("gains[]", Column::headings(GAINS)),
        ("policies[]", Column::headings(POLICIES)),
    ]
}

/// A benchmark as a sheet.
pub fn sheet(bench: &Bench) -> Sheet<'_> {
    let workload = &bench.workload;
    let device = workload.device.iter().map(|name| format!(", on {name}"));
    let what = workload.what.clone() + &device.collect::<String>();
    let mut sheet = compared::sheet("Anticipatory wake-up", &what, &bench.about);
    facts(bench, what, &mut sheet);
    sheet.answer = words::answer(bench);
    sheet.notes = words::notes(bench);
    sheet.notes.extend(bench.notes.iter().cloned());
    sheet.foot = FOOT;
    if !bench.rows.is_empty() {
        let section = Section::new("charts", "Latency and cost of each policy");
        sheet.section(section.chart(|| charts::html(bench)));
    }
    let figures = table(bench, "Latency and cost", FIGURES, rows(bench, |_| true));
    sheet.section(Section::new("figures", "Figures").table(figures.known()));
    let gains = bench
        .gains
        .iter()
        .map(|gain| at(bench, gain.point, gain.policy, gain));
    let gains = table(bench, "Cost of sleep, and what is regained", GAINS, gains);
    let heading = "Cost of sleep (as is less no sleep), and the share that is regained [95 %]";
    sheet.section(Section::new("gains", heading).titled().table(gains));
    let compared = rows(bench, |row| row.change.is_some());
    let changes = table(bench, "Differences from as is", CHANGES, compared);
    // Without "no sleep" these are all that there is.
    let changes = match bench.gains.is_empty() {
        true => changes,
        false => changes.first(0),
    };
    let changes = changes.known();
    let heading = "Differences from as is [95 %]";
    sheet.section(Section::new("changes", heading).titled().table(changes));
    let policies = Table::of("Policies", POLICIES, &bench.policies).first(0);
    sheet.section(Section::new("policies", "Policies").table(policies));
    sheet
}

fn at<T: Clone>(bench: &Bench, point: usize, policy: Policy, one: &T) -> At<T> {
    At {
        point: bench.points[point].name.clone(),
        policy,
        one: one.clone(),
    }
}

fn rows(bench: &Bench, is_shown: fn(&Row) -> bool) -> impl Iterator<Item = At<Row>> {
    let rows = bench.rows.iter().filter(move |row| is_shown(row));
    rows.map(|row| at(bench, row.point, row.policy, row))
}

/// All rows, with the points' own heading.
fn table<T>(
    bench: &Bench,
    caption: &str,
    columns: &[Column<At<T>>],
    rows: impl Iterator<Item = At<T>>,
) -> Table {
    let rows: Vec<At<T>> = rows.collect();
    let mut table = Table::of(caption, columns, &rows).whole();
    if let (Some(heading), false) = (table.headings.first_mut(), bench.is_storage()) {
        heading.name = "series".into();
    }
    table
}

fn facts(bench: &Bench, what: String, sheet: &mut Sheet<'_>) {
    let plan = &bench.plan;
    sheet.fact("Workload", format!("{what}; waits on CPU {}", plan.cpu));
    sheet.fact(
        "Rounds",
        format!(
            "{} of {} in shuffled order, seed {}; a turn ends after {} waits or {}, and {} before them do \
             not count",
            bench.complete_rounds(),
            plan.rounds,
            plan.seed,
            plan.waits,
            duration(plan.turn_s * 1e9),
            plan.warm_up
        ),
    );
    if let Some(own) = own_cost(bench) {
        sheet.fact("Own cost", own);
    }
}

/// The cost of the engine's own programs.
fn own_cost(bench: &Bench) -> Option<String> {
    let mut costs = bench.rows.iter();
    let (point, ns, at_requests_ns) =
        costs.find_map(|row| Some((row.point, row.own_cost_ns?, row.own_cost_at_requests_ns?)))?;
    let apart = match bench.points[point].idle_ns {
        Some(0) => ", without idle time between".to_owned(),
        Some(_) => format!(", {} apart", bench.points[point].name),
        None => String::new(),
    };
    Some(format!(
        "{} for a {}{apart}, {} of it at issue and completion; without the time that CPUs are kept awake",
        duration(ns),
        bench.workload.waits_for,
        duration(at_requests_ns)
    ))
}

//! The names, units and words of a benchmark's figures.

mod charts;
mod panels;
mod words;

use reveille_figures::rounds::{Against, Estimate};
use reveille_show::columns;
use reveille_show::quantity::duration;
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};
use reveille_trial::show::compared;

use super::comparison::{Change, Gain, PolicyUsed, Row};
use super::result::Bench;

const FOOT: &str = "Policies took turns in shuffled order, round by round. A figure is the median over \
                    rounds of each round's figure, with the sign test's interval of at least 95%; \
                    shares and differences are by round, too. Time awake is that of the CPU on which \
                    the workload waits, its own work and that of others included: what neither \
                    cpuidle nor the scheduler counts as sleep.";

/// A row with the name of its point.
struct At<T> {
    point: String,
    one: T,
}

const FIGURES: &[Column<At<Row>>] = &columns!(|at|
    words "point", "idle", at.point.as_str(),
        "The idle time after each I/O, or the series; in the JSON its place in `points`";
    words "policy", "policy", at.one.policy.name(), "The policy";
    measured(Count) "waits", "waits", at.one.waits, "I/Os or calls of all rounds";
    measured(Ns) "median_ns", "median", estimate(&at.one.median_ns),
        "Median latency: from issue, or a call's completion, until the waiting thread runs";
    measured(Ns) "p90_ns", "p90", estimate(&at.one.p90_ns),
        "90th percentile of the latency; unknown if fewer than ten waits of all rounds lie beyond";
    measured(Ns) "p99_ns", "p99", estimate(&at.one.p99_ns),
        "99th percentile of the latency; unknown if fewer than ten waits of all rounds lie beyond";
    measured(Ns) "max_ns", "max", at.one.max_ns, "Maximum latency of all rounds";
    measured(Of("/s")) "per_s", "rate", estimate(&at.one.per_s), "Waits per second";
    measured(Ns) "run_ns", "run", estimate(&at.one.run_ns), "Time to the end of the series";
    measured(Percent) "awake_percent", "awake", estimate(&at.one.awake_percent),
        "Time awake of the CPU on which the workload waits, its own work included";
    measured(Percent) detail "others_awake_percent", "others awake",
        estimate(&at.one.others_awake_percent),
        "Mean time awake of the other CPUs, whatever keeps them awake";
    measured(Percent) detail "assisted_percent", "assisted", estimate(&at.one.assisted_percent),
        "Waits for which the engine scheduled a CPU to be awake, by the engine's own account";
    measured(Percent) detail "kept_awake_percent", "kept awake", estimate(&at.one.kept_awake_percent),
        "Time that the engine kept CPUs awake, by its own account: of one CPU's time";
    measured(Of("W")) "power_w", "power", estimate(&at.one.power_w),
        "Power by the meter, else of the processor packages";
    measured(Of("W")) detail "packages_w", "packages", estimate(&at.one.packages_w),
        "Power of the processor packages, beside that of the meter";
);

const GAINS: &[Column<At<Gain>>] = &columns!(|at|
    words "point", "idle", at.point.as_str(),
        "The idle time after each I/O, or the series; in the JSON its place in `points`";
    words "policy", "policy", at.one.policy.name(), "The policy";
    estimated(Ns) "median.lost_ns", "cost p50", estimate(&at.one.median.lost_ns),
        "Cost of sleep: the median latency as is less that without sleep";
    estimated(Percent) "median.percent", "regained", better(&at.one.median.percent, Against::More),
        "Share of that cost that the policy regains; unknown if sleep is not shown to cost anything";
    estimated(Ns) "p99.lost_ns", "cost p99", estimate(&at.one.p99.lost_ns),
        "Cost of sleep at the 99th percentile";
    estimated(Percent) "p99.percent", "regained p99", better(&at.one.p99.percent, Against::More),
        "Share of that cost that the policy regains";
    estimated(Percent) "awake_percent", "awake", difference(&at.one.awake_percent),
        "Time awake beyond as is, as a share of that of no sleep";
    estimated(Percent) detail "power_percent", "power", difference(&at.one.power_percent),
        "Power beyond as is, as a share of that of no sleep";
);

const CHANGES: &[Column<At<Row>>] = &columns!(|at|
    words "point", "idle", at.point.as_str(),
        "The idle time after each I/O, or the series; in the JSON its place in `points`";
    words "policy", "policy", at.one.policy.name(), "The policy";
    estimated(Percent) "change.median_percent", "median", change(at, |one| better(&one.median_percent, Against::Less)),
        "Difference of the median latency from as is";
    estimated(Percent) "change.p99_percent", "p99", change(at, |one| better(&one.p99_percent, Against::Less)),
        "Difference of the 99th percentile from as is";
    estimated(Percent) "change.per_s_percent", "rate", change(at, |one| better(&one.per_s_percent, Against::More)),
        "Difference of the waits per second from as is";
    estimated(Percent) "change.run_percent", "run", change(at, |one| better(&one.run_percent, Against::Less)),
        "Difference of the time to the end of the series from as is";
    estimated(Of("points")) "change.awake_points", "awake", change(at, |one| difference(&one.awake_points)),
        "Difference of the time awake from as is, percentage points";
    estimated(Of("points")) "change.others_awake_points", "others awake",
        change(at, |one| difference(&one.others_awake_points)),
        "Difference of the other CPUs' time awake from as is, percentage points";
    estimated(Of("W")) "change.power_w", "power", change(at, |one| difference(&one.power_w)),
        "Difference of the power from as is";
);

const POLICIES: &[Column<PolicyUsed>] = &columns!(|used|
    words "policy", "policy", used.policy.name(), "The policy";
    words "how", "what it changes", used.how.as_str(), "What it changes, or what the workload does";
);

fn estimate(figure: &Option<Estimate>) -> Value {
    figure.as_ref().into()
}

fn difference(figure: &Option<Estimate>) -> Value {
    Value::difference(figure.as_ref())
}

fn better(figure: &Option<Estimate>, better: Against) -> Value {
    difference(figure).better_if(better)
}

fn change(at: &At<Row>, of: fn(&Change) -> Value) -> Value {
    at.one.change.as_ref().map_or(Value::Unknown, of)
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
    let gains = bench.gains.iter().map(|gain| at(bench, gain.point, gain));
    let gains = table(bench, "Cost of sleep, and what is regained", GAINS, gains);
    let heading = "Cost of sleep (as is less no sleep), and the share that is regained [95%]";
    // The answer has those that it is about.
    let section = Section::new("gains", heading).titled().detail();
    sheet.section(section.table(gains.known()));
    let compared = rows(bench, |row| row.change.is_some());
    let changes = table(bench, "Differences from as is", CHANGES, compared);
    // Without "no sleep" these are all that there is.
    let changes = match bench.gains.is_empty() {
        true => changes,
        false => changes.first(0),
    };
    let changes = changes.known();
    let heading = "Differences from as is [95%]";
    sheet.section(Section::new("changes", heading).titled().table(changes));
    let policies = Table::of("Policies", POLICIES, &bench.policies).first(0);
    sheet.section(Section::new("policies", "Policies").table(policies));
    sheet
}

fn at<T: Clone>(bench: &Bench, point: usize, one: &T) -> At<T> {
    At {
        point: bench.points[point].name.clone(),
        one: one.clone(),
    }
}

fn rows(bench: &Bench, is_shown: fn(&Row) -> bool) -> impl Iterator<Item = At<Row>> {
    let rows = bench.rows.iter().filter(move |row| is_shown(row));
    rows.map(|row| at(bench, row.point, row))
}

/// All rows, with the points' own heading; in short those of the idle time that the answer is about.
fn table<T>(
    bench: &Bench,
    caption: &str,
    columns: &[Column<At<T>>],
    rows: impl Iterator<Item = At<T>>,
) -> Table {
    let rows: Vec<At<T>> = rows.collect();
    let mut table = Table::of(caption, columns, &rows).whole();
    if let [point] = words::headline_points(bench)[..] {
        let is_told = |at: &&At<T>| at.point == bench.points[point].name;
        let start = rows.iter().take_while(|at| !is_told(at)).count();
        let told = rows.iter().filter(is_told).count();
        table = table.only(start..start + told);
    }
    if let (Some(heading), false) = (table.headings.first_mut(), bench.is_storage()) {
        heading.name = match bench.workload.kind.as_str() {
            "packets" => "apart",
            _ => "series",
        }
        .into();
    }
    table
}

fn facts(bench: &Bench, what: String, sheet: &mut Sheet<'_>) {
    let plan = &bench.plan;
    sheet.fact("Workload", format!("{what}; waits on CPU {}", plan.cpu));
    let warm_up = match plan.warm_up {
        0 => String::new(),
        waits => format!("; {waits} before them do not count"),
    };
    sheet.fact(
        "Rounds",
        format!(
            "{} of {} in shuffled order, seed {}; a turn ends after {} waits or {}{warm_up}",
            bench.complete_rounds(),
            plan.rounds,
            plan.seed,
            plan.waits,
            duration(plan.turn_s * 1e9),
        ),
    );
    if let Some(meter) = &bench.meter {
        sheet.fact("Meter", reveille_meter::show::words(meter));
    }
    if let Some(own) = own_cost(bench) {
        sheet.detail("Own cost", own);
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

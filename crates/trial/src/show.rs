//! Trials for people: the names, units and words of their figures.

pub mod compared;
mod figure;
mod rounds;
mod trade;
mod words;

use reveille_figures::rounds::{Against, Summary};
use reveille_show::chart::{colour, legend};
use reveille_show::columns;
use reveille_show::quantity::{count, duration};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Unit, Value};

use crate::observe::{Ender, Observed};
use crate::residency::Residency;
use crate::result::{Setting, Trial};
use crate::setting::{Named, Planned};
use crate::verdict::Cost;

const FOOT: &str = "Settings take turns in shuffled order, round by round. Differences are paired by \
                    round; their 95% intervals are those of the signed-rank test for medians, and \
                    of exchanging turns within rounds for the 99th percentile. Residency is what the kernel \
                    asked for, in shares of all CPUs' time; a polling CPU is awake. What the machine \
                    did includes the work of others on it.";

/// Columns of figures that only bursts have.
const BURSTS: &[&str] = &[
    "bursts.first.median",
    "bursts.first.p99",
    "bursts.first.max",
    "bursts.late",
];

/// The same of what the machine did; they stand beside the figures.
const PAUSES: &[&str] = &["bursts.asleep_percent", "bursts.asleep_difference_percent"];

/// The unit of the workload's figures: ns, or the user's own.
const FIGURE: Unit = Unit::Of("`workload.unit`");

const FIGURES: &[Column<Setting>] = &columns!(|one|
    words "name", "setting", one.name.as_str(), "The setting";
    measured(Count) detail "rounds", "rounds", one.rounds, "Rounds with a figure";
    measured(Count) detail "figure.count", "count", one.figure.as_ref().map_or(0, |figure| figure.count),
        "Figures of all rounds";
    measured(Count) detail "failed", "failed", one.failed,
        "Requests without a reply, or runs that failed";
    measured(Of("`workload.unit`")) "figure.median", "median", figure_of(one, |one| Some(one.median)),
        "Median";
    measured(Of("`workload.unit`")) "figure.p99", "p99", figure_of(one, |one| one.p99),
        "99th percentile, where less is better; unknown below 1000 figures";
    measured(Of("`workload.unit`")) "figure.p1", "p1", figure_of(one, |one| one.p1),
        "1st percentile, where more is better; unknown below 1001 figures";
    measured(Of("`workload.unit`")) "figure.max", "max", figure_of(one, |one| Some(one.max)),
        "Maximum, where less is better";
    measured(Of("`workload.unit`")) "figure.min", "min", figure_of(one, |one| Some(one.min)),
        "Minimum, where more is better";
    measured(Of("`workload.unit`")) detail "figure.mean", "mean", figure_of(one, |one| Some(one.mean)),
        "Mean";
    measured(Of("`workload.unit`")) detail "figure.standard_deviation", "sd",
        figure_of(one, |one| one.standard_deviation), "Standard deviation";
    measured(Ns) "bursts.first.median", "first", first(one, |one| Some(one.median)),
        "Median of each burst's first request, which the other figures omit";
    measured(Ns) "bursts.first.p99", "first p99", first(one, |one| one.p99),
        "99th percentile of these; unknown below 1000 bursts";
    measured(Ns) detail "bursts.first.max", "first max", first(one, |one| Some(one.max)),
        "Maximum of these";
    measured(Count) detail "bursts.late", "late", one.bursts.as_ref().map(|one| one.late),
        "Requests in bursts that were sent late, at once after a late reply";
    estimated(Of("`workload.unit`")) "median_difference", "against as is [95%]",
        Value::difference(one.median_difference.as_ref()),
        "Difference of the rounds' medians from those of `as is`, with its 95% interval, which needs \
         six rounds";
    estimated(Of("`workload.unit`")) detail "p99_difference", "p99 against as is [95%]",
        Value::difference(one.p99_difference.as_ref()),
        "Difference of the 99th percentile from that of `as is`, with its 95% interval";
);

const MACHINE: &[Column<Setting>] = &columns!(|one|
    words "name", "setting", one.name.as_str(), "The setting";
    measured(Of("W")) "observed.power_w", "power", observed(one, |one| one.power_w),
        "Power by the meter, else of the processor packages or the battery";
    measured(Of("W")) detail "observed.packages_w", "packages", observed(one, |one| one.packages_w),
        "Power of the processor packages, beside that of the meter";
    estimated(Of("W")) detail "power_difference_w", "power against as is [95%]",
        Value::difference(one.power_difference_w.as_ref()),
        "Difference of the power from that of `as is`, with its 95% interval";
    measured(Percent) "observed.awake_percent", "awake", observed(one, |one| one.awake_percent),
        "Share of all CPUs' time without sleep; polling is being awake";
    estimated(Of("points")) detail "awake_difference_percent", "awake against as is [95%]",
        Value::difference(one.awake_difference_percent.as_ref()),
        "Difference of the time awake from that of `as is`, with its 95% interval";
    measured(Percent) "bursts.asleep_percent", "asleep",
        one.bursts.as_ref().and_then(|one| one.asleep_percent),
        "Share of the pauses between bursts in which the replying CPU slept; that of --cpu if the reply comes from \
         elsewhere";
    estimated(Of("points")) detail "bursts.asleep_difference_percent", "asleep against as is [95%]",
        Value::difference(one.bursts.as_ref().and_then(|one| one.asleep_difference_percent.as_ref())),
        "Difference of that share from that of `as is`, with its 95% interval";
    measured(Percent) "observed.joint_percent", "all asleep", observed(one, |one| one.joint_percent),
        "Share of the time in which all CPUs slept at once";
    measured(Ns) "observed.joint_mean_ns", "for", observed(one, |one| one.joint_mean_ns),
        "Mean time for which they did";
    measured(Of("/s")) "observed.wakeups_per_s", "wake-ups", observed(one, |one| one.wakeups_per_s),
        "Uses of idle states other than polling, a second";
    measured(Of("/s")) "observed.interrupts_per_s", "interrupts",
        observed(one, |one| one.interrupts_per_s), "Interrupts of all CPUs, a second";
    measured(Of("/s")) detail "observed.context_switches_per_s", "switches",
        observed(one, |one| one.context_switches_per_s), "Context switches of all CPUs, a second";
    measured(Of("MHz")) "observed.frequency_mhz", "frequency", observed(one, |one| one.frequency_mhz),
        "Mean of the CPUs' frequencies at the rounds' ends";
    measured(Ns) detail "reading_median_ns", "reading", one.reading_median_ns,
        "Median time from the kernel's receive stamp of a reply to its reader";
);

const RESIDENCY: &[Column<Residency>] = &columns!(|one|
    words "state", "state", one.state.as_str(), "An idle state; tables have a column for each";
    measured(Percent) "percent", "residency", one.percent,
        "The state's share of all CPUs' time, by the kernel's request";
);

/// Rows of each setting.
const ENDERS_SHOWN: usize = 5;

/// A setting's name, and one of its wakers.
type Ended = (String, Ender);

const ENDERS: &[Column<Ended>] = &columns!(|one|
    words "setting", "setting", one.0.as_str(), "The setting";
    words "name", "waker", one.1.name.as_str(), "What woke the first CPU: a thread and how, a timer's function, an interrupt";
    measured(Of("/s")) "per_s", "ends", one.1.per_s, "How often that ended the sleep of all CPUs";
);

const SETTINGS: &[Column<Named>] = &columns!(|one|
    words "name", "setting", one.name.as_str(), "The setting";
    words "how", "what it changes", one.how.as_str(), "The change of the machine";
);

fn figure_of(setting: &Setting, of: fn(&Summary) -> Option<f64>) -> Value {
    setting.figure.as_ref().and_then(of).into()
}

fn first(setting: &Setting, of: fn(&Summary) -> Option<f64>) -> Value {
    let first = setting
        .bursts
        .as_ref()
        .and_then(|bursts| bursts.first.as_ref());
    first.and_then(of).into()
}

fn observed(setting: &Setting, of: fn(&Observed) -> Option<f64>) -> Value {
    setting.observed.as_ref().and_then(of).into()
}

/// The columns of every table, by the list of its rows in `trial.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    // The setting's name is in each table.
    let more = [
        &Column::headings(MACHINE)[1..],
        &Column::headings(SETTINGS)[1..],
    ];
    let settings = [Column::headings(FIGURES), more.concat()].concat();
    vec![
        ("settings[]", settings),
        (
            "settings[].observed.residency[]",
            Column::headings(RESIDENCY),
        ),
        (
            "settings[].observed.package_residency[]",
            Column::headings(RESIDENCY),
        ),
        (
            "settings[].observed.joint_enders[]",
            Column::headings(ENDERS)[1..].to_vec(),
        ),
    ]
}

/// A trial for every medium.
pub fn sheet(trial: &Trial) -> Sheet<'_> {
    let mut sheet = compared::sheet("Trial", &trial.workload.what, &trial.about);
    facts(trial, &mut sheet);
    sheet.answer = words::answer(trial);
    sheet.notes = words::notes(trial);
    sheet.notes.extend(trial.notes.iter().cloned());
    sheet.foot = FOOT;
    let heading = match trial.cost {
        Some(Cost::Power) => "Figure against power",
        Some(Cost::TimeAwake) => "Figure against time awake",
        None => "Figure",
    };
    sheet.section(Section::new("charts", heading).chart(|| charts(trial)));
    sheet.section(Section::new("figures", "Figures").table(figures(trial)));
    let machine = Table::of("All CPUs together", MACHINE, &trial.settings).whole();
    let machine = machine.without(cost(trial)).without(PAUSES);
    let section = Section::new("machine", "Machine during the turns").titled();
    sheet.section(section.table(machine).detail());
    let heading = "Residency of idle states, of all CPUs' time";
    let section = Section::new("residency", heading).titled();
    sheet.section(
        section
            .table(residency(trial, |one| &one.residency))
            .detail(),
    );
    let heading = "Residency of the packages' own idle states";
    let section = Section::new("package-residency", heading).titled();
    let packages = residency(trial, |one| &one.package_residency);
    sheet.section(section.table(packages).detail());
    let ended: Vec<Ended> = trial
        .settings
        .iter()
        .flat_map(|setting| {
            let enders = setting.observed.iter().flat_map(|one| &one.joint_enders);
            enders
                .take(ENDERS_SHOWN)
                .map(|ender| (setting.name.clone(), ender.clone()))
        })
        .collect();
    let section = Section::new("enders", "What ended the sleep of all CPUs").titled();
    sheet.section(
        section
            .table(Table::of("", ENDERS, &ended).whole())
            .detail(),
    );
    let settings: Vec<Named> = trial.settings.iter().map(Named::from).collect();
    let settings = Table::of("Settings", SETTINGS, &settings).first(0);
    sheet.section(Section::new("settings", "Settings").table(settings));
    sheet
}

fn facts(trial: &Trial, sheet: &mut Sheet<'_>) {
    let (workload, plan) = (&trial.workload, &trial.plan);
    sheet.fact("Workload", &*workload.what);
    let unit = Some(figure::own_unit(workload)).filter(|unit| !unit.is_empty());
    let higher = workload.higher_is_better.then_some("higher is better");
    let figure = [Some(&*workload.figure), unit, higher];
    sheet.fact(
        "Figure",
        figure.into_iter().flatten().collect::<Vec<_>>().join(", "),
    );
    let settle = match plan.settle_s {
        0.0 => String::new(),
        settle_s => format!("; {} to settle before each turn", duration(settle_s * 1e9)),
    };
    sheet.fact(
        "Rounds",
        format!(
            "{} in shuffled order, seed {}{settle}",
            count(plan.rounds.into()),
            plan.seed
        ),
    );
    if let Some(meter) = &trial.meter {
        sheet.fact("Meter", reveille_meter::show::words(meter));
    }
    if let Some(pace) = &workload.pace {
        let apart = match (pace.interval_ms, &pace.bursts) {
            (Some(ms), _) => format!("{} apart on average", duration(ms * 1e6)),
            (None, Some(bursts)) => format!("{} in a burst", count(bursts.requests.into())),
            (None, None) => "at an unknown pace".to_owned(),
        };
        sheet.detail(
            "Requests",
            format!(
                "{} a turn, {apart}, {} bytes, timeout {}",
                count(pace.requests_per_round.into()),
                pace.size_bytes,
                duration(pace.timeout_ms * 1e6)
            ),
        );
    }
}

fn charts(trial: &Trial) -> String {
    let settings = trial.settings.iter().enumerate();
    let keys = settings.map(|(place, setting)| (colour(place), setting.name.as_str()));
    format!(
        "{}<div class=\"charts\">{}{}{}</div>",
        legend(keys),
        trade::chart(trial),
        rounds::spread(trial),
        rounds::over_time(trial)
    )
}

/// The columns that weigh against the figure: they stand beside it.
fn cost(trial: &Trial) -> &'static [&'static str] {
    match trial.cost {
        Some(Cost::Power) => &["observed.power_w", "power_difference_w"],
        Some(Cost::TimeAwake) => &["observed.awake_percent", "awake_difference_percent"],
        None => &[],
    }
}

/// The workload's figure under each setting, in its own unit, and its cost.
fn figures(trial: &Trial) -> Table {
    let workload = &trial.workload;
    let other_direction: &[_] = match workload.higher_is_better {
        true => &["figure.p99", "figure.max", "p99_difference"],
        false => &["figure.p1", "figure.min"],
    };
    let table = Table::of("Figure of the workload", FIGURES, &trial.settings).whole();
    let has_bursts = trial.settings.iter().any(|one| one.bursts.is_some());
    let (no_bursts, pauses) = match has_bursts {
        true => (&[][..], PAUSES),
        false => (BURSTS, &[][..]),
    };
    let mut table = table.without(other_direction).without(no_bursts);
    if has_bursts {
        make_room(&mut table, trial);
    }
    let better = match workload.higher_is_better {
        true => Against::More,
        false => Against::Less,
    };
    for row in &mut table.rows {
        for value in row {
            *value = std::mem::replace(value, Value::Unknown).better_if(better);
        }
    }
    let own = figure::own_unit(workload);
    for heading in table.headings.iter_mut().filter(|one| one.unit == FIGURE) {
        heading.unit = figure::unit(workload);
        if !own.is_empty() {
            heading.name = format!("{}, {own}", heading.name).into();
        }
    }
    let beside = [cost(trial), pauses].concat();
    let beside = MACHINE
        .iter()
        .filter(|column| beside.contains(&column.heading.key));
    beside.fold(table, |table, column| {
        table.column(
            column.heading.clone(),
            trial.settings.iter().map(column.value),
        )
    })
}

/// A line of 80 columns holds the figures of bursts, too, if the maximum, and a p99 of too few bursts, are shown
/// on request only.
fn make_room(table: &mut Table, trial: &Trial) {
    let firsts = trial.settings.iter().filter_map(|one| one.bursts.as_ref());
    let mut firsts = firsts.filter_map(|bursts| bursts.first.as_ref());
    let has_p99 = firsts.any(|first| first.p99.is_some());
    for heading in &mut table.headings {
        heading.detail |= match heading.key {
            "figure.max" => true,
            "bursts.first.p99" => !has_p99,
            _ => false,
        };
    }
}

/// A column for each idle state; no rows if the kernel counts none.
fn residency(trial: &Trial, observed: fn(&Observed) -> &[Residency]) -> Table {
    let of = |setting: &Setting, state: &str| {
        let residency = observed(setting.observed.as_ref()?);
        let one = residency.iter().find(|one| one.state == state)?;
        Some(one.percent)
    };
    let all = trial
        .settings
        .iter()
        .filter_map(|one| one.observed.as_ref());
    let mut states: Vec<&str> = Vec::new();
    for one in all.flat_map(observed) {
        if !states.contains(&one.state.as_str()) {
            states.push(&one.state);
        }
    }
    let settings = trial.settings.iter().filter(|_| !states.is_empty());
    let table = Table::of("Residency", &FIGURES[..1], settings).whole();
    states.into_iter().fold(table, |table, state| {
        let heading = Heading {
            name: state.to_owned().into(),
            ..RESIDENCY[1].heading.clone()
        };
        let percents = trial.settings.iter().map(|one| of(one, state).into());
        table.column(heading, percents)
    })
}

/// The settings that a trial would compare.
pub fn planned(planned: &Planned) -> Sheet<'_> {
    let mut sheet = Sheet {
        title: "Settings of a trial".to_owned(),
        notes: planned.notes.clone(),
        ..Sheet::default()
    };
    let table = Table::of("Settings", SETTINGS, &planned.settings).whole();
    sheet.section(Section::new("settings", "Settings").table(table));
    sheet
}

//! Closed forms: one load, all loads, a farm's year.

use std::borrow::Cow;

use reveille_show::columns;
use reveille_show::quantity::{digits, three_digits, time};
use reveille_show::sheet::{Column, Heading, Origin, Section, Sheet, Table, Unit, Value};

use super::{charts, simulated, words};
use crate::answers::Swept;
use crate::farm::Year;
use crate::machine::Worth;
use crate::p99::P99;
use crate::parameters::{ALWAYS_ON, Named, Parameters};
use crate::policy::{Outcome, Policy};
use crate::question::{Crossings, Figure};
use crate::run::{Run, at};
use crate::sweep::{Pair, Point, Sweep};

const FOOT: &str = "Closed forms, exact for Poisson arrivals at one server with one queue, in the order \
                    of arrival; for other arrivals they are estimates, and the simulator takes any. \
                    Relative figures are by what a server without power management draws and takes \
                    at the same load.";

/// A policy at a load.
struct Row {
    load: f64,
    policy: String,
    /// Absolute figures, and response time and power relative to always-on; `None`: unstable.
    figures: Option<(Outcome, f64, f64)>,
    p99: Option<P99>,
}

impl Row {
    fn figure(&self, figure: fn(&Outcome) -> f64) -> Value {
        self.figures.map(|(outcome, ..)| figure(&outcome)).into()
    }
}

/// The key of the column p99, which is of another list of the JSON.
const OF_OTHERS: &str = "simulated";

const ROWS: &[Column<Row>] = &columns!(|row|
    words "policy", "policy", row.policy.as_str(), "The policy";
    estimated(Share) "utilisation", "load", row.load, "Arrival rate by mean service time at full speed";
    estimated(Seconds) "response_mean_s", "time",
        match row.figures {
            Some((outcome,..)) => Value::from(outcome.response_mean),
            None => "unstable".into(),
        },
        "Mean response time, from arrival to departure";
    estimated(Seconds) "simulated", "p99", row.p99,
        "99th percentile of the response time: exact, or of a simulation with the same arrivals";
    estimated(Of("")) "relative_response", "×time", row.figures.map(|(_, response, _)| response),
        "Mean response time, by that of always-on";
    estimated(Of("W")) "power_mean_w", "power", row.figure(|of| of.power_mean), "Mean power";
    estimated(Of("")) "relative_power", "×power", row.figures.map(|(.., power)| power),
        "Mean power, by that of always-on";
    estimated(Of("")) detail "frequency", "f", row.figure(|of| of.frequency),
        "Relative frequency at which the server serves";
    estimated(Share) "shares.active", "active", row.figure(|of| of.shares.active),
        "Share of time that the server serves";
    estimated(Share) "shares.idle", "idle", row.figure(|of| of.shares.idle),
        "Share of time that the server is awake without a request";
    estimated(Share) "shares.transition", "moves", row.figure(|of| of.shares.transition),
        "Share of time on the way to sleep and back";
    estimated(Share) "shares.nap", "nap", row.figure(|of| of.shares.nap),
        "Share of time that the server sleeps";
    estimated(Of("/s")) detail "naps_per_s", "naps", row.figure(|of| of.naps_per_s),
        "How often the server falls asleep";
);

/// Policies that cross.
const CROSSINGS: &[Column<Pair>] = &columns!(|pair|
    words "first", "policy", pair.first.as_str(), "The first policy";
    words "second", "and", pair.second.as_str(), "The second policy";
    words "power", "in power, % load", loads(&pair.power), "Loads at which both draw the same power";
    words "response", "in response time, % load", loads(&pair.response),
        "Loads at which both have the same mean response time";
);

/// A policy's year, with its mean response time.
const YEARS: &[Column<(Year, Option<f64>)>] = &columns!(|row|
    words "policy", "policy", row.0.policy.as_str(), "The policy";
    estimated(Kwh) "energy_kwh", "draws", row.0.energy_kwh, "Energy of all servers and the building";
    estimated(Kwh) "saved_kwh", "saves", row.0.saved_kwh, "Energy less than with always-on";
    estimated(Of("money")) "saved_money", "saves", row.0.saved_money,
        "Money less than with always-on, in the currency of the price";
    estimated(Seconds) detail "response_mean_s", "time", row.1, "Mean response time";
);

const POLICIES: &[Column<Named>] = &columns!(|named|
    words "name", "policy", named.name.as_str(), "The policy";
    words "policy", "what it does", words::described(&named.policy), "The policy's figures";
);

/// The columns that `run` and `sweep` share; `list` holds the policies at a load.
pub fn reference(list: &'static str) -> Vec<(&'static str, Vec<Heading>)> {
    let own = Column::headings(ROWS).into_iter();
    let own = own.filter(|heading| heading.key != OF_OTHERS).collect();
    vec![(list, own), ("years[]", Column::headings(YEARS))]
}

pub fn crossing_headings() -> Vec<Heading> {
    Column::headings(CROSSINGS)
}

fn loads(crossings: &Crossings) -> String {
    let all = crossings.crossings.iter();
    let all = all.map(|crossing| digits(crossing.utilisation * 100.0));
    match crossings.crossings.is_empty() {
        true => "nowhere".to_owned(),
        false => all.collect::<Vec<_>>().join(", "),
    }
}

/// One load.
pub fn run<'a>(run: &Run<'_>) -> Sheet<'a> {
    let mut sheet = at_one_load(run);
    words::with_whose(&mut sheet, run.parameters);
    sheet
}

fn at_one_load<'a>(run: &Run<'_>) -> Sheet<'a> {
    let (parameters, point) = (run.parameters, &run.point);
    let mut sheet = Sheet {
        title: "Policies at one load".to_owned(),
        foot: FOOT,
        ..Sheet::default()
    };
    sheet.fact(
        "Load",
        format!(
            "{}%: {} requests a second to one server",
            digits(point.utilisation * 100.0),
            three_digits(point.rate_per_s)
        ),
    );
    assumptions(parameters, &mut sheet);
    let mut rows = rows(parameters, point, true);
    for row in &mut rows {
        row.p99 = run.p99(&row.policy);
    }
    let known = rows.iter().filter_map(|row| {
        let (outcome, ..) = row.figures?;
        Some(words::Figures {
            policy: &row.policy,
            power_w: outcome.power_mean,
            response_s: outcome.response_mean,
            p99: row.p99,
        })
    });
    let known: Vec<words::Figures<'_>> = known.collect();
    sheet.answer = words::least(run.least.as_ref(), &known, parameters.always_on(), "");
    let table = Table::of("Policies at this load", ROWS, &rows).without(&["utilisation"]);
    sheet.section(Section::new("policies", "Policies").table(table.whole()));
    sheet.section(simulated::percentiles(&run.simulated).detail());
    year(parameters, run.years.as_deref(), Some(point), &mut sheet);
    sheet.notes = run.notes.to_vec();
    sheet.notes.push(words::POISSON.to_owned());
    let p99s = run.simulated.iter();
    let p99s = p99s.map(|one| (one.policy.as_str(), one.p99));
    sheet.notes.extend(words::not_converged(p99s));
    sheet
}

fn assumptions(parameters: &Parameters, sheet: &mut Sheet<'_>) {
    sheet.fact("Service", words::service(parameters));
    sheet.fact("Power", words::power(parameters));
}

/// Every policy at a load; always-on first if it is wanted and is not one of them.
fn rows(parameters: &Parameters, point: &Point, always_on: bool) -> Vec<Row> {
    let row = |policy: &str, figures| Row {
        load: point.utilisation,
        policy: policy.to_owned(),
        figures,
        p99: None,
    };
    let first = always_on && !parameters.has_always_on();
    let first = first.then(|| row(ALWAYS_ON, Some((point.always_on, 1.0, 1.0))));
    let others = parameters.policies.iter().zip(&point.policies);
    let others = others.map(|(named, compared)| {
        let figures = compared.map(|one| (one.outcome, one.relative_response, one.relative_power));
        row(&named.name, figures)
    });
    first.into_iter().chain(others).collect()
}

fn year(
    parameters: &Parameters,
    years: Option<&[Year]>,
    point: Option<&Point>,
    sheet: &mut Sheet<'_>,
) {
    let (Some(farm), Some(years)) = (&parameters.farm, years) else {
        return;
    };
    let overhead = match farm.overhead {
        1.0 => String::new(),
        overhead => format!(", with {overhead} W for each watt of a server"),
    };
    let heading = format!(
        "In a year, {} servers at {}% load{overhead}",
        farm.servers,
        digits(parameters.utilisation() * 100.0)
    );
    let response = |year: &Year| {
        let policies = &parameters.policies;
        let place = policies.iter().position(|named| named.name == year.policy);
        Some(match place {
            Some(place) => point?.policies[place]?.outcome.response_mean,
            None => point?.always_on.response_mean,
        })
    };
    let rows = years.iter().map(|year| (year.clone(), response(year)));
    let rows: Vec<_> = rows.collect();
    let mut table = Table::of("A year", YEARS, &rows).whole();
    if farm.price_per_kwh.is_none() {
        table = table.without(&["saved_money"]);
    }
    sheet.section(Section::new("year", heading).titled().table(table));
}

/// What the transition times of machines are worth.
pub fn worth<'a>(worth: &Worth<'_>) -> Sheet<'a> {
    let mut sheet = at_one_load(&worth.run);
    sheet.title = "What a machine's transition times are worth".to_owned();
    sheet.section(crossings(worth.pairs));
    let (parameters, point) = (worth.run.parameters, &worth.run.point);
    let mut policies = parameters.policies.iter().zip(&point.policies);
    let nap = policies.find(|(named, _)| matches!(named.policy, Policy::PowerNap(_)));
    let needed = worth.needed.iter();
    let needed =
        needed.map(|one| words::largest(Figure::Power, &one.largest, &one.than, one.utilisation));
    let effect = nap.map(|(named, compared)| {
        let p99 = [named.name.as_str(), parameters.always_on()].map(|name| worth.run.p99(name));
        let of = compared.map(|one| (one.outcome, p99[0]));
        words::effect(
            &named.name,
            of,
            (point.always_on, p99[1]),
            point.utilisation,
        )
    });
    sheet.answer = effect
        .into_iter()
        .chain(needed)
        .collect::<Vec<_>>()
        .join(" ");
    words::with_whose(&mut sheet, parameters);
    sheet
}

fn crossings<'a>(pairs: &[Pair]) -> Section<'a> {
    let section = Section::new("crossings", "Where policies cross").titled();
    let section = pairs.iter().map(words::pair).fold(section, Section::text);
    section.table(Table::of("Where policies cross", CROSSINGS, pairs).first(0))
}

/// The answers alone; `crossing`: with the pairs, which were asked for.
pub fn questions<'a>(swept: &Swept<'_>, crossing: bool) -> Sheet<'a> {
    let largest = swept.largest_transitions.iter();
    let largest =
        largest.map(|one| words::largest(one.figure, &one.largest, &one.second, one.utilisation));
    let best = swept.best_timeout.iter();
    let best =
        best.map(|one| words::best_timeout(&one.best, &one.policy, one.utilisation, one.budget_s));
    let pairs = swept.sweep.pairs.iter().filter(|_| crossing);
    let answers = pairs.map(words::pair).chain(largest).chain(best);
    let poisson = [words::POISSON.to_owned()];
    let mut sheet = Sheet {
        title: "Where policies change places".to_owned(),
        answer: answers.collect::<Vec<_>>().join(" "),
        notes: swept.notes.iter().cloned().chain(poisson).collect(),
        ..Sheet::default()
    };
    words::with_whose(&mut sheet, &swept.sweep.parameters);
    sheet
}

/// All loads.
pub fn sweep<'a>(sweep: &'a Sweep, years: Option<&[Year]>, notes: &[String]) -> Sheet<'a> {
    let parameters = &sweep.parameters;
    let service = &parameters.service;
    let mut sheet = Sheet {
        title: "What sleeping servers save, and what their requests pay".to_owned(),
        about: vec![format!(
            "{} policies at {} loads · {} service times, mean {} · reveille {}",
            parameters.policies.len(),
            sweep.points.len(),
            service.name(),
            time(service.mean()),
            env!("CARGO_PKG_VERSION")
        )],
        answer: sweep.pairs.first().map(words::pair).unwrap_or_default(),
        foot: FOOT,
        ..Sheet::default()
    };
    assumptions(parameters, &mut sheet);
    let section = Section::new("charts", "At every load").chart(|| charts::all(sweep));
    sheet.section(section.table(relative(sweep).whole()));
    sheet.section(crossings(&sweep.pairs));
    let some = thinned(&sweep.points, LOADS).into_iter();
    let rows = some.flat_map(|point| rows(parameters, point, false));
    let rows: Vec<Row> = rows.collect();
    let table = Table::of("Policies at some loads", ROWS, &rows);
    let table = table.without(&[OF_OTHERS]).first(0);
    sheet.section(Section::new("figures", "Figures").table(table));
    year(parameters, years, at(parameters).ok().as_ref(), &mut sheet);
    let policies = Table::of("Policies", POLICIES, &parameters.policies).first(0);
    sheet.section(Section::new("policies", "What each policy does").table(policies));
    sheet.notes = notes.to_vec();
    sheet.notes.push(words::POISSON.to_owned());
    words::with_whose(&mut sheet, parameters);
    sheet
}

/// Loads in the table of all figures.
const LOADS: usize = 10;

/// Power and response time by always-on: a line for each policy, a column for some loads.
fn relative(sweep: &Sweep) -> Table {
    /// More do not fit in 80 columns.
    const LOADS: usize = 6;
    const LINES: &[Column<(String, &str)>] = &columns!(|row|
        words "policy", "policy", row.0.as_str(), "The policy";
        words "figure", "by always-on", row.1, "The figure";
    );
    let policies = &sweep.parameters.policies;
    let lines = policies.iter().flat_map(|named| {
        let name = named.name.clone();
        [(name.clone(), "power"), (name, "response")]
    });
    let lines: Vec<_> = lines.collect();
    let table = Table::of("Power and response time, by always-on", LINES, &lines);
    thinned(&sweep.points, LOADS)
        .into_iter()
        .fold(table, |table, point| {
            let heading = Heading {
                key: "relative",
                name: Cow::Owned(format!("{}%", digits(point.utilisation * 100.0))),
                unit: Unit::Of(""),
                origin: Some(Origin::Estimated),
                about: "",
                detail: false,
            };
            let values = point.policies.iter().flat_map(|compared| {
                [
                    compared.map(|one| one.relative_power).into(),
                    compared.map(|one| one.relative_response).into(),
                ]
            });
            table.column(heading, values)
        })
}

/// At most so many points, evenly chosen, first and last among them.
fn thinned(points: &[Point], most: usize) -> Vec<&Point> {
    if points.len() <= most {
        return points.iter().collect();
    }
    let last = points.len() - 1;
    (0..most)
        .map(|place| &points[place * last / (most - 1)])
        .collect()
}

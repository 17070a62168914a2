//! Simulated policies: percentiles, power, and differences from always-on.

use reveille_show::columns;
use reveille_show::quantity::{counted, digits, three_digits, time};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};

use super::words;
use crate::comparison::{Comparison, Row};
use crate::parameters::{Process, Simulation};
use crate::run::SimulatedPolicy;
use crate::simulate::{Dispatcher, Estimate, Simulated};

/// A policy, and its figures if it is stable.
type Figures<'a> = (&'a str, Option<&'a Simulated>);

fn value(estimate: &Estimate) -> Value {
    match estimate.half_width {
        Some(half) => Value::Interval(estimate.value, half),
        None => estimate.value.into(),
    }
}

fn above(estimate: &Estimate) -> Value {
    Value::SignedInterval(estimate.value, estimate.half_width.unwrap_or(0.0))
}

fn percentile(row: &Figures<'_>, place: usize) -> Option<Value> {
    let percentile = row.1?.response_percentiles.get(place)?;
    percentile.response.as_ref().map(value)
}

const POLICY: &str = "The policy";

fn response<'a>() -> [Column<Figures<'a>>; 8] {
    columns!(|row|
        words "policy", "policy", row.0, POLICY;
        estimated(Seconds) "simulated.response_mean_s.value", "time",
            row.1.map(|one| value(&one.response_mean)),
            "Mean response time, from arrival to departure";
        estimated(Seconds) "simulated.response_percentiles.0.response_s.value", "p50", percentile(row, 0),
            "Median response time";
        estimated(Seconds) detail "simulated.response_percentiles.1.response_s.value", "p90",
            percentile(row, 1),
            "90th percentile of the response time";
        estimated(Seconds) detail "simulated.response_percentiles.2.response_s.value", "p95",
            percentile(row, 2),
            "95th percentile of the response time";
        estimated(Seconds) "simulated.response_percentiles.3.response_s.value", "p99", percentile(row, 3),
            "99th percentile of the response time; unknown with fewer than ten requests beyond, in each \
             replication, and where a replication is too short beside the time in which the queue forgets";
        estimated(Seconds) "simulated.response_percentiles.4.response_s.value", "p99.9", percentile(row, 4),
            "99.9th percentile of the response time";
        estimated(Seconds) "simulated.response_max_s", "max", row.1.map(|one| one.response_max),
            "Maximum response time";
    )
}

fn power<'a>() -> [Column<Figures<'a>>; 9] {
    columns!(|row|
        words "policy", "policy", row.0, POLICY;
        estimated(Of("W")) "simulated.power_mean_w.value", "power", row.1.map(|one| value(&one.power_mean)),
            "Mean power of one server";
        estimated(Of("J")) "simulated.energy_per_request_j.value", "energy",
            row.1.map(|one| one.energy_per_request.value),
            "Energy of all servers, by request";
        estimated(Share) "simulated.shares.active.value", "active",
            row.1.map(|one| one.shares.active.value),
            "Share of time that a server serves";
        estimated(Share) "simulated.shares.idle.value", "idle", row.1.map(|one| one.shares.idle.value),
            "Share of time that a server is awake without a request";
        estimated(Share) "simulated.shares.transition.value", "moves",
            row.1.map(|one| one.shares.transition.value),
            "Share of time on the way to sleep and back";
        estimated(Share) "simulated.shares.nap.value", "nap", row.1.map(|one| one.shares.nap.value),
            "Share of time that a server sleeps";
        estimated(Of("/s")) "simulated.naps_per_s.value", "naps", row.1.map(|one| one.naps_per_s.value),
            "How often a server falls asleep";
        estimated(Share) "simulated.found_asleep.value", "asleep", row.1.map(|one| one.found_asleep.value),
            "Share of the requests that found their server asleep, or on the way there or back";
    )
}

const ABOVE: &[Column<Row>] = &columns!(|row|
    words "policy", "policy", row.policy.as_str(), POLICY;
    estimated(Seconds) "above_first.response_mean_s.value", "time",
        row.above_first.as_ref().map(|of| above(&of.response_mean_s)),
        "Mean response time above that of the first policy, on the same requests";
    estimated(Of("W")) "above_first.power_mean_w.value", "power",
        row.above_first.as_ref().map(|of| above(&of.power_mean_w)),
        "Mean power above that of the first policy";
);

pub fn response_headings() -> Vec<Heading> {
    Column::headings(&response())
}

/// Each column once.
pub fn headings() -> Vec<Heading> {
    let (power, above) = (Column::headings(&power()), Column::headings(ABOVE));
    let others = power.into_iter().chain(above);
    let others = others.filter(|heading| heading.key != "policy");
    response_headings().into_iter().chain(others).collect()
}

/// The percentiles that closed forms do not give.
pub fn percentiles<'a>(rows: &[SimulatedPolicy]) -> Section<'a> {
    let rows = rows
        .iter()
        .map(|row| (row.policy.as_str(), row.simulated.as_ref()));
    let rows: Vec<Figures<'_>> = rows.collect();
    let section = Section::new("simulated", "Simulated response times").titled();
    let section = match rows.iter().find_map(|(_, simulated)| *simulated) {
        Some(one) => section.text(format!(
            "{} for each policy; ± is the {}% interval.",
            counted(one.requests, "request"),
            digits(one.confidence * 100.0)
        )),
        None => section,
    };
    section.table(Table::of("Response time", &response(), &rows).whole())
}

/// Every policy, simulated on the same requests.
pub fn comparison<'a>(comparison: &Comparison<'_>) -> Sheet<'a> {
    let simulation = &comparison.parameters.simulation;
    let rows = comparison.policies.iter();
    let rows = rows.map(|row| (row.policy.as_str(), row.simulated.as_ref()));
    let rows: Vec<Figures<'_>> = rows.collect();
    let first = rows.iter().find_map(|(_, simulated)| *simulated);
    let mut sheet = Sheet {
        title: "Simulated servers".to_owned(),
        ..Sheet::default()
    };
    sheet.fact("Servers", servers(simulation));
    sheet.fact("Arrivals", arrivals(simulation, comparison.rate_per_s));
    let service = match comparison.recorded_service_mean_s {
        Some(mean) => format!("as recorded, mean {}", time(mean)),
        None => words::service(comparison.parameters),
    };
    sheet.fact("Service", service);
    sheet.fact("Power", words::power(comparison.parameters));
    if let Some(one) = first {
        sheet.fact("Runs", runs(one));
    }
    let known = comparison.policies.iter().filter_map(|row| {
        let one = row.simulated.as_ref()?;
        Some(words::Figures {
            policy: &row.policy,
            power_w: one.power_mean.value,
            response_s: one.response_mean.value,
            p99: row.p99,
        })
    });
    let known: Vec<words::Figures<'_>> = known.collect();
    // The others are unstable, or the run was interrupted before.
    let among = match rows.iter().all(|row| row.1.is_some()) {
        true => " in these runs",
        false => " of the policies simulated",
    };
    let always_on = comparison.parameters.always_on();
    sheet.answer = words::least(comparison.least.as_ref(), &known, always_on, among);
    let least = comparison.least.as_ref();
    if least.is_some_and(|least| least.may_be(always_on) && least.policy != always_on) {
        sheet.answer += " More --requests may tell them apart.";
    }
    let table = Table::of("Response time", &response(), &rows).whole();
    sheet.section(Section::new("response", "Response time").table(table));
    let stable = rows.iter().filter(|row| row.1.is_some());
    let table = Table::of("Power and states", &power(), stable).whole();
    sheet.section(Section::new("power", "Power and states").table(table));
    if let Some(first) = comparison.policies.first() {
        let heading = format!("Above {}, on the same requests", first.policy);
        let above = comparison.policies.iter();
        let above = above.filter(|row| row.above_first.is_some());
        let table = Table::of(&heading, ABOVE, above).whole();
        sheet.section(Section::new("above", heading).titled().table(table));
    }
    for row in &comparison.policies {
        if let Some(why) = &row.why {
            sheet.notes.push(format!("{}: {why}.", row.policy));
        }
    }
    let p99s = comparison.policies.iter();
    let p99s = p99s.map(|row| (row.policy.as_str(), row.p99));
    sheet.notes.extend(words::not_converged(p99s));
    let notes = comparison.notes.iter();
    let notes = notes.map(|note| format!("{}.", note.trim_end_matches('.')));
    sheet.notes.extend(notes);
    words::with_whose(&mut sheet, comparison.parameters);
    sheet
}

/// `10, each request to the least loaded`
fn servers(simulation: &Simulation) -> String {
    let to = match (simulation.servers, simulation.dispatcher) {
        (1, _) => String::new(),
        (_, Dispatcher::Random) => ", each request to any of them".to_owned(),
        (_, Dispatcher::RoundRobin) => " in turn".to_owned(),
        (_, Dispatcher::LeastLoaded) => ", each request to the least loaded".to_owned(),
        (_, Dispatcher::Packing { bound }) => {
            format!(", each request to the first awake with fewer than {bound}, or one is woken")
        }
    };
    format!("{}{to}", simulation.servers)
}

/// `Poisson, 78.9 a second in all`
fn arrivals(simulation: &Simulation, rate: f64) -> String {
    let spread = |name: &str, cv: f64| format!("{name} (coefficient of variation {})", digits(cv));
    let arrivals = match (&simulation.trace, &simulation.arrivals) {
        (Some(trace), _) => format!("requests of {}", trace.display()),
        (None, Process::Poisson) => "Poisson".to_owned(),
        (None, Process::Deterministic) => "evenly spaced".to_owned(),
        (None, Process::Gamma { cv }) => spread("gamma", *cv),
        (None, Process::Lognormal { cv }) => spread("lognormal", *cv),
        (None, Process::Hyperexponential { cv }) => spread("hyperexponential", *cv),
        (None, Process::Bursty { rates, stays_s }) => format!(
            "bursty ({} to {}, for {} and {} in the mean)",
            digits(rates[0]),
            digits(rates[1]),
            time(stays_s[0]),
            time(stays_s[1])
        ),
    };
    format!("{arrivals}, {} a second in all", three_digits(rate))
}

fn runs(one: &Simulated) -> String {
    let completed = match one.replications == one.replications_asked {
        true => one.replications.to_string(),
        false => format!("{} of {}", one.replications, one.replications_asked),
    };
    let s = if one.replications == 1 { "" } else { "s" };
    let interval = match one.response_mean.half_width {
        Some(_) => format!("± is the {}% interval", digits(one.confidence * 100.0)),
        None => "one run gives no interval".to_owned(),
    };
    format!(
        "{completed} replication{s} of {}, after a warm-up of {}; seed {}; {interval}",
        time(one.window),
        time(one.warm_up),
        one.seed
    )
}

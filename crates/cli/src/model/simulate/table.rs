//! What was simulated, for people.

use std::io::{self, Write};

use reveille_model::parameters::{Process, Simulation};
use reveille_model::sentence::{self, digits};
use reveille_model::simulate::{Dispatcher, Estimate, PERCENTILES, Simulated};

use super::super::say;
use super::{Above, Answer, Row};
use reveille_show::table::{Side, Table};
use reveille_show::wrap::COLUMNS;

pub fn write(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    let simulation = &answer.parameters.simulation;
    let all: Vec<(&Row, &Simulated)> = answer
        .policies
        .iter()
        .filter_map(|row| Some((row, row.simulated.as_ref()?)))
        .collect();
    say(out, &servers(simulation))?;
    say(out, &arrivals(simulation, answer.rate_per_s))?;
    let mut assumptions = sentence::assumptions(answer.parameters);
    if let (Some(mean), Some(service)) = (answer.recorded_service_mean_s, assumptions.first_mut()) {
        *service = format!("Service times: as recorded, mean {}.", sentence::time(mean));
    }
    for line in assumptions {
        say(out, &line)?;
    }
    if let Some((_, one)) = all.first() {
        say(out, &runs(one))?;
    }
    for note in &answer.notes {
        say(out, &format!("Note: {note}."))?;
    }
    writeln!(out)?;
    response(&answer.policies).write_folded(COLUMNS, 1, out)?;
    if !all.is_empty() {
        writeln!(out)?;
        power(&all).write_folded(COLUMNS, 1, out)?;
    }
    let above: Vec<(&str, &Above)> = answer
        .policies
        .iter()
        .filter_map(|row| Some((row.policy.as_str(), row.above_first.as_ref()?)))
        .collect();
    if let (false, Some(first)) = (above.is_empty(), answer.policies.first()) {
        writeln!(out, "\nMore than {}, on the same requests:\n", first.policy)?;
        more(&above).write_folded(COLUMNS, 1, out)?;
    }
    for row in &answer.policies {
        if let Some(why) = &row.why {
            writeln!(out)?;
            say(out, &format!("{}: {why}", row.policy))?;
        }
    }
    Ok(())
}

/// `10 servers, each request to the least loaded.`
fn servers(simulation: &Simulation) -> String {
    match (simulation.servers, simulation.dispatcher) {
        (1, _) => "1 server.".to_owned(),
        (servers, Dispatcher::Random) => format!("{servers} servers, each request to any of them."),
        (servers, Dispatcher::RoundRobin) => format!("{servers} servers in turn."),
        (servers, Dispatcher::LeastLoaded) => {
            format!("{servers} servers, each request to the least loaded.")
        }
        (servers, Dispatcher::Packing { bound }) => format!(
            "{servers} servers, each request to the first awake with fewer than {bound}, or one is woken."
        ),
    }
}

/// `Poisson arrivals, 78.9 a second in all.`
fn arrivals(simulation: &Simulation, rate: f64) -> String {
    let arrivals = match (&simulation.trace, &simulation.arrivals) {
        (Some(trace), _) => format!("Requests of {}", trace.display()),
        (None, Process::Poisson) => "Poisson arrivals".to_owned(),
        (None, Process::Deterministic) => "Evenly spaced arrivals".to_owned(),
        (None, Process::Gamma { cv }) => spread("Gamma", *cv),
        (None, Process::Lognormal { cv }) => spread("Lognormal", *cv),
        (None, Process::Hyperexponential { cv }) => spread("Hyperexponential", *cv),
        (None, Process::Bursty { rates, stays_s }) => format!(
            "Bursty arrivals ({} to {}, for {} and {} in the mean)",
            digits(rates[0]),
            digits(rates[1]),
            sentence::time(stays_s[0]),
            sentence::time(stays_s[1])
        ),
    };
    format!("{arrivals}, {} a second in all.", digits(rate))
}

fn spread(name: &str, cv: f64) -> String {
    format!("{name} arrivals (coefficient of variation {})", digits(cv))
}

fn runs(one: &Simulated) -> String {
    let completed = match one.replications == one.replications_asked {
        true => one.replications.to_string(),
        false => format!("{} of {}", one.replications, one.replications_asked),
    };
    let s = if one.replications == 1 { "" } else { "s" };
    let interval = match one.response_mean.half_width {
        Some(_) => format!("± is the {} % interval", digits(one.confidence * 100.0)),
        None => "One run gives no interval".to_owned(),
    };
    format!(
        "{completed} replication{s} of {}, after a warm-up of {}; seed {}. {interval}.",
        sentence::time(one.window),
        sentence::time(one.warm_up),
        one.seed
    )
}

fn response(rows: &[Row]) -> Table {
    let mut headings = vec![
        ("policy".to_owned(), String::new(), Side::Left),
        ("time".to_owned(), "ms".to_owned(), Side::Right),
    ];
    for share in PERCENTILES {
        let name = format!("p{}", digits(share * 100.0));
        headings.push((name, "ms".to_owned(), Side::Right));
    }
    headings.push(("max".to_owned(), "ms".to_owned(), Side::Right));
    let mut table = Table::of(headings);
    for row in rows {
        let mut cells = vec![row.policy.clone()];
        match &row.simulated {
            None => {
                cells.push("–".into());
                cells.extend(PERCENTILES.map(|_| "–".to_owned()));
                cells.push("–".into());
            }
            Some(one) => {
                cells.push(told(&one.response_mean, 1e3));
                let percentiles = one.response_percentiles.iter().map(|percentile| {
                    let response = percentile.response.as_ref();
                    response.map_or("–".to_owned(), |response| told(response, 1e3))
                });
                cells.extend(percentiles);
                cells.push(digits(one.response_max * 1e3));
            }
        }
        table.push(cells);
    }
    table
}

fn power(all: &[(&Row, &Simulated)]) -> Table {
    let mut table = Table::new(&[
        ("policy", "", Side::Left),
        ("power", "W", Side::Right),
        ("energy", "J", Side::Right),
        ("active", "%", Side::Right),
        ("idle", "%", Side::Right),
        ("moves", "%", Side::Right),
        ("nap", "%", Side::Right),
        ("naps", "/s", Side::Right),
        ("asleep", "%", Side::Right),
    ]);
    for (row, one) in all {
        let percent = |share: &Estimate| format!("{:.1}", share.value * 100.0);
        table.row([
            row.policy.clone(),
            told(&one.power_mean, 1.0),
            digits(one.energy_per_request.value),
            percent(&one.shares.active),
            percent(&one.shares.idle),
            percent(&one.shares.transition),
            percent(&one.shares.nap),
            digits(one.naps_per_s.value),
            percent(&one.found_asleep),
        ]);
    }
    table
}

fn more(above: &[(&str, &Above)]) -> Table {
    let mut table = Table::new(&[
        ("policy", "", Side::Left),
        ("time", "ms", Side::Right),
        ("power", "W", Side::Right),
    ]);
    for (policy, above) in above {
        let signed = |estimate: &Estimate, unit: f64| {
            let sign = if estimate.value > 0.0 { "+" } else { "" };
            format!("{sign}{}", told(estimate, unit))
        };
        table.row([
            (*policy).to_owned(),
            signed(&above.response_mean_s, 1e3),
            signed(&above.power_mean_w, 1.0),
        ]);
    }
    table
}

/// `41.7 ±0.3`: as many decimals as the interval's first two digits need.
fn told(estimate: &Estimate, unit: f64) -> String {
    let value = estimate.value * unit;
    match estimate.half_width.map(|half| half * unit) {
        // Policies that differ by the same on all requests have an interval of rounding errors.
        Some(half) if half > 1e-9 * value.abs() => {
            let decimals = (1 - half.log10().floor() as i32).clamp(0, 9) as usize;
            format!("{value:.decimals$} ±{half:.decimals$}")
        }
        _ => digits(value),
    }
}

//! `reveille model run`: policies side by side at one load.

use std::io::{self, Write};
use std::process::ExitCode;

use reveille_model::farm::{Year, years};
use reveille_model::parameters::{ALWAYS_ON, Parameters};
use reveille_model::policy::Outcome;
use reveille_model::sentence;
use reveille_model::sweep::{Point, point};
use serde::Serialize;

use super::source::{self, Source};
use super::{farm, percentiles};
use reveille_show::table::{Side, Table};
use reveille_show::terminal;
use reveille_show::wrap::COLUMNS;

/// Policies side by side at one load, by closed forms.
///
/// Each is compared with a server without power management. Closed forms give means; they are exact
/// where requests come as a Poisson process.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model run --utilisation 0.2
  reveille model run --rate 12 --params server.toml
  reveille model run --utilisation 0.2 --simulate             percentiles, too
  reveille model run --params server.toml --states RESULT     exit latencies as measured
  reveille model run --servers 1000 --price 0.2               what a farm would save in a year

Columns:
  time       the response time: from arrival to departure, mean; ×: by that of always-on
  power      mean; ×: by that of always-on
  f          the relative frequency at which it serves
  active     share of time that it serves; also idle (awake without a request), moves (on the way to
             sleep and back) and nap
  naps       how often a second it falls asleep
  p50 …      with --simulate: percentiles of the response time

Exit codes: 2 where the load is 1 or above: no queue is stable there.")]
pub struct Args {
    #[command(flatten)]
    source: source::SourceArgs,
    /// Simulate, too: the percentiles of the response time (one server, Poisson arrivals)
    #[arg(long)]
    simulate: bool,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

/// One load, for people and for programs the same.
#[derive(Serialize)]
pub struct Answer<'a> {
    pub parameters: &'a Parameters,
    pub exact_for: &'static str,
    pub notes: &'a [String],
    #[serde(flatten)]
    pub point: &'a Point,
    /// `None`: no farm was given.
    pub years: Option<Vec<Year>>,
    /// `None`: it was not asked for.
    pub simulated: Option<Vec<percentiles::Row>>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Source { parameters, notes } = source::read(&args.source)?;
    let point = at(&parameters)?;
    let mut answer = Answer::of(&parameters, &notes, &point);
    if args.simulate {
        answer.simulated = Some(percentiles::rows(&parameters)?);
    }
    if args.json {
        super::write_json(&answer)?;
    } else {
        write(&answer, &mut terminal::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The point at the parameters' own arrivals.
pub fn at(parameters: &Parameters) -> anyhow::Result<Point> {
    let Parameters {
        policies,
        power,
        service,
        ..
    } = parameters;
    point(policies, power, service, parameters.rate()).map_err(super::told)
}

impl<'a> Answer<'a> {
    pub fn of(parameters: &'a Parameters, notes: &'a [String], point: &'a Point) -> Self {
        let farm = parameters.farm.as_ref();
        Self {
            parameters,
            exact_for: "poisson_arrivals",
            notes,
            point,
            years: farm.map(|farm| years(farm, &parameters.policies, point)),
            simulated: None,
        }
    }
}

pub fn write(answer: &Answer<'_>, out: &mut impl Write) -> io::Result<()> {
    let Answer {
        parameters, point, ..
    } = answer;
    writeln!(
        out,
        "{} % load: {} requests a second to one server",
        sentence::digits(point.utilisation * 100.0),
        sentence::digits(point.rate_per_s)
    )?;
    for line in sentence::assumptions(parameters).iter().chain(answer.notes) {
        super::say(out, line)?;
    }
    writeln!(out)?;
    table(parameters, point).write_folded(COLUMNS, 1, out)?;
    writeln!(out)?;
    super::say(out, sentence::POISSON)?;
    if let Some(rows) = &answer.simulated {
        percentiles::write(rows, out)?;
    }
    match (&parameters.farm, &answer.years) {
        (Some(farm), Some(years)) => farm::write(farm, parameters, years, out),
        _ => Ok(()),
    }
}

fn table(parameters: &Parameters, point: &Point) -> Table {
    let mut table = Table::new(&[
        ("policy", "", Side::Left),
        ("time", "ms", Side::Right),
        ("", "×", Side::Right),
        ("power", "W", Side::Right),
        ("", "×", Side::Right),
        ("f", "", Side::Right),
        ("active", "%", Side::Right),
        ("idle", "%", Side::Right),
        ("moves", "%", Side::Right),
        ("nap", "%", Side::Right),
        ("naps", "/s", Side::Right),
    ]);
    if !parameters.has_always_on() {
        table.row(row(ALWAYS_ON, &point.always_on, 1.0, 1.0));
    }
    for (named, compared) in parameters.policies.iter().zip(&point.policies) {
        table.row(match compared {
            Some(one) => row(
                &named.name,
                &one.outcome,
                one.relative_response,
                one.relative_power,
            ),
            None => unstable(&named.name),
        });
    }
    table
}

fn row(name: &str, outcome: &Outcome, response: f64, power: f64) -> [String; 11] {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let shares = &outcome.shares;
    [
        name.to_owned(),
        sentence::digits(outcome.response_mean * 1e3),
        format!("{response:.2}"),
        format!("{:.1}", outcome.power_mean),
        format!("{power:.2}"),
        format!("{:.2}", outcome.frequency),
        percent(shares.active),
        percent(shares.idle),
        percent(shares.transition),
        percent(shares.nap),
        sentence::digits(outcome.naps_per_s),
    ]
}

/// A policy that cannot keep up has no figures.
fn unstable(name: &str) -> [String; 11] {
    let mut row: [String; 11] = std::array::from_fn(|_| "–".to_owned());
    row[0] = name.to_owned();
    row[1] = "unstable".to_owned();
    row
}

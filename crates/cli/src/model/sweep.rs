//! `reveille model sweep`: policies at every load, and where something changes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reveille_model::farm::{self, Year};
use reveille_model::parameters::{ALWAYS_ON, Named, Parameters};
use reveille_model::policy::{Policy, PowerNap};
use reveille_model::question::{self, BestTimeout, Figure, Largest};
use reveille_model::sentence;
use reveille_model::sweep::{self, Pair, Point, Sweep};
use reveille_results::output::{Naming, OutputFile};
use serde::Serialize;

use super::source::{self, Source};
use crate::exit::Failure;
use crate::report::{page_file, write_page};
use reveille_show::table::{Side, Table};
use reveille_show::terminal;

/// Power and response time of each policy at every load, and where policies cross.
///
/// Without --params these are figures 7 and 8 of the paper: napping with transition times of 10, 50,
/// 100 and 650 ms, and frequency scaling, by what a server without power management does.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model sweep                                      a table, and the crossings
  reveille model sweep --out model.html                     a page with charts
  reveille model sweep --csv > model.csv
  reveille model sweep --crossing 'nap 50 ms' DVFS          the load at which two policies cross
  reveille model sweep --largest-transition 'nap 50 ms' DVFS --utilisation 0.3
  reveille model sweep --best-timeout 'nap 650 ms' --budget 200ms --utilisation 0.1

Questions are answered, and a farm is reckoned, at --utilisation (or --rate, or [arrivals] in the
parameters).")]
pub struct Args {
    #[command(flatten)]
    source: source::SourceArgs,
    /// Where A and B cross, in power and in response time; may be repeated
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    crossing: Vec<String>,
    /// The longest suspend and resume with which A still draws less, and answers faster, than B
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    largest_transition: Vec<String>,
    /// The timeout with which A saves most within --budget
    #[arg(long, value_name = "A", requires = "budget")]
    best_timeout: Option<String>,
    /// The mean response time that may not be exceeded, such as 20ms
    #[arg(long, value_name = "TIME", requires = "best_timeout", value_parser = super::parse_time, allow_hyphen_values = true)]
    budget: Option<f64>,
    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page's title
    #[arg(long, value_name = "TEXT", requires = "out")]
    title: Option<String>,
    /// Print CSV: a line for each load and policy, units in the names
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

/// What the questions came to.
#[derive(Serialize)]
struct Answers {
    largest_transitions: Vec<LargestTransition>,
    best_timeout: Option<BestAnswer>,
}

#[derive(Serialize)]
struct LargestTransition {
    first: String,
    second: String,
    utilisation: f64,
    figure: Figure,
    largest: Largest,
}

#[derive(Serialize)]
struct BestAnswer {
    policy: String,
    utilisation: f64,
    budget_s: f64,
    #[serde(flatten)]
    best: BestTimeout,
}

/// All of it, as JSON has it.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    sweep: &'a Sweep,
    #[serde(flatten)]
    answers: &'a Answers,
    /// At the parameters' own load; `None`: no farm was given.
    years: Option<&'a [Year]>,
    exact_for: &'static str,
    notes: &'a [String],
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Source { parameters, notes } = source::read(&args.source)?;
    check_use(&args, &parameters)?;
    let other = [(args.json, "--json"), (args.csv, "--csv")];
    let other = other
        .into_iter()
        .find_map(|(is_given, flag)| is_given.then_some(flag));
    super::page_alone(args.out.as_deref(), other)?;
    let years = years(&parameters)?;
    let mut swept = Sweep::of(&parameters).map_err(super::told)?;
    if !args.crossing.is_empty() {
        let asked = args.crossing.chunks_exact(2);
        swept.pairs = asked
            .map(|names| pair(&parameters, names))
            .collect::<anyhow::Result<_>>()?;
    }
    let answers = answers(&args, &parameters)?;
    let page = match &args.out {
        Some(path) => Some(page(path, &swept, &notes, args.title.as_deref())?),
        None => None,
    };
    if args.json {
        super::write_json(&Whole {
            sweep: &swept,
            answers: &answers,
            years: years.as_deref(),
            exact_for: "poisson_arrivals",
            notes: &notes,
        })?;
    } else if args.csv {
        csv(&swept, &mut terminal::data())?;
    } else if let Some(page) = page {
        if !page.is_standard_output() {
            writeln!(terminal::data(), "{}", page.path().display())?;
        }
    } else {
        write(
            &args,
            &swept,
            &answers,
            years.as_deref(),
            &notes,
            &mut terminal::stdout(),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A sweep has loads of its own: one load is for questions and for a farm.
fn check_use(args: &Args, parameters: &Parameters) -> anyhow::Result<()> {
    let is_given = args.source.utilisation.is_some() || args.source.rate.is_some();
    let has_question = !args.largest_transition.is_empty() || args.best_timeout.is_some();
    match is_given && !has_question && parameters.farm.is_none() {
        false => Ok(()),
        true => Err(Failure::usage(
            "--utilisation, --rate: a sweep has all loads, and one is for --largest-transition, \
             --best-timeout and --servers only; give one of these, or take `model run`",
        )),
    }
}

/// The farm's year, where there is a farm.
fn years(parameters: &Parameters) -> anyhow::Result<Option<Vec<Year>>> {
    let Some(farm) = &parameters.farm else {
        return Ok(None);
    };
    let point = super::run::at(parameters)?;
    Ok(Some(farm::years(farm, &parameters.policies, &point)))
}

/// Writes the page of a sweep, and says where to.
pub fn page(
    path: &Path,
    sweep: &Sweep,
    notes: &[String],
    title: Option<&str>,
) -> anyhow::Result<OutputFile> {
    let html = reveille_report::model::page(sweep, notes, title);
    let output = page_file(path, "--out", Naming::ByUser)?;
    write_page(&output, &html)?;
    Ok(output)
}

/// The policy of that name; `always on` is there without being told.
fn named(parameters: &Parameters, name: &str) -> anyhow::Result<Named> {
    match parameters.policy(name) {
        Ok(named) => Ok(named.clone()),
        Err(_) if name.to_lowercase() == ALWAYS_ON => Ok(Named::always_on()),
        Err(error) => Err(super::told(error)),
    }
}

fn pair(parameters: &Parameters, names: &[String]) -> anyhow::Result<Pair> {
    let (first, second) = (named(parameters, &names[0])?, named(parameters, &names[1])?);
    sweep::pair(parameters, &first, &second).map_err(super::told)
}

/// A policy that naps.
fn nap(parameters: &Parameters, name: &str) -> anyhow::Result<PowerNap> {
    match named(parameters, name)?.policy {
        Policy::PowerNap(nap) => Ok(nap),
        _ => Err(Failure::usage(format!(
            "`{name}` does not nap: name a policy of kind power_nap"
        ))),
    }
}

fn answers(args: &Args, parameters: &Parameters) -> anyhow::Result<Answers> {
    let utilisation = parameters.utilisation();
    let mut largest_transitions = Vec::new();
    for pair in args.largest_transition.chunks_exact(2) {
        let (template, second) = (nap(parameters, &pair[0])?, named(parameters, &pair[1])?);
        for figure in [Figure::Power, Figure::Response] {
            let largest = question::largest_transition(
                parameters,
                &template,
                &second.policy,
                utilisation,
                figure,
            );
            largest_transitions.push(LargestTransition {
                first: pair[0].clone(),
                second: second.name.clone(),
                utilisation,
                figure,
                largest: largest.map_err(super::told)?,
            });
        }
    }
    let best = match (&args.best_timeout, args.budget) {
        (Some(name), Some(budget)) => {
            let template = nap(parameters, name)?;
            let best = question::best_timeout(parameters, &template, utilisation, budget);
            Some(BestAnswer {
                policy: name.clone(),
                utilisation,
                budget_s: budget,
                best: best.map_err(super::told)?,
            })
        }
        _ => None,
    };
    Ok(Answers {
        largest_transitions,
        best_timeout: best,
    })
}

/// A question gets its answer alone; without one there is the table.
fn write(
    args: &Args,
    swept: &Sweep,
    answers: &Answers,
    years: Option<&[Year]>,
    notes: &[String],
    out: &mut impl Write,
) -> io::Result<()> {
    let largest = answers
        .largest_transitions
        .iter()
        .map(|one| sentence::largest(one.figure, &one.largest, &one.second, one.utilisation));
    let best = answers
        .best_timeout
        .iter()
        .map(|one| sentence::best_timeout(&one.best, &one.policy, one.utilisation, one.budget_s));
    let said: Vec<String> = largest.chain(best).collect();
    let crossings = swept.pairs.iter().flat_map(sentence::pair);
    if !args.crossing.is_empty() || !said.is_empty() {
        let asked: Vec<String> = match args.crossing.is_empty() {
            true => Vec::new(),
            false => crossings.collect(),
        };
        for line in asked.iter().chain(&said) {
            super::say(out, line)?;
        }
        return super::say(out, sentence::POISSON);
    }
    for line in sentence::assumptions(&swept.parameters).iter().chain(notes) {
        super::say(out, line)?;
    }
    writeln!(
        out,
        "\nBy what a server without power management draws and takes:\n"
    )?;
    table(swept).write(out)?;
    writeln!(out)?;
    for line in crossings {
        super::say(out, &line)?;
    }
    super::say(out, sentence::POISSON)?;
    let parameters = &swept.parameters;
    match (&parameters.farm, years) {
        (Some(farm), Some(years)) => super::farm::write(farm, parameters, years, out),
        _ => Ok(()),
    }
}

/// A line for each policy, a column for some of the loads.
fn table(swept: &Sweep) -> Table {
    /// A table with more has no room in 80 columns.
    const COLUMNS: usize = 6;
    let points = thinned(&swept.points, COLUMNS);
    let mut headings = vec![
        ("policy".to_owned(), "load".to_owned(), Side::Left),
        (String::new(), String::new(), Side::Left),
    ];
    headings.extend(points.iter().map(|point| {
        let load = format!("{} %", sentence::digits(point.utilisation * 100.0));
        (String::new(), load, Side::Right)
    }));
    let mut table = Table::of(headings);
    for (place, named) in swept.parameters.policies.iter().enumerate() {
        for (what, figure) in [("power", true), ("response", false)] {
            let cells = points.iter().map(|point| match &point.policies[place] {
                Some(one) if figure => format!("{:.2}", one.relative_power),
                Some(one) => format!("{:.2}", one.relative_response),
                None => "–".to_owned(),
            });
            let name = if figure {
                named.name.clone()
            } else {
                String::new()
            };
            table.push([name, what.to_owned()].into_iter().chain(cells).collect());
        }
    }
    table
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

fn csv(swept: &Sweep, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "utilisation,rate_per_s,policy,response_mean_s,wait_mean_s,power_mean_w,relative_power,\
         relative_response,active_share,idle_share,transition_share,nap_share,naps_per_s,\
         relative_frequency"
    )?;
    for point in &swept.points {
        let (load, rate) = (point.utilisation, point.rate_per_s);
        line(out, load, rate, ALWAYS_ON, &point.always_on, (1.0, 1.0))?;
        for (named, compared) in swept.parameters.policies.iter().zip(&point.policies) {
            // An unstable policy has no line.
            if let Some(one) = compared {
                let relative = (one.relative_power, one.relative_response);
                line(out, load, rate, &named.name, &one.outcome, relative)?;
            }
        }
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    load: f64,
    rate: f64,
    name: &str,
    outcome: &reveille_model::policy::Outcome,
    (power, response): (f64, f64),
) -> io::Result<()> {
    let shares = &outcome.shares;
    writeln!(
        out,
        "{load},{rate},{},{},{},{},{power},{response},{},{},{},{},{},{}",
        quoted(name),
        outcome.response_mean,
        outcome.wait_mean,
        outcome.power_mean,
        shares.active,
        shares.idle,
        shares.transition,
        shares.nap,
        outcome.naps_per_s,
        outcome.frequency
    )
}

/// RFC 4180: a name may have a comma.
fn quoted(name: &str) -> String {
    match name.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_comma_stays_one_field() {
        assert_eq!(quoted("nap, 50 ms"), "\"nap, 50 ms\"");
        assert_eq!(quoted("the \"best\""), "\"the \"\"best\"\"\"");
        assert_eq!(quoted("DVFS"), "DVFS");
    }

    #[test]
    fn a_table_has_the_first_and_the_last_load() {
        let swept = Sweep::of(&Parameters::paper()).unwrap();
        let points = thinned(&swept.points, 6);
        let loads: Vec<f64> = points.iter().map(|point| point.utilisation).collect();
        assert_eq!((loads.len(), loads[0], loads[5]), (6, 0.01, 0.95));
    }
}

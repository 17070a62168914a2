//! `reveille model sweep`: policies at every load, and where something changes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use reveille_model::answers::{Questions, Swept};
use reveille_model::parameters::{ALWAYS_ON, Parameters};
use reveille_model::show;
use reveille_model::sweep::Sweep;

use super::page;
use super::source::{self, Source};
use crate::exit::Failure;
use crate::output_format::{Printed, To};
use crate::page::name_page;
use reveille_show::terminal;

/// Power and response time of each policy at every load, and where policies cross.
///
/// Without --params these are a paper's: napping with transition times of 10, 50, 100 and 650 ms, and
/// frequency scaling, relative to a server without power management.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model sweep                                      a table, and the crossings
  reveille model sweep --out model.html                     a page with charts
  reveille model sweep --csv > model.csv
  reveille model sweep --crossing 'nap 50 ms' DVFS          the load at which two policies cross
  reveille model sweep --largest-transition 'nap 50 ms' DVFS --utilisation 0.3
  reveille model sweep --best-timeout 'nap 650 ms' --budget 200ms --utilisation 0.1

Questions are answered, and a farm is computed, at --utilisation (or --rate, or [arrivals] in the
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
    #[arg(long, value_name = "TIME", requires = "best_timeout", value_parser = source::parse_time, allow_hyphen_values = true)]
    budget: Option<f64>,
    /// Write a page with charts to FILE
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page's title
    #[arg(long, value_name = "TEXT", requires = "out")]
    title: Option<String>,
    /// Print CSV: a line for each load and policy, units in the names
    #[arg(long, conflicts_with_all = ["json", "markdown", "all"])]
    csv: bool,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Source {
        parameters,
        mut notes,
    } = source::read(&args.source)?;
    notes.extend(show::whose(&parameters));
    let questions = Questions {
        crossing: &args.crossing,
        largest_transition: &args.largest_transition,
        best_timeout: args.best_timeout.as_deref().zip(args.budget),
    };
    check_use(&args, &questions, &parameters)?;
    let data = args.csv.then_some("--csv").or(args.printed.data());
    let is_alone = page::alone(args.out.as_deref(), data)?;
    let swept = Swept::of(&parameters, &questions, &notes).map_err(source::refused)?;
    let whole = || show::sweep(&swept.sweep, swept.years.as_deref(), &notes);
    let page = page::write(args.out.as_deref(), whole(), args.title.as_deref())?;
    if is_alone {
        return Ok(ExitCode::SUCCESS);
    }
    if args.csv {
        csv(&swept.sweep, &mut terminal::data())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sheet = match questions.any() {
        true => show::questions(&swept, !args.crossing.is_empty()),
        false => whole(),
    };
    name_page(page.as_ref(), &mut sheet);
    args.printed.print(&swept, &sheet, To::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// A sweep has loads of its own: one load is for questions and for a farm.
fn check_use(
    args: &Args,
    questions: &Questions<'_>,
    parameters: &Parameters,
) -> anyhow::Result<()> {
    let is_given = args.source.utilisation.is_some() || args.source.rate.is_some();
    match is_given && !questions.at_one_load() && parameters.farm.is_none() {
        false => Ok(()),
        true => Err(Failure::usage(
            "--utilisation, --rate: a sweep has all loads, and one is for --largest-transition, \
             --best-timeout and --servers only; give one of these, or take `model run`",
        )),
    }
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
}

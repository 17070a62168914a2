//! `reveille model`: what sleeping servers would save, and what their requests would pay.

mod farm;
mod from;
mod percentiles;
mod run;
mod simulate;
mod source;
mod sweep;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Failure;
use reveille_show::terminal;
use reveille_show::wrap;

/// Tell what a transition time is worth: the power that napping, frequency scaling or idle states
/// save, and what requests pay in response time.
///
/// It needs no root and changes nothing. Times, powers and policies come from a TOML file; without
/// one they are those of the paper's figures 7 and 8 (Xi and others, "Understanding the Critical Path
/// in Power State Transition Latencies", 2013).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model run --utilisation 0.2                policies side by side at one load
  reveille model run --params server.toml --servers 1000
  reveille model sweep --out model.html               power and response time at every load
  reveille model sweep --crossing 'nap 50 ms' DVFS
  reveille model simulate --servers 10 --dispatcher packing:4
  reveille resume analyze LOG --json > resume.json
  reveille model from resume.json                     what that machine's transitions are worth")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::Args),
    Sweep(sweep::Args),
    Simulate(simulate::Args),
    From(from::Args),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::From(args) => from::run(args),
    }
}

/// What was asked for wrongly, or an unstable load, is wrong use: other figures would do.
fn told(error: reveille_model::Error) -> anyhow::Error {
    Failure::usage(error.to_string())
}

/// A time on the command line, in seconds.
fn parse_time(text: &str) -> Result<f64, String> {
    let seconds = reveille_model::seconds::parse(text)?;
    match seconds > 0.0 && seconds.is_finite() {
        true => Ok(seconds),
        false => Err("give a time above 0, and not for ever".to_owned()),
    }
}

/// Whether the page goes to standard output, where then nothing else may.
///
/// # Errors
/// Where `other`, a flag, is to write there too.
fn page_alone(out: Option<&Path>, other: Option<&str>) -> anyhow::Result<bool> {
    match (out == Some(Path::new("-")), other) {
        (true, Some(other)) => Err(Failure::usage(format!(
            "--out - and {other} both write to standard output; name a file with --out"
        ))),
        (alone, _) => Ok(alone),
    }
}

/// Sentences, in lines that a terminal holds.
fn say(out: &mut impl Write, sentence: &str) -> std::io::Result<()> {
    wrap::wrapped(out, "", 0, sentence)
}

fn write_json(value: &impl Serialize) -> std::io::Result<()> {
    let mut out = terminal::data();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

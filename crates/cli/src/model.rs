//! `reveille model`: what sleeping servers would save, and what their requests would pay.

mod from;
mod page;
mod progress;
mod run;
mod simulate;
mod source;
mod sweep;

use std::process::ExitCode;

/// Show what a transition time is worth: the power that napping, frequency scaling or idle states
/// save, and what requests pay in response time.
///
/// It needs no root and changes nothing. Times, powers and policies come from a TOML file; without
/// one they are fitted to what a paper says of its figures 7 and 8 (Xi and others, "Understanding the
/// Critical Path in Power State Transition Latencies", 2013): of no machine that was measured.
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

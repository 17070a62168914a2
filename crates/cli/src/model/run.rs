//! `reveille model run`: policies side by side at one load.

use std::process::ExitCode;

use reveille_model::run::Run;
use reveille_model::show;

use super::source::{self, Source};
use crate::output_format::{Printed, To};

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
  reveille model run --servers 1000 --price 0.2               what a farm would save in a year")]
pub struct Args {
    #[command(flatten)]
    source: source::SourceArgs,
    /// Simulate, too: the percentiles of the response time (one server, Poisson arrivals)
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Source { parameters, notes } = source::read(&args.source)?;
    let mut run = Run::of(&parameters, &notes).map_err(source::refused)?;
    if args.simulate {
        run.simulate().map_err(source::refused)?;
    }
    args.printed.print(&run, &show::run(&run), To::Output)?;
    Ok(ExitCode::SUCCESS)
}

//! `reveille model run`: policies side by side at one load.

use std::process::ExitCode;

use reveille_model::run::Run;
use reveille_model::show;

use super::source::{self, Source};
use crate::output_format::{Printed, To};

/// Policies side by side at one load.
///
/// Each is compared with a server without power management. Closed forms give means; they are exact
/// where requests come as a Poisson process. Percentiles are of a simulation of one server with such requests.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model run --utilisation 0.2
  reveille model run --rate 12 --params server.toml
  reveille model run --params server.toml --states RESULT     exit latencies as measured
  reveille model run --power RESULT                           idle and active power as measured
  reveille model run --servers 1000 --price 0.2               what a farm would save in a year")]
pub struct Args {
    #[command(flatten)]
    source: source::SourceArgs,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Source {
        parameters,
        mut notes,
    } = source::read(&args.source)?;
    notes.extend(source::whose(&args.source, &parameters));
    let run = Run::of(&parameters, &notes).map_err(source::refused)?;
    args.printed.print(&run, &show::run(&run), To::Output)?;
    Ok(ExitCode::SUCCESS)
}

//! `reveille model run`: policies side by side at one load.

use std::process::ExitCode;

use reveille_model::run::Run;
use reveille_model::show;

use super::progress::Shown;
use super::source::{self, Source};
use crate::exit;
use crate::output_format::{Printed, To};

/// Policies side by side at one load.
///
/// Each is compared with a server without power management. Closed forms give means; they are exact
/// where requests come as a Poisson process. Percentiles are of a simulation of one server with such requests; p99 is
/// exact where the server never sleeps and service times are exponential. Ctrl-C leaves out what is not simulated yet.
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
    notes.extend(show::whose(&parameters));
    let shown = Shown::new()?;
    let mut progress = |named: &_, of, done: Option<&_>| shown.tell(named, of, done);
    let run = Run::of(&parameters, &notes, &mut progress).map_err(source::refused)?;
    shown.clear();
    let printed = args.printed.print(&run, &show::run(&run), To::Output);
    exit::reader_may_leave(printed)?;
    Ok(shown.code())
}

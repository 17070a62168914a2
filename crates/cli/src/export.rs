//! `reveille export`: a result as text that other tools read.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use reveille_results::output::{Existing, Naming, OutputFile};
use reveille_results::{Filter, StreamError, export_result};
use reveille_show::terminal;

use crate::completion;
use crate::exit::Failure;
use crate::report;

/// Write a result's datapoints as CSV.
///
/// All datapoints with all columns, one line each and a line of names first; unknown values are
/// empty. Times are in nanoseconds and shares in per cent, whatever tool measured the result.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille export RESULT --csv                      to the terminal or a pipe
  reveille export RESULT --csv -o datapoints.csv    to a file
  reveille export RESULT --csv --filter 'wake_latency_ns > 100us'
  reveille export wult-result --csv | head          a result of wult, in reveille's columns")]
pub struct Args {
    /// A result of `measure` or wult: its folder or CSV file
    #[arg(add = completion::results())]
    result: PathBuf,

    /// Write CSV (required; the only format so far)
    #[arg(long, required = true)]
    csv: bool,

    /// Use only datapoints that match EXPR
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// Write to FILE, a new one or a device or FIFO, instead of standard output
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    debug_assert!(args.csv, "clap requires --csv");
    let filter = report::parsed(args.filter.as_deref())?;
    let filter = filter.as_ref();
    let path = args.out.as_deref().unwrap_or(Path::new("-"));
    let output = OutputFile::find(path, Existing::Stays, Naming::ByUser)?;
    match output.is_standard_output() {
        true => export(
            &args.result,
            filter,
            &mut terminal::data(),
            "standard output",
        )?,
        false => output.write(|file| {
            let name = path.display().to_string();
            let mut file = BufWriter::new(file);
            export(&args.result, filter, &mut file, &name)?;
            file.flush().context(name)
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn export(
    result: &Path,
    filter: Option<&Filter>,
    target: &mut dyn Write,
    name: &str,
) -> anyhow::Result<()> {
    let place = || result.display().to_string();
    match export_result(result, filter, target) {
        Ok(0) if filter.is_some() => Err(anyhow::anyhow!("{}: {}", place(), report::NO_MATCH)),
        Ok(_) => Ok(()),
        Err(StreamError::Read(error)) => Err(error.into()),
        Err(StreamError::Filter(wrong)) => Err(Failure::filter(&wrong, &format!("{}: ", place()))),
        // A reader that closed the pipe is not a failure; its error identifies it.
        Err(StreamError::Sink(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(error.into())
        }
        Err(StreamError::Sink(error)) => Err(error).with_context(|| name.to_owned()),
    }
}

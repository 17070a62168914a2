//! `reveille show`: prints a kept result again.

use std::path::PathBuf;
use std::process::ExitCode;

use reveille_results::Description;
use reveille_results::compare::Comparisons;
use reveille_results::show::{self as results, Views};
use reveille_resume::analysis::{Question, analyse, inputs};
use reveille_show::sheet::Sheet;
use serde::Serialize;

use crate::completion;
use crate::exit::Failure;
use crate::kept::{self, Kept, Visit};
use crate::output_format::{Printed, To};
use crate::report;

/// Print a kept result again.
///
/// Prints it as the command that made it did. Takes what `measure`, `cost`, `path`, `trial`, `anticipate
/// bench` or `resume capture` kept, and what `resume analyze --json` printed: the kind is found by the
/// content. Several results of `measure` are compared. Changes nothing; needs no root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille show RESULT                  a result of any command, such as measure or cost
  reveille show resume.json             what `resume analyze --json` printed
  reveille show before after            two results of measure: what differs
  reveille show RESULT --json | jq .statistics
  reveille show A B --json | jq .comparisons
  reveille show RESULT --page           as `reveille report RESULT`")]
pub struct Args {
    /// Result folders or files; several only of `measure`
    #[arg(required = true, value_name = "RESULT", add = completion::kept(kept::is_kept))]
    results: Vec<PathBuf>,
    /// Use only datapoints that match EXPR
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Write a page that opens in a browser, as `reveille report` does
    #[arg(long, conflicts_with_all = ["json", "markdown", "all"])]
    page: bool,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.page {
        return report::run(report::Args::new(args.results, args.filter));
    }
    let filter = report::parsed(args.filter.as_deref())?;
    for result in &args.results {
        let found = kept::find(result)?;
        let is_measured = matches!(found, Kept::Measured);
        if !is_measured && (args.results.len() > 1 || filter.is_some()) {
            return Err(Failure::usage(format!(
                "{}: only results of `measure` can be combined or filtered",
                result.display()
            )));
        }
        match found {
            Kept::Measured => continue,
            Kept::Captured => {
                let analysis = analyse(inputs(&args.results, &[])?, &Question::default())?;
                let sheet = reveille_resume::show::sheet(&analysis, None);
                args.printed.print(&analysis, &sheet, To::Output)?;
            }
            Kept::File(file, kind) => kind.read(&file, Print(&args.printed))??,
        }
        return Ok(ExitCode::SUCCESS);
    }
    measured(&args, report::inputs(&args.results, filter.as_ref())?)?;
    Ok(ExitCode::SUCCESS)
}

struct Print<'a>(&'a Printed);

impl Visit for Print<'_> {
    type Out = std::io::Result<()>;
    fn visit(self, result: &impl Serialize, sheet: Sheet<'_>) -> Self::Out {
        self.0.print(result, &sheet, To::Output)
    }
}

/// One result as `measure` printed it, or several compared.
fn measured(args: &Args, inputs: Vec<results::Input>) -> anyhow::Result<()> {
    if let [one] = inputs.as_slice() {
        let (description, sheet) = (one.description(), results::summary_of(one));
        return Ok(args.printed.print(description, &sheet, To::Output)?);
    }
    let views = Views::of(&inputs)?;
    let several = Several {
        results: inputs.iter().map(results::Input::description).collect(),
        comparisons: results::comparisons(&views),
    };
    let sheet = results::sheet(&views, None);
    Ok(args.printed.print(&several, &sheet, To::Output)?)
}

/// Several results, as `--json` prints them.
#[derive(Serialize)]
struct Several<'a> {
    results: Vec<&'a Description>,
    /// Of each but the first with the first, in their order.
    comparisons: Vec<Comparisons>,
}

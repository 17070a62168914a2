//! `reveille limit`: idle states are disabled while a command runs, or until they are restored.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reveille_advise::show;
use reveille_kernel::limits::{self, Limit, Plan};
use reveille_kernel::{Idle, Journal, journal};

use crate::command::As;
use crate::completion;
use crate::exit::{self, Failure};
use crate::flags;
use crate::held::Until;
use crate::output_format::{Printed, To};
use crate::restore;
use crate::value::{self, CpuList};

/// Disable idle states while a command runs, or until `reveille restore`.
///
/// Names are matched CPU by CPU, in any case. With --deepest, CPUs that lack a state of that name
/// (the other kind of core of a hybrid) keep states with at most its exit latency; a named
/// state that was off is enabled. With --disable, CPUs that lack a state have nothing to disable.
/// Without a command it lasts until Ctrl-C. Needs root. Every setting is restored at the end; after
/// kill -9, by the next start of any command.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
#[command(after_help = "\
Examples:
  sudo reveille limit --deepest C1E -- ./server         no state deeper than C1E
  sudo reveille limit --disable C6,C8 --cpu 0-3         until Ctrl-C
  sudo reveille limit --deepest C1 --keep               until `reveille restore`, or the next boot
  reveille limit --deepest C1 --dry-run                 what it would set; changes nothing
  reveille states                                       the names, and what is off now")]
pub struct Args {
    /// The deepest state that is allowed
    #[arg(long, value_name = "NAME", group = "what", add = completion::states())]
    deepest: Option<String>,
    /// States to disable, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', group = "what", add = completion::states())]
    disable: Vec<String>,
    /// Only these CPUs, as a list such as 0-3,8 [default: all]
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    cpu: Option<CpuList>,
    /// Keep the limit until `reveille restore` or the next boot
    #[arg(long, conflicts_with_all = ["command", "dry_run"])]
    keep: bool,
    /// Print what would be set, and change nothing; needs no root
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: a recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    root: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run, after --
    #[arg(last = true, value_name = "COMMAND", add = completion::command(), conflicts_with_all = ["json", "markdown", "all"])]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = flags::root(args.root.as_deref())?;
    let idle = Idle::read(&root)?;
    let cpus = flags::cpus(&idle, args.cpu.as_ref())?;
    let limit = match args.deepest {
        Some(name) => Limit::Deepest(name),
        None => Limit::Disable(args.disable),
    };
    let plan = Plan::of(&root, &idle, &cpus, &limit)?;
    let print = |until| {
        let statement = show::limit(&plan, until);
        args.printed.print(&plan, &statement.sheet, To::Output)
    };
    if args.dry_run {
        print("")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::new(&root, Path::new(journal::FOLDER));
    if args.keep {
        if let Some(why) = plan.without_effect {
            return Err(Failure::cannot(format!("--keep: {why}")));
        }
        limits::apply(&mut journal, &plan.settings)?;
        // First: a limit that could not be reported is not kept.
        if let Err(error) = print("Kept until `reveille restore` or the next boot.") {
            return restore::at_the_end(journal, Err(exit::statement_not_written(error)));
        }
        journal.keep()?;
        return Ok(ExitCode::SUCCESS);
    }
    let until = Until::prepare(&args.command, &args.user)?;
    limits::apply(&mut journal, &plan.settings)?;
    let statement = show::limit(&plan, "Limited until Ctrl-C.");
    until.hold(&plan, &statement, &args.printed, journal)
}

//! `reveille limit`: idle states are disabled while a command runs, or until they are restored.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reveille_kernel::limits::{self, Limit, LimitedGroup, Plan};
use reveille_kernel::{Idle, Journal, cpulist, journal};

use crate::chosen::{self, CpuList};
use crate::command::As;
use crate::exit::{self, Failure};
use crate::restore;
use crate::until::{Statement, Until};
use reveille_show::table::{Side, Table};

/// Disable idle states while a command runs, or until `reveille restore`.
///
/// Names are matched CPU by CPU, in any case. With --deepest, CPUs that lack a state of that name
/// (the other kind of core of a hybrid) keep states with at most its exit latency; a named
/// state that was off is enabled. With --disable, CPUs that lack a state have nothing to disable.
/// Without a command it lasts until Ctrl-C. Needs root. All is put back at the end; after kill -9,
/// by the next start of any command.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
#[command(after_help = "\
Examples:
  sudo reveille limit --deepest C1E -- ./server         no state deeper than C1E
  sudo reveille limit --disable C6,C8 --cpu 0-3         until Ctrl-C
  sudo reveille limit --deepest C1 --keep               until `reveille restore`, or the next boot
  reveille limit --deepest C1 --dry-run                 what it would set; changes nothing
  reveille states                                       the names, and what is off now

The exit code is the command's, or 128 and the number of the signal that ended it. Without a
command, ending it (Ctrl-C, SIGTERM) is success.")]
pub struct Args {
    /// The deepest state that is allowed
    #[arg(long, value_name = "NAME", group = "what")]
    deepest: Option<String>,
    /// States to disable, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', group = "what")]
    disable: Vec<String>,
    /// Only these CPUs, as a list such as 0-3,8 [default: all]
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
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
    /// Print JSON; units are in the names
    #[arg(long, conflicts_with = "command")]
    json: bool,
    #[command(flatten)]
    user: As,
    /// A command to run, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = chosen::root(args.root.as_deref())?;
    let idle = Idle::read(&root)?;
    let cpus = chosen::cpus(&idle, args.cpu.as_ref())?;
    let limit = match args.deepest {
        Some(name) => Limit::Deepest(name),
        None => Limit::Disable(args.disable),
    };
    let plan = Plan::of(&root, &idle, &cpus, &limit)?;
    if args.dry_run {
        plan.print(args.json, "")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::new(&root, Path::new(journal::FOLDER));
    if args.keep {
        if let Some(why) = plan.without_effect {
            return Err(Failure::cannot(format!("--keep: {why}")));
        }
        limits::apply(&mut journal, &plan.settings)?;
        // First: a limit that could not be reported is not kept.
        let until = "Kept until `reveille restore` or the next boot.";
        if let Err(error) = plan.print(args.json, until) {
            return restore::at_the_end(journal, Err(exit::unsaid(error)));
        }
        journal.keep()?;
        return Ok(ExitCode::SUCCESS);
    }
    let until = Until::prepare(&args.command, &args.user)?;
    limits::apply(&mut journal, &plan.settings)?;
    until.hold(&plan, args.json, "Limited until Ctrl-C.", journal)
}

impl Statement for Plan {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (nth, group) in self.groups.iter().enumerate() {
            if nth > 0 {
                writeln!(out)?;
            }
            let kind = group.core_kind.as_ref();
            let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
            writeln!(out, "{}{kind}", cpulist::named(&group.cpus))?;
            table(group).write(out)?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let line = |group: &LimitedGroup| {
            let states = group.states.iter();
            let off = states.filter(|state| state.disabled == Some(true));
            let off: Vec<&str> = off.map(|state| state.name.as_str()).collect();
            let cpus = cpulist::named(&group.cpus);
            match off.is_empty() {
                true => format!("{cpus}: no state is disabled"),
                false => format!("{cpus}: disabled are {}", off.join(", ")),
            }
        };
        self.groups.iter().map(line).collect()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn table(group: &LimitedGroup) -> Table {
    let mut table = Table::new(&[
        ("#", "", Side::Right),
        ("state", "", Side::Left),
        ("exit", "µs", Side::Right),
        ("was", "", Side::Left),
        ("limited", "", Side::Left),
    ]);
    let on = |disabled: Option<bool>| match disabled {
        Some(true) => "off",
        Some(false) => "on",
        None => "-",
    };
    for state in &group.states {
        let exit = state.exit_latency_us;
        table.row([
            state.index.to_string(),
            state.name.clone(),
            exit.map_or_else(|| "-".into(), |us| us.to_string()),
            on(state.was_disabled).to_owned(),
            on(state.disabled).to_owned(),
        ]);
    }
    table
}

//! `reveille limit`: idle states are disabled while a command runs, or until they are restored.

mod plan;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reveille_kernel::limits::{self, Limit};
use reveille_kernel::{Idle, Journal, journal};

use crate::chosen::{self, CpuList};
use crate::command::As;
use crate::exit::{self, Failure};
use crate::restore;
use crate::until::Until;
use plan::{Group, Plan};
use reveille_show::table::{Side, Table};
use reveille_show::terminal;

/// Disable idle states while a command runs, or until `reveille restore`.
///
/// Names are matched CPU by CPU, in any case. With --deepest, CPUs that lack a state of that name
/// (the other kind of core of a hybrid) keep what wakes as quickly by the driver's table; a named
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
command, being told to end (Ctrl-C, SIGTERM) is success.")]
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
    /// Leave it so, until `reveille restore` or the next boot
    #[arg(long, conflicts_with_all = ["command", "dry_run"])]
    keep: bool,
    /// Say what would be set, and change nothing; needs no root
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: a recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    root: Option<PathBuf>,
    /// Say it as JSON: units are in the names
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
    let plan = Plan::make(&root, &idle, &cpus, &limit)?;
    let out = &mut terminal::stdout();
    if args.dry_run {
        write(&plan, args.json, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::new(&root, Path::new(journal::FOLDER));
    if args.keep {
        if let Some(why) = plan::without_effect(&idle) {
            return Err(Failure::cannot(format!("--keep: {why}")));
        }
        limits::apply(&mut journal, &plan.settings)?;
        // Said first: what could not be said is not kept.
        let until = "Kept until `reveille restore` or the next boot.";
        if let Err(error) = state(&plan, args.json, until, out) {
            return restore::at_the_end(journal, Err(error));
        }
        journal.keep()?;
        return Ok(ExitCode::SUCCESS);
    }
    let until = Until::prepare(&args.command, &args.user)?;
    limits::apply(&mut journal, &plan.settings)?;
    let stated = match until.is_command() {
        true => {
            in_short(&plan);
            Ok(())
        }
        false => state(&plan, args.json, "Limited until Ctrl-C.", out),
    };
    let ended = stated.and_then(|()| until.over());
    restore::at_the_end(journal, ended)
}

/// What is limited, and until when.
fn state(plan: &Plan, json: bool, until: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let mut stated = || {
        write(plan, json, out)?;
        if !json {
            writeln!(out, "\n{until}")?;
        }
        out.flush()
    };
    stated().map_err(exit::unsaid)
}

fn write(plan: &Plan, json: bool, out: &mut impl Write) -> std::io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, plan).map_err(std::io::Error::from)?;
        return writeln!(out);
    }
    for (nth, group) in plan.groups.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        let kind = group.core_kind.as_ref();
        let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
        writeln!(out, "{}{kind}", chosen::named(&group.cpus))?;
        table(group).write(out)?;
    }
    if !plan.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &plan.notes {
        writeln!(out, "Note: {note}.")?;
    }
    Ok(())
}

fn table(group: &Group) -> Table {
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

/// On standard error, since standard output is the command's.
fn in_short(plan: &Plan) {
    for group in &plan.groups {
        let off = group
            .states
            .iter()
            .filter(|state| state.disabled == Some(true));
        let off: Vec<&str> = off.map(|state| state.name.as_str()).collect();
        let cpus = chosen::named(&group.cpus);
        match off.is_empty() {
            true => exit::say(format_args!("{cpus}: no state is disabled")),
            false => exit::say(format_args!("{cpus}: disabled are {}", off.join(", "))),
        }
    }
    for note in &plan.notes {
        exit::say(note);
    }
}

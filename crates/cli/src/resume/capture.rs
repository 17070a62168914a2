//! `reveille resume capture`: a real suspend, with the kernel telling what it does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Identity, Root, journal};
use reveille_resume::analysis::{Question, analyse, inputs};
use reveille_resume::capture::{self, Mode, Options};
use reveille_resume::show;

use crate::exit::{self, say};
use crate::keeping;
use crate::printed::{Printed, To};
use crate::signals;

/// Suspend this machine for real, wake it by an alarm, and find where the time went.
///
/// Everything on this machine stands still meanwhile; what is open over the network may break off.
/// The kernel is made to tell what it does (/sys/power/pm_print_times, pm_debug_messages, and an
/// instance of its tracer), the alarm of the real-time clock is set, and the machine is suspended.
/// Kept are the kernel's log, its trace and capture.json; then they are analysed. Every setting is
/// put back in the end; after kill -9, by the next start of any command. Refuses, and says why,
/// where the machine cannot suspend or its alarm cannot wake it. Needs root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille resume capture                             as this machine sleeps by default
  sudo reveille resume capture --mode mem --repeat 10 --out before
  sudo reveille resume capture --mode freeze --wake-after 30s
  reveille resume analyze before --without 'snd*'          what if, of a capture

Ctrl-C ends it after the running cycle, and what was captured is kept (exit code 130).")]
pub struct Args {
    /// mem (suspend to RAM), freeze (suspend to idle) or standby [default: what this machine does
    /// by default]
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// The alarm rings so long after the suspend begins; whole seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    wake_after: Duration,
    /// So many cycles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repeat: u64,
    /// Where to keep it [default: reveille-results/HOST-TIME-capture]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Suspend a virtual machine: its host may never wake it
    #[arg(long)]
    virtual_machine: bool,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let options = Options {
        mode: args.mode,
        wake_after: args.wake_after,
        repeat: args.repeat as usize,
        folder: args.out.clone().unwrap_or_else(default_folder),
        naming: keeping::naming(args.out.as_deref()),
        journal_folder: journal::FOLDER.into(),
        virtual_machine: args.virtual_machine,
    };
    // While the machine sleeps no signal arrives: the running cycle is always ended.
    let stop = signals::stop()?;
    // On standard error: standard output is for the analysis.
    let record = capture::run(&root, &options, &stop, &mut |progress| {
        capture::show::progress(&progress).iter().for_each(say);
    })?;
    let lines = capture::show::conclusion(&record, &options.folder);
    lines.iter().for_each(say);
    let asleep_once = record.cycles.iter().any(|cycle| cycle.error.is_none());
    if record.cycles.is_empty() {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let analysis = analyse(inputs(&[options.folder], &[])?, &Question::default())?;
    let printed = args
        .printed
        .print(&analysis, &show::sheet(&analysis, None), To::Output);
    exit::reader_may_leave(printed)?;
    Ok(match (record.interrupted, asleep_once) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (_, false) => ExitCode::FAILURE,
        _ if !record.left_changed.is_empty() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn default_folder() -> PathBuf {
    let folder = keeping::default_folder(&Identity::read(&Root::default()), SystemTime::now());
    let mut name = folder.into_os_string();
    name.push("-capture");
    name.into()
}

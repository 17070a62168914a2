//! `reveille resume capture`: a real suspend, logged and traced.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Identity, Root, journal};
use reveille_resume::analysis::{Question, analyse, inputs};
use reveille_resume::capture::{self, Mode, Options};
use reveille_resume::show;

use crate::completion;
use crate::exit::{self, say};
use crate::flags;
use crate::output_format::{Printed, To};
use crate::signals;
use crate::value;

/// Suspend this machine, wake it by an alarm, and show where the time went.
///
/// The whole machine stops meanwhile; network connections may break. The command enables the
/// kernel's messages and trace events on suspend (/sys/power/pm_print_times, pm_debug_messages, an
/// instance of the tracer), sets the alarm of the real-time clock, and suspends. It keeps the kernel's
/// log, its trace and capture.json, and analyses them. It restores every setting at the end; after
/// kill -9 the next start of any command does. It refuses if the machine cannot suspend or its alarm
/// cannot wake it, with the reason. Needs root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille resume capture                             as this machine sleeps by default
  sudo reveille resume capture --mode mem --repeat 10 --out before
  sudo reveille resume capture --mode freeze --wake-after 30s
  reveille resume analyze before --without 'snd*'          what if, of a capture

Ctrl-C ends it after the current cycle and keeps what was captured (exit code 130).")]
pub struct Args {
    /// mem (suspend to RAM), freeze (suspend to idle) or standby [default: the machine's default]
    #[arg(long, value_name = "MODE", add = completion::names(|| ["mem", "freeze", "standby"]))]
    mode: Option<Mode>,
    /// Time from the start of the suspend to the alarm, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = value::time("5s"))]
    wake_after: Duration,
    /// Number of cycles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::count(1..=10_000_u64))]
    repeat: u64,
    /// Where to keep it [default: reveille-results/HOST-TIME-capture]
    #[arg(short, long, value_name = "FOLDER")]
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
        naming: flags::naming(args.out.as_deref()),
        journal_folder: journal::FOLDER.into(),
        virtual_machine: args.virtual_machine,
    };
    // No signal arrives while the machine sleeps: the current cycle is always completed.
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
    let folder = flags::default_folder(&Identity::read(&Root::default()), SystemTime::now());
    let mut name = folder.into_os_string();
    name.push("-capture");
    name.into()
}

//! `reveille resume capture`: a real suspend, with the kernel telling what it does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Identity, Root, journal};
use reveille_resume::analysis::counted;
use reveille_resume::capture::{self, CycleRecord, Mode, Options, Progress, Record};

use super::analyze;
use crate::chosen;
use crate::exit::{self, say};
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
    /// Print the analysis as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let options = Options {
        mode: args.mode,
        wake_after: args.wake_after,
        repeat: args.repeat as usize,
        folder: args.out.clone().unwrap_or_else(default_folder),
        naming: chosen::naming(args.out.as_deref()),
        journal_folder: journal::FOLDER.into(),
        virtual_machine: args.virtual_machine,
    };
    // While the machine sleeps no signal arrives: the running cycle is always ended.
    let stop = signals::stop()?;
    let record = capture::run(&root, &options, &stop, &mut |progress| tell(&progress));
    let record = record?;
    conclude(&record, &options.folder);
    let asleep_once = record.cycles.iter().any(|cycle| cycle.error.is_none());
    if record.cycles.is_empty() {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let analysed = match analyze::run(&analyze::Args::of_folder(&options.folder, args.json)) {
        // The exit code still says how the suspends went.
        Err(error) if exit::reader_left(&error) => ExitCode::SUCCESS,
        analysed => analysed?,
    };
    Ok(match (record.interrupted, asleep_once) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (_, false) => ExitCode::FAILURE,
        _ if !record.left_changed.is_empty() => ExitCode::FAILURE,
        _ => analysed,
    })
}

fn default_folder() -> PathBuf {
    let folder = chosen::default_folder(&Identity::read(&Root::default()), SystemTime::now());
    let mut name = folder.into_os_string();
    name.push("-capture");
    name.into()
}

/// On standard error: what the analysis says is for standard output.
fn tell(progress: &Progress<'_>) {
    match progress {
        Progress::Suspending { record, number: 1 } => {
            for note in &record.notes {
                say(note);
            }
            let times = match record.cycles_asked {
                1 => "once".to_owned(),
                several => format!("{several} times"),
            };
            say(format_args!(
                "suspending this machine ({}) {times}; the alarm of {} wakes it after {} s",
                record.sleep, record.alarm, record.wake_after_s
            ));
        }
        Progress::Suspending { .. } => {}
        Progress::Awake(cycle) => say(became(cycle)),
    }
}

fn became(cycle: &CycleRecord) -> String {
    let number = cycle.number;
    if let Some(error) = &cycle.error {
        return format!("cycle {number}: the kernel did not suspend: {error}");
    }
    let seconds = |micros: i64| micros as f64 / 1e6;
    let woken = match (cycle.alarm_rang, cycle.wakeup_irq) {
        (Some(false), Some(irq)) => format!(", woken before the alarm by interrupt {irq}"),
        (Some(false), None) => ", woken before the alarm by something else".to_owned(),
        _ => String::new(),
    };
    format!(
        "cycle {number}: asleep {:.1} s{woken}; {:.3} s to suspend and resume",
        seconds(cycle.asleep_us),
        seconds(cycle.awake_us)
    )
}

fn conclude(record: &Record, folder: &Path) {
    let lost: u64 = record.cycles.iter().map(|cycle| cycle.log_lost).sum();
    if lost > 0 {
        say(format_args!(
            "{lost} records of the kernel's log were written over before they could be read; a \
             larger one is had by log_buf_len=16M on the kernel's command line"
        ));
    }
    let lost: u64 = record.cycles.iter().map(|cycle| cycle.trace_lost).sum();
    if lost > 0 {
        say(format_args!("{lost} events of the trace were written over"));
    }
    for setting in &record.left_changed {
        say(format_args!(
            "{setting}; it could not be put back, `sudo reveille restore` tries again"
        ));
    }
    if record.interrupted {
        say(format_args!(
            "ended after {} of {}",
            record.cycles.len(),
            counted(record.cycles_asked, "cycle")
        ));
    }
    say(format_args!("kept in {}", folder.display()));
}

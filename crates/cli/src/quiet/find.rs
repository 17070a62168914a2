//! `reveille quiet find`: who wakes CPUs, and what could wait.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Root, workload};
use reveille_quiet::find::{self, FILE, Foreground, Found, SCHEMA_VERSION, Stopped, show};
use reveille_results::description::Ended;
use reveille_show::progress::Bar;
use reveille_trial::setting::Machine;

use crate::comparison::Kept;
use crate::{completion, signals, value};

/// Show who wakes CPUs, which of that could wait, and what this would save.
///
/// BPF programs record for some seconds when CPUs sleep, and who is made runnable by what. Then the same times are
/// taken with some wake-ups delayed. Real-time threads, users of sound, input and watchdog devices, the kernel, and what
/// others are woken by are not to be delayed. Changes nothing. Needs root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille quiet find
  sudo reveille quiet find --within 1s --duration 1min
  sudo reveille quiet find --foreground system.slice/nginx.service   only what wakes nginx is kept
  sudo reveille quiet find --out quiet; reveille report quiet

Ctrl-C ends the run and shows what was recorded so far.")]
pub struct Args {
    /// How long work may be delayed
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = super::within)]
    within: Duration,
    /// Record for this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    duration: Duration,
    /// What matters: this cgroup and those below it. Work that wakes others may wait, if it does not wake these
    #[arg(long, value_name = "G", add = completion::cgroups())]
    foreground: Option<PathBuf>,
    #[command(flatten)]
    kept: Kept,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let machine = Machine::read(root.clone())?;
    let foreground = match &args.foreground {
        None => Foreground::Anybody,
        Some(name) => {
            let (number, ..) = workload::cgroup(&root, "--foreground", name)?;
            let name = workload::cgroups(&root).remove(&number);
            Foreground::Cgroup(name.unwrap_or_default())
        }
    };
    let out = args.kept.folder(FILE)?;
    let stop = signals::stop()?;
    let started = SystemTime::now();
    let bar = Bar::new();
    let recorded = find::record(&root, &machine.idle, args.duration, &stop, Some(&bar));
    bar.clear();
    let recorded = recorded?;
    let ended = match recorded.stopped {
        Stopped::Completed => Ended::Completed,
        Stopped::Interrupted => Ended::Interrupted,
        Stopped::Full => Ended::Disturbed("as many events as can be kept".to_owned()),
    };
    let about = (args.kept).about(
        SCHEMA_VERSION,
        &machine,
        "quiet find",
        started,
        ended.clone(),
    );
    let found = Found::of(about, &recorded, &foreground, args.within.as_nanos() as u64);
    let out = (FILE, out.as_ref());
    args.kept.print(found, &ended, out, |_| {}, show::sheet)
}

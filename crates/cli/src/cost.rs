//! `reveille cost`: a workload's wake-ups are followed, and what waiting for sleeping CPUs cost it
//! is said.

#[cfg(feature = "bpf")]
mod follow;
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
pub(crate) mod subject;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_advise::MachineResult;
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Identity, Idle, Root, requests};
use reveille_results::output::{Existing, Folder};
use reveille_watch::cost::{About, Cost, Ended, FILE, Tallies, show};

use crate::chosen;
use crate::command::As;
use crate::exit;
use crate::printed::{Printed, To};
#[cfg(feature = "bpf")]
use follow::follow;

/// Tell how much time a workload loses waiting for CPUs to wake.
///
/// A CPU that is leaving an idle state executes nothing, so no profiler shows it. BPF programs
/// follow every wake-up of the workload's tasks: was a CPU asleep in the way, in which state, and
/// how long until the task ran. Says what each state cost, and what it would regain to forbid it.
/// Nothing is changed. Needs root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("workload").required(true).args(["pid", "cgroup", "all", "command"]))]
#[command(after_help = "\
Examples:
  sudo reveille cost -- ./benchmark --threads 4     until it ends; the table on standard error
  sudo reveille cost --user root -- ./needs-root    under sudo a command runs as who called sudo
  sudo reveille cost --pid 4711 --duration 1min     a running process, with its threads
  sudo reveille cost --cgroup system.slice/nginx.service
  sudo reveille cost --all --out costs; reveille report costs
  sudo reveille cost --pid 4711 --out costs --stacks; flamegraph.pl costs/stacks.folded

With a command the exit code is the command's, and --json goes to standard output after the
command's own: with --out it is kept in a file. Otherwise Ctrl-C ends the following, and what was
gathered until then is said (exit code 130). Without a command, no wake-up at all is exit code 1.")]
pub struct Args {
    /// Follow this process: its threads, and what it starts from now on
    #[arg(long, value_name = "P", conflicts_with = "user")]
    pid: Option<u32>,
    /// Follow the tasks of this cgroup and of those below it: its folder, or its path in cgroup2
    #[arg(long, value_name = "G", conflicts_with = "user")]
    cgroup: Option<PathBuf>,
    /// Follow all tasks
    #[arg(long, conflicts_with = "user")]
    all: bool,
    /// Follow for this time [default: a command, until it ends; others 30s, or until they end]
    #[arg(long, value_name = "TIME", value_parser = chosen::duration)]
    duration: Option<Duration>,
    /// A result of `measure`: estimates waits for CPUs that a device woke, by what was measured
    #[arg(long, value_name = "DIR")]
    result: Option<PathBuf>,
    /// Folder to keep cost.json in, for `reveille report`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the wakers' stacks, user and kernel, weighted by the µs waited: folded, as flame graphs
    /// take them, in stacks.folded beside cost.json. Costs a µs or more at each wake-up
    #[arg(long, requires = "out")]
    stacks: bool,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run and follow, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let idle = Idle::read(&root)?;
    let measured = match &args.result {
        Some(folder) => Some((
            folder.display().to_string(),
            MachineResult::description(folder, &idle)?.0,
        )),
        None => None,
    };
    let files = if args.stacks {
        &[FILE, STACKS][..]
    } else {
        &[FILE]
    };
    let out = chosen::output_folder(args.out.as_deref(), files)?;
    let started = SystemTime::now();
    let followed = follow(&args, &idle)?;
    let cost = Cost::of(
        &followed.tallies,
        About {
            subject: reveille_watch::cost::Subject {
                tool: format!("reveille {}", env!("CARGO_PKG_VERSION")),
                started: humantime::format_rfc3339_seconds(started).to_string(),
                command_line: std::env::args().collect(),
                workload: followed.workload,
                ended: followed.ended,
                machine: Identity::read(&root),
                driver: idle.driver.clone(),
                governor: idle.governor.clone(),
            },
            honours_requests: requests::honoured(&idle),
            interrupts: Interrupts::read(&root),
            measured,
        },
    );
    let kept = match &out {
        Some(out) => keep(out, &cost, followed.stacks.as_deref()),
        None => Ok(()),
    };
    // What was followed is said, even if it could not be kept.
    let folder = out.as_ref().filter(|_| kept.is_ok());
    let mut sheet = show::sheet(&cost);
    if let Some(folder) = folder {
        sheet.fact("Kept in", folder.path().display().to_string());
    }
    // A command's standard output is its own.
    let to = match args.command.is_empty() {
        true => To::Output,
        false => To::Error,
    };
    let said = args.printed.print(&cost, &sheet, to);
    kept?;
    exit::reader_may_leave(said)?;
    if cost.wakeups == 0 && args.command.is_empty() && followed.ended != Ended::Interrupted {
        anyhow::bail!(
            "no wake-up was seen: {} ran without a pause, or not at all",
            cost.subject.workload
        );
    }
    Ok(followed.code)
}

/// What was followed to its end.
struct Followed {
    tallies: Tallies,
    workload: String,
    ended: Ended,
    code: ExitCode,
    stacks: Option<String>,
}

#[cfg(not(feature = "bpf"))]
fn follow(_: &Args, _: &Idle) -> anyhow::Result<Followed> {
    let why = "following wake-ups needs BPF, and this program was built without it; build it with \
               clang and libbpf-dev";
    Err(reveille_kernel::Error::Cannot(why.into()).into())
}

/// The folded stacks, beside cost.json.
const STACKS: &str = "stacks.folded";

fn keep(out: &Folder, cost: &Cost, stacks: Option<&str>) -> anyhow::Result<()> {
    if let Some(stacks) = stacks {
        out.write(STACKS, Existing::Stays, stacks.as_bytes())?;
    }
    let mut json = serde_json::to_vec_pretty(cost)?;
    json.push(b'\n');
    out.write(FILE, Existing::Stays, &json)?;
    Ok(())
}

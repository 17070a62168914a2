//! The arguments of `reveille cost`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::As;
use crate::completion;
use crate::output_format::Printed;
use crate::value;

/// Show how much time a workload loses waiting for CPUs to wake.
///
/// A CPU that is leaving an idle state executes nothing, so no profiler shows it. BPF programs
/// follow every wake-up of the workload's tasks: was a CPU asleep in the way, in which state, and
/// how long until the task ran. Reports what each state cost, and what forbidding it would save.
/// Changes nothing. Needs root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("workload").required(true).args(["pid", "cgroup", "all_tasks", "command"]))]
#[command(after_help = "\
Examples:
  sudo reveille cost -- ./benchmark --threads 4     until it ends; the table on standard error
  sudo reveille cost --user root -- ./needs-root    as root, not as the user who called sudo
  sudo reveille cost --pid 4711 --duration 1min     a running process, with its threads
  sudo reveille cost --cgroup system.slice/nginx.service
  sudo reveille cost --all-tasks --out costs; reveille report costs
  sudo reveille cost --pid 4711 --out costs --stacks; flamegraph.pl costs/stacks.folded

With a command, --json follows the command's own output; --out keeps it in a file. Ctrl-C ends the
run and prints the figures so far.")]
pub struct Args {
    /// Follow this process: its threads, and what it starts from now on
    #[arg(long, value_name = "P", conflicts_with = "user", value_parser = value::process, add = completion::processes())]
    pub pid: Option<u32>,
    /// Follow the tasks of this cgroup and of those below it: its folder, or its path in cgroup2
    #[arg(long, value_name = "G", conflicts_with = "user", add = completion::cgroups())]
    pub cgroup: Option<PathBuf>,
    /// Follow all tasks
    #[arg(long, conflicts_with = "user")]
    pub all_tasks: bool,
    /// Follow for this time [default: a command, until it ends; others 30s, or until they end]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    pub duration: Option<Duration>,
    /// A result of `measure`, to estimate waits for CPUs that a device woke
    #[arg(long, value_name = "DIR", add = completion::results())]
    pub result: Option<PathBuf>,
    /// Folder to keep cost.json in, for `reveille report`
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep the wakers' stacks, user and kernel, weighted by the µs waited: folded, as flame graphs
    /// take them, in stacks.folded beside cost.json. Costs a µs or more at each wake-up
    #[arg(long, requires = "out")]
    pub stacks: bool,
    #[command(flatten)]
    pub printed: Printed,
    #[command(flatten)]
    pub user: As,
    /// A command to run and follow, after --
    #[arg(last = true, value_name = "COMMAND", add = completion::command())]
    pub command: Vec<OsString>,
}

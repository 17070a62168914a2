//! `reveille anticipate`: anticipatory wake-up.

mod bench;
mod live;
#[cfg(feature = "bpf")]
mod screen;

use std::process::ExitCode;

/// Wake CPUs just before the I/O that tasks wait for is complete.
///
/// When a read or a synchronous write is issued, its completion is predicted from the device's earlier
/// requests. A timer wakes the CPU on which a task waits a little earlier, and the CPU stays awake until
/// the completion, or until the end of the request's window. Nothing is patched and applications run
/// unchanged; nothing is left when the command ends. Applications that can predict their events better
/// announce them on a socket. Runs until Ctrl-C. Needs root.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sudo reveille anticipate                              all disks, reads and writes
  sudo reveille anticipate --device nvme0n1 --op read --budget 10%
  sudo reveille anticipate --pid 4711 --accounting
  sudo reveille anticipate --cgroup system.slice/postgresql.service
  sudo reveille anticipate --result RESULT              first leads from measured wake latencies
  sudo reveille anticipate --duration 1min --json       statistics at the end
  sudo reveille anticipate bench                        the benefit on this machine, and its cost")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,
    #[command(flatten)]
    live: live::Args,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    Bench(Box<bench::Args>),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Subcommand::Bench(args)) => bench::run(*args),
        None => live::run(&args.live),
    }
}

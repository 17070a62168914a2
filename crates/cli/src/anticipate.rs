//! `reveille anticipate`: anticipatory wake-up.

mod bench;
mod hint;
mod live;
#[cfg(feature = "bpf")]
mod screen;

use std::process::ExitCode;

/// Wake CPUs just before the I/O that tasks wait for is complete, or a packet arrives.
///
/// When a read or a synchronous write is issued, its completion is predicted from the device's earlier
/// requests. A timer wakes the CPU on which a task waits a little earlier, and the CPU stays awake until
/// the completion, or until the end of the request's window. With --nic, packets that arrive
/// periodically (voice, games, market data, scrapes) are anticipated as well; with --hints, requests
/// that clients on other machines announce. Nothing is patched and applications run
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
  sudo reveille anticipate --nic eth0                   packets that arrive periodically
  sudo reveille anticipate --hints 10.0.0.1:7171 --allow 10.0.0.0/24
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
    Hint(hint::Args),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Subcommand::Bench(args)) => bench::run(*args),
        Some(Subcommand::Hint(args)) => hint::run(&args),
        None => live::run(&args.live),
    }
}

//! `reveille anticipate`: waking in time.

#[cfg(feature = "bpf")]
mod applications;
mod bench;
#[cfg(feature = "bpf")]
mod engine;
#[cfg(not(feature = "bpf"))]
#[path = "anticipate/without_bpf.rs"]
mod engine;
#[cfg(feature = "bpf")]
mod live;
#[cfg(feature = "bpf")]
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use reveille_anticipate::{Operation, Readiness};
use reveille_expect::server::MOST_CLIENTS;

/// Wake CPUs just before the I/O that somebody waits for is complete.
///
/// When a read or a synchronous write is issued, its completion is predicted by what the device took
/// before; a timer wakes the CPU on which somebody waits a little earlier, and keeps it awake until
/// the completion, or until the window that was opened for it ends. Nothing is patched, applications
/// are unchanged; when this command ends, nothing of it is left. Applications that know better when
/// they will want a CPU say so on a socket. Runs until Ctrl-C. Needs root.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sudo reveille anticipate                              all disks, reads and writes
  sudo reveille anticipate --device nvme0n1 --op read --budget 10%
  sudo reveille anticipate --pid 4711 --accounting
  sudo reveille anticipate --cgroup system.slice/postgresql.service
  sudo reveille anticipate --result RESULT              first leads by what was measured
  sudo reveille anticipate --duration 1min --json       what it did, at the end
  sudo reveille anticipate bench                        what it gains here, and what it costs")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,
    /// Only this disk; may be given again [default: all]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Only these operations
    #[arg(
        long,
        value_name = "OPERATION",
        value_delimiter = ',',
        default_value = "read,write",
        value_parser = parse_operation
    )]
    op: Vec<Operation>,
    /// Only requests of this process, with its threads
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pid: Option<u32>,
    /// Only requests of this cgroup (version 2) and those below it
    #[arg(long, value_name = "CGROUP")]
    cgroup: Option<PathBuf>,
    /// Share of a CPU's time that it may be kept awake
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_share)]
    budget: f64,
    /// Share of all CPUs' time together [default: as for each]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    budget_in_all: Option<f64>,
    /// Share of requests left alone at random, to compare with
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_share)]
    control: f64,
    /// Wake so long before the completion [default: learnt from how late timers come]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lead: Option<Duration>,
    /// A result of `measure`: leads begin with what was measured, not with the driver's table
    #[arg(long, value_name = "RESULT", conflicts_with = "lead")]
    result: Option<PathBuf>,
    /// Keep a CPU ready awake, by a kernel thread or in a softirq, or in naps: asleep in a shallow
    /// state, for timers soon expire
    #[arg(long, value_name = "HOW", default_value = "chosen", value_parser = parse_readiness)]
    ready: Readiness,
    /// Length of a nap
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = humantime::parse_duration)]
    nap: Duration,
    /// End after this time [default: Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Say what it does this often [default: each second to somebody who looks]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Say for whom CPUs were kept awake, too: in time, and in joules where power can be read
    #[arg(long)]
    accounting: bool,
    /// What it did, as JSON, at the end; with --interval given, a line each time
    #[arg(long)]
    json: bool,
    /// Where applications say what they expect
    #[arg(long, value_name = "SOCKET", default_value = reveille_expect::SOCKET)]
    socket: PathBuf,
    /// Applications that may be connected at a time: an eighth is root's, of the rest a user may
    /// have a quarter
    #[arg(
        long,
        value_name = "N",
        default_value = "256",
        conflicts_with = "no_socket"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_CLIENTS.into()))]
    clients: u32,
    /// Wake-ups a second that the applications of a user other than root may cause on a CPU: an
    /// announcement takes up to three
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        conflicts_with = "no_socket"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    user_wakeups: u32,
    /// Serve no applications
    #[arg(long, conflicts_with = "socket")]
    no_socket: bool,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    Bench(Box<bench::Args>),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Subcommand::Bench(args)) => bench::run(*args),
        None => engine::live(&args),
    }
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    match text {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        _ => Err("not an operation: read, write".to_owned()),
    }
}

fn parse_readiness(text: &str) -> Result<Readiness, String> {
    match text {
        "chosen" => Ok(Readiness::Chosen),
        "thread" => Ok(Readiness::Thread),
        "softirq" => Ok(Readiness::Softirq),
        "naps" => Ok(Readiness::Napping),
        _ => Err("not a way to be ready: chosen, thread, softirq, naps".to_owned()),
    }
}

/// `5%`, from 0 to 100.
fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a share of time such as 5%, from 0% to 100%".to_owned()),
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(interval) if interval >= Duration::from_millis(100) => Ok(interval),
        Ok(_) => Err("too short: 100ms or more".to_owned()),
        Err(_) => Err("not a duration such as 1s or 500ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents_of_time() {
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share("0.5%"), Ok(0.005));
        for bad in ["5", "-1%", "101%", "NaN%", "%", "inf%"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}

//! `reveille path`: packets that reach this machine are followed, and where their time went is said.

#[cfg(feature = "bpf")]
mod follow;

use std::path::PathBuf;
use std::process::ExitCode;
#[cfg(not(feature = "bpf"))]
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_advise::MachineResult;
use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Idle, Root};
use reveille_results::Description;
use reveille_results::output::{Existing, Folder};
use reveille_watch::path::{Estimate, FILE, Path, show};

use crate::chosen;
use crate::exit::{self, Failure};
use crate::printed::{Printed, To};
use crate::signals;
#[cfg(feature = "bpf")]
use follow::follow;

/// Tell where the time goes for packets that reach this machine.
///
/// BPF programs follow each packet from its interrupt to the reply to a ping, or to the first
/// instruction of the program that it wakes, and say which idle state it met. What else makes
/// packets wait there is named, too: interrupt coalescing and affinity, power management. Nothing is
/// changed. Needs root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["ping", "nic"]))]
#[command(after_help = "\
Examples:
  sudo reveille path --ping                     while another computer runs `ping -i 0.2 THIS`
  sudo reveille path --ping --count 100 --out pings; reveille report pings
  sudo reveille path --nic eth0 --port 53       until a name server's first instruction
  sudo reveille path --ping --result RESULT     with what waking takes, by a measured result

The instant at which a packet reached the card is in no tracepoint: a row begins with the first code
that the packet made run, unless its sender runs on this machine (loopback, veth).")]
pub struct Args {
    /// Follow ICMP echo requests, until the driver has taken the reply
    #[arg(long)]
    ping: bool,
    /// Follow packets that come in at this interface and wake a reader, until its first instruction
    #[arg(long, value_name = "IF")]
    nic: Option<String>,
    /// Only packets to this TCP or UDP port
    #[arg(long, value_name = "N", conflicts_with = "ping", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// End after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = chosen::duration)]
    duration: Duration,
    /// End after N packets
    #[arg(long, value_name = "N", default_value_t = MOST, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    count: u64,
    /// A result of `measure`: what waking takes stands beside what was seen, as an estimate
    #[arg(long, value_name = "RESULT")]
    result: Option<PathBuf>,
    /// Folder to keep path.json in, for `reveille report`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
}

/// All figures of a packet are kept until the end, some 100 bytes each.
const MOST: u64 = 1_000_000;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let interface = match &args.nic {
        Some(name) => Some(interface(&root, name)?),
        None => None,
    };
    let result = match &args.result {
        Some(folder) => Some(MachineResult::description(folder, &Idle::read(&root)?)?.0),
        None => None,
    };
    let folder = chosen::output_folder(args.out.as_deref(), &[FILE])?;
    let interrupted = signals::stop()?;

    let mut path = follow(&args, &root, interface.as_ref(), &interrupted)?;
    if let Some(result) = &result {
        estimate(&mut path, result);
    }
    // An empty file would only be in the way of the next try.
    let folder = folder.filter(|_| !path.groups.is_empty());
    let kept = folder.as_ref().map_or(Ok(()), |folder| keep(folder, &path));
    let mut sheet = show::sheet(&path);
    if let Some(folder) = folder.as_ref().filter(|_| kept.is_ok()) {
        sheet.fact("Kept in", folder.path().display().to_string());
    }
    let said = args.printed.print(&path, &sheet, To::Output);
    kept?;
    exit::reader_may_leave(said)?;
    if path.interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if path.groups.is_empty() {
        anyhow::bail!("{}", show::nothing(&path));
    }
    Ok(ExitCode::SUCCESS)
}

fn interface(root: &Root, name: &str) -> anyhow::Result<Interface> {
    let Some(interface) = Interface::read(root, name) else {
        let there = network::names(root).join(", ");
        return Err(Failure::usage(format!(
            "--nic: there is no interface {name:?}; this machine has {there}"
        )));
    };
    match is_here(&interface) {
        true => Ok(interface),
        false => Err(Failure::usage(format!(
            "--nic: {name} is in /sys, but not in this network namespace; enter one with \
             `ip netns exec NAME`, which brings its /sys along"
        ))),
    }
}

/// Is /sys of the network namespace that this process is in?
fn is_here(interface: &Interface) -> bool {
    network::index_here(&interface.name) == Some(interface.index)
}

fn keep(out: &Folder, path: &Path) -> anyhow::Result<()> {
    let mut json = serde_json::to_vec_pretty(path)?;
    json.push(b'\n');
    out.write(FILE, Existing::Stays, &json)?;
    Ok(())
}

#[cfg(not(feature = "bpf"))]
fn follow(_: &Args, _: &Root, _: Option<&Interface>, _: &AtomicBool) -> anyhow::Result<Path> {
    let why = "following packets needs BPF, and this program was built without it; build it with \
               clang and libbpf-dev";
    Err(reveille_kernel::Error::Cannot(why.into()).into())
}

/// What the CPU takes to its first code, of those states that the result knows. The remote source
/// foretells its wake-ups as little as a packet does; a card's own is better still.
fn estimate(path: &mut Path, result: &Description) {
    for group in path.groups.iter_mut().filter(|group| !group.from_sender) {
        let Some(state) = &group.state else {
            continue;
        };
        let of_state = |source: &str| {
            let all = &mut result.statistics.iter();
            all.find(|one| one.state == *state && one.source == source)
        };
        let best = ["nic", "remote", "timer"].into_iter().find_map(of_state);
        group.estimate = best.map(|statistics| Estimate {
            result: result.name.clone(),
            source: statistics.source.clone(),
            median_ns: statistics.wake_latency.median_ns,
            p99_ns: statistics.wake_latency.p99_ns,
        });
    }
}

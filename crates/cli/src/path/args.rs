//! The arguments of `reveille path`.

use std::path::PathBuf;
use std::time::Duration;

use crate::completion;
use crate::output_format::Printed;
use crate::value;

/// Show where the time of incoming packets goes.
///
/// BPF programs follow each packet from its interrupt to the reply to a ping, or to the first
/// instruction of the program that it wakes, and record which idle state it met. Also reports other
/// causes of delay: interrupt coalescing and affinity, power management. Changes nothing. Needs
/// root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["ping", "nic"]))]
#[command(after_help = "\
Examples:
  sudo reveille path --ping                     while another computer runs `ping -i 0.2 THIS`
  sudo reveille path --ping --count 100 --out pings; reveille report pings
  sudo reveille path --nic eth0 --port 53       until a name server's first instruction
  sudo reveille path --ping --result RESULT     with an estimate of the wake latency

No tracepoint has the instant at which a packet reached the card: a row begins with the first code
that the packet made run, unless its sender runs on this machine (loopback, veth).")]
pub struct Args {
    /// Follow ICMP echo requests, until the driver has taken the reply
    #[arg(long)]
    pub ping: bool,
    /// Follow packets that come in at this interface and wake a reader, until its first instruction
    #[arg(long, value_name = "IF", add = completion::interfaces())]
    pub nic: Option<String>,
    /// Only packets to this TCP or UDP port: its number or a service's name, such as domain
    #[arg(long, value_name = "PORT", conflicts_with = "ping", value_parser = value::port)]
    pub port: Option<u16>,
    /// End after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = value::duration)]
    pub duration: Duration,
    /// End after N packets
    #[arg(long, value_name = "N", default_value_t = MOST, value_parser = value::count(1..=MOST))]
    pub count: u64,
    /// A result of `measure`: its wake latencies are added as an estimate
    #[arg(long, value_name = "RESULT", add = completion::results())]
    pub result: Option<PathBuf>,
    /// Folder to keep path.json in, for `reveille report`
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub printed: Printed,
}

/// All figures of a packet are kept until the end, some 100 bytes each.
const MOST: u64 = 1_000_000;

//! `reveille stage bench`: the proxy against itself.

use std::time::Duration;

use reveille_results::statistics::Percentile;
use reveille_stage::bench::Setting;
use reveille_stage::config::Upstream;

use crate::comparison::Kept;
use crate::completion;
use crate::value::{self, CpuList};

/// Compare latencies and sleep of a server under one load: as it comes, released on a grid, and staged.
///
/// An open load comes through the proxy, at instants that are drawn before, and each latency counts from that instant: a
/// slow server cannot hide what it costs. The settings take turns in shuffled order, round by round, and so does the
/// machine without load, for CPUs wake anyway. A turn in which other programs take CPU time is tried again.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille stage bench                                        a server of its own, 2 ms a request
  reveille stage bench --rounds 6 --turn 20s                  with intervals
  reveille stage bench --setting staged --surge 3 --turn 60s  a load that triples within a second
  reveille stage bench --meter rapl:package-0 --out staged    with power, and kept
  reveille stage bench --upstream http://127.0.0.1:8081 --server-cpu 2-3 --rate 200 \\
      --deadline 200ms")]
pub struct Args {
    /// The server [default: one of its own]
    #[arg(long, value_name = "URL")]
    pub upstream: Option<Upstream>,
    /// What the own server computes for each request
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = value::time("2ms"), conflicts_with = "upstream")]
    pub work: Duration,
    /// Ask the own server in HTTP/2: by one connection, whose timers wake it less often
    #[arg(long, conflicts_with = "upstream")]
    pub http2: bool,
    /// Ask the own server by a Unix socket, which has no timers
    #[arg(long, conflicts_with = "upstream")]
    pub unix: bool,
    /// The server's CPUs, whose sleep is counted; the load and the proxy run on the others [default: the last CPU]
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    pub server_cpu: Option<CpuList>,
    /// Requests a second
    #[arg(long, value_name = "RATE", default_value_t = 100.0, value_parser = rate)]
    pub rate: f64,
    /// Multiply the rate by this from the middle of each turn on: it rises within a second
    #[arg(long, value_name = "TIMES", value_parser = surge)]
    pub surge: Option<f64>,
    /// Requests a second that others send to the server, past the proxy, in every setting
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub beside: Option<f64>,
    /// What takes turns, of no-load, direct, grid and staged [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = setting)]
    pub setting: Vec<Setting>,
    /// Each request's deadline
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = value::time("500ms"))]
    pub deadline: Duration,
    /// The share of requests that is to keep to it: 90, 99, 99.9 or 99.99
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = super::percentile)]
    pub percentile: Percentile,
    /// The grid's step
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = value::time("250ms"))]
    pub grid: Duration,
    /// Rounds; intervals need 6
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// How long each turn counts, after 2 s of warm-up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time_within("10s", Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub turn: Duration,
    /// Seed of the order of turns and of the load [default: by the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure power, too, by this meter; `reveille power meters` lists them
    #[arg(long, value_name = "METER")]
    pub meter: Option<String>,
    #[command(flatten)]
    pub kept: Kept,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let possible = rate.filter(|rate| (0.1..=100_000.0).contains(rate));
    possible.ok_or_else(|| "not a rate from 0.1 to 100000 a second".to_owned())
}

fn surge(text: &str) -> Result<f64, String> {
    let times = text.parse().ok();
    let possible = times.filter(|times| (1.0..=100.0).contains(times));
    possible.ok_or_else(|| "not a number from 1 to 100".to_owned())
}

fn setting(text: &str) -> Result<Setting, String> {
    let named = Setting::ALL
        .into_iter()
        .find(|setting| setting.name().replace(' ', "-") == text);
    named.ok_or_else(|| "not no-load, direct, grid or staged".to_owned())
}

//! `reveille stage bench`: the proxy against itself.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Root, affinity};
use reveille_meter::Steady;
use reveille_results::description::Ended;
use reveille_results::statistics::Percentile;
use reveille_show::progress::Bar;
use reveille_stage::bench::{self, Bench, Options, Setting, result, show};
use reveille_stage::config::Upstream;
use reveille_trial::setting::Machine;

use crate::comparison::{self, Kept};
use crate::exit::Failure;
use crate::value::{self, CpuList};
use crate::{completion, signals};

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
    upstream: Option<Upstream>,
    /// What the own server computes for each request
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = value::time("2ms"), conflicts_with = "upstream")]
    work: Duration,
    /// Ask the own server in HTTP/2: by one connection, whose timers wake it less often
    #[arg(long, conflicts_with = "upstream")]
    http2: bool,
    /// Ask the own server by a Unix socket, which has no timers
    #[arg(long, conflicts_with = "upstream")]
    unix: bool,
    /// The server's CPUs, whose sleep is counted; the load and the proxy run on the others [default: the last CPU]
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    server_cpu: Option<CpuList>,
    /// Requests a second
    #[arg(long, value_name = "RATE", default_value_t = 100.0, value_parser = rate)]
    rate: f64,
    /// Multiply the rate by this from the middle of each turn on: it rises within a second
    #[arg(long, value_name = "TIMES", value_parser = surge)]
    surge: Option<f64>,
    /// Requests a second that others send to the server, past the proxy, in every setting
    #[arg(long, value_name = "RATE", value_parser = rate)]
    beside: Option<f64>,
    /// What takes turns, of no-load, direct, grid and staged [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = setting)]
    setting: Vec<Setting>,
    /// Each request's deadline
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = value::time("500ms"))]
    deadline: Duration,
    /// The share of requests that is to keep to it: 90, 99, 99.9 or 99.99
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = super::percentile)]
    percentile: Percentile,
    /// The grid's step
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = value::time("250ms"))]
    grid: Duration,
    /// Rounds; intervals need 6
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each turn counts, after 2 s of warm-up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time_within("10s", Duration::from_secs(1)..=Duration::from_secs(3600)))]
    turn: Duration,
    /// Seed of the order of turns and of the load [default: by the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure power, too, by this meter; `reveille power meters` lists them
    #[arg(long, value_name = "METER")]
    meter: Option<String>,
    #[command(flatten)]
    kept: Kept,
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

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let started = SystemTime::now();
    let root = Root::default();
    let machine = Machine::read(root.clone())?;
    let allowed = affinity::allowed();
    let server_cpus = match args.server_cpu {
        Some(CpuList(cpus)) => cpus,
        None => allowed.last().copied().into_iter().collect(),
    };
    if let Some(cpu) = server_cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Failure::usage(format!(
            "--server-cpu: this process may not use CPU {cpu}"
        )));
    }
    let Some(own) = server_cpus.first() else {
        return Err(Failure::cannot(
            "this process may use no CPU of this machine",
        ));
    };
    if args.upstream.is_none() && server_cpus.len() > 1 {
        return Err(Failure::usage(
            "--server-cpu: the own server runs on one CPU; more need --upstream",
        ));
    }
    if allowed.iter().all(|cpu| server_cpus.contains(cpu)) {
        return Err(Failure::cannot(format!(
            "the load and the proxy need a CPU beside the server's, CPU {own}"
        )));
    }
    let seed = args.seed.unwrap_or_else(|| {
        let since = started.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos() as u64
    });
    let options = Options {
        upstream: args.upstream,
        work: args.work,
        http2: args.http2,
        unix: args.unix,
        server_cpus,
        settings: Setting::ALL
            .into_iter()
            .filter(|one| args.setting.is_empty() || args.setting.contains(one))
            .collect(),
        rate: args.rate,
        surge: args.surge,
        beside: args.beside,
        deadline: args.deadline,
        percentile: args.percentile,
        grid: args.grid,
        rounds: args.rounds,
        turn: args.turn,
        seed,
    };
    let out = args.kept.folder(result::FILE)?;
    let stop = signals::stop()?;
    let named = args.meter.as_deref();
    let mut meter = named
        .map(|name| comparison::watched(&root, name, &stop))
        .transpose()?;
    let (watched, steady) = match &mut meter {
        None => (None, None),
        Some((meter, watched)) => {
            let refresh = watched.refresh_within("--turn", options.turn)?;
            let steady = Steady::new(meter.as_mut(), refresh);
            (Some(watched.clone()), Some(steady))
        }
    };
    let bar = Bar::new();
    let gathered = bench::run(&options, steady, &stop, &mut |now| {
        let step = format!("round {} of {}", now.round + 1, options.rounds);
        bar.show(&step, now.done, Some(now.left), now.setting.name());
    });
    bar.clear();
    let gathered = gathered?;
    let rounds = gathered.turns.len() / options.settings.len();
    let ended = match gathered.interrupted {
        true => Ended::Interrupted,
        false if rounds < options.rounds as usize => Ended::Disturbed(bench::other_load()),
        false => Ended::Completed,
    };
    let percent: f64 = options.percentile.percent().parse().expect("a number");
    let bench = Bench {
        about: args.kept.about(
            result::SCHEMA_VERSION,
            &machine,
            "stage-bench",
            started,
            ended.clone(),
        ),
        upstream: options
            .upstream
            .as_ref()
            .map(|upstream| match upstream.socket() {
                Some(_) => upstream.address(),
                None => upstream.uri.to_string(),
            }),
        work_s: options
            .upstream
            .is_none()
            .then_some(options.work.as_secs_f64()),
        http2: options.http2,
        unix: options.unix,
        server_cpus: options.server_cpus.clone(),
        rate_per_s: options.rate,
        surge: options.surge,
        beside_per_s: options.beside,
        deadline_s: options.deadline.as_secs_f64(),
        percentile: percent,
        grid_s: options.grid.as_secs_f64(),
        rounds: options.rounds,
        disturbed: gathered.disturbed,
        seed,
        meter: watched,
        notes: result::notes(&gathered.turns),
        settings: result::summaries(
            &gathered.turns,
            options.deadline.as_secs_f64(),
            options.server_cpus.len(),
        ),
        turns: gathered.turns,
    };
    let forget = |bench: &mut Bench| bench.turns.clear();
    let out = (result::FILE, out.as_ref());
    args.kept.print(bench, &ended, out, forget, show::sheet)
}

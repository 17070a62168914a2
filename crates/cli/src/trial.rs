//! `reveille trial`: one workload under several idle settings.

mod line;
mod plan;
mod summary;
mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use regex::Regex;
use reveille_kernel::latency::parse_bound;
use reveille_kernel::{Identity, Idle, Root, journal, pm_qos};
use reveille_results::description::Ended;
use reveille_results::output::Folder;
use reveille_trial::result::{self, Plan, Trial};
use reveille_trial::run::{Options, Run, run as run_trial};
use reveille_trial::setting::{Setting, Wanted, choose};
use reveille_trial::workload::{PORT, Server, Workload};

use crate::chosen;
use crate::command::As;
use crate::exit;
use crate::signals;
use reveille_show::progress::Bar;
use reveille_show::terminal;

/// Run one workload under several idle settings and compare.
///
/// Settings take turns in shuffled order, round by round, so that what drifts meets all of them;
/// differences from the machine as it is come with their 95 % interval. By default: as is, each idle
/// state as the deepest, and no sleep at all. Every setting is put back after its turn.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille trial --ping 192.168.1.1                 echo requests, 20 ms apart
  sudo reveille trial --ping router --latency 20us,100us --out router-trial
  reveille trial --serve                                 on the other machine, then here:
  sudo reveille trial --echo other:7177 --tcp
  sudo reveille trial --echo self                        without another machine
  sudo reveille trial -- make -j4                        how long it takes
  sudo reveille trial --figure 'time=([0-9.]+)' --unit ms -- ping -c 20 -i 0.2 192.168.1.1
  sudo reveille trial --setting 'limit --disable C6' --settings no-sleep -- ./job
  reveille trial --dry-run --echo self                   which settings it would compare
  reveille report router-trial                           the page, with latency against power

Durations: 20us, 20ms, 1s. Ctrl-C ends the trial and keeps what was gathered.")]
pub struct Args {
    /// The workload: a command, run once per setting and round; its figure is how long it takes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    user: As,
    /// The workload: ICMP echo requests to HOST; its figure is the round trip
    #[arg(long, value_name = "HOST", conflicts_with_all = ["command", "user", "echo", "serve"])]
    ping: Option<String>,
    /// The workload: requests to a `reveille trial --serve` at HOST[:PORT], by UDP; `self` is a
    /// thread of this process on another CPU
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["command", "user", "serve"])]
    echo: Option<String>,
    /// No trial: be the other side of --echo, by UDP and TCP [default: port 7177, every address]
    #[arg(long, value_name = "ADDR[:PORT]", num_args = 0..=1, value_parser = listening, conflicts_with_all = ["command", "user"])]
    serve: Option<Option<SocketAddr>>,
    /// --echo by TCP
    #[arg(long, requires = "echo")]
    tcp: bool,
    /// The command's figure: each number that REGEX finds in its output (the first group, if any)
    #[arg(long, value_name = "REGEX", requires = "command")]
    figure: Option<Regex>,
    /// What --figure counts, for tables: ms, MB/s
    #[arg(long, value_name = "TEXT", requires = "figure", default_value = "")]
    unit: String,
    /// More of --figure is better
    #[arg(long, requires = "figure")]
    higher_is_better: bool,

    /// Latency bounds to compare, too: 20us,100us
    #[arg(long, value_name = "LATENCY", value_delimiter = ',', value_parser = parse_bound)]
    latency: Vec<u32>,
    /// A setting of your own: 'hold --latency 50us --cpu 2', 'limit --disable C6'; may be repeated
    #[arg(long, value_name = "LINE", value_parser = line::parse)]
    setting: Vec<Setting>,
    /// Of the default settings, only these: C1E,C6,no-sleep; `as-is` alone: none but your own
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    settings: Vec<String>,

    /// Each setting has a turn in each round
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    rounds: u32,
    /// Requests in each turn
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// From an answer to the next request, on average; drawn from half to one and a half of it
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = super::measure::parse_duration)]
    interval: Duration,
    /// Bytes that a request carries [default: 56 for --ping, 64 for --echo]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// How long an answer is waited for
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::measure::parse_duration)]
    timeout: Duration,
    /// How long the machine gets used to a setting before its turn counts
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = super::measure::parse_duration)]
    settle: Duration,
    /// The CPU on which requests are sent and their answers awaited [default: the scheduler's choice]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    cpu: Option<u32>,
    /// Seed of the order and the pauses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Folder for trial.json, from which `reveille report` makes a page; must not hold one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The trial's name in reports [default: the folder's, or the workload]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Print the trial as JSON, without the single figures
    #[arg(long)]
    json: bool,
    /// Say which settings would be compared, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: a recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    root: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(address) = args.serve {
        return serve(address);
    }
    let root = chosen::root(args.root.as_deref())?;
    let idle = Idle::read(&root)?;
    let wanted = Wanted {
        bounds_us: args.latency.clone(),
        given: args.setting.clone(),
        only: args.settings.clone(),
    };
    let (settings, mut notes) = choose(&idle, &wanted)?;
    if args.dry_run {
        plan::print(&args, &idle, &settings, &notes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = chosen::output_folder(args.out.as_deref(), &[result::FILE])?;
    notes.extend(held_by_others());
    let mut workload = workload::of(&args)?;
    let trial = compare(&args, &root, &idle, settings, notes, workload.as_mut())?;
    finish(&args, trial, out.as_ref())
}

/// A bound that is in force under every setting, "as is" among them.
fn held_by_others() -> Option<String> {
    let bound_us = pm_qos::current_bound_us().ok()??;
    Some(format!(
        "Another process holds a latency bound of {bound_us} µs, which is in force under every \
         setting; `reveille top` shows who."
    ))
}

/// Runs the trial.
fn compare(
    args: &Args,
    root: &Root,
    idle: &Idle,
    settings: Vec<Setting>,
    notes: Vec<String>,
    workload: &mut dyn Workload,
) -> anyhow::Result<Trial> {
    let stop = signals::stop()?;
    let started = SystemTime::now();
    let options = Options {
        settings,
        rounds: args.rounds,
        settle: args.settle,
        seed: args.seed,
        journal_folder: journal::FOLDER.into(),
    };
    let bar = Bar::new();
    // Between turns only.
    let ran = run_trial(root, idle, &options, workload, &stop, &mut |now| {
        let round = format!("round {}/{}", now.round + 1, args.rounds);
        bar.show(&round, now.done, now.left, now.setting);
    });
    bar.clear();
    let mut ran = ran?;
    ran.notes.splice(0..0, notes);
    described(args, root, idle, &options, workload, ran, started)
}

/// The trial that was run, with what it says.
fn described(
    args: &Args,
    root: &Root,
    idle: &Idle,
    options: &Options,
    workload: &dyn Workload,
    ran: Run,
    started: SystemTime,
) -> anyhow::Result<Trial> {
    let mut names = Vec::new();
    for setting in &options.settings {
        names.push((setting.name.clone(), setting.how(idle)?));
    }
    let description = workload.description().clone();
    let (settings, cost, verdict) = result::conclude(&names, &description, &ran.rounds);
    Ok(Trial {
        schema_version: result::SCHEMA_VERSION,
        tool: concat!("reveille ", env!("CARGO_PKG_VERSION")).into(),
        name: name(args, &description.what),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        command_line: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ended: ran.ended,
        machine: Identity::read(root),
        driver: idle.driver.clone(),
        governor: idle.governor.clone(),
        notes: [ran.notes, description.notes.clone()].concat(),
        workload: description,
        plan: Plan {
            rounds: args.rounds,
            settle_s: args.settle.as_secs_f64(),
            seed: args.seed,
        },
        settings,
        cost,
        verdict,
        rounds: ran.rounds,
    })
}

/// Keeps what the trial gathered, and says it.
fn finish(args: &Args, mut trial: Trial, out: Option<&Folder>) -> anyhow::Result<ExitCode> {
    // First of all it is kept: the terminal may be gone.
    let kept = match out {
        Some(folder) => result::write(&trial, folder).map(drop),
        None => Ok(()),
    };
    let code = match trial.ended {
        Ended::Completed => ExitCode::SUCCESS,
        Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
        Ended::Disturbed(_) => ExitCode::FAILURE,
    };
    let said = if args.json {
        trial.rounds.clear();
        writeln!(
            terminal::data(),
            "{}",
            serde_json::to_string_pretty(&trial)?
        )
    } else {
        let folder = out.filter(|_| kept.is_ok());
        summary::print(&trial, folder.map(Folder::path))
    };
    kept?;
    exit::reader_may_leave(said)?;
    Ok(code)
}

fn name(args: &Args, workload: &str) -> String {
    let folder = || Some(args.out.as_deref()?.file_name()?.to_string_lossy().into());
    let name = args.name.clone().or_else(folder);
    name.unwrap_or_else(|| workload.to_owned())
}

/// An address of this machine, with a port or without.
fn listening(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    text.parse().or_else(|_| alone()).map_err(|_| {
        format!("not an address of this machine such as 192.168.1.2 or 192.168.1.2:{PORT}")
    })
}

fn serve(address: Option<SocketAddr>) -> anyhow::Result<ExitCode> {
    let mut signals = signal_hook::iterator::Signals::new(signals::ending())?;
    let server = Server::start(address)?;
    exit::reader_may_leave(writeln!(
        terminal::stdout(),
        "answers UDP and TCP at {}; Ctrl-C ends it",
        server.address()
    ))?;
    signals.forever().next();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_at_may_lack_its_port() {
        assert_eq!(listening("10.0.0.1").unwrap().port(), PORT);
        assert_eq!(listening("10.0.0.1:80").unwrap().port(), 80);
        assert_eq!(
            listening("::1").unwrap().to_string(),
            format!("[::1]:{PORT}")
        );
        assert!(listening("router").unwrap_err().contains("192.168.1.2"));
    }
}

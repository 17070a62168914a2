//! `reveille anticipate bench`: what waking in time gains on this machine, and what it costs.

#[cfg(feature = "bpf")]
mod by_engine;
mod by_library;
mod summary;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use reveille_anticipate::bench::accelerator::{self, Accelerator};
use reveille_anticipate::bench::policy::{Machine, Policy};
use reveille_anticipate::bench::result::{self, Bench, Plan};
use reveille_anticipate::bench::run::{Options, Run, Work, run as run_bench};
use reveille_anticipate::bench::storage::{self, Operation, Source, Storage, Target, parse_size};
use reveille_anticipate::bench::{Assist, place};
use reveille_kernel::{Identity, Idle, Root, journal, pm_qos};
use reveille_results::description::Ended;
use reveille_results::output::Folder;

use crate::chosen;
use crate::exit::{self, Failure};
use crate::signals;
use by_library::ByLibrary;
use reveille_show::progress::Bar;
use reveille_show::terminal;

/// Measure what waking in time gains on this machine, and what it costs.
///
/// A thread reads 4 KiB at random places, directly from the disk, and sleeps between reads. Policies
/// take turns in shuffled order, round by round: the machine as it is, its shallowest idle state only
/// (where it has deeper ones), no sleep, polling (the thread looks for the end of each read by itself,
/// and sleeps between: about the most that waking in time can regain), and waking in time. What each
/// gives is the latency of a read; what it costs is the time that the CPU is awake, and power where
/// that can be read. Every setting is put back after its turn.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille anticipate bench                          some minutes, on a file of its own
  sudo reveille anticipate bench --out this-machine       kept; `reveille report` makes its page
  sudo reveille anticipate bench --gaps 1ms,10ms --rounds 9
  sudo reveille anticipate bench --device vda --size 64KiB
  sudo reveille anticipate bench --op write --dir /srv
  sudo reveille anticipate bench --gaps 0 --depth 8       eight in flight, nothing between them
  sudo reveille anticipate bench --accelerator            waiting for a stand-in for a GPU

Durations: 300us, 1ms, 2s. Ctrl-C ends it and keeps the rounds that are complete.")]
pub struct Args {
    /// Read this file [default: a file of its own]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "dir"])]
    file: Option<PathBuf>,
    /// Read this block device: vda, /dev/nvme0n1
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir")]
    device: Option<PathBuf>,
    /// Folder for the file of its own, of which nothing is left at the end
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    /// Size of the file of its own
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    file_size: u64,
    /// What an I/O does; writes go to the file of its own only
    #[arg(long, value_name = "OPERATION", default_value = "read")]
    op: OperationChoice,
    /// Size of an I/O
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_io_size)]
    size: usize,
    /// I/Os in flight: so many threads, each with one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: u32,
    /// Idle times after each I/O
    #[arg(
        long,
        value_name = "TIMES",
        value_delimiter = ',',
        value_parser = parse_gap,
        default_value = "0,100us,300us,1ms,3ms,10ms,30ms,100ms"
    )]
    gaps: Vec<Duration>,
    /// Wait for a stand-in for an accelerator instead of storage
    #[arg(long, conflicts_with_all = ["file", "device", "dir", "file_size", "op", "size", "depth", "gaps"])]
    accelerator: bool,

    /// Compare only these, and fail where one cannot be had: as-is,shallowest,no-sleep,poll,anticipate
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_policy)]
    policies: Vec<Policy>,
    /// Each policy has a turn in each round, for each idle time; intervals need 6
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=200))]
    rounds: u32,
    /// I/Os in a turn, at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    ios: u64,
    /// A turn ends after this time, even with fewer I/Os
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_turn)]
    turn: Duration,
    /// I/Os before those that count, at most 10 ms apart, for an engine to learn by
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    warm_up: u64,
    /// For how much of each CPU's time the engine may keep it awake; what it took is said
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = super::parse_share)]
    budget: f64,
    /// The CPU that waits [default: one that serves few interrupts]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Seed of the order and the places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Folder for bench.json, from which `reveille report` makes a page; must not hold one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The benchmark's name in reports [default: the folder's, or the workload]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Print the benchmark as JSON, without the single turns
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OperationChoice {
    Read,
    Write,
}

fn parse_gap(text: &str) -> Result<Duration, String> {
    /// Longer ones take all day.
    const LONGEST: Duration = Duration::from_secs(10);
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    match crate::measure::parse_duration(text)? {
        gap if gap > LONGEST => Err("is longer than 10 s".into()),
        gap => Ok(gap),
    }
}

fn parse_turn(text: &str) -> Result<Duration, String> {
    match crate::measure::parse_duration(text)? {
        turn if turn.is_zero() => Err("has to be above 0".into()),
        turn if turn > Duration::from_secs(3600) => Err("is longer than an hour".into()),
        turn => Ok(turn),
    }
}

fn parse_io_size(text: &str) -> Result<usize, String> {
    /// What direct I/O takes on any disk, and what a disk takes at a time.
    const SECTOR: u64 = 512;
    const MOST: u64 = 64 << 20;
    match parse_size(text)? {
        size if !size.is_multiple_of(SECTOR) => {
            Err("is no multiple of 512 bytes, which direct I/O needs".into())
        }
        size if size > MOST => Err("is more than 64 MiB".into()),
        size => Ok(size as usize),
    }
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    Policy::by_name(text)
        .ok_or_else(|| "is none of as-is, shallowest, no-sleep, poll, anticipate".to_owned())
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let out = chosen::output_folder(args.out.as_deref(), &[result::FILE])?;
    let root = Root::default();
    let machine = Machine {
        idle: Idle::read(&root)?,
        root,
        journal_folder: journal::FOLDER.into(),
    };
    let stop = signals::stop()?;
    let cpu = match args.cpu {
        Some(cpu) => cpu,
        None => place::quiet_cpu(&machine.root)?,
    };
    refuse_cpu(cpu)?;
    let mut notes: Vec<String> = held_by_others().into_iter().collect();
    if args.accelerator {
        let library = ByLibrary::new(args.budget);
        let options = accelerator::Options {
            calls: args.ios,
            turn: args.turn,
            cpu,
            seed: args.seed,
        };
        let work = Accelerator::new(&machine, options, Some(&library))?;
        let bench = compare(&args, &machine, &work, notes, &stop)?;
        return finish(&args, bench, out.as_ref());
    }
    let source = source(&args);
    let operation = match args.op {
        OperationChoice::Read => Operation::Read,
        OperationChoice::Write => Operation::Write,
    };
    let target = Target::open(&machine.root, &source, operation, args.size, &stop);
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let target = target?;
    notes.extend(target.notes.iter().cloned());
    let mut idle_ns: Vec<u64> = args.gaps.iter().map(|gap| gap.as_nanos() as u64).collect();
    idle_ns.sort_unstable();
    idle_ns.dedup();
    let options = storage::Options {
        operation,
        size: args.size,
        depth: args.depth as usize,
        idle_ns,
        ios: args.ios,
        turn: args.turn,
        warm_up: args.warm_up,
        cpu,
        seed: args.seed,
    };
    let engine = engine(&args, &machine.root);
    let work = Storage::new(&machine, target, options, engine.as_deref())?;
    let bench = compare(&args, &machine, &work, notes, &stop)?;
    finish(&args, bench, out.as_ref())
}

#[cfg(feature = "bpf")]
fn engine(args: &Args, root: &Root) -> Option<Box<dyn Assist>> {
    Some(Box::new(by_engine::ByEngine::new(root, args.budget)))
}

/// Built without BPF there is none.
#[cfg(not(feature = "bpf"))]
fn engine(_: &Args, _: &Root) -> Option<Box<dyn Assist>> {
    None
}

fn source(args: &Args) -> Source {
    match (&args.file, &args.device) {
        (Some(file), _) => Source::File(file.clone()),
        (None, Some(device)) => Source::Device(device.clone()),
        (None, None) => Source::Own {
            folder: args.dir.clone(),
            bytes: args.file_size,
        },
    }
}

/// Runs the rounds.
fn compare(
    args: &Args,
    machine: &Machine,
    work: &dyn Work,
    notes: Vec<String>,
    stop: &AtomicBool,
) -> anyhow::Result<Bench> {
    let started = SystemTime::now();
    let options = Options {
        rounds: args.rounds,
        seed: args.seed,
        policies: match args.policies.is_empty() {
            true => default_policies(args, machine, work.cpu()),
            false => args.policies.clone(),
        },
        insist: !args.policies.is_empty(),
    };
    let bar = Bar::new();
    // Between turns only.
    let ran = run_bench(machine, work, &options, stop, &mut |now| {
        let round = format!("round {}/{}", now.round + 1, args.rounds);
        let turn = format!("{}, {}", now.point.name, now.policy.name());
        bar.show(&round, now.done, Some(now.left), &turn);
    });
    bar.clear();
    let ran = ran?;
    Ok(described(args, machine, work, ran, notes, started))
}

/// All that there are here: "shallowest" only where a deeper state would be left out, and polling
/// where it is not what "no sleep" does.
fn default_policies(args: &Args, machine: &Machine, cpu: u32) -> Vec<Policy> {
    let mut policies = Policy::ALL.to_vec();
    policies.retain(|policy| match policy {
        Policy::Shallowest => machine.shallowest(cpu).is_some(),
        Policy::Poll => !args.accelerator,
        _ => true,
    });
    policies
}

fn described(
    args: &Args,
    machine: &Machine,
    work: &dyn Work,
    ran: Run,
    notes: Vec<String>,
    started: SystemTime,
) -> Bench {
    let workload = work.describe();
    let points = work.points().to_vec();
    let (mut rows, gains) = result::conclude(points.len(), &ran.policies, &ran.turns);
    if let Some((point, own)) = ran.own_cost {
        let mut rows = rows.iter_mut();
        let row = rows.find(|row| (row.point, row.policy) == (point, Policy::Anticipate));
        let row = row.expect("it had turns");
        row.own_cost_ns = Some(own.ns);
        row.own_cost_at_requests_ns = Some(own.at_requests_ns);
    }
    Bench {
        schema_version: result::SCHEMA_VERSION,
        tool: concat!("reveille ", env!("CARGO_PKG_VERSION")).into(),
        name: name(args, &workload.what),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        command_line: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ended: ran.ended,
        machine: Identity::read(&machine.root),
        driver: machine.idle.driver.clone(),
        governor: machine.idle.governor.clone(),
        plan: Plan {
            rounds: args.rounds,
            waits: args.ios,
            turn_s: args.turn.as_secs_f64(),
            warm_up: if args.accelerator { 0 } else { args.warm_up },
            seed: args.seed,
            cpu: work.cpu(),
        },
        workload,
        points,
        policies: ran.policies,
        skipped: ran.skipped,
        rows,
        gains,
        notes,
        turns: ran.turns,
    }
}

/// Keeps what the rounds gave, and says it.
fn finish(args: &Args, mut bench: Bench, out: Option<&Folder>) -> anyhow::Result<ExitCode> {
    // First of all it is kept: the terminal may be gone.
    let kept = out.map_or(Ok(()), |folder| result::write(&bench, folder).map(drop));
    let code = match bench.ended {
        Ended::Completed => ExitCode::SUCCESS,
        Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
        Ended::Disturbed(_) => ExitCode::FAILURE,
    };
    // What was measured is said, even if it could not be kept.
    let said = if args.json {
        bench.turns.clear();
        writeln!(
            terminal::data(),
            "{}",
            serde_json::to_string_pretty(&bench)?
        )
    } else {
        let folder = out.filter(|_| kept.is_ok());
        summary::print(&bench, folder.map(Folder::path))
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

/// A bound that is in force under every policy, "as is" among them.
fn held_by_others() -> Option<String> {
    let bound_us = pm_qos::current_bound_us().ok()??;
    Some(format!(
        "Another process holds a latency bound of {bound_us} µs, which is in force under every \
         policy; `reveille top` shows who."
    ))
}

fn refuse_cpu(cpu: u32) -> anyhow::Result<()> {
    match place::allowed().contains(&cpu) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "--cpu {cpu}: there is no such CPU, it is offline, or this process may not use it"
        ))),
    }
}

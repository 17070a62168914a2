//! `reveille anticipate bench`: what waking in time gains on this machine, and what it costs.

#[cfg(feature = "bpf")]
mod by_engine;
mod by_library;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use reveille_anticipate::Operation;
use reveille_anticipate::bench::accelerator::{self, Accelerator};
use reveille_anticipate::bench::assist::Assist;
use reveille_anticipate::bench::policy::{Policy, shallowest};
use reveille_anticipate::bench::result::{self, Bench, Plan};
use reveille_anticipate::bench::run::{self, Options, Run, Work};
use reveille_anticipate::bench::storage::{self, Source, Storage, Target, parse_size};
use reveille_kernel::{Root, affinity, interrupts};
use reveille_results::output::Folder;
use reveille_trial::setting::Machine;

use crate::compared::{self, Kept};
use crate::exit::{self, Failure};
use crate::signals;
use by_library::ByLibrary;

/// Measure what waking in time gains on this machine, and what it costs.
///
/// A thread reads 4 KiB at random places, directly from the disk, and sleeps between reads. Policies
/// take turns in shuffled order, round by round: the machine as it is, its shallowest idle state only
/// (if it has deeper ones), no sleep, polling (the thread polls for the completion of each read and
/// sleeps between reads: about the most that waking in time can regain), and waking in time. The
/// benchmark reports the latency of a read, the time that the CPU is awake, and power if it can be
/// read. Every setting is restored after its turn.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille anticipate bench                          some minutes, on a file of its own
  sudo reveille anticipate bench --out this-machine       keep the result; `reveille report` makes its page
  sudo reveille anticipate bench --gaps 1ms,10ms --rounds 9
  sudo reveille anticipate bench --device vda --size 64KiB
  sudo reveille anticipate bench --op write --dir /srv
  sudo reveille anticipate bench --gaps 0 --depth 8       eight in flight, nothing between them
  sudo reveille anticipate bench --accelerator            waiting for a stand-in for a GPU

Durations: 300us, 1ms, 2s. Ctrl-C ends the run and keeps complete rounds.")]
pub struct Args {
    /// Read this file [default: a file of its own]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "dir"])]
    file: Option<PathBuf>,
    /// Read this block device: vda, /dev/nvme0n1
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir")]
    device: Option<PathBuf>,
    /// Folder for the file of its own, which is removed at the end
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    /// Size of the file of its own
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    file_size: u64,
    /// What an I/O does; writes go to the file of its own only
    #[arg(long, value_name = "OPERATION", default_value = "read", value_parser = operation())]
    op: Operation,
    /// Size of an I/O
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_io_size)]
    size: usize,
    /// I/Os in flight: one in each of N threads
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

    /// Compare only these, and fail if one is unavailable: as-is,shallowest,no-sleep,poll,anticipate
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
    /// I/Os before those that count, at most 10 ms apart, from which an engine learns
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    warm_up: u64,
    /// Share of each CPU's time for which the engine may keep it awake
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = super::parse_share)]
    budget: f64,
    /// CPU on which the workload waits [default: one that serves few interrupts]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Seed of the order and the places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    kept: Kept,
}

fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(["read", "write"]).try_map(|name| super::parse_operation(&name))
}

fn parse_gap(text: &str) -> Result<Duration, String> {
    /// Longer ones make a run of a day.
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
    let out = args.kept.folder(result::FILE)?;
    let machine = Machine::read(Root::default())?;
    let stop = signals::stop()?;
    let cpu = match args.cpu {
        Some(cpu) => cpu,
        None => interrupts::quiet_cpu(&machine.root, &affinity::allowed())
            .ok_or_else(|| Failure::cannot("the CPUs of this process are unknown"))?,
    };
    refuse_cpu(cpu)?;
    let mut notes: Vec<String> = compared::held_by_others("policy").into_iter().collect();
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
    let target = Target::open(&machine.root, &source, args.op, args.size, &stop);
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let target = target?;
    notes.extend(target.notes.iter().cloned());
    let mut idle_ns: Vec<u64> = args.gaps.iter().map(|gap| gap.as_nanos() as u64).collect();
    idle_ns.sort_unstable();
    idle_ns.dedup();
    let options = storage::Options {
        operation: args.op,
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

/// Built without BPF.
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
    let run = |progress: &mut dyn FnMut(&_)| run::run(machine, work, &options, stop, progress);
    let ran = compared::with_bar(args.rounds, run)?;
    Ok(described(args, machine, work, ran, notes, started))
}

/// All that make sense here: "shallowest" if a deeper state would be left out, polling unless "no sleep"
/// polls.
fn default_policies(args: &Args, machine: &Machine, cpu: u32) -> Vec<Policy> {
    let mut policies = Policy::ALL.to_vec();
    policies.retain(|policy| match policy {
        Policy::Shallowest => shallowest(&machine.idle, cpu).is_some(),
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
    let (version, what) = (result::SCHEMA_VERSION, &workload.what);
    Bench {
        about: args.kept.about(version, machine, what, started, ran.ended),
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

fn finish(args: &Args, bench: Bench, out: Option<&Folder>) -> anyhow::Result<ExitCode> {
    let ended = bench.about.ended.clone();
    let forget = |bench: &mut Bench| bench.turns.clear();
    let out = (result::FILE, out);
    args.kept.finish(bench, &ended, out, forget, summary::print)
}

fn refuse_cpu(cpu: u32) -> anyhow::Result<()> {
    match affinity::allowed().contains(&cpu) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "--cpu {cpu}: there is no such CPU, it is offline, or this process may not use it"
        ))),
    }
}

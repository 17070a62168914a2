//! `reveille anticipate bench`: the benefit of anticipatory wake-up on this machine, and its cost.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::builder::{ArgPredicate, PossibleValuesParser, TypedValueParser};
use reveille_anticipate::Operation;
use reveille_anticipate::bench::compare::{self, Options, Waits};
use reveille_anticipate::bench::packets;
use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{self, Bench, Plan};
use reveille_anticipate::bench::show;
use reveille_anticipate::bench::storage::{self, Source};
use reveille_kernel::Root;
use reveille_meter::Steady;
use reveille_show::parse;
use reveille_trial::setting::Machine;

use crate::comparison::{self, Kept, Metered};
use crate::completion;
use crate::value;
use crate::{exit, signals};

/// Measure the benefit of anticipatory wake-up on this machine, and its cost.
///
/// A thread reads 4 KiB at random places, directly from the disk, and sleeps between reads. Policies
/// take turns in shuffled order, round by round: the machine as it is, its shallowest idle state only
/// (if it has deeper ones), no sleep, polling (the thread polls for the completion of each read and
/// sleeps between reads: about the most that anticipatory wake-up can regain), and anticipatory wake-up.
/// The benchmark reports the latency of a read, the time that the CPU is awake, and power if it can be
/// read. Every setting is restored after its turn.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille anticipate bench                          some minutes, on a temporary file
  sudo reveille anticipate bench --out this-machine       keep the result, for `reveille report`
  sudo reveille anticipate bench --gaps 1ms,10ms --rounds 9
  sudo reveille anticipate bench --device vda --size 64KiB
  sudo reveille anticipate bench --op write --dir /srv
  sudo reveille anticipate bench --gaps 0 --depth 8       eight in flight, nothing between them
  sudo reveille anticipate bench --accelerator            wait for a stand-in for a GPU
  sudo reveille anticipate bench --meter rapl:package-0   with power by a meter
  sudo reveille anticipate bench --packets                periodic packets
  sudo reveille anticipate bench --packets --hint 3ms     packets that hints announce

Durations: 300us, 1ms, 2s. Ctrl-C ends the run and keeps complete rounds.")]
pub struct Args {
    /// Read this file [default: a temporary file]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "dir"])]
    file: Option<PathBuf>,
    /// Read this block device: vda, /dev/nvme0n1
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir", add = completion::disks())]
    device: Option<PathBuf>,
    /// Folder for the temporary file
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    /// Size of the temporary file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse::size)]
    file_size: u64,
    /// What an I/O does; writes go only to the temporary file
    #[arg(long, value_name = "OPERATION", default_value = "read", value_parser = operation())]
    op: Operation,
    /// Size of an I/O
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_io_size)]
    size: usize,
    /// I/Os in flight: one in each of N threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::count(1..=64_u32))]
    depth: u32,
    /// Idle times after each I/O
    #[arg(
        long,
        value_name = "TIMES",
        value_delimiter = ',',
        value_parser = gap(),
        default_value = "0,100us,300us,1ms,3ms,10ms,30ms,100ms",
        default_value_if("packets", "true", "10ms,20ms")
    )]
    gaps: Vec<Duration>,
    /// Wait for a stand-in for an accelerator instead of storage
    #[arg(long, conflicts_with_all = ["file", "device", "dir", "file_size", "op", "size", "depth", "gaps"])]
    accelerator: bool,

    /// Wait for periodic packets instead of storage, of a thread on another CPU; --gaps are their
    /// periods [default: 10ms,20ms]
    #[arg(long, conflicts_with_all = ["accelerator", "file", "device", "dir", "file_size", "op", "size", "depth"])]
    packets: bool,
    /// Packets are early or late by up to this time
    #[arg(long, value_name = "TIME", default_value = "0", requires = "packets", value_parser = gap())]
    jitter: Duration,
    /// Packets come at random times, and each is announced this long before by a hint
    #[arg(long, value_name = "TIME", requires = "packets", conflicts_with = "jitter", value_parser = lead())]
    hint: Option<Duration>,

    /// Compare only these, and fail if one is unavailable: as-is,shallowest,no-sleep,poll,anticipate
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_policy, add = completion::names(|| Policy::ALL.map(Policy::name)))]
    policies: Vec<Policy>,
    /// Each policy has a turn in each round, for each idle time; intervals need 6
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = value::count(1..=200_u32))]
    rounds: u32,
    /// I/Os in a turn, at most; with --meter, whose turns must be long, 1000000 if it is not given
    #[arg(long, value_name = "N", default_value = "1000", default_value_if("meter", ArgPredicate::IsPresent, "1000000"), value_parser = value::count(1..=1_000_000_u64))]
    ios: u64,
    /// A turn ends after this time, even with fewer I/Os
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = turn())]
    turn: Duration,
    /// I/Os before those that count, at most 10 ms apart, from which an engine learns
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value::count(0..=1_000_000_u64))]
    warm_up: u64,
    /// Share of each CPU's time for which the engine may keep it awake
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = value::share)]
    budget: f64,
    /// CPU on which the workload waits [default: one that serves few interrupts]
    #[arg(long, value_name = "N", value_parser = value::cpu, add = completion::cpu())]
    cpu: Option<u32>,
    /// Seed of the order and the offsets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::seed, allow_hyphen_values = true)]
    seed: u64,

    #[command(flatten)]
    metered: Metered,
    #[command(flatten)]
    kept: Kept,
}

fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(["read", "write"]).try_map(|name| name.parse::<Operation>())
}

/// With longer ones a run takes a day.
fn gap() -> impl value::Parser<Duration> {
    value::time_within("1ms", Duration::ZERO..=Duration::from_secs(10))
}

/// A hint that comes with its packet is none.
fn lead() -> impl value::Parser<Duration> {
    value::time_within("3ms", Duration::from_micros(100)..=Duration::from_secs(1))
}

fn turn() -> impl value::Parser<Duration> {
    value::time_within("4s", Duration::from_nanos(1)..=Duration::from_secs(3600))
}

fn parse_io_size(text: &str) -> Result<usize, String> {
    /// What direct I/O takes on any disk, and what a disk takes at a time.
    const SECTOR: u64 = 512;
    const MOST: u64 = 64 << 20;
    match parse::size(text)? {
        size if !size.is_multiple_of(SECTOR) => {
            Err("is not a multiple of 512 bytes, which direct I/O needs".into())
        }
        size if size > MOST => Err("is more than 64 MiB".into()),
        size => Ok(size as usize),
    }
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    Policy::by_name(text)
        .ok_or_else(|| "not one of as-is, shallowest, no-sleep, poll, anticipate".to_owned())
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let out = args.kept.folder(result::FILE)?;
    let machine = Machine::read(Root::default())?;
    let stop = signals::stop()?;
    let options = options(&args, compare::cpu(&machine.root, args.cpu)?);
    let notes = comparison::held_by_others("policy").into_iter().collect();
    let started = SystemTime::now();
    let about = |workload: &str, ended| {
        let version = result::SCHEMA_VERSION;
        args.kept.about(version, &machine, workload, started, ended)
    };
    let mut meter = args.metered.watched(&machine.root, &stop)?;
    let meter = meter.as_mut().map(|(meter, watched)| {
        let refresh = watched.refresh();
        (watched.clone(), Steady::new(meter.as_mut(), refresh))
    });
    let bench = comparison::with_bar(args.rounds, |progress| {
        compare::compare(&machine, &options, notes, meter, &stop, progress, about)
    })?;
    let Some(bench) = bench else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    let ended = bench.about.ended.clone();
    let forget = |bench: &mut Bench| bench.turns.clear();
    let out = (result::FILE, out.as_ref());
    args.kept.print(bench, &ended, out, forget, show::sheet)
}

fn options(args: &Args, cpu: u32) -> Options {
    Options {
        waits: match () {
            () if args.accelerator => Waits::Accelerator,
            () if args.packets => Waits::Packets(packets::Options {
                gaps_ns: args.gaps.iter().map(|gap| gap.as_nanos() as u64).collect(),
                jitter_ns: args.jitter.as_nanos() as u64,
                hint_ns: args.hint.map(|hint| hint.as_nanos() as u64),
            }),
            () => Waits::Storage(
                source(args),
                storage::Options {
                    operation: args.op,
                    size: args.size,
                    depth: args.depth as usize,
                    idle_ns: args.gaps.iter().map(|gap| gap.as_nanos() as u64).collect(),
                },
            ),
        },
        plan: Plan {
            rounds: args.rounds,
            waits: args.ios,
            turn_s: args.turn.as_secs_f64(),
            warm_up: if args.accelerator { 0 } else { args.warm_up },
            seed: args.seed,
            cpu,
        },
        policies: args.policies.clone(),
        budget: args.budget,
    }
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

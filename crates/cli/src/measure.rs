//! `reveille measure`: arguments become options, a run, and what is printed of its result.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use reveille_kernel::interrupts;
use reveille_kernel::{Identity, Idle, IdleState, Root, journal};
use reveille_measure::{Distances, Options, Protocol, Recorder};
use reveille_meter::Steady;
use reveille_results::description::{Ended, Probe};
use reveille_results::output::Folder;
use reveille_results::{Description, ResultFolder, show};
use reveille_show::{parse, terminal};

use crate::comparison::Metered;
use crate::completion;
use crate::elsewhere::{self, Elsewhere, Kept, OUT, Ran};
use crate::exit::{self, Failure};
use crate::flags::{default_folder, naming};
use crate::output_format::{Printed, To};
use crate::signals;
use crate::value;

/// Measure how long a CPU takes to wake from its idle states, and judge the driver's table.
///
/// A timer, or another CPU, wakes the measured CPU at known instants; BPF programs in the kernel's
/// idle loop record when its first instruction runs. Needs root; without it, or without BPF, a waiting
/// thread measures from user space, as cyclictest does; the result records which. Restores every
/// setting at the end, also after Ctrl-C.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille measure                               30 seconds, states as the machine is set
  sudo reveille measure --each-state --duration 60s   every state in turn
  sudo reveille measure --state C1E --datapoints 100000
  sudo reveille measure --source timer,remote --cpu 3
  sudo reveille measure --source hpet,nic:eth0 --nic-pin SDP0
  sudo reveille measure --source reply:eth0,192.0.2.1
  sudo reveille measure --protocol sweep --state C6   the thesis's protocol, some 5 minutes
  reveille measure --probe user                       without root
  reveille measure --host root@sut --state C6         on another machine, by ssh

Durations and distances: 100us, 1.5ms, 30s, 5min. Ctrl-C ends the run and keeps the results so far.")]
pub struct Args {
    /// The CPU to measure [default: the one that serves the fewest interrupts]
    #[arg(long, value_name = "N", value_parser = value::cpu, add = completion::cpu())]
    cpu: Option<u32>,
    /// How wake-ups are recorded [default: bpf if available]
    #[arg(long, value_name = "PROBE")]
    probe: Option<ProbeChoice>,
    /// What wakes the CPU; several take turns, and are compared
    #[arg(
        long,
        value_name = "SOURCE",
        value_delimiter = ',',
        value_parser = SourceParser,
        default_value = "timer"
    )]
    source: Vec<String>,
    /// A pin of the card (SDP0 to SDP3) that --source nic may make an electrical output, toggled at each launch:
    /// nothing may be connected to it
    #[arg(long, value_name = "PIN")]
    nic_pin: Option<String>,
    /// End after N datapoints in all
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    datapoints: Option<u64>,
    /// End after this time of measuring [default: 30s, unless --datapoints or a sweep ends it]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    duration: Option<Duration>,
    /// How far ahead a wake-up is launched: a range, drawn from log-uniformly, or one distance
    /// [default: 100us..8ms; a sweep's: 300us..8ms]
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_distances)]
    distance: Option<Distances>,
    /// The deepest idle state that the measured CPU may use; other CPUs are left alone
    #[arg(long, value_name = "NAME", conflicts_with = "each_state", add = completion::states())]
    state: Option<String>,
    /// Measure every idle state in turn, each the deepest that the measured CPU may use
    #[arg(long)]
    each_state: bool,
    /// How launch distances are chosen
    #[arg(long, value_name = "PROTOCOL", default_value = "random")]
    protocol: ProtocolChoice,
    /// Datapoints at each distance of a sweep [default: 1500]
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    sweep_datapoints: Option<u64>,
    /// Each distance of a sweep is this many times the one before [default: 1.1]
    #[arg(long, value_name = "FACTOR", value_parser = value::real)]
    sweep_factor: Option<f64>,
    /// Read so many bytes on the measured CPU before each of its idle periods, interrupts off, so that wake-ups meet
    /// cold caches: take more than the caches have (lscpu)
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    cold_caches: Option<u64>,
    /// Take the other CPUs offline while measuring, all but the one that reads the events
    #[arg(long)]
    offline_others: bool,
    /// Folder for the result; must not hold one [default: reveille-results/HOST-TIME]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The result's name in reports [default: the folder's]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Seed of the launch distances, to repeat a run with the same ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::seed, allow_hyphen_values = true)]
    seed: u64,
    #[command(flatten)]
    metered: Metered,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    printed: Printed,
    /// Make no report.html beside the result
    #[arg(long)]
    no_report: bool,
}

/// The thesis's (chapter 4.7).
const SWEEP_DATAPOINTS: u64 = 1500;
/// The thesis's: 10% more at each step.
const SWEEP_FACTOR: f64 = 1.1;

#[derive(Clone, Copy, ValueEnum)]
enum ProbeChoice {
    /// BPF programs in the idle loop and at the interrupt
    Bpf,
    /// A waiting thread: includes interrupt, scheduling and the return to user space
    User,
}

/// Names of sources, and what they are.
const SOURCES: [(&str, &str); 5] = [
    ("timer", "A timer on the CPU itself"),
    ("remote", "Another CPU, without warning"),
    ("hpet", "A timer of the HPET, outside the CPUs"),
    (
        "nic:IF",
        "The network card of the interface IF (i210, i211, i225, i226), at a time of its clock; not yet tried with a \
         real card",
    ),
    (
        "reply:IF,PEER",
        "The network card of the interface IF, at the reply to a ping of the address PEER; not yet tried with a real \
         card",
    ),
];

/// Takes a part of `--source` between commas: `reply` has two, the second an address.
#[derive(Clone)]
struct SourceParser;

impl TypedValueParser for SourceParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str() {
            Some(text) if text.starts_with(REPLY) || text.starts_with(NIC) || is_address(text) => {
                Ok(text.to_owned())
            }
            _ => {
                let names = SOURCES.map(|(name, _)| name);
                PossibleValuesParser::new(names).parse_ref(command, argument, value)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = SOURCES.iter();
        let values = values.map(|(name, help)| PossibleValue::new(*name).help(*help));
        Some(Box::new(values))
    }
}

const NIC: &str = "nic:";
const REPLY: &str = "reply:";

/// An address, after which % may name the interface.
fn is_address(text: &str) -> bool {
    let address = text.split('%').next().unwrap_or_default();
    address.parse::<IpAddr>().is_ok()
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolChoice {
    /// Drawn log-uniformly from the range
    Random,
    /// Fixed distances, growing step by step, as in the thesis
    Sweep,
}

fn parse_distances(text: &str) -> Result<Distances, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let ns = |text| {
        let ns = parse::time(text, "100us")?.as_nanos();
        Ok::<_, String>(u64::try_from(ns).unwrap_or(u64::MAX))
    };
    Distances::new(ns(min)?, ns(max)?).map_err(|error| error.to_string())
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_given() {
        return there(&args);
    }
    let root = Root::default();
    let idle = Idle::read(&root)?;
    let options = options(&args, &root, &idle)?;
    let interrupted = signals::stop()?;

    let mut meter = args.metered.watched(&root, &interrupted)?;
    let mut recorder = recorder(&args, Identity::read(&root), &options)?;
    let mut work = || reveille_measure::measure(&root, &options, &mut recorder, &interrupted);
    let (measured, power) = match &mut meter {
        None => (work(), None),
        Some((meter, watched)) => {
            let steady = Steady::new(meter.as_mut(), watched.refresh());
            let (measured, power_w) = steady.away_from(options.cpu).during(&interrupted, work);
            let words = reveille_meter::show::words(watched);
            (measured, Some(power_note(&words, power_w)))
        }
    };
    let mut outcome = match measured {
        Ok(outcome) => outcome,
        Err(error) => {
            let error = anyhow::Error::from(error);
            return Err(match recorder.abandon() {
                // Neither a usage error nor impossible here: some datapoints were recorded.
                Some(kept) => anyhow::anyhow!("ended early: {error:#}; {kept}"),
                None => error,
            });
        }
    };
    let said = outcome.notes.clone();
    outcome.notes.extend(power);
    let (folder, description) = recorder.finish(&outcome)?;
    let report = match args.no_report {
        true => None,
        false => match crate::page::beside(&folder) {
            Ok(report) => Some(report),
            Err(error) => {
                exit::say(format_args!("no report: {}", exit::one_line(&error)));
                None
            }
        },
    };
    let mut sheet = show::summary(&description);
    if args.printed.data().is_none() && terminal::is_one_place() {
        // While it measured.
        sheet.notes.retain(|note| !said.contains(note));
    }
    sheet.fact("Result", folder.path().display().to_string());
    if let Some(report) = report {
        sheet.fact("Report", report.display().to_string());
    }
    exit::reader_may_leave(args.printed.print(&description, &sheet, To::Output))?;
    if description.counts.kept == 0 && outcome.ended == Ended::Completed {
        anyhow::bail!("{}", show::nothing(&description));
    }
    Ok(match outcome.ended {
        Ended::Completed => ExitCode::SUCCESS,
        Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
        Ended::Disturbed(_) => ExitCode::FAILURE,
    })
}

/// The mean power of the run, in a sentence.
fn power_note(meter: &str, power_w: reveille_kernel::Result<Option<f64>>) -> String {
    match power_w {
        Ok(Some(w)) => {
            format!("The mean power of the run, preparation included, is {w:.2} W by {meter}.")
        }
        Ok(None) => format!("The power is unknown: the run was cut off, or too short for {meter}."),
        Err(why) => format!("The power is unknown: {why}."),
    }
}

/// How it is printed and kept is for this side.
const KEPT: Kept = Kept {
    values: &["--out"],
    flags: &["--json", "--markdown", "--all", "--full", "--no-report"],
};

/// On other machines.
fn there(args: &Args) -> anyhow::Result<ExitCode> {
    let folders = args.elsewhere.folders(args.out.as_deref())?;
    if !args.no_report {
        for folder in &folders {
            folder.folder().refuse_taken(crate::page::PAGE)?;
        }
    }
    let names: Vec<String> = folders.iter().map(name_of).collect();
    let besides = |place: usize| {
        let words = ["--json", "--no-report", "--out", OUT].map(str::to_owned);
        let name = args.name.is_none();
        let name = name.then(|| format!("--name={}", names[place]));
        words.into_iter().chain(name).collect()
    };
    let mut ran = args.elsewhere.run(&KEPT, besides, folders, false)?;
    let descriptions: Vec<_> = ran.iter_mut().map(Ran::parsed::<Description>).collect();
    let reports: Vec<_> = ran.iter().map(|one| report(args, one)).collect();
    if args.printed.json {
        elsewhere::print_json(&mut ran)?;
        return Ok(elsewhere::end(&ran));
    }
    let results = ran.iter().zip(descriptions);
    let results = results.filter_map(|(one, description)| Some((one, description?)));
    let results: Vec<_> = results.collect();
    let mut sheet = match results.as_slice() {
        [] => return Ok(elsewhere::end(&ran)),
        [(_, description)] if args.elsewhere.is_one() => show::summary(description),
        results => {
            let of = results.iter().map(|(ran, of)| (ran.host.as_str(), of));
            show::summary_of_hosts(&of.collect::<Vec<_>>())
        }
    };
    for (one, _) in &results {
        let path = one
            .received
            .as_ref()
            .map(|received| received.result().path());
        let path = path.map_or(String::new(), |path| path.display().to_string());
        sheet.fact("Result", path);
    }
    for report in reports.into_iter().flatten() {
        sheet.fact("Report", report.display().to_string());
    }
    exit::reader_may_leave(args.printed.print(&(), &sheet, To::Output))?;
    Ok(elsewhere::end(&ran))
}

/// The page of what came of a machine.
fn report(args: &Args, ran: &Ran) -> Option<PathBuf> {
    let received = ran.received.as_ref()?;
    if args.no_report || !received.has_any() {
        return None;
    }
    let report = crate::page::beside(received.result());
    let complain = |error| {
        exit::say(format_args!(
            "{}: no report: {}",
            ran.host,
            exit::one_line(&error)
        ))
    };
    report.map_err(complain).ok()
}

/// The result's name in reports, unless one is given.
fn name_of(folder: &ResultFolder) -> String {
    let path = folder.path();
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Its folder is made before anything is measured.
fn recorder(args: &Args, machine: Identity, options: &Options) -> anyhow::Result<Recorder> {
    let started = SystemTime::now();
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| default_folder(&machine, started));
    let folder = ResultFolder::of(Folder::make(&out, naming(args.out.as_deref()))?)?;
    if !args.no_report {
        folder.folder().refuse_taken(crate::page::PAGE)?;
    }
    let name = args
        .name
        .clone()
        .or_else(|| Some(out.file_name()?.to_string_lossy().into()));
    let name = name.unwrap_or_else(|| out.display().to_string());
    Ok(Recorder::new(folder, name, machine, started, options))
}

fn options(args: &Args, root: &Root, idle: &Idle) -> anyhow::Result<Options> {
    let sweep = args.protocol == ProtocolChoice::Sweep;
    let is_for_a_sweep = args.sweep_datapoints.is_some() || args.sweep_factor.is_some();
    if is_for_a_sweep && !sweep {
        return Err(Failure::usage(
            "--sweep-datapoints and --sweep-factor are for --protocol sweep; add that",
        ));
    }
    if args.nic_pin.is_some() && !args.source.iter().any(|source| source.starts_with(NIC)) {
        return Err(Failure::usage(
            "--nic-pin is for --source nic:IF; add that, or leave it out",
        ));
    }
    let cpu = args.cpu.map_or_else(|| quiet_cpu(root, idle), Ok)?;
    let protocol = match sweep {
        false => Protocol::Random,
        true => Protocol::Sweep {
            datapoints: args.sweep_datapoints.unwrap_or(SWEEP_DATAPOINTS),
            factor: args.sweep_factor.unwrap_or(SWEEP_FACTOR),
        },
    };
    let goal_is_given = args.datapoints.is_some() || sweep;
    let deepest = match (&args.state, args.each_state) {
        (Some(state), _) => vec![state.clone()],
        (None, true) => names(idle.cpu(cpu).map_or(&[], |cpu| cpu.states.as_slice())),
        (None, false) => Vec::new(),
    };
    Ok(Options {
        cpu,
        probe: args.probe.map(|probe| match probe {
            ProbeChoice::Bpf => Probe::Bpf,
            ProbeChoice::User => Probe::User,
        }),
        sources: sources(&args.source),
        datapoints: args.datapoints,
        duration: args
            .duration
            .or((!goal_is_given).then_some(Options::DEFAULT_DURATION)),
        patience: Options::DEFAULT_PATIENCE,
        distances: args
            .distance
            .unwrap_or_else(|| protocol.default_distances()),
        protocol,
        deepest,
        nic_pin: args.nic_pin.clone(),
        cold_bytes: args.cold_caches.unwrap_or(0),
        offline_others: args.offline_others,
        seed: args.seed,
        journal_folder: journal::FOLDER.into(),
    })
}

fn names(states: &[IdleState]) -> Vec<String> {
    states.iter().map(|state| state.name.clone()).collect()
}

/// Each once: a repeated name would be another source. An address belongs to the `reply` before it.
fn sources(parts: &[String]) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for part in parts {
        match named.last_mut() {
            Some(reply) if reply.starts_with(REPLY) && is_address(part) => {
                reply.push(',');
                reply.push_str(part);
            }
            _ => named.push(part.clone()),
        }
    }
    let mut sources: Vec<String> = Vec::new();
    for name in named {
        if !sources.contains(&name) {
            sources.push(name);
        }
    }
    sources
}

/// The CPU that serves the fewest device interrupts, by a short look; of those that are mostly
/// idle, if there are any.
fn quiet_cpu(root: &Root, idle: &Idle) -> anyhow::Result<u32> {
    let online: Vec<u32> = idle
        .cpus
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.number)
        .collect();
    interrupts::quiet_cpu_or_last(root, &online)
        .ok_or_else(|| Failure::cannot("no CPU is online by /sys; is it mounted?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_source_is_measured_once() {
        let of = |text: &str| {
            let parts: Vec<String> = text.split(',').map(str::to_owned).collect();
            sources(&parts)
        };
        assert_eq!(of("remote,timer,remote"), ["remote", "timer"]);
        assert_eq!(
            of("timer,reply:eth0,192.0.2.1,hpet"),
            ["timer", "reply:eth0,192.0.2.1", "hpet"]
        );
        assert_eq!(of("reply:eth0,fe80::1%eth0"), ["reply:eth0,fe80::1%eth0"]);
        // What is left over is reported as an unknown source.
        assert_eq!(of("timer,192.0.2.1"), ["timer", "192.0.2.1"]);
    }
}

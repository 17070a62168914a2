//! `reveille model simulate`: servers behind a dispatcher, with any arrivals.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reveille_model::comparison::Comparison;
use reveille_model::parameters::{OfAPaper, Parameters, Simulation};
use reveille_model::show;
use reveille_model::simulate::{Dispatcher, Trace};
use reveille_results::text;

use super::progress::Shown;
use super::source::{self, Source, SourceArgs};
use crate::completion;
use crate::exit::{self, Failure};
use crate::output_format::{Printed, To};
use crate::value;

/// Simulate servers behind a dispatcher: percentiles, bursts, recorded requests.
///
/// What closed forms do not give. Each policy is simulated with the same requests, in independent
/// replications on all CPUs; figures have confidence intervals, and the same seed gives the same
/// figures. Ctrl-C keeps the replications that are completed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille model simulate --utilisation 0.2
  reveille model simulate --servers 10 --dispatcher packing:4 --params server.toml
  reveille model simulate --servers 1000 --horizon 1h --replications 1
  reveille model simulate --trace requests.csv         a line is ARRIVAL,SERVICE in seconds")]
pub struct Args {
    /// Service times, powers, policies, load and [simulation]: a TOML file; docs/example/model.toml
    /// shows every key [default: a paper's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// The load of one server at full speed: 0.2 or 20%
    #[arg(
        long,
        value_name = "LOAD",
        conflicts_with = "rate",
        value_parser = value::load,
        allow_hyphen_values = true
    )]
    utilisation: Option<f64>,
    /// Requests a second for each server
    #[arg(long, value_name = "N", value_parser = value::real, allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Exit latencies of idle states, as measured: a result of `measure`
    #[arg(long, value_name = "RESULT", add = completion::results())]
    states: Option<PathBuf>,
    /// Idle and active power, as measured: a result of `power cpus`
    #[arg(long, value_name = "RESULT", add = completion::results())]
    power: Option<PathBuf>,
    /// Servers behind the dispatcher [default: 1]
    #[arg(long, value_name = "N", value_parser = value::count(1..=u32::MAX))]
    servers: Option<u32>,
    /// random, round-robin, least-loaded, or packing:N (the first awake server with fewer than N
    /// requests, else one that sleeps is woken) [default: random]
    #[arg(long, value_name = "RULE", value_parser = parse_dispatcher, add = completion::names(|| ["random", "round-robin", "least-loaded", "packing:"]))]
    dispatcher: Option<Dispatcher>,
    /// Recorded requests: CSV, a line is ARRIVAL,SERVICE in seconds (or ARRIVAL)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["utilisation", "rate"])]
    trace: Option<PathBuf>,
    /// Time that is simulated in each replication, after the warm-up
    #[arg(long, value_name = "TIME", value_parser = source::parse_time, conflicts_with = "requests", allow_hyphen_values = true)]
    horizon: Option<f64>,
    /// Requests in each replication, to all servers [default: 100000]
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    requests: Option<u64>,
    /// Independent runs, from which the intervals come [default: 10]
    #[arg(long, value_name = "N", value_parser = value::count(1..=u32::MAX))]
    replications: Option<u32>,
    /// The same seed gives the same requests [default: 1]
    #[arg(long, value_name = "N", value_parser = value::seed, allow_hyphen_values = true)]
    seed: Option<u64>,
    #[command(flatten)]
    printed: Printed,
}

fn parse_dispatcher(text: &str) -> Result<Dispatcher, String> {
    let bound = |text: &str| text.parse::<u32>().ok().filter(|bound| *bound > 0);
    match (text, text.split_once(':')) {
        ("random", _) => Ok(Dispatcher::Random),
        ("round-robin", _) => Ok(Dispatcher::RoundRobin),
        ("least-loaded", _) => Ok(Dispatcher::LeastLoaded),
        (_, Some(("packing", number))) => bound(number)
            .map(|bound| Dispatcher::Packing { bound })
            .ok_or_else(|| {
                format!("`{number}` is not a bound; give packing:N with N of 1 or above")
            }),
        _ => Err("give random, round-robin, least-loaded or packing:N".to_owned()),
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (mut parameters, mut notes) = parameters(&args)?;
    let trace = parameters.simulation.trace.as_deref();
    let trace = trace.map(read_trace).transpose()?;
    if trace
        .as_ref()
        .is_some_and(|trace| trace.services().is_some())
    {
        parameters.given(OfAPaper::ServiceTimes, None);
    }
    notes.extend(show::whose(&parameters));
    let shown = Shown::new()?;
    let mut progress = |named: &_, of, done: Option<&_>| shown.tell(named, of, done);
    let comparison = Comparison::of(&parameters, notes, trace.as_ref(), &mut progress);
    let comparison = comparison.map_err(source::refused)?;
    shown.clear();
    if let (Some(why), false) = (comparison.nothing(), shown.is_interrupted()) {
        return Err(Failure::usage(why));
    }
    let sheet = show::comparison(&comparison);
    exit::reader_may_leave(args.printed.print(&comparison, &sheet, To::Output))?;
    Ok(shown.code())
}

fn parameters(args: &Args) -> anyhow::Result<(Parameters, Vec<String>)> {
    let source = SourceArgs {
        params: args.params.clone(),
        utilisation: args.utilisation,
        rate: args.rate,
        states: args.states.clone(),
        power: args.power.clone(),
        servers: None,
        price: None,
    };
    let Source {
        mut parameters,
        notes,
    } = source::read(&source)?;
    // A trace that the file names lies beside the file.
    let beside = args.params.as_deref().and_then(Path::parent);
    let simulation = &mut parameters.simulation;
    if let (Some(folder), Some(trace)) = (beside, &mut simulation.trace) {
        *trace = folder.join(&*trace);
    }
    overrule(simulation, args);
    Ok((parameters, notes))
}

/// The command line has the last word.
fn overrule(simulation: &mut Simulation, args: &Args) {
    if let Some(servers) = args.servers {
        simulation.servers = servers as usize;
    }
    if let Some(dispatcher) = args.dispatcher {
        simulation.dispatcher = dispatcher;
    }
    if args.utilisation.is_some() || args.rate.is_some() {
        simulation.trace = None;
    }
    if let Some(trace) = &args.trace {
        simulation.trace = Some(trace.clone());
    }
    if let Some(horizon) = args.horizon {
        simulation.horizon_s = Some(horizon);
    }
    if let Some(requests) = args.requests {
        (simulation.requests, simulation.horizon_s) = (requests, None);
    }
    if let Some(replications) = args.replications {
        simulation.replications = replications;
    }
    if let Some(seed) = args.seed {
        simulation.seed = seed;
    }
}

fn read_trace(path: &Path) -> anyhow::Result<Trace> {
    let text = File::open(path).and_then(|file| text::read(file, 4096));
    let text = text.map_err(reveille_kernel::Error::at(path))?;
    Trace::read(&text).map_err(|error| source::in_content(path, error))
}

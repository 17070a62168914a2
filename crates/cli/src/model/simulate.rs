//! `reveille model simulate`: servers behind a dispatcher, with any arrivals.

mod table;

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use reveille_model::Error;
use reveille_model::parameters::{Named, Parameters, Simulation};
use reveille_model::policy::Policy;
use reveille_model::simulate::{Dispatcher, Estimate, Replication, Simulated, Trace, simulate};
use reveille_results::text;
use serde::Serialize;

use super::source::{self, Source, SourceArgs};
use crate::exit::{self, Failure};
use crate::signals;
use reveille_show::progress::Bar;
use reveille_show::terminal;

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
  reveille model simulate --trace requests.csv         a line is ARRIVAL,SERVICE in seconds

Columns:
  time       the response time: from arrival to departure, mean
  p50 …      its percentiles; – with fewer than ten requests beyond, in each replication
  power      of one server, mean
  energy     of all servers, by request
  active     share of time that a server serves; also idle (awake without a request), moves (on the
             way to sleep and back) and nap
  naps       how often a second a server falls asleep
  asleep     share of the requests that found their server asleep, or on the way there or back

Exit codes: 2 where the load is 1 or above for every policy; 130 when interrupted.")]
pub struct Args {
    /// Service times, powers, policies, load and [simulation]: a TOML file; docs/example/model.toml
    /// shows every key [default: the paper's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// The load of one server at full speed, between 0 and 1
    #[arg(
        long,
        value_name = "LOAD",
        conflicts_with = "rate",
        allow_hyphen_values = true
    )]
    utilisation: Option<f64>,
    /// Requests a second for each server
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Exit latencies of idle states, as measured: a result of `measure`
    #[arg(long, value_name = "RESULT")]
    states: Option<PathBuf>,
    /// Servers behind the dispatcher [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    servers: Option<u32>,
    /// random, round-robin, least-loaded, or packing:N (the first awake server with fewer than N
    /// requests, else one that sleeps is woken) [default: random]
    #[arg(long, value_name = "RULE", value_parser = parse_dispatcher)]
    dispatcher: Option<Dispatcher>,
    /// Recorded requests: CSV, a line is ARRIVAL,SERVICE in seconds (or ARRIVAL)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["utilisation", "rate"])]
    trace: Option<PathBuf>,
    /// Time that is simulated in each replication, after the warm-up
    #[arg(long, value_name = "TIME", value_parser = super::parse_time, conflicts_with = "requests", allow_hyphen_values = true)]
    horizon: Option<f64>,
    /// Requests in each replication, to all servers [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Independent runs, from which the intervals come [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replications: Option<u32>,
    /// The same seed gives the same requests [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

fn parse_dispatcher(text: &str) -> Result<Dispatcher, String> {
    let bound = |text: &str| text.parse::<u32>().ok().filter(|bound| *bound > 0);
    match (text, text.split_once(':')) {
        ("random", _) => Ok(Dispatcher::Random),
        ("round-robin", _) => Ok(Dispatcher::RoundRobin),
        ("least-loaded", _) => Ok(Dispatcher::LeastLoaded),
        (_, Some(("packing", number))) => bound(number)
            .map(|bound| Dispatcher::Packing { bound })
            .ok_or_else(|| format!("`{number}` is no bound; give packing:N with N of 1 or above")),
        _ => Err("give random, round-robin, least-loaded or packing:N".to_owned()),
    }
}

/// One policy, simulated.
#[derive(Serialize)]
pub struct Row {
    policy: String,
    /// `None`: it cannot keep up, or the run was interrupted before.
    simulated: Option<Simulated>,
    /// Why there is nothing.
    why: Option<String>,
    /// How much more than the first, on the same requests; `None` for the first itself.
    above_first: Option<Above>,
}

/// A difference of two policies, replication by replication.
#[derive(Serialize)]
pub struct Above {
    response_mean_s: Estimate,
    power_mean_w: Estimate,
}

/// What people and programs are told.
#[derive(Serialize)]
pub struct Answer<'a> {
    parameters: &'a Parameters,
    /// Requests a second to all servers together; of a trace, its own.
    rate_per_s: f64,
    /// Of the service times that a trace brings.
    recorded_service_mean_s: Option<f64>,
    notes: Vec<String>,
    policies: Vec<Row>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (parameters, notes) = parameters(&args)?;
    let trace = parameters.simulation.trace.as_deref();
    let trace = trace.map(read_trace).transpose()?;
    let interrupted = signals::stop()?;
    let rows = rows(&parameters, trace.as_ref(), &interrupted)?;
    let mut answer = Answer {
        rate_per_s: match &trace {
            Some(trace) => trace.rate(),
            None => parameters.rate() * parameters.simulation.servers as f64,
        },
        recorded_service_mean_s: trace.as_ref().and_then(Trace::services).map(mean),
        parameters: &parameters,
        notes,
        policies: rows,
    };
    answer.take_notes();
    let is_interrupted = interrupted.load(Ordering::Relaxed);
    answer.has_figures(is_interrupted)?;
    exit::reader_may_leave(match args.json {
        true => super::write_json(&answer),
        false => table::write(&answer, &mut terminal::stdout()),
    })?;
    Ok(match is_interrupted {
        true => ExitCode::from(exit::INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

impl Answer<'_> {
    /// What is to be known of several policies is said once.
    fn take_notes(&mut self) {
        for simulated in self
            .policies
            .iter()
            .filter_map(|row| row.simulated.as_ref())
        {
            for note in &simulated.notes {
                if !self.notes.contains(note) {
                    self.notes.push(note.clone());
                }
            }
        }
    }

    fn has_figures(&self, is_interrupted: bool) -> anyhow::Result<()> {
        if is_interrupted || self.policies.iter().any(|row| row.simulated.is_some()) {
            return Ok(());
        }
        let why = self.policies.iter().find_map(|row| row.why.as_deref());
        Err(Failure::usage(why.unwrap_or("there is no policy")))
    }
}

fn parameters(args: &Args) -> anyhow::Result<(Parameters, Vec<String>)> {
    let Source {
        mut parameters,
        notes,
    } = source::read(&SourceArgs {
        params: args.params.clone(),
        utilisation: args.utilisation,
        rate: args.rate,
        states: args.states.clone(),
        servers: None,
        price: None,
    })?;
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
    let text = text.with_context(|| path.display().to_string())?;
    Trace::read(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Always-on first, which the others are held against.
fn rows(
    parameters: &Parameters,
    trace: Option<&Trace>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Row>> {
    let always_on = Named::always_on();
    let (first, others): (Vec<&Named>, Vec<&Named>) = parameters
        .policies
        .iter()
        .partition(|named| named.policy == Policy::AlwaysOn);
    let missing = first.is_empty().then_some(&always_on);
    let all: Vec<&Named> = missing.into_iter().chain(first).chain(others).collect();
    let (bar, policies) = (Bar::new(), all.len());
    let mut rows: Vec<Row> = Vec::new();
    for (place, named) in all.into_iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            rows.push(Row::interrupted(named));
            continue;
        }
        let setup = parameters
            .simulation
            .setup(parameters, &named.policy, trace);
        let simulated = simulate(&setup, &mut |progress| {
            let of_policy = progress.simulated as f64 / progress.expected.max(1) as f64;
            let done = (place as f64 + of_policy.min(1.0)) / policies as f64;
            let policy = format!("policy {}/{policies}", place + 1);
            let detail = format!(
                "{}, {} of {} replications",
                named.name, progress.replications_done, progress.replications
            );
            bar.show(&policy, done, bar.estimate(done), &detail);
            match interrupted.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let first = rows.first().and_then(|row: &Row| row.simulated.as_ref());
        rows.push(row(
            named,
            simulated,
            first,
            interrupted.load(Ordering::Relaxed),
        )?);
    }
    bar.clear();
    Ok(rows)
}

fn row(
    named: &Named,
    simulated: reveille_model::Result<Simulated>,
    first: Option<&Simulated>,
    is_interrupted: bool,
) -> anyhow::Result<Row> {
    let (simulated, why) = match simulated {
        Ok(simulated) => (Some(simulated), None),
        Err(Error::Nothing(_)) if is_interrupted => return Ok(Row::interrupted(named)),
        Err(error @ Error::Unstable { .. }) => (None, Some(error.to_string())),
        Err(other) => return Err(super::told(other)),
    };
    let above = simulated.as_ref().zip(first);
    Ok(Row {
        policy: named.name.clone(),
        above_first: above.and_then(|(mine, first)| Above::of(mine, first)),
        simulated,
        why,
    })
}

impl Row {
    fn interrupted(named: &Named) -> Self {
        Self {
            policy: named.name.clone(),
            simulated: None,
            why: Some("interrupted".to_owned()),
            above_first: None,
        }
    }
}

impl Above {
    fn of(mine: &Simulated, first: &Simulated) -> Option<Self> {
        let above = |figure: fn(&Replication) -> f64| mine.above(first, mine.confidence, figure);
        Some(Self {
            response_mean_s: above(|run| run.response_mean)?,
            power_mean_w: above(|run| run.power_mean)?,
        })
    }
}

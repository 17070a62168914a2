//! Where parameters come from: a file, the command line, a result of `measure`.

use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};

use reveille_model::latencies::{self, Measured};
use reveille_model::machine;
use reveille_model::parameters::{Arrivals, Farm, Parameters};
use reveille_results::text;

use crate::completion;
use crate::exit::Failure;
use crate::value;

/// Flags that `run`, `sweep` and `from` have in common.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// Service times, powers, policies and loads: a TOML file; docs/example/model.toml shows every
    /// key [default: a paper's]
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// The load of one server at full speed: 0.2 or 20%
    #[arg(
        long,
        value_name = "LOAD",
        conflicts_with = "rate",
        value_parser = value::load,
        allow_hyphen_values = true
    )]
    pub utilisation: Option<f64>,
    /// Requests a second that come to one server
    #[arg(long, value_name = "N", value_parser = value::real, allow_hyphen_values = true)]
    pub rate: Option<f64>,
    /// Exit latencies of idle states, as measured: a result of `measure`; the policies' states are
    /// found by their names
    #[arg(long, value_name = "RESULT", add = completion::results())]
    pub states: Option<PathBuf>,
    /// Idle and active power, as measured: a result of `power cpus`
    #[arg(long, value_name = "RESULT", add = completion::results())]
    pub power: Option<PathBuf>,
    /// Show the yearly energy of this many servers
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    pub servers: Option<u64>,
    /// Money for a kWh, in any currency, with --servers
    #[arg(long, value_name = "MONEY", value_parser = value::real, allow_hyphen_values = true)]
    pub price: Option<f64>,
}

/// The parameters, and what a reader must know of how they came about.
pub struct Source {
    pub parameters: Parameters,
    pub notes: Vec<String>,
}

/// Without the note on whose the figures are: `show::whose`.
pub fn read(args: &SourceArgs) -> anyhow::Result<Source> {
    let mut parameters = match &args.params {
        Some(path) => file(path)?,
        None => Parameters::default(),
    };
    if let Some(load) = args.utilisation {
        parameters.arrivals = Arrivals::Utilisation(load);
    }
    if let Some(rate) = args.rate {
        parameters.arrivals = Arrivals::Rate(rate);
    }
    if let Some(servers) = args.servers {
        let told = parameters.farm;
        parameters.farm = Some(Farm {
            servers,
            price_per_kwh: told.and_then(|farm| farm.price_per_kwh),
            overhead: told.map_or(1.0, |farm| farm.overhead),
        });
    }
    if let Some(price) = args.price {
        let Some(farm) = &mut parameters.farm else {
            return Err(Failure::usage(
                "--price needs --servers, or [farm] in the parameters",
            ));
        };
        farm.price_per_kwh = Some(price);
    }
    let mut notes = match &args.states {
        Some(result) => measured(result, &mut parameters)?,
        None => Vec::new(),
    };
    if let Some(result) = &args.power {
        notes.push(metered(result, &mut parameters)?);
    }
    parameters.check().map_err(refused)?;
    Ok(Source { parameters, notes })
}

/// Puts what a meter read with no CPU and with all CPUs busy in the place of idle and active power.
fn metered(result: &Path, parameters: &mut Parameters) -> anyhow::Result<String> {
    let cpus = reveille_power::cpus::open(result)?;
    let points = || cpus.orders.iter().flat_map(|curve| &curve.points);
    let at = |busy| points().find(|point| point.busy == busy);
    let (idle, active) = (at(0), points().max_by_key(|point| point.busy));
    let (Some(idle), Some(active)) = (idle, active.filter(|point| point.busy > 0)) else {
        let why = "has no power of idle and of busy CPUs: no round was complete";
        return Err(in_content(result, why));
    };
    let [idle_w, active_w] = [idle, active].map(|point| Some(point.power_w.estimate));
    let meter = machine::Measured {
        active_w,
        idle_w,
        ..machine::Measured::default()
    };
    let note = machine::measured(&meter, parameters);
    Ok(format!(
        "{note} The meter: {}.",
        reveille_meter::show::words(&cpus.meter)
    ))
}

fn file(path: &Path) -> anyhow::Result<Parameters> {
    let text = File::open(path).and_then(|file| text::read(file, 64));
    let text = text.map_err(reveille_kernel::Error::at(path))?;
    let text = String::from_utf8(text)
        .map_err(|_| in_content(path, "is not text; parameters are TOML"))?;
    Parameters::parse(&text).map_err(|error| in_content(path, error))
}

/// Puts the medians of a result in the place of the states' exit latencies.
fn measured(result: &Path, parameters: &mut Parameters) -> anyhow::Result<Vec<String>> {
    let loaded = reveille_results::open(result)?;
    let floors = &loaded.description.characterisation.floors;
    let table = |name: &str| {
        let states = &loaded.description.states;
        states
            .iter()
            .find(|state| state.name == name)?
            .exit_latency_us
    };
    let statistics = match loaded.description.statistics.is_empty() {
        true => reveille_results::statistics::by_state(&loaded.columns, &table, floors),
        false => loaded.description.statistics.clone(),
    };
    let measured = statistics.iter().map(|one| Measured {
        state: &one.state,
        median_ns: one.wake_latency.median_ns,
        count: one.wake_latency.count,
    });
    let measured: Vec<Measured<'_>> = measured.collect();
    latencies::put_into(parameters, &measured)
        .map_err(|error| Failure::usage(format!("--states {}: {error}", result.display())))
}

/// A file whose content is wrong is a failure, not wrong use.
pub fn in_content(file: &Path, error: impl Display) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", file.display())
}

/// What was asked for wrongly, or an unstable load, is wrong use: other figures would do.
pub fn refused(error: reveille_model::Error) -> anyhow::Error {
    Failure::usage(error.to_string())
}

/// A time on the command line, in seconds.
pub fn parse_time(text: &str) -> Result<f64, String> {
    let seconds = reveille_model::seconds::from_text(text)?;
    match seconds > 0.0 && seconds.is_finite() {
        true => Ok(seconds),
        false => Err("must be above 0 and finite".to_owned()),
    }
}

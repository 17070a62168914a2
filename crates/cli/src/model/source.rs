//! Where parameters come from: a file, the command line, a result of `measure`.

use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};

use reveille_model::latencies::{self, Measured};
use reveille_model::parameters::{Arrivals, Farm, Parameters};
use reveille_results::text;

use crate::completion;
use crate::exit::Failure;
use crate::value;

/// Flags that `run`, `sweep` and `from` have in common.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// Service times, powers, policies and loads: a TOML file; docs/example/model.toml shows every
    /// key [default: the paper's]
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

/// The paper's have what no file says.
pub fn read(args: &SourceArgs) -> anyhow::Result<Source> {
    read_or(args, Parameters::paper())
}

/// `otherwise` has what no file says.
pub fn read_or(args: &SourceArgs, otherwise: Parameters) -> anyhow::Result<Source> {
    let mut parameters = match &args.params {
        Some(path) => file(path, otherwise)?,
        None => otherwise,
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
    if args.params.is_none() {
        let whose = "Without --params powers and service times are a paper's, of no machine that was measured.";
        notes.push(whose.to_owned());
    }
    parameters.check().map_err(refused)?;
    Ok(Source { parameters, notes })
}

fn file(path: &Path, base: Parameters) -> anyhow::Result<Parameters> {
    let text = File::open(path).and_then(|file| text::read(file, 64));
    let text = text.map_err(reveille_kernel::Error::at(path))?;
    let text = String::from_utf8(text)
        .map_err(|_| in_content(path, "is not text; parameters are TOML"))?;
    Parameters::parse_over(&text, base).map_err(|error| in_content(path, error))
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

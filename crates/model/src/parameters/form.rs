//! Parameters as a file has them.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Spanned, Table};

use super::{Arrivals, Farm, Named, OfAPaper, Parameters, Simulation};
use crate::policy::Policy;
use crate::power::Power;
use crate::service::Service;
use crate::{Error, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    service: Option<Spanned<Table>>,
    power: Option<Power>,
    arrivals: Option<ArrivalsForm>,
    #[serde(default)]
    policy: Vec<Spanned<Table>>,
    sweep: Option<SweepForm>,
    farm: Option<Farm>,
    simulation: Option<Simulation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct ArrivalsForm {
    utilisation: Option<f64>,
    rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct SweepForm {
    utilisations: Vec<f64>,
}

impl Parameters {
    /// Parameters from TOML. What is missing there is as in [`Parameters::default`].
    ///
    /// # Errors
    /// [`Error::Usage`]: the line, what is wrong there, and what is valid.
    pub fn parse(text: &str) -> Result<Self> {
        let parameters = read(text, Self::default())?;
        parameters.check()?;
        Ok(parameters)
    }
}

fn read(text: &str, base: Parameters) -> Result<Parameters> {
    let file: File = toml::from_str(text).map_err(|error| refused(text, &error))?;
    let mut parameters = base;
    if let Some(table) = file.service {
        parameters.service = at(text, &table, "service", service)?;
        parameters.given(OfAPaper::ServiceTimes, None);
    }
    if let Some(power) = file.power {
        parameters.power = power;
        parameters.given(OfAPaper::Powers, None);
    }
    if let Some(form) = file.arrivals {
        parameters.arrivals = match (form.utilisation, form.rate) {
            (Some(load), None) => Arrivals::Utilisation(load),
            (None, Some(rate)) => Arrivals::Rate(rate),
            _ => {
                let why = "arrivals: give either `utilisation` or `rate` (requests a second)";
                return Err(Error::Usage(why.into()));
            }
        };
    }
    if !file.policy.is_empty() {
        let policies = file.policy.iter();
        parameters.policies = policies
            .map(|table| at(text, table, "policy", named))
            .collect::<Result<_>>()?;
        parameters.given(OfAPaper::Policies, None);
    }
    if let Some(form) = file.sweep {
        parameters.utilisations = form.utilisations;
    }
    parameters.farm = file.farm;
    if let Some(simulation) = file.simulation {
        refuse_both(text)?;
        parameters.simulation = simulation;
    }
    Ok(parameters)
}

/// Keys of `[simulation]` that exclude each other.
fn refuse_both(text: &str) -> Result<()> {
    let keys: Table = toml::from_str(text).map_err(|error| refused(text, &error))?;
    let has = |key| keys["simulation"].get(key).is_some();
    ensure!(
        !(has("horizon") && has("requests")),
        "simulation: give either `horizon` (a time) or `requests`"
    );
    ensure!(
        !(has("trace") && has("arrivals")),
        "simulation: give either `trace` or `arrivals`: a trace has its own arrivals"
    );
    Ok(())
}

/// An error of the TOML reader, in one line with its place.
fn refused(text: &str, error: &toml::de::Error) -> Error {
    let why = error.message().replace('\n', "; ");
    match error.span() {
        Some(span) => Error::Usage(format!("line {}: {why}", line(text, span.start))),
        None => Error::Usage(why),
    }
}

fn line(text: &str, place: usize) -> usize {
    let before = &text.as_bytes()[..place.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Reads a table whose form depends on one of its keys. An error has the line where it begins.
fn at<T>(
    text: &str,
    table: &Spanned<Table>,
    what: &str,
    read: impl Fn(Table) -> std::result::Result<T, String>,
) -> Result<T> {
    read(table.get_ref().clone()).map_err(|why| {
        let line = line(text, table.span().start);
        Error::Usage(format!("line {line}: {what}: {}", why.replace('\n', "; ")))
    })
}

fn form<T: DeserializeOwned>(table: Table) -> std::result::Result<T, String> {
    let read = table.try_into();
    read.map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Takes a text out of a table; an error lists the valid ones.
fn take(table: &mut Table, key: &str, valid: &str) -> std::result::Result<String, String> {
    match table.remove(key) {
        Some(toml::Value::String(text)) => Ok(text),
        Some(other) => Err(format!("{key} is {}; give {valid}", other.type_str())),
        None => Err(format!("{key} is missing; give {valid}")),
    }
}

fn service(mut table: Table) -> std::result::Result<Service, String> {
    const VALID: &str = "exponential, deterministic, lognormal, gamma or empirical";
    let name = take(&mut table, "distribution", VALID)?;
    let mut valid = VALID.split([',', ' ']);
    if matches!(name.as_str(), "" | "or") || valid.all(|valid| valid != name) {
        return Err(format!("distribution `{name}`; give {VALID}"));
    }
    table.insert("distribution".into(), name.into());
    form(table)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn named(mut table: Table) -> std::result::Result<Named, String> {
    const VALID: &str = "always_on, power_nap, dvfs or c_states";
    let name = take(&mut table, "name", "a text")?;
    let kind = take(&mut table, "kind", VALID).map_err(|why| format!("`{name}`: {why}"))?;
    let policy = match kind.as_str() {
        "always_on" => form::<Nothing>(table).map(|_| Policy::AlwaysOn),
        "power_nap" => form(table).map(Policy::PowerNap),
        "dvfs" => form(table).map(Policy::Dvfs),
        "c_states" => form(table).map(Policy::CStates),
        other => Err(format!("kind `{other}`; give {VALID}")),
    };
    let policy = policy.map_err(|why| format!("`{name}`: {why}"))?;
    Ok(Named { name, policy })
}

//! The file as it is written.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Spanned, Table};

use super::{Arrivals, Farm, Named, Parameters, simulation};
use crate::policy::{CState, CStates, Choice, Dvfs, Law, Policy, PowerNap, Rule};
use crate::power::Power;
use crate::seconds::Seconds;
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
    farm: Option<FarmForm>,
    simulation: Option<simulation::Form>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrivalsForm {
    utilisation: Option<f64>,
    rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepForm {
    utilisations: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FarmForm {
    servers: u64,
    price_per_kwh: Option<f64>,
    overhead: Option<f64>,
}

impl Parameters {
    /// Parameters from TOML. What is missing there is as in [`Parameters::paper`].
    ///
    /// # Errors
    /// [`Error::Usage`]: the line, what is wrong there, and what can be.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_over(text, Self::paper())
    }

    /// Parameters from TOML. What is missing there is as in `base`.
    ///
    /// # Errors
    /// As [`Parameters::parse`].
    pub fn parse_over(text: &str, base: Self) -> Result<Self> {
        let parameters = read(text, base)?;
        parameters.check()?;
        Ok(parameters)
    }
}

fn read(text: &str, base: Parameters) -> Result<Parameters> {
    let file: File = toml::from_str(text).map_err(|error| refused(text, &error))?;
    let mut parameters = base;
    if let Some(table) = file.service {
        parameters.service = at(text, &table, "service", service)?;
    }
    if let Some(power) = file.power {
        parameters.power = power;
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
    }
    if let Some(form) = file.sweep {
        parameters.utilisations = form.utilisations;
    }
    parameters.farm = file.farm.map(|form| Farm {
        servers: form.servers,
        price_per_kwh: form.price_per_kwh,
        overhead: form.overhead.unwrap_or(1.0),
    });
    if let Some(form) = file.simulation {
        parameters.simulation = form.read()?;
    }
    Ok(parameters)
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
    table
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Takes a text out of a table; an error lists the valid ones.
fn take(table: &mut Table, key: &str, can_be: &str) -> std::result::Result<String, String> {
    match table.remove(key) {
        Some(toml::Value::String(text)) => Ok(text),
        Some(other) => Err(format!("{key} is {}; give {can_be}", other.type_str())),
        None => Err(format!("{key} is missing; give {can_be}")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeanForm {
    mean: Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpreadForm {
    mean: Seconds,
    cv: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValuesForm {
    values: Vec<Seconds>,
}

fn service(mut table: Table) -> std::result::Result<Service, String> {
    const CAN_BE: &str = "exponential, deterministic, lognormal, gamma or empirical";
    let distribution = take(&mut table, "distribution", CAN_BE)?;
    Ok(match distribution.as_str() {
        "exponential" => Service::Exponential {
            mean: form::<MeanForm>(table)?.mean.0,
        },
        "deterministic" => Service::Deterministic {
            mean: form::<MeanForm>(table)?.mean.0,
        },
        "lognormal" => {
            let SpreadForm { mean, cv } = form(table)?;
            Service::Lognormal { mean: mean.0, cv }
        }
        "gamma" => {
            let SpreadForm { mean, cv } = form(table)?;
            Service::Gamma { mean: mean.0, cv }
        }
        "empirical" => {
            let ValuesForm { values } = form(table)?;
            Service::Empirical {
                values: values.iter().map(|value| value.0).collect(),
            }
        }
        other => return Err(format!("distribution `{other}`; give {CAN_BE}")),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NapForm {
    suspend: Seconds,
    resume: Seconds,
    timeout: Option<Seconds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DvfsForm {
    floor: f64,
    processor_share: f64,
    #[serde(default)]
    idle_share: f64,
    law: Option<Law>,
    rule: Rule,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CStatesForm {
    choice: Choice,
    states: Vec<CStateForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CStateForm {
    name: String,
    exit_latency: Seconds,
    power: f64,
    target_residency: Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn named(mut table: Table) -> std::result::Result<Named, String> {
    const CAN_BE: &str = "always_on, power_nap, dvfs or c_states";
    let name = take(&mut table, "name", "a text")?;
    let kind = take(&mut table, "kind", CAN_BE).map_err(|why| format!("`{name}`: {why}"))?;
    let policy = match kind.as_str() {
        "always_on" => form::<Nothing>(table).map(|_| Policy::AlwaysOn),
        "power_nap" => form::<NapForm>(table).map(|form| {
            Policy::PowerNap(PowerNap {
                suspend: form.suspend.0,
                resume: form.resume.0,
                timeout: form.timeout.map_or(0.0, |timeout| timeout.0),
            })
        }),
        "dvfs" => form::<DvfsForm>(table).map(|form| {
            Policy::Dvfs(Dvfs {
                floor: form.floor,
                processor_share: form.processor_share,
                idle_share: form.idle_share,
                law: form.law.unwrap_or(Law::Cubic),
                rule: form.rule,
            })
        }),
        "c_states" => form::<CStatesForm>(table).map(|form| {
            let states = form.states.into_iter().map(|state| CState {
                name: state.name,
                exit_latency: state.exit_latency.0,
                power: state.power,
                target_residency: state.target_residency.0,
            });
            Policy::CStates(CStates {
                states: states.collect(),
                choice: form.choice,
            })
        }),
        other => Err(format!("kind `{other}`; give {CAN_BE}")),
    };
    let policy = policy.map_err(|why| format!("`{name}`: {why}"))?;
    Ok(Named { name, policy })
}

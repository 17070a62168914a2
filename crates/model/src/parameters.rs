//! Parameters of a model: from TOML, or the paper's.
//!
//! `docs/example/model.toml` shows every key. Times are written `"50ms"`, or as a number of seconds;
//! powers in watts. Unknown keys are refused.

mod form;
mod simulation;

use serde::{Deserialize, Serialize};

use crate::closed;
use crate::policy::{Dvfs, Law, Outcome, Policy, PowerNap, Rule};
use crate::power::Power;
use crate::service::Service;
use crate::simulate::{self, Horizon, Setup, Trace, WarmUp};
use crate::{Error, Result};

pub use simulation::{Process, Simulation};

/// A policy with the name that tables and charts give it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// Not empty, without control characters; no two policies have the same in any case.
    pub name: String,
    /// What the server does without work.
    pub policy: Policy,
}

/// The name of a server without power management, which no other policy may have.
pub const ALWAYS_ON: &str = "always on";

impl Named {
    /// What others are compared with.
    pub fn always_on() -> Self {
        Self {
            name: ALWAYS_ON.into(),
            policy: Policy::AlwaysOn,
        }
    }

    /// Is it the name that someone means? Upper and lower case are one.
    fn is_called(&self, name: &str) -> bool {
        self.name.to_lowercase() == name.to_lowercase()
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        ensure!(
            !name.trim().is_empty() && !name.contains(char::is_control),
            "policy {name:?}: invalid name; use letters and digits"
        );
        ensure!(
            !self.is_called(ALWAYS_ON) || self.policy == Policy::AlwaysOn,
            "policy {name:?}: this name is reserved for servers without power management; choose another"
        );
        self.policy.check().map_err(|error| match error {
            Error::Usage(why) => Error::Usage(format!("policy `{name}`: {why}")),
            other => other,
        })
    }
}

/// How many requests come to one server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// The load: arrival rate by mean service time at full speed.
    Utilisation(f64),
    /// Requests a second.
    #[serde(rename = "rate_per_s")]
    Rate(f64),
}

/// Many such servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Farm {
    /// How many there are.
    pub servers: u64,
    /// Money for a kWh at the socket; `None`: unknown, and no cost is shown.
    pub price_per_kwh: Option<f64>,
    /// What the building draws for each watt of its servers (power usage effectiveness): 1 and above.
    #[serde(default = "one")]
    pub overhead: f64,
}

fn one() -> f64 {
    1.0
}

/// What nobody gave of a server's figures: it is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OfAPaper {
    /// Every power.
    Powers,
    /// The powers that no meter gave, by the paper's ratio to idle power, or as in the paper.
    OtherPowers,
    /// The service times.
    ServiceTimes,
    /// Every policy.
    Policies,
    /// The policies that are not a measured machine's.
    OtherPolicies,
}

/// A server, its load, and the policies to compare.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// How long requests take.
    pub service: Service,
    /// What the server draws.
    pub power: Power,
    /// How many requests come.
    pub arrivals: Arrivals,
    /// Not empty, names differ. Always-on need not be in it: it is what others are compared with.
    pub policies: Vec<Named>,
    /// The loads of a sweep: ascending, between 0 and 1.
    pub utilisations: Vec<f64>,
    /// For the year's figures; `None`: none are shown.
    pub farm: Option<Farm>,
    /// How much is simulated, and with what besides.
    pub simulation: Simulation,
    /// What of all this is of no machine that was measured, and nobody gave.
    pub of_a_paper: Vec<OfAPaper>,
}

/// What every command starts from: [`Parameters::paper`] with nothing fitted. What the paper says of power, and the
/// simplest where it says nothing: a processor's share of 33% of active power, a server that idles at 60% of it
/// and sleeps at 5% of that, and (not in the paper) transitions that draw what idling does.
impl Default for Parameters {
    fn default() -> Self {
        let mut parameters = Self::paper();
        parameters.power.transition = parameters.power.idle;
        for named in &mut parameters.policies {
            match &mut named.policy {
                Policy::Dvfs(dvfs) => {
                    dvfs.processor_share = 0.33;
                    dvfs.idle_share = 0.0;
                }
                Policy::PowerNap(nap) => nap.suspend = nap.resume,
                Policy::AlwaysOn | Policy::CStates(_) => {}
            }
        }
        parameters
    }
}

impl Parameters {
    /// Fitted to what "Understanding the Critical Path in Power State Transition Latencies" (Xi and others,
    /// 2013) says of its figures 7 and 8. Service times, DVFS law and powers are not in it; under these six of
    /// its eight statements hold, as the book's chapter on models says.
    pub fn paper() -> Self {
        let nap = |ms: u32| Named {
            name: format!("nap {ms} ms"),
            policy: Policy::PowerNap(PowerNap {
                suspend: 0.0,
                resume: f64::from(ms) / 1e3,
                timeout: 0.0,
            }),
        };
        let mut policies: Vec<Named> = [10, 50, 100, 650].map(nap).into();
        policies.push(Named {
            name: "DVFS".into(),
            policy: Policy::Dvfs(Dvfs {
                floor: 1.0 / 2.4,
                processor_share: 0.57,
                idle_share: 0.95,
                law: Law::Cubic,
                rule: Rule::Linear,
            }),
        });
        Self {
            service: Service::Exponential { mean: 0.038 },
            power: Power {
                active: 100.0,
                idle: 60.0,
                nap: 3.0,
                transition: 14.0,
            },
            arrivals: Arrivals::Utilisation(0.3),
            policies,
            utilisations: (1..=95).map(|percent| f64::from(percent) / 100.0).collect(),
            farm: None,
            simulation: Simulation::default(),
            of_a_paper: vec![OfAPaper::Powers, OfAPaper::ServiceTimes, OfAPaper::Policies],
        }
    }

    /// Somebody gave a part of what was the paper's: `left` of it is, if anything.
    pub fn given(&mut self, part: OfAPaper, left: Option<OfAPaper>) {
        if let Some(place) = self.of_a_paper.iter().position(|one| *one == part) {
            self.of_a_paper.splice(place..=place, left);
        }
    }

    /// The load of one server at full speed.
    pub fn utilisation(&self) -> f64 {
        match self.arrivals {
            Arrivals::Utilisation(load) => load,
            Arrivals::Rate(rate) => self.service.load(rate),
        }
    }

    /// Requests a second to one server.
    pub fn rate(&self) -> f64 {
        match self.arrivals {
            Arrivals::Utilisation(load) => load / self.service.mean(),
            Arrivals::Rate(rate) => rate,
        }
    }

    /// Is always-on one of the policies? Tables show it in any case.
    pub fn has_always_on(&self) -> bool {
        self.own_always_on().is_some()
    }

    /// What that policy is called.
    pub fn always_on(&self) -> &str {
        self.own_always_on().unwrap_or(ALWAYS_ON)
    }

    fn own_always_on(&self) -> Option<&str> {
        let mut policies = self.policies.iter();
        let own = policies.find(|named| named.policy == Policy::AlwaysOn);
        own.map(|named| named.name.as_str())
    }

    /// The outcome of a policy at this load.
    ///
    /// # Errors
    /// As [`closed::outcome`].
    pub fn outcome(&self, policy: &Policy, utilisation: f64) -> Result<Outcome> {
        let rate = utilisation / self.service.mean();
        closed::outcome(policy, &self.power, &self.service, rate)
    }

    /// What is simulated for one policy. `trace` is the content of the file named in
    /// [`Simulation::trace`].
    pub fn setup(&self, policy: &Policy, trace: Option<&Trace>) -> Setup {
        let simulation = &self.simulation;
        let arrivals = match trace {
            Some(trace) => simulate::Arrivals::Trace(trace.clone()),
            None => simulation
                .arrivals
                .at(self.rate() * simulation.servers as f64),
        };
        Setup {
            servers: simulation.servers,
            dispatcher: simulation.dispatcher,
            horizon: match (simulation.horizon_s, trace) {
                (Some(seconds), _) => Horizon::Seconds(seconds),
                (None, Some(_)) => Horizon::Trace,
                (None, None) => Horizon::Requests(simulation.requests),
            },
            warm_up: simulation
                .warm_up_s
                .map_or(WarmUp::Relaxation, WarmUp::Seconds),
            replications: simulation.replications,
            confidence: simulation.confidence,
            seed: simulation.seed,
            ..Setup::new(policy.clone(), arrivals, self.service.clone(), self.power)
        }
    }

    /// The policy of that name; upper and lower case are one.
    ///
    /// # Errors
    /// [`Error::Usage`] with the names that there are.
    pub fn policy(&self, name: &str) -> Result<&Named> {
        let mut named = self.policies.iter();
        named.find(|named| named.is_called(name)).ok_or_else(|| {
            let names: Vec<&str> = self.policies.iter().map(|one| one.name.as_str()).collect();
            Error::Usage(format!(
                "there is no policy `{name}`; there are: {}",
                names.join(", ")
            ))
        })
    }

    /// # Errors
    /// [`Error::Usage`] for the first invalid figure.
    pub fn check(&self) -> Result<()> {
        self.service.check()?;
        self.power.check()?;
        match self.arrivals {
            Arrivals::Utilisation(load) => positive("arrivals: utilisation", load)?,
            Arrivals::Rate(rate) => positive("arrivals: rate", rate)?,
        }
        ensure!(
            !self.policies.is_empty(),
            "policies: none given; give at least one"
        );
        for (place, named) in self.policies.iter().enumerate() {
            named.check()?;
            let mut before = self.policies[..place].iter();
            ensure!(
                !before.any(|other| other.is_called(&named.name)),
                "policy `{}`: duplicate name (case is ignored); rename one",
                named.name
            );
        }
        self.check_sweep()?;
        self.simulation.arrivals.check()?;
        self.farm.as_ref().map_or(Ok(()), Farm::check)
    }

    fn check_sweep(&self) -> Result<()> {
        ensure!(
            !self.utilisations.is_empty(),
            "sweep: no utilisation given; give at least one"
        );
        for load in &self.utilisations {
            ensure!(
                *load > 0.0 && *load < 1.0,
                "sweep: utilisation {load}; give numbers between 0 and 1, neither included: at 1 no queue \
                 is stable"
            );
        }
        ensure!(
            self.utilisations.is_sorted_by(|a, b| a < b),
            "sweep: utilisations do not ascend; sort them"
        );
        Ok(())
    }
}

/// Of anything in a farm: more than there is, and few enough for a table.
const MOST: f64 = 1e9;

impl Farm {
    fn check(&self) -> Result<()> {
        let (servers, overhead) = (self.servers, self.overhead);
        ensure!(
            (1..=MOST as u64).contains(&servers),
            "farm: {servers} servers; give 1 to {MOST:e}"
        );
        if let Some(price) = self.price_per_kwh {
            ensure!(
                price > 0.0 && price <= MOST,
                "farm: price_per_kwh: {price:?}; give a number above 0, up to {MOST:e}"
            );
        }
        ensure!(
            (1.0..=MOST).contains(&overhead),
            "farm: overhead: {overhead:?}; give 1 to {MOST:e}"
        );
        Ok(())
    }
}

fn positive(name: &str, value: f64) -> Result<()> {
    ensure!(
        value > 0.0 && value.is_finite(),
        "{name}: {value:?}; give a number above 0"
    );
    Ok(())
}

#[cfg(test)]
mod tests;

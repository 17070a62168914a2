//! Policies side by side at one load.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::farm::{Year, years};
use crate::parameters::{Named, Parameters};
use crate::simulate::{Arrivals, Setup, Simulated, simulate};
use crate::sweep::{Point, point};
use crate::{Error, Result};

/// Every policy at the load of the parameters.
#[derive(Debug, Serialize)]
pub struct Run<'a> {
    /// Service times, powers and policies.
    pub parameters: &'a Parameters,
    /// The arrivals for which the closed forms are exact.
    pub exact_for: &'static str,
    /// The origin of the parameters.
    pub notes: &'a [String],
    /// The outcomes.
    #[serde(flatten)]
    pub point: Point,
    /// `None`: no farm is given.
    pub years: Option<Vec<Year>>,
    /// What closed forms do not give: percentiles. One server, Poisson arrivals, ten replications of a hundred thousand
    /// requests, which are the same for each policy; always-on first, unless it is one of them.
    pub simulated: Vec<SimulatedPolicy>,
}

/// One policy, simulated.
#[derive(Debug, Serialize)]
pub struct SimulatedPolicy {
    /// As [`Named::name`].
    pub policy: String,
    /// `None`: unstable at this load.
    pub simulated: Option<Simulated>,
}

impl<'a> Run<'a> {
    /// The closed forms at the load of the parameters, and the percentiles of simulations.
    ///
    /// # Errors
    /// As [`point`] and [`simulate`], unless a policy is unstable: it has no figures.
    pub fn of(parameters: &'a Parameters, notes: &'a [String]) -> Result<Self> {
        let point = at(parameters)?;
        let farm = parameters.farm.as_ref();
        Ok(Self {
            parameters,
            exact_for: EXACT_FOR,
            notes,
            years: farm.map(|farm| years(farm, &parameters.policies, &point)),
            point,
            simulated: all_simulated(parameters)?,
        })
    }

    /// The 99th percentile of a policy's response time, in seconds; `None`: it is unstable.
    pub fn p99(&self, policy: &str) -> Option<f64> {
        let of = self.simulated.iter().find(|one| one.policy == policy)?;
        of.simulated.as_ref()?.p99()
    }
}

/// In JSON, for [`Run::exact_for`].
pub const EXACT_FOR: &str = "poisson_arrivals";

/// The outcomes at the arrivals of the parameters.
///
/// # Errors
/// As [`point`].
pub fn at(parameters: &Parameters) -> Result<Point> {
    let Parameters {
        policies,
        power,
        service,
        ..
    } = parameters;
    point(policies, power, service, parameters.rate())
}

fn all_simulated(parameters: &Parameters) -> Result<Vec<SimulatedPolicy>> {
    let always_on = Named::always_on();
    let first = (!parameters.has_always_on()).then_some(&always_on);
    let all = first.into_iter().chain(&parameters.policies);
    all.map(|named| simulated(parameters, named)).collect()
}

fn simulated(parameters: &Parameters, named: &Named) -> Result<SimulatedPolicy> {
    let rate = parameters.rate();
    let setup = Setup::new(
        named.policy.clone(),
        Arrivals::Poisson { rate },
        parameters.service.clone(),
        parameters.power,
    );
    let simulated = match simulate(&setup, &mut |_| ControlFlow::Continue(())) {
        Ok(simulated) => Some(simulated),
        Err(Error::Unstable { .. }) => None,
        Err(other) => return Err(other),
    };
    Ok(SimulatedPolicy {
        policy: named.name.clone(),
        simulated,
    })
}

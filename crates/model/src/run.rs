//! Policies side by side at one load.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::closed;
use crate::comparison::Watch;
use crate::farm::{Year, years};
use crate::least::{Least, draws_less};
use crate::p99::P99;
use crate::parameters::{ALWAYS_ON, Named, Parameters};
use crate::simulate::{Arrivals, Horizon, Progress, Setup, Simulated, simulate, size};
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
    /// By three digits of the closed forms.
    pub least: Option<Least>,
    /// What closed forms do not give: percentiles. One server, Poisson arrivals, ten replications of at least a hundred
    /// thousand requests, which are the same for each policy; always-on first, unless it is one of them.
    pub simulated: Vec<SimulatedPolicy>,
}

/// One policy, simulated.
#[derive(Debug, Serialize)]
pub struct SimulatedPolicy {
    /// As [`Named::name`].
    pub policy: String,
    /// `None`: unstable at this load, interrupted before, or more than [`MOST`] requests would have to be simulated.
    pub simulated: Option<Simulated>,
    /// `None`: unstable at this load, or interrupted before.
    pub p99: Option<P99>,
}

/// Requests of one policy, in all replications: some seconds of a CPU.
pub const MOST: u64 = 100_000_000;

impl<'a> Run<'a> {
    /// The closed forms at the load of the parameters, and the percentiles of simulations.
    ///
    /// # Errors
    /// As [`point`] and [`simulate`], unless a policy is unstable or the simulation was stopped: it has no figures.
    pub fn of(
        parameters: &'a Parameters,
        notes: &'a [String],
        progress: &mut Watch<'_>,
    ) -> Result<Self> {
        let point = at(parameters)?;
        let farm = parameters.farm.as_ref();
        Ok(Self {
            parameters,
            exact_for: EXACT_FOR,
            notes,
            least: least(parameters, &point),
            years: farm.map(|farm| years(farm, &parameters.policies, &point)),
            point,
            simulated: all_simulated(parameters, progress)?,
        })
    }

    /// The 99th percentile of a policy's response time; `None`: it is unstable, or was interrupted.
    pub fn p99(&self, policy: &str) -> Option<P99> {
        let of = self.simulated.iter().find(|one| one.policy == policy)?;
        of.p99
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

fn least(parameters: &Parameters, point: &Point) -> Option<Least> {
    let first = (!parameters.has_always_on()).then_some((ALWAYS_ON, point.always_on.power_mean));
    let others = parameters.policies.iter().zip(&point.policies);
    let others = others.filter_map(|(named, compared)| {
        Some((named.name.as_str(), (*compared)?.outcome.power_mean))
    });
    let powers: Vec<(&str, f64)> = first.into_iter().chain(others).collect();
    Least::of(&powers, |one, other| {
        draws_less(powers[one].1, powers[other].1)
    })
}

fn all_simulated(
    parameters: &Parameters,
    progress: &mut Watch<'_>,
) -> Result<Vec<SimulatedPolicy>> {
    let always_on = Named::always_on();
    let first = (!parameters.has_always_on()).then_some(&always_on);
    let all: Vec<&Named> = first.into_iter().chain(&parameters.policies).collect();
    let policies = all.len();
    let all = all.into_iter().enumerate();
    let simulated = all.map(|(place, named)| {
        let of = (place, policies);
        let simulated = match progress(named, of, None) {
            ControlFlow::Continue(()) => simulated(parameters, named, &mut |done| {
                progress(named, of, Some(done))
            }),
            ControlFlow::Break(()) => Ok((None, None)),
        };
        let (simulated, p99) = match simulated {
            Err(Error::Unstable { .. } | Error::Nothing(_)) => (None, None),
            other => other?,
        };
        Ok(SimulatedPolicy {
            policy: named.name.clone(),
            simulated,
            p99,
        })
    });
    let mut simulated: Vec<SimulatedPolicy> = simulated.collect::<Result<_>>()?;
    let on = parameters.always_on();
    let on = simulated.iter().find(|one| one.policy == on);
    if let Some((on, Some(P99::ClosedForm { response_s }))) =
        on.and_then(|on| Some((on.simulated.clone()?, on.p99)))
    {
        for one in &mut simulated {
            if let (Some(mine), Some(p99)) = (&one.simulated, &mut one.p99) {
                *p99 = p99.by_control(mine, &on, response_s);
            }
        }
    }
    Ok(simulated)
}

fn simulated(
    parameters: &Parameters,
    named: &Named,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Option<Simulated>, Option<P99>)> {
    let Parameters { service, power, .. } = parameters;
    let rate = parameters.rate();
    let exact = closed::outcome(&named.policy, power, service, rate)?;
    let exact = P99::closed(&named.policy, service, &exact);
    let arrivals = Arrivals::Poisson { rate };
    let mut setup = Setup::new(named.policy.clone(), arrivals, service.clone(), *power);
    let needed = size(&setup)?.requests_for_p99;
    if let (Horizon::Requests(requests), Some(needed)) = (&mut setup.horizon, needed) {
        *requests = needed.max(*requests);
        if size(&setup)?.requests > MOST {
            let requests = needed;
            return Ok((None, exact.or(Some(P99::NotConverged { requests }))));
        }
    }
    let simulated = simulate(&setup, progress)?;
    let p99 = exact.or_else(|| P99::simulated(&simulated));
    Ok((Some(simulated), p99))
}

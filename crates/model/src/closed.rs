//! Closed forms: power and response time of each policy in steady state, for one server with one queue.
//!
//! All are exact for **Poisson arrivals**, service times that are independent of each other and of
//! the arrivals, and service in the order of arrival. For other arrivals they are estimates; the
//! simulator takes any.
//!
//! The frame is one: what a policy does between two busy periods is a *setup time* I, from the first
//! arrival at the empty system to the beginning of its service. [`setup`] has what follows from I's
//! first two moments; [`nap`] and [`c_states`] derive these moments and the shares of time, [`dvfs`]
//! stretches the service times instead.

pub mod c_states;
pub mod dvfs;
pub mod nap;
pub mod setup;

use crate::Result;
use crate::policy::{CStates, Outcome, Policy};
use crate::power::Power;
use crate::service::Service;

/// The outcome of `policy` where `rate` requests a second arrive as a Poisson process.
///
/// # Errors
/// [`Error::Usage`](crate::Error::Usage) for an invalid figure, [`Error::Unstable`](crate::Error::Unstable)
/// where there is no steady state.
pub fn outcome(policy: &Policy, power: &Power, service: &Service, rate: f64) -> Result<Outcome> {
    service.check()?;
    power.check()?;
    policy.check()?;
    ensure!(
        rate > 0.0 && rate.is_finite(),
        "arrivals: {rate} requests a second; give a number above 0"
    );
    match policy {
        // Pollaczek and Khinchine: no setup, and all that is not service is idle.
        Policy::AlwaysOn => c_states::outcome(&CStates::NONE, power, service, rate),
        Policy::PowerNap(nap) => nap::outcome(nap, power, service, rate),
        Policy::Dvfs(dvfs) => dvfs::outcome(dvfs, power, service, rate),
        Policy::CStates(states) => c_states::outcome(states, power, service, rate),
    }
}

#[cfg(test)]
mod tests;

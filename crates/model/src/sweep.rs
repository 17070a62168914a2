//! Policies side by side, load by load.

use serde::Serialize;

use crate::closed;
use crate::parameters::{Named, Parameters};
use crate::policy::{Outcome, Policy};
use crate::power::Power;
use crate::question::{self, Crossings, Figure};
use crate::service::Service;
use crate::{Error, Result};

/// A policy's outcome beside that of a server without power management.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The policy's own.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Mean power by that of always-on at the same load.
    pub relative_power: f64,
    /// Mean response time by that of always-on at the same load.
    pub relative_response: f64,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The load: arrival rate by mean service time at full speed.
    pub utilisation: f64,
    /// Requests a second.
    pub rate_per_s: f64,
    /// What others are compared with.
    pub always_on: Outcome,
    /// In the order of the policies; `None` where the policy has no steady state at this load.
    pub policies: Vec<Option<Compared>>,
}

/// One load: every policy against always-on.
///
/// # Errors
/// As [`closed::outcome`] for always-on, or for an invalid figure. Where only a policy is
/// unstable (a frequency that does not follow), it has no outcome.
pub fn point(policies: &[Named], power: &Power, service: &Service, rate: f64) -> Result<Point> {
    let always_on = closed::outcome(&Policy::AlwaysOn, power, service, rate)?;
    let compared = |named: &Named| match closed::outcome(&named.policy, power, service, rate) {
        Ok(outcome) => Ok(Some(compare(outcome, &always_on))),
        Err(Error::Unstable { .. }) => Ok(None),
        Err(other) => Err(other),
    };
    Ok(Point {
        utilisation: service.load(rate),
        rate_per_s: rate,
        always_on,
        policies: policies.iter().map(compared).collect::<Result<_>>()?,
    })
}

fn compare(outcome: Outcome, always_on: &Outcome) -> Compared {
    Compared {
        outcome,
        relative_power: outcome.power_mean / always_on.power_mean,
        relative_response: outcome.response_mean / always_on.response_mean,
    }
}

/// Two policies, and where they cross.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The name of the policy that sleeps.
    pub first: String,
    /// The name of the policy that scales the frequency.
    pub second: String,
    /// Where their mean powers cross.
    pub power: Crossings,
    /// Where their mean response times cross.
    pub response: Crossings,
}

/// All loads, and where policies cross: what a page and tables are made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// What was asked about.
    pub parameters: Parameters,
    /// By load, ascending.
    pub points: Vec<Point>,
    /// Each policy that sleeps with each that scales the frequency.
    pub pairs: Vec<Pair>,
}

impl Sweep {
    /// All loads of the parameters, and each policy that sleeps against each that scales the
    /// frequency.
    ///
    /// # Errors
    /// As [`point`].
    pub fn of(parameters: &Parameters) -> Result<Self> {
        let all = &parameters.policies;
        let scales = |named: &&Named| matches!(named.policy, Policy::Dvfs(_));
        let sleeps =
            |named: &&Named| matches!(named.policy, Policy::PowerNap(_) | Policy::CStates(_));
        let mut pairs = Vec::new();
        for first in all.iter().filter(sleeps) {
            for second in all.iter().filter(scales) {
                pairs.push(pair(parameters, first, second)?);
            }
        }
        Ok(Self {
            parameters: parameters.clone(),
            points: points(parameters)?,
            pairs,
        })
    }
}

/// Where these two cross, in power and in response time.
///
/// # Errors
/// As [`question::crossings`].
pub fn pair(parameters: &Parameters, first: &Named, second: &Named) -> Result<Pair> {
    let crossings = |figure| question::crossings(parameters, &first.policy, &second.policy, figure);
    Ok(Pair {
        first: first.name.clone(),
        second: second.name.clone(),
        power: crossings(Figure::Power)?,
        response: crossings(Figure::Response)?,
    })
}

/// Every load of the parameters.
fn points(parameters: &Parameters) -> Result<Vec<Point>> {
    let Parameters { service, power, .. } = parameters;
    let loads = parameters.utilisations.iter();
    loads
        .map(|load| {
            let rate = load / service.mean();
            let point = point(&parameters.policies, power, service, rate)?;
            // As it was asked for: the product may differ in the last digit.
            Ok(Point {
                utilisation: *load,
                ..point
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;

    #[test]
    fn policies_are_compared_with_always_on_at_the_same_load() {
        let swept = Sweep::of(&Parameters::paper()).unwrap();
        assert_eq!(swept.points.len(), 95);
        // Four that nap compared with the one that scales the frequency.
        assert_eq!(swept.pairs.len(), 4);
        for point in &swept.points {
            for compared in point.policies.iter().flatten() {
                let (one, awake) = (compared.outcome, point.always_on);
                assert_eq!(compared.relative_power, one.power_mean / awake.power_mean);
                let response = one.response_mean / awake.response_mean;
                assert_eq!(compared.relative_response, response);
            }
        }
        let loads: Vec<f64> = swept.points.iter().map(|point| point.utilisation).collect();
        assert_eq!(loads, Parameters::paper().utilisations);
        let names: Vec<_> = swept
            .pairs
            .iter()
            .map(|pair| (&*pair.first, &*pair.second))
            .collect();
        let naps = ["nap 10 ms", "nap 50 ms", "nap 100 ms", "nap 650 ms"];
        assert_eq!(names, naps.map(|nap| (nap, "DVFS")));
        assert!((swept.points[29].rate_per_s - 0.3 / 0.038).abs() < 1e-9);
        assert!((swept.points[29].always_on.power_mean - 72.0).abs() < 1e-9);
    }

    #[test]
    fn an_unstable_policy_has_no_figures_and_the_others_have_theirs() {
        let mut parameters = Parameters::paper();
        let Policy::Dvfs(dvfs) = &mut parameters.policies[4].policy else {
            panic!("{:?}", parameters.policies);
        };
        dvfs.rule = Rule::Fixed(0.5);
        let swept = Sweep::of(&parameters).unwrap();
        let known = |load: usize| swept.points[load - 1].policies[4].is_some();
        assert!(known(49) && !known(50) && !known(95));
        assert!(swept.points[94].policies[..4].iter().all(Option::is_some));
    }
}

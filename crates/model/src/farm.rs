//! What many such servers draw in a year, and what each policy saves of it.

use serde::Serialize;

use crate::parameters::{ALWAYS_ON, Farm, Named};
use crate::policy::Policy;
use crate::sweep::Point;

/// A policy's year.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Year {
    /// As [`Named::name`].
    pub policy: String,
    /// What all servers and the building draw in a year, kWh.
    pub energy_kwh: f64,
    /// Less than always-on draws by so much; below zero where it draws more.
    pub saved_kwh: f64,
    /// In the currency of the price; `None`: no price was given.
    pub saved_money: Option<f64>,
}

/// Every policy's year at that load; always-on first, where it is not one of them. Policies that are
/// unstable there are left out.
pub fn years(farm: &Farm, policies: &[Named], point: &Point) -> Vec<Year> {
    let always_on = kwh_a_year(farm, point.always_on.power_mean);
    let year = |policy: &str, energy_kwh: f64| Year {
        policy: policy.to_owned(),
        energy_kwh,
        saved_kwh: always_on - energy_kwh,
        saved_money: farm
            .price_per_kwh
            .map(|price| (always_on - energy_kwh) * price),
    };
    let has_always_on = policies.iter().any(|one| one.policy == Policy::AlwaysOn);
    let first = (!has_always_on).then(|| year(ALWAYS_ON, always_on));
    let others = policies.iter().zip(&point.policies);
    let others = others.filter_map(|(named, compared)| {
        let power_mean = compared.as_ref()?.outcome.power_mean;
        Some(year(&named.name, kwh_a_year(farm, power_mean)))
    });
    first.into_iter().chain(others).collect()
}

/// What a farm draws in a year with that mean power for a server, in kWh.
fn kwh_a_year(farm: &Farm, power_mean: f64) -> f64 {
    /// The mean year of the Gregorian calendar.
    const HOURS: f64 = 365.2425 * 24.0;
    farm.servers as f64 * power_mean * farm.overhead * HOURS / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;
    use crate::policy::{PowerNap, Rule};
    use crate::power::Power;
    use crate::service::Service;
    use crate::sweep::point;

    #[test]
    fn a_thousand_servers_of_100_w_draw_877_mwh_a_year() {
        let farm = Farm {
            servers: 1000,
            price_per_kwh: None,
            overhead: 1.0,
        };
        assert!((kwh_a_year(&farm, 100.0) - 876_582.0).abs() < 1.0);
    }

    #[test]
    fn savings_are_relative_to_always_on() {
        let paper = Parameters::paper();
        let farm = Farm {
            servers: 10,
            price_per_kwh: Some(0.5),
            overhead: 1.5,
        };
        let point = point(&paper.policies, &paper.power, &paper.service, 5.0).unwrap();
        let years = years(&farm, &paper.policies, &point);
        assert_eq!(years.len(), paper.policies.len() + 1);
        assert_eq!((years[0].saved_kwh, years[0].saved_money), (0.0, Some(0.0)));
        for (year, outcome) in years[1..].iter().zip(&point.policies) {
            let less = point.always_on.power_mean - outcome.unwrap().outcome.power_mean;
            let saved = less * 10.0 * 1.5 * 8765.82 / 1000.0;
            assert!((year.saved_kwh / saved - 1.0).abs() < 1e-9);
            assert_eq!(year.saved_money, Some(year.saved_kwh * 0.5));
        }
    }

    #[test]
    fn each_policy_has_its_year_by_name_and_an_unstable_one_has_none() {
        let policy = |name: &str, policy| Named {
            name: name.into(),
            policy,
        };
        let nap = Policy::PowerNap(PowerNap {
            suspend: 0.0,
            resume: 0.020,
            timeout: 0.0,
        });
        let Policy::Dvfs(mut slow) = Parameters::paper().policies[4].policy.clone() else {
            panic!("the fifth is DVFS");
        };
        slow.rule = Rule::Fixed(0.42);
        let power = Power {
            active: 100.0,
            idle: 60.0,
            nap: 5.0,
            transition: 80.0,
        };
        let service = Service::Exponential { mean: 0.010 };
        let policies = [
            policy("slow", Policy::Dvfs(slow)),
            policy("awake", Policy::AlwaysOn),
            policy("nap", nap),
        ];
        let point = point(&policies, &power, &service, 50.0).unwrap();
        let farm = |price_per_kwh| Farm {
            servers: 2,
            price_per_kwh,
            overhead: 1.5,
        };
        // Awake 80 W, napping 50 + 0.25 (5 + 80) = 71.25 W; 8765.82 hours of three times that.
        let expected = [
            ("awake", 3.0 * 80.0 * 8.76582, 0.0),
            ("nap", 3.0 * 71.25 * 8.76582, 3.0 * 8.75 * 8.76582),
        ];
        for price in [None, Some(0.25)] {
            let found = years(&farm(price), &policies, &point);
            assert_eq!(found.len(), expected.len());
            for (year, (name, energy, saved)) in found.iter().zip(expected) {
                assert_eq!(year.policy, name);
                assert!((year.energy_kwh - energy).abs() < 1e-9, "{year:?}");
                assert!((year.saved_kwh - saved).abs() < 1e-9, "{year:?}");
                assert_eq!(year.saved_money, price.map(|price| year.saved_kwh * price));
            }
        }
        // Always-on comes first under its own name unless it is among them.
        let names: Vec<String> = years(
            &farm(None),
            &policies[2..],
            &Point {
                policies: point.policies[2..].to_vec(),
                ..point
            },
        )
        .into_iter()
        .map(|year| year.policy)
        .collect();
        assert_eq!(names, ["always on", "nap"]);
    }
}

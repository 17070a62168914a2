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
    let mut years = Vec::new();
    if policies
        .iter()
        .all(|named| named.policy != Policy::AlwaysOn)
    {
        years.push(year(ALWAYS_ON, always_on));
    }
    for (named, outcome) in policies.iter().zip(&point.policies) {
        if let Some(outcome) = outcome {
            years.push(year(
                &named.name,
                kwh_a_year(farm, outcome.outcome.power_mean),
            ));
        }
    }
    years
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
    fn what_is_saved_is_what_always_on_draws_more() {
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
}

//! Which policy draws least, as far as that is shown.

use serde::Serialize;

use reveille_show::quantity::three_digits;

/// The policy with the least mean power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Least {
    /// Its name.
    pub policy: String,
    /// Others that are not shown to draw more.
    pub as_low: Vec<String>,
}

impl Least {
    /// Of names and mean powers; `is_shown` tells of two places whether the one draws less than the other. `None`
    /// without any.
    pub fn of(powers: &[(&str, f64)], is_shown: impl Fn(usize, usize) -> bool) -> Option<Self> {
        let places = 0..powers.len();
        let by_power = |a: &usize, b: &usize| powers[*a].1.total_cmp(&powers[*b].1);
        let least = places.clone().min_by(by_power)?;
        let as_low = places.filter(|other| *other != least && !is_shown(least, *other));
        Some(Self {
            policy: powers[least].0.to_owned(),
            as_low: as_low.map(|place| powers[place].0.to_owned()).collect(),
        })
    }

    /// Whether this policy draws as little as any, for all that is shown.
    pub fn may_be(&self, policy: &str) -> bool {
        self.policy == policy || self.as_low.iter().any(|name| name == policy)
    }
}

/// Whether it draws less than another, by what is shown of both.
pub fn draws_less(power_w: f64, than_w: f64) -> bool {
    power_w < than_w && three_digits(power_w) != three_digits(than_w)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_to_draw_more_draws_as_little() {
        let powers = [("on", 68.0), ("nap", 67.96), ("DVFS", 64.5), ("C6", 64.51)];
        let shown = |one: usize, other: usize| draws_less(powers[one].1, powers[other].1);
        let least = Least::of(&powers, shown).unwrap();
        assert_eq!(
            (least.policy.as_str(), &least.as_low[..]),
            ("DVFS", &["C6".to_owned()][..])
        );
        assert!(least.may_be("C6") && !least.may_be("on"));
        let equal = Least::of(&powers[..2], |one, other| {
            draws_less(powers[one].1, powers[other].1)
        });
        assert_eq!(equal.unwrap().as_low, ["on"]);
        assert_eq!(Least::of(&[], |_, _| true), None);
    }
}

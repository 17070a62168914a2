//! What a server draws.

use serde::{Deserialize, Serialize};

use crate::Result;

/// A server's power, in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Power {
    /// Serving a request at full speed.
    #[serde(rename(serialize = "active_w"))]
    pub active: f64,
    /// Awake, with nothing to do.
    #[serde(rename(serialize = "idle_w"))]
    pub idle: f64,
    /// Asleep.
    #[serde(rename(serialize = "nap_w"))]
    pub nap: f64,
    /// On the way to sleep and back.
    #[serde(rename(serialize = "transition_w"))]
    pub transition: f64,
}

/// Watts: more than any server, and few enough for what is reckoned with them.
pub const MOST: f64 = 1e9;

impl Power {
    /// # Errors
    /// [`crate::Error::Usage`] unless all four are from 0 to [`MOST`], and active or idle power is above 0:
    /// others are compared with it.
    pub fn check(&self) -> Result<()> {
        let figures = [
            ("active", self.active),
            ("idle", self.idle),
            ("nap", self.nap),
            ("transition", self.transition),
        ];
        for (name, watts) in figures {
            ensure!(
                (0.0..=MOST).contains(&watts),
                "power, {name}: {watts:?} W; give a number from 0 to {MOST:e}"
            );
        }
        ensure!(
            self.active + self.idle > 0.0,
            "power: active and idle are both 0 W, and nothing can be compared with that; give one above 0"
        );
        Ok(())
    }
}

/// A server's, for this crate's tests.
#[cfg(test)]
pub(crate) const SERVER: Power = Power {
    active: 100.0,
    idle: 60.0,
    nap: 5.0,
    transition: 80.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_from_0_to_1e9_and_always_on_draws_something() {
        type With = fn(f64) -> Power;
        let with: [(&str, With); 4] = [
            ("active", |active| Power { active, ..SERVER }),
            ("idle", |idle| Power { idle, ..SERVER }),
            ("nap", |nap| Power { nap, ..SERVER }),
            ("transition", |transition| Power {
                transition,
                ..SERVER
            }),
        ];
        let mut said = Vec::new();
        for (name, with) in with {
            assert_eq!(with(0.0).check(), Ok(()), "{name}");
            assert_eq!(with(1e9).check(), Ok(()), "{name}");
            for watts in [-0.001, 1.001e9, f64::INFINITY, f64::NAN] {
                said.push((format!("{name} {watts}"), with(watts).check()));
            }
        }
        let like = Power {
            active: 60.0,
            ..SERVER
        };
        assert_eq!(like.check(), Ok(()));
        let nothing = Power {
            active: 0.0,
            idle: 0.0,
            ..SERVER
        };
        said.push(("neither active nor idle".into(), nothing.check()));
        let said = said.into_iter();
        reveille_snapshot::snapshot!(
            "errors",
            said.map(|(case, said)| (case, format!("{said:?}")))
        );
    }
}

//! What a server draws.

use serde::{Deserialize, Serialize};

use crate::policy::Shares;
use crate::{Error, Result};

/// A server's power, in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The mean, where these are the shares of time.
    pub fn of(&self, shares: &Shares) -> f64 {
        shares.active * self.active
            + shares.idle * self.idle
            + shares.transition * self.transition
            + shares.nap * self.nap
    }

    /// # Errors
    /// [`Error::Usage`] unless all four are from 0 to [`MOST`], and a server without power management
    /// draws something: it is what others are compared with.
    pub fn check(&self) -> Result<()> {
        let figures = [
            ("active", self.active),
            ("idle", self.idle),
            ("nap", self.nap),
            ("transition", self.transition),
        ];
        for (name, watts) in figures {
            if !(0.0..=MOST).contains(&watts) {
                return Err(Error::Usage(format!(
                    "power, {name}: {watts:?} W; give a number from 0 to {MOST:e}"
                )));
            }
        }
        match self.active + self.idle > 0.0 {
            true => Ok(()),
            false => Err(Error::Usage(
                "power: active and idle are both 0 W, and nothing can be compared with that; give one \
                 above 0"
                    .into(),
            )),
        }
    }
}

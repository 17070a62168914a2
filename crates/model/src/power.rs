//! What a server draws.

use serde::{Deserialize, Serialize};

/// A server's power, in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Serving a request at full speed.
    pub active: f64,
    /// Awake, with nothing to do.
    pub idle: f64,
    /// Asleep.
    pub nap: f64,
    /// On the way to sleep and back.
    pub transition: f64,
}

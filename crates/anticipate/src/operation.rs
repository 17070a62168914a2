//! What a request does.

use serde::{Deserialize, Serialize};

/// Of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// From the device into memory.
    Read = 0,
    /// From memory to the device.
    Write = 1,
}

impl Operation {
    /// In the order of the engine's tables.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];
}

impl std::fmt::Display for Operation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

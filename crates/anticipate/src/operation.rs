//! The operation of a request.

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

impl std::str::FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|operation| operation.to_string() == text)
            .ok_or_else(|| "not an operation: read, write".to_owned())
    }
}

//! I/O that a rule waits for.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::value;

/// Requests to a disk that tasks wait for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// `nvme0n1`; it may be missing, and appear later.
    #[serde(deserialize_with = "device")]
    pub device: String,
    /// How CPUs are ready when the requests complete.
    #[serde(default)]
    pub by: By,
    /// The share of each CPU's time, 0 to 1, that anticipation may keep it awake.
    #[serde(default = "usual_budget", deserialize_with = "value::share")]
    pub budget: f64,
}

/// How CPUs are ready for completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Woken just before each completion, as `reveille anticipate` does: most of the gain, for a small share
    /// of the time awake.
    #[default]
    Anticipation,
    /// The rule's bound is held from a request on, on the CPU that issues it.
    Bound,
}

impl std::fmt::Display for Disk {
    /// `I/O of nvme0n1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "I/O of {}", self.device)?;
        match self.by {
            By::Anticipation => write!(f, ", anticipated, for {}% of a CPU", self.budget * 100.0),
            By::Bound => Ok(()),
        }
    }
}

fn usual_budget() -> f64 {
    0.05
}

fn device<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let short = name.strip_prefix("/dev/").unwrap_or(&name);
    let is_wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    let is_valid = (1..32).contains(&short.len()) && !short.contains(is_wrong);
    match is_valid && short != "." && short != ".." {
        true => Ok(short.to_owned()),
        false => Err(D::Error::custom("not the name of a disk, such as nvme0n1")),
    }
}

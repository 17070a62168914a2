//! Where the machine's power comes from, as a rule's condition.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A source of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The mains; also what a machine without any power supply in sysfs has.
    Ac,
    /// A battery that discharges, with no mains.
    Battery,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ac => "on AC",
            Self::Battery => "on battery",
        })
    }
}

/// A battery's charge in whole per cent, above 0: `30%`.
pub fn charge<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    let percent = number.filter(|percent| (1..=100).contains(percent));
    let percent =
        percent.ok_or_else(|| D::Error::custom("not a charge, from \"1%\" to \"100%\""))?;
    Ok(Some(percent))
}

//! A power meter's samples with the cycles of a log: the power awake, asleep and in between.
//!
//! [`Meter::parse`] reads the meter's file, [`align::align`] finds each cycle by the meter's clock and
//! averages its parts.

pub mod align;
mod read;
mod time;

use serde::{Deserialize, Serialize};

use crate::cycle::Us;

/// What a meter recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Meter {
    /// In the order of time; no two at the same instant.
    pub samples: Vec<Sample>,
    /// What the samples' times count from.
    pub clock: Clock,
    /// From one sample to the next: the median, of two in the middle the shorter one.
    pub interval_us: Us,
    /// What kind of file it was read from.
    pub format: Format,
    /// Lines that gave no sample.
    pub left_out: LeftOut,
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// By the meter's clock: see [`Clock`].
    pub at_us: Us,
    /// Not negative.
    pub watts: f64,
}

/// What a file's times count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Its own beginning, or anything else.
    Elapsed,
    /// 1970, UTC.
    Utc,
    /// 1970, in a time zone that is not named.
    Local,
    /// A midnight.
    TimeOfDay,
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Columns of text.
    Csv,
    /// The records of a Watts Up? PRO, `#d,-,18,…;`, tenths of a watt each.
    WattsUp,
}

/// Lines that gave no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// Their time or their power is not a number.
    pub unreadable: usize,
    /// Below zero.
    pub negative: usize,
    /// Their time is not after that of the one before.
    pub out_of_order: usize,
}

impl LeftOut {
    /// Such lines in all.
    pub fn all(&self) -> usize {
        self.unreadable + self.negative + self.out_of_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_lines_are_added_up() {
        let left_out = LeftOut {
            unreadable: 1,
            negative: 2,
            out_of_order: 4,
        };
        assert_eq!(left_out.all(), 7);
    }
}

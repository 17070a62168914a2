//! A power meter's samples with the cycles of a log: the power awake, asleep and in between.
//!
//! [`Meter::parse`] reads the meter's file, [`align::align`] finds each cycle by the meter's clock and
//! averages its parts.

pub mod align;
mod read;
mod time;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cycle::Us;
use crate::{Error, Result};

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
    /// Their time or their power is no number.
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

/// A sample each millisecond for an hour has some 100 MiB.
const MOST_MIB: u64 = 1024;

impl Meter {
    /// The samples of a file's bytes.
    ///
    /// # Errors
    /// One line: this is no power meter's file, or it has nothing of use.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        read::parse(bytes)
    }

    /// As [`Meter::parse`], from a file.
    ///
    /// # Errors
    /// [`Error::Unreadable`], with its path.
    pub fn open(path: &Path) -> Result<Self> {
        let unreadable = |why: String| Error::Unreadable {
            path: path.to_owned(),
            why,
        };
        let file = std::fs::File::open(path);
        let bytes = file.and_then(|file| reveille_results::text::read(file, MOST_MIB));
        let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&bytes).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_left_out_are_added_up() {
        let left_out = LeftOut {
            unreadable: 1,
            negative: 2,
            out_of_order: 4,
        };
        assert_eq!(left_out.all(), 7);
    }

    #[test]
    fn a_file_is_read_as_its_bytes_are_and_named_where_it_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.csv");
        let why = || match Meter::open(&path).unwrap_err() {
            Error::Unreadable { path: named, why } => {
                assert_eq!(named, path);
                why
            }
            other => panic!("{other}"),
        };
        assert!(why().contains("No such file"), "{}", why());
        std::fs::write(&path, " \n").unwrap();
        assert!(why().starts_with("is empty"), "{}", why());
        let text = b"time_s,power_w\n0,130\n1,5\n";
        std::fs::write(&path, text).unwrap();
        let meter = Meter::open(&path).unwrap();
        assert_eq!(meter.samples.len(), 2);
        assert_eq!(Ok(meter), Meter::parse(text));
    }
}

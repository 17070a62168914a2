//! What every meter has, and counters that continue.

use std::time::{Duration, Instant};

use reveille_kernel::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a meter's figure covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A processor package.
    Package,
    /// The cores of one.
    Cores,
    /// Memory.
    Dram,
    /// The whole machine, measured inside it.
    Platform,
    /// All that hangs on a socket, power supply and all.
    Wall,
    /// What a battery gives.
    Battery,
    /// A part of the machine that the meter's name says.
    Other,
}

impl Scope {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Cores => "cores",
            Self::Dram => "DRAM",
            Self::Platform => "platform",
            Self::Wall => "wall",
            Self::Battery => "battery",
            Self::Other => "other",
        }
    }
}

/// What a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// A counter, J.
    Energy,
    /// W.
    Power,
}

/// What is known of a meter before it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// As `--meter` takes it: `rapl:package-0`.
    pub name: String,
    /// What it covers.
    pub scope: Scope,
    /// What a reading is.
    pub counts: Counts,
    /// The step of its digits, J or W; `None` if unknown.
    pub resolution: Option<f64>,
    /// Where the counter begins again, J; `None` if it does not, or that is unknown.
    pub range_j: Option<f64>,
}

/// A meter that can be read.
pub trait Meter: Send {
    /// What it is.
    fn about(&self) -> &About;

    /// J, continued where the counter wraps around, or W.
    ///
    /// # Errors
    /// One line if it does not answer, answers in words, or its counter jumped ([`Error::Disturbed`]).
    fn read(&mut self) -> Result<f64>;
}

/// A reading, and when it was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Before the meter was asked.
    pub before: Instant,
    /// After it had answered.
    pub after: Instant,
    /// J or W.
    pub value: f64,
}

impl Reading {
    /// Reads a meter.
    ///
    /// # Errors
    /// As [`Meter::read`].
    pub fn of(meter: &mut dyn Meter) -> Result<Self> {
        let before = Instant::now();
        let value = meter.read()?;
        Ok(Self {
            before,
            after: Instant::now(),
            value,
        })
    }

    /// s from an earlier reading, middle to middle.
    pub fn since_s(&self, earlier: &Self) -> f64 {
        let middle = |one: &Self| one.before + one.after.duration_since(one.before) / 2;
        middle(self).duration_since(middle(earlier)).as_secs_f64()
    }
}

/// So many readings in a row, or works, are too many to fail. A meter in a network sometimes does.
pub(crate) const FAILURES: u32 = 3;

/// The counter jumped, the battery is charged: what follows is not of the same time, or of something else.
pub(crate) fn is_over(why: &Error) -> bool {
    matches!(why, Error::Disturbed(_))
}

/// More than a machine takes, even one of eight sockets and as many accelerators: a counter that grew faster has jumped.
const MOST_W: f64 = 25_000.0;

/// Readings may be less apart than the counter's steps: one of 0.001 kWh is 3,600 J.
const LEAST_APART: Duration = Duration::from_millis(200);

/// A counter without its wraps.
#[derive(Debug, Default)]
pub struct Continued {
    last: Option<(Instant, u64)>,
    total: u64,
}

impl Continued {
    /// The counts since the first reading, times `unit_j`. `grown` is the growth between two raw readings; `None`
    /// if it went back.
    ///
    /// # Errors
    /// [`Error::Disturbed`], once, if the counter went back, or grew faster than any machine's energy: what was counted
    /// meanwhile is unknown.
    pub fn add_j(
        &mut self,
        name: &str,
        raw: u64,
        unit_j: f64,
        grown: impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<f64> {
        let now = Instant::now();
        // After a jump it goes on from there.
        if let Some((then, last)) = self.last.replace((now, raw)) {
            let apart = now.duration_since(then).max(LEAST_APART);
            let grown = grown(last, raw)
                .filter(|grown| *grown as f64 * unit_j <= MOST_W * apart.as_secs_f64());
            let Some(grown) = grown else {
                let [last, raw] = [last, raw].map(|counts| counts as f64 * unit_j);
                return Err(Error::Disturbed(format!(
                    "{name}: the counter jumped from {last:.3} J to {raw:.3} J; it was reset, or others write it"
                )));
            };
            self.total += grown;
        }
        Ok(self.total as f64 * unit_j)
    }
}

/// Words of a meter for a message: one line, not long.
pub fn quoted(answer: &str) -> String {
    let line = answer.replace(char::is_control, " ");
    let short: String = line.trim().chars().take(60).collect();
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_continues_over_a_wrap_and_a_jump_back_is_an_error() {
        let range = 1_000_000;
        let grown = |before: u64, after: u64| match after.checked_sub(before) {
            Some(grown) => Some(grown),
            None => (range - before).checked_add(after),
        };
        let mut counter = Continued::default();
        let mut add = |raw| counter.add_j("meter", raw, 1e-3, grown);
        assert_eq!(add(999_000).unwrap(), 0.0);
        assert_eq!(add(500).unwrap(), 1.5, "over the wrap");
        assert_eq!(add(2500).unwrap(), 3.5);
        // The same range in mJ-counts that are worth a J each: half a million W.
        let mut counter = Continued::default();
        counter.add_j("meter", 900_000, 1.0, grown).unwrap();
        let why = counter.add_j("meter", 850_000, 1.0, grown).unwrap_err();
        assert!(
            why.to_string()
                .contains("jumped from 900000.000 J to 850000.000 J"),
            "{why}"
        );
        // It goes on from there.
        assert_eq!(
            counter.add_j("meter", 850_002, 1.0, grown).unwrap(),
            2.0,
            "after a jump"
        );
        // The largest step of a socket, however soon it comes.
        let mut counter = Continued::default();
        counter.add_j("meter", 0, 3600.0, grown).unwrap();
        assert_eq!(counter.add_j("meter", 1, 3600.0, grown).unwrap(), 3600.0);
        // No range: it never wraps.
        let mut counter = Continued::default();
        counter
            .add_j("meter", 9, 1.0, |a, b| b.checked_sub(a))
            .unwrap();
        let why = counter.add_j("meter", 8, 1.0, |a, b| b.checked_sub(a));
        assert!(
            why.unwrap_err()
                .to_string()
                .starts_with("meter: the counter jumped")
        );
    }

    #[test]
    fn words_of_a_meter_stay_one_short_line() {
        assert_eq!(quoted("no\x1b[2J\nreading"), "\"no [2J reading\"");
        assert!(quoted(&"x".repeat(1000)).len() < 70);
    }
}

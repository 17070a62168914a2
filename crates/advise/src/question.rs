//! What is asked: a budget, how much of the wakes it binds, and how sure the answer has to be.

use std::fmt;
use std::str::FromStr;

use reveille_figures::quantile::Share;
use serde::{Serialize, Serializer};

/// Decimals that a percentage may have: 99.999999 asks for one wake in a hundred million.
const DECIMALS_MAX: usize = 6;

/// Of a decimal number above 50 and below 100.
fn parse(text: &str) -> Option<Share> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let scale = 10_u64.pow(decimals.len() as u32);
    let fraction = if decimals.is_empty() {
        0
    } else {
        decimals.parse().ok()?
    };
    let part = whole.parse::<u64>().ok()?.checked_mul(scale)? + fraction;
    let whole = 100 * scale;
    (part > whole / 2 && part < whole).then_some(Share(part, whole))
}

fn percent(Share(part, whole): Share) -> f64 {
    part as f64 * 100.0 / whole as f64
}

/// What is left to 100%, as a share.
fn rest(Share(part, whole): Share) -> f64 {
    (whole - part) as f64 / whole as f64
}

/// The share of wakes that has to keep to the budget, such as 99.9%.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile(Share);

impl Percentile {
    /// The share of wakes that may exceed the budget: 0.001 for 99.9.
    pub fn beyond(self) -> f64 {
        rest(self.0)
    }

    /// The rank, from 1, of that quantile among `count` values in ascending order (type 1: always
    /// a value that occurred).
    pub fn rank(self, count: usize) -> usize {
        self.0.rank(count.max(1))
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map(Self).ok_or_else(|| {
            "not a percentile above 50 and below 100, such as 99.9 (for the maximum there is --max)"
                .to_owned()
        })
    }
}

/// `p99.9`.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", percent(self.0))
    }
}

impl Serialize for Percentile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(percent(self.0))
    }
}

/// How sure the answer has to be, such as 95%.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confidence(Share);

impl Confidence {
    /// The probability with which the answer may be wrong: 0.05 for 95.
    pub fn risk(self) -> f64 {
        rest(self.0)
    }
}

impl FromStr for Confidence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
            .map(Self)
            .ok_or_else(|| "not a confidence above 50 and below 100 (per cent), such as 95".into())
    }
}

/// `95%`.
impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", percent(self.0))
    }
}

impl Serialize for Confidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(percent(self.0))
    }
}

/// What has to keep to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// This share of all wakes, of those that are still to come too.
    Percentile(Percentile),
    /// Every wake that was seen. A maximum, and no guarantee: it grows with the datapoints.
    Maximum,
}

/// `p99.9`, `the maximum`.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percentile) => percentile.fmt(f),
            Self::Maximum => f.write_str("the maximum"),
        }
    }
}

/// Which latency has to keep to the budget. They are not mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// Until the first instruction, in the idle loop or in the interrupt's handler.
    Wake,
    /// Until the interrupt's handler.
    Interrupt,
}

impl Latency {
    /// The column of a result that holds it.
    pub fn column(self) -> &'static str {
        match self {
            Self::Wake => reveille_results::statistics::WAKE_LATENCY,
            Self::Interrupt => "interrupt_latency_ns",
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wake => "wake latency",
            Self::Interrupt => "interrupt latency",
        })
    }
}

/// What is asked of a result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Question {
    /// The longest that a wake may take; 0 asks for no sleep at all.
    pub budget_us: u32,
    /// What share of wakes has to keep to the budget.
    pub demand: Demand,
    /// How sure it has to be that the demand holds, per cent.
    #[serde(rename = "confidence_percent")]
    pub confidence: Confidence,
    /// The latency that is compared with the budget.
    pub latency: Latency,
}

impl Question {
    /// The budget, ns.
    pub fn budget_ns(&self) -> i64 {
        i64::from(self.budget_us) * 1000
    }
}

/// `50 µs at p99.9`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs at {}", self.budget_us, self.demand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_decimal_number_between_50_and_100() {
        let percentile: Percentile = "99.99".parse().unwrap();
        assert_eq!(percentile.beyond(), 0.0001);
        assert_eq!(percentile.to_string(), "p99.99");
        for wrong in [
            "50",
            "100",
            "0",
            "-99",
            "abc",
            "",
            ".",
            "99,9",
            "99.9999999",
            "+99",
        ] {
            assert!(wrong.parse::<Percentile>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_rank_is_exact_for_decimal_percentiles() {
        let percentile: Percentile = "99.9".parse().unwrap();
        assert_eq!(percentile.rank(1000), 999);
        assert_eq!(percentile.rank(1001), 1000);
        assert_eq!(percentile.rank(1), 1);
    }

    #[test]
    fn a_percentage_has_at_most_six_decimals_and_is_printed_as_given() {
        let percentile: Percentile = "99.999999".parse().unwrap();
        assert_eq!(percentile.beyond(), 1e-8);
        let confidence: Confidence = "97.5".parse().unwrap();
        assert_eq!(confidence.to_string(), "97.5%");
        assert_eq!(Latency::Wake.to_string(), "wake latency");
        assert_eq!(Latency::Interrupt.to_string(), "interrupt latency");
        let mut question = Question {
            budget_us: 50,
            demand: Demand::Percentile("99.9".parse().unwrap()),
            confidence,
            latency: Latency::Wake,
        };
        assert_eq!(question.to_string(), "50 µs at p99.9");
        question.demand = Demand::Maximum;
        assert_eq!(question.to_string(), "50 µs at the maximum");
    }
}

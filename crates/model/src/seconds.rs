//! Times in parameter files: `"50ms"`, or a bare number of seconds.

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

/// A time in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seconds(f64);

/// For serde's `deserialize_with`.
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Seconds::deserialize(from)?.0)
}

pub(crate) fn read_some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    read(from).map(Some)
}

pub(crate) fn read_two<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
    Ok(<[Seconds; 2]>::deserialize(from)?.map(|time| time.0))
}

pub(crate) fn read_all<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let times = Vec::<Seconds>::deserialize(from)?;
    Ok(times.iter().map(|time| time.0).collect())
}

/// The units, and how many of them a second has: times are divided, not multiplied by a fraction,
/// so that `38ms` is the number that `0.038` is.
const UNITS: [(&str, f64); 5] = [
    ("ns", 1e9),
    ("us", 1e6),
    ("µs", 1e6),
    ("ms", 1e3),
    ("s", 1.0),
];
const MINUTE: (&str, f64) = ("min", 60.0);
const HOUR: (&str, f64) = ("h", 3600.0);

/// A number with a unit: ns, us, ms, s, min or h. Zero needs none; `inf` is for ever.
///
/// # Errors
/// One line: what was given, and the valid forms.
pub fn parse(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    if trimmed == "inf" {
        return Ok(f64::INFINITY);
    }
    let end = trimmed
        .find(|character: char| !matches!(character, '0'..='9' | '.' | '-' | '+'))
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
    let wrong = || format!("`{text}` is no time; give a number with a unit, such as 50ms or 1.5s");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() && number == 0.0 {
        return Ok(0.0);
    }
    if let Some((_, longer)) = [MINUTE, HOUR].iter().find(|(name, _)| *name == unit) {
        return Ok(number * longer);
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    known
        .map(|(_, a_second)| number / a_second)
        .ok_or_else(wrong)
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Seconds;
            fn expecting(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
                to.write_str("a time such as \"50ms\", or a number of seconds")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
                parse(text).map(Seconds).map_err(E::custom)
            }
            fn visit_f64<E>(self, seconds: f64) -> Result<Seconds, E> {
                Ok(Seconds(seconds))
            }
            fn visit_i64<E>(self, seconds: i64) -> Result<Seconds, E> {
                Ok(Seconds(seconds as f64))
            }
            fn visit_u64<E>(self, seconds: u64) -> Result<Seconds, E> {
                Ok(Seconds(seconds as f64))
            }
        }
        let time = from.deserialize_any(Reader)?;
        match time.0.is_nan() {
            true => Err(D::Error::custom("nan is no time")),
            false => Ok(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, seconds) in [
            ("38ms", 0.038),
            ("1.5 s", 1.5),
            ("200us", 0.0002),
            ("133µs", 0.000133),
            ("7ns", 7e-9),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("0", 0.0),
            ("inf", f64::INFINITY),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
        for text in ["", "ms", "5", "5 apples", "1e3s", "--3s"] {
            assert!(parse(text).unwrap_err().contains("is no time"), "{text}");
        }
    }

    #[test]
    fn a_file_may_have_times_as_text_or_as_seconds() {
        let read = |json: &str| serde_json::from_str::<Seconds>(json);
        for (json, seconds) in [
            ("\"50ms\"", 0.05),
            ("\"inf\"", f64::INFINITY),
            ("2.5", 2.5),
            ("3", 3.0),
            ("-3", -3.0),
        ] {
            assert_eq!(read(json).unwrap(), Seconds(seconds), "{json}");
        }
        let why = |json: &str| read(json).unwrap_err().to_string();
        assert!(why("\"5 apples\"").contains("`5 apples` is no time"));
        let expected = "expected a time such as \"50ms\", or a number of seconds";
        assert!(why("true").contains(expected), "{}", why("true"));
        let nan = toml::from_str::<std::collections::BTreeMap<String, Seconds>>("time = nan");
        assert!(nan.unwrap_err().message().contains("nan is no time"));
    }
}

//! Times in parameter files: `"50ms"`, or a bare number of seconds.

use reveille_show::parse;
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

/// A number with a unit: ns, us, ms, s, min or h. Zero needs none; `inf` is for ever.
///
/// # Errors
/// One line: what was given, and why it is no such time.
pub fn from_text(text: &str) -> Result<f64, String> {
    if text.trim() == "inf" {
        return Ok(f64::INFINITY);
    }
    let time = parse::time(text, "50ms").map_err(|why| format!("`{text}`: {why}"))?;
    // A division, not a multiplication by a fraction: `38ms` is the number that `0.038` is.
    Ok(time.as_nanos() as f64 / 1e9)
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
                from_text(text).map(Seconds).map_err(E::custom)
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
            true => Err(D::Error::custom("nan is not a time")),
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
            assert_eq!(from_text(text), Ok(seconds), "{text}");
        }
        for text in ["", "ms", "5", "5 apples", "1e3s", "--3s"] {
            let why = from_text(text).unwrap_err();
            assert!(why.starts_with(&format!("`{text}`: ")), "{why}");
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
        let nan = toml::from_str::<std::collections::BTreeMap<String, Seconds>>("time = nan");
        let nan = nan.unwrap_err().message().to_owned();
        let why = |json: &'static str| (json, read(json).unwrap_err().to_string());
        let said = [why("\"5 apples\""), why("true"), ("time = nan", nan)];
        reveille_snapshot::snapshot!("errors", said);
    }
}

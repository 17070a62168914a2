//! Values of the rules file, for serde's `deserialize_with`. An error is one line; the TOML reader adds
//! where it is.

use std::path::PathBuf;
use std::time::Duration;

use reveille_kernel::{cpulist, pm_qos};
use reveille_results::statistics::Percentile;
use reveille_show::parse;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Of a rule's name, letters.
const NAME_MAX: usize = 64;
/// A bound that is held for longer than an hour after the last packet is one that is always held.
const QUIET_MAX: Duration = Duration::from_secs(3600);
/// The thread that holds the bound looks no more often for the end of traffic.
const QUIET_MIN: Duration = Duration::from_micros(100);

/// The engine's least budget.
const SHARE_MIN: f64 = 1e-4;

pub fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let has_letters = !name.trim().is_empty() && !name.contains(char::is_control);
    match has_letters && name.chars().count() <= NAME_MAX {
        true => Ok(name),
        false => Err(D::Error::custom(format!(
            "a name has 1 to {NAME_MAX} characters, not only blanks, and no control character"
        ))),
    }
}

pub fn latency<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(from)?;
    let bound = parse::time(&text, "50us").and_then(pm_qos::bound_us);
    bound.map(Some).map_err(D::Error::custom)
}

pub fn usual_percentile() -> Percentile {
    Percentile::P99_9
}

pub fn percentile<'de, D: Deserializer<'de>>(from: D) -> Result<Percentile, D::Error> {
    let percent = f64::deserialize(from)?;
    let known = Percentile::of_percent(&percent.to_string());
    known.ok_or_else(|| D::Error::custom("not 90, 99, 99.9 or 99.99"))
}

pub fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    let text = String::deserialize(from)?;
    let cpus = cpulist::parse(&text).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| D::Error::custom("not a list of CPUs, such as \"0-3,8\""))?;
    Ok(Some(cpus))
}

pub fn quiet<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time(from, "20ms", QUIET_MIN, QUIET_MAX).map(Some)
}

/// As [`share`].
pub fn some_share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    share(from).map(Some)
}

/// A share of time, above 0.
pub fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let text = String::deserialize(from)?;
    let share = parse::share(&text, false).map_err(D::Error::custom)?;
    match share >= SHARE_MIN {
        true => Ok(share),
        false => Err(D::Error::custom("must be from 0.01% to 100%")),
    }
}

/// A time from `least` to `most`.
pub fn time<'de, D: Deserializer<'de>>(
    from: D,
    example: &str,
    least: Duration,
    most: Duration,
) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = parse::time(&text, example).map_err(D::Error::custom)?;
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => Err(D::Error::custom(format!(
            "must be from {} to {}",
            humantime::format_duration(least),
            humantime::format_duration(most)
        ))),
    }
}

/// The service has a working directory of its own.
pub fn absolute<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(from)?;
    match path.is_absolute() {
        true => Ok(Some(path)),
        false => Err(D::Error::custom("not an absolute path")),
    }
}

//! Reads quantities as people write them: times, sizes, counts and shares. One form for every command
//! and parameter file; `quantity` writes them.
//!
//! Each function's error is one line without the text itself, which the caller names.

use std::time::Duration;

/// A time with its unit: `30s`, `1.5ms`, `1h 30min`; zero needs none. `example` is one that fits the place, and
/// has the unit that is proposed where there is none.
///
/// # Errors
/// No time, no unit, a negative one, or less than a nanosecond.
pub fn time(text: &str, example: &str) -> Result<Duration, String> {
    use humantime::DurationError as Wrong;
    // Two characters look the same: the micro sign and the Greek letter.
    let text = text.trim().replace('μ', "µ");
    if text.starts_with('-') {
        return Err("a time cannot be negative".into());
    }
    match humantime::parse_duration(&text) {
        Ok(time) => Ok(time),
        Err(_) if text.parse() == Ok(0.0) => Ok(Duration::ZERO),
        Err(Wrong::UnknownUnit { unit, .. }) if unit.is_empty() => {
            let proposed = example.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            Err(format!("no unit; write {text}{proposed}"))
        }
        Err(Wrong::UnknownUnit { unit, .. }) => Err(format!(
            "{unit:?} is not a unit of time; write ns, us, ms, s, min or h"
        )),
        Err(_) => Err(format!("not a time such as {example}")),
    }
}

/// The number in front of a unit.
fn split(text: &str) -> (&str, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_' | ','));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    (number.trim(), unit.trim())
}

/// `number` times `unit`, if that is a whole number.
fn whole(number: &str, unit: u64) -> Option<u64> {
    let number = number.replace(['_', ','], "");
    if let Ok(number) = number.parse::<u64>() {
        return number.checked_mul(unit);
    }
    let product = number.parse::<f64>().ok()? * unit as f64;
    // Above 2^53 an f64 does not tell whole numbers apart.
    (product.fract() == 0.0 && product < 9e15).then_some(product as u64)
}

/// A number of things: `1000`, `10k`, `1.5M`, `1,000,000`.
///
/// # Errors
/// No whole number, or beyond u64.
pub fn count(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text.trim());
    let unit = match unit {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    let count = unit.and_then(|unit| whole(number, unit));
    count.ok_or_else(|| "not a count such as 500, 10k or 1M".into())
}

/// A size in bytes above zero, in powers of 1024: `4KiB`, `4k`, `512`, `1.5MiB`.
///
/// # Errors
/// No whole number of bytes, zero, or beyond u64.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text.trim());
    let unit = match unit.to_lowercase().as_str() {
        "" | "b" | "bytes" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        _ => None,
    };
    let bytes = unit.and_then(|unit| whole(number, unit));
    let bytes = bytes.filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "not a size such as 512, 4KiB or 256MiB".into())
}

/// A share from 0 to 1: `5%`, `20%`. With `bare`, a number without the sign is the share itself: `0.2`.
///
/// # Errors
/// No number, no sign, or beyond 0 to 100%.
pub fn share(text: &str, bare: bool) -> Result<f64, String> {
    let text = text.trim();
    let percent = text.strip_suffix('%').map(str::trim);
    let Ok(number) = percent.unwrap_or(text).parse::<f64>() else {
        return Err("not a share such as 5%".into());
    };
    let share = match percent {
        Some(_) => number / 100.0,
        None if bare => number,
        None => return Err(format!("no unit; write {text}%")),
    };
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("not a share from 0% to 100%".into()),
    }
}

/// An error in a text, `why` in one line, with the number of the line where `span` begins. `why` may quote the text, which
/// may have any character.
pub fn in_one_line(text: &str, span: Option<std::ops::Range<usize>>, why: &str) -> String {
    let why = why.trim().replace('\n', "; ");
    let why = why.replace(char::is_control, " ");
    match span {
        Some(span) => {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {why}")
        }
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_unless_it_is_zero() {
        for (text, ns) in [
            ("30s", 30_000_000_000),
            ("1.5 ms", 1_500_000),
            ("100 µs", 100_000),
            ("100μs", 100_000),
            ("7ns", 7),
            ("1h 30min", 5_400_000_000_000),
            ("5m", 300_000_000_000),
            ("0", 0),
            ("0.0", 0),
            ("0s", 0),
        ] {
            assert_eq!(time(text, "1s"), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for (text, why) in [
            ("5", "no unit; write 5s"),
            ("1.5", "no unit; write 1.5s"),
            ("-5s", "negative"),
            ("5 apples", "\"apples\" is not a unit of time"),
            ("", "not a time such as 1s"),
            ("soon", "not a time such as 1s"),
            ("0.5ns", "not a time"),
            ("1e3s", "not a"),
            ("nan", "not a time"),
        ] {
            let error = time(text, "1s").unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(time("5", "1.5ms").unwrap_err().ends_with("write 5ms"));
    }

    #[test]
    fn counts_and_sizes_have_the_usual_letters() {
        for (text, number) in [
            ("0", 0),
            ("500", 500),
            ("10k", 10_000),
            ("1.5M", 1_500_000),
            ("1,000,000", 1_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "1.5",
            "1e9",
            "10kk",
            "18446744073709551616",
            "99999999999G",
        ] {
            assert!(count(text).is_err(), "{text}");
        }
        for (text, bytes) in [
            ("4KiB", 4096),
            ("512", 512),
            ("4k", 4096),
            ("1.5 MiB", 3 << 19),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "KiB",
            "-4k",
            "4 parsecs",
            "99999999999GiB",
            "1.0001k",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_or_a_number_where_that_is_usual() {
        assert_eq!(share("5%", false), Ok(0.05));
        assert_eq!(share(" 0.5 %", false), Ok(0.005));
        assert_eq!(share("0.2", true), Ok(0.2));
        assert_eq!(share("20%", true), Ok(0.2));
        assert_eq!(share("5", false).unwrap_err(), "no unit; write 5%");
        for bad in ["-1%", "101%", "NaN%", "%", "inf%", "much"] {
            assert!(share(bad, false).is_err(), "{bad}");
        }
        assert!(share("20", true).is_err());
    }
}

//! Parses a latency bound: `100us`, `1.5ms`, `0`.

use crate::pm_qos::NO_BOUND_US;

/// Units of a bound, µs each.
const UNITS: [(&str, f64); 4] = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];

/// The bound, µs. The unit is required, except for zero: no latency, so no sleep.
///
/// # Errors
/// One line, without the text itself: no number, no unit, a fraction of a microsecond, or 2000 s and
/// more, the kernel's "no bound".
pub fn parse_bound(text: &str) -> std::result::Result<u32, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(
            "a latency cannot be negative; 0 is the tightest bound (no sleep at all)".into(),
        );
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim_start());
    let Ok(number) = number.parse::<f64>() else {
        return Err("not a latency such as 100us, 1.5ms or 0".into());
    };
    if unit.is_empty() {
        return match number {
            0.0 => Ok(0),
            number => Err(format!("no unit; write {number}us or {number}ms")),
        };
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "ns" => "the kernel takes whole microseconds; write us, ms or s".into(),
            unit => format!("{unit:?} is no unit of a latency; write us, ms or s"),
        });
    };
    let us = number * factor;
    if us >= f64::from(NO_BOUND_US) {
        return Err("beyond what the kernel takes: it must be less than 2000s".into());
    }
    // 1.1 ms is not 1100 µs exactly in binary; a billionth is far below any real fraction.
    if (us - us.round()).abs() > us * 1e-9 {
        return Err("a fraction of a microsecond; the kernel takes whole ones".into());
    }
    Ok(us.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_a_unit_unless_it_is_zero() {
        for (text, us) in [
            ("0", 0),
            ("0us", 0),
            ("100us", 100),
            ("100 µs", 100),
            ("1.5ms", 1500),
            ("1.1ms", 1100),
            ("2s", 2_000_000),
            ("1999.999999s", 1_999_999_999),
        ] {
            assert_eq!(parse_bound(text), Ok(us), "{text}");
        }
        assert!(parse_bound("100").unwrap_err().contains("100us"));
    }

    #[test]
    fn a_value_that_the_kernel_rejects_is_refused_with_the_reason() {
        for (text, why) in [
            ("-1us", "negative"),
            ("-5", "negative"),
            ("2000s", "2000s"),
            ("99999999999999999999s", "2000s"),
            ("1.5us", "fraction"),
            ("0.0001ms", "fraction"),
            ("500ns", "whole microseconds"),
            ("1h", "no unit"),
            ("", "not a latency"),
            ("fast", "not a latency"),
            ("1e3us", "no unit"),
            ("1.2.3us", "not a latency"),
            ("infs", "not a latency"),
        ] {
            let error = parse_bound(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

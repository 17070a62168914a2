//! Quantities as a reader wants them: three digits and the unit that fits.

/// Hours of seconds, seconds, ms, µs or ns, whichever leaves one to three digits before the point.
pub fn duration(ns: f64) -> String {
    let size = ns.abs();
    let (divisor, unit) = match size {
        // 999.5 would be rounded to 1000: that is the next unit's 1.
        _ if size < 999.5 => (1.0, "ns"),
        _ if size < 999.5e3 => (1e3, "µs"),
        _ if size < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}\u{a0}{unit}", three_digits(ns / divisor))
}

/// A whole number of nanoseconds, as [`duration`].
pub fn nanoseconds(ns: i64) -> String {
    duration(ns as f64)
}

/// At least three significant digits, without zeros after the point that say nothing.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Three significant digits without trailing zeros; below 1e-6 and from 1e9 on as `1.23e9`.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if !(1e-6..1e9).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let decimals = (3 - before).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Seconds with the unit that fits.
pub fn time(seconds: f64) -> String {
    match seconds.abs() {
        0.0 => "0".into(),
        f64::INFINITY => "ever".into(),
        size if size < 999.5e-9 => format!("{} ns", digits(seconds * 1e9)),
        size if size < 999.5e-6 => format!("{} µs", digits(seconds * 1e6)),
        size if size < 0.9995 => format!("{} ms", digits(seconds * 1e3)),
        _ => format!("{} s", digits(seconds)),
    }
}

/// A count with its thousands apart (narrow no-break spaces): `1 000 000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `1 datapoint`, `2 000 datapoints`.
pub fn datapoints(number: u64) -> String {
    let noun = if number == 1 {
        "datapoint"
    } else {
        "datapoints"
    };
    format!("{} {noun}", count(number))
}

/// A share (0 to 1) in per cent, with as many digits as a small share needs.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        0.0 => "0".to_owned(),
        size if size >= 10.0 => format!("{size:.1}"),
        size if size >= 0.1 => format!("{size:.2}"),
        // Two digits that count.
        size => format!("{size:.0$}", (1.0 - size.log10().floor()) as usize),
    };
    format!("{text}\u{a0}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_the_unit_that_fits_it() {
        for (ns, text) in [
            (0.0, "0\u{a0}ns"),
            (7.0, "7\u{a0}ns"),
            (999.4, "999\u{a0}ns"),
            (999.6, "1\u{a0}µs"),
            (7_540.0, "7.54\u{a0}µs"),
            (133_000.0, "133\u{a0}µs"),
            (1_250_000.0, "1.25\u{a0}ms"),
            (20e9, "20\u{a0}s"),
            (-350.0, "-350\u{a0}ns"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000), "1\u{202f}000");
        assert_eq!(count(12_345_678), "12\u{202f}345\u{202f}678");
    }

    #[test]
    fn a_small_share_keeps_its_digits() {
        assert_eq!(share(0.0), "0\u{a0}%");
        assert_eq!(share(0.5), "50.0\u{a0}%");
        assert_eq!(share(0.001_234), "0.12\u{a0}%");
        assert_eq!(share(0.000_012), "0.0012\u{a0}%");
    }

    #[test]
    fn numbers_keep_three_digits_and_times_their_unit() {
        for (value, text) in [
            (0.0, "0"),
            (0.012345, "0.0123"),
            (99.96, "100"),
            (41.7, "41.7"),
            (2.0, "2"),
            (1234.5, "1234"),
            (7.684e-9, "7.68e-9"),
            (3.8e12, "3.80e12"),
        ] {
            assert_eq!(digits(value), text);
        }
        for (seconds, text) in [
            (0.0, "0"),
            (133e-6, "133 µs"),
            (0.038, "38 ms"),
            (0.65, "650 ms"),
            (f64::INFINITY, "ever"),
            (999.4e-9, "999 ns"),
            (999.4e-6, "999 µs"),
            (0.9994, "999 ms"),
            (-0.002, "-2 ms"),
            (2.5, "2.5 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
        // From the half of the last digit on it is the next unit.
        for (seconds, unit) in [(999.5e-9, " µs"), (999.5e-6, " ms"), (0.9995, " s")] {
            assert!(time(seconds).ends_with(unit), "{}", time(seconds));
        }
    }
}

//! Quantities as text: three digits and a suitable unit, the same on a terminal, on a page and in a
//! sentence.

/// In s, ms, µs or ns, with one to three digits before the point.
pub fn duration(ns: f64) -> String {
    let scale = scale_of(ns);
    format!("{} {}", three_digits(ns / scale.ns), scale.unit)
}

/// As [`duration`] after the time `before` in a sentence: its unit is not repeated. `24.5 µs at the median, 90
/// at p99`.
pub fn after(before: f64, ns: f64) -> String {
    match scale_of(before) == scale_of(ns) {
        true => three_digits(ns / scale_of(ns).ns),
        false => duration(ns),
    }
}

/// A whole number of nanoseconds, as [`duration`].
pub fn nanoseconds(ns: i64) -> String {
    duration(ns as f64)
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Its length.
    pub ns: f64,
    /// Its symbol.
    pub unit: &'static str,
}

/// The units of time, the longest first.
pub(crate) const SCALES: [Scale; 4] = [
    Scale { ns: 1e9, unit: "s" },
    Scale {
        ns: 1e6,
        unit: "ms",
    },
    Scale {
        ns: 1e3,
        unit: "µs",
    },
    Scale {
        ns: 1.0,
        unit: "ns",
    },
];

/// The unit that leaves one to three digits before the point.
pub(crate) fn scale_of(ns: f64) -> Scale {
    let [.., least] = SCALES;
    // 999.5 would be rounded to 1000, which is 1 of the next unit; in binary it may be a little less.
    let fits = |scale: &Scale| ns.abs() >= 0.999_499_999_9 * scale.ns;
    SCALES.into_iter().find(fits).unwrap_or(least)
}

/// Three significant digits, whole from 100 on; without trailing zeros of a fraction.
pub fn three_digits(value: f64) -> String {
    let text = aligned(value);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    text.to_owned()
}

/// As [`three_digits`] with the zeros, for columns of numbers. Below 0.1 two significant digits.
pub fn aligned(value: f64) -> String {
    let decimals = decimals(value);
    let text = format!("{value:.decimals$}");
    match text
        .trim_start_matches('-')
        .chars()
        .all(|c| c == '0' || c == '.')
    {
        true => "0".to_owned(),
        false => text,
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

/// `41.70 ±0.30`: as many decimals as the first two digits of the interval need.
pub fn interval(value: f64, half_width: f64) -> String {
    // A difference that is the same in all runs has an interval of rounding errors.
    if half_width.is_nan() || half_width <= 1e-9 * value.abs() {
        return digits(value);
    }
    let decimals = (1 - half_width.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.decimals$} ±{half_width:.decimals$}")
}

/// Seconds, as [`duration`]; zero needs no unit.
pub fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0".into(),
        seconds => duration(seconds * 1e9),
    }
}

/// The least number that has two significant digits with two decimals.
pub(crate) const LEGIBLE: f64 = 0.095;

/// Decimals of [`aligned`].
fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= LEGIBLE => 2,
        size => (1.0 - size.log10().floor()).min(9.0) as usize,
    }
}

/// The least value with the digits of [`aligned`] that is no smaller: an upper bound is not rounded down.
pub fn up(value: f64) -> f64 {
    let scale = 10_f64.powi(decimals(value) as i32);
    // What binary fractions add is no reason to go up.
    (value * scale - 1e-9).ceil() / scale
}

/// `C1, C1E and C6`; `none` without names.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// As [`listed`], the first `most` by name and the others by their number: `C1, C1E and 2 more`.
pub fn some<S: AsRef<str>>(names: &[S], most: usize) -> String {
    // One more has room where "1 more" would stand.
    if names.len() <= most + 1 {
        return listed(names);
    }
    let more = format!("{} more", names.len() - most);
    let named = names[..most].iter().map(AsRef::as_ref);
    listed(&named.chain([&*more]).collect::<Vec<_>>())
}

/// A name as a shell and systemd take it: `haltpoll idle` is one.
pub fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    match name.bytes().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// A count with its thousands apart: `1,000,000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun, in the plural unless it is 1: `1 datapoint`, `2,000 datapoints`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A share (0 to 1) in per cent, with three significant digits, as [`percent`].
pub fn share(share: f64) -> String {
    format!("{}%", percent(share * 100.0))
}

/// Per cents with three significant digits, or more where fewer would make 100 of what is less.
pub fn percent(percent: f64) -> String {
    if percent == 0.0 || !percent.is_finite() {
        return format!("{}", percent.abs());
    }
    // The exponent after rounding: 9.996 is 10.0.
    let rounded = format!("{percent:.2e}");
    let exponent = rounded
        .split_once('e')
        .map_or("0", |(_, exponent)| exponent);
    let decimals = 2 - exponent.parse::<i32>().unwrap_or(0);
    let decimals = match 100.0 - percent {
        rest if rest > 0.0 && rest < 0.05 => 1 - rest.log10().floor() as i32,
        _ => decimals,
    };
    format!("{percent:.0$}", decimals.max(0) as usize)
}

/// A p-value. Below a ten-thousandth the tests' approximations show only that it is less.
pub fn p_value(value: f64) -> String {
    match value {
        small if small < 1e-4 => "< 0.0001".to_owned(),
        value => format!("{value:.4}"),
    }
}

/// At most so many letters, the last of a longer text being `…`.
pub fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_suitable_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (7.0, "7 ns"),
            (999.4, "999 ns"),
            (999.6, "1 µs"),
            (7_540.0, "7.54 µs"),
            (133_000.0, "133 µs"),
            (1_250_000.0, "1.25 ms"),
            (20e9, "20 s"),
            (-350.0, "-350 ns"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn a_unit_is_not_repeated_in_a_sentence() {
        assert_eq!(after(24_500.0, 90_000.0), "90");
        assert_eq!(after(24_500.0, 999.0), "999 ns");
        assert_eq!(after(999_000.0, 999_600.0), "1 ms");
        assert_eq!(after(5_000.0, -1_000.0), "-1");
    }

    #[test]
    fn numbers_have_three_digits_and_small_ones_at_least_two() {
        for (value, trimmed, column) in [
            (0.0, "0", "0"),
            (-0.0, "0", "0"),
            (0.000_4, "0.0004", "0.00040"),
            (0.004, "0.004", "0.0040"),
            (0.068_02, "0.068", "0.068"),
            (0.5, "0.5", "0.50"),
            (9.994, "9.99", "9.99"),
            (9.996, "10", "10.0"),
            (99.96, "100", "100"),
            (1234.4, "1234", "1234"),
            (-12.0, "-12", "-12.0"),
            (1e-12, "0", "0"),
        ] {
            assert_eq!(
                (three_digits(value).as_str(), aligned(value).as_str()),
                (trimmed, column)
            );
        }
    }

    #[test]
    fn thousands_have_separators() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(counted(1, "wait"), "1 wait");
        assert_eq!(counted(2_000, "wait"), "2,000 waits");
    }

    #[test]
    fn a_bound_is_rounded_up_and_never_zero() {
        for (value, text) in [
            (0.099_99, "0.10"),
            (0.100_1, "0.11"),
            (0.07, "0.070"),
            (12.31, "12.4"),
            (100.0, "100"),
            (0.000_03, "0.000030"),
            (0.000_030_1, "0.000031"),
        ] {
            assert_eq!(aligned(up(value)), text);
        }
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed(&[] as &[&str]), "none");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b"]), "a and b");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(some(&["a", "b", "c"], 2), "a, b and c");
        assert_eq!(some(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }

    #[test]
    fn a_p_value_has_four_decimals_and_is_not_zero() {
        assert_eq!(p_value(0.049_66), "0.0497");
        assert_eq!(p_value(0.000_099), "< 0.0001");
    }

    #[test]
    fn a_share_has_three_digits_and_only_all_is_100() {
        for (part, text) in [
            (0.0, "0%"),
            (0.5, "50.0%"),
            (1.0, "100%"),
            (1.234, "123%"),
            (0.001_234, "0.123%"),
            (0.000_012, "0.00120%"),
            // Near powers of ten.
            (0.099_996, "10.0%"),
            (0.099_94, "9.99%"),
            (0.000_999_96, "0.100%"),
            (0.000_009_999_6, "0.00100%"),
            // Only all is 100%.
            (0.994, "99.4%"),
            (0.998_6, "99.9%"),
            (0.999_57, "99.957%"),
            (0.999_999_8, "99.999980%"),
            (-0.5, "-50.0%"),
        ] {
            assert_eq!(share(part), text);
        }
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
            (999.4e-9, "999 ns"),
            (999.4e-6, "999 µs"),
            (0.9994, "999 ms"),
            (-0.002, "-2 ms"),
            (2.5, "2.5 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
        // From half of the last digit on it is the next unit.
        for (seconds, unit) in [(999.5e-9, " µs"), (999.5e-6, " ms"), (0.9995, " s")] {
            assert!(time(seconds).ends_with(unit), "{}", time(seconds));
        }
    }

    #[test]
    fn very_small_and_large_numbers_are_written_with_exponents() {
        for (value, text) in [
            (1e-6, "0.000001"),
            (9.99e-7, "9.99e-7"),
            (-9.99e-7, "-9.99e-7"),
            (0.00123, "0.00123"),
            (-0.5, "-0.5"),
            (1.0, "1"),
            (9.999, "10"),
            (10.0, "10"),
            (120.0, "120"),
            (999_999_999.0, "999999999"),
            (1e9, "1.00e9"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(digits(value), text);
        }
        for (seconds, text) in [(7e-9, "7 ns"), (-7e-9, "-7 ns"), (1.5e-3, "1.5 ms")] {
            assert_eq!(time(seconds), text);
        }
    }
}

//! Decimal numbers as text, read without a detour over floating point.

use crate::columns::NULL;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decimal {
    Number(i64),
    /// Empty, or a word for "no number".
    Unknown,
    OutOfRange,
    Malformed,
}

/// Digits that certainly fit into 64 bits.
const DIGITS_SAFE: usize = 18;

/// The number times ten to the power of `shift`, rounded half away from zero.
pub(crate) fn integer(text: &[u8], shift: u8) -> Decimal {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        Some(_) => (false, text),
        None => return Decimal::Unknown,
    };
    let mut number: i64 = 0;
    let mut at = 0;
    while let Some(digit) = digits.get(at).and_then(digit) {
        if at >= DIGITS_SAFE {
            return slow(text, shift);
        }
        number = number * 10 + digit;
        at += 1;
    }
    let whole_digits = at;
    let mut missing = shift;
    let mut fraction_digits = 0;
    if digits.get(at) == Some(&b'.') {
        at += 1;
        let start = at;
        while missing > 0
            && let Some(digit) = digits.get(at).and_then(digit)
        {
            if whole_digits + (at - start) >= DIGITS_SAFE {
                return slow(text, shift);
            }
            number = number * 10 + digit;
            missing -= 1;
            at += 1;
        }
        if missing == 0
            && let Some(digit) = digits.get(at).and_then(digit)
        {
            number += i64::from(digit >= 5);
        }
        while digits.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        fraction_digits = at - start;
    }
    if at != digits.len() || whole_digits + fraction_digits == 0 {
        return slow(text, shift);
    }
    if whole_digits + usize::from(shift) > DIGITS_SAFE {
        return slow(text, shift);
    }
    let number = number * 10_i64.pow(u32::from(missing));
    Decimal::Number(if negative { -number } else { number })
}

fn digit(byte: &u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// Exponents, white space, words and long numbers.
fn slow(text: &[u8], shift: u8) -> Decimal {
    let Ok(text) = std::str::from_utf8(text) else {
        return Decimal::Malformed;
    };
    let text = text.trim();
    if shift == 0
        && let Ok(number) = text.parse::<i64>()
    {
        // The smallest number stands for "unknown" in a column.
        return if number == NULL {
            Decimal::OutOfRange
        } else {
            Decimal::Number(number)
        };
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_nan() => Decimal::Unknown,
        Ok(number) => {
            let number = (number * 10_f64.powi(i32::from(shift))).round();
            // Beyond 2^63 a conversion would not keep the value.
            if number.abs() < i64::MAX as f64 {
                Decimal::Number(number as i64)
            } else {
                Decimal::OutOfRange
            }
        }
        Err(_) if text.is_empty() => Decimal::Unknown,
        Err(_) => Decimal::Malformed,
    }
}

/// A share in per cent; NaN where the field is empty, `None` where it is no finite number.
pub(crate) fn percent(text: &[u8]) -> Option<f32> {
    // Six decimals are more than a 32-bit float holds of a share.
    const DECIMALS: u8 = 6;
    match integer(text, DECIMALS) {
        Decimal::Number(millionths) => Some((millionths as f64 / 1e6) as f32),
        Decimal::Unknown => Some(f32::NAN),
        Decimal::OutOfRange | Decimal::Malformed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn microseconds_are_rounded_to_nanoseconds() {
        for (text, expected) in [
            ("4.1797981021053525", 4180),
            ("1757.788", 1757788),
            ("12", 12000),
            ("0.0004", 0),
            ("0.0005", 1),
            ("-0.0005", -1),
            ("-3.25", -3250),
            (".5", 500),
            ("5.", 5000),
            ("1e-3", 1),
            (" 7 ", 7000),
        ] {
            assert_eq!(
                integer(text.as_bytes(), 3),
                Decimal::Number(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn an_invalid_number_differs_from_an_unknown_one() {
        for text in ["", "nan", "NaN", " "] {
            assert_eq!(integer(text.as_bytes(), 3), Decimal::Unknown, "{text:?}");
        }
        for text in ["-", ".", "x", "1.2.3", "1,2", "0x10", "1 2", "--1"] {
            assert_eq!(integer(text.as_bytes(), 3), Decimal::Malformed, "{text:?}");
        }
        for text in [
            "inf",
            "1e300",
            "99999999999999999999",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text.as_bytes(), 3), Decimal::OutOfRange, "{text:?}");
        }
    }

    #[test]
    fn the_number_that_stands_for_unknown_is_out_of_range() {
        assert_eq!(
            integer(i64::MIN.to_string().as_bytes(), 0),
            Decimal::OutOfRange
        );
        let largest = i64::MAX.to_string();
        assert_eq!(integer(largest.as_bytes(), 0), Decimal::Number(i64::MAX));
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives_as_text_in_microseconds(ns in -1_000_000_000_000_000_i64..1_000_000_000_000_000) {
            let sign = if ns < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:03}", ns.abs() / 1000, ns.abs() % 1000);
            prop_assert_eq!(integer(text.as_bytes(), 3), Decimal::Number(ns));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), shift in 0_u8..7) {
            integer(&bytes, shift);
            percent(&bytes);
        }
    }

    #[test]
    fn a_number_is_shifted_into_the_unit_and_rounded_half_away_from_zero() {
        for (text, shift, expected) in [
            ("0", 0, 0),
            ("7", 0, 7),
            ("+7", 0, 7),
            ("-7", 0, -7),
            ("7.4", 0, 7),
            ("7.5", 0, 8),
            ("-7.5", 0, -8),
            ("7.49999", 0, 7),
            ("12.3", 1, 123),
            ("12.34", 1, 123),
            ("12.35", 1, 124),
            ("12.3", 3, 12_300),
            ("12", 6, 12_000_000),
            ("0.1234565", 6, 123_457),
            ("0.12345649999", 6, 123_456),
            (".25", 1, 3),
            ("5.", 1, 50),
            ("2.5e2", 1, 2500),
            ("1E3", 0, 1000),
        ] {
            let number = integer(text.as_bytes(), shift);
            assert_eq!(number, Decimal::Number(expected), "{text} {shift}");
        }
    }

    #[test]
    fn eighteen_digits_are_exact_and_more_as_precise_as_a_double() {
        for (text, shift, expected) in [
            ("999999999999999999", 0, 999_999_999_999_999_999),
            ("123456789012345679", 0, 123_456_789_012_345_679),
            ("123456789012345.679", 3, 123_456_789_012_345_679),
            ("123456789012345.6789", 3, 123_456_789_012_345_679),
            ("123456789012345", 3, 123_456_789_012_345_000),
            ("-123456789012.345679", 6, -123_456_789_012_345_679),
            // Without a shift the largest has nineteen.
            ("9223372036854775807", 0, i64::MAX),
            ("-9223372036854775807", 0, -i64::MAX),
            // 2^60 and 2^62, which a double holds.
            ("1152921504606846976.0", 0, 1 << 60),
            ("4611686018427387.904", 3, 1 << 62),
        ] {
            let number = integer(text.as_bytes(), shift);
            assert_eq!(number, Decimal::Number(expected), "{text} {shift}");
        }
        // Just beyond, in each form.
        for (text, shift) in [
            ("9223372036854775808", 0),
            ("-9223372036854775808", 0),
            ("9223372036854775808.5", 0),
            ("9999999999999999999", 0),
            ("9999999999999999", 3),
            ("9999999999999999.999", 3),
            ("99999999999999999999.9", 1),
            ("9223372036854775.808", 3),
            ("-1e30", 0),
        ] {
            let number = integer(text.as_bytes(), shift);
            assert_eq!(number, Decimal::OutOfRange, "{text} {shift}");
        }
    }

    #[test]
    fn a_share_is_read_to_six_decimals() {
        for (text, expected) in [
            ("0", 0.0),
            ("99.5", 99.5),
            ("-0.25", -0.25),
            ("33.333333", 33.333_333),
            ("1e2", 100.0),
        ] {
            assert_eq!(percent(text.as_bytes()), Some(expected), "{text}");
        }
        assert!(percent(b"").unwrap().is_nan() && percent(b"nan").unwrap().is_nan());
        for text in ["x", "inf", "1e300"] {
            assert_eq!(percent(text.as_bytes()), None, "{text}");
        }
    }
}

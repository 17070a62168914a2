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
    fn microseconds_become_the_nearest_nanoseconds() {
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
    fn what_is_no_number_is_told_from_what_is_unknown() {
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
}

//! Figures as short text. An unknown value is a dash, never zero.

use crate::look::UNKNOWN;

fn known(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value
        .filter(|value| value.is_finite())
        .map_or(UNKNOWN.to_owned(), text)
}

/// Per cent: `12.3`.
pub fn percent(value: Option<f64>) -> String {
    known(value, |value| format!("{value:.1}"))
}

/// Times per second: `0.5`, `120`, `15.2k`, `3.1M`.
pub fn rate(value: Option<f64>) -> String {
    known(value, |value| match value {
        ..99.95 => format!("{value:.1}"),
        ..9999.5 => format!("{value:.0}"),
        ..999_950.0 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    })
}

/// A latency given in ns, in µs: `0.85`, `12.3`, `1204`.
pub fn latency_us(ns: Option<f64>) -> String {
    known(ns.map(|ns| ns / 1e3), |us| match us {
        ..9.995 => format!("{us:.2}"),
        ..99.95 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    })
}

/// A time given in µs, with its unit: `85 µs`, `4.2 ms`, `1.3 s`.
pub fn time(us: Option<f64>) -> String {
    known(us, |us| match us {
        ..9.95 => format!("{us:.1} µs"),
        ..999.5 => format!("{us:.0} µs"),
        ..9950.0 => format!("{:.1} ms", us / 1e3),
        ..999_500.0 => format!("{:.0} ms", us / 1e3),
        ..99_500_000.0 => format!("{:.1} s", us / 1e6),
        _ => format!("{:.0} s", us / 1e6),
    })
}

/// A figure without decimals.
pub fn whole(value: Option<f64>) -> String {
    known(value, |value| format!("{value:.0}"))
}

pub fn watts(value: Option<f64>) -> String {
    known(value, |value| match value {
        ..9.95 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    })
}

/// A count: `982`, `15.2k`.
pub fn count(value: u64) -> String {
    match value {
        ..10_000 => value.to_string(),
        _ => rate(Some(value as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_a_dash_and_zero_is_zero() {
        assert_eq!(percent(None), "-");
        assert_eq!(percent(Some(f64::NAN)), "-");
        assert_eq!(percent(Some(0.0)), "0.0");
        assert_eq!(time(None), "-");
    }

    #[test]
    fn figures_of_any_size_are_short() {
        assert_eq!(rate(Some(99.96)), "100");
        assert_eq!(rate(Some(123_456.0)), "123.5k");
        assert_eq!(latency_us(Some(850.0)), "0.85");
        assert_eq!(latency_us(Some(9996.0)), "10.0");
        assert_eq!(time(Some(999.7)), "1.0 ms");
        assert_eq!(time(Some(1.3e6)), "1.3 s");
        assert_eq!(count(9_999), "9999");
        assert_eq!(count(15_200), "15.2k");
    }
}

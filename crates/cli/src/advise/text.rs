//! Figures and paragraphs as advice prints them.

use std::io::{self, Write};

pub use reveille_show::wrap::wrapped;

/// An unknown value: never a zero.
pub const UNKNOWN: &str = "-";

/// Where a named line's words begin.
const INDENT: usize = 10;

/// A named line, wrapped below itself.
pub fn named(out: &mut impl Write, name: &str, words: &str) -> io::Result<()> {
    wrapped(out, &format!("{name:<INDENT$}"), INDENT, words)
}

/// Three significant digits of µs, whole from 100 up.
pub fn us(ns: i64) -> String {
    let us = ns as f64 / 1e3;
    match us.abs() {
        x if x >= 100.0 => format!("{us:.0}"),
        x if x >= 10.0 => format!("{us:.1}"),
        _ => format!("{us:.2}"),
    }
}

/// A share in per cent with two significant digits, rounded up: it is a bound.
pub fn percent_up(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 100.0 {
        return "100".to_owned();
    }
    // The decimals that two significant digits take; a bound is never 0.
    let decimals = |percent: f64| (1 - percent.max(1e-9).log10().floor() as i32).max(0);
    let scale = 10_f64.powi(decimals(percent));
    let up = (percent * scale).ceil() / scale;
    // 0.0999 goes up to 0.10, which has a decimal less.
    format!("{up:.*}", decimals(up) as usize)
}

/// Two significant digits, rounded up: what is only about right looks it.
pub fn about(count: u64) -> u64 {
    let step = 10_u64.pow(count.max(1).ilog10().saturating_sub(1));
    count.div_ceil(step) * step
}

/// `C1, C1E and C6`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_show::wrap::COLUMNS;

    #[test]
    fn a_bound_in_per_cent_is_rounded_up_and_never_zero() {
        assert_eq!(percent_up(0.000_999_9), "0.10");
        assert_eq!(percent_up(0.001_001), "0.11");
        assert_eq!(percent_up(0.123_1), "13");
        assert_eq!(percent_up(1.0), "100");
        assert_eq!(percent_up(0.000_000_3), "0.000030");
    }

    #[test]
    fn paragraphs_are_wrapped_below_their_name() {
        let mut text = Vec::new();
        named(&mut text, "Note", &"word ".repeat(20)).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("          word"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= COLUMNS));
    }
}

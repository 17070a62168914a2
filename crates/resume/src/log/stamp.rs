//! Instants as the prefixes of log lines write them.

use crate::calendar::{MONTHS, days};
use crate::cycle::Us;

const SECOND_US: Us = 1_000_000;
/// Beyond it (a thousand years) a number is no instant, and sums of such could overflow.
const SECONDS_MAX: u64 = 40_000_000_000;

const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// As `dmesg -T` and journalctl write them in other languages, where they begin otherwise than in English.
const OTHER_MONTHS: [&str; 12] = [
    "ene gen sty янв",
    "fév fev lut фев",
    "mär mrz mrt мар",
    "avr abr kwi апр",
    "mai maj mag mei мая",
    "juin giu cze июн",
    "juil lug lip июл",
    "aoû ago sie авг",
    "set wrz сен",
    "okt out ott paź окт",
    "lis ноя",
    "déc dez dic gru дек",
];

fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || *byte == b'.' || *byte >= 0x80
}

/// An instant and the step of its notation, both in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) us: Us,
    pub(super) resolution_us: Us,
}

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.0 = &self.0[1..])
    }

    pub(super) fn eat_text(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    pub(super) fn spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    /// At least one digit, at most nineteen.
    pub(super) fn digits(&mut self) -> Option<&'a [u8]> {
        let n = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(n)?;
        (1..20).contains(&n).then(|| {
            self.0 = rest;
            digits
        })
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        Some(value_of(self.digits()?))
    }

    /// 0, or a negative error number.
    pub(super) fn result(&mut self) -> Option<i32> {
        let negative = self.eat(b'-').is_some();
        let result = i32::try_from(self.number()?).ok()?;
        Some(if negative { -result } else { result })
    }

    fn two_digits(&mut self) -> Option<i64> {
        let (pair, rest) = self.0.split_at_checked(2)?;
        pair.iter().all(u8::is_ascii_digit).then(|| {
            self.0 = rest;
            value_of(pair) as i64
        })
    }

    /// Up to the next space or the end; never empty.
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        let n = memchr::memchr(b' ', self.0).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(n);
        (n > 0).then(|| {
            self.0 = rest;
            word
        })
    }

    /// `12.345678`: seconds with a fraction, cut to microseconds.
    pub(super) fn seconds(&mut self) -> Option<Instant> {
        self.seconds_by(b'.')
    }

    /// With this sign before the fraction.
    pub(super) fn seconds_by(&mut self, sign: u8) -> Option<Instant> {
        let mut ahead = *self;
        let whole = ahead.number().filter(|&s| s < SECONDS_MAX)? as Us;
        ahead.eat(sign)?;
        let fraction = ahead.digits()?;
        *self = ahead;
        Some(with_fraction(whole, fraction))
    }

    /// `18:00:00`, with `.123456` or `,123456` or without.
    pub(super) fn clock(&mut self) -> Option<Instant> {
        let hour = self.two_digits()?;
        self.eat(b':')?;
        let minute = self.two_digits()?;
        self.eat(b':')?;
        let second = self.two_digits()?;
        let whole = (hour * 60 + minute) * 60 + second;
        let mut ahead = *self;
        let sign = ahead.eat(b'.').or_else(|| ahead.eat(b','));
        let fraction = sign.and_then(|()| ahead.digits());
        if fraction.is_some() {
            *self = ahead;
        }
        Some(with_fraction(whole, fraction.unwrap_or_default()))
    }

    fn month(&mut self) -> Option<i64> {
        let is_begin = |known: &&str| {
            let begin = self.0.get(..known.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(known.as_bytes()))
        };
        let mut english = MONTHS.iter().copied().zip(1..);
        let english = english.find(|(known, _)| is_begin(known));
        let (name, month) = english.or_else(|| {
            let mut others = OTHER_MONTHS.iter().zip(1..);
            others.find_map(|(names, month)| Some((names.split(' ').find(is_begin)?, month)))
        })?;
        self.0 = &self.0[name.len()..];
        // `janv.`, `sept.`
        let more = self.0.iter().take_while(|byte| is_letter(byte)).count();
        self.0 = &self.0[more..];
        Some(month)
    }

    /// In English, or of any language before a month.
    fn weekday(&mut self) -> Option<()> {
        let mut end = 3;
        if !WEEKDAYS.contains(&self.0.get(..3)?) {
            end = self.0.iter().take_while(|byte| is_letter(byte)).count();
            let mut behind = Cursor(&self.0[end..]);
            behind.eat(b' ').filter(|()| end > 0)?;
            behind.month()?;
        }
        self.0 = &self.0[end..];
        Some(())
    }

    /// `2026-11-21T18:00:00.123456+01:00`, as ISO 8601 and RFC 3339 have it, in UTC.
    /// A zone in letters (`UTC`, `CET`) is read over.
    pub(super) fn iso(&mut self) -> Option<Instant> {
        let mut ahead = *self;
        let year = ahead.digits().filter(|digits| digits.len() == 4)?;
        ahead.eat(b'-')?;
        let month = ahead.two_digits()?;
        ahead.eat(b'-')?;
        let day = ahead.two_digits()?;
        ahead.eat(b'T').or_else(|| ahead.eat(b' '))?;
        let mut instant = ahead.clock()?;
        instant.us += days(value_of(year) as i64, month, day) * 86_400 * SECOND_US;
        match ahead.peek() {
            Some(b'Z') => ahead.0 = &ahead.0[1..],
            Some(sign @ (b'+' | b'-')) => {
                ahead.0 = &ahead.0[1..];
                let hours = ahead.two_digits()?;
                let _ = ahead.eat(b':');
                let minutes = ahead.two_digits().unwrap_or(0);
                let zone = (hours * 60 + minutes) * 60 * SECOND_US;
                instant.us -= if sign == b'+' { zone } else { -zone };
            }
            _ => {}
        }
        *self = ahead;
        Some(instant)
    }

    /// `Nov 21 18:00:00`, with a weekday before and a year behind or without, and whether it has a year:
    /// where it is missing it is taken for 2000, a leap year.
    pub(super) fn date(&mut self) -> Option<(Instant, bool)> {
        let mut ahead = *self;
        if ahead.weekday().is_some() {
            ahead.eat(b' ')?;
            if let Some(instant) = ahead.iso() {
                // journalctl -o short-full names the zone.
                let mut zone = ahead;
                if zone.eat(b' ').is_some()
                    && zone.word().is_some_and(|word| {
                        (3..6).contains(&word.len()) && word.iter().all(u8::is_ascii_uppercase)
                    })
                {
                    ahead = zone;
                }
                *self = ahead;
                return Some((instant, true));
            }
        }
        let month = ahead.month()?;
        ahead.eat(b' ')?;
        ahead.spaces();
        let day = ahead.number().filter(|day| *day < 32)? as i64;
        ahead.eat(b' ')?;
        let mut instant = ahead.clock()?;
        let mut behind = ahead;
        let year = behind
            .eat(b' ')
            .and_then(|()| behind.digits())
            .filter(|digits| digits.len() == 4 && behind.peek().is_none_or(|b| b == b']'))
            .map(|digits| {
                ahead = behind;
                value_of(digits) as i64
            });
        instant.us += days(year.unwrap_or(2000), month, day) * 86_400 * SECOND_US;
        *self = ahead;
        Some((instant, year.is_some()))
    }
}

/// Of at most nineteen digits.
fn value_of(digits: &[u8]) -> u64 {
    let digits = digits.iter().map(|digit| u64::from(digit - b'0'));
    digits.fold(0, |value, digit| value * 10 + digit)
}

fn with_fraction(whole: Us, fraction: &[u8]) -> Instant {
    let digits = &fraction[..fraction.len().min(6)];
    let resolution_us = Us::pow(10, 6 - digits.len() as u32);
    let us = whole * SECOND_US + value_of(digits) as Us * resolution_us;
    Instant { us, resolution_us }
}

/// A decimal number times a million: `0.001` seconds and `7928.413` of anything.
pub(super) fn millionths(text: &mut Cursor<'_>) -> Option<Us> {
    if let Some(instant) = text.seconds() {
        return Some(instant.us);
    }
    let whole = text.number().filter(|&s| s < SECONDS_MAX)? as Us;
    Some(whole * SECOND_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970, from `date -u -d ... +%s`.
    #[test]
    fn dates_follow_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59+00:00", 951_868_799),
            ("2026-11-21T18:00:00+0100", 1_795_280_400),
            ("2026-11-21T18:00:00-01:30", 1_795_289_400),
            ("2026-11-21 18:00:00", 1_795_284_000),
            ("2100-03-01T00:00:00", 4_107_542_400),
        ] {
            let mut cursor = Cursor(text.as_bytes());
            let instant = cursor.iso().unwrap();
            assert_eq!(instant.us, seconds * SECOND_US, "{text}");
            assert_eq!(instant.resolution_us, SECOND_US);
            assert!(cursor.0.is_empty(), "{text}");
        }
        for text in [
            "Sat Nov 21 18:00:00 2026]",
            "Sat 2026-11-21 18:00:00 UTC host",
        ] {
            let (instant, has_year) = Cursor(text.as_bytes()).date().unwrap();
            assert_eq!(instant.us, 1_795_284_000 * SECOND_US, "{text}");
            assert!(has_year, "{text}");
        }
    }

    #[test]
    fn without_a_year_differences_within_the_year_are_right() {
        let at = |text: &str| {
            let (instant, has_year) = Cursor(text.as_bytes()).date().unwrap();
            assert!(!has_year, "{text}");
            instant.us
        };
        assert_eq!(
            at("Mar  1 00:00:00.5 host") - at("Feb 29 23:59:59.250000 host"),
            1_250_000
        );
        assert_eq!(at("Nov 21 18:00:01 h") - at("Nov 21 18:00:00 h"), SECOND_US);
    }

    #[test]
    fn fractions_are_truncated_to_microseconds_and_give_the_resolution() {
        let of = |text: &str| Cursor(text.as_bytes()).seconds();
        let instant = |us, resolution_us| Some(Instant { us, resolution_us });
        assert_eq!(of("12.345678"), instant(12_345_678, 1));
        assert_eq!(of("12.345678999"), instant(12_345_678, 1));
        assert_eq!(of("12.34"), instant(12_340_000, 10_000));
        assert_eq!(of("12"), None);
        assert_eq!(of("99999999999999999999.1"), None);
        assert_eq!(of("9999999999999999999.1"), None);
    }

    #[test]
    fn stamps_without_a_fraction_have_a_resolution_of_a_second() {
        let second = |us| {
            Some(Instant {
                us,
                resolution_us: SECOND_US,
            })
        };
        let clock = |text: &str| {
            let mut cursor = Cursor(text.as_bytes());
            let instant = cursor.clock();
            (instant, String::from_utf8_lossy(cursor.0).into_owned())
        };
        let whole = (13 * 3600 + 2 * 60 + 3) * SECOND_US;
        assert_eq!(clock("13:02:03 host"), (second(whole), " host".to_owned()));
        // A full stop at the end of a sentence is not part of the stamp.
        assert_eq!(clock("13:02:03. So"), (second(whole), ". So".to_owned()));
        assert_eq!(clock("13:02:03"), (second(whole), String::new()));
        let hundredth = Some(Instant {
            us: whole + 250_000,
            resolution_us: 10_000,
        });
        assert_eq!(clock("13:02:03,25"), (hundredth, String::new()));
        for broken in ["13:02", "1:02:03", "13-02-03", "13:02-03"] {
            assert_eq!(clock(broken).0, None, "{broken}");
        }
        assert_eq!(Cursor(b"12").seconds(), None);
        assert_eq!(Cursor(b"12.").seconds(), None);
    }

    #[test]
    fn a_number_without_a_fraction_is_in_seconds() {
        let of = |text: &str| {
            let mut cursor = Cursor(text.as_bytes());
            (
                millionths(&mut cursor),
                String::from_utf8_lossy(cursor.0).into_owned(),
            )
        };
        assert_eq!(of("0.001 seconds"), (Some(1000), " seconds".to_owned()));
        assert_eq!(of("7928.413 x"), (Some(7_928_413_000), " x".to_owned()));
        assert_eq!(of("12 msecs"), (Some(12_000_000), " msecs".to_owned()));
        assert_eq!(of("12. So"), (Some(12_000_000), ". So".to_owned()));
        assert_eq!(of("0"), (Some(0), String::new()));
        assert_eq!(of("39999999999").0, Some(39_999_999_999_000_000));
        assert_eq!(of("40000000000").0, None);
        assert_eq!(of("40000000000.5").0, None);
        assert_eq!(of("x").0, None);
    }

    #[test]
    fn a_date_leaves_the_following_text() {
        let of = |text: &str| {
            let mut cursor = Cursor(text.as_bytes());
            let instant = cursor.date();
            instant.map(|(instant, _)| {
                (
                    instant.us / SECOND_US,
                    String::from_utf8_lossy(cursor.0).into_owned(),
                )
            })
        };
        let evening = 1_795_284_000;
        assert_eq!(
            of("Sat Nov 21 18:00:00 2026]"),
            Some((evening, "]".to_owned()))
        );
        // The zone of `journalctl -o short-full` is skipped, a host's name is not.
        assert_eq!(
            of("Sat 2026-11-21 18:00:00 CEST host"),
            Some((evening, " host".to_owned()))
        );
        for behind in [" host", " UT", " ABCDEF", " Utc"] {
            assert_eq!(
                of(&format!("Sat 2026-11-21 18:00:00{behind}")),
                Some((evening, behind.to_owned()))
            );
        }
        // Four digits followed by more are no year: a host may have such a name.
        let leap_year = of("Nov 21 18:00:00 host").unwrap().0;
        assert_eq!(
            of("Nov 21 18:00:00 2026 kernel"),
            Some((leap_year, " 2026 kernel".to_owned()))
        );
        // 21 November 2000: `date -u -d "2000-11-21 18:00:00" +%s`.
        assert_eq!(leap_year, 974_829_600);
        assert_eq!(of("Nov 32 18:00:00 host"), None);
        assert_eq!(of("Nox 21 18:00:00 host"), None);
    }

    #[test]
    fn words_end_at_a_space_and_are_never_empty() {
        let mut cursor = Cursor(b"kernel: x");
        assert_eq!(cursor.word(), Some(&b"kernel:"[..]));
        assert_eq!((cursor.word(), cursor.0), (None, &b" x"[..]));
        assert_eq!(Cursor(b"").word(), None);
        let mut cursor = Cursor(b"kernel: x");
        assert_eq!(
            (cursor.eat_text(b"host"), cursor.0),
            (None, &b"kernel: x"[..])
        );
        assert_eq!(
            (cursor.eat_text(b"kernel"), cursor.0),
            (Some(()), &b": x"[..])
        );
    }

    #[test]
    fn each_month_starts_on_its_calendar_day() {
        // In 2023 and, from March on, the leap year 2024: a day later.
        for (month, day_of_year) in
            (1..).zip([1, 32, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335])
        {
            // 19 358 days until 2023, 19 723 days until 2024.
            assert_eq!(days(2023, month, 1), 19_358 + day_of_year - 1, "{month}");
            let leap = i64::from(month > 2);
            assert_eq!(days(2024, month, 1), 19_723 + day_of_year - 1 + leap);
            let name = MONTHS[month as usize - 1];
            let text = format!("{name}  1 00:00:00");
            // Without a year it is a leap year, 2000: 10 957 days.
            let at = Cursor(text.as_bytes()).date().unwrap().0.us;
            let day = 10_957 + day_of_year - 1 + leap;
            assert_eq!(at, day * 86_400 * SECOND_US, "{name}");
        }
        assert_eq!((days(1970, 1, 1), days(1969, 12, 31)), (0, -1));
        assert_eq!(days(2001, 1, 1) - days(2000, 1, 1), 366);
        assert_eq!(days(1901, 1, 1) - days(1900, 1, 1), 365);
    }

    #[test]
    fn zones_are_read_with_and_without_their_minutes() {
        let of = |text: &str| {
            let mut cursor = Cursor(text.as_bytes());
            let instant = cursor.iso();
            instant.map(|instant| {
                (
                    instant.us / SECOND_US,
                    String::from_utf8_lossy(cursor.0).into_owned(),
                )
            })
        };
        let evening = 1_795_284_000;
        let all = |seconds| Some((seconds, String::new()));
        assert_eq!(of("2026-11-21T18:00:00+05:45"), all(evening - 20_700));
        assert_eq!(of("2026-11-21T18:00:00-0930"), all(evening + 34_200));
        assert_eq!(of("2026-11-21T18:00:00+02"), all(evening - 7200));
        let behind = Some((evening, " UTC".to_owned()));
        assert_eq!(of("2026-11-21T18:00:00 UTC"), behind);
        for text in [
            "226-11-21T18:00:00",
            "20260-11-21T18:00:00",
            "2026/11/21T18:00:00",
            "2026-11-21x18:00:00",
            "2026-11-21T18:00:00+x",
            "2026-11-2",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_year_has_four_digits_and_a_zone_a_space_before_it() {
        let of = |text: &str| {
            let mut cursor = Cursor(text.as_bytes());
            let us = cursor.date().map(|(instant, _)| instant.us / SECOND_US);
            (us, String::from_utf8_lossy(cursor.0).into_owned())
        };
        let (year_2000, year_2026) = (Some(974_829_600), Some(1_795_284_000));
        assert_eq!(of("Nov 21 18:00:00 2026"), (year_2026, String::new()));
        for behind in [" 123]", " 20260]", " 2026x"] {
            let found = of(&format!("Nov 21 18:00:00{behind}"));
            assert_eq!(found, (year_2000, behind.to_owned()));
        }
        assert_eq!(
            of("Sat 2026-11-21 18:00:00CEST"),
            (year_2026, "CEST".to_owned())
        );
        assert_eq!(of("Sat 2026-11-21 18:00:00"), (year_2026, String::new()));
        assert!(of("Nov 31 00:00:00").0.is_some());
        for text in [
            "Sa, Nov 21 18:00:00",
            "SatNov 21 18:00:00",
            "Nov21 18:00:00",
        ] {
            assert_eq!(of(text), (None, text.to_owned()));
        }
    }

    #[test]
    fn numbers_have_at_most_nineteen_digits() {
        let of = |text: &'static str| {
            let mut cursor = Cursor(text.as_bytes());
            (cursor.number(), cursor.0)
        };
        assert_eq!(of("0x"), (Some(0), &b"x"[..]));
        let most = "9999999999999999999";
        assert_eq!(of(most), (Some(9_999_999_999_999_999_999), &b""[..]));
        let more = "00000000000000000001";
        assert_eq!(of(more), (None, more.as_bytes()));
        assert_eq!(of("x"), (None, &b"x"[..]));
        let seconds = |text: &'static str| Cursor(text.as_bytes()).seconds();
        assert_eq!(
            seconds("39999999999.999999").map(|at| at.us),
            Some(39_999_999_999_999_999)
        );
        assert_eq!(seconds("40000000000.0"), None);
    }
}

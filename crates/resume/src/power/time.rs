//! Times as meters and logs write them.

use super::Clock;
use crate::calendar::{self, MONTHS};
use crate::cycle::Us;

const SECOND: Us = 1_000_000;
const DAY: Us = 86_400 * SECOND;

/// An instant, and what it counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub us: Us,
    pub clock: Clock,
}

pub fn stamp(us: Us, clock: Clock) -> Option<Stamp> {
    Some(Stamp { us, clock })
}

/// A time: a number (seconds, or what `unit_us` makes of it), ISO 8601, a date as in the United
/// States with a time, a time of day, or syslog's month, day and time. Syslog has no year: such a
/// stamp counts from the beginning of 1970, and [`shift_to_year_of`] moves it.
pub fn parse(text: &str, unit_us: f64) -> Option<Stamp> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return from_number(number, unit_us);
    }
    if let Some(stamp) = iso(text) {
        return Some(stamp);
    }
    if let Some(us) = time_of_day(text) {
        return stamp(us, Clock::TimeOfDay);
    }
    american(text).or_else(|| syslog(text))
}

/// From this number of seconds on it is one since 1970 (September 2001), and no elapsed time.
const SINCE_1970: f64 = 1e9;

/// Seconds since 1970 come in ms, µs and ns, too; a head does not always name the unit.
fn from_number(number: f64, unit_us: f64) -> Option<Stamp> {
    /// Seconds since 1970 stay below it until the year 5138.
    const MOST_SECONDS: f64 = 1e11;
    if !number.is_finite() {
        return None;
    }
    let mut seconds = number * unit_us / 1e6;
    while seconds.abs() >= MOST_SECONDS {
        seconds /= 1e3;
    }
    let clock = match seconds >= SINCE_1970 {
        true => Clock::Utc,
        false => Clock::Elapsed,
    };
    stamp((seconds * 1e6).round() as Us, clock)
}

/// `2026-11-21T18:00:00.123456+01:00`, with a blank or a `T`, with or without a fraction or a zone.
fn iso(text: &str) -> Option<Stamp> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let mut parts = date.split(['-', '/']);
    let year = parts.next().filter(|year| year.len() == 4)?;
    let (month, day) = (number(parts.next()?)?, number(parts.next()?)?);
    let us = days(number(year)?, month, day)? * DAY;
    let rest = rest.strip_prefix(['T', 't', ' ', '_'])?.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ":.,".contains(c)));
    let (time, zone) = rest.split_at(end.unwrap_or(rest.len()));
    let us = us + time_of_day(time)?;
    match zone.trim() {
        "" => stamp(us, Clock::Local),
        zone => stamp(us - zone_us(zone)?, Clock::Utc),
    }
}

/// `Z`, `UTC`, `+01:00`, `-0500`, `+01`: how far it is ahead.
fn zone_us(zone: &str) -> Option<Us> {
    if ["Z", "z", "UTC", "GMT"].contains(&zone) {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    if !digits.is_ascii() {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    Some(sign * (number(hours)? * 3600 + number(minutes)? * 60) * SECOND)
}

/// `18:00:00`, `18:00:00.123`, `6:00:00 PM`, `18:00`.
fn time_of_day(text: &str) -> Option<Us> {
    let upper = text.trim().to_ascii_uppercase();
    let (clock, noon) = match (upper.strip_suffix("PM"), upper.strip_suffix("AM")) {
        (Some(clock), _) => (clock, Some(12)),
        (_, Some(clock)) => (clock, Some(0)),
        _ => (upper.as_str(), None),
    };
    let mut parts = clock.trim().split(':');
    let mut hours = number(parts.next()?)?;
    let minutes = number(parts.next()?)?;
    let seconds = parts.next().unwrap_or("0").replace(',', ".");
    if let Some(noon) = noon {
        hours = hours % 12 + noon;
    }
    let is_number = seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds: f64 = seconds.parse().ok().filter(|_| is_number)?;
    let is_time = parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 61.0;
    is_time.then(|| (hours * 3600 + minutes * 60) * SECOND + (seconds * 1e6).round() as Us)
}

/// `11/21/2026 6:00:00 PM`.
fn american(text: &str) -> Option<Stamp> {
    let (date, time) = text.split_once(char::is_whitespace)?;
    let mut parts = date.split('/');
    let (month, day) = (number(parts.next()?)?, number(parts.next()?)?);
    let year = match number(parts.next()?)? {
        short @ 0..100 => 2000 + short,
        year => year,
    };
    stamp(
        days(year, month, day)? * DAY + time_of_day(time)?,
        Clock::Local,
    )
}

/// `Nov 21 18:00:00.123`, in 1970.
fn syslog(text: &str) -> Option<Stamp> {
    let mut words = text.split_whitespace();
    let name = words.next()?;
    let mut months = MONTHS.iter();
    let month = months.position(|month| month.eq_ignore_ascii_case(name))?;
    let day = days(1970, month as i64 + 1, number(words.next()?)?)?;
    stamp(day * DAY + time_of_day(words.next()?)?, Clock::Local)
}

/// A stamp without a year, in the year in which it is nearest to `other`.
pub fn shift_to_year_of(us: Us, other: Us) -> Us {
    if !(0..366 * DAY).contains(&us) {
        return us;
    }
    // The day of the year is that of 1970, which had no 29 February.
    let in_year = |year| {
        let is_after_leap_day = days(year, 2, 29).is_some() && us >= 59 * DAY;
        let days = days(year, 1, 1)? + i64::from(is_after_leap_day);
        Some(us + days * DAY)
    };
    let year = 1970 + other.div_euclid(DAY) / 365;
    let shifted = (year - 1..=year + 1).filter_map(in_year);
    let nearest = shifted.min_by_key(|shifted| shifted.abs_diff(other));
    nearest.unwrap_or(us)
}

/// Only digits, few enough for any sum here.
fn number(text: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// As [`calendar::days`], if there is such a date. Years after 9999 have more microseconds than a number here.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let next_month = match month {
        12 => calendar::days(year + 1, 1, 1),
        _ => calendar::days(year, month + 1, 1),
    };
    let is_valid = (0..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1;
    Some(calendar::days(year, month, day)).filter(|&at| is_valid && at < next_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<(Us, Clock)> {
        parse(text, 1e6).map(|stamp| (stamp.us, stamp.clock))
    }

    /// By `date -u -d '2026-11-21 18:00:00' +%s`.
    const EVENING: Us = 1_795_284_000 * SECOND;

    #[test]
    fn the_same_evening_is_read_in_every_form() {
        for text in [
            "2026-11-21T18:00:00Z",
            "2026-11-21 18:00:00+00:00",
            "2026-11-21T19:00:00.000+0100",
            "2026-11-21T13:00:00-05",
            "1795284000",
            "1795284000000",
            "1795284000.000",
        ] {
            assert_eq!(at(text), Some((EVENING, Clock::Utc)), "{text}");
        }
        assert_eq!(
            at("2026-11-21 18:00-\u{fffd}a"),
            None,
            "a zone of four bytes"
        );
        assert_eq!(at("11/21/999999 6:00:00 PM"), None, "a year without end");
        for text in [
            "2026-11-21 18:00:00",
            "2026/11/21 18:00:00,000",
            "11/21/2026 6:00:00 PM",
            "11/21/26 18:00:00",
        ] {
            assert_eq!(at(text), Some((EVENING, Clock::Local)), "{text}");
        }
        let syslog = at("Nov 21 18:00:00").unwrap().0;
        assert_eq!(shift_to_year_of(syslog, EVENING + 3 * DAY), EVENING);
    }

    #[test]
    fn a_time_of_day_differs_from_an_elapsed_time() {
        let quarter = 6 * 3600 * SECOND;
        assert_eq!(at("06:00:00"), Some((quarter, Clock::TimeOfDay)));
        assert_eq!(at("06:00 am"), Some((quarter, Clock::TimeOfDay)));
        assert_eq!(at("12:00 AM"), Some((0, Clock::TimeOfDay)));
        assert_eq!(at("12.5"), Some((12_500_000, Clock::Elapsed)));
        let ms = parse("12500", 1e3).unwrap();
        assert_eq!((ms.us, ms.clock), (12_500_000, Clock::Elapsed));
    }

    #[test]
    fn syslogs_year_is_the_one_nearest_to_the_meters() {
        let december = at("Dec 31 23:59:59").unwrap().0;
        let january = at("2027-01-01T00:00:10Z").unwrap().0;
        assert_eq!(
            shift_to_year_of(december, january),
            at("2026-12-31T23:59:59Z").unwrap().0
        );
        let march = at("Mar 1 12:00:00").unwrap().0;
        let leap = at("2028-03-01T11:00:00Z").unwrap().0;
        assert_eq!(shift_to_year_of(march, leap), leap + 3600 * SECOND);
    }

    #[test]
    fn other_text_is_no_time() {
        for text in [
            "",
            "noon",
            "2026-02-29T00:00:00Z",
            "2026-13-01 00:00:00",
            "25:00:00",
            "1:2:3:4",
            "inf",
            "2026-11-21",
            "2026-11-21T18:00:00+1",
            "é026-11-21 18:00:00",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn zones_and_times_have_hours_minutes_and_a_fraction() {
        for text in [
            "2026-11-21T23:30:00+05:30",
            "2026-11-21T14:30:00-0330",
            "1795284000000000000",
        ] {
            assert_eq!(at(text), Some((EVENING, Clock::Utc)), "{text}");
        }
        let of_day = |text: &str| at(text).map(|(us, _)| us);
        let time = |hours: Us, minutes: Us, us: Us| Some((hours * 60 + minutes) * 60 * SECOND + us);
        assert_eq!(of_day("18:05:07.25"), time(18, 5, 7_250_000));
        assert_eq!(of_day("18:59:60"), time(18, 59, 60_000_000));
        assert_eq!(of_day("12:30 PM"), time(12, 30, 0));
        assert_eq!(of_day("11:30 PM"), time(23, 30, 0));
        assert_eq!(of_day("23:59"), time(23, 59, 0));
        for text in ["24:00", "18:60", "18:00:61", "18:00:1e1", "18:+5", "18:00:"] {
            assert_eq!(of_day(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_is_seconds_since_1970_from_september_2001_on() {
        let elapsed = |us| Some((us, Clock::Elapsed));
        assert_eq!(at("999999999"), elapsed(999_999_999 * SECOND));
        assert_eq!(at("1000000000").unwrap().1, Clock::Utc);
        assert_eq!(at("-5.5"), elapsed(-5_500_000));
        // From 10^11 on they are milliseconds.
        assert_eq!(at("99999999999").unwrap().0, 99_999_999_999 * SECOND);
        assert_eq!(at("100000000000"), elapsed(100_000_000 * SECOND));
    }

    /// Counted one by one.
    #[test]
    fn each_day_follows_the_previous() {
        let mut next = days(0, 1, 1).unwrap();
        for year in 0..=2400 {
            let leap = year % 400 == 0 || year % 4 == 0 && year % 100 != 0;
            let february = if leap { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    assert_eq!(days(year, month, day), Some(next), "{year}-{month}-{day}");
                    next += 1;
                }
                assert_eq!(days(year, month, 0), None, "{year}-{month}");
                assert_eq!(days(year, month, length + 1), None, "{year}-{month}");
            }
        }
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!((days(1970, 0, 1), days(1970, 13, 1)), (None, None));
        assert_eq!((days(-1, 1, 1), days(10_000, 1, 1)), (None, None));
        assert!(days(9999, 12, 31).is_some());
        assert_eq!(at("226-011-21 18:00:00"), None, "a year of three digits");
    }

    #[test]
    fn only_a_stamp_without_a_year_moves_to_the_nearest_year() {
        let utc = |text: &str| at(text).unwrap().0;
        let moved = |text: &str, other: &str| shift_to_year_of(utc(text), utc(other));
        // Midnights at the end of a leap year's February, and of a leap year.
        for (text, near) in [
            ("Feb 28 23:59:59", "2028-02-28T23:59:59Z"),
            ("Mar 1 00:00:00", "2028-03-01T00:00:00Z"),
            ("Dec 31 00:00:00", "2028-12-31T00:00:00Z"),
            ("Jan 1 00:00:00", "2029-01-01T00:00:00Z"),
            ("Jan 1 00:00:00", "1971-01-01T00:00:00Z"),
        ] {
            let other = utc(near) - 3600 * SECOND;
            assert_eq!(shift_to_year_of(utc(text), other), utc(near), "{near}");
        }
        let later = "2026-11-24T18:00:00Z";
        assert_eq!(moved("2026-11-21T18:00:00Z", later), EVENING);
        assert_eq!(moved("1971-01-02T00:00:00Z", later), 366 * DAY);
        assert_eq!(shift_to_year_of(-1, EVENING), -1);
    }
}

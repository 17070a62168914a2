//! The time of day, by the local time zone, and a timer for the next time at which a rule's hours begin or
//! end. It announces a clock that is set, too.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use reveille_kernel::{Error, Result, Root};

use crate::rules::{Days, Hours, When};

/// localtime(5). The service reads it anew with its rules, and when it changes.
pub const ZONE: &str = "/etc/localtime";
/// Hours begin at least on one day of the week, and last up to two days.
const DAYS: usize = 10;
/// Who sets the clock all the time has no timer.
const TRIES: usize = 8;

/// A timer in local time.
pub struct Clock {
    /// Readable when the time has come, or when the clock was set.
    pub timer: TimerFd,
    /// The local one.
    pub zone: TimeZone,
}

impl Clock {
    /// A clock whose timer is not set yet.
    ///
    /// # Errors
    /// Where the kernel gives no timer.
    pub fn new(zone: TimeZone) -> Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags);
        let timer = timer.map_err(Error::system("making a timer"))?;
        Ok(Self { timer, zone })
    }

    /// Is it such a time?
    pub fn is_within(&self, when: &When, now: Timestamp) -> bool {
        is_within(when, now, &self.zone)
    }

    /// Sets the timer for the next change of one of these.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn wait_for_change<'a>(
        &self,
        of: impl Iterator<Item = &'a When> + Clone,
        now: impl Fn() -> Timestamp,
    ) -> Result<()> {
        let flags =
            TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        let set = || {
            let now = now();
            let changes = of.clone();
            let changes = changes.filter_map(|when| next_change(when, now, &self.zone));
            let Some(next) = changes.min() else {
                return Ok(());
            };
            let at = Expiration::OneShot(TimeSpec::new(next.as_second(), 0));
            self.timer.set(at, flags)
        };
        let tries = std::iter::repeat_with(set).take(TRIES);
        // ECANCELED: the clock was set meanwhile.
        let mut set = tries.skip_while(|set| *set == Err(Errno::ECANCELED));
        let set = set.next().unwrap_or(Err(Errno::ECANCELED));
        set.map_err(Error::system("setting a timer"))
    }
}

/// The machine's time zone; UTC where it has none, as localtime(5) has it, or none that can be read.
pub fn zone(root: &Root) -> TimeZone {
    let bytes = std::fs::read(root.path(ZONE)).ok();
    let zone = bytes.and_then(|bytes| TimeZone::tzif("local", &bytes).ok());
    zone.unwrap_or(TimeZone::UTC)
}

/// From when to when the hours of each day around `now` are, where the day is one of `days`.
fn periods(
    when: &When,
    now: Timestamp,
    zone: &TimeZone,
) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let Hours { from, to } = when.time.unwrap_or(Hours::ALL);
    let today = zone.to_datetime(now).date();
    let first = today.checked_sub(Span::new().days(2)).unwrap_or(today);
    let days = std::iter::successors(Some(first), |day| day.tomorrow().ok()).take(DAYS + 2);
    let is_such = |day: &Date| {
        let weekday = day.weekday().to_monday_zero_offset();
        when.days
            .as_ref()
            .is_none_or(|days: &Days| days.has(weekday))
    };
    // A time that the clock skips is the one after it, and of a time that comes twice it is the first.
    let at = |day: Date, minutes: u16| {
        let minutes = Span::new().minutes(i64::from(minutes));
        let time = day
            .to_datetime(Time::midnight())
            .checked_add(minutes)
            .ok()?;
        zone.to_ambiguous_timestamp(time).compatible().ok()
    };
    days.filter(is_such)
        .filter_map(move |day| Some((at(day, from)?, at(day, to)?)))
}

fn is_within(when: &When, now: Timestamp, zone: &TimeZone) -> bool {
    periods(when, now, zone).any(|(from, to)| from <= now && now < to)
}

fn next_change(when: &When, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let ends = periods(when, now, zone).flat_map(|(from, to)| [from, to]);
    ends.filter(|end| *end > now).min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::rules::Rules;

    fn when(conditions: &str) -> When {
        let rule = "[[rule]]\nname = \"a\"\nlatency = \"5us\"\n[rule.when]\n";
        let rules = Rules::parse(&format!("{rule}{conditions}")).unwrap();
        rules.rules[0].when.clone()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn check(conditions: &str, zone: &TimeZone, cases: &[(&str, bool, &str)]) {
        let when = when(conditions);
        for (now, within, next) in cases {
            assert_eq!(
                is_within(&when, at(now), zone),
                *within,
                "{conditions} {now}"
            );
            assert_eq!(
                next_change(&when, at(now), zone),
                Some(at(next)),
                "{conditions} {now}"
            );
        }
    }

    /// Central Europe's: an hour before UTC, two from the last Sunday of March to that of October.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn hours_begin_and_end_in_local_time() {
        check(
            "time = \"08:00-18:00\"",
            &berlin(),
            &[
                ("2026-11-24T06:59:59Z", false, "2026-11-24T07:00:00Z"),
                ("2026-11-24T07:00:00Z", true, "2026-11-24T17:00:00Z"),
                ("2026-11-24T17:00:00Z", false, "2026-11-25T07:00:00Z"),
                // In summer.
                ("2026-07-01T06:00:00Z", true, "2026-07-01T16:00:00Z"),
            ],
        );
    }

    #[test]
    fn hours_across_midnight_belong_to_the_day_on_which_they_begin() {
        // 2026-11-27 is a Friday.
        check(
            "time = \"22:00-06:00\"\ndays = [\"fri\"]",
            &TimeZone::UTC,
            &[
                ("2026-11-27T05:00:00Z", false, "2026-11-27T22:00:00Z"),
                ("2026-11-27T23:00:00Z", true, "2026-11-28T06:00:00Z"),
                ("2026-11-28T05:59:59Z", true, "2026-11-28T06:00:00Z"),
                ("2026-11-28T06:00:00Z", false, "2026-12-04T22:00:00Z"),
                ("2026-11-28T23:00:00Z", false, "2026-12-04T22:00:00Z"),
            ],
        );
    }

    #[test]
    fn days_alone_are_whole_days() {
        check(
            "days = [\"sat\", \"sun\"]",
            &TimeZone::UTC,
            &[
                ("2026-11-27T23:59:59Z", false, "2026-11-28T00:00:00Z"),
                ("2026-11-28T12:00:00Z", true, "2026-11-29T00:00:00Z"),
                ("2026-11-30T00:00:00Z", false, "2026-12-05T00:00:00Z"),
            ],
        );
    }

    #[test]
    fn a_time_that_is_skipped_or_comes_twice_begins_once() {
        // On 2026-03-29 there is no 02:30, and on 2026-10-25 there are two.
        check(
            "time = \"02:30-04:00\"",
            &berlin(),
            &[
                ("2026-03-29T01:00:00Z", false, "2026-03-29T01:30:00Z"),
                ("2026-03-29T01:30:00Z", true, "2026-03-29T02:00:00Z"),
                ("2026-10-25T00:29:59Z", false, "2026-10-25T00:30:00Z"),
                ("2026-10-25T01:30:00Z", true, "2026-10-25T03:00:00Z"),
            ],
        );
    }

    #[test]
    fn a_clock_at_the_end_of_time_changes_nothing_more() {
        let when = when("time = \"08:00-18:00\"");
        assert_eq!(next_change(&when, Timestamp::MAX, &TimeZone::UTC), None);
        is_within(&when, Timestamp::MIN, &TimeZone::UTC);
    }

    #[test]
    fn without_a_readable_zone_it_is_utc() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(zone(&root), TimeZone::UTC);
        fs::create_dir(root.path("/etc")).unwrap();
        fs::write(root.path(ZONE), "nonsense").unwrap();
        assert_eq!(zone(&root), TimeZone::UTC);
    }

    #[test]
    fn the_timer_runs_out_at_the_change() {
        use std::os::fd::AsFd;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

        let clock = Clock::new(TimeZone::UTC).unwrap();
        let when = when("time = \"08:00-18:00\"");
        let is_due = || {
            let mut timer = [PollFd::new(clock.timer.as_fd(), PollFlags::POLLIN)];
            poll(&mut timer, PollTimeout::ZERO).unwrap() == 1
        };
        // Relative to a clock that is ahead: the change has not come.
        let ahead = Timestamp::now() + Span::new().hours(48);
        clock
            .wait_for_change([&when].into_iter(), || ahead)
            .unwrap();
        assert!(!is_due());
        // And to one that is behind: it has.
        let behind = Timestamp::now() - Span::new().hours(48);
        clock
            .wait_for_change([&when].into_iter(), || behind)
            .unwrap();
        assert!(is_due());
    }
}

//! Hours and days as a rule's condition.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Of a day.
pub const MINUTES: u16 = 24 * 60;

/// From one time of the day to another, which is the next day's if it is not later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// Minutes since midnight, less than 1440.
    pub from: u16,
    /// Minutes since the midnight before `from`: 1440 is the next one, and there may be more.
    pub to: u16,
}

impl Hours {
    /// The whole day.
    pub const ALL: Self = Self {
        from: 0,
        to: MINUTES,
    };

    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let (from, to) = (minutes(from)?, minutes(to)?);
        let to = if to > from { to } else { to + MINUTES };
        (from < MINUTES && to - from <= MINUTES).then_some(Self { from, to })
    }
}

/// `08:30`, up to `24:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sum = hours * 60 + minutes;
    (minutes < 60 && sum <= MINUTES).then_some(sum)
}

impl std::fmt::Display for Hours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to = match self.to > MINUTES {
            true => self.to - MINUTES,
            false => self.to,
        };
        let (from, to) = ((self.from / 60, self.from % 60), (to / 60, to % 60));
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.0, from.1, to.0, to.1)
    }
}

impl<'de> Deserialize<'de> for Hours {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = "not two times of the day, such as \"08:00-18:00\" or \"22:00-06:00\"";
        Self::parse(&text).ok_or_else(|| D::Error::custom(wrong))
    }
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Days of the week, one at least: those on which [`Hours`] begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days(Vec<Day>);

impl Days {
    /// Is it one of them? From Monday, 0.
    pub fn has(&self, day: i8) -> bool {
        self.0.iter().any(|one| *one as i8 == day)
    }
}

impl std::fmt::Display for Days {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let names = (0..).zip(NAMES).filter(|(day, _)| self.has(*day));
        let names: Vec<&str> = names.map(|(_, name)| name).collect();
        f.write_str(&names.join(", "))
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let days = Vec::<Day>::deserialize(from)?;
        match days.is_empty() {
            true => Err(D::Error::custom("no days; leave `days` out for all")),
            false => Ok(Self(days)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_cross_midnight_and_end_at_it() {
        let hours = |from, to| Some(Hours { from, to });
        assert_eq!(Hours::parse("08:00-18:30"), hours(480, 1110));
        assert_eq!(Hours::parse("22:00-06:00"), hours(1320, 1440 + 360));
        assert_eq!(Hours::parse("22:00-24:00"), hours(1320, 1440));
        assert_eq!(Hours::parse("00:00-24:00"), Some(Hours::ALL));
        assert_eq!(Hours::parse("08:00-08:00"), hours(480, 480 + 1440));
        for text in [
            "",
            "8:00-18:00",
            "08:00",
            "08:00-24:01",
            "24:00-08:00",
            "08:60-09:00",
            "+8:00-09:00",
            "08:00-18:00-19:00",
            "-",
            "００:00-08:00",
        ] {
            assert_eq!(Hours::parse(text), None, "{text}");
        }
    }

    #[test]
    fn hours_are_shown_as_they_are_written() {
        for text in ["08:00-18:30", "22:00-06:00", "22:00-24:00"] {
            assert_eq!(Hours::parse(text).unwrap().to_string(), text);
        }
    }
}

//! The Gregorian calendar.

/// The months in short.
pub(crate) const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Days from 1970-01-01 to a date: the years counted from March, so that the leap day is a year's last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let from_march = (month + 9) % 12;
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (from_march * 153 + 2) / 5 + day - 1 - 719_468
}

//! The values of flags, for clap's `value_parser`: one form and one wording for every command.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use humantime::format_duration;
use reveille_kernel::{cpulist, pm_qos};
use reveille_show::parse;

/// What clap wants of a `value_parser`.
pub trait Parser<T>: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {}
impl<T, F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static> Parser<T> for F {}

/// CPUs as a flag names them. (clap takes a bare `Vec` for a repeated flag.)
#[derive(Debug, Clone)]
pub struct CpuList(pub Vec<u32>);

pub fn cpus(text: &str) -> Result<CpuList, String> {
    match cpulist::parse(text) {
        Some(cpus) if !cpus.is_empty() => Ok(CpuList(cpus)),
        _ => Err("not a list of CPUs, such as 0-3,8".to_owned()),
    }
}

/// The longest time: sums and products of times, and instants after it, do not overflow. Ten years of 365.25 days.
const LONGEST: Duration = Duration::from_secs(315_576_000);

/// A time from zero on; `example` is one that fits the flag.
pub fn time(example: &'static str) -> impl Parser<Duration> {
    time_within(example, Duration::ZERO..=LONGEST)
}

/// A time above zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    time_within("30s", Duration::from_nanos(1)..=LONGEST)(text)
}

/// A time within a range.
pub fn time_within(
    example: &'static str,
    range: RangeInclusive<Duration>,
) -> impl Parser<Duration> {
    let [least, most] = [*range.start(), *range.end()];
    move |text| match parse::time(text, example)? {
        Duration::ZERO if !least.is_zero() => Err("must be above zero".to_owned()),
        time if time < least => Err(format!("too short; minimum {}", format_duration(least))),
        time if time > most => Err(format!("too long; maximum {}", format_duration(most))),
        time => Ok(time),
    }
}

/// The time between two refreshes. A refresh costs some milliseconds.
pub fn interval(text: &str) -> Result<Duration, String> {
    time_within("1s", Duration::from_millis(100)..=LONGEST)(text)
}

/// A latency bound in µs, as the kernel takes it.
pub fn bound(text: &str) -> Result<u32, String> {
    if text.trim().starts_with('-') {
        return Err(
            "a latency cannot be negative; 0 is the tightest bound (no sleep at all)".into(),
        );
    }
    pm_qos::bound_us(parse::time(text, "100us")?)
}

/// A number of things within a range: `500`, `10k`.
pub fn count<T>(range: RangeInclusive<T>) -> impl Parser<T>
where
    T: Copy + TryFrom<u64> + Into<u64> + Send + Sync + 'static,
{
    let range = [*range.start(), *range.end()];
    move |text| {
        let [least, most] = range.map(Into::into);
        let count = parse::count(text)?;
        let within = (least..=most).contains(&count).then_some(count);
        within
            .and_then(|count| T::try_from(count).ok())
            .ok_or_else(|| match most == u64::MAX {
                true => format!("must be {least} or more"),
                false => format!("must be from {least} to {most}"),
            })
    }
}

/// A CPU's number.
pub fn cpu(text: &str) -> Result<u32, String> {
    number("a CPU number, such as 3")(text)
}

/// The seed of a sequence of random numbers.
pub fn seed(text: &str) -> Result<u64, String> {
    number("a whole number")(text)
}

/// A process's number.
pub fn process(text: &str) -> Result<u32, String> {
    number("a process ID; `ps -e` lists them")(text)
}

/// A plain number; `what` names it after "not".
pub fn number<T>(what: &'static str) -> impl Parser<T>
where
    T: FromStr + Send + Sync + 'static,
{
    move |text| text.parse().map_err(|_| format!("not {what}"))
}

/// A number, which the command checks.
pub fn real(text: &str) -> Result<f64, String> {
    number("a number, such as 0.3")(text)
}

/// A TCP or UDP port: its number or its service's name.
pub fn port(text: &str) -> Result<u16, String> {
    let is_name = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if !is_name {
        return count(1..=u16::MAX)(text);
    }
    let services = std::fs::read_to_string("/etc/services").unwrap_or_default();
    service(&services, text)
        .ok_or_else(|| "no such service in /etc/services; give the port number".to_owned())
}

/// The port of a service or its alias: services(5).
fn service(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (service, port) = (words.next()?, words.next()?);
        let is_it = service == name || words.any(|alias| alias == name);
        let (port, _) = port.split_once('/').filter(|_| is_it)?;
        port.parse().ok()
    })
}

/// A load, which the command checks: `0.2`, `20%`.
pub fn load(text: &str) -> Result<f64, String> {
    match text.ends_with('%') {
        true => parse::share(text, false),
        false => real(text),
    }
}

/// A share of time, from 0 to 1: `5%`.
pub fn share(text: &str) -> Result<f64, String> {
    parse::share(text, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_is_in_range() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0s").unwrap_err(), "must be above zero");
        assert_eq!(duration("30").unwrap_err(), "no unit; write 30s");
        assert_eq!(interval("50ms").unwrap_err(), "too short; minimum 100ms");
    }

    #[test]
    fn a_bound_has_a_unit_unless_it_is_zero() {
        assert_eq!(bound("0"), Ok(0));
        assert_eq!(bound("1.5ms"), Ok(1500));
        assert_eq!(bound("100").unwrap_err(), "no unit; write 100us");
        assert!(bound("-1us").unwrap_err().contains("tightest"));
        assert!(bound("500ns").unwrap_err().contains("fraction"));
    }

    #[test]
    fn a_port_is_a_number_or_a_service() {
        assert_eq!(port("53"), Ok(53));
        assert!(port("0").unwrap_err().contains("1 to 65535"));
        let services = "# name port\ndomain 53/tcp # DNS\nhttp\t80/tcp www\n";
        assert_eq!(service(services, "http"), Some(80));
        assert_eq!(service(services, "www"), Some(80));
        assert_eq!(service(services, "DNS"), None);
    }

    #[test]
    fn a_count_is_in_range() {
        assert_eq!(count(1..=100_000_u32)("10k"), Ok(10_000));
        assert_eq!(
            count(1..=200_u32)("0").unwrap_err(),
            "must be from 1 to 200"
        );
        assert_eq!(count(1..=u64::MAX)("0").unwrap_err(), "must be 1 or more");
        assert_eq!(
            count(1..=u16::MAX)("70k").unwrap_err(),
            "must be from 1 to 65535"
        );
    }
}

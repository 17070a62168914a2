//! From a meter's file to its samples.
//!
//! The records of a Watts Up? PRO are those of its manufacturer's "Serial Data Format", revision
//! 4.41: a packet from `#` to `;`, `#d,-,18,` and then watts and volts in tenths, milliamperes and
//! so on; `_` stands for what the meter was not asked for.

use std::path::Path;

use super::time::{Stamp, parse as parse_time, stamp};
use super::{Clock, Format, LeftOut, Meter, Sample};
use crate::Error;
use crate::cycle::Us;

/// A sample each millisecond for an hour has some 100 MiB.
const MOST_MIB: u64 = 1024;

impl Meter {
    /// The samples of a file's bytes.
    ///
    /// # Errors
    /// One line: this is not a power meter's file, or it has nothing of use.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Err("is empty; a power meter's file has a line for each sample".to_owned());
        }
        let (format, lines): (_, Vec<Line>) = match text.contains("#d,") {
            true => (Format::WattsUp, watts_up(text)),
            false => (Format::Csv, csv(text)?),
        };
        gather(format, lines)
    }

    /// As [`Meter::parse`], from a file.
    ///
    /// # Errors
    /// With its path: it cannot be read, or has no samples.
    pub fn open(path: &Path) -> crate::Result<Self> {
        let file = std::fs::File::open(path);
        let bytes = file.and_then(|file| reveille_results::text::read(file, MOST_MIB));
        let bytes = bytes.map_err(Error::at(path))?;
        Self::parse(&bytes).map_err(|why| Error::Unreadable {
            path: path.to_owned(),
            why,
        })
    }
}

/// What one line gave: its time and its power, which may be below zero.
type Line = Option<(Stamp, f64)>;

/// Samples in their order, and what was left out.
fn gather(format: Format, lines: Vec<Line>) -> Result<Meter, String> {
    let mut left_out = LeftOut::default();
    let mut samples: Vec<Sample> = Vec::new();
    let (mut clock, mut midnights) = (None, 0);
    for line in lines {
        match line {
            Some((_, watts)) if watts < 0.0 => left_out.negative += 1,
            Some((stamp, watts)) if *clock.get_or_insert(stamp.clock) == stamp.clock => {
                let last = samples.last().map(|sample| sample.at_us);
                let mut at_us = stamp.us + midnights * DAY;
                let is_past_midnight = last.is_some_and(|last| at_us < last - DAY / 2);
                if stamp.clock == Clock::TimeOfDay && is_past_midnight {
                    midnights += 1;
                    at_us += DAY;
                }
                match last.is_none_or(|last| at_us > last) {
                    true => samples.push(Sample { at_us, watts }),
                    false => left_out.out_of_order += 1,
                }
            }
            _ => left_out.unreadable += 1,
        }
    }
    let Some(clock) = clock.filter(|_| samples.len() >= FEWEST) else {
        return Err(format!(
            "{} of its lines can be read as a sample (and {} not); a CSV needs a column of times and \
             one of watts, named in its first line, or these two in this order",
            samples.len(),
            left_out.all()
        ));
    };
    let intervals = samples.windows(2).map(|two| two[1].at_us - two[0].at_us);
    let mut intervals: Vec<Us> = intervals.collect();
    intervals.sort_unstable();
    // Of two in the middle the shorter one: missing samples make intervals longer, never shorter.
    let middle = (intervals.len() - 1) / 2;
    Ok(Meter {
        samples,
        clock,
        interval_us: intervals[middle],
        format,
        left_out,
    })
}

/// Fewer have no interval.
const FEWEST: usize = 2;
const DAY: Us = 86_400_000_000;
const SECOND: Us = 1_000_000;

/// Records of the meter, each with a stamp before it where the logging program wrote one, and else
/// one interval after the record before.
fn watts_up(text: &str) -> Vec<Line> {
    let mut interval = SECOND;
    let mut next = 0;
    let mut lines = Vec::new();
    let mut watts_at = WATTS;
    for line in text.lines() {
        if let Some(seconds) = logging_interval(line) {
            interval = seconds * SECOND;
        }
        if let Some(place) = head(line) {
            watts_at = place;
        }
        let Some((before, packet)) = line.split_once("#d,") else {
            continue;
        };
        let packet = packet.split(';').next().unwrap_or(packet);
        let tenths = packet.split(',').nth(watts_at);
        let tenths = tenths.and_then(|cell| cell.trim().parse::<f64>().ok());
        let before = before.trim().trim_end_matches([',', ';', ':', '>']).trim();
        let at = match before.is_empty() {
            true => stamp(next, Clock::Elapsed),
            false => parse_time(before.trim_matches(['[', ']']), 1e6),
        };
        next += interval;
        lines.push(sample(at, tenths.map(|tenths| tenths / 10.0)));
    }
    lines
}

/// Arguments of `#d` before the watts: `-` and their number.
const WATTS: usize = 2;

/// `#h,-,18,W,V,A,…;`: where the watts are.
fn head(line: &str) -> Option<usize> {
    let (_, packet) = line.split_once("#h,")?;
    let mut cells = packet.split([',', ';']);
    cells.position(|cell| cell.trim().eq_ignore_ascii_case("w"))
}

/// `#L,W,3,E,,10;` makes the meter send a record each 10 seconds.
fn logging_interval(line: &str) -> Option<Us> {
    let (_, packet) = line.split_once("#L,W,3,")?;
    let seconds: Us = packet.split(';').next()?.split(',').nth(2)?.parse().ok()?;
    (1..=86_400).contains(&seconds).then_some(seconds)
}

/// Where a table's columns are.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    separator: Option<char>,
    /// More than one where date and time are apart.
    time: Vec<usize>,
    unit_us: f64,
    watts: usize,
    /// Watts for each unit of the column.
    scale: f64,
}

fn csv(text: &str) -> Result<Vec<Line>, String> {
    let mut columns: Option<Columns> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_matches(['\0', '\r', ' ']);
        if line.is_empty() || line.starts_with(['#', '%', '<']) {
            continue;
        }
        if let Some(columns) = &columns {
            lines.push(row(line, columns));
        } else if let Some(first) = unnamed(line) {
            lines.push(row(line, &first));
            columns = Some(first);
        } else {
            // What a program wrote above its table is passed over.
            columns = named(line)?;
        }
    }
    match columns {
        Some(_) => Ok(lines),
        None => Err(
            "is not a power meter's file: neither a table of times and watts nor a Watts Up? log; name \
             its columns in the first line, such as `time_s,power_w`"
                .to_owned(),
        ),
    }
}

fn separator(line: &str) -> Option<char> {
    // Not one between quotation marks.
    let bare: String = line.split('"').step_by(2).collect();
    let mut marks = [';', '\t', ','].into_iter();
    marks.find(|mark| bare.contains(*mark))
}

/// Columns apart by that mark, else by blanks; without quotation marks. Between those that begin and end a cell a mark is none.
fn cells(line: &str, separator: Option<char>) -> Vec<&str> {
    let bare = |cell| str::trim(str::trim(cell).trim_matches('"'));
    let (mut is_quoted, mut is_start) = (false, true);
    let ends = |c: char| {
        let ends = separator == Some(c) && !is_quoted;
        is_quoted ^= c == '"' && (is_quoted || is_start);
        is_start = ends || (is_start && c == ' ');
        ends
    };
    match separator {
        Some(_) => line.split(ends).map(bare).collect(),
        None => line.split_whitespace().map(bare).collect(),
    }
}

/// Columns by their names; `None` where the line names none.
fn named(line: &str) -> Result<Option<Columns>, String> {
    let separator = separator(line);
    let cells = cells(line, separator);
    let names: Vec<String> = cells.iter().map(|name| name.to_lowercase()).collect();
    let exactly = |word: &str| names.iter().position(|name| name == word);
    let time = match (exactly("date"), exactly("time")) {
        (Some(date), Some(time)) => vec![date, time],
        _ => Vec::from_iter(names.iter().position(|name| is_time(name))),
    };
    let watts = (0..=2).find_map(|rank| names.iter().position(|name| is_power(name, rank)));
    match (time.last(), watts) {
        (Some(last), Some(watts)) => Ok(Some(Columns {
            separator,
            unit_us: unit_us(&names[*last]),
            time,
            watts,
            scale: scale(&names[watts]),
        })),
        // Words without a mark between them may be anything, and so may long ones.
        _ if separator.is_none() || !names.iter().all(|name| is_name(name)) => Ok(None),
        (time, _) => {
            let lacks = if time.is_none() { "times" } else { "watts" };
            let names: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
            Err(format!(
                "has no column of {lacks} among {}; rename one, such as to time_s or power_w",
                names.join(", ")
            ))
        }
    }
}

/// Could it be a column's?
fn is_name(name: &str) -> bool {
    name.chars().count() <= 40 && name.parse::<f64>().is_err()
}

fn is_time(name: &str) -> bool {
    let words = ["time", "date", "stamp", "clock", "elapsed", "second"];
    words.iter().any(|word| name.contains(word))
        || ["t", "s", "sec", "secs", "ms", "t_s", "t_ms"].contains(&name)
}

/// From the surest (0) to names that only look like it.
fn is_power(name: &str, rank: u8) -> bool {
    let other = [
        "hour", "factor", "max", "min", "cycle", "apparent", "reactive", "wh", "/", "peak",
    ];
    if other.iter().any(|word| name.contains(word)) {
        return false;
    }
    match rank {
        0 => ["w", "watts", "watt", "power", "power_w", "p"].contains(&name),
        1 => name.contains("watt") || name.contains("power"),
        _ => [
            "_w", "(w)", "[w]", "(mw)", "(kw)", " w", "mw", "kw", "_uw", "(uw)", "[uw]", "µw",
            "(µw)", "[µw]",
        ]
        .iter()
        .any(|end| name.ends_with(end)),
    }
}

/// A time column's unit, µs; seconds if its name has none.
fn unit_us(name: &str) -> f64 {
    let is = |unit: &str| {
        let mut marks = ["_", "(", "[", " "].iter();
        name == unit || marks.any(|mark| name.contains(&format!("{mark}{unit}")))
    };
    match () {
        () if is("ms") || name.contains("milli") => 1e3,
        () if is("us") || is("µs") || name.contains("micro") => 1.0,
        () if is("ns") || name.contains("nano") => 1e-3,
        () => 1e6,
    }
}

/// Watts for each unit of a power column. No computer draws megawatts.
fn scale(name: &str) -> f64 {
    match () {
        () if name.contains("mw") || name.contains("milliw") => 1e-3,
        () if name.contains("kw") || name.contains("kilow") => 1e3,
        () if ["_uw", "(uw", "[uw", "µw", "microwatt"]
            .iter()
            .any(|unit| name.contains(unit)) =>
        {
            1e-6
        }
        () => 1.0,
    }
}

/// Columns of a table without names: time and then watts.
fn unnamed(line: &str) -> Option<Columns> {
    let separator = separator(line);
    let cells = cells(line, separator);
    let is_number = |place: usize| number(cells[place], separator).is_some();
    let is_time = |text: &str| parse_time(text, 1e6).is_some();
    let two = || format!("{} {}", cells[0], cells[1]);
    let (time, watts) = if cells.len() >= 2 && is_time(cells[0]) && is_number(1) {
        (vec![0], 1)
    } else if cells.len() >= 3 && is_time(&two()) && is_number(2) {
        // A logger for the Watts Up? PRO writes date, time, a running number, W, V, A.
        let is_logger = separator.is_none() && cells.len() == 6;
        (vec![0, 1], if is_logger { 3 } else { 2 })
    } else {
        return None;
    };
    Some(Columns {
        separator,
        time,
        unit_us: 1e6,
        watts,
        scale: 1.0,
    })
}

fn row(line: &str, columns: &Columns) -> Line {
    let cells = cells(line, columns.separator);
    let time = columns.time.iter().map(|place| cells.get(*place).copied());
    let time: Option<Vec<&str>> = time.collect();
    let stamp = time.and_then(|time| parse_time(&time.join(" "), columns.unit_us));
    let watts = cells.get(columns.watts);
    sample(stamp, watts.and_then(|cell| watts_of(cell, columns)))
}

/// A cell's own unit goes before the column's.
fn watts_of(cell: &str, columns: &Columns) -> Option<f64> {
    let value = cell.trim_end_matches(char::is_alphabetic);
    let scale = match cell[value.len()..].to_lowercase().as_str() {
        "" => columns.scale,
        "w" | "watt" | "watts" => 1.0,
        "kw" => 1e3,
        "mw" => 1e-3,
        "µw" | "uw" => 1e-6,
        _ => return None,
    };
    Some(number(value.trim_end(), columns.separator)? * scale)
}

/// With a decimal comma where columns are apart by semicolons; elsewhere a comma may stand for thousands.
fn number(cell: &str, separator: Option<char>) -> Option<f64> {
    match separator == Some(';') && !cell.contains('.') {
        true => cell.replace(',', ".").parse().ok(),
        false => cell.parse().ok(),
    }
}

fn sample(stamp: Option<Stamp>, watts: Option<f64>) -> Line {
    /// A hundred years, µs: beyond it sums of times could overflow.
    const MOST: Us = 100 * 366 * DAY;
    /// W: no machine takes as much.
    const MOST_W: f64 = 1e9;
    let is_fit = |&(stamp, watts): &(Stamp, f64)| watts <= MOST_W && stamp.us.abs() < MOST;
    let both = stamp.zip(watts);
    both.filter(|one| one.1 < 0.0 || is_fit(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watts(text: &str) -> Vec<f64> {
        let meter = Meter::parse(text.as_bytes()).unwrap();
        meter.samples.iter().map(|sample| sample.watts).collect()
    }

    #[test]
    fn columns_are_found_by_name_in_any_order_and_unit() {
        for text in [
            "time_s,power_w\n0,130\n1,131.5\n",
            "Watts;Time\n130;0\n131.5;1\n",
            "sample\tElapsed (ms)\tVolts\tPower (mW)\n1\t0\t230\t130000\n2\t1000\t230\t131500\n",
            "Date,Time,Volts,Watts,Watt Hours\n2026-11-21,18:00:00,230,130,1\n2026-11-21,18:00:01,230,131.5,1\n",
            "\"timestamp\",\"W\"\r\n\"2026-11-21T18:00:00Z\",\"130 W\"\r\n\"2026-11-21T18:00:01Z\",\"131.5 W\"\r\n",
            "\u{feff}0;130\n1;131.5\n",
            "time;power\n0;0,13 KW\n1;131,5 WATTS\n",
            "0;130\n1;131,5\n",
            "0;130,0\n1;131,5\n",
            "time,screen,watts\n0,19\" wide,130\n1,19\" wide,131.5\n",
            "\"time\",\"room; rack\",\"W\"\n0,2,130\n1,2,131.5\n",
            "time_s,power_kw\n0,0.13\n1,131.5W\n",
            "time_s,power_uw\n0,130000000\n1,131500000\n",
            "\"time\",\"room, rack\",\"W\"\n0,\"2, 7\",130\n1,\"2, 8\",131.5\n",
        ] {
            let meter = Meter::parse(text.as_bytes()).unwrap();
            assert_eq!(watts(text), [130.0, 131.5], "{text}");
            assert_eq!(meter.interval_us, SECOND, "{text}");
            assert_eq!(meter.left_out, LeftOut::default(), "{text}");
        }
    }

    #[test]
    fn watts_up_logger_files_are_read() {
        let own = "#h,-,18,W,V,A,WH;\n#d,-,18,1304,2301,571,0,_,_,_;\n#d,-,18,52,2301,40,0;\n";
        let meter = Meter::parse(own.as_bytes()).unwrap();
        assert_eq!(
            (meter.format, meter.clock),
            (Format::WattsUp, Clock::Elapsed)
        );
        assert_eq!(watts(own), [130.4, 5.2]);
        assert_eq!(meter.interval_us, SECOND);

        let stamped =
            "2026-11-21T18:00:00Z #d,-,18,1304,2301;\n2026-11-21T18:00:02Z #d,-,18,52,2301;\n";
        let meter = Meter::parse(stamped.as_bytes()).unwrap();
        assert_eq!((meter.clock, meter.interval_us), (Clock::Utc, 2 * SECOND));

        let slow = "#L,W,3,E,,10;\n#d,-,18,1304;\n#d,-,18,_;\n#d,-,18,52;\n";
        let meter = Meter::parse(slow.as_bytes()).unwrap();
        assert_eq!(meter.samples[1].at_us, 20 * SECOND);
        assert_eq!(meter.left_out.unreadable, 1);

        let python =
            "2026-11-21 18:00:00.5 1 130.4 230.1 0.571\n2026-11-21 18:00:01.5 2 5.2 230.1 0.04\n";
        assert_eq!(watts(python), [130.4, 5.2]);
    }

    /// Samples (seconds, watts), their interval in seconds, and skipped lines: unreadable,
    /// negative, out of order.
    type Read = (Vec<(f64, f64)>, Clock, f64, [usize; 3]);

    fn all_of(text: &str) -> Read {
        let meter = Meter::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let samples = meter.samples.iter();
        let LeftOut {
            unreadable,
            negative,
            out_of_order,
        } = meter.left_out;
        (
            samples
                .map(|one| (one.at_us as f64 / 1e6, one.watts))
                .collect(),
            meter.clock,
            meter.interval_us as f64 / 1e6,
            [unreadable, negative, out_of_order],
        )
    }

    #[test]
    fn lines_without_a_sample_are_counted() {
        // No number, no second cell, infinite watts; twice below zero; not after the previous one,
        // twice.
        let text = "time,watts\n0,1\n1,-5\n2,x\n3,2\n3,2\n2,2\n4,inf\n5\n5,-1\n6,0\n";
        let samples = vec![(0.0, 1.0), (3.0, 2.0), (6.0, 0.0)];
        assert_eq!(all_of(text), (samples, Clock::Elapsed, 3.0, [3, 2, 2]));
        // Times of another kind than the first one's; comments and blank lines are not part of the
        // table.
        let text =
            "time,watts\n1,1\n\n# 2,2\n18:00:00,3\n2026-11-21 18:00:00,4\n % 5,5\n<6>,6\n2,7\n";
        let samples = vec![(1.0, 1.0), (2.0, 7.0)];
        assert_eq!(all_of(text), (samples, Clock::Elapsed, 1.0, [2, 0, 0]));
        // A hundred years of 366 days from 1970 are too many, on both sides of it.
        let text = "time,watts\n-3162240000,1\n-3162239999,2\n0,3\n5,4\n";
        let samples = vec![(-3_162_239_999.0, 2.0), (0.0, 3.0), (5.0, 4.0)];
        let (found, _, _, left_out) = all_of(text);
        assert_eq!((found, left_out), (samples, [1, 0, 0]));
        let text = "time,watts\n3162239998,1\n3162239999,2\n3162240000,3\n";
        let samples = vec![(3_162_239_998.0, 1.0), (3_162_239_999.0, 2.0)];
        assert_eq!(all_of(text), (samples, Clock::Utc, 1.0, [1, 0, 0]));
    }

    #[test]
    fn the_interval_is_the_median_and_of_two_the_shorter() {
        for (times, interval) in [
            (&[0.0, 2.0][..], 2.0),
            // Of 1 and 2, of 5, 2 and 1, of 4, 1, 2 and 8 s.
            (&[0.0, 1.0, 3.0], 1.0),
            (&[0.0, 5.0, 7.0, 8.0], 2.0),
            (&[0.0, 4.0, 5.0, 7.0, 15.0], 2.0),
            // An hour without samples is not an interval.
            (&[0.0, 1.0, 3601.0], 1.0),
        ] {
            let rows: String = times.iter().map(|time| format!("{time},1\n")).collect();
            assert_eq!(all_of(&rows).2, interval, "{times:?}");
        }
    }

    #[test]
    fn a_time_of_day_that_steps_back_more_than_half_a_day_passes_midnight() {
        let hours = |hours: f64| hours * 3600.0;
        // 12 hours back is out of order; a second more is a midnight.
        let text = "23:00:00,1\n11:00:00,2\n10:59:59,3\n23:30:00,4\n00:30:00,5\n";
        let samples = vec![
            (hours(23.0), 1.0),
            (hours(24.0 + 11.0) - 1.0, 3.0),
            (hours(24.0 + 23.5), 4.0),
            (hours(48.0 + 0.5), 5.0),
        ];
        let (found, clock, _, left_out) = all_of(text);
        assert_eq!((found, clock), (samples, Clock::TimeOfDay));
        assert_eq!(left_out, [0, 0, 1]);
        // Other kinds of time have no midnight.
        let text = "100000,1\n1,2\n100001,3\n";
        let samples = vec![(100_000.0, 1.0), (100_001.0, 3.0)];
        assert_eq!(all_of(text), (samples, Clock::Elapsed, 1.0, [0, 0, 1]));
    }

    /// The words of its name, in lower case, identify a column.
    #[test]
    fn columns_are_recognized_by_name() {
        let long = "n".repeat(40);
        for (name, is) in [
            ("time", true),
            ("timestamp", true),
            ("date", true),
            ("stamp", true),
            ("wall clock", true),
            ("elapsed", true),
            ("seconds", true),
            ("t", true),
            ("s", true),
            ("sec", true),
            ("secs", true),
            ("ms", true),
            ("t_s", true),
            ("t_ms", true),
            ("volts", false),
            ("ts", false),
            ("temperature", false),
        ] {
            assert_eq!(is_time(name), is, "{name}");
        }
        // The lowest rank at which each is a column of power.
        for (name, least) in [
            ("w", Some(0)),
            ("watts", Some(0)),
            ("watt", Some(0)),
            ("power", Some(0)),
            ("power_w", Some(0)),
            ("p", Some(0)),
            ("psu power", Some(1)),
            ("watts in", Some(1)),
            ("out_w", Some(2)),
            ("out_mw", Some(2)),
            ("out (kw)", Some(2)),
            ("p [w]", Some(2)),
            ("in w", Some(2)),
            ("power_uw", Some(1)),
            ("in (µw)", Some(2)),
            ("out_uw", Some(2)),
            ("watt hours", None),
            ("power factor", None),
            ("max power", None),
            ("wh", None),
            ("volts", None),
            ("window", None),
        ] {
            let found = (0..=2).find(|&rank| is_power(name, rank));
            assert_eq!(found, least, "{name}");
        }
        for (name, unit) in [
            ("time", 1e6),
            ("time_s", 1e6),
            ("elapsed (s)", 1e6),
            ("ms", 1e3),
            ("time_ms", 1e3),
            ("time [ms]", 1e3),
            ("milliseconds", 1e3),
            ("us", 1.0),
            ("time (us)", 1.0),
            ("time µs", 1.0),
            ("microseconds", 1.0),
            ("ns", 1e-3),
            ("time_ns", 1e-3),
            ("nanoseconds", 1e-3),
        ] {
            assert_eq!(unit_us(name), unit, "{name}");
        }
        for (name, watts) in [
            ("power_w", 1.0),
            ("watts", 1.0),
            ("power (mw)", 1e-3),
            ("milliwatts", 1e-3),
            ("power_uw", 1e-6),
            ("power (µw)", 1e-6),
            ("microwatts", 1e-6),
            ("microwave_power_w", 1.0),
            ("out_kw", 1e3),
            ("kilowatts", 1e3),
        ] {
            assert_eq!(scale(name), watts, "{name}");
        }
        assert!(is_name("volts") && is_name("") && is_name(&long));
        assert!(!is_name(&(long + "n")) && !is_name("4711") && !is_name("-1.5e3"));
    }

    #[test]
    fn the_most_certain_power_column_is_used() {
        let table = |separator, time: &[usize], unit_us, watts, scale| {
            let time = time.to_vec();
            Some(Columns {
                separator,
                time,
                unit_us,
                watts,
                scale,
            })
        };
        for (head, expected) in [
            ("time,out_w,watts", table(Some(','), &[0], 1e6, 2, 1.0)),
            ("time,out_w,PSU power", table(Some(','), &[0], 1e6, 2, 1.0)),
            ("V;out_mW;t_ms", table(Some(';'), &[2], 1e3, 1, 1e-3)),
            ("Time\tDate\tkW", table(Some('\t'), &[1, 0], 1e6, 2, 1e3)),
            ("W date time", table(None, &[1, 2], 1e6, 0, 1.0)),
            ("\"date\" , \"p\"", table(Some(','), &[0], 1e6, 1, 1.0)),
            // No column names: words without a separator, numbers, and long words.
            ("Power meter of the office", None),
            ("site,4711", None),
            (&format!("time,{}", "n".repeat(41)), None),
        ] {
            assert_eq!(named(head), Ok(expected), "{head}");
        }
        let forty = format!("time,{},3rd", "n".repeat(40));
        let said = ["V;W", &forty].map(|head| (head, named(head).unwrap_err()));
        reveille_snapshot::snapshot!("power", said);
    }

    #[test]
    fn a_table_without_names_has_times_and_then_watts() {
        let start = 1_795_284_000.0;
        let expected = (
            vec![(start, 130.0), (start + 1.0, 131.0)],
            Clock::Local,
            1.0,
            [0; 3],
        );
        // Only with spaces and six cells is there a running number before the watts.
        for (mark, rest) in [
            (" ", " 230"),
            (" ", " 230 0.57"),
            (" ", " 230 0.57 9 8"),
            (",", ",230,0.57,9"),
            (";", ""),
        ] {
            let row =
                |time: &str, watts: u8| format!("2026-11-21{mark}{time}{mark}{watts}{rest}\n");
            let text = row("18:00:00", 130) + &row("18:00:01", 131);
            assert_eq!(all_of(&text), expected, "{text}");
        }
        let numbered = "2026-11-21 18:00:00 1 130 230 0.57\n2026-11-21 18:00:01 2 131 230 0.57\n";
        assert_eq!(all_of(numbered), expected);
        // Lines above it that are not rows: a number in place of the time, or the watts, is not
        // enough.
        for above in [
            "serial,4711",
            "12,volts",
            "2026-11-21 18:00:00 started",
            "site,room,230",
            "\u{2003}",
            "started",
        ] {
            let text = format!("{above}\n0,130\n1,131\n");
            let (samples, _, _, left_out) = all_of(&text);
            assert_eq!(samples, [(0.0, 130.0), (1.0, 131.0)], "{above}");
            assert_eq!(left_out, [0; 3], "{above}");
        }
    }

    #[test]
    fn a_watts_up_states_its_column_of_watts_and_its_interval() {
        // Volts first: 230.1 V, 130.4 W. From the third record on one every 3 s.
        let text = "#h,-,18,V,W,A;\n#d,-,18,2301,1304,5;\n#d,-,18,2301,1305;\n#L,W,3,E,,3;\n\
                    #d,-,18,2301,1306;\n#d,-,18,2301,-1;\n#d,-,18,2301,1307;\n";
        let samples = vec![(0.0, 130.4), (1.0, 130.5), (2.0, 130.6), (8.0, 130.7)];
        assert_eq!(all_of(text), (samples, Clock::Elapsed, 1.0, [0, 1, 0]));
        for (interval, seconds) in [
            ("0", None),
            ("1", Some(1)),
            ("86400", Some(86_400)),
            ("86401", None),
            ("x", None),
        ] {
            let line = format!("#L,W,3,E,,{interval};");
            assert_eq!(logging_interval(&line), seconds, "{line}");
        }
        // A logging program's timestamps, and the text around them.
        let text = "[2026-11-21T18:00:00Z] #d,-,18,1304;\n2026-11-21T18:00:01Z, #d,-,18,1305;\n\
                    2026-11-21T18:00:02Z > #d,-,18,1306;\nnoon #d,-,18,1307;\n";
        let start = 1_795_284_000.0;
        let samples = vec![(start, 130.4), (start + 1.0, 130.5), (start + 2.0, 130.6)];
        assert_eq!(all_of(text), (samples, Clock::Utc, 1.0, [1, 0, 0]));
    }

    #[test]
    fn another_file_is_refused_in_one_line() {
        let said = [
            "",
            "time,temperature\n0,20\n1,21\n",
            "volts,watts\n230,20\n230,21\n",
            "[    0.0] Linux version 6.1\n",
            "time,watts\n1,5\n",
            "time,watts\nx,5\ny,6\n",
        ]
        .map(|text| {
            (
                format!("{text:?}"),
                Meter::parse(text.as_bytes()).unwrap_err(),
            )
        });
        assert!(
            said.iter().all(|(_, error)| error.lines().count() == 1),
            "{said:?}"
        );
        reveille_snapshot::snapshot!("power", said);
    }

    #[test]
    fn a_file_is_read_as_its_bytes_and_named_if_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.csv");
        let missing = Meter::open(&path).unwrap_err();
        assert_eq!(missing.exit_code(), Error::USAGE, "{missing}");
        assert!(missing.to_string().contains("power.csv: No such file"));
        let why = || match Meter::open(&path).unwrap_err() {
            Error::Unreadable { path: named, why } => {
                assert_eq!(named, path);
                why
            }
            other => panic!("{other}"),
        };
        std::fs::write(&path, " \n").unwrap();
        assert!(why().starts_with("is empty"), "{}", why());
        let text = b"time_s,power_w\n0,130\n1,5\n";
        std::fs::write(&path, text).unwrap();
        let meter = Meter::open(&path).unwrap();
        assert_eq!(meter.samples.len(), 2);
        assert_eq!(Ok(meter), Meter::parse(text));
    }
}

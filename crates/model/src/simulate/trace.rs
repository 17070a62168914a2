//! Recorded requests: a CSV of when they came and how long they took to serve.
//!
//! A line is a request: the arrival and, if known, the service time, both in seconds, separated by a
//! comma, a semicolon or a tab. A first line without numbers is a header; columns that it names
//! `arrival…` and `service…` are taken wherever they stand. Empty lines and those that begin with `#`
//! are skipped. Times may begin anywhere (seconds since 1970, too): the first is taken off. Lines that
//! are out of order are sorted, and counted.

use crate::{Error, Result};

/// Requests in the order of their arrival.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Seconds after the first, ascending.
    arrivals: Vec<f64>,
    /// Seconds at full speed; empty where the trace has none.
    services: Vec<f64>,
    /// Lines whose arrival is before that of the line above.
    out_of_order: usize,
}

impl Trace {
    /// Reads a CSV as described above.
    ///
    /// # Errors
    /// [`Error::Usage`] with the line, for what is not a number, negative service times, lines with a
    /// service time beside lines without, and a trace without requests or without a rate.
    pub fn read(text: &[u8]) -> Result<Self> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut columns = Columns::default();
        let mut requests: Vec<(f64, Option<f64>)> = Vec::new();
        let mut is_first = true;
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if std::mem::take(&mut is_first)
                && let Some(named) = Columns::named(line)?
            {
                columns = named;
                continue;
            }
            let request = columns.request(line, number)?;
            let first = requests.first().unwrap_or(&request);
            if first.1.is_some() != request.1.is_some() {
                let why = "some lines have a service time and others have none; give all or none";
                return Err(at(number, line, why));
            }
            requests.push(request);
        }
        let trace = Self::of(requests);
        trace.check().map(|()| trace)
    }

    fn of(mut requests: Vec<(f64, Option<f64>)>) -> Self {
        let out_of_order = requests.windows(2).filter(|pair| pair[1].0 < pair[0].0);
        let out_of_order = out_of_order.count();
        requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = requests.first().map_or(0.0, |(arrival, _)| *arrival);
        let services = requests.iter().filter_map(|(_, service)| *service);
        Self {
            services: services.collect(),
            arrivals: requests.iter().map(|one| one.0 - first).collect(),
            out_of_order,
        }
    }

    /// Seconds after the first, ascending.
    pub fn arrivals(&self) -> &[f64] {
        &self.arrivals
    }

    /// Seconds at full speed, one for each request; `None` where the trace has none.
    pub fn services(&self) -> Option<&[f64]> {
        (!self.services.is_empty()).then_some(&self.services)
    }

    /// How many lines were not where their time belongs.
    pub fn out_of_order(&self) -> usize {
        self.out_of_order
    }

    /// Requests a second: as [`super::Arrivals::rate`] has it.
    pub fn rate(&self) -> f64 {
        let span = self.arrivals.last().copied().unwrap_or(0.0);
        self.arrivals.len().saturating_sub(1) as f64 / span
    }

    pub(super) fn check(&self) -> Result<()> {
        let last = self.arrivals.last();
        ensure!(
            last.is_some(),
            "trace: there is no request in it; a line is ARRIVAL,SERVICE in seconds"
        );
        ensure!(
            last > Some(&0.0),
            "trace: all requests come at the same instant, so there is no rate; give two instants at least"
        );
        ensure!(
            self.services.is_empty() || self.services.iter().any(|service| *service != 0.0),
            "trace: all service times are 0; give some above, in seconds"
        );
        Ok(())
    }
}

/// Which columns have what.
#[derive(Debug, Clone, Copy)]
struct Columns {
    arrival: usize,
    service: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            arrival: 0,
            service: 1,
        }
    }
}

impl Columns {
    /// The columns that a header names; `None` if a field begins as a number does.
    fn named(line: &[u8]) -> Result<Option<Self>> {
        let name = |field| {
            String::from_utf8_lossy(field)
                .trim_matches('"')
                .to_lowercase()
        };
        let names: Vec<String> = fields(line).map(name).collect();
        let begins_as_number = |name: &String| {
            name.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        };
        if names.iter().any(begins_as_number) {
            return Ok(None);
        }
        let other_unit =
            |name: &&String| ["_ms", "_us", "_ns"].iter().any(|one| name.ends_with(one));
        if let Some(name) = names.iter().find(other_unit) {
            let why = "is not in seconds; divide it, and name it without a unit";
            return Err(Error::Usage(format!(
                "trace, line 1: the column {name} {why}"
            )));
        }
        let place = |word| names.iter().position(|name| name.starts_with(word));
        Ok(Some(match (place("arrival"), place("service")) {
            (Some(arrival), Some(service)) => Self { arrival, service },
            // Not a column that any line has.
            (Some(arrival), None) => Self {
                arrival,
                service: usize::MAX,
            },
            _ => Self::default(),
        }))
    }

    fn request(self, line: &[u8], number: usize) -> Result<(f64, Option<f64>)> {
        let field = |place| fields(line).nth(place).filter(|field| !field.is_empty());
        let arrival = field(self.arrival).ok_or_else(|| at(number, line, "there is no arrival"))?;
        let arrival = seconds(arrival)
            .ok_or_else(|| at(number, line, "the arrival is not a number of seconds"))?;
        let service = field(self.service).map(|field| {
            let service = seconds(field).filter(|service| *service >= 0.0);
            let why = "the service time is not a number of seconds, 0 or above";
            service.ok_or_else(|| at(number, line, why))
        });
        Ok((arrival, service.transpose()?))
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b',' | b';' | b'\t'))
        .map(<[u8]>::trim_ascii)
}

/// Not beyond 30 000 years, which no clock shows, and sums of them are still numbers.
fn seconds(field: &[u8]) -> Option<f64> {
    const MOST: f64 = 1e12;
    // Where both are sorted -0 would come before 0, which is the same instant.
    let value = str::from_utf8(field).ok()?.parse::<f64>().ok()? + 0.0;
    (value.abs() <= MOST).then_some(value)
}

fn at(number: usize, line: &[u8], what: &str) -> Error {
    const SHOWN: usize = 40;
    let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
    let more = if line.len() > SHOWN { "…" } else { "" };
    Error::Usage(format!(
        "trace, line {number}: {what}: {:?}; a line is ARRIVAL,SERVICE in seconds",
        shown + more
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_trace_is_read() {
        let trace = Trace::read(b"1000.5,0.25\n1001,0.5\n1003.5,0\n").unwrap();
        assert_eq!(trace.arrivals(), [0.0, 0.5, 3.0]);
        assert_eq!(trace.services(), Some([0.25, 0.5, 0.0].as_slice()));
        assert_eq!(trace.rate(), 2.0 / 3.0);
    }

    #[test]
    fn headers_comments_other_separators_and_other_columns_are_accepted() {
        let plain = Trace::read(b"0,1\n2,3").unwrap();
        for text in [
            "arrival,service\n0,1\n2,3\n",
            "\u{feff}Service_s;Host;Arrival_s\r\n1;a;0\r\n3;b;2\r\n",
            "# by tcpdump\n\ntime\tlength\n0\t1\n\n2\t3\n",
        ] {
            assert_eq!(Trace::read(text.as_bytes()).unwrap(), plain, "{text}");
        }
    }

    #[test]
    fn a_line_that_starts_with_a_number_is_not_a_header() {
        for text in ["0 1\n1,2\n", "1.5x\n2\n3\n"] {
            let why = Trace::read(text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains("line 1"), "{why}");
        }
    }

    #[test]
    fn a_trace_without_work_is_refused() {
        let why = Trace::read(b"0,0\n1,0\n").unwrap_err().to_string();
        assert!(why.contains("service times are 0"), "{why}");
    }

    #[test]
    fn without_service_times_they_are_unknown() {
        assert_eq!(Trace::read(b"0\n1\n").unwrap().services(), None);
        assert_eq!(
            Trace::read(b"arrival,size\n0,9\n1,9\n").unwrap().services(),
            None
        );
    }

    #[test]
    fn lines_out_of_order_are_sorted_and_counted() {
        let trace = Trace::read(b"3,0.3\n1,0.1\n2,0.2\n").unwrap();
        assert_eq!(trace.arrivals(), [0.0, 1.0, 2.0]);
        assert_eq!(trace.services(), Some([0.1, 0.2, 0.3].as_slice()));
        assert_eq!(trace.out_of_order(), 1);
    }

    #[test]
    fn an_unreadable_line_is_reported_by_number() {
        let texts = [
            &b"0,1\nx,2\n"[..],
            b"0,1\n1,-2\n",
            b"0,1\n1,inf\n",
            b"0,1\nnan,1\n",
            b"0,1\n1e300,1\n",
            b"0,1\n\n1\n",
            b"0,1\n,1\n",
            b"0,1\n\xff\xfe,1\n",
            b"arrival_ms,service_ms\n0,1\n",
            b"",
            b"a,b\n",
            b"5,1\n5,1\n",
            // Fields that start like numbers: a line of requests.
            b"+x,y\n1,1\n",
            b"-x,y\n1,1\n",
            b".x,y\n1,1\n",
            b"x,1\n1,1\n",
            b"arrival,service_us\n0,1\n1,1\n",
            b"arrival,service_ns\n0,1\n1,1\n",
            // Times are at most 30,000 years away.
            b"-1.1e12\n0\n",
            b"1.1e12\n0\n",
            // Some lines have a service time.
            b"0,1\n1\n",
            b"0\n1,1\n",
        ];
        let said = texts.map(|text| {
            let error = Trace::read(text).unwrap_err();
            let length = error.to_string().len();
            assert!(length < 250, "{error}");
            (text.escape_ascii(), format!("{error:?}"))
        });
        reveille_snapshot::snapshot!("errors", said);
    }

    #[test]
    fn simultaneous_requests_keep_their_order() {
        let trace = Trace::read(b"2,1\n2,2\n3,3\n3,4\n2,5\n").unwrap();
        assert_eq!(trace.arrivals(), [0.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(trace.services().unwrap(), [1.0, 2.0, 5.0, 3.0, 4.0]);
        assert_eq!(trace.out_of_order(), 1);
        assert_eq!(trace.rate(), 4.0);
        let trace = Trace::read(b"0,1\n-0,2\n1,3\n").unwrap();
        assert_eq!(trace.services().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(trace.out_of_order(), 0);
        let trace = Trace::read(b"2,0\n2,2\n4,3\n").unwrap();
        assert_eq!((trace.out_of_order(), trace.rate()), (0, 1.0));
        assert_eq!(Trace::default().out_of_order(), 0);
    }

    #[test]
    fn two_lines_out_of_order_count_as_two() {
        let trace = Trace::read(b"3\n2\n5\n1\n").unwrap();
        assert_eq!(trace.out_of_order(), 2);
        assert_eq!(trace.arrivals(), [0.0, 1.0, 2.0, 4.0]);
        assert_eq!(trace.services(), None);
    }

    #[test]
    fn columns_are_found_by_name_or_are_the_first_two() {
        for (text, services) in [
            (
                "\"Arrival time\",host,\"Service time\"\n0,9,1\n2,9,3\n",
                Some([1.0, 3.0]),
            ),
            // A header that names neither: the first two.
            ("host,service\n0,1\n2,3\n", Some([1.0, 3.0])),
            ("time,duration\n0,1\n2,3\n", Some([1.0, 3.0])),
            ("size,arrival\n7,0\n8,2\n", None),
            ("size,arrival_s,service_s\n7,0,1\n8,2,3\n", Some([1.0, 3.0])),
        ] {
            let trace = Trace::read(text.as_bytes()).unwrap();
            assert_eq!(trace.arrivals(), [0.0, 2.0], "{text}");
            let services = services.as_ref().map(|services| services.as_slice());
            assert_eq!(trace.services(), services, "{text}");
        }
    }

    #[test]
    fn times_may_be_30_000_years_away() {
        let trace = Trace::read(b"-1e12\n1e12\n").unwrap();
        assert_eq!(trace.arrivals(), [0.0, 2e12]);
    }

    #[test]
    fn a_long_line_is_shown_by_its_first_40_bytes() {
        for (bytes, shown) in [
            (39, "x".repeat(39)),
            (40, "x".repeat(40)),
            (41, "x".repeat(40) + "…"),
            (400, "x".repeat(40) + "…"),
        ] {
            let why = Trace::read(format!("0\n{}\n", "x".repeat(bytes)).as_bytes());
            let shown = format!("\"{shown}\"");
            let is_shown = |why: &Error| why.to_string().contains(&shown);
            assert!(why.as_ref().is_err_and(is_shown), "{bytes}: {why:?}");
        }
    }

    #[test]
    fn any_work_is_enough() {
        let trace = Trace::read(b"0,0\n1,0\n2,0.5\n").unwrap();
        assert_eq!(trace.services().unwrap(), [0.0, 0.0, 0.5]);
    }
}

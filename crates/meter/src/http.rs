//! Sockets that measure: Shelly and Tasmota, by plain HTTP in the local network.
//!
//! Shelly's second generation answers at `/rpc/Shelly.GetStatus` (shelly-api-docs.shelly.cloud/gen2), the first at
//! `/status`, and counts watt-minutes; Tasmota at `/cm?cmnd=Status 8` (tasmota.github.io/docs/Commands).

use std::time::Duration;

use reveille_kernel::{Error, Result};
use serde_json::Value;
use ureq::Agent;

use crate::reading::{About, Continued, Counts, Meter, Scope, quoted};

/// A socket in the same house answers within some 10 ms.
const TIMEOUT: Duration = Duration::from_secs(2);
/// W or J: no meter has more.
const MOST: f64 = 1e15;

/// The longest status known has some 4 KiB.
const ANSWER_MAX: u64 = 64 << 10;

/// Counters are kept in whole mJ.
const MILLI: f64 = 1e-3;

/// J in a Wh.
const WH_J: f64 = 3600.0;

/// What answers, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Either generation.
    Shelly,
    /// Any version with `ENERGY`.
    Tasmota,
}

/// A socket.
pub struct Socket {
    agent: Agent,
    url: String,
    parse: fn(&Value, Counts) -> Option<f64>,
    continued: Continued,
    about: About,
}

impl Socket {
    /// The socket at `host`, if it answers as one of that kind.
    ///
    /// # Errors
    /// As [`Meter::read`].
    pub fn find(name: &str, kind: Kind, host: &str, counts: Counts) -> Result<Self> {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .proxy(None);
        let mut socket = Self {
            agent: config.build().new_agent(),
            url: String::new(),
            parse: tasmota,
            continued: Continued::default(),
            about: About {
                name: name.to_owned(),
                scope: Scope::Wall,
                counts,
                resolution: None,
                range_j: None,
            },
        };
        let (path, parse): (_, fn(&Value, Counts) -> Option<f64>) = match kind {
            Kind::Tasmota => ("cm?cmnd=Status%208", tasmota),
            Kind::Shelly => ("rpc/Shelly.GetStatus", shelly),
        };
        (socket.url, socket.parse) = (format!("http://{host}/{path}"), parse);
        let (status, _) = socket.get()?;
        if kind == Kind::Shelly && status == 404 {
            (socket.url, socket.parse) = (format!("http://{host}/status"), first_shelly);
        }
        socket.about.resolution = match (counts, kind) {
            // 0.001 Wh; the first generation's whole watt-minutes.
            (Counts::Energy, _) if socket.url.ends_with("/status") => Some(60.0),
            (Counts::Energy, Kind::Shelly) => Some(3.6),
            // 0.001 kWh.
            (Counts::Energy, Kind::Tasmota) => Some(3600.0),
            (Counts::Power, Kind::Shelly) => Some(0.1),
            (Counts::Power, Kind::Tasmota) => Some(1.0),
        };
        socket.read()?;
        Ok(socket)
    }

    fn get(&self) -> Result<(u16, String)> {
        let wrong = |error: ureq::Error| {
            let error = error.to_string().replace(char::is_control, " ");
            Error::Failed(format!("{}: {}: {error}", self.about.name, self.url))
        };
        let mut answer = self.agent.get(&self.url).call().map_err(wrong)?;
        let status = answer.status().as_u16();
        let body = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_MAX)
            .lossy_utf8(true);
        Ok((status, body.read_to_string().map_err(wrong)?))
    }
}

impl Meter for Socket {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let name = &self.about.name;
        let (status, text) = self.get()?;
        if status != 200 {
            let url = &self.url;
            return Err(Error::Failed(format!(
                "{name}: {url} answers with status {status}"
            )));
        }
        let json: Value = serde_json::from_str(&text).map_err(|_| {
            Error::Failed(format!(
                "{name}: the answer is no reading: {}",
                quoted(&text)
            ))
        })?;
        let value = (self.parse)(&json, self.about.counts).ok_or_else(|| {
            let what = match self.about.counts {
                Counts::Energy => "energy counter",
                Counts::Power => "power",
            };
            Error::Cannot(format!(
                "{name}: it reports no {what}; is this a socket that measures?"
            ))
        })?;
        if !(0.0..=MOST).contains(&value) {
            return Err(Error::Failed(format!(
                "{name}: it reports {value:e}, which is below zero or too much"
            )));
        }
        match self.about.counts {
            Counts::Power => Ok(value),
            Counts::Energy => {
                let grown = |before, after: u64| after.checked_sub(before);
                let mj = (value * WH_J / MILLI).round() as u64;
                self.continued.add_j(name, mj, MILLI, grown)
            }
        }
    }
}

/// W or Wh of the second generation: of the first part that measures, `switch:0`, `pm1:0`, `em:0`.
fn shelly(status: &Value, counts: Counts) -> Option<f64> {
    let parts = status.as_object()?.values();
    let mut found = parts.filter_map(|part| match counts {
        Counts::Power => {
            let one = part.get("apower").or_else(|| part.get("total_act_power"));
            one?.as_f64()
        }
        Counts::Energy => {
            let one = part.pointer("/aenergy/total");
            one.or_else(|| part.get("total_act"))?.as_f64()
        }
    });
    found.next()
}

/// W or Wh of the first generation. A relay that does not measure has 0 W, and no count.
fn first_shelly(status: &Value, counts: Counts) -> Option<f64> {
    let meters = status.get("meters").or_else(|| status.get("emeters"));
    let is_valid = |one: &&Value| {
        one.get("is_valid").and_then(Value::as_bool) != Some(false)
            && one.get("total").is_some_and(Value::is_number)
    };
    let meter = meters?.as_array()?.iter().find(is_valid)?;
    match counts {
        Counts::Power => meter.get("power")?.as_f64(),
        // The energy meters' `total` (EM, 3EM) is in Wh, the relays' in watt-minutes.
        Counts::Energy if status.get("meters").is_none() => meter.get("total")?.as_f64(),
        Counts::Energy => Some(meter.get("total")?.as_f64()? / 60.0),
    }
}

/// W or Wh.
fn tasmota(status: &Value, counts: Counts) -> Option<f64> {
    let energy = status.pointer("/StatusSNS/ENERGY")?;
    let first = |value: &Value| value.as_f64().or_else(|| value.get(0)?.as_f64());
    match counts {
        Counts::Power => first(energy.get("Power")?),
        Counts::Energy => Some(first(energy.get("Total")?)? * 1000.0),
    }
}

#[cfg(test)]
pub mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Answers each request by `answer` of its path, on loopback, until the test's process ends.
    pub fn server(mut answer: impl FnMut(&str) -> (u16, String) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                if reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
                    let (status, body) = answer(&path);
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes());
                }
            }
        });
        address
    }

    fn answers(kind: Kind, counts: Counts, path: &'static str, bodies: &[&str]) -> Vec<String> {
        let mut left: Vec<String> = bodies.iter().map(|&body| body.to_owned()).collect();
        left.reverse();
        let address = server(move |asked| match asked == path {
            true if left.len() > 1 => (200, left.pop().unwrap_or_default()),
            true => (200, left[0].clone()),
            false => (404, "no such page".to_owned()),
        });
        let found = Socket::find("socket", kind, &address.to_string(), counts);
        match found {
            Err(why) => vec![why.to_string()],
            Ok(mut socket) => (0..2)
                .map(|_| match socket.read() {
                    Ok(value) => format!("{value:.3}"),
                    Err(why) => why.to_string(),
                })
                .collect(),
        }
    }

    const GEN2: &str = "/rpc/Shelly.GetStatus";

    #[test]
    fn both_generations_of_shelly_and_tasmota_are_read_in_their_units() {
        let gen2 = r#"{"sys":{},"switch:0":{"apower":36.5,"aenergy":{"total":2.5}}}"#;
        let later = r#"{"switch:0":{"apower":37.5,"aenergy":{"total":2.501}}}"#;
        assert_eq!(
            answers(
                Kind::Shelly,
                Counts::Power,
                GEN2,
                &[gen2, gen2, gen2, later]
            ),
            ["36.500", "37.500"]
        );
        assert_eq!(
            answers(
                Kind::Shelly,
                Counts::Energy,
                GEN2,
                &[gen2, gen2, later, later]
            ),
            ["3.600", "3.600"],
            "Wh"
        );
        let gen1 = r#"{"meters":[{"power":20.5,"is_valid":true,"total":60}]}"#;
        let later = r#"{"meters":[{"power":20.5,"is_valid":true,"total":61}]}"#;
        assert_eq!(
            answers(
                Kind::Shelly,
                Counts::Energy,
                "/status",
                &[gen1, later, later]
            ),
            ["60.000", "60.000"],
            "watt-minutes"
        );
        assert_eq!(
            answers(Kind::Shelly, Counts::Power, "/status", &[gen1]),
            ["20.500"; 2]
        );
        let path = "/cm?cmnd=Status%208";
        let tasmota = r#"{"StatusSNS":{"Time":"x","ENERGY":{"Total":1.001,"Power":42}}}"#;
        assert_eq!(
            answers(Kind::Tasmota, Counts::Power, path, &[tasmota]),
            ["42.000"; 2]
        );
    }

    #[test]
    fn what_is_no_reading_gets_one_clear_line() {
        let said = |kind, path, bodies: &[&str]| {
            let said = answers(kind, Counts::Power, path, bodies).join(" / ");
            assert!(!said.contains('\n'), "{said}");
            said
        };
        let unmetered = r#"{"relays":[{"ison":true}],"meters":[{"power":0.0,"is_valid":true}]}"#;
        assert!(said(Kind::Shelly, "/status", &[unmetered]).contains("reports no power"));
        let words = said(Kind::Shelly, GEN2, &["<html>\nhello", "<html>\nhello"]);
        assert!(
            words.contains("the answer is no reading: \"<html> hello\""),
            "{words}"
        );
        assert!(said(Kind::Tasmota, "/x", &["{}"]).contains("answers with status 404"));
        let endless = said(Kind::Shelly, GEN2, &[&"x".repeat(100_000)]);
        assert!(endless.contains("larger than request limit"), "{endless}");
        let back =
            [2.5, 2.5, 2.4].map(|wh| format!(r#"{{"pm1:0":{{"aenergy":{{"total":{wh}}}}}}}"#));
        let back = answers(
            Kind::Shelly,
            Counts::Energy,
            GEN2,
            &back.each_ref().map(String::as_str),
        );
        assert!(
            back[0].contains("the counter jumped from 9000.000 J to 8640.000 J"),
            "{back:?}"
        );
    }

    #[test]
    fn a_socket_that_does_not_answer_is_given_up() {
        // Accepts nobody: its queue takes the connection, and no answer comes.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = silent.local_addr().unwrap().to_string();
        let why = Socket::find("socket", Kind::Tasmota, &host, Counts::Power);
        assert!(why.err().unwrap().to_string().contains("timeout"));
        drop(silent);
        let why = Socket::find("socket", Kind::Tasmota, &host, Counts::Power);
        assert!(
            why.err()
                .unwrap()
                .to_string()
                .starts_with("socket: http://127.0.0.1:")
        );
    }
}

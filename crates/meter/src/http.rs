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

/// The channels that measure, by their names, with W or Wh.
type Parse = fn(&Value, Counts) -> Vec<(String, f64)>;

/// A socket.
pub struct Socket {
    agent: Agent,
    url: String,
    parse: Parse,
    /// Which of its channels.
    channel: Option<String>,
    continued: Continued,
    about: About,
}

impl Socket {
    /// The socket at `host`, if it answers as one of that kind: `HOST[/CHANNEL]`.
    ///
    /// # Errors
    /// As [`Meter::read`]; [`Error::Usage`] if it has other channels than that one, or several and none is chosen.
    pub fn find(name: &str, kind: Kind, host: &str, counts: Counts) -> Result<Self> {
        let (host, channel) = match host.split_once('/') {
            None => (host, None),
            Some((host, channel)) => (host, Some(channel.to_owned())),
        };
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
            channel,
            continued: Continued::default(),
            about: About {
                name: name.to_owned(),
                scope: Scope::Wall,
                counts,
                resolution: None,
                range_j: None,
            },
        };
        let (path, parse): (_, Parse) = match kind {
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
            let error = match error {
                ureq::Error::Timeout(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
                other => other.to_string().replace(char::is_control, " "),
            };
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

    /// The value of the channel, or of the only one.
    fn choose(&self, channels: Vec<(String, f64)>) -> Result<f64> {
        let name = &self.about.name;
        let chosen = match (&self.channel, &channels[..]) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), all) => all.iter().find(|(channel, _)| channel == name),
        };
        if let Some((_, value)) = chosen {
            return Ok(*value);
        }
        let what = match self.about.counts {
            Counts::Energy => "energy counter",
            Counts::Power => "power",
        };
        let names: Vec<&str> = channels.iter().map(|(name, _)| name.as_str()).collect();
        Err(match names[..] {
            [] => Error::Cannot(format!(
                "{name}: it reports no {what}; is this a socket that measures?"
            )),
            [first, ..] => Error::Usage(format!(
                "{name}: its channels are {}; choose one, such as HOST/{first}",
                names.join(", ")
            )),
        })
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
        let value = self.choose((self.parse)(&json, self.about.counts))?;
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

/// The second generation's: `switch:0`, `pm1:0`, `em:0`.
fn shelly(status: &Value, counts: Counts) -> Vec<(String, f64)> {
    let value = |part: &Value| match counts {
        Counts::Power => {
            let one = part.get("apower").or_else(|| part.get("total_act_power"));
            one?.as_f64()
        }
        Counts::Energy => {
            let one = part.pointer("/aenergy/total");
            one.or_else(|| part.get("total_act"))?.as_f64()
        }
    };
    let parts = status.as_object().into_iter().flatten();
    parts
        .filter_map(|(name, part)| Some((name.clone(), value(part)?)))
        .collect()
}

/// The first generation's: `0`, `1`. A relay that does not measure has 0 W, and no count.
fn first_shelly(status: &Value, counts: Counts) -> Vec<(String, f64)> {
    let (meters, wh) = match (status.get("meters"), status.get("emeters")) {
        // The relays' `total` is in watt-minutes, the energy meters' (EM, 3EM) in Wh.
        (Some(meters), _) => (meters, 1.0 / 60.0),
        (None, meters) => (meters.unwrap_or(&Value::Null), 1.0),
    };
    let value = |meter: &Value| {
        let total = meter.get("total")?.as_f64()?;
        let is_valid = meter.get("is_valid").and_then(Value::as_bool) != Some(false);
        let value = match counts {
            Counts::Power => meter.get("power")?.as_f64()?,
            Counts::Energy => total * wh,
        };
        is_valid.then_some(value)
    };
    let meters = meters.as_array().into_iter().flatten().enumerate();
    meters
        .filter_map(|(nth, meter)| Some((nth.to_string(), value(meter)?)))
        .collect()
}

/// Tasmota's: one, or a list of them, `0`, `1`. Of several the counter may be one for all, which has no name then.
fn tasmota(status: &Value, counts: Counts) -> Vec<(String, f64)> {
    let (what, scale) = match counts {
        Counts::Power => ("Power", 1.0),
        Counts::Energy => ("Total", 1000.0),
    };
    let list = |what| match status.pointer(&format!("/StatusSNS/ENERGY/{what}")) {
        None => &[],
        Some(Value::Array(values)) => &values[..],
        Some(value) => std::slice::from_ref(value),
    };
    let values = list(what);
    if values.len() == 1 && list("Power").len() > 1 {
        let value = values[0].as_f64();
        return value
            .map(|value| ("all".to_owned(), value * scale))
            .into_iter()
            .collect();
    }
    let values = values.iter().enumerate();
    values
        .filter_map(|(nth, value)| Some((nth.to_string(), value.as_f64()? * scale)))
        .collect()
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
        of_channel("", kind, counts, path, bodies)
    }

    fn of_channel(
        channel: &str,
        kind: Kind,
        counts: Counts,
        path: &'static str,
        bodies: &[&str],
    ) -> Vec<String> {
        let mut left: Vec<String> = bodies.iter().map(|&body| body.to_owned()).collect();
        left.reverse();
        let address = server(move |asked| match asked == path {
            true if left.len() > 1 => (200, left.pop().unwrap_or_default()),
            true => (200, left[0].clone()),
            false => (404, "no such page".to_owned()),
        });
        let found = Socket::find("socket", kind, &format!("{address}{channel}"), counts);
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
    fn of_several_channels_one_is_chosen() {
        let gen2 = r#"{"switch:0":{"apower":36.5},"switch:1":{"apower":4.5}}"#;
        let gen1 = r#"{"meters":[{"power":20.5,"total":60},{"power":1.5,"total":6}]}"#;
        let tasmota = r#"{"StatusSNS":{"ENERGY":{"Total":3.5,"Power":[42,7]}}}"#;
        let path = "/cm?cmnd=Status%208";
        for (kind, path, body, names, watts) in [
            (
                Kind::Shelly,
                GEN2,
                gen2,
                ["switch:0", "switch:1"],
                ["36.500", "4.500"],
            ),
            (
                Kind::Shelly,
                "/status",
                gen1,
                ["0", "1"],
                ["20.500", "1.500"],
            ),
            (
                Kind::Tasmota,
                path,
                tasmota,
                ["0", "1"],
                ["42.000", "7.000"],
            ),
        ] {
            for (name, watts) in names.iter().zip(watts) {
                let channel = format!("/{name}");
                assert_eq!(
                    of_channel(&channel, kind, Counts::Power, path, &[body]),
                    [watts; 2]
                );
            }
            for channel in ["", "/x"] {
                let why = of_channel(channel, kind, Counts::Power, path, &[body]);
                let [one, two] = names;
                let words = format!(
                    "socket: its channels are {one}, {two}; choose one, such as HOST/{one}"
                );
                assert_eq!(why, [words], "{channel}");
            }
        }
        // It counts both together.
        let of_all = |channel| of_channel(channel, Kind::Tasmota, Counts::Energy, path, &[tasmota]);
        assert_eq!(of_all("/all"), ["0.000"; 2]);
        assert!(of_all("/0")[0].contains("its channels are all;"));
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
        let why = why.err().unwrap().to_string();
        assert!(why.ends_with(": no answer within 2 s"), "{why}");
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

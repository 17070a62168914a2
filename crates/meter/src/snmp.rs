//! PDUs and UPSs by SNMP version 2c: the value of one OID, in W or a multiple of it.

use std::time::Duration;

use reveille_kernel::{Error, Result};
use snmp2::{Oid, SyncSession, Value};

use crate::reading::{About, Counts, Meter, Scope, quoted};

const TIMEOUT: Duration = Duration::from_secs(2);

/// Datagrams are lost, and a late answer is that of an earlier request.
const TRIES: u32 = 3;

const COMMUNITY: &str = "public";

/// SNMP's port.
const PORT: u16 = 161;

/// One value of a device.
pub struct Pdu {
    session: SyncSession,
    oid: Oid<'static>,
    scale: f64,
    about: About,
}

impl Pdu {
    /// `[COMMUNITY@]HOST[:PORT],OID[,SCALE]`: the value times SCALE (1) is in W.
    ///
    /// # Errors
    /// [`Error::Usage`] for other words; those of [`Meter::read`].
    pub fn find(name: &str, words: &str) -> Result<Self> {
        let usage = |what: &str| {
            Error::Usage(format!(
                "{name}: {what}; write snmp:[COMMUNITY@]HOST[:PORT],OID[,SCALE], such as snmp:pdu,1.3.6.1.4.1.318.1.1.12.1.16.0"
            ))
        };
        let mut parts = words.split(',');
        let host = parts.next().unwrap_or_default();
        let oid = parts.next().ok_or_else(|| usage("no OID"))?;
        let scale = parts.next().map_or(Ok(1.0), |scale| {
            let scale = scale.parse::<f64>().ok();
            let scale = scale.filter(|scale| scale.is_finite() && *scale > 0.0);
            scale.ok_or_else(|| usage("SCALE is no number above zero"))
        })?;
        let numbers = oid.trim_start_matches('.').split('.').map(str::parse);
        let numbers: std::result::Result<Vec<u64>, _> = numbers.collect();
        let numbers = numbers.map_err(|_| usage("the OID is not of numbers"))?;
        let oid = Oid::from(&numbers).map_err(|_| usage("no such OID can be"))?;
        let (community, host) = host.rsplit_once('@').unwrap_or((COMMUNITY, host));
        let address = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() && !host.ends_with("::") => {
                host.to_owned()
            }
            _ => format!("{host}:{PORT}"),
        };
        let session = SyncSession::new_v2c(&*address, community.as_bytes(), Some(TIMEOUT), 1);
        let session = session.map_err(|error| Error::Failed(format!("{name}: {error}")))?;
        let mut meter = Self {
            session,
            oid,
            scale,
            about: About {
                name: name.to_owned(),
                scope: Scope::Wall,
                counts: Counts::Power,
                resolution: Some(scale),
                range_j: None,
            },
        };
        meter.read()?;
        Ok(meter)
    }
}

impl Meter for Pdu {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let name = &self.about.name;
        let mut tries = 1;
        let answer = loop {
            match self.session.get(&self.oid) {
                Ok(mut answer) => break value(answer.varbinds.next().map(|(_, value)| value)),
                Err(_) if tries < TRIES => tries += 1,
                Err(error) => return Err(Error::Failed(format!("{name}: {error}"))),
            }
        };
        match answer {
            Ok(value) => Ok(value * self.scale),
            Err(what) => Err(Error::Failed(format!(
                "{name}: the answer is no reading: {what}"
            ))),
        }
    }
}

/// A number, or what it is instead.
fn value(value: Option<Value<'_>>) -> std::result::Result<f64, String> {
    match value {
        Some(Value::Integer(value)) if value >= 0 => Ok(value as f64),
        Some(Value::Unsigned32(value) | Value::Counter32(value)) => Ok(f64::from(value)),
        Some(Value::Counter64(value)) => Ok(value as f64),
        Some(Value::OctetString(text)) => {
            let text = String::from_utf8_lossy(text);
            let number = text.trim().parse::<f64>().ok();
            let number = number.filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| quoted(&text))
        }
        Some(other) => Err(quoted(&format!("{other:?}"))),
        None => Err("there is no value in it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Answers GET requests of version 2c with a value in BER, on loopback: the request with another type
    /// and the value in the place of its NULL, which ends it.
    fn server(values: Vec<Vec<u8>>) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            for turn in 0.. {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                let value = &values[turn.min(values.len() - 1)];
                let _ = socket.send_to(&answer(&buffer[..len], value), from);
            }
        });
        address
    }

    /// Type and length (below 128) before the content.
    fn tagged(kind: u8, content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 128);
        [&[kind, content.len() as u8][..], content].concat()
    }

    /// The content of a tag at the front, and what follows it.
    fn open(bytes: &[u8]) -> (&[u8], &[u8]) {
        match bytes[1] {
            len @ ..=127 => bytes[2..].split_at(len.into()),
            129 => bytes[3..].split_at(bytes[2].into()),
            _ => bytes[4..].split_at(usize::from(bytes[2]) << 8 | usize::from(bytes[3])),
        }
    }

    fn answer(request: &[u8], value: &[u8]) -> Vec<u8> {
        let (message, _) = open(request);
        let (version, rest) = open(message);
        let (community, rest) = open(rest);
        let (get, _) = open(rest);
        let (id, rest) = open(get);
        let (_, rest) = open(rest);
        let (_, rest) = open(rest);
        let (bindings, _) = open(rest);
        let (binding, _) = open(bindings);
        let (oid, _) = open(binding);
        let binding = tagged(0x30, &[tagged(6, oid), value.to_vec()].concat());
        let zero = tagged(2, &[0]);
        let body = [tagged(2, id), zero.clone(), zero, tagged(0x30, &binding)].concat();
        let parts = [
            tagged(2, version),
            tagged(4, community),
            tagged(0xa2, &body),
        ];
        tagged(0x30, &parts.concat())
    }

    fn said(values: &[(u8, &[u8])], scale: &str) -> String {
        let values = values
            .iter()
            .map(|(kind, value)| tagged(*kind, value))
            .collect();
        let words = format!("{},1.3.6.1.4.1.318.1{scale}", server(values));
        match Pdu::find("pdu", &words).and_then(|mut meter| meter.read()) {
            Ok(value) => value.to_string(),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn a_number_is_read_in_every_form_and_scaled() {
        assert_eq!(said(&[(2, &[0, 200])], ""), "200");
        assert_eq!(said(&[(0x42, &[0, 200])], ",10"), "2000", "Gauge32");
        assert_eq!(
            said(&[(4, b" 36.5 ")], ",0.1"),
            "3.6500000000000004",
            "text"
        );
        assert_eq!(said(&[(2, &[1]), (0x46, &[3])], ""), "3", "Counter64");
    }

    #[test]
    fn what_is_no_reading_gets_one_clear_line() {
        let words = said(&[(4, b"on battery\n")], "");
        assert_eq!(words, "pdu: the answer is no reading: \"on battery\"");
        assert!(
            said(&[(0x81, &[])], "").contains("no reading"),
            "noSuchInstance"
        );
        assert!(said(&[(2, &[0xff])], "").contains("no reading"), "-1");
        let usage = |words: &str| Pdu::find("pdu", words).err().unwrap().to_string();
        assert!(usage("host").contains("no OID"));
        assert!(usage("host,a.b").contains("not of numbers"));
        assert!(usage("host,1.3.6,-1").contains("SCALE"));
        // Nobody there: the kernel says so at once.
        let unused = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        assert!(usage(&format!("{unused},1.3.6.1")).starts_with("pdu: "));
    }
}

//! Hints to another machine: a client announces when its next request comes, so that the CPU that
//! serves it is awake then.
//!
//! `reveille anticipate --hints ADDRESS:PORT` takes them as datagrams ([`Sender`]). A client of a
//! server that speaks HTTP can announce its next request in the header [`HEADER`] of the one before
//! ([`Announced`]); `reveille stage` passes it on.
//!
//! A datagram has 32 bytes, and 32 more where both sides have a key. Numbers are little-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `rvlh` |
//! | 4 | version, 1 |
//! | 5 | protocol of the request: 6 TCP, 17 UDP |
//! | 6..8 | port of the service |
//! | 8..12 | from the datagram's arrival to the request's, µs |
//! | 12..16 | the request comes that much earlier or later at most, µs |
//! | 16..24 | when it was sent, ns since 1970: grows with each hint of a sender |
//! | 24..32 | the sender, a random number |
//! | 32..64 | HMAC-SHA256 of the bytes before |

use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The header of an HTTP request that announces the next one: `3ms; within=500us`.
pub const HEADER: &str = "reveille-next";

/// The longest datagram, bytes.
pub const LONGEST: usize = 64;

const MAGIC: [u8; 4] = *b"rvlh";
const VERSION: u8 = 1;
const PLAIN: usize = 32;

/// When a request comes, from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// It comes after this time.
    pub after: Duration,
    /// That much earlier or later, at most.
    pub within: Duration,
}

/// A service of the machine that gets the hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Service {
    /// 6: TCP, 17: UDP.
    pub protocol: u8,
    /// Its port.
    pub port: u16,
}

/// A request to a service is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// Which service.
    pub service: Service,
    /// When.
    pub announced: Announced,
}

/// What distinguishes a hint from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970 on the sender's clock.
    pub sent_ns: u64,
    /// The sender's number.
    pub sender: u64,
}

/// A secret that senders and receivers share.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// A datagram that is no hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Wrong length, version or content.
    #[error("not a hint of this version")]
    Form,
    /// A key is needed, and the datagram was not made with it.
    #[error("not signed with the key")]
    Signature,
}

impl Service {
    /// TCP and that port.
    pub fn tcp(port: u16) -> Self {
        Self { protocol: 6, port }
    }

    /// UDP and that port.
    pub fn udp(port: u16) -> Self {
        Self { protocol: 17, port }
    }
}

impl std::str::FromStr for Service {
    type Err = String;

    /// `tcp:8080`, `udp:5060`.
    fn from_str(text: &str) -> Result<Self, String> {
        let service = text.split_once(':').and_then(|(protocol, port)| {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            match protocol {
                "tcp" => Some(Self::tcp(port)),
                "udp" => Some(Self::udp(port)),
                _ => None,
            }
        });
        service.ok_or_else(|| "not a service, such as tcp:8080 or udp:5060".to_owned())
    }
}

impl Announced {
    /// As in the header [`HEADER`]: `3ms`, `3ms; within=500us`; `None` for other texts. Without
    /// `within`, a tenth of the time.
    pub fn parse(header: &str) -> Option<Self> {
        let (after, rest) = match header.split_once(';') {
            Some((after, rest)) => (after, Some(rest)),
            None => (header, None),
        };
        let after = time(after.trim())?;
        let within = match rest {
            Some(rest) => time(rest.trim().strip_prefix("within=")?)?,
            None => after / 10,
        };
        Some(Self { after, within })
    }

    /// The header's text.
    pub fn header(&self) -> String {
        format!(
            "{}us; within={}us",
            self.after.as_micros(),
            self.within.as_micros()
        )
    }
}

/// A whole number of `us`, `ms` or `s`, within what a datagram has room for.
fn time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u32 = number.parse().ok()?;
    let time = match unit {
        "us" => Duration::from_micros(number.into()),
        "ms" => Duration::from_millis(number.into()),
        "s" => Duration::from_secs(number.into()),
        _ => return None,
    };
    (time.as_micros() <= u32::MAX.into()).then_some(time)
}

impl Key {
    /// Of bytes; 16 random ones or more make a good key.
    pub fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("a key of any length will do"))
    }

    /// Of a file's content, without the end of its last line.
    ///
    /// # Errors
    /// In a line: if it cannot be read, others can read it, or it is too short.
    pub fn read(path: &Path) -> Result<Self, String> {
        const MOST: u64 = 4096;
        const LEAST: usize = 16;
        let why = |error: io::Error| format!("{}: {error}", path.display());
        let file = File::options()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path)
            .map_err(why)?;
        let about = file.metadata().map_err(why)?;
        let mut secret = Vec::new();
        file.take(MOST + 1).read_to_end(&mut secret).map_err(why)?;
        let secret = secret.trim_ascii_end();
        let wrong = |what: &str| Err(format!("{}: {what}", path.display()));
        match () {
            () if !about.is_file() => wrong("not a file"),
            () if about.mode() & 0o077 != 0 => wrong("other users can read it; chmod 600"),
            () if secret.len() as u64 > MOST => wrong("is longer than 4096 bytes"),
            () if secret.len() < LEAST => wrong("a key has at least 16 bytes"),
            () => Ok(Self::new(secret)),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(..)")
    }
}

/// The datagram of a hint.
pub fn encode(hint: &Hint, stamp: &Stamp, key: Option<&Key>) -> Vec<u8> {
    let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(LONGEST);
    bytes.extend(MAGIC);
    bytes.extend([VERSION, hint.service.protocol]);
    bytes.extend(hint.service.port.to_le_bytes());
    bytes.extend(us(hint.announced.after).to_le_bytes());
    bytes.extend(us(hint.announced.within).to_le_bytes());
    bytes.extend(stamp.sent_ns.to_le_bytes());
    bytes.extend(stamp.sender.to_le_bytes());
    if let Some(Key(mac)) = key {
        let tag = mac.clone().chain_update(&bytes).finalize();
        bytes.extend(tag.into_bytes());
    }
    bytes
}

/// The hint of a datagram. With a key, only of one that was made with it.
///
/// # Errors
/// [`Invalid`].
pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<(Hint, Stamp), Invalid> {
    let (plain, tag) = bytes.split_at_checked(PLAIN).ok_or(Invalid::Form)?;
    if plain[..4] != MAGIC || plain[4] != VERSION || ![0, LONGEST - PLAIN].contains(&tag.len()) {
        return Err(Invalid::Form);
    }
    if let Some(Key(mac)) = key {
        let mac = mac.clone().chain_update(plain);
        mac.verify_slice(tag).map_err(|_| Invalid::Signature)?;
    }
    let number = |from: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&plain[from..from + bytes]);
        u64::from_le_bytes(number)
    };
    let service = Service {
        protocol: plain[5],
        port: number(6, 2) as u16,
    };
    if !matches!(service.protocol, 6 | 17) || service.port == 0 {
        return Err(Invalid::Form);
    }
    let announced = Announced {
        after: Duration::from_micros(number(8, 4)),
        within: Duration::from_micros(number(12, 4)),
    };
    let stamp = Stamp {
        sent_ns: number(16, 8),
        sender: number(24, 8),
    };
    Ok((Hint { service, announced }, stamp))
}

/// Sends hints to one machine.
///
/// ```no_run
/// use std::time::Duration;
///
/// use reveille_expect::remote::{Announced, Hint, Sender, Service};
///
/// # fn main() -> std::io::Result<()> {
/// let mut sender = Sender::new("server.example:7171", None)?;
/// sender.send(&Hint {
///     service: Service::tcp(8080),
///     announced: Announced {
///         after: Duration::from_millis(3),
///         within: Duration::from_millis(1),
///     },
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    key: Option<Key>,
    last: Stamp,
}

impl Sender {
    /// To the first address of that name.
    ///
    /// # Errors
    /// Of the name's resolution, or of the socket.
    pub fn new(to: impl ToSocketAddrs, key: Option<Key>) -> io::Result<Self> {
        let to = to.to_socket_addrs()?.next();
        let to = to.ok_or_else(|| io::Error::other("the name has no address"))?;
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0; 16], 0).into(),
        };
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        let mut sender = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut sender)?;
        Ok(Self {
            socket,
            key,
            last: Stamp {
                sent_ns: 0,
                sender: u64::from_le_bytes(sender),
            },
        })
    }

    /// Sends a hint; it may be lost, as any datagram.
    ///
    /// # Errors
    /// Of the socket; that nobody listens there is an error of a later hint.
    pub fn send(&mut self, hint: &Hint) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = now.map_or(0, crate::clock::whole_ns);
        self.last.sent_ns = now_ns.max(self.last.sent_ns + 1);
        let datagram = encode(hint, &self.last, self.key.as_ref());
        self.socket.send(&datagram).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hint() -> (Hint, Stamp) {
        let hint = Hint {
            service: Service::udp(5060),
            announced: Announced {
                after: Duration::from_micros(3_000),
                within: Duration::from_micros(500),
            },
        };
        let stamp = Stamp {
            sent_ns: 1 << 60,
            sender: 0x0123_4567_89ab_cdef,
        };
        (hint, stamp)
    }

    #[test]
    fn a_datagram_has_its_documented_form() {
        let (hint, stamp) = hint();
        let bytes = encode(&hint, &stamp, None);
        let expected = b"rvlh\x01\x11\xc4\x13\xb8\x0b\0\0\xf4\x01\0\0\0\0\0\0\0\0\0\x10\
                         \xef\xcd\xab\x89\x67\x45\x23\x01";
        assert_eq!(bytes, expected);
        assert_eq!(decode(&bytes, None), Ok((hint, stamp)));
    }

    #[test]
    fn a_hint_that_was_not_made_with_the_key_is_refused() {
        let (hint, stamp) = hint();
        let key = Key::new(b"secret");
        let signed = encode(&hint, &stamp, Some(&key));
        assert_eq!(decode(&signed, Some(&key)), Ok((hint, stamp)));
        let other = encode(&hint, &stamp, Some(&Key::new(b"another")));
        assert_eq!(decode(&other, Some(&key)), Err(Invalid::Signature));
        let plain = encode(&hint, &stamp, None);
        assert_eq!(decode(&plain, Some(&key)), Err(Invalid::Signature));
        for at in 6..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert_eq!(
                decode(&changed, Some(&key)),
                Err(Invalid::Signature),
                "{at}"
            );
        }
        // A receiver without a key has nothing to check.
        assert_eq!(decode(&signed, None), Ok((hint, stamp)));
    }

    #[test]
    fn the_code_is_hmac_sha256() {
        // RFC 4231, test case 2.
        let Key(mac) = Key::new(b"Jefe");
        let tag = mac.chain_update(b"what do ya want for nothing?").finalize();
        let hex: String = tag
            .into_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_key_is_a_file_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let read = |mode: u32, content: &str| {
            std::fs::write(&file, content).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&file, mode).unwrap();
            Key::read(&file).map(|_| ())
        };
        assert_eq!(read(0o600, "sixteen letters.\n"), Ok(()));
        assert!(
            read(0o640, "sixteen letters.")
                .unwrap_err()
                .contains("chmod 600")
        );
        assert!(
            read(0o600, "fifteen letters\n")
                .unwrap_err()
                .contains("16 bytes")
        );
        assert!(Key::read(folder.path()).is_err());
        assert!(
            Key::read(Path::new("/dev/null"))
                .unwrap_err()
                .contains("not a file")
        );
    }

    #[test]
    fn headers_are_times_with_units() {
        let parse = |text| {
            let announced = Announced::parse(text)?;
            Some((announced.after.as_micros(), announced.within.as_micros()))
        };
        assert_eq!(parse("3ms; within=500us"), Some((3_000, 500)));
        assert_eq!(parse(" 2s ;within=1ms "), Some((2_000_000, 1_000)));
        assert_eq!(parse("3ms"), Some((3_000, 300)));
        for wrong in [
            "",
            "3",
            "ms",
            "-3ms",
            "3ms;",
            "3ms; in=1ms",
            "3.5ms",
            "99999999999s",
            "3ms; within=1ms; x",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let (hint, _) = hint();
        assert_eq!(
            Announced::parse(&hint.announced.header()),
            Some(hint.announced)
        );
    }

    #[test]
    fn a_service_is_a_protocol_and_a_port() {
        assert_eq!("tcp:8080".parse(), Ok(Service::tcp(8080)));
        assert_eq!("udp:5060".parse(), Ok(Service::udp(5060)));
        for wrong in ["8080", "tcp:", "tcp:0", "tcp:65536", "sctp:1", ""] {
            assert!(wrong.parse::<Service>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_hint_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes, None);
            let _ = decode(&bytes, Some(&Key::new(b"secret")));
        }

        #[test]
        fn a_hint_is_read_as_it_was_written(
            port in 1..=u16::MAX, after in any::<u32>(), within in any::<u32>(),
            sent_ns in any::<u64>(), sender in any::<u64>(),
        ) {
            let hint = Hint {
                service: Service::tcp(port),
                announced: Announced {
                    after: Duration::from_micros(after.into()),
                    within: Duration::from_micros(within.into()),
                },
            };
            let stamp = Stamp { sent_ns, sender };
            prop_assert_eq!(decode(&encode(&hint, &stamp, None), None), Ok((hint, stamp)));
        }
    }
}

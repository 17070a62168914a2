//! The messages on the socket: small, binary, of fixed form.
//!
//! The socket is AF_UNIX and SOCK_SEQPACKET, so a message arrives whole or not at all. Numbers are
//! little-endian. Each message begins with eight bytes:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `rvle` |
//! | 4..6 | which message, as below |
//! | 6..8 | length of the whole message |
//!
//! | message | number | body |
//! | --- | --- | --- |
//! | [`Request::Hello`] | 1 | version u32 |
//! | [`Request::Expect`] | 2 | id u64, at_ns u64, window_ns u64, cpu u32 |
//! | [`Request::Cancel`] | 3 | id u64 |
//! | [`Answer::Welcome`] | 0x101 | version u32, open u32, window_ns u64, ahead_ns u64, messages_per_second u32, awake_ppm u32 |
//! | [`Answer::Accepted`] | 0x102 | id u64 |
//! | [`Answer::Refused`] | 0x103 | id u64, why u32 |
//! | [`Answer::Closing`] | 0x104 | why u32 |
//!
//! A client sends `Hello` first and waits for `Welcome`. Then each `Expect` gets one answer, and
//! `Cancel` none. Any other message ends the connection with `Closing`. `Hello` and `Closing` are the same
//! in every version, so that each side can report a version mismatch.
//!
//! The engine uses the version of the client's `Hello` if it supports it, and otherwise sends
//! `Closing`; a client may then connect again with an older one. Version 2 adds reasons of refusal:
//! version 1 has those up to [`Refusal::Cpu`], and gets the nearest of them instead. A reader takes an
//! unknown reason for [`Refusal::Other`] or [`CloseReason::Other`], so that later engines can add more.
//!
//! Any bytes decode to a message or to [`InvalidMessage`].

use crate::limits::{Limits, Refusal};

/// The version that is spoken here.
pub const VERSION: u32 = 2;
/// The oldest version that is spoken here, too.
pub const OLDEST_VERSION: u32 = 1;
/// The longest message, bytes.
pub const LONGEST: usize = 40;

const MAGIC: [u8; 4] = *b"rvle";
const HEADER: usize = 8;

const HELLO: u16 = 1;
const EXPECT: u16 = 2;
const CANCEL: u16 = 3;
const WELCOME: u16 = 0x101;
const ACCEPTED: u16 = 0x102;
const REFUSED: u16 = 0x103;
const CLOSING: u16 = 0x104;

/// A message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The first message: which version of the protocol the client speaks.
    Hello {
        /// [`VERSION`] of the client.
        version: u32,
    },
    /// Keep the CPU awake from `at_ns` on, for `window_ns`.
    Expect {
        /// Chosen by the client, unique among its open requests.
        id: u64,
        /// The window's beginning, ns of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The window's length, ns.
        window_ns: u64,
        /// The CPU's number.
        cpu: u32,
    },
    /// Cancels a request; without effect if it is not open.
    Cancel {
        /// As in the request.
        id: u64,
    },
}

/// A message of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The answer to `Hello`.
    Welcome {
        /// The version that the engine speaks.
        version: u32,
        /// What the engine allows this client.
        limits: Limits,
    },
    /// The CPU will be awake.
    Accepted {
        /// As in the request.
        id: u64,
    },
    /// The CPU will not be awake for it.
    Refused {
        /// As in the request.
        id: u64,
        /// The reason.
        why: Refusal,
    },
    /// The last message before the connection ends.
    Closing {
        /// The reason.
        why: CloseReason,
    },
}

/// Why the engine ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// Not a message, or not one that may be sent then.
    #[error("the message is invalid, or not allowed at this point")]
    InvalidMessage,
    /// The engine speaks another version of the protocol.
    #[error("the engine speaks another version of the protocol")]
    Version,
    /// All clients that the engine takes are there.
    #[error("the engine has as many clients as it takes")]
    Full,
    /// A newer engine's reason, which this library does not know.
    #[error("an unknown reason")]
    Other,
    /// All connections that one user may have are there.
    #[error("this user has as many connections as one user may have now")]
    Places,
    /// The user connects too often.
    #[error("this user connects too often; wait a second")]
    TooOften,
    /// No hello came in time.
    #[error("no hello came in time")]
    Late,
    /// No file descriptor is left to the engine.
    #[error("the engine has no file descriptor left")]
    Descriptors,
}

impl CloseReason {
    /// All of them, by their number in the protocol. New ones come last.
    pub const ALL: [Self; 8] = [
        Self::InvalidMessage,
        Self::Version,
        Self::Full,
        Self::Other,
        Self::Places,
        Self::TooOften,
        Self::Late,
        Self::Descriptors,
    ];
}

impl Refusal {
    /// The nearest reason that this version of the protocol has.
    #[cfg(feature = "server")]
    pub(crate) fn in_version(self, version: u32) -> Self {
        match self {
            Self::UserBudget | Self::Wakeups if version == 1 => Self::Budget,
            Self::Slots | Self::Other if version == 1 => Self::Limit,
            known => known,
        }
    }
}

/// The bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a message of this protocol")]
pub struct InvalidMessage;

/// A message as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; LONGEST],
    length: usize,
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Request {
    /// The message as it is sent.
    pub fn encode(&self) -> Bytes {
        match *self {
            Self::Hello { version } => Writer::new(HELLO).u32(version),
            Self::Expect {
                id,
                at_ns,
                window_ns,
                cpu,
            } => Writer::new(EXPECT)
                .u64(id)
                .u64(at_ns)
                .u64(window_ns)
                .u32(cpu),
            Self::Cancel { id } => Writer::new(CANCEL).u64(id),
        }
        .done()
    }

    /// # Errors
    /// [`InvalidMessage`] where the bytes are not just one request.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let request = match kind {
            HELLO => Self::Hello {
                version: reader.u32()?,
            },
            EXPECT => Self::Expect {
                id: reader.u64()?,
                at_ns: reader.u64()?,
                window_ns: reader.u64()?,
                cpu: reader.u32()?,
            },
            CANCEL => Self::Cancel { id: reader.u64()? },
            _ => return Err(InvalidMessage),
        };
        reader.done(request)
    }
}

impl Answer {
    /// The message as it is sent.
    pub fn encode(&self) -> Bytes {
        match *self {
            Self::Welcome { version, limits } => Writer::new(WELCOME)
                .u32(version)
                .u32(limits.open)
                .u64(limits.window_ns)
                .u64(limits.ahead_ns)
                .u32(limits.messages_per_second)
                .u32(limits.awake_ppm),
            Self::Accepted { id } => Writer::new(ACCEPTED).u64(id),
            Self::Refused { id, why } => Writer::new(REFUSED).u64(id).u32(why.index() as u32),
            Self::Closing { why } => Writer::new(CLOSING).u32(why as u32),
        }
        .done()
    }

    /// # Errors
    /// [`InvalidMessage`] where the bytes are not just one answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let answer = match kind {
            WELCOME => Self::Welcome {
                version: reader.u32()?,
                limits: Limits {
                    open: reader.u32()?,
                    window_ns: reader.u64()?,
                    ahead_ns: reader.u64()?,
                    messages_per_second: reader.u32()?,
                    awake_ppm: reader.u32()?,
                },
            },
            ACCEPTED => Self::Accepted { id: reader.u64()? },
            REFUSED => Self::Refused {
                id: reader.u64()?,
                why: reader.one_of(&Refusal::ALL, Refusal::Other)?,
            },
            CLOSING => Self::Closing {
                why: reader.one_of(&CloseReason::ALL, CloseReason::Other)?,
            },
            _ => return Err(InvalidMessage),
        };
        reader.done(answer)
    }
}

struct Writer {
    message: Bytes,
}

impl Writer {
    fn new(kind: u16) -> Self {
        let message = Bytes {
            bytes: [0; LONGEST],
            length: 0,
        };
        // The length is known at the end.
        Self { message }
            .put(&MAGIC)
            .put(&kind.to_le_bytes())
            .put(&[0; 2])
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        let end = self.message.length + bytes.len();
        self.message.bytes[self.message.length..end].copy_from_slice(bytes);
        self.message.length = end;
        self
    }

    fn done(mut self) -> Bytes {
        let length = self.message.length as u16;
        self.message.bytes[6..HEADER].copy_from_slice(&length.to_le_bytes());
        self.message
    }
}

/// The body that is left.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Which message, and its body.
    fn new(bytes: &'a [u8]) -> Result<(u16, Self), InvalidMessage> {
        let mut reader = Self(bytes);
        if reader.take()? != MAGIC {
            return Err(InvalidMessage);
        }
        let kind = u16::from_le_bytes(reader.take()?);
        let length = u16::from_le_bytes(reader.take()?);
        if usize::from(length) != bytes.len() {
            return Err(InvalidMessage);
        }
        Ok((kind, reader))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], InvalidMessage> {
        let (first, rest) = self.0.split_first_chunk().ok_or(InvalidMessage)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, InvalidMessage> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, InvalidMessage> {
        self.take().map(u64::from_le_bytes)
    }

    /// A later version may have more of them than `all`.
    fn one_of<T: Copy>(&mut self, all: &[T], unknown: T) -> Result<T, InvalidMessage> {
        let place = usize::try_from(self.u32()?).map_err(|_| InvalidMessage)?;
        Ok(all.get(place).copied().unwrap_or(unknown))
    }

    /// Nothing may follow.
    fn done<T>(self, message: T) -> Result<T, InvalidMessage> {
        if self.0.is_empty() {
            Ok(message)
        } else {
            Err(InvalidMessage)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![
            any::<u32>().prop_map(|version| Request::Hello { version }),
            any::<(u64, u64, u64, u32)>().prop_map(|(id, at_ns, window_ns, cpu)| {
                Request::Expect {
                    id,
                    at_ns,
                    window_ns,
                    cpu,
                }
            }),
            any::<u64>().prop_map(|id| Request::Cancel { id }),
        ]
    }

    fn limits() -> impl Strategy<Value = Limits> {
        any::<(u32, u64, u64, u32, u32)>().prop_map(|limits| Limits {
            open: limits.0,
            window_ns: limits.1,
            ahead_ns: limits.2,
            messages_per_second: limits.3,
            awake_ppm: limits.4,
        })
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            (any::<u32>(), limits())
                .prop_map(|(version, limits)| Answer::Welcome { version, limits }),
            any::<u64>().prop_map(|id| Answer::Accepted { id }),
            (any::<u64>(), prop::sample::select(&Refusal::ALL[..]))
                .prop_map(|(id, why)| Answer::Refused { id, why }),
            prop::sample::select(&CloseReason::ALL[..]).prop_map(|why| Answer::Closing { why }),
        ]
    }

    proptest! {
        #[test]
        fn a_request_survives_encoding(request in request()) {
            let bytes = request.encode();
            prop_assert_eq!(Request::decode(bytes.as_ref()), Ok(request));
            prop_assert_eq!(Answer::decode(bytes.as_ref()), Err(InvalidMessage));
        }

        #[test]
        fn an_answer_survives_encoding(answer in answer()) {
            let bytes = answer.encode();
            prop_assert_eq!(Answer::decode(bytes.as_ref()), Ok(answer));
            prop_assert_eq!(Request::decode(bytes.as_ref()), Err(InvalidMessage));
        }

        /// Decoding and encoding gives the same bytes: a message has one encoding.
        #[test]
        fn any_bytes_decode_to_at_most_one_message(
            request in request(), place in 0..LONGEST, byte: u8, cut in 0..=LONGEST,
        ) {
            let mut bytes = request.encode().as_ref().to_vec();
            if let Some(there) = bytes.get_mut(place) {
                *there = byte;
            }
            bytes.truncate(cut);
            if let Ok(read) = Request::decode(&bytes) {
                let said = read.encode();
                prop_assert_eq!(said.as_ref(), &bytes[..]);
            }
        }
    }

    #[test]
    fn the_format_is_as_documented() {
        let cancel = Request::Cancel { id: 0x0102 }.encode();
        let bytes = b"rvle\x03\x00\x10\x00\x02\x01\x00\x00\x00\x00\x00\x00";
        assert_eq!(cancel.as_ref(), bytes);
        let refused = Answer::Refused {
            id: 1,
            why: Refusal::Past,
        }
        .encode();
        let bytes = b"rvle\x03\x01\x14\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00";
        assert_eq!(refused.as_ref(), bytes);
        let welcome = Answer::Welcome {
            version: VERSION,
            limits: Limits::default(),
        };
        assert_eq!(welcome.encode().as_ref().len(), LONGEST);
    }

    #[test]
    fn a_wrong_magic_or_length_is_invalid() {
        let good = Answer::Closing {
            why: CloseReason::Full,
        }
        .encode();
        let good = good.as_ref();
        assert!(Answer::decode(good).is_ok());
        for place in [0, 3, 4, 5, 6, 7] {
            let mut bad = good.to_vec();
            bad[place] ^= 0x40;
            assert_eq!(Answer::decode(&bad), Err(InvalidMessage), "{bad:?}");
        }
        let mut longer = good.to_vec();
        longer.push(0);
        longer[6] += 1;
        assert_eq!(Answer::decode(&longer), Err(InvalidMessage));
        assert_eq!(Answer::decode(&[]), Err(InvalidMessage));
    }

    #[test]
    fn a_later_engines_reason_is_unknown() {
        let closing = Answer::Closing {
            why: CloseReason::Full,
        };
        let mut bytes = closing.encode().as_ref().to_vec();
        bytes[8] = CloseReason::ALL.len() as u8;
        let why = CloseReason::Other;
        assert_eq!(Answer::decode(&bytes), Ok(Answer::Closing { why }));
        let refused = Answer::Refused {
            id: 1,
            why: Refusal::Past,
        };
        let mut bytes = refused.encode().as_ref().to_vec();
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        let why = Refusal::Other;
        assert_eq!(Answer::decode(&bytes), Ok(Answer::Refused { id: 1, why }));
    }

    #[cfg(feature = "server")]
    #[test]
    fn the_first_version_has_seven_refusal_reasons() {
        for why in Refusal::ALL {
            assert_eq!(why.in_version(VERSION), why);
            let translated = why.in_version(1);
            assert!(translated.index() < 7, "{why:?}");
            assert!(why.index() >= 7 || translated == why, "{why:?}");
        }
    }
}

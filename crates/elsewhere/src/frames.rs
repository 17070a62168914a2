//! What the far side sends: frames on its standard output, each a kind, a length and as many bytes. What the near
//! side sends is one [`Order`], a line of JSON, and then a byte at a time.

use std::io::{self, Read, Write};

use reveille_show::progress::Step;
use serde::{Deserialize, Serialize};

/// Changes with every change of what the two sides say to each other.
pub const PROTOCOL: u32 = 2;

/// The most bytes of one frame.
pub const LARGEST: usize = 64 << 10;

/// The near side is still there.
pub const HEARTBEAT: u8 = b'h';
/// The command is to end, as by Ctrl-C.
pub const STOP: u8 = b's';
/// The last frame has come.
pub const DONE: u8 = b'd';

/// What is to be run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The arguments after the program's name.
    pub arguments: Vec<String>,
}

/// One frame.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// The far side is still there.
    Heartbeat,
    /// Of the command's standard output.
    Output(Vec<u8>),
    /// Of the command's standard error.
    Error(Vec<u8>),
    /// How far the command is.
    Progress(Step),
    /// More of a file that grows.
    Append(String, Vec<u8>),
    /// A whole file follows, in [`Frame::Part`]s.
    Begin(String),
    /// A part of the file that was begun.
    Part(Vec<u8>),
    /// The file that was begun is whole.
    Whole,
    /// A file that was sent is no longer there.
    Removed(String),
    /// The command ended with this code; the last frame.
    Exit(u8),
    /// The command could not be run; the last frame.
    Failed(String),
}

impl Frame {
    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Heartbeat => (0, Vec::new()),
            Self::Output(bytes) => (1, bytes.clone()),
            Self::Error(bytes) => (2, bytes.clone()),
            Self::Progress(now) => (3, serde_json::to_vec(now).unwrap_or_default()),
            Self::Append(name, bytes) => (4, [name.as_bytes(), b"\0", bytes].concat()),
            Self::Begin(name) => (5, name.clone().into_bytes()),
            Self::Part(bytes) => (6, bytes.clone()),
            Self::Whole => (7, Vec::new()),
            Self::Removed(name) => (8, name.clone().into_bytes()),
            Self::Exit(code) => (9, vec![*code]),
            Self::Failed(why) => (10, why.clone().into_bytes()),
        }
    }

    fn of(kind: u8, bytes: Vec<u8>) -> Option<Self> {
        let text = |bytes| String::from_utf8(bytes).ok();
        Some(match kind {
            0 => Self::Heartbeat,
            1 => Self::Output(bytes),
            2 => Self::Error(bytes),
            3 => Self::Progress(serde_json::from_slice(&bytes).ok()?),
            4 => {
                let end = bytes.iter().position(|byte| *byte == 0)?;
                Self::Append(text(bytes[..end].to_vec())?, bytes[end + 1..].to_vec())
            }
            5 => Self::Begin(text(bytes)?),
            6 => Self::Part(bytes),
            7 => Self::Whole,
            8 => Self::Removed(text(bytes)?),
            9 => Self::Exit(*bytes.first()?),
            10 => Self::Failed(text(bytes)?),
            _ => return None,
        })
    }

    /// Writes it, in one write where the other side takes that much.
    ///
    /// # Errors
    /// Of the output; [`io::ErrorKind::InvalidInput`] if it is too large.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (kind, bytes) = self.parts();
        if bytes.len() > LARGEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut whole = Vec::with_capacity(bytes.len() + 5);
        whole.push(kind);
        whole.extend((bytes.len() as u32).to_be_bytes());
        whole.extend(bytes);
        out.write_all(&whole)?;
        out.flush()
    }

    /// Reads the next one.
    ///
    /// # Errors
    /// Of the input, its end among them; [`io::ErrorKind::InvalidData`] if that is no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        Self::of(head[0], bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let frames = [
            Frame::Heartbeat,
            Frame::Output(b"a\0b".to_vec()),
            Frame::Error(Vec::new()),
            Frame::Progress(Step {
                step: "timer".into(),
                done: 0.5,
                left_s: None,
                detail: "POLL 1".into(),
            }),
            Frame::Append("a.csv".into(), b"1\0,2\n".to_vec()),
            Frame::Begin("b".into()),
            Frame::Part(vec![7; LARGEST]),
            Frame::Whole,
            Frame::Removed("a.csv".into()),
            Frame::Exit(130),
            Frame::Failed("no".into()),
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.write(&mut bytes).unwrap();
        }
        let mut from = bytes.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut from).unwrap(), frame);
        }
        assert!(Frame::read(&mut from).is_err());
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let bad: [&[u8]; 5] = [
            b"",
            &[1, 0, 0, 0],
            &[1, 0, 1, 0, 1],
            &[99, 0, 0, 0, 0],
            &[5, 0, 0, 0, 1, 0xff],
        ];
        for bytes in bad {
            assert!(Frame::read(&mut &*bytes).is_err(), "{bytes:?}");
        }
        let large = Frame::Part(vec![0; LARGEST + 1]);
        assert!(large.write(&mut Vec::new()).is_err());
    }
}

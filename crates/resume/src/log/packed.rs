//! What a log comes in: gzip, xz and zstd are unpacked as it is read, UTF-16 becomes UTF-8, and what
//! is not text is refused by its name.

use std::error::Error;
use std::io::{self, BufRead, Cursor, ErrorKind, Read};

use flate2::bufread::GzDecoder;
use reveille_results::text::is_no_text;

/// Enough of a file to recognise its format.
const HEAD_BYTES: usize = 4096;
/// Of dictionaries and windows: what the programs' highest levels make needs less.
const MEMORY_KIB: u32 = 128 << 10;

type Input<'a> = Box<dyn Read + 'a>;

/// The text of a file.
///
/// # Errors
/// Where it is not text or packed otherwise (`InvalidData`, with what it is and what to do), and those
/// of `input`.
pub(super) fn text<'a>(input: impl Read + 'a) -> io::Result<Input<'a>> {
    let (head, input) = head(Box::new(input))?;
    let peeked = |input| Peeked {
        ahead: Vec::new(),
        input,
    };
    let unpacked: Input<'a> = match head.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(Chain {
            member: member(peeked(input))?,
            next: |member: GzDecoder<_>| self::member(member.into_inner()),
        }),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(lzma_rust2::XzReader::new_mem_limit(input, true, MEMORY_KIB))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Box::new(Chain {
            member: frame(peeked(input)).map_err(|error| said_of_packed(&error))?,
            next: |frame: Frame<'_>| self::frame(frame.into_inner()),
        }),
        _ => return of_text(input),
    };
    of_text(Box::new(Unpacked(unpacked)))
}

/// Adds to errors what they are of.
struct Unpacked<'a>(Input<'a>);

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| said_of_packed(&error))
    }
}

fn said_of_packed(error: &io::Error) -> io::Error {
    // Zstandard's decoder puts it within errors of its own.
    let mut within: Option<&(dyn Error + 'static)> = Some(error);
    let mut is_cut = false;
    while let Some(one) = within {
        let of_input = one.downcast_ref::<io::Error>();
        is_cut |= of_input.is_some_and(|one| one.kind() == ErrorKind::UnexpectedEof);
        within = one.source();
    }
    let words = match is_cut {
        true => {
            "it is packed, and cut before its end; `gzip -dc`, `xz -dc` or `zstd -dc` gives what \
                 there is, for a pipe to -"
                .to_owned()
        }
        false => format!("it is packed, and cannot be unpacked: {error}"),
    };
    io::Error::new(ErrorKind::InvalidData, words)
}

/// Members or frames, one behind the other, as `cat a.zst b.zst` and pzstd make them.
struct Chain<D> {
    member: Option<D>,
    next: fn(D) -> io::Result<Option<D>>,
}

impl<D: Read> Read for Chain<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(one) = &mut self.member {
            let read = one.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            self.member = self.member.take().map_or(Ok(None), self.next)?;
        }
        Ok(0)
    }
}

/// The next one of gzip. What follows the last is passed over, as gzip does: tapes and block devices fill up
/// with zeros.
fn member(mut input: Peeked<'_>) -> io::Result<Option<GzDecoder<Peeked<'_>>>> {
    // A member, or one of which the first byte is all there is.
    let is_member = matches!(input.peek(2)?, [0x1f, 0x8b] | [0x1f]);
    Ok(is_member.then(|| GzDecoder::new(input)))
}

fn of_text(input: Input<'_>) -> io::Result<Input<'_>> {
    let (head, mut input) = head(input)?;
    if let Some(name) = binary(&head) {
        return Err(io::Error::new(ErrorKind::InvalidData, name));
    }
    let little = match head.as_slice() {
        [0xff, 0xfe, ..] => true,
        [0xfe, 0xff, ..] => false,
        [0xef, 0xbb, 0xbf, ..] => {
            io::copy(&mut (&mut input).take(3), &mut io::sink())?;
            return Ok(input);
        }
        // Without a mark: a log's first letters are of ASCII.
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => true,
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => false,
        _ if is_no_text(&without_zeros(&head)) => {
            let words = "it is not text; expected a kernel's log (dmesg, syslog, ftrace)";
            return Err(io::Error::new(ErrorKind::InvalidData, words));
        }
        _ if head.contains(&b'\r') && !head.contains(&b'\n') => {
            return Ok(Box::new(CarriageReturns(input)));
        }
        _ => return Ok(input),
    };
    Ok(Box::new(Utf16 {
        input,
        little,
        odd: None,
        high: None,
        ready: Vec::new(),
    }))
}

/// The first bytes, and all of it.
fn head(mut input: Input<'_>) -> io::Result<(Vec<u8>, Input<'_>)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    (&mut input)
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)?;
    let all = Cursor::new(head.clone()).chain(input);
    Ok((head, Box::new(all)))
}

/// What it is, and what to do, where that is not read.
fn binary(head: &[u8]) -> Option<&'static str> {
    const UTF_32: &str = "it is UTF-32; `iconv -f UTF-32 -t UTF-8` makes it readable";
    const KNOWN: [(&[u8], &str); 10] = [
        (b"\xff\xfe\0\0", UTF_32),
        (b"\0\0\xfe\xff", UTF_32),
        (
            b"BZh",
            "it is packed with bzip2; unpack it (bzcat) and pipe it to -",
        ),
        (
            b"\x04\x22\x4d\x18",
            "it is packed with lz4; unpack it (lz4cat) and pipe it to -",
        ),
        (b"PK\x03\x04", "it is a zip archive; unpack it first"),
        (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive; unpack it first"),
        (
            b"LPKSHHRH",
            "it is systemd's journal itself; `journalctl --file FILE -k -o json` prints it",
        ),
        (
            b"\x17\x08\x44tracing",
            "it is a trace.dat of trace-cmd; `trace-cmd report` prints it",
        ),
        (b"PERFILE2", "it is a perf.data; `perf script` prints it"),
        (
            b"\x7fELF",
            "it is a program; expected a kernel's log (dmesg, syslog, ftrace)",
        ),
    ];
    let tar = head.get(257..262) == Some(b"ustar");
    let known = KNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    known
        .map(|(_, words)| *words)
        .or(tar.then_some("it is a tar archive; unpack it first"))
}

/// A machine that went down leaves blocks of them in its log.
fn without_zeros(head: &[u8]) -> Vec<u8> {
    head.iter().copied().filter(|&byte| byte != 0).collect()
}

/// Lines that end with a carriage return alone.
struct CarriageReturns<'a>(Input<'a>);

impl Read for CarriageReturns<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(into)?;
        for byte in into[..read].iter_mut().filter(|byte| **byte == b'\r') {
            *byte = b'\n';
        }
        Ok(read)
    }
}

type Frame<'a> = ruzstd::decoding::StreamingDecoder<Peeked<'a>, ruzstd::decoding::FrameDecoder>;

/// The next one, behind those that are to be skipped.
fn frame(mut input: Peeked<'_>) -> io::Result<Option<Frame<'_>>> {
    let window = u64::from(MEMORY_KIB) << 10;
    loop {
        match *input.peek(8)? {
            [] => return Ok(None),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d] => {
                let bytes = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
                if io::copy(&mut (&mut input).take(bytes), &mut io::sink())? < bytes {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            _ => break,
        }
    }
    let frame = Frame::new_with_max_window_size(input, window);
    let frame = frame.map_err(io::Error::other)?;
    Ok(Some(frame))
}

/// An input of which some bytes were looked at.
struct Peeked<'a> {
    ahead: Vec<u8>,
    input: Input<'a>,
}

impl Peeked<'_> {
    /// The next bytes; fewer at the end.
    fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        let missing = bytes.saturating_sub(self.ahead.len()) as u64;
        (&mut self.input)
            .take(missing)
            .read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[..self.ahead.len().min(bytes)])
    }
}

impl Read for Peeked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return self.input.read(into);
        }
        let read = self.ahead.as_slice().read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Peeked<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        const BLOCK_BYTES: usize = 8192;
        match self.ahead.is_empty() {
            true => self.peek(BLOCK_BYTES),
            false => Ok(&self.ahead),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.ahead.drain(..bytes);
    }
}

/// UTF-16 as UTF-8; half a pair becomes U+FFFD.
struct Utf16<'a> {
    input: Input<'a>,
    little: bool,
    odd: Option<u8>,
    high: Option<u16>,
    /// What was read and not given yet.
    ready: Vec<u8>,
}

impl Read for Utf16<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() {
            let mut bytes = [0; HEAD_BYTES];
            let from = usize::from(self.odd.is_some());
            if let Some(odd) = self.odd.take() {
                bytes[0] = odd;
            }
            let read = self.input.read(&mut bytes[from..])?;
            if read == 0 {
                return Ok(0);
            }
            let mut pairs = bytes[..from + read].chunks_exact(2);
            let mut text = String::new();
            for pair in &mut pairs {
                let pair = [pair[0], pair[1]];
                self.unit(
                    match self.little {
                        true => u16::from_le_bytes(pair),
                        false => u16::from_be_bytes(pair),
                    },
                    &mut text,
                );
            }
            self.odd = pairs.remainder().first().copied();
            self.ready = text.into_bytes();
        }
        let read = self.ready.as_slice().read(into)?;
        self.ready.drain(..read);
        Ok(read)
    }
}

impl Utf16<'_> {
    fn unit(&mut self, unit: u16, text: &mut String) {
        let high = self.high.take();
        match unit {
            0xfeff => {}
            0xd800..=0xdbff => {
                text.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                self.high = Some(unit);
            }
            _ => {
                let units = high.into_iter().chain([unit]);
                let chars = char::decode_utf16(units);
                text.extend(chars.map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
        }
    }
}

#[cfg(test)]
#[path = "packed/tests.rs"]
mod tests;

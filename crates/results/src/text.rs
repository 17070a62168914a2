//! Files of text that somebody names: read whole, unless they are none.

use std::io::{Error, ErrorKind, Read, Result};

/// Enough bytes to decide whether it is text.
const HEAD_BYTES: u64 = 4096;
/// More control characters than one in so many: no text. Serial lines leave a few.
const CONTROL_SHARE: usize = 20;
/// Fewer bytes do not decide it.
const TELLING_BYTES: usize = 64;

/// Judges by a file's first bytes; zeros, too, are control characters.
pub fn is_no_text(head: &[u8]) -> bool {
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 11 | 12 | 14..=26 | 28..=31 | 127);
    let controls = head.iter().filter(is_control).count();
    head.len() >= TELLING_BYTES && controls * CONTROL_SHARE > head.len()
}

/// All of `input`, in bytes. [`ErrorKind::InvalidData`] if its first 4 KiB are no text, or if it has more than
/// `most_mib`, which is far more than such a file has: a device or a pipe may have no end.
pub fn read(mut input: impl Read, most_mib: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    (&mut input).take(HEAD_BYTES).read_to_end(&mut text)?;
    if is_no_text(&text) {
        return Err(Error::new(ErrorKind::InvalidData, "it is not text"));
    }
    let most = most_mib << 20;
    let more = most.saturating_sub(text.len() as u64) + 1;
    input.take(more).read_to_end(&mut text)?;
    match text.len() as u64 > most {
        true => Err(Error::new(
            ErrorKind::InvalidData,
            format!("it has more than {most_mib} MiB"),
        )),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_no_text, read};
    use std::io;

    #[test]
    fn binary_data_and_endless_text_are_refused() {
        let why = |read: io::Result<Vec<u8>>| read.unwrap_err().to_string();
        assert_eq!(why(read(io::repeat(0), 1)), "it is not text");
        assert_eq!(why(read(io::repeat(7), 1)), "it is not text");
        assert_eq!(why(read(io::repeat(b'y'), 1)), "it has more than 1 MiB");
        let whole = vec![b'y'; 1 << 20];
        assert_eq!(read(&whole[..], 1).unwrap(), whole);
        assert_eq!(read("a\tb\r\n\u{e9}".as_bytes(), 1).unwrap().len(), 7);
        assert!(read(&b""[..], 1).unwrap().is_empty());
    }

    #[test]
    fn one_control_character_in_twenty_of_64_bytes_or_more_is_binary() {
        let of = |control: u8, controls: usize, others: usize| {
            [vec![control; controls], vec![b'x'; others]].concat()
        };
        for control in [0, 1, 26, 127] {
            for (controls, others) in [(4, 76), (3, 61), (63, 0), (1, 19), (204, 3892)] {
                assert!(!is_no_text(&of(control, controls, others)), "{control}");
            }
            for (controls, others) in [(5, 75), (4, 60), (64, 0), (205, 3891)] {
                assert!(is_no_text(&of(control, controls, others)), "{control}");
            }
        }
        for control in *b"\t\n\r\x1b" {
            assert!(!is_no_text(&of(control, 100, 0)), "{control}");
        }
        // From a serial line.
        let text = [&b"\0"[..], &b"12,130\n".repeat(20)].concat();
        assert_eq!(read(&text[..], 1).unwrap(), text);
        assert_eq!(read(&b"12,130\n\x1a"[..], 1).unwrap(), b"12,130\n\x1a");
    }
}

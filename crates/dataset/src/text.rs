//! Files of text that somebody names: read whole, unless they are none.

use std::io::{Error, ErrorKind, Read, Result};

/// As much as tells whether it is text.
const HEAD_BYTES: u64 = 4096;
/// More control characters than one in so many, or a zero: no text.
const CONTROL_SHARE: usize = 20;

/// All of `input`, in bytes. `most_mib` is far more than such a file has.
///
/// # Errors
/// [`ErrorKind::InvalidData`] where its first 4 KiB are no text, or where it has more than that: a device or
/// a pipe may have no end. And those of `input`.
pub fn read(mut input: impl Read, most_mib: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    (&mut input).take(HEAD_BYTES).read_to_end(&mut text)?;
    let is_control = |byte: &&u8| matches!(byte, 1..=8 | 11 | 12 | 14..=26 | 28..=31 | 127);
    let controls = text.iter().filter(is_control).count();
    if text.contains(&0) || controls * CONTROL_SHARE > text.len() {
        return Err(Error::new(ErrorKind::InvalidData, "it is no text"));
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
    use super::read;
    use std::io;

    #[test]
    fn what_is_no_text_or_has_no_end_is_refused() {
        let why = |read: io::Result<Vec<u8>>| read.unwrap_err().to_string();
        assert_eq!(why(read(io::repeat(0), 1)), "it is no text");
        assert_eq!(why(read(io::repeat(7), 1)), "it is no text");
        assert_eq!(why(read(io::repeat(b'y'), 1)), "it has more than 1 MiB");
        let whole = vec![b'y'; 1 << 20];
        assert_eq!(read(&whole[..], 1).unwrap(), whole);
        assert_eq!(read("a\tb\r\n\u{e9}".as_bytes(), 1).unwrap().len(), 7);
        assert!(read(&b""[..], 1).unwrap().is_empty());
    }

    #[test]
    fn one_control_character_in_twenty_is_text_and_more_are_none() {
        let is_text = |controls: usize, letters: usize| {
            let text = [vec![7; controls], vec![b'y'; letters]].concat();
            read(&text[..], 1).is_ok()
        };
        assert!(is_text(1, 19) && is_text(2, 38) && is_text(10, 190));
        assert!(!is_text(1, 18) && !is_text(2, 37) && !is_text(10, 189));
        // Those of lines and columns are part of it.
        assert!(read(&b"\t\t\r\n\r\n"[..], 1).is_ok());
    }

    #[test]
    fn a_zero_in_the_first_4_kib_is_no_text() {
        let with_zero = |at: usize| {
            let mut text = vec![b'y'; 5000];
            text[at] = 0;
            read(&text[..], 1).is_ok()
        };
        assert!(!with_zero(0) && !with_zero(4095));
        assert!(with_zero(4096));
    }
}

//! A log in blocks, line by line, without holding it in memory.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memrchr};

/// What is read at a time.
const BLOCK_BYTES: usize = 1 << 18;

/// No line of a kernel's log comes near: printk ends a line after 1 KiB, rsyslog after 8 KiB, and a
/// journal's entry as JSON has a few KiB. Beyond this a line is left out.
const LINE_BYTES_MAX: usize = 1 << 16;

/// A line of the file.
pub(super) enum Line<'a> {
    /// Without its end (`\n`).
    Text(&'a [u8]),
    /// Longer than [`LINE_BYTES_MAX`].
    TooLong,
}

/// An input without the end of a line in this many bytes is not a log.
const NO_LINE_BYTES_MAX: u64 = 64 << 20;

/// Gives `sink` each line of `input`; the number of lines and of bytes.
pub(super) fn each(
    mut input: impl Read,
    mut sink: impl FnMut(Line<'_>) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let (mut lines, mut bytes) = (0, 0);
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut filled = 0;
    // Within a line that is too long, of which the beginning is gone.
    let mut skipping = false;
    let mut last_end = 0;
    loop {
        let read = match input.read(&mut buffer[filled..]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        bytes += read as u64;
        let new = filled..filled + read;
        filled = new.end;
        let whole = if read == 0 {
            filled
        } else {
            memrchr(b'\n', &buffer[new.clone()]).map_or(0, |at| new.start + at + 1)
        };
        let mut rest = &buffer[..whole];
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            lines += 1;
            if std::mem::take(&mut skipping) || end > LINE_BYTES_MAX {
                sink(Line::TooLong)?;
            } else {
                sink(Line::Text(&rest[..end]))?;
            }
            rest = rest.get(end + 1..).unwrap_or(&[]);
        }
        if read == 0 {
            if skipping {
                lines += 1;
                sink(Line::TooLong)?;
            }
            return Ok((lines, bytes));
        }
        if whole > 0 {
            last_end = bytes;
        } else if bytes - last_end > NO_LINE_BYTES_MAX {
            let words = "64 MiB without the end of a line; it is not a log";
            return Err(io::Error::new(ErrorKind::InvalidData, words));
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
        if skipping || filled > LINE_BYTES_MAX {
            filled = 0;
            skipping = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes in pieces of this size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn lines_of(text: &[u8], piece: usize) -> (Vec<Option<Vec<u8>>>, u64, u64) {
        let mut found = Vec::new();
        let (lines, bytes) = each(Pieces(text, piece), |line| {
            found.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
            Ok(())
        })
        .unwrap();
        (found, lines, bytes)
    }

    #[test]
    fn lines_do_not_depend_on_the_chunks_of_the_input() {
        let text = b"one\n\nthree\r\nlast";
        let expected = [&b"one"[..], b"", b"three\r", b"last"].map(|line| Some(line.to_vec()));
        for piece in 1..=text.len() {
            let (found, lines, bytes) = lines_of(text, piece);
            assert_eq!(found, expected, "pieces of {piece}");
            assert_eq!((lines, bytes), (4, text.len() as u64));
        }
    }

    #[test]
    fn a_line_of_many_blocks_is_skipped_and_its_neighbours_are_kept() {
        for length in [
            LINE_BYTES_MAX + 1,
            BLOCK_BYTES - 7,
            BLOCK_BYTES,
            3 * BLOCK_BYTES + 5,
        ] {
            let mut text = b"before\n".to_vec();
            text.resize(text.len() + length, b'x');
            text.extend_from_slice(b"\nafter\n");
            for piece in [4096, BLOCK_BYTES, usize::MAX] {
                let (found, lines, _) = lines_of(&text, piece);
                assert_eq!(
                    found,
                    [Some(b"before".to_vec()), None, Some(b"after".to_vec())],
                    "{length} in pieces of {piece}"
                );
                assert_eq!(lines, 3);
            }
            text.truncate(7 + length);
            assert_eq!(lines_of(&text, 4096).0, [Some(b"before".to_vec()), None]);
        }
    }

    #[test]
    fn a_line_has_at_most_64_kib() {
        for (length, is_text) in [(LINE_BYTES_MAX, true), (LINE_BYTES_MAX + 1, false)] {
            let long = vec![b'x'; length];
            let text = [&long[..], b"\n"].concat();
            // In pieces that end just before its end, or with it; and without an end.
            for piece in [4096, 1000, length, usize::MAX] {
                for text in [&text[..], &long] {
                    let expected = is_text.then(|| long.clone());
                    let found = lines_of(text, piece);
                    assert_eq!(found, (vec![expected], 1, text.len() as u64), "{piece}");
                }
            }
        }
    }

    /// Fails this many times before each piece, like a read that a signal interrupts.
    struct Failing<'a>(Pieces<'a>, ErrorKind, u32);

    impl Read for Failing<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.2 > 0 {
                self.2 -= 1;
                return Err(io::Error::new(self.1, "refused"));
            }
            self.2 = 1;
            self.0.read(into)
        }
    }

    #[test]
    fn an_interrupted_read_is_retried_and_other_errors_are_reported() {
        let failing = |kind| Failing(Pieces(b"one\ntwo\n", 3), kind, 2);
        let mut found = Vec::new();
        let interrupted = each(failing(ErrorKind::Interrupted), |line| {
            if let Line::Text(text) = line {
                found.push(text.to_vec());
            }
            Ok(())
        });
        assert_eq!(interrupted.unwrap(), (2, 8));
        assert_eq!(found, [b"one", b"two"]);
        let error = each(failing(ErrorKind::PermissionDenied), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_input_without_a_line_end_in_64_mib_is_no_log() {
        // From the end of the block with the last line's end on.
        for before in [&b""[..], b"one\n"] {
            let of = |bytes: u64| each(before.chain(io::repeat(b'x').take(bytes)), |_| Ok(()));
            let lines = 1 + u64::from(!before.is_empty());
            let bytes = before.len() as u64 + NO_LINE_BYTES_MAX;
            assert_eq!(of(NO_LINE_BYTES_MAX).unwrap(), (lines, bytes));
            let error = of(NO_LINE_BYTES_MAX + 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().starts_with("64 MiB without"), "{error}");
        }
    }
}

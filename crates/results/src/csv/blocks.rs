//! A file cut into blocks at the ends of lines, so that threads can parse them apart.

use std::io::Read;

use crate::Malformed;

/// Bytes that a thread takes at once. A line must fit into it.
const BLOCK_BYTES: usize = 1 << 20;

/// A header longer than this is no header of datapoints: a thousand columns fit into it.
const HEADER_BYTES: usize = 1 << 16;

/// Whole lines.
pub(super) struct Block {
    pub(super) index: usize,
    pub(super) bytes: Vec<u8>,
    /// Nothing follows, and no newline ends the last line.
    pub(super) open_end: bool,
}

/// A file cut into blocks at the ends of lines.
pub(super) struct Blocks<R> {
    reader: R,
    carry: Vec<u8>,
    ended: bool,
    index: usize,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            carry: Vec::new(),
            ended: false,
            index: 0,
        }
    }

    /// Is all that is left in one block?
    pub(super) fn is_last(&self) -> bool {
        self.ended
    }

    /// Gives nothing more.
    pub(super) fn stop(&mut self) {
        self.ended = true;
        self.carry.clear();
    }

    /// Fills `carry` up to `limit` bytes.
    fn fill(&mut self, limit: usize) -> Result<(), Malformed> {
        if self.ended {
            return Ok(());
        }
        let missing = limit.saturating_sub(self.carry.len());
        let read = (&mut self.reader)
            .take(missing as u64)
            .read_to_end(&mut self.carry)
            .map_err(|error| Malformed::new(format!("cannot be read: {error}")))?;
        self.ended = read < missing;
        Ok(())
    }

    pub(super) fn header(&mut self) -> Result<Vec<u8>, Malformed> {
        self.fill(HEADER_BYTES)?;
        if self.carry.iter().all(u8::is_ascii_whitespace) {
            return Err(Malformed::new(
                "is empty; expected a line with the names of columns",
            ));
        }
        let end = match memchr::memchr(b'\n', &self.carry) {
            Some(end) => end,
            None if self.ended => self.carry.len(),
            None => {
                return Err(Malformed::new(format!(
                    "line 1: is longer than {HEADER_BYTES} bytes; expected the names of columns"
                )));
            }
        };
        let mut line: Vec<u8> = self.carry.drain(..end).collect();
        if !self.carry.is_empty() {
            self.carry.remove(0);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// The next whole lines; `None` after the last ones.
    pub(super) fn next(&mut self) -> Result<Option<Block>, Malformed> {
        self.fill(BLOCK_BYTES)?;
        if self.carry.is_empty() {
            return Ok(None);
        }
        let index = self.index;
        self.index += 1;
        if self.ended {
            let bytes = std::mem::take(&mut self.carry);
            let open_end = bytes.last() != Some(&b'\n');
            return Ok(Some(Block {
                index,
                bytes,
                open_end,
            }));
        }
        let Some(last) = memchr::memrchr(b'\n', &self.carry) else {
            return Err(Malformed::new(format!(
                "a line is longer than {BLOCK_BYTES} bytes; expected one datapoint a line"
            )));
        };
        let mut rest = Vec::with_capacity(BLOCK_BYTES);
        rest.extend_from_slice(&self.carry[last + 1..]);
        let mut bytes = std::mem::replace(&mut self.carry, rest);
        bytes.truncate(last + 1);
        Ok(Some(Block {
            index,
            bytes,
            open_end: false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &[u8]) -> Vec<Block> {
        let mut blocks = Blocks::new(text);
        assert_eq!(blocks.header().unwrap(), b"header");
        let mut found = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            found.push(block);
        }
        assert!(blocks.is_last());
        found
    }

    #[test]
    fn blocks_one_after_another_are_the_file_cut_at_ends_of_lines() {
        let line = |n: usize| format!("{n},\u{e4}\n");
        for (more, open_end) in [("", false), ("7", true)] {
            let rows: String = (0..400_000).map(line).collect::<String>() + more;
            let blocks = cut(format!("header\r\n{rows}").as_bytes());
            assert!(blocks.len() >= 3, "{}", blocks.len());
            for (at, block) in blocks.iter().enumerate() {
                let is_last = at + 1 == blocks.len();
                assert_eq!(block.index, at);
                assert_eq!(block.open_end, is_last && open_end);
                assert!(block.bytes.len() <= BLOCK_BYTES);
                assert_eq!(block.bytes.ends_with(b"\n"), !block.open_end);
            }
            let joined: Vec<u8> = blocks.into_iter().flat_map(|block| block.bytes).collect();
            assert!(joined == rows.as_bytes());
        }
    }

    #[test]
    fn a_line_or_a_header_that_is_too_long_is_refused() {
        let header = |n: usize, end: &str| {
            let text = "h".repeat(n) + end;
            Blocks::new(text.as_bytes())
                .header()
                .map(|header| header.len())
        };
        assert_eq!(header(HEADER_BYTES - 1, "\n1\n").unwrap(), HEADER_BYTES - 1);
        assert_eq!(header(HEADER_BYTES - 1, "").unwrap(), HEADER_BYTES - 1);
        let wrong = header(HEADER_BYTES, "\n1\n").unwrap_err().to_string();
        assert!(wrong.contains("line 1: is longer"), "{wrong}");
        let wrong = header(0, " \n").unwrap_err().to_string();
        assert!(wrong.contains("is empty"), "{wrong}");
        let text = format!("header\n{}\n1\n", "9".repeat(BLOCK_BYTES));
        let mut blocks = Blocks::new(text.as_bytes());
        blocks.header().unwrap();
        let wrong = blocks.next().err().unwrap().to_string();
        assert!(wrong.contains("a line is longer"), "{wrong}");
    }

    #[test]
    fn nothing_more_is_read_after_a_stop_or_the_end() {
        /// Fails where it is read again after its end.
        struct Once<'a>(&'a [u8], bool);
        impl Read for Once<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                assert!(!self.1, "read after the end");
                let read = self.0.read(into)?;
                self.1 = read == 0 && !into.is_empty();
                Ok(read)
            }
        }
        let mut blocks = Blocks::new(Once(b"header\n1\n2\n", false));
        assert_eq!(blocks.header().unwrap(), b"header");
        assert!(blocks.is_last());
        assert_eq!(blocks.next().unwrap().unwrap().bytes, b"1\n2\n");
        assert!(blocks.next().unwrap().is_none());

        let text = format!("header\n{}", "1\n".repeat(BLOCK_BYTES));
        let mut blocks = Blocks::new(text.as_bytes());
        blocks.header().unwrap();
        assert!(!blocks.is_last());
        assert!(blocks.next().unwrap().is_some());
        blocks.stop();
        assert!(blocks.is_last());
        assert!(blocks.next().unwrap().is_none());
        assert!(blocks.next().unwrap().is_none());
    }

    #[test]
    fn a_header_is_the_first_line_without_its_end() {
        let header = |text: &str| Blocks::new(text.as_bytes()).header().unwrap();
        for text in ["a,b", "a,b\n", "a,b\r\n", "a,b\n1,2\n", "a,b\r\n1,2\r\n"] {
            assert_eq!(header(text), b"a,b", "{text:?}");
        }
        let mut blocks = Blocks::new(&b"a,b\n\n1,2"[..]);
        blocks.header().unwrap();
        let block = blocks.next().unwrap().unwrap();
        assert_eq!((block.bytes, block.open_end), (b"\n1,2".to_vec(), true));
    }
}

//! The kernel's log, record by record.
//!
//! Each `read()` of /dev/kmsg brings one: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];TEXT`, then a
//! newline, then lines that start with a space and describe the device. Bytes of the text that are
//! not printed are `\xHH`.
//! Source: Documentation/ABI/testing/dev-kmsg.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc::O_NONBLOCK;
use reveille_kernel::Root;

/// More than the kernel makes of one record.
/// Source: kernel/printk/internal.h, PRINTK_MESSAGE_MAX.
const RECORD_BYTES: usize = 64 << 10;

/// How much there was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    pub kept: u64,
    /// Written over before it could be read.
    pub lost: u64,
}

/// A place in the log, from which on it is read.
pub struct KernelLog {
    file: File,
    /// The number of the next record, once one was seen.
    next: Option<u64>,
}

impl KernelLog {
    /// From the log's present end on.
    pub fn open(root: &Root) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(root.path("dev/kmsg"))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, next: None })
    }

    /// Writes what came since the last time, as dmesg shows it.
    pub fn drain(&mut self, out: &mut impl Write) -> io::Result<Drained> {
        let mut drained = Drained::default();
        let mut buffer = vec![0; RECORD_BYTES];
        loop {
            let bytes = match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => &buffer[..length],
                // The record that was next is gone; the one after the gap is next.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let Some(record) = Record::parse(bytes) else {
                continue;
            };
            let next = self.next.unwrap_or(record.number);
            drained.lost += record.number.saturating_sub(next);
            self.next = Some(record.number + 1);
            drained.kept += 1;
            record.write(out)?;
        }
        Ok(drained)
    }
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    number: u64,
    micros: u64,
    text: Vec<u8>,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let semicolon = bytes.iter().position(|&byte| byte == b';')?;
        let head = std::str::from_utf8(&bytes[..semicolon]).ok()?;
        let mut fields = head.split(',').skip(1);
        let number = fields.next()?.parse().ok()?;
        let micros = fields.next()?.parse().ok()?;
        let text = bytes[semicolon + 1..].split(|&byte| byte == b'\n').next()?;
        Some(Self {
            number,
            micros,
            text: unescape(text),
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        for line in self.text.split(|&byte| byte == b'\n') {
            write!(out, "[{seconds:5}.{micros:06}] ")?;
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, others @ ..] = rest {
        let escaped = rest.strip_prefix(b"\\x").and_then(|digits| {
            let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &rest[4..]
        } else {
            others
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        Record::parse(bytes).unwrap().write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_becomes_a_line_as_dmesg_shows_it() {
        let record = b"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n";
        assert_eq!(
            shown(record),
            "[    5.140900] NET: Registered protocol family 10\n"
        );
        let with_caller =
            b"7,2000,123456789012,-,caller=T171;sd 0:0:0:0: PM: calling scsi_bus_resume\n";
        assert_eq!(
            shown(with_caller),
            "[123456.789012] sd 0:0:0:0: PM: calling scsi_bus_resume\n"
        );
    }

    #[test]
    fn escaped_bytes_are_restored_and_each_line_has_its_time() {
        assert_eq!(
            shown(b"4,1,7,-;one\\x0atwo \\x5cx41 \\xzz\n"),
            "[    0.000007] one\n[    0.000007] two \\x41 \\xzz\n"
        );
    }

    #[test]
    fn other_text_is_skipped() {
        for bytes in [&b""[..], b"6,1", b"6,x,1,-;text\n", b"no record;text\n"] {
            assert_eq!(Record::parse(bytes), None);
        }
    }
}

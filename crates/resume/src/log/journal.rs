//! A journal's entries as `journalctl -o json` and `-o export` write them (systemd, "Journal Export
//! Formats").

use serde::Deserialize;

use super::prefix::Clock;
use super::stamp::Cursor;
use crate::cycle::Us;

/// A kernel message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) us: Us,
    pub(super) clock: Clock,
    pub(super) message: Vec<u8>,
}

#[derive(Deserialize)]
struct Json {
    #[serde(rename = "_TRANSPORT")]
    transport: Option<String>,
    #[serde(rename = "MESSAGE")]
    message: Option<serde_json::Value>,
    #[serde(rename = "_SOURCE_MONOTONIC_TIMESTAMP")]
    monotonic: Option<String>,
    /// Since systemd 257.
    #[serde(rename = "_SOURCE_BOOTTIME_TIMESTAMP")]
    boottime: Option<String>,
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    realtime: Option<String>,
}

/// An entry that is the kernel's.
pub(super) fn of_json(line: &[u8]) -> Option<Entry> {
    memchr::memmem::find(line, b"\"kernel\"")?;
    let json: Json = serde_json::from_slice(line).ok()?;
    if json.transport.as_deref() != Some("kernel") {
        return None;
    }
    let message = match json.message? {
        serde_json::Value::String(text) => text.into_bytes(),
        // Bytes that are no UTF-8.
        serde_json::Value::Array(bytes) => bytes
            .iter()
            .map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let kernel = json.monotonic.or(json.boottime);
    entry(
        kernel.as_deref().map(str::as_bytes),
        json.realtime.as_deref().map(str::as_bytes),
        message,
    )
}

fn entry(monotonic: Option<&[u8]>, realtime: Option<&[u8]>, message: Vec<u8>) -> Option<Entry> {
    let kernel = monotonic.map(|text| (text, Clock::Kernel));
    let (text, clock) = kernel.or(realtime.map(|text| (text, Clock::Wall)))?;
    let us = Cursor(text).number().filter(|&us| us < 1 << 55)? as Us;
    Some(Entry { us, clock, message })
}

/// The fields of an entry for export, line by line.
#[derive(Debug, Default)]
pub(super) struct Export {
    inside: bool,
    of_kernel: bool,
    message: Option<Vec<u8>>,
    monotonic: Option<Vec<u8>>,
    realtime: Option<Vec<u8>>,
}

impl Export {
    /// `None`: not a line of an export. `Some(Some(…))`: an entry ends with it.
    pub(super) fn line(&mut self, line: &[u8]) -> Option<Option<Entry>> {
        if !self.inside {
            // Some programs write an entry without its cursor.
            let begins: [&[u8]; 3] = [
                b"__CURSOR=",
                b"__REALTIME_TIMESTAMP=",
                b"__MONOTONIC_TIMESTAMP=",
            ];
            if !begins.iter().any(|begin| line.starts_with(begin)) {
                return None;
            }
            *self = Self {
                inside: true,
                ..Self::default()
            };
        }
        if line.is_empty() {
            let ended = std::mem::take(self);
            let (monotonic, realtime) = (ended.monotonic.as_deref(), ended.realtime.as_deref());
            let entry = entry(monotonic, realtime, ended.message.unwrap_or_default());
            return Some(entry.filter(|_| ended.of_kernel));
        }
        let value = |name: &[u8]| line.strip_prefix(name).map(<[u8]>::to_vec);
        if line == b"_TRANSPORT=kernel" {
            self.of_kernel = true;
        } else if let Some(text) = value(b"MESSAGE=") {
            self.message = Some(text);
        } else if let Some(text) =
            value(b"_SOURCE_MONOTONIC_TIMESTAMP=").or_else(|| value(b"_SOURCE_BOOTTIME_TIMESTAMP="))
        {
            self.monotonic = Some(text);
        } else if let Some(text) = value(b"__REALTIME_TIMESTAMP=") {
            self.realtime = Some(text);
        }
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Entry {
        Entry {
            us: 12_345_678,
            clock: Clock::Kernel,
            message: b"PM: suspend exit".to_vec(),
        }
    }

    #[test]
    fn a_json_entry_has_its_message_and_the_kernels_time() {
        let json = r#"{"_TRANSPORT":"kernel","MESSAGE":"PM: suspend exit","_HOSTNAME":"h","_SOURCE_MONOTONIC_TIMESTAMP":"12345678","__REALTIME_TIMESTAMP":"1795284000123456"}"#;
        assert_eq!(of_json(json.as_bytes()), Some(expected()));
        let bytes = json.replace(
            r#""PM: suspend exit""#,
            "[80,77,58,32,115,117,115,112,101,110,100,32,101,120,105,116]",
        );
        assert_eq!(of_json(bytes.as_bytes()), Some(expected()));
        let other = json.replace(r#""_TRANSPORT":"kernel""#, r#""_TRANSPORT":"syslog""#);
        assert_eq!(of_json(other.as_bytes()), None);
        assert_eq!(of_json(&json.as_bytes()[..40]), None);
    }

    #[test]
    fn an_export_entry_ends_with_an_empty_line() {
        let mut export = Export::default();
        assert_eq!(export.line(b"[ 12.3] PM: suspend exit"), None);
        for line in [
            "__CURSOR=s=1",
            "__REALTIME_TIMESTAMP=1795284000123456",
            "_TRANSPORT=kernel",
            "MESSAGE=PM: suspend exit",
            "_SOURCE_MONOTONIC_TIMESTAMP=12345678",
        ] {
            assert_eq!(export.line(line.as_bytes()), Some(None), "{line}");
        }
        assert_eq!(export.line(b""), Some(Some(expected())));
        assert_eq!(export.line(b""), None);
        // Without its cursor, which a filter may drop.
        for line in [
            "__REALTIME_TIMESTAMP=1795284000123456",
            "_TRANSPORT=kernel",
            "MESSAGE=PM: suspend exit",
            "_SOURCE_MONOTONIC_TIMESTAMP=12345678",
        ] {
            assert_eq!(export.line(line.as_bytes()), Some(None), "{line}");
        }
        assert_eq!(export.line(b""), Some(Some(expected())));
    }

    #[test]
    fn an_entry_without_the_kernels_time_has_the_journals_and_without_both_is_skipped() {
        let json =
            |fields: &str| of_json(format!("{{\"_TRANSPORT\":\"kernel\",{fields}}}").as_bytes());
        let entry = |us, clock| {
            Some(Entry {
                us,
                clock,
                message: b"x".to_vec(),
            })
        };
        let monotonic = |us: &str| {
            json(&format!(
                r#""MESSAGE":"x","_SOURCE_MONOTONIC_TIMESTAMP":"{us}""#
            ))
        };
        assert_eq!(
            json(r#""MESSAGE":"x","__REALTIME_TIMESTAMP":"1795284000123456""#),
            entry(1_795_284_000_123_456, Clock::Wall)
        );
        assert_eq!(json(r#""MESSAGE":"x""#), None);
        // 2^55 us are a thousand years.
        assert_eq!(
            monotonic("36028797018963967"),
            entry(36_028_797_018_963_967, Clock::Kernel)
        );
        assert_eq!(monotonic("36028797018963968"), None);
        assert_eq!(monotonic("x"), None);
        // A message too long for the journal is null, and bytes have 256 values.
        for message in ["null", "7", "[256]", "[-1]", "[\"x\"]"] {
            let text = format!(r#""MESSAGE":{message},"_SOURCE_MONOTONIC_TIMESTAMP":"7""#);
            assert_eq!(json(&text), None, "{message}");
        }
        assert_eq!(json(r#""_SOURCE_MONOTONIC_TIMESTAMP":"7""#), None);
    }

    #[test]
    fn only_the_kernels_entries_of_an_export_are_read() {
        let mut export = Export::default();
        let mut lines = |lines: &[&str]| {
            let mut found = lines.iter().map(|line| export.line(line.as_bytes()));
            let within: Vec<_> = found.by_ref().take(lines.len() - 1).collect();
            assert!(within.iter().all(|line| *line == Some(None)));
            found.next().unwrap()
        };
        let begin = "__CURSOR=s=1";
        let time = "_SOURCE_MONOTONIC_TIMESTAMP=12345678";
        let message = "MESSAGE=PM: suspend exit";
        let kernel = "_TRANSPORT=kernel";
        let entry = Some(Some(expected()));
        assert_eq!(lines(&[begin, time, message, kernel, ""]), entry);
        assert_eq!(
            lines(&[begin, "_TRANSPORT=syslog", time, message, ""]),
            Some(None)
        );
        // An entry that another one follows without an end affects no other.
        assert_eq!(lines(&[begin, time, message, ""]), Some(None));
        assert_eq!(lines(&[begin, kernel, message, ""]), Some(None));
        assert_eq!(lines(&[begin, kernel, time, message, ""]), entry);
        let wall = Entry {
            us: 1_795_284_000_123_456,
            clock: Clock::Wall,
            message: Vec::new(),
        };
        let realtime = "__REALTIME_TIMESTAMP=1795284000123456";
        assert_eq!(lines(&[begin, kernel, realtime, ""]), Some(Some(wall)));
    }
}

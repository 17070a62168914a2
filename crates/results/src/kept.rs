//! What a command other than `measure` keeps: one JSON file in a folder (`cost.json`, `path.json`,
//! `trial.json`, `bench.json`), with the version of its schema in it.

use std::path::PathBuf;
use std::time::SystemTime;

use reveille_kernel::{Identity, Idle};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::description::Ended;
use crate::output::{Existing, Folder};
use crate::{Result, schema};

/// The first fields of `trial.json` and `bench.json`: who made it, when, where, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Version of the file's schema.
    pub schema_version: u32,
    /// `reveille 0.1.0`.
    pub tool: String,
    /// Its name in reports.
    pub name: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program and its arguments, as given.
    pub command_line: Vec<String>,
    /// What ended the run.
    pub ended: Ended,
    /// The machine it ran on.
    pub machine: Identity,
    /// cpuidle's driver before the run; `None` if none is registered.
    pub driver: Option<String>,
    /// cpuidle's governor before the run; `None` if there is none.
    pub governor: Option<String>,
}

/// What every result has of its run: who made it, when and where. Each file has these fields among its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// `reveille 0.1.0`.
    pub tool: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program and its arguments, as given.
    pub command_line: Vec<String>,
    /// The machine it ran on.
    pub machine: Identity,
    /// cpuidle's driver, if any.
    pub driver: Option<String>,
    /// cpuidle's governor, if any.
    pub governor: Option<String>,
}

impl Header {
    /// Of a run of this process.
    pub fn of(started: SystemTime, machine: Identity, idle: &Idle) -> Self {
        Self {
            tool: tool(),
            started: instant(started),
            command_line: command_line(),
            machine,
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
        }
    }
}

/// The program and its arguments; bytes that are not UTF-8 are replaced.
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The version that writes a result: `reveille 0.1.0`.
pub fn tool() -> String {
    concat!("reveille ", env!("CARGO_PKG_VERSION")).to_owned()
}

/// An instant as results have it: RFC 3339, UTC, whole seconds.
pub fn instant(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Writes such a file into `folder`, which must not hold one: in one line, since it may have every turn of a
/// long run.
pub fn write(result: &impl Serialize, file: &str, folder: &Folder) -> Result<PathBuf> {
    let text = serde_json::to_vec(result).expect("a result is plain data");
    folder.write(file, Existing::Stays, &text)
}

/// As [`write()`], a small file: a line for each value, for people and for `diff`.
pub fn write_pretty(result: &impl Serialize, file: &str, folder: &Folder) -> Result<PathBuf> {
    let mut text = serde_json::to_vec_pretty(result).expect("a result is plain data");
    text.push(b'\n');
    folder.write(file, Existing::Stays, &text)
}

/// Reads the text of such a file; `knows` is the version of its schema that this program reads. The error is
/// one line without the file's path: it is another file, was cut short, or has another schema.
pub fn parse<T: DeserializeOwned>(
    text: &[u8],
    file: &str,
    knows: u32,
) -> std::result::Result<T, String> {
    let wrong = |error: serde_json::Error| {
        // It quotes the file, which may have any character.
        let error = error.to_string().replace(char::is_control, " ");
        format!("is not a {file} of reveille, or was cut short: {error}")
    };
    // The version comes first: a newer file may differ in everything else.
    match schema::version(text).map_err(wrong)? {
        Some(version) if version == knows => serde_json::from_slice(text).map_err(wrong),
        Some(other) => Err(format!(
            "has schema version {other}, but this program reads {knows}; use another version of \
             reveille"
        )),
        None => Err(format!(
            "has no schema_version; it is not a {file} of reveille"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Nap {
        minutes: u32,
        kind: Option<Kind>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Kind {}

    const NAP: &[u8] = br#"{"schema_version": 3, "minutes": 20}"#;

    #[test]
    fn a_kept_result_can_be_read() {
        let nap = Nap {
            minutes: 20,
            kind: None,
        };
        assert_eq!(parse(NAP, "nap.json", 3), Ok(nap));
    }

    #[test]
    fn another_schema_and_a_partial_file_are_refused_in_a_line() {
        let refused = |text: &[u8], knows| parse::<Nap>(text, "nap.json", knows).unwrap_err();
        assert!(refused(NAP, 2).contains("schema version 3"));
        // A newer one may have an entirely different format.
        assert!(refused(b"{\"schema_version\": 4, \"hours\": 1}", 3).contains("version 4"));
        assert!(refused(&NAP[..20], 3).contains("is not a nap.json of reveille"));
        assert!(refused(b"{\"minutes\": 1}", 3).contains("no schema_version"));
        assert!(refused(b"[]", 3).contains("is not a nap.json"));
        let broken = br#"{"schema_version": 3, "minutes": 1, "kind": "a\nb"}"#;
        assert!(!refused(broken, 3).contains('\n'), "{}", refused(broken, 3));
    }
}

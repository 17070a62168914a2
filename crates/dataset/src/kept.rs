//! What a command other than `measure` keeps: one JSON file in a folder (`cost.json`, `path.json`,
//! `trial.json`, `bench.json`), with the version of its schema in it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Writes this text as `file` into `folder`, which is made where it is not there: all of it, or none.
///
/// # Errors
/// [`Error::Io`] where it cannot be written.
pub fn write(text: &[u8], folder: &Path, file: &str) -> Result<PathBuf> {
    let path = folder.join(file);
    let partial = folder.join(format!("{file}.partial"));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&partial, text))
        .and_then(|()| fs::rename(&partial, &path));
    match written {
        Ok(()) => Ok(path),
        Err(source) => {
            // What there is of it is of no use, and may be in the way of a full disk.
            let _ = fs::remove_file(&partial);
            Err(Error::Io { path, source })
        }
    }
}

/// Reads the text of such a file; `knows` is the version of its schema that this program knows.
///
/// # Errors
/// One line without the file's path: it is none, was cut short, or has another schema.
pub fn parse<T: DeserializeOwned>(
    text: &[u8],
    file: &str,
    knows: u32,
) -> std::result::Result<T, String> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: Option<u32>,
    }
    let wrong = |error: serde_json::Error| {
        // It quotes the file, which may have any character.
        let error = error.to_string().replace(char::is_control, " ");
        format!("is no {file} of reveille, or was cut short: {error}")
    };
    // The version comes first: a newer file may differ in everything else.
    let version: Version = serde_json::from_slice(text).map_err(wrong)?;
    match version.schema_version {
        Some(version) if version == knows => serde_json::from_slice(text).map_err(wrong),
        Some(other) => Err(format!(
            "has schema version {other}, and this program knows {knows}; read it with another \
             reveille"
        )),
        None => Err(format!(
            "has no schema_version; it is no {file} of reveille"
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
    fn what_is_kept_is_read_again_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let path = write(NAP, &inner, "nap.json").unwrap();
        assert_eq!(path, inner.join("nap.json"));
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
        let text = fs::read(path).unwrap();
        let nap = Nap {
            minutes: 20,
            kind: None,
        };
        assert_eq!(parse(&text, "nap.json", 3), Ok(nap));
    }

    #[test]
    fn another_schema_and_half_a_file_are_refused_in_a_line() {
        let refused = |text: &[u8], knows| parse::<Nap>(text, "nap.json", knows).unwrap_err();
        assert!(refused(NAP, 2).contains("schema version 3"));
        // A newer one may have another form altogether.
        assert!(refused(b"{\"schema_version\": 4, \"hours\": 1}", 3).contains("version 4"));
        assert!(refused(&NAP[..20], 3).contains("is no nap.json of reveille"));
        assert!(refused(b"{\"minutes\": 1}", 3).contains("no schema_version"));
        assert!(refused(b"[]", 3).contains("is no nap.json"));
        let broken = br#"{"schema_version": 3, "minutes": 1, "kind": "a\nb"}"#;
        assert!(!refused(broken, 3).contains('\n'), "{}", refused(broken, 3));
    }

    #[test]
    fn where_it_cannot_be_written_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("nap.json/full")).unwrap();
        let error = write(NAP, folder.path(), "nap.json").unwrap_err();
        assert!(error.to_string().contains("nap.json"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

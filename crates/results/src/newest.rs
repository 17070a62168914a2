//! The newest result in a folder of results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use crate::folder::DESCRIPTION;
use crate::{open_description, show};

/// A larger file, such as one with every turn of a long run, is not read.
const BYTES_MAX: u64 = 4 << 20;

/// A result, as far as it is known without its datapoints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Newest {
    /// Its folder.
    pub folder: PathBuf,
    /// RFC 3339, UTC; empty where it is unknown.
    pub started: String,
    /// The program and its arguments; empty where they are unknown.
    pub command_line: Vec<String>,
    /// Its conclusion; `None` for a result of another command than `measure`, and for one without
    /// datapoints.
    pub answer: Option<String>,
}

/// What every kept result has among its first fields.
#[derive(Deserialize)]
struct Head {
    tool: String,
    #[serde(default)]
    started: String,
    #[serde(default)]
    command_line: Vec<String>,
}

/// The result below `folder` whose file was written last; `None` where there is none that can be read.
pub fn newest(folder: &Path) -> Option<Newest> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for result in fs::read_dir(folder).ok()?.flatten() {
        let inside = fs::read_dir(result.path()).into_iter().flatten().flatten();
        files.extend(inside.filter_map(|file| {
            let metadata = file.metadata().ok()?;
            let is_json = Path::new(&file.file_name()).extension()? == "json";
            // A link or a FIFO is no result.
            (metadata.is_file() && is_json).then_some((metadata.modified().ok()?, file.path()))
        }));
    }
    files.sort();
    files.iter().rev().find_map(|(_, file)| read(file))
}

fn read(file: &Path) -> Option<Newest> {
    let folder = file.parent()?.to_owned();
    if file.file_name()? == DESCRIPTION {
        let description = open_description(&folder).ok()?;
        let answer = show::summary(&description).answer;
        return Some(Newest {
            started: description.started.clone(),
            command_line: description.command_line.clone(),
            answer: (!answer.is_empty()).then_some(answer),
            folder,
        });
    }
    if fs::metadata(file).ok()?.len() > BYTES_MAX {
        return Some(Newest {
            folder,
            ..Newest::default()
        });
    }
    let head: Head = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    head.tool.starts_with("reveille ").then_some(Newest {
        folder,
        started: head.started,
        command_line: head.command_line,
        answer: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, file: &str, text: &str, seconds: u64) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn the_file_written_last_is_the_newest_and_what_is_no_result_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(newest(folder), None);
        assert_eq!(newest(&folder.join("missing")), None);
        let cost = r#"{"tool": "reveille 0.1.0", "started": "2026-11-23T10:00:00Z",
            "command_line": ["reveille", "cost"]}"#;
        put(folder, "a/cost.json", cost, 20);
        put(folder, "b/trial.json", r#"{"tool": "reveille 0.1.0"}"#, 10);
        put(folder, "c/other.json", r#"{"tool": "another"}"#, 30);
        put(folder, "c/broken.json", "{", 40);
        put(folder, "d.json", cost, 50);
        put(folder, "e/result.json", "{}", 60);
        put(folder, "e/report.html", "", 70);
        std::os::unix::fs::symlink("/dev/zero", folder.join("e/zero.json")).unwrap();
        let found = newest(folder).unwrap();
        assert_eq!(found.folder, folder.join("a"));
        assert_eq!(found.started, "2026-11-23T10:00:00Z");
        assert_eq!(found.command_line, ["reveille", "cost"]);
        put(folder, "b/trial.json", r#"{"tool": "reveille 0.1.0"}"#, 21);
        assert_eq!(newest(folder).unwrap().folder, folder.join("b"));
        put(folder, "f/trial.json", "", 22);
        let long = fs::File::options()
            .write(true)
            .open(folder.join("f/trial.json"));
        long.unwrap().set_len(BYTES_MAX + 1).unwrap();
        put(folder, "b/trial.json", r#"{"tool": "reveille 0.1.0"}"#, 21);
        assert_eq!(newest(folder).unwrap().folder, folder.join("f"));
    }
}

//! The page of messages in the book names messages that the program has.

use std::fs;
use std::path::{Path, PathBuf};

/// Rust sources of the workspace, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The source's text, each string on one line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        joined += part.trim_start();
    }
    joined
}

/// The longest piece of a message that stands in the source as it is: `...` and single capitals stand for
/// figures and names.
fn literal(message: &str) -> &str {
    let is_figure = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        ["NAME", "IF", "PEER"].contains(&word)
            || (word.len() == 1 && word.chars().all(char::is_uppercase))
    };
    let mut pieces = vec![];
    for part in message.split(['.', ',', ';', ':', '`']) {
        let mut start = 0;
        let mut at = 0;
        for word in part.split_inclusive(' ') {
            if is_figure(word) {
                pieces.push(part[start..at].trim());
                start = at + word.len();
            }
            at += word.len();
        }
        pieces.push(part[start..].trim());
    }
    pieces.into_iter().max_by_key(|piece| piece.len()).unwrap()
}

#[test]
fn the_program_has_each_message_of_the_troubleshooting_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![];
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        sources(&folder.join("src"), &mut files);
        // What is put together of pieces: as tests have seen it.
        let said = fs::read_dir(folder.join("tests/snapshots"));
        files.extend(said.into_iter().flatten().map(|file| file.unwrap().path()));
    }
    let text: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let text = joined(&text.concat());
    let page = fs::read_to_string(root.join("docs/src/guide/troubleshooting.md")).unwrap();
    let (mut is_messages, mut messages) = (false, 0);
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cell = line.split('|').nth(1).unwrap().trim();
        match cell {
            "message" => is_messages = true,
            "symptom" => is_messages = false,
            _ if cell.starts_with("---") || !is_messages => {}
            _ => {
                let piece = literal(cell);
                assert!(piece.len() > 5, "{cell}: nothing to look for");
                assert!(text.contains(piece), "{cell}: no source has {piece:?}");
                messages += 1;
            }
        }
    }
    assert!(messages > 40, "{messages}");
}

//! The response to bad input.

use std::process::Command;

use crate::program::run;

/// One line on standard error with these words, and that exit code.
pub fn complains(command: &mut Command, code: i32, words: &str) {
    let ended = run(command);
    assert_eq!(ended.code, code, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

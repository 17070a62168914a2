//! Reviewed files of what the program says: `tests/snapshots/KIND.txt` of a crate has all sentences of one kind, a
//! section for each test that sees some. `make/accept` writes them anew; the difference is reviewed like code.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// With this variable tests write the files that they otherwise compare.
const ACCEPT: &str = "REVEILLE_ACCEPT";

/// Of the tests of one program: they are threads of it, and cargo runs one program after the other.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether files are written rather than compared.
pub fn is_accepting() -> bool {
    std::env::var_os(ACCEPT).is_some()
}

/// `snapshot!("kind", cases)` compares what is said in each case, an iterator of (case, what is said), with the
/// calling test's section of the file of this kind; a test calls it once for each kind.
#[macro_export]
macro_rules! snapshot {
    ($kind:expr, $cases:expr) => {{
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots");
        $crate::check(folder, $kind, std::any::type_name_of_val(&|| ()), $cases)
    }};
}

/// What [`snapshot!`] does; `closure`: the name of one in the test.
///
/// # Panics
///
/// If it differs, with what does; and if a file cannot be read or written.
#[track_caller]
pub fn check<C: Display, S: Display>(
    folder: &str,
    kind: &str,
    closure: &str,
    cases: impl IntoIterator<Item = (C, S)>,
) {
    let path = closure.trim_end_matches("::{{closure}}").split("::");
    let path: Vec<&str> = path.filter(|part| *part != "tests").collect();
    // The file and the function: a name stays when its file becomes a module.
    let test = &path[path.len().saturating_sub(2)..].join("::");
    let mut said = String::new();
    for (case, words) in cases {
        writeln!(said, "{case}").expect("a string takes all");
        for line in words.to_string().lines() {
            let line = format!("    {line}");
            writeln!(said, "{}", line.trim_end()).expect("a string takes all");
        }
    }
    assert!(!said.contains("\n# "), "a case begins as a section: {said}");
    let file = Path::new(folder).join(format!("{kind}.txt"));
    if is_accepting() {
        return write(&file, test, said);
    }
    let reviewed = sections(&file).remove(test).unwrap_or_default();
    assert!(
        reviewed == said,
        "{}: make/accept writes it anew\n{}",
        file.display(),
        difference(&reviewed, &said)
    );
}

fn sections(file: &PathBuf) -> BTreeMap<String, String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let sections = text.strip_prefix("# ").unwrap_or(&text).split("\n\n# ");
    sections
        .filter_map(|section| section.split_once("\n\n"))
        .map(|(test, said)| {
            (
                test.to_owned(),
                format!("{}\n", said.trim_end_matches('\n')),
            )
        })
        .collect()
}

fn write(file: &PathBuf, test: &str, said: String) {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sections = sections(file);
    match said.is_empty() {
        true => sections.remove(test),
        false => sections.insert(test.to_owned(), said),
    };
    let sections: Vec<String> = sections
        .iter()
        .map(|(test, said)| format!("# {test}\n\n{said}"))
        .collect();
    let folder = file.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).expect("the crate's folder is writable");
    fs::write(file, sections.join("\n")).expect("the crate's folder is writable");
}

/// The lines of both between those that they begin and end with alike.
fn difference(reviewed: &str, said: &str) -> String {
    let (reviewed, said): (Vec<&str>, Vec<&str>) =
        (reviewed.lines().collect(), said.lines().collect());
    let alike = |(a, b): &(&&str, &&str)| a == b;
    let begin = reviewed.iter().zip(&said).take_while(alike).count();
    let (reviewed, said) = (&reviewed[begin..], &said[begin..]);
    let end = reviewed.iter().rev().zip(said.iter().rev());
    let end = end.take_while(alike).count();
    let marked = |mark: char, lines: &[&str]| -> String {
        let lines = &lines[..lines.len() - end];
        lines
            .iter()
            .map(|line| format!("{mark} {line}\n"))
            .collect()
    };
    marked('-', reviewed) + &marked('+', said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_compared_with_this_tests_section() {
        snapshot!("example", [("one line", "a"), ("two lines", "b\nc")]);
    }

    #[test]
    fn an_empty_section_is_no_section() {
        snapshot!("example", [] as [(&str, &str); 0]);
    }

    #[test]
    fn only_what_differs_is_printed() {
        assert_eq!(difference("a\nb\nc\n", "a\nd\ne\nc\n"), "- b\n+ d\n+ e\n");
        assert_eq!(difference("a\na\n", "a\n"), "- a\n");
        assert_eq!(difference("", "a\n"), "+ a\n");
    }

    #[test]
    fn another_word_fails_with_the_file_and_the_difference() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots");
        if is_accepting() {
            return;
        }
        let test = "reveille_snapshot::tests::what_is_said_is_compared_with_this_tests_section";
        let failed = std::panic::catch_unwind(|| {
            check(
                folder,
                "example",
                test,
                [("one line", "a"), ("two lines", "b\nd")],
            );
        });
        let why = failed.unwrap_err().downcast::<String>().unwrap();
        assert!(why.contains("example.txt") && why.ends_with("-     c\n+     d\n"));
    }
}

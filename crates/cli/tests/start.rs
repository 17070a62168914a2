//! `reveille` without a command: on a terminal, into a pipe, as another user.

use crate::program::{as_nobody, reveille, run};
use crate::terminal::{COLUMNS, LINES, in_terminal};

fn plain(styled: &str) -> String {
    let parts = styled.split("\x1b[");
    let texts = parts.enumerate().map(|(place, part)| match place {
        0 => part,
        _ => part.split_once('m').expect("only styles").1,
    });
    texts.collect::<String>().replace('\r', "")
}

/// Machine and questions, with room for the prompt.
fn fits(text: &str) {
    assert!(text.starts_with("CPU "), "{text}");
    assert!(text.lines().count() < usize::from(LINES), "{text}");
    let widths = text.lines().map(|line| line.chars().count());
    assert!(widths.max() <= Some(usize::from(COLUMNS)), "{text}");
    for part in ["\nNext ", "  reveille measure\n", "  reveille doctor\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_terminal_shows_the_machine_and_the_questions_without_scrolling() {
    let folder = tempfile::tempdir().unwrap();
    let (code, shown) = in_terminal(reveille().current_dir(folder.path()));
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("\x1b[1mreveille measure\x1b[0m"),
        "{shown:?}"
    );
    fits(&plain(&shown));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_script_gets_the_same_text_and_notices_by_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = reveille();
    command.current_dir(folder.path());
    let ended = run(&mut command);
    assert_eq!(ended.code, 2);
    assert_eq!(
        ended.stderr,
        "reveille: no command is given; `reveille --help` lists them\n"
    );
    fits(&String::from_utf8(command.output().unwrap().stdout).unwrap());
}

#[test]
fn another_user_is_told_what_root_would_add() {
    let Some((folder, mut command)) = as_nobody() else {
        return println!("skipped: another_user_is_told_what_root_would_add: needs root");
    };
    let (code, shown) = in_terminal(command.current_dir(folder.path()));
    let shown = plain(&shown);
    assert_eq!(code, Some(0), "{shown}");
    fits(&shown);
    assert!(shown.contains("Next    `sudo reveille measure`"), "{shown}");
}

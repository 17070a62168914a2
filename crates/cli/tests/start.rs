//! `reveille` without a command: on a terminal, into a pipe, as another user.

mod program;

use std::fs::File;
use std::io::Read;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use program::{as_nobody, reveille, run};

const COLUMNS: u16 = 80;
const LINES: u16 = 24;

/// The exit code, and what a terminal of 80 times 24 characters is sent.
fn in_terminal(command: &mut Command) -> (Option<i32>, String) {
    let size = Winsize {
        ws_row: LINES,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None).unwrap();
    // The child must not hold the other end: it would never be closed.
    fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    fcntl(&pty.slave, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    let end = || pty.slave.try_clone().unwrap();
    command.stdin(end()).stdout(end()).stderr(end());
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut child = command.spawn().unwrap();
    // The command keeps ends of its own.
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    drop(pty.slave);
    let mut shown = Vec::new();
    // It ends with an error once the other end is closed.
    let _ = File::from(pty.master).read_to_end(&mut shown);
    let code = child.wait().unwrap().code();
    (code, String::from_utf8(shown).unwrap())
}

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

//! The program in terminals: one of the usual size, and a harness of what long commands do in theirs.

mod commands;
mod screen;
mod session;
mod top;

use std::fs::File;
use std::io::Read;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};

pub const COLUMNS: u16 = 80;
pub const LINES: u16 = 24;

/// The exit code, and what a terminal of 80 times 24 characters is sent.
pub fn in_terminal(command: &mut Command) -> (Option<i32>, String) {
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
    command.env("TERM", "xterm");
    if command.get_envs().all(|(name, _)| name != "NO_COLOR") {
        command.env_remove("NO_COLOR");
    }
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

//! Running the program as a user would.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How it ended.
pub struct Ended {
    pub code: i32,
    pub stderr: String,
}

pub fn reveille() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    heeding(&mut command);
    command
}

/// If the tests run in the background of a shell, they ignore some signals. The program would
/// inherit that.
fn heeding(command: &mut Command) {
    use nix::sys::signal::{SigHandler, Signal, signal};
    let before_exec = || {
        for one in [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ] {
            // SAFETY: SIG_DFL is no handler.
            unsafe { signal(one, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) is called.
    unsafe { command.pre_exec(before_exec) };
}

pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Copies a program by a separate process: a file that this one has open for writing would be
/// inherited by children that other tests start at that moment, and cannot be executed until they
/// have ended.
fn copy(program: &str, to: &std::path::Path) {
    let copied = Command::new("cp").arg(program).arg(to).status().unwrap();
    assert!(copied.success());
}

/// The program as the user nobody, with a folder that the user nobody may write; `None` without
/// root.
pub fn as_nobody() -> Option<(tempfile::TempDir, Command)> {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    // The build's folder may be closed to others: a copy in an open one.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = folder.path().join("reveille");
    copy(env!("CARGO_BIN_EXE_reveille"), &program);
    let mut command = Command::new(program);
    heeding(&mut command);
    command.uid(NOBODY).gid(NOBODY);
    Some((folder, command))
}

//! Running the program as a user would.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

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

/// A journal, whose settings are restored at its end: a test that fails kills what it runs.
struct Journal(tempfile::TempDir);

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = with_journal(reveille(), self.0.path())
            .arg("restore")
            .output();
    }
}

thread_local! {
    /// A test's, for each is a thread.
    static JOURNAL: Journal = Journal(tempfile::tempdir().unwrap());
}

/// Without a terminal, also where these tests have one: SIGHUP has services read their files again then.
pub fn without_terminal(command: &mut Command) -> &mut Command {
    let before_exec = || nix::unistd::setsid().map(drop).map_err(Into::into);
    // SAFETY: between fork and exec only setsid(2) is called.
    unsafe { command.pre_exec(before_exec) }
}

/// The folder of [`with_own_journal`].
pub fn own_journal() -> PathBuf {
    JOURNAL.with(|journal| journal.0.path().to_owned())
}

/// With a journal that only this test's commands know: every start of the program undoes what a killed run has left in
/// the common one, before the test that killed it has looked. Only root has one.
pub fn with_own_journal(command: Command) -> Command {
    match nix::unistd::geteuid().is_root() {
        true => with_journal(command, &own_journal()),
        false => command,
    }
}

fn with_journal(mut command: Command, folder: &Path) -> Command {
    let common = reveille_kernel::journal::FOLDER;
    std::fs::create_dir_all(common).unwrap();
    let folder = folder.to_owned();
    let before_exec = move || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        Ok(mount(Some(&folder), common, none, MsFlags::MS_BIND, none)?)
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(before_exec) };
    command
}

/// If the tests run in the background of a shell, they ignore some signals. The program would
/// inherit that. And it ends with the test that started it, also where that fails: what it holds would be in the way
/// of others.
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
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) and prctl(2) are called.
    unsafe { command.pre_exec(before_exec) };
}

pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Links a program; where that cannot be, on another disk, it is copied by a separate process: a file that this one has
/// open for writing would be inherited by children that other tests start at that moment, and cannot be executed until
/// they have ended.
fn put(program: &str, into: &Path) -> PathBuf {
    let to = into.join(Path::new(program).file_name().unwrap());
    if std::fs::hard_link(program, &to).is_err() {
        let copied = Command::new("cp").arg(program).arg(&to).status().unwrap();
        assert!(copied.success());
    }
    to
}

/// The program as the user nobody, with a folder that the user nobody may write; `None` without
/// root.
pub fn as_nobody() -> Option<(tempfile::TempDir, Command)> {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    // The build's folder may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    put(env!("CARGO_BIN_EXE_reveille-services"), folder.path());
    let program = put(env!("CARGO_BIN_EXE_reveille"), folder.path());
    let mut command = Command::new(program);
    heeding(&mut command);
    command.uid(NOBODY).gid(NOBODY);
    Some((folder, command))
}

/// Whether this process was started for that test alone. If not, it starts one, and waits for it: the test changes what
/// all tests of a process share.
pub fn in_own_process(test: &str) -> bool {
    const FOR: &str = "REVEILLE_TEST_ALONE";
    if std::env::var(FOR).is_ok_and(|started| started == test) {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(FOR, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines().filter(|line| line.contains("skipped")) {
        println!("{line}");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
    false
}

/// `reveille` in its own PID namespace, as in a container; `None`, with a message, if that is
/// unavailable.
pub fn in_a_pid_namespace(test: &str, script: &str) -> Option<Output> {
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "sh", "-c", script])
        .env("REVEILLE", env!("CARGO_BIN_EXE_reveille"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) || stderr.starts_with("unshare:") {
        println!("skipped: {test}: {}", stderr.trim());
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    Some(output)
}

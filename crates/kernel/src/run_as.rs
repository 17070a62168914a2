//! Runs a user's command with the rights of the user who called `sudo`, or of a named user, and with none of
//! this process's own descriptors.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{AccessFlags, Uid};

use crate::{Account, Error, Result};

/// The descriptors above 2 that this process inherited (a shell's `3>file`, the jobserver of `make`) and
/// their limit.
///
/// They are passed on to the command, unlike what this process opens, and a limit that it raises.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    descriptors: Vec<RawFd>,
    /// The soft limit and the hard one.
    most: Option<(u64, u64)>,
}

impl Inherited {
    /// Call it first in `main`, before anything is opened. Empty without /proc.
    pub fn at_start() -> Self {
        let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
        let number =
            |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        // The folder's own descriptor is closed at exec.
        let mut all: Vec<RawFd> = entries
            .filter_map(number)
            .filter(|&descriptor| descriptor > 2 && survives_exec(descriptor))
            .collect();
        all.sort_unstable();
        Self {
            descriptors: all,
            most: getrlimit(Resource::RLIMIT_NOFILE).ok(),
        }
    }
}

fn survives_exec(descriptor: RawFd) -> bool {
    // SAFETY: the call reads the flags of a number; where it is no descriptor it fails.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// How a user's command is run.
#[derive(Debug, Clone, Default)]
pub struct RunAs {
    /// `None`: with the rights of this process.
    account: Option<Account>,
    inherited: Inherited,
}

impl RunAs {
    /// As the user of that name or number; by default as the user who called `sudo`, else as this process.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown user, and for another user if this process is not root.
    pub fn new(user: Option<&str>, inherited: Inherited) -> Result<Self> {
        let own = Uid::effective();
        let account = match user {
            None => Account::behind_sudo(),
            Some(user) => Some(Account::find(user)?).filter(|account| account.uid != own.as_raw()),
        };
        match account {
            Some(account) if !own.is_root() => Err(Error::Usage(format!(
                "--user {}: only root can run a command as another user; use sudo",
                account.name
            ))),
            account => Ok(Self { account, inherited }),
        }
    }

    /// The user's name, if it is not this process's own user.
    pub fn user(&self) -> Option<&str> {
        Some(&self.account.as_ref()?.name)
    }

    /// The path of a program, as execvp(3) finds it with that user's rights.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such program, or the user may not execute it.
    pub fn find(&self, name: &OsStr) -> Result<PathBuf> {
        let Some(account) = &self.account else {
            return find(name);
        };
        let rights = Rights::of(account);
        // Rights belong to a thread; this one ends after the search.
        let looked = std::thread::scope(|scope| {
            let look = scope.spawn(|| rights.take().map(|()| find(name)));
            look.join().expect("looking does not panic")
        });
        let found = looked.map_err(|error| {
            Error::Cannot(format!(
                "cannot get the rights of {}: {error}",
                account.name
            ))
        })?;
        found.map_err(|error| match find(name) {
            Ok(path) => Error::Usage(format!(
                "{}: {} may not execute it; --user root runs it as root",
                path.display(),
                account.name
            )),
            Err(_) => error,
        })
    }

    /// A pipe for the command to write to, owned by the user, so that the command may reopen it as
    /// /dev/stdout or /dev/stderr.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn pipe(&self) -> io::Result<(PipeReader, PipeWriter)> {
        let (reads, writes) = io::pipe()?;
        if let Some(account) = &self.account {
            std::os::unix::fs::fchown(&writes, Some(account.uid), Some(account.gid))?;
        }
        Ok((reads, writes))
    }

    /// Sets the command up with the user's rights and environment, the inherited descriptors and their
    /// limit; other descriptors above 2 are closed.
    ///
    /// The command gets no capability. `HOME`, `USER`, `LOGNAME` and `SHELL` become the user's, `MAIL` and
    /// sudo's variables are removed.
    pub fn apply(&self, command: &mut Command) {
        let rights = self.account.as_ref().map(|account| {
            set_environment(command, account);
            Rights::of(account)
        });
        let inherited = self.inherited.clone();
        let before_exec = move || {
            if let Some(rights) = &rights {
                rights.take()?;
            }
            keep_only(&inherited.descriptors);
            // Last: closing one by one asks for the limit.
            match inherited.most {
                Some((soft, hard)) => Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?),
                None => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure makes system calls only, on memory that was
        // allocated before: no allocation, no lock. Its errors are numbers.
        unsafe { command.pre_exec(before_exec) };
    }
}

fn set_environment(command: &mut Command, account: &Account) {
    command
        .env("HOME", &account.home)
        .env("SHELL", &account.shell)
        .env("USER", &account.name)
        .env("LOGNAME", &account.name)
        // The mailbox of the former user.
        .env_remove("MAIL");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SUDO_") {
            command.env_remove(name);
        }
    }
}

/// An account's rights, ready to be taken between fork and exec.
struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Rights {
    fn of(account: &Account) -> Self {
        Self {
            uid: account.uid,
            gid: account.gid,
            groups: account.groups.clone(),
        }
    }

    /// Gives the calling thread these rights and no others, for good: groups, ids and no capability.
    /// The bounding set stays, as it is in every process of a user: it grants nothing.
    ///
    /// By the kernel's own calls: those of the C library change every thread of a process.
    fn take(&self) -> io::Result<()> {
        #[cfg(any(target_arch = "arm", target_arch = "x86"))]
        use libc::SYS_setresuid32 as SETRESUID;
        #[cfg(not(any(target_arch = "arm", target_arch = "x86")))]
        use libc::{
            SYS_setgroups as SETGROUPS, SYS_setresgid as SETRESGID, SYS_setresuid as SETRESUID,
        };
        #[cfg(any(target_arch = "arm", target_arch = "x86"))]
        use libc::{SYS_setgroups32 as SETGROUPS, SYS_setresgid32 as SETRESGID};
        let Self { uid, gid, groups } = self;
        // SAFETY: the kernel reads as many groups as there are.
        made(unsafe { libc::syscall(SETGROUPS, groups.len(), groups.as_ptr()) })?;
        // SAFETY: the call takes three numbers.
        made(unsafe { libc::syscall(SETRESGID, *gid, *gid, *gid) })?;
        // SAFETY: the call takes three numbers.
        made(unsafe { libc::syscall(SETRESUID, *uid, *uid, *uid) })?;
        drop_capabilities()
    }
}

/// Leaving uid 0 clears the permitted and effective sets, unless the securebits prevent it, and
/// never the inheritable one. The ambient set is within both.
fn drop_capabilities() -> io::Result<()> {
    // capget(2): version 3, of two words for each set, and this thread.
    let header = [0x2008_0522_u32, 0];
    // Effective, permitted and inheritable, twice.
    let none = [0_u32; 6];
    // SAFETY: the kernel reads the header and as many words as its version has.
    made(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) })
}

fn made(returned: libc::c_long) -> io::Result<()> {
    Errno::result(returned)?;
    Ok(())
}

/// Has all descriptors above 2 closed at the exec but these, which ascend.
fn keep_only(these: &[RawFd]) {
    let mut first = 3;
    for &kept in these {
        close_at_exec(first, kept - 1);
        first = kept + 1;
    }
    close_at_exec(first, RawFd::MAX);
}

fn close_at_exec(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: the call takes three numbers and changes flags of descriptors.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    // Linux before 5.11 has not the flag, and a sandbox may refuse the call.
    if done < 0 {
        close_one_by_one_at_exec(first, last);
    }
}

fn close_one_by_one_at_exec(first: RawFd, last: RawFd) {
    // A new descriptor is below the limit.
    // SAFETY: sysconf(3) takes a number; between fork and exec it may be called.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    let last = RawFd::try_from(limit).map_or(last, |limit| last.min(limit));
    for descriptor in first..=last {
        // SAFETY: the call sets a flag; where the number is no descriptor it fails.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

fn find(name: &OsStr) -> Result<PathBuf> {
    let shown = name.to_string_lossy();
    if name.as_encoded_bytes().contains(&b'/') {
        let path = Path::new(name);
        return match (path.is_file(), may_run(path)) {
            (true, true) => Ok(path.to_owned()),
            (true, false) => Err(Error::Usage(format!("{shown}: may not be executed"))),
            (false, _) => Err(Error::Usage(format!("{shown}: no such program"))),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && may_run(path))
        .ok_or_else(|| Error::Usage(format!("{shown}: no such command in PATH")))
}

fn may_run(path: &Path) -> bool {
    nix::unistd::access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn nobody(groups: &[u32]) -> RunAs {
        RunAs {
            account: Some(Account {
                name: "nobody".into(),
                uid: 65534,
                gid: 65534,
                groups: groups.to_vec(),
                home: "/nonexistent".into(),
                shell: "/usr/sbin/nologin".into(),
            }),
            inherited: Inherited::default(),
        }
    }

    fn is_root(test: &str) -> bool {
        let is_root = Uid::effective().is_root();
        if !is_root {
            println!("skipped: {test}: needs root");
        }
        is_root
    }

    fn said(run_as: &RunAs, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_as.apply(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A descriptor that exec does not close, with a high number: lower ones change.
    fn left_open() -> OwnedFd {
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the call makes a new descriptor, which has no other owner.
        let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 500) };
        assert!(copy >= 500);
        // SAFETY: as above.
        unsafe { OwnedFd::from_raw_fd(copy) }
    }

    #[test]
    fn a_command_has_the_users_ids_and_groups_and_no_capability() {
        if !is_root("a_command_has_the_users_ids_and_groups_and_no_capability") {
            return;
        }
        let status = said(&nobody(&[65534, 7, 9]), "cat /proc/self/status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(field("Uid:"), ["65534"; 4]);
        assert_eq!(field("Gid:"), ["65534"; 4]);
        assert_eq!(field("Groups:"), ["7", "9", "65534"]);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{set}");
        }
    }

    #[test]
    fn the_environment_is_the_users_and_has_nothing_of_sudo() {
        if !is_root("the_environment_is_the_users_and_has_nothing_of_sudo") {
            return;
        }
        let environment = said(&nobody(&[65534]), "env");
        let value = |name: &str| environment.lines().find_map(|line| line.strip_prefix(name));
        assert_eq!(value("HOME="), Some("/nonexistent"));
        assert_eq!(value("SHELL="), Some("/usr/sbin/nologin"));
        assert_eq!(
            (value("USER="), value("LOGNAME=")),
            (Some("nobody"), Some("nobody"))
        );
        assert_eq!(value("PATH="), std::env::var("PATH").ok().as_deref());
        assert_eq!((value("MAIL="), value("SUDO_")), (None, None));
    }

    #[test]
    fn only_inherited_descriptors_reach_the_command() {
        let (ours, theirs, also_ours) = (left_open(), left_open(), left_open());
        let list = "ls /proc/$$/fd";
        let mut run_as = RunAs::default();
        assert_eq!(said(&run_as, list), "0\n1\n2\n");
        run_as.inherited.descriptors = vec![theirs.as_raw_fd()];
        assert_eq!(
            said(&run_as, list),
            format!("0\n1\n2\n{}\n", theirs.as_raw_fd())
        );
        drop((ours, also_ours));
    }

    #[test]
    fn if_the_kernel_cannot_close_a_range_each_is_closed() {
        let ours = left_open();
        let mut command = Command::new("ls");
        command.arg("/proc/self/fd");
        let before_exec = || {
            close_one_by_one_at_exec(3, RawFd::MAX);
            Ok(())
        };
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(before_exec) };
        let output = command.output().unwrap();
        // `ls` itself opens the folder.
        assert_eq!(output.stdout, b"0\n1\n2\n3\n", "{output:?}");
        drop(ours);
    }

    #[test]
    fn the_target_user_can_reopen_a_pipe() {
        use std::io::Read;
        if !is_root("the_target_user_can_reopen_a_pipe") {
            return;
        }
        let run_as = nobody(&[65534]);
        let (mut reads, writes) = run_as.pipe().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo heard >/dev/stdout"])
            .stdout(writes);
        run_as.apply(&mut command);
        assert!(command.status().unwrap().success());
        drop(command);
        let mut heard = String::new();
        reads.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "heard\n");
    }

    #[test]
    fn inherited_descriptors_are_those_that_exec_leaves_open() {
        let (theirs, ours) = (left_open(), std::fs::File::open("/dev/null").unwrap());
        let inherited = Inherited::at_start().descriptors;
        assert!(inherited.contains(&theirs.as_raw_fd()), "{inherited:?}");
        assert!(!inherited.contains(&ours.as_raw_fd()), "{inherited:?}");
        assert!(inherited.is_sorted() && inherited.iter().all(|descriptor| *descriptor > 2));
    }

    #[test]
    fn a_program_is_looked_up_with_the_users_rights() {
        if !is_root("a_program_is_looked_up_with_the_users_rights") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(RunAs::default().find(program.as_os_str()).unwrap(), program);
        let refused = nobody(&[65534]).find(program.as_os_str()).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("may not execute it") && refused.contains("--user root"),
            "{refused}"
        );
        // The lookup has restored this thread's rights.
        assert!(Uid::effective().is_root() && std::fs::read(&program).is_ok());
        assert!(nobody(&[65534]).find("sh".as_ref()).is_ok());
        let missing = nobody(&[65534])
            .find("no-such-command".as_ref())
            .unwrap_err();
        let missing = missing.to_string();
        assert!(missing.ends_with("no such command in PATH"), "{missing}");
    }
}

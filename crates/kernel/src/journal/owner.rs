//! The process that claims a setting, and whether it still runs.

use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use nix::sys::statfs::fstatfs;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// include/uapi/linux/magic.h; numbers of files there are unique until the next boot (Linux 6.9).
const PID_FS_MAGIC: i64 = 0x5049_4446;

/// include/linux/sched.h: the process gives back what it has.
const PF_EXITING: u64 = 0x4;

/// A process that was killed still runs while the kernel takes its programs out of the way, for some 0.7 s on two CPUs.
const ENDING_MS: u16 = 5000;

/// A process; its PID alone may be reused, or be of another PID namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Owner {
    pub pid: u32,
    /// Field 22 of /proc/PID/stat, clock ticks since boot (proc(5)), without this time namespace's offset.
    started: i64,
    /// The number of its pidfd's file; `None` on kernels where it is not unique.
    pidfd: Option<u64>,
    /// The number of its PID namespace's file (namespaces(7)).
    namespace: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Result<Self> {
        let pid = std::process::id();
        let (started, _) = stat(pid).ok_or_else(|| {
            let why =
                "/proc/self/stat: this process's start time is unreadable; mount proc on /proc";
            Error::Cannot(why.to_owned())
        })?;
        Ok(Self {
            pid,
            started,
            pidfd: pidfd(pid).ok().as_ref().and_then(unique_number),
            namespace: namespace()?,
        })
    }

    /// What tells it from every other process of this boot.
    pub fn unique(&self) -> String {
        format!("{}-{}-{}", self.namespace, self.pid, self.started)
    }

    /// Whether its PID is valid in this process's PID namespace.
    pub fn is_known_here(&self) -> bool {
        namespace().is_ok_and(|here| here == self.namespace)
    }

    /// Whether it has not ended; a zombie has. The end of one that was killed is waited for, as it changes nothing
    /// more and whoever killed it wants its settings back now.
    pub fn runs(&self) -> bool {
        match pidfd(self.pid) {
            Ok(process) => {
                let same = match (unique_number(&process), self.pidfd) {
                    (Some(number), Some(ours)) => number == ours,
                    _ => stat(self.pid).is_some_and(|(started, _)| self.is_same(started)),
                };
                same && !has_ended(&process, PollTimeout::ZERO)
                    && !(is_ending(self.pid) && has_ended(&process, PollTimeout::from(ENDING_MS)))
            }
            Err(Errno::ESRCH) => false,
            // A kernel without pidfds (before 5.3), or no descriptor left.
            Err(_) => stat(self.pid).is_some_and(|(started, state)| {
                self.is_same(started) && !matches!(state, 'Z' | 'X')
            }),
        }
    }

    /// To a tick, by which offsets of time namespaces are rounded: no PID is reused so soon.
    fn is_same(&self, started: i64) -> bool {
        self.started.abs_diff(started) <= 1
    }
}

/// Start time and state of a process.
fn stat(pid: u32) -> Option<(i64, char)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command in field 2 may hold spaces and parentheses: count from its last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let shifted: i64 = fields.nth(18)?.parse().ok()?;
    Some((shifted - boot_offset(), state))
}

/// By how many clock ticks this process's time namespace shifts the start times that it reads (time_namespaces(7)).
fn boot_offset() -> i64 {
    const TICKS_PER_S: i64 = 100;
    const NS_PER_TICK: i64 = 1_000_000_000 / TICKS_PER_S;
    // The file is of the namespace that children get.
    let [own, of_children] =
        ["time", "time_for_children"].map(|one| fs::read_link(format!("/proc/self/ns/{one}")).ok());
    let offsets = match own == of_children {
        true => fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default(),
        false => String::new(),
    };
    let boottime = offsets
        .lines()
        .find_map(|line| line.strip_prefix("boottime"));
    let parts: Vec<i64> = boottime
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|part| part.parse().ok())
        .collect();
    match parts[..] {
        [seconds, ns] => seconds * TICKS_PER_S + ns / NS_PER_TICK,
        _ => 0,
    }
}

fn pidfd(pid: u32) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = Errno::result(opened)? as i32;
    // SAFETY: a descriptor that the kernel has just made, and that nothing else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn unique_number(process: &OwnedFd) -> Option<u64> {
    // Before Linux 6.9 all pidfds share one file.
    (fstatfs(process).ok()?.filesystem_type().0 == PID_FS_MAGIC)
        .then(|| fstat(process).map(|file| file.st_ino).ok())?
}

/// Whether it was killed, or ends by itself.
fn is_ending(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status
        .lines()
        .filter(|line| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"));
    let masks = pending.filter_map(|line| u64::from_str_radix(line[7..].trim(), 16).ok());
    let killed = 1 << (libc::SIGKILL - 1);
    // A killed process has taken its signal by the time that it is exiting.
    masks.into_iter().any(|mask| mask & killed != 0)
        || flags(pid).is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Field 9 of /proc/PID/stat.
fn flags(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(6)?
        .parse()
        .ok()
}

fn has_ended(process: &OwnedFd, patience: PollTimeout) -> bool {
    let mut waited = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, patience).is_ok_and(|ready| ready > 0)
}

fn namespace() -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let path = "/proc/self/ns/pid";
    let file = fs::metadata(path).map_err(Error::at_setting(path.as_ref()))?;
    Ok(file.ino())
}

#[cfg(test)]
impl Owner {
    /// Pretends to be another process of that number.
    pub fn gone(&mut self) {
        self.started += 1;
        self.pidfd = self.pidfd.map(|number| number + 1);
    }

    pub fn elsewhere(&mut self) {
        self.namespace += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use reveille_alone::is_apart;

    use super::*;

    fn owner(pid: u32) -> Owner {
        Owner {
            pid,
            started: stat(pid).unwrap().0,
            pidfd: pidfd(pid).ok().as_ref().and_then(unique_number),
            namespace: namespace().unwrap(),
        }
    }

    #[test]
    fn a_time_namespace_does_not_shift_the_start() {
        const TEST: &str = "journal::owner::tests::a_time_namespace_does_not_shift_the_start";
        if !is_apart(
            TEST,
            &["unshare", "--time", "--boottime", "86400", "--fork"],
        ) {
            return;
        }
        let this = std::process::id();
        let text = fs::read_to_string(format!("/proc/{this}/stat")).unwrap();
        let fields = text.rsplit_once(')').unwrap().1;
        let shifted: i64 = fields.split_whitespace().nth(19).unwrap().parse().unwrap();
        let (started, _) = stat(this).unwrap();
        assert_eq!(shifted - started, 86_400 * 100);
        assert!(Owner::this().unwrap().is_same(started));
    }

    #[test]
    fn a_killed_process_is_not_running_even_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = owner(child.id());
        assert!(owner.runs());
        child.kill().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while owner.runs() {
            assert!(std::time::Instant::now() < end, "it still runs");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!owner.runs());
    }

    #[test]
    fn the_end_of_a_killed_process_is_waited_for() {
        // Many threads take a while to end.
        let child = Command::new("python3")
            .args(["-c", "import threading,time\nfor _ in range(300): threading.Thread(target=time.sleep,args=(1000,)).start()\nprint(flush=True)"])
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            return println!("skipped: the end of a killed process: python3 is missing");
        };
        let mut ready = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let owner = owner(child.id());
        assert!(owner.runs());
        child.kill().unwrap();
        assert!(!owner.runs());
        child.wait().unwrap();
    }

    #[test]
    fn another_process_with_the_same_number_is_different() {
        let this = Owner::this().unwrap();
        assert!(this.runs() && this.is_known_here());
        let mut other = this.clone();
        other.gone();
        assert!(!other.runs());
        let mut elsewhere = this;
        elsewhere.elsewhere();
        assert!(!elsewhere.is_known_here());
    }
}

//! The process behind a connection, as the kernel reports it.
//!
//! The process is watched by a pidfd. Since Linux 6.5 the socket provides it (SO_PEERPIDFD), also for a
//! process of another PID namespace. Before, it is opened by PID, and a process that began after the
//! connection was accepted is another one that has reused the PID. (A reuse before that is not noticed:
//! the connection then ends with the successor.) A process of another PID namespace has PID 0 there and
//! is not watched: its connection ends with the last process that holds it.

use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::Owner;

/// The same on every architecture but SPARC; asm-generic/socket.h.
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected.
pub(super) fn owner(socket: &OwnedFd) -> nix::Result<Owner> {
    let peer = getsockopt(socket, PeerCredentials)?;
    Ok(Owner {
        pid: peer.pid(),
        uid: peer.uid(),
    })
}

/// A descriptor that is readable once the process has ended, `None` if it cannot be watched; ESRCH if it
/// has ended.
pub(super) fn watch(socket: &OwnedFd, owner: Owner) -> nix::Result<Option<OwnedFd>> {
    let accepted = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    match of_socket(socket) {
        Ok(process) => Ok(Some(process)),
        Err(Errno::ENOPROTOOPT) if owner.pid <= 0 => Ok(None),
        Err(Errno::ENOPROTOOPT) => of_number(owner.pid, accepted.tv_sec(), accepted.tv_nsec()),
        // The kernel returns EINVAL or ENODATA for a process that has been waited for.
        Err(Errno::EINVAL | Errno::ENODATA) => Err(Errno::ESRCH),
        Err(errno) => Err(errno),
    }
}

fn of_socket(socket: &OwnedFd) -> nix::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length = mem::size_of_val(&descriptor) as libc::socklen_t;
    // SAFETY: the kernel writes a descriptor's number and its length to where they live.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut length,
        )
    };
    Errno::result(got)?;
    // SAFETY: the kernel has just opened it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// pidfd_open(2); `None` where the kernel lacks it (before 5.3).
fn of_number(pid: i32, seconds: i64, ns: i64) -> nix::Result<Option<OwnedFd>> {
    // SAFETY: the call takes plain values.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let process = match Errno::result(opened) {
        // SAFETY: the kernel has just opened it, for us alone.
        Ok(descriptor) => unsafe { OwnedFd::from_raw_fd(descriptor as i32) },
        Err(Errno::ENOSYS) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let a_second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100);
    let accepted = seconds * a_second + ns * a_second / 1_000_000_000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    match stat.ok().as_deref().and_then(began) {
        Some(began) if began > accepted => Err(Errno::ESRCH),
        _ => Ok(Some(process)),
    }
}

/// When a process began, ticks since boot: field 22 of its `stat`, counted after field 2 (the command).
fn began(stat: &str) -> Option<i64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::sys::time::TimeSpec;

    use super::*;

    fn now() -> TimeSpec {
        clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap()
    }

    #[test]
    fn a_process_that_started_after_the_connection_is_not_the_peer() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let watched = |seconds| of_number(pid, seconds, 0).map(|process| process.is_some());
        let of_accepting = now().tv_sec();
        assert_eq!(watched(of_accepting + 1), Ok(true));
        assert_eq!(watched(of_accepting - 10), Err(Errno::ESRCH));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(watched(of_accepting + 1), Err(Errno::ESRCH));
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_start_time() {
        let mut fields = vec!["1".to_owned(), "(a) b) 7 7)".to_owned(), "S".to_owned()];
        fields.extend((4..=52).map(|n: i32| n.to_string()));
        assert_eq!(began(&fields.join(" ")), Some(22));
        assert_eq!(began("1 (a) S"), None);
    }

    #[test]
    fn the_kernel_identifies_the_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let socket = OwnedFd::from(one);
        let owner = owner(&socket).unwrap();
        assert_eq!(owner.pid, std::process::id() as i32);
        assert!(watch(&socket, owner).unwrap().is_some());
    }
}

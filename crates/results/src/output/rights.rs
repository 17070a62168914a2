//! With whose rights output files are made.

use std::io;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Gid, Uid, getgroups, setfsgid, setfsuid};
use reveille_kernel::Account;

/// The rights of this process, or those of the user behind sudo.
#[derive(Debug, Clone)]
pub(super) struct Rights(Option<Account>);

impl Rights {
    /// Whom to write for, the first choice first: the user behind sudo, then this process itself.
    pub(super) fn choices() -> Vec<Self> {
        let user = Account::behind_sudo().map(|account| Self(Some(account)));
        user.into_iter().chain([Self(None)]).collect()
    }

    /// Who owns the files that are made.
    pub(super) fn owner(&self) -> u32 {
        match &self.0 {
            Some(account) => account.uid,
            None => Uid::effective().as_raw(),
        }
    }

    /// Until the value is dropped, this thread reaches files with these rights. The kernel refuses them if
    /// the account does not exist in this user namespace.
    pub(super) fn take(&self) -> io::Result<Taken> {
        Taken::new(self.0.as_ref())
    }
}

/// What the thread had before, to be put back. The kernel keeps these identities for each thread
/// (credentials(7)); a thread that is started meanwhile would inherit them for good.
pub(super) struct Taken {
    before: Option<(Uid, Gid, Vec<Gid>)>,
    /// Bound to its thread.
    thread: PhantomData<*const ()>,
}

/// setfsuid(2) and setfsgid(2) change nothing for this number, and report the present one.
const PRESENT: u32 = u32::MAX;

impl Taken {
    fn new(account: Option<&Account>) -> io::Result<Self> {
        let mut taken = Self {
            before: None,
            thread: PhantomData,
        };
        let Some(account) = account else {
            return Ok(taken);
        };
        let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
        let present = (
            setfsuid(Uid::from_raw(PRESENT)),
            setfsgid(Gid::from_raw(PRESENT)),
            getgroups()?,
        );
        let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
        set_groups_of_thread(&groups)?;
        taken.before = Some(present);
        setfsgid(gid);
        // Last: with it the kernel takes root's powers over files (capabilities(7)).
        setfsuid(uid);
        let is_taken =
            setfsuid(Uid::from_raw(PRESENT)) == uid && setfsgid(Gid::from_raw(PRESENT)) == gid;
        match is_taken {
            true => Ok(taken),
            false => Err(Errno::EPERM.into()),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some((uid, gid, groups)) = self.before.take() else {
            return;
        };
        setfsuid(uid);
        setfsgid(gid);
        let groups = set_groups_of_thread(&groups);
        // What this thread did next with another's rights would be wrong in ways nobody expects.
        if groups.is_err() || setfsuid(Uid::from_raw(PRESENT)) != uid {
            std::process::abort();
        }
    }
}

/// The C library's setgroups(2) changes all threads.
fn set_groups_of_thread(groups: &[Gid]) -> io::Result<()> {
    #[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
    const SETGROUPS: libc::c_long = libc::SYS_setgroups;
    // There the old call takes numbers of 16 bits.
    #[cfg(any(target_arch = "x86", target_arch = "arm"))]
    const SETGROUPS: libc::c_long = libc::SYS_setgroups32;
    // SAFETY: the kernel reads so many group ids (Gid is transparent over gid_t) from the slice.
    let set = unsafe { libc::syscall(SETGROUPS, groups.len(), groups.as_ptr()) };
    Errno::result(set)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rights_apply_to_one_thread_and_are_restored_even_by_a_panic() {
        if !Uid::effective().is_root() {
            return println!("skipped: rights_apply_to_one_thread...: needs root");
        }
        let account = Account {
            name: "somebody".into(),
            uid: 12345,
            gid: 12346,
            groups: vec![12346, 12347],
            home: "/".into(),
            shell: "/bin/sh".into(),
        };
        let status = || fs::read_to_string("/proc/thread-self/status").unwrap();
        let rights = Rights(Some(account));
        let before = status();
        let here = |status: &str| -> Vec<String> {
            let ours = |line: &&str| {
                ["Uid:", "Gid:", "Groups:", "CapEff:"]
                    .iter()
                    .any(|field| line.starts_with(field))
            };
            status.lines().filter(ours).map(str::to_owned).collect()
        };
        let panicked = std::panic::catch_unwind(|| {
            let taken = rights.take().unwrap();
            let during = status();
            assert!(during.contains("Uid:\t0\t0\t0\t12345"), "{during}");
            assert!(during.contains("Gid:\t0\t0\t0\t12346"), "{during}");
            assert!(during.contains("Groups:\t12346 12347"), "{during}");
            let other = std::fs::read_to_string(format!("/proc/{}/status", std::process::id()));
            assert!(other.unwrap().contains("Uid:\t0\t0\t0\t0"));
            assert_eq!(rights.owner(), 12345);
            std::panic::resume_unwind(Box::new(taken.before.is_some()));
        });
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&true));
        assert_eq!(here(&status()), here(&before));
    }
}

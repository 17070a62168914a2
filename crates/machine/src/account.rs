//! User accounts: whose rights a file is written with, and a command is run with.

use std::ffi::{CStr, CString};
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, getgrouplist};

use crate::{Error, Result};

/// An account of this machine, as its user database describes it (getpwnam(3), getgrouplist(3)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// As a number.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups, the primary one among them.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: PathBuf,
    /// Its login shell.
    pub shell: PathBuf,
}

/// The group of nobody: what the kernel shows for a group that it cannot name (user_namespaces(7)).
const OVERFLOW_GID: u32 = 65_534;

impl Account {
    /// The account of that name, or of that number.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown account.
    pub fn find(name: &str) -> Result<Self> {
        let by_name = User::from_name(name).ok().flatten();
        let by_number = || User::from_uid(Uid::from_raw(name.parse().ok()?)).ok()?;
        let user = by_name.or_else(by_number);
        user.map(Self::of)
            .ok_or_else(|| Error::Usage(format!("unknown user {name:?}")))
    }

    /// Who called `sudo`, where this process is root by sudo on behalf of another user.
    ///
    /// sudo says so in `SUDO_UID`; a variable that whoever is not root has set means nothing, since
    /// the process then has no other rights than theirs.
    pub fn behind_sudo() -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let uid = number("SUDO_UID").filter(|&uid| uid != 0)?;
        if let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) {
            return Some(Self::of(user));
        }
        // An account of a directory that does not answer at present.
        let gid = number("SUDO_GID").unwrap_or(OVERFLOW_GID);
        Some(Self {
            name: std::env::var("SUDO_USER").unwrap_or_else(|_| uid.to_string()),
            uid,
            gid,
            groups: vec![gid],
            home: "/".into(),
            shell: "/bin/sh".into(),
        })
    }

    fn of(user: User) -> Self {
        let name = CString::new(user.name.as_str()).unwrap_or_default();
        Self {
            groups: groups(&name, user.gid),
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            home: user.dir,
            shell: user.shell,
        }
    }
}

/// The primary group alone where the group database cannot be read.
fn groups(name: &CStr, primary: Gid) -> Vec<u32> {
    let listed = getgrouplist(name, primary).unwrap_or_else(|_| vec![primary]);
    listed.into_iter().map(Gid::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_name_and_its_number() {
        let root = Account::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Account::find("0").unwrap(), root);
        let unknown = Account::find("no such account").unwrap_err().to_string();
        assert!(unknown.contains("no such account"), "{unknown}");
    }
}

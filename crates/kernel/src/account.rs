//! User accounts, for ownership of files and for running commands.

use std::ffi::{CStr, CString};
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, getgrouplist};

use crate::{Error, Result};

/// An account of this machine, as its user database describes it (getpwnam(3), getgrouplist(3)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// The user ID.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups, including the primary one.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: PathBuf,
    /// Its login shell.
    pub shell: PathBuf,
}

/// The group `nobody`: what the kernel shows for a group that it cannot name (user_namespaces(7)).
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

    /// The user who called `sudo`, if this process is root by sudo. `SUDO_UID` is ignored unless this process
    /// is root.
    pub fn behind_sudo() -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        Self::by_sudo(|name| std::env::var(name).ok())
    }

    /// By the variables that sudo sets.
    fn by_sudo(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| variable(name)?.parse::<u32>().ok();
        let uid = number("SUDO_UID").filter(|&uid| uid != 0)?;
        if let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) {
            return Some(Self::of(user));
        }
        // The account's directory service does not answer.
        let gid = number("SUDO_GID").unwrap_or(OVERFLOW_GID);
        Some(Self {
            name: variable("SUDO_USER").unwrap_or_else(|| uid.to_string()),
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
    fn an_account_is_found_by_name_and_by_number() {
        let root = Account::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Account::find("0").unwrap(), root);
        let unknown = Account::find("no such account").unwrap_err().to_string();
        assert!(unknown.contains("no such account"), "{unknown}");
    }

    #[test]
    fn sudos_variables_identify_the_caller_unless_it_is_root() {
        let by = |variables: &[(&str, &str)]| {
            Account::by_sudo(|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, text)| (*text).to_owned())
            })
        };
        assert_eq!(by(&[]), None);
        assert_eq!(by(&[("SUDO_UID", "0")]), None);
        assert_eq!(by(&[("SUDO_UID", "x")]), None);
        // An account that does not exist.
        let unknown = [("SUDO_UID", "4123456789"), ("SUDO_GID", "77")];
        let account = by(&unknown).unwrap();
        assert_eq!((account.uid, account.gid), (4_123_456_789, 77));
        assert_eq!(
            (account.name.as_str(), account.groups),
            ("4123456789", vec![77])
        );
        let named = by(&[("SUDO_UID", "4123456789"), ("SUDO_USER", "ann")]).unwrap();
        assert_eq!((named.name.as_str(), named.gid), ("ann", OVERFLOW_GID));
        // An existing account (1 is `daemon` or `bin`), whatever the other variables contain.
        if let Ok(known) = Account::find("1") {
            assert!(known.groups.contains(&known.gid), "{known:?}");
            let variables = [("SUDO_UID", "1"), ("SUDO_GID", "77"), ("SUDO_USER", "ann")];
            assert_eq!(by(&variables), Some(known));
        }
    }

    /// Restarts itself as a child of a fake sudo.
    #[test]
    fn only_root_trusts_sudos_variables() {
        const UID: &str = "4123456789";
        if std::env::var("SUDO_UID").as_deref() == Ok(UID) {
            let found = Account::behind_sudo().map(|account| account.uid.to_string());
            let is_root = Uid::effective().is_root();
            assert_eq!(found.as_deref(), is_root.then_some(UID));
            return;
        }
        let test = "account::tests::only_root_trusts_sudos_variables";
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("SUDO_UID", UID)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
}

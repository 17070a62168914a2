//! This process's user and capabilities, from `/proc/self/status`.

use std::path::Path;

use crate::Root;

/// A capability that reveille asks for. The numbers are those of include/uapi/linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Capability {
    SysAdmin = 21,
    SysNice = 23,
    Perfmon = 38,
    Bpf = 39,
}

/// The effective user and capabilities of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user; 0 is root.
    pub user: u32,
    /// `CapEff`, a bit for each capability.
    pub capabilities: u64,
    /// Whether this is the first user namespace. In others, capabilities apply only to what the namespace
    /// owns, which includes nothing that measuring needs.
    pub is_outermost: bool,
}

/// The first user namespace has this number on every kernel.
/// Source: include/linux/proc_ns.h (PROC_USER_INIT_INO).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

impl Credentials {
    /// Those of this process; `None` where /proc lacks them.
    pub(crate) fn of_this_process() -> Option<Self> {
        Self::below(&Root::default())
    }

    fn below(root: &Root) -> Option<Self> {
        let credentials = Self::parse(&root.text("proc/self/status")?)?;
        // A kernel without user namespaces has no such link.
        let namespace = std::fs::read_link(root.path("proc/self/ns/user")).ok();
        let is_outermost =
            namespace.is_none_or(|namespace| namespace == Path::new(FIRST_USER_NAMESPACE));
        Some(Self {
            is_outermost,
            ..credentials
        })
    }

    /// Reads a /proc/PID/status text, taken to be of the first user namespace.
    pub fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line?.strip_prefix(':')
        };
        Some(Self {
            // Real, effective, saved, file system.
            user: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
            capabilities: u64::from_str_radix(field("CapEff")?.trim(), 16).ok()?,
            is_outermost: true,
        })
    }

    /// Whether the kernel grants this capability; CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON.
    pub(crate) fn may(&self, capability: Capability) -> bool {
        let has = |capability: Capability| self.capabilities & (1 << capability as u8) != 0;
        if !self.is_outermost {
            return false;
        }
        match capability {
            Capability::Bpf | Capability::Perfmon => has(capability) || has(Capability::SysAdmin),
            _ => has(capability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_and_capabilities_are_read() {
        let status =
            "Name:\tcat\nUid:\t1000\t33\t1000\t1000\nCapPrm:\t0\nCapEff:\t0000008000000000\n";
        let credentials = Credentials::parse(status).unwrap();
        assert_eq!(credentials.user, 33);
        assert!(credentials.may(Capability::Bpf) && !credentials.may(Capability::Perfmon));
        assert_eq!(Credentials::parse("Uid: 0"), None);
    }

    #[test]
    fn an_inner_user_namespace_has_another_number() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("proc/self");
        std::fs::create_dir_all(own.join("ns")).unwrap();
        std::fs::write(
            own.join("status"),
            "Uid:\t7\t8\t9\t9\nCapEff:\t0000000000000001\n",
        )
        .unwrap();
        let below = |namespace: &str| {
            let link = own.join("ns/user");
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(namespace, link).unwrap();
            Credentials::below(&Root::at(folder.path())).unwrap()
        };
        let credentials = |is_outermost| Credentials {
            user: 8,
            capabilities: 1,
            is_outermost,
        };
        assert_eq!(below(FIRST_USER_NAMESPACE), credentials(true));
        assert_eq!(below("user:[4026532000]"), credentials(false));
        std::fs::remove_file(own.join("ns/user")).unwrap();
        let without = Credentials::below(&Root::at(folder.path()));
        assert_eq!(without, Some(credentials(true)));
    }

    #[test]
    fn the_administrator_may_use_bpf_and_perf() {
        let admin = Credentials {
            user: 0,
            capabilities: 1 << 21,
            is_outermost: true,
        };
        assert!(admin.may(Capability::Bpf) && admin.may(Capability::Perfmon));
        assert!(!admin.may(Capability::SysNice));
    }

    #[test]
    fn root_of_an_inner_user_namespace_lacks_the_relevant_capabilities() {
        let inner = Credentials {
            user: 0,
            capabilities: u64::MAX,
            is_outermost: false,
        };
        assert!(!inner.may(Capability::Bpf) && !inner.may(Capability::SysNice));
    }

    #[test]
    fn the_credentials_are_those_of_this_process() {
        let own = Credentials::of_this_process().unwrap();
        assert_eq!(own.user, nix::unistd::geteuid().as_raw());
    }
}

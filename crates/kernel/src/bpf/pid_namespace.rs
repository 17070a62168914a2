//! This process's PID namespace, in which BPF programs report PIDs.

use std::os::unix::fs::MetadataExt;

use crate::{Error, Result};

/// The inode of this process's PID namespace, for `pid_namespace` of `src/bpf/pid_namespace.h`.
///
/// # Errors
/// [`Error::Cannot`] if /proc belongs to another namespace: its PIDs would be those of other processes.
pub fn pid_namespace() -> Result<u32> {
    let this = std::process::id().to_string();
    if !std::fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == this.as_str()) {
        return Err(Error::Cannot(
            "/proc belongs to another PID namespace, so its PIDs are invalid here: mount this \
             namespace's own (unshare --mount-proc; mount -t proc proc /proc)"
                .into(),
        ));
    }
    match std::fs::metadata("/proc/self/ns/pid") {
        Ok(namespace) => Ok(namespace.ino() as u32),
        // Without CONFIG_PID_NS: PROC_PID_INIT_INO, include/linux/proc_ns.h.
        Err(_) => Ok(0xEFFF_FFFC),
    }
}

#[cfg(test)]
mod tests {
    use reveille_alone::is_apart;

    use super::*;

    #[test]
    fn proc_of_another_namespace_is_reported() {
        const TEST: &str = "bpf::pid_namespace::tests::proc_of_another_namespace_is_reported";
        if is_apart(TEST, &["unshare", "--pid", "--fork"]) {
            let said = pid_namespace().unwrap_err().to_string();
            return assert!(said.contains("mount"), "{said}");
        }
        assert!(pid_namespace().is_ok());
    }
}

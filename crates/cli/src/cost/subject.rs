//! Whose wake-ups are followed, as the user names it.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use reveille_kernel::Root;
use reveille_watch::cost::Workload;

use crate::exit::Failure;

/// A workload and its name.
pub struct Subject {
    pub workload: Workload,
    pub name: String,
}

impl Subject {
    pub fn all() -> Self {
        Self {
            workload: Workload::All,
            name: "all tasks".to_owned(),
        }
    }

    pub fn of_command(command: &[OsString], pid: u32) -> Self {
        let words = command.iter().map(|word| word.to_string_lossy());
        Self {
            workload: Workload::Process(pid),
            name: words.collect::<Vec<_>>().join(" "),
        }
    }

    /// # Errors
    /// Wrong use where there is no such process, or it is a thread of another.
    pub fn of_process(root: &Root, pid: u32) -> anyhow::Result<Self> {
        let status = root.text(&format!("proc/{pid}/status")).ok_or_else(|| {
            Failure::usage(format!(
                "--pid: there is no process {pid}; `ps -e` lists them"
            ))
        })?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let (name, leader) = (field("Name:"), field("Tgid:"));
        if leader != pid.to_string() {
            return Err(Failure::usage(format!(
                "--pid: {pid} is a thread of process {leader}; follow that with --pid {leader}"
            )));
        }
        Ok(Self {
            workload: Workload::Process(pid),
            name: format!("process {pid} ({name})"),
        })
    }

    /// # Errors
    /// As [`cgroup`].
    pub fn of_cgroup(root: &Root, name: &Path) -> anyhow::Result<Self> {
        let (number, _, folder) = cgroup(root, name)?;
        Ok(Self {
            workload: Workload::Cgroup(number),
            name: format!("cgroup {}", folder.display()),
        })
    }

    /// Has the process ended? Others do not end.
    pub fn is_gone(&self, root: &Root) -> bool {
        match self.workload {
            Workload::Process(pid) => !root.path(&format!("proc/{pid}")).exists(),
            Workload::Cgroup(_) | Workload::All => false,
        }
    }
}

/// A cgroup's number, how far below the root it is, and its folder.
///
/// # Errors
/// Wrong use where there is no such cgroup, or it is one of cgroup version 1; where no cgroup2 is
/// mounted, this machine cannot.
pub fn cgroup(root: &Root, name: &Path) -> anyhow::Result<(u64, i32, PathBuf)> {
    let mount = cgroup2(root).ok_or_else(|| {
        Failure::cannot(
            "--cgroup: no cgroup2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup/unified` \
             mounts it",
        )
    })?;
    let folder = match name.starts_with(&mount) {
        true => name.to_owned(),
        false => mount.join(name.strip_prefix("/").unwrap_or(name)),
    };
    let Ok(found) = folder.metadata() else {
        let folder = folder.display();
        return Err(Failure::usage(format!("--cgroup: there is no {folder}")));
    };
    let is_cgroup2 = statfs(&folder).is_ok_and(|fs| fs.filesystem_type() == CGROUP2_SUPER_MAGIC);
    if !found.is_dir() || !is_cgroup2 {
        let folder = folder.display();
        return Err(Failure::usage(format!(
            "--cgroup: {folder} is not a folder of cgroup2"
        )));
    }
    let below = folder.canonicalize()?;
    let below = below
        .strip_prefix(mount.canonicalize()?)?
        .components()
        .count();
    // A cgroup's number is its folder's inode.
    Ok((found.ino(), below as i32, folder))
}

/// Where cgroup2 is mounted.
fn cgroup2(root: &Root) -> Option<PathBuf> {
    let mounts = root.text("proc/self/mounts")?;
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.find(|fields| fields.get(2) == Some(&"cgroup2"))?;
    Some(PathBuf::from(found[1]))
}

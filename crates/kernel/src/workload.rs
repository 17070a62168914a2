//! The tasks that a user names: a process, a cgroup, a command, or all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use crate::{Error, Result, Root};

/// Which tasks are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// A process with its threads, and the processes that it forks from now on.
    Process(u32),
    /// The tasks of a cgroup and its descendants, by the inode of its folder.
    Cgroup(u64),
    /// All tasks but this program's own.
    All,
}

/// A workload and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its tasks.
    pub workload: Workload,
    /// In words: `nginx -g ...`, `process 4711 (nginx)`, `cgroup /web`, `all tasks`.
    pub name: String,
}

impl Subject {
    /// All tasks.
    pub fn all() -> Self {
        Self {
            workload: Workload::All,
            name: "all tasks".to_owned(),
        }
    }

    /// A command as given, and its process.
    pub fn of_command(command: &[OsString], pid: u32) -> Self {
        let words = command.iter().map(|word| word.to_string_lossy());
        Self {
            workload: Workload::Process(pid),
            name: words.collect::<Vec<_>>().join(" "),
        }
    }

    /// The process that `--pid` names.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such process, or it is a thread of another.
    pub fn of_process(root: &Root, pid: u32) -> Result<Self> {
        let status = root
            .text(&format!("proc/{pid}/status"))
            .ok_or_else(|| Error::Usage(format!("--pid: no process {pid}; `ps -e` lists them")))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let (name, leader) = (field("Name:"), field("Tgid:"));
        if leader != pid.to_string() {
            return Err(Error::Usage(format!(
                "--pid: {pid} is a thread of process {leader}; follow that with --pid {leader}"
            )));
        }
        Ok(Self {
            workload: Workload::Process(pid),
            name: format!("process {pid} ({name})"),
        })
    }

    /// The cgroup that `--cgroup` names.
    ///
    /// # Errors
    /// As [`cgroup`].
    pub fn of_cgroup(root: &Root, name: &Path) -> Result<Self> {
        let (number, _, folder) = cgroup(root, "--cgroup", name)?;
        Ok(Self {
            workload: Workload::Cgroup(number),
            name: format!("cgroup {}", folder.display()),
        })
    }

    /// Has the process ended? Cgroups and all tasks do not end.
    pub fn is_gone(&self, root: &Root) -> bool {
        match self.workload {
            Workload::Process(pid) => !root.path(&format!("proc/{pid}")).exists(),
            Workload::Cgroup(_) | Workload::All => false,
        }
    }
}

/// Where systemd mounts cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A cgroup's number, how far below the root it is, and its folder. `flag` is what named it: `--cgroup`.
///
/// # Errors
/// [`Error::Usage`] if there is no such cgroup, or it is one of cgroup version 1; [`Error::Cannot`] if
/// no cgroup2 is mounted.
pub fn cgroup(root: &Root, flag: &str, name: &Path) -> Result<(u64, i32, PathBuf)> {
    let mount = cgroup2(root).ok_or_else(|| {
        Error::Cannot(format!(
            "{flag}: no cgroup2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup/unified` mounts it"
        ))
    })?;
    // An absolute path, whether or not cgroup2 is mounted there.
    let folder = match name.starts_with(&mount) || name.starts_with(CGROUPS) {
        true => name.to_owned(),
        false => mount.join(name.strip_prefix("/").unwrap_or(name)),
    };
    let refused = |why: &str| Error::Usage(format!("{flag}: {why}"));
    let Ok(found) = folder.metadata() else {
        return Err(refused(&format!("no {}", folder.display())));
    };
    let is_cgroup2 = statfs(&folder).is_ok_and(|fs| fs.filesystem_type() == CGROUP2_SUPER_MAGIC);
    let absolute = |path: &Path| path.canonicalize().map_err(Error::at(path));
    let real = absolute(&folder)?;
    let (true, true, Ok(below)) = (
        found.is_dir(),
        is_cgroup2,
        real.strip_prefix(absolute(&mount)?),
    ) else {
        let folder = folder.display();
        return Err(refused(&format!("{folder} is not a folder of cgroup2")));
    };
    let below = below.components().count();
    // A cgroup's number is its folder's inode.
    Ok((found.ino(), below as i32, real))
}

/// Where cgroup2 is mounted, first.
pub(crate) fn cgroup2(root: &Root) -> Option<PathBuf> {
    cgroup2_mounts(root).into_iter().next()
}

/// All places where cgroup2, or a part of it, is mounted.
fn cgroup2_mounts(root: &Root) -> Vec<PathBuf> {
    let mounts = root.text("proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    });
    mounts.collect()
}

/// The folder of the cgroup with this number, which is its inode's; `None` if it was removed.
///
/// # Errors
/// [`Error::Failed`] if it may be hidden: in a container, or where cgroup2 is not mounted.
pub(crate) fn folder_of(root: &Root, number: u64) -> Result<Option<PathBuf>> {
    let mounts = cgroup2_mounts(root);
    let found = mounts
        .iter()
        .flat_map(|mount| folders(mount))
        .find(|folder| folder.metadata().is_ok_and(|at| at.ino() == number));
    // All but the machine's root cgroup have a type (cgroup-v2.rst).
    let sees_all = || {
        mounts
            .iter()
            .any(|mount| mount.join("cgroup.procs").exists() && !mount.join("cgroup.type").exists())
    };
    match found {
        None if !sees_all() => Err(Error::Failed(format!(
            "whether the cgroup with the number {number} is there is not visible here: cgroup2 is not mounted, or a part of it"
        ))),
        found => Ok(found),
    }
}

/// The cgroups of cgroup2 by their numbers, which are their folders' inodes: names from its root (`/`) on. Empty where
/// none is mounted.
pub fn cgroups(root: &Root) -> BTreeMap<u64, String> {
    let mut all = BTreeMap::new();
    let Some(mount) = cgroup2(root) else {
        return all;
    };
    for folder in folders(&mount) {
        if let (Ok(found), Ok(name)) = (folder.metadata(), folder.strip_prefix(&mount)) {
            all.insert(
                found.ino(),
                format!("/{}", name.display()).replace(char::is_control, " "),
            );
        }
    }
    all
}

/// The folder of cgroup2 that a process is in; `None` if it is unknown.
pub fn cgroup_of(root: &Root, process: u32) -> Option<PathBuf> {
    let text = root.text(&format!("proc/{process}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    cgroup2(root)?.join(path).canonicalize().ok()
}

/// A cgroup's folder and all below it, as far as they can be read.
pub(crate) fn folders(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_owned()];
    let mut next = 0;
    while let Some(folder) = all.get(next) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
        all.extend(below);
        next += 1;
    }
    all
}

/// The threads of the cgroup in this folder, and of those below it, as far as they are there at the end.
///
/// # Errors
/// If the folder cannot be read.
pub fn threads(folder: &Path) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for of in folders(folder) {
        let file = of.join("cgroup.threads");
        match std::fs::read_to_string(&file) {
            Ok(text) => all.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
            // Removed meanwhile.
            Err(_) if of != folder => {}
            Err(error) => return Err(Error::at(&file)(error)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_name_until_it_is_gone_and_a_thread_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (number, leader) in [(7, 7), (8, 7)] {
            let process = folder.path().join(format!("proc/{number}"));
            std::fs::create_dir_all(&process).unwrap();
            let status = format!("Name:\tnginx\nTgid:\t{leader}\n");
            std::fs::write(process.join("status"), status).unwrap();
        }
        let subject = Subject::of_process(&root, 7).unwrap();
        assert_eq!(subject.name, "process 7 (nginx)");
        assert_eq!(subject.workload, Workload::Process(7));
        assert!(!subject.is_gone(&root) && !Subject::all().is_gone(&root));
        std::fs::remove_dir_all(folder.path().join("proc/7")).unwrap();
        assert!(subject.is_gone(&root));
        let refused = |number| Subject::of_process(&root, number).unwrap_err();
        assert!(refused(8).to_string().contains("is a thread of process 7"));
        assert_eq!(refused(7).exit_code(), Error::USAGE);
    }

    #[test]
    fn a_folder_outside_cgroup2_is_refused_and_without_cgroup2_nothing_can_be_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let of = |name: &str| cgroup(&root, "--cgroup", Path::new(name)).unwrap_err();
        assert_eq!(of("web").exit_code(), Error::CANNOT);
        let mount = folder.path().join("cgroups");
        std::fs::create_dir_all(mount.join("web")).unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", mount.display());
        std::fs::write(folder.path().join("proc/self/mounts"), mounts).unwrap();
        assert!(of("nosuch").to_string().contains("--cgroup: no "));
        let whole = of("/sys/fs/cgroup/nosuch.slice").to_string();
        assert_eq!(whole, "--cgroup: no /sys/fs/cgroup/nosuch.slice");
        // The folder is on another file system.
        let web = of("/web");
        assert!(
            web.to_string().ends_with("not a folder of cgroup2"),
            "{web}"
        );
        assert_eq!(web.exit_code(), Error::USAGE);
    }
}

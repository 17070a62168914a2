//! Block devices by name.

use std::path::Path;

use reveille_kernel::Root;

use crate::{Error, Result};

/// A whole disk, whose requests can be anticipated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// As in `/sys/block`: `nvme0n1`.
    pub name: String,
    /// The disk's major number.
    pub major: u32,
    /// The disk's minor number.
    pub minor: u32,
}

impl BlockDevice {
    /// The device of that name, with `/dev/` before it or not; for a partition the disk that it is
    /// on, for requests are the disk's.
    pub fn named(root: &Root, name: &str) -> Result<Self> {
        let short = name.strip_prefix("/dev/").unwrap_or(name);
        let plain = !short.is_empty() && !short.contains('/') && short != "." && short != "..";
        let entry = root.path(&format!("sys/class/block/{short}"));
        if !plain || !entry.exists() {
            let known: Vec<String> = Self::all(root).into_iter().map(|disk| disk.name).collect();
            return Err(Error::Usage(format!(
                "no block device {name}; this machine has {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )));
        }
        let disk = whole_disk(&entry);
        disk.and_then(|disk| Self::at(root, &disk))
            .ok_or_else(|| Error::Usage(format!("the numbers of {name} cannot be read")))
    }

    /// All disks of some size, but those that are made of memory or of files.
    pub fn all(root: &Root) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(root.path("sys/block")) else {
            return Vec::new();
        };
        let mut disks: Vec<Self> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| {
                !["loop", "ram", "zram"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
            })
            .filter(|name| {
                let size = root.text(&format!("sys/block/{name}/size"));
                size.is_some_and(|sectors| sectors.trim() != "0")
            })
            .filter_map(|name| Self::at(root, &name))
            .collect();
        disks.sort_by(|one, other| one.name.cmp(&other.name));
        disks
    }

    fn at(root: &Root, name: &str) -> Option<Self> {
        let numbers = root.text(&format!("sys/block/{name}/dev"))?;
        let (major, minor) = numbers.trim().split_once(':')?;
        Some(Self {
            name: name.to_owned(),
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// It is still there.
    pub fn is_there(&self, root: &Root) -> bool {
        root.path(&format!("sys/block/{}", self.name)).exists()
    }

    /// As the kernel numbers devices inside.
    pub fn number(&self) -> u32 {
        self.major << 20 | self.minor
    }
}

/// The disk's name from a link to its folder, or to that of a partition of it.
pub(crate) fn whole_disk(link: &Path) -> Option<String> {
    // .../block/vda, or .../block/vda/vda1 for a partition, which has a file of that name.
    let folder = std::fs::canonicalize(link).ok()?;
    let whole = match folder.join("partition").exists() {
        true => folder.parent()?.to_owned(),
        false => folder,
    };
    Some(whole.file_name()?.to_string_lossy().into_owned())
}

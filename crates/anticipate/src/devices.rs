//! Block devices by name.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
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
    ///
    /// # Errors
    /// [`Error::Usage`] where there is none.
    pub fn named(root: &Root, name: &str) -> Result<Self> {
        let short = name.strip_prefix("/dev/").unwrap_or(name);
        let plain = !short.is_empty() && !short.contains('/') && short != "." && short != "..";
        let entry = root.path(&format!("sys/class/block/{short}"));
        if !plain || !entry.exists() {
            let known: Vec<String> = Self::all(root).into_iter().map(|disk| disk.name).collect();
            return Err(Error::Usage(format!(
                "there is no block device {name}; this machine has {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )));
        }
        let disk = match entry.join("partition").exists() {
            true => std::fs::canonicalize(&entry)
                .ok()
                .and_then(|path| Some(path.parent()?.file_name()?.to_str()?.to_owned())),
            false => Some(short.to_owned()),
        };
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
        let path = root.path(&format!("sys/block/{}", self.name));
        Path::new(&path).exists()
    }

    /// As the kernel numbers devices inside.
    #[cfg(feature = "bpf")]
    pub(crate) fn number(&self) -> u32 {
        self.major << 20 | self.minor
    }
}

/// The kernel's announcements of devices that come and go. To wait for them wakes nobody.
pub struct Announcements(OwnedFd);

impl Announcements {
    /// From now on.
    ///
    /// # Errors
    /// [`Error::System`] where the kernel makes none, or not to this user.
    pub fn open() -> Result<Self> {
        // The group of what comes from the kernel itself.
        let everything = NetlinkAddr::new(0, 1);
        let opened = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkKObjectUEvent,
        );
        let bound = opened.and_then(|socket| {
            bind(socket.as_raw_fd(), &everything)?;
            Ok(Self(socket))
        });
        bound.map_err(system)
    }

    /// Until the next one; which device it is about is not told.
    ///
    /// # Errors
    /// [`Error::System`] where there will be no more.
    pub fn wait(&self) -> Result<()> {
        let mut announcement = [0; 8192];
        loop {
            match recv(self.0.as_raw_fd(), &mut announcement, MsgFlags::empty()) {
                // More came than were read: one of them may be what is waited for.
                Ok(_) | Err(Errno::ENOBUFS) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        }
    }
}

fn system(errno: Errno) -> Error {
    Error::System {
        what: "the kernel's announcements of devices",
        source: errno.into(),
    }
}

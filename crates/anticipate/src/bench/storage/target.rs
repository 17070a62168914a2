//! What is read or written: a file of the benchmark's own, an existing file, or a whole device.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{self, fstatfs};
use reveille_kernel::Root;
use reveille_results::output::{Folder, Naming};

use super::buffer::Buffer;
use super::size::text as size_text;
use crate::bench::assist::Device;
use crate::devices::whole_disk;
use crate::{Error, Operation, Result};

/// Where the data are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A new file in that folder, without a name, so that nothing is left of it whatever ends this
    /// program.
    Own {
        /// On the file system to test.
        folder: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// An existing file, which is only read.
    File(PathBuf),
    /// A block device, `vda` or `/dev/vda`, which is only read.
    Device(PathBuf),
}

/// The data, open for direct I/O.
#[derive(Debug)]
pub struct Target {
    pub(super) file: File,
    /// Name in reports.
    pub name: String,
    /// The device that serves requests.
    pub device: Device,
    /// Bytes that are read or written, from its beginning.
    pub bytes: u64,
    /// What a reader must know (one sentence each).
    pub notes: Vec<String>,
}

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;

impl Target {
    /// Opens it; a file of the benchmark's own is created and filled, until `stop` is set.
    ///
    /// # Errors
    /// [`Error::Usage`] if the file, folder or device does not exist or is too small for an I/O of `size`
    /// bytes, and for writes to an existing file; [`Error::Cannot`] if the file system has no direct I/O
    /// or too little room, or this user may not read it.
    pub fn open(
        root: &Root,
        source: &Source,
        operation: Operation,
        size: usize,
        stop: &AtomicBool,
    ) -> Result<Self> {
        if operation == Operation::Write && !matches!(source, Source::Own { .. }) {
            return Err(Error::Usage(
                "writes would destroy existing data, so they go to a file of the benchmark's own; \
                 name its folder with --dir"
                    .into(),
            ));
        }
        let target = match source {
            Source::Own { folder, bytes } => {
                refuse_size(*bytes, operation, size)?;
                own(root, folder, *bytes, stop)?
            }
            Source::File(path) => file(root, path)?,
            Source::Device(path) => device(root, path)?,
        };
        if target.bytes < size as u64 {
            return Err(Error::Usage(format!(
                "{}: holds {}, less than one {operation} of {}",
                target.name,
                size_text(target.bytes),
                size_text(size as u64)
            )));
        }
        Ok(target)
    }
}

/// For a file of the benchmark's own that is smaller than an I/O, or not a multiple of a sector.
fn refuse_size(bytes: u64, operation: Operation, size: usize) -> Result<()> {
    /// Of most disks' sectors; those that are larger refuse --size, too.
    const SECTOR: u64 = 512;
    let shown = size_text(bytes);
    if bytes < size as u64 {
        return Err(Error::Usage(format!(
            "--file-size {shown}: is less than one {operation} of {} (--size)",
            size_text(size as u64)
        )));
    }
    match bytes.is_multiple_of(SECTOR) {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "--file-size {shown}: is not a multiple of {SECTOR}, which direct I/O needs"
        ))),
    }
}

fn own(root: &Root, folder: &Path, bytes: u64, stop: &AtomicBool) -> Result<Target> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Error::Usage(format!("{shown}: no such folder")));
    }
    let mut file = nameless(folder)?;
    refuse_memory(&file, folder)?;
    let room = fstatfs(&file).map_err(|errno| refused(folder, &errno.into()))?;
    let free = room.blocks_available() as u64 * room.block_size() as u64;
    if free < bytes {
        return Err(Error::Cannot(format!(
            "{shown}: {} MiB are free, and the file needs {}; choose another folder with --dir, or a \
             smaller --file-size",
            free >> 20,
            size_text(bytes)
        )));
    }
    // Written in full: what was never written is not read from the disk.
    let mut buffer = Buffer::new(CHUNK);
    let mut left = bytes;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let chunk = left.min(CHUNK as u64) as usize;
        let written = file.write_all(&buffer.bytes()[..chunk]);
        written.map_err(|error| failed(folder, error))?;
        left -= chunk as u64;
    }
    file.sync_all().map_err(|error| failed(folder, error))?;
    Ok(Target {
        device: device_of(
            root,
            file.metadata()
                .map_err(|error| failed(folder, error))?
                .dev(),
        ),
        name: format!("a temporary file ({})", size_text(bytes)),
        bytes: bytes - left,
        file,
        notes: Vec::new(),
    })
}

/// A file without a name.
fn nameless(folder: &Path) -> Result<File> {
    use reveille_results::Error::Io;
    let opened = Folder::open(folder, Naming::ByUser).map_err(|error| match error {
        Io { source, .. } => refused(folder, &source),
        other => Error::Usage(other.to_string()),
    })?;
    let made = opened.nameless(OFlag::O_DIRECT);
    made.map_err(|error| refused(folder, &error))
}

fn file(root: &Root, path: &Path) -> Result<Target> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|error| not_there(path, error))?;
    if !found.is_file() {
        return Err(Error::Usage(match found.file_type().is_block_device() {
            true => format!("{shown}: is a block device; name it with --device"),
            false => format!("{shown}: is not a file"),
        }));
    }
    let file = read_directly(path)?;
    refuse_memory(&file, path)?;
    /// What a file counts its room in (stat(2)).
    const BLOCK: u64 = 512;
    let mut notes = Vec::new();
    if found.blocks() * BLOCK < found.len() {
        notes.push(format!(
            "{shown} has holes or is compressed: not every read reaches the disk."
        ));
    }
    Ok(Target {
        file,
        name: shown.to_string(),
        device: device_of(root, found.dev()),
        bytes: found.len(),
        notes,
    })
}

fn device(root: &Root, path: &Path) -> Result<Target> {
    let path = match path.components().count() {
        1 if path.is_relative() => Path::new("/dev").join(path),
        _ => path.to_owned(),
    };
    let shown = path.display();
    let found = std::fs::metadata(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Usage(format!("{shown}: no such device")),
        _ => failed(&path, error),
    })?;
    if !found.file_type().is_block_device() {
        return Err(Error::Usage(format!("{shown}: is not a block device")));
    }
    let mut file = read_directly(&path)?;
    let bytes = file.seek(SeekFrom::End(0));
    Ok(Target {
        name: shown.to_string(),
        device: device_of(root, found.rdev()),
        bytes: bytes.map_err(|error| failed(&path, error))?,
        file,
        notes: Vec::new(),
    })
}

fn read_directly(path: &Path) -> Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    opened.map_err(|error| refused(path, &error))
}

/// For a file system in memory: no thread sleeps while it reads.
fn refuse_memory(file: &File, path: &Path) -> Result<()> {
    let Ok(kind) = fstatfs(file) else {
        return Ok(());
    };
    /// linux/magic.h; nix does not have it.
    const RAMFS: u64 = 0x8584_58f6;
    let kind = kind.filesystem_type();
    match kind == statfs::TMPFS_MAGIC || kind.0 as u64 == RAMFS {
        true => Err(Error::Cannot(format!(
            "{}: is in memory, where nothing waits for I/O; choose a folder on a disk with --dir",
            path.display()
        ))),
        false => Ok(()),
    }
}

fn not_there(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::Usage(format!("{}: no such file", path.display())),
        _ => failed(path, error),
    }
}

/// Why it could not be opened for direct I/O.
fn refused(path: &Path, error: &std::io::Error) -> Error {
    let shown = path.display();
    Error::Cannot(match error.raw_os_error() {
        Some(libc::EINVAL) => format!(
            "{shown}: this file system does not support direct I/O (O_DIRECT); choose a folder on \
             another one with --dir"
        ),
        Some(libc::EACCES | libc::EPERM) => {
            format!(
                "{shown}: permission denied; run with sudo, or choose another folder with --dir"
            )
        }
        _ => format!("{shown}: {error}"),
    })
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::at(path)(source)
}

/// The device of that number, a disk or a partition.
fn device_of(root: &Root, number: u64) -> Device {
    let (major, minor) = (major(number), minor(number));
    let link = root.path(&format!("sys/dev/block/{major}:{minor}"));
    let disk = whole_disk(&link);
    Device {
        disks: disk.as_deref().map_or(Vec::new(), |disk| below(root, disk)),
        disk,
    }
}

/// The disks of which this one is made, or itself.
fn below(root: &Root, disk: &str) -> Vec<String> {
    let slaves = std::fs::read_dir(root.path(&format!("sys/class/block/{disk}/slaves")));
    let slaves = slaves.into_iter().flatten().flatten();
    let mut below: Vec<String> = slaves
        .filter_map(|slave| whole_disk(&slave.path()))
        .flat_map(|slave| below(root, &slave))
        .collect();
    below.sort();
    below.dedup();
    match below.is_empty() {
        true => vec![disk.to_owned()],
        false => below,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn open(source: &Source, operation: Operation) -> Result<Target> {
        Target::open(&Root::default(), source, operation, 4096, &NEVER)
    }

    #[test]
    fn a_missing_or_read_only_target_is_wrong_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::write(&path, vec![1; 100]).unwrap();
        for (source, operation, words) in [
            (
                Source::Device("no-such-disk".into()),
                Operation::Read,
                "no such device",
            ),
            (
                Source::Device(path.clone()),
                Operation::Read,
                "not a block device",
            ),
            (
                Source::File(folder.path().into()),
                Operation::Read,
                "is not a file",
            ),
            (
                Source::File(folder.path().join("x")),
                Operation::Read,
                "no such file",
            ),
            (Source::File(path), Operation::Write, "destroy"),
            (
                Source::Own {
                    folder: folder.path().join("x"),
                    bytes: 4096,
                },
                Operation::Write,
                "no such folder",
            ),
        ] {
            let error = open(&source, operation).unwrap_err();
            assert!(
                matches!(&error, Error::Usage(why) if why.contains(words)),
                "{error}"
            );
        }
    }

    #[test]
    fn a_temporary_file_has_no_name_and_the_requested_size() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let source = Source::Own {
            folder: folder.path().into(),
            bytes: 3 << 20,
        };
        let target = match open(&source, Operation::Write) {
            Ok(target) => target,
            Err(Error::Cannot(why)) => {
                println!("skipped: a temporary file: {why}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(
            (target.bytes, target.file.metadata().unwrap().len()),
            (3 << 20, 3 << 20)
        );
    }

    #[test]
    fn a_file_in_memory_is_refused() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            println!("skipped: a file in memory: there is no /dev/shm");
            return;
        };
        let source = Source::Own {
            folder: folder.path().into(),
            bytes: 4096,
        };
        match open(&source, Operation::Read) {
            Err(Error::Cannot(why)) => assert!(why.contains("memory"), "{why}"),
            Ok(target) => {
                // /dev/shm may be a folder of a disk.
                println!(
                    "skipped: a file in memory: /dev/shm is on {:?}",
                    target.device
                );
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_partition_resolves_to_its_disk_and_a_mapped_device_to_those_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sys/devices/pci/block/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("sda1/partition"), "1").unwrap();
        let links = folder.path().join("sys/dev/block");
        fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink(&disk, links.join("8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), links.join("8:1")).unwrap();
        let mapped = folder.path().join("sys/class/block/dm-0/slaves");
        fs::create_dir_all(&mapped).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), mapped.join("sda1")).unwrap();
        let root = Root::at(folder.path());
        assert_eq!(below(&root, "dm-0"), ["sda"]);
        assert_eq!(below(&root, "sda"), ["sda"]);
        for (minor, name) in [(0, Some("sda")), (1, Some("sda")), (2, None)] {
            let device = device_of(&root, nix::sys::stat::makedev(8, minor));
            assert_eq!(device.disk.as_deref(), name);
        }
    }
}

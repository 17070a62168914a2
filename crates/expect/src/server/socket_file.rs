//! The socket in the file system: one server at a time, and no stale files.
//!
//! The serving process holds the lock of a file beside the socket, which only its user may open; the
//! kernel releases the lock with the process. So a socket whose lock is free is stale and is replaced.
//! In Reveille's own folder, stale sockets of other names (those of benchmarks) are removed as well.
//!
//! Nothing is created or changed where another user could replace it: the folder is this user's or
//! root's, and others may write to it only if it is sticky.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use nix::unistd::geteuid;

use crate::{Error, Result};

/// Connections that wait to be accepted. Few, because each one ahead costs the time of a refusal.
const BACKLOG: i32 = 8;

/// The socket's file, its lock and the folders created for them; dropping it removes all.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    lock_path: PathBuf,
    _made: Made,
    /// The socket's, so that no other is removed.
    inode: u64,
    _lock: Flock<File>,
}

impl SocketFile {
    /// The listening socket, non-blocking, for anybody to connect to.
    ///
    /// # Errors
    /// [`Error::Cannot`] where another process serves it, the folder is not trusted, or it cannot be made.
    pub fn listen(path: &Path, kind: SockType) -> Result<(Self, OwnedFd)> {
        let cannot =
            |why: String| Error::Cannot(format!("cannot listen at {}: {why}", path.display()));
        let made = match path.parent() {
            Some(folder) => prepare(folder).map_err(&cannot)?,
            None => Made::default(),
        };
        let mut lock_name = OsString::from(path);
        lock_name.push(".lock");
        let lock_path = PathBuf::from(lock_name);
        let lock = take_lock(&lock_path).map_err(&cannot)?;
        // From here on dropping it removes the lock file.
        let mut file = Self {
            path: path.to_owned(),
            lock_path,
            _made: made,
            inode: 0,
            _lock: lock,
        };
        file.remove_stale().map_err(&cannot)?;
        let listener = file
            .bind(kind)
            .map_err(|errno| cannot(errno.desc().into()))?;
        Ok((file, listener))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a stale socket.
    fn remove_stale(&self) -> std::result::Result<(), String> {
        let there = match fs::symlink_metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        if !there.file_type().is_socket() {
            return Err("there is a file that is not a socket; move it away".into());
        }
        if somebody_listens(&self.path) {
            return Err(TAKEN.into());
        }
        fs::remove_file(&self.path).map_err(|error| error.to_string())
    }

    fn bind(&mut self, kind: SockType) -> nix::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, kind, flags, None)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(&self.path)?)?;
        // The socket itself, and nothing that a link leads to.
        let made = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(&self.path)
            .map_err(errno)?;
        let is = made.metadata().map_err(errno)?;
        if !is.file_type().is_socket() || is.uid() != geteuid().as_raw() {
            return Err(Errno::EEXIST);
        }
        self.inode = is.ino();
        // Connecting needs write permission, which the umask may have removed.
        let itself = format!("/proc/self/fd/{}", made.as_raw_fd());
        fs::set_permissions(itself, Permissions::from_mode(0o666)).map_err(errno)?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(socket)
    }
}

/// Creates the folder, open to all users whatever the umask; removes stale sockets from it.
fn prepare(folder: &Path) -> std::result::Result<Made, String> {
    // A path of one name is in the current folder.
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let text = |error: std::io::Error| error.to_string();
    let ours = Some(folder) == Path::new(crate::SOCKET).parent();
    let mut made = Made::default();
    let missing = folder.ancestors().take_while(|above| {
        let named = !above.as_os_str().is_empty();
        named && !above.exists()
    });
    let missing: Vec<&Path> = missing.collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(folder) {
            Ok(()) => {}
            // By another process meanwhile.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(text(error)),
        }
        // Ours stays: others are about to put theirs there.
        if !ours {
            made.0.push(folder.to_owned());
        }
        fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(text)?;
    }
    let there = fs::metadata(folder).map_err(text)?;
    if there.uid() != geteuid().as_raw() && there.uid() != 0 {
        return Err(format!("{} belongs to another user", folder.display()));
    }
    if there.mode() & 0o022 != 0 && there.mode() & libc::S_ISVTX == 0 {
        return Err(format!("others may write to {}", folder.display()));
    }
    if ours {
        remove_dead(folder);
    }
    Ok(made)
}

/// Folders that were created, the outermost first. Dropping it removes those that are empty.
#[derive(Debug, Default)]
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Removes stale sockets, as far as possible.
fn remove_dead(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for lock_path in entries.map(|entry| entry.path()) {
        let name = lock_path.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| name.ends_with(".sock.lock")) {
            continue;
        }
        // While it holds this lock no other engine serves there or starts.
        if let Ok(_lock) = take_lock(&lock_path) {
            let path = lock_path.with_extension("");
            let socket = |there: fs::Metadata| there.file_type().is_socket();
            if fs::symlink_metadata(&path).is_ok_and(socket) {
                let _ = fs::remove_file(&path);
            }
            let _ = fs::remove_file(&lock_path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |there: fs::Metadata| there.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
        // While the lock is held: a process that waits for it finds the file missing.
        let _ = fs::remove_file(&self.lock_path);
    }
}

const TAKEN: &str = "another process serves there; end that one first";

/// An error names the file, or is [`TAKEN`].
fn take_lock(path: &Path) -> std::result::Result<Flock<File>, String> {
    let shown = path.display();
    loop {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // A FIFO is not waited for.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| match errno(error) {
                Errno::ELOOP => format!("{shown} is a symbolic link; move it away"),
                errno => format!("{shown}: {}", errno.desc()),
            })?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => return Err(TAKEN.into()),
            Err((_, errno)) => return Err(format!("{shown}: {}", errno.desc())),
        };
        // Between opening and locking, its holder may have removed it.
        let locked = lock
            .metadata()
            .map_err(|error| format!("{shown}: {error}"))?;
        if fs::symlink_metadata(path).is_ok_and(|there| there.ino() == locked.ino()) {
            return Ok(lock);
        }
    }
}

/// A server that takes no lock.
fn somebody_listens(path: &Path) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let connected = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
        .and_then(|socket| connect(socket.as_raw_fd(), &UnixAddr::new(path)?));
    // EPROTOTYPE: a listener of another type of socket.
    matches!(connected, Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn created_folders_are_removed_unless_they_are_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("there")).unwrap();
        let serves = |name: &str| SocketFile::listen(&at(name), SockType::SeqPacket).unwrap();
        let both = [serves("there/a/b/socket"), serves("new/socket")];
        assert_eq!(fs::metadata(at("there/a")).unwrap().mode() & 0o777, 0o755);
        fs::write(at("new/letter"), "letters").unwrap();
        drop(both);
        assert!(at("there").is_dir() && !at("there/a").exists());
        assert!(at("new/letter").is_file() && !at("new/socket").exists());
        // A refused one leaves none, either.
        fs::set_permissions(at("there"), Permissions::from_mode(0o777)).unwrap();
        let long = format!("there/{}/socket", "a".repeat(120));
        assert!(SocketFile::listen(&at(&long), SockType::SeqPacket).is_err());
        assert_eq!(fs::read_dir(at("there")).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_that_is_taken_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(at("elsewhere"), at("link.sock.lock")).unwrap();
        fs::create_dir(at("folder.sock.lock")).unwrap();
        for (name, words) in [
            ("link.sock", "link.sock.lock is a symbolic link"),
            ("folder.sock", "folder.sock.lock: "),
        ] {
            let error = SocketFile::listen(&at(name), SockType::SeqPacket)
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(!at("elsewhere").exists());
    }

    #[test]
    fn sockets_of_dead_engines_are_removed_and_all_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (_living, _listener) =
            SocketFile::listen(&at("living.sock"), SockType::SeqPacket).unwrap();
        drop(UnixListener::bind(at("bench-1.sock")).unwrap());
        File::create(at("bench-1.sock.lock")).unwrap();
        // A lock without a socket; a file that is no socket; a socket without a lock.
        File::create(at("gone.sock.lock")).unwrap();
        fs::write(at("file.sock"), "letters").unwrap();
        File::create(at("file.sock.lock")).unwrap();
        drop(UnixListener::bind(at("other.sock")).unwrap());
        fs::write(at("journal-1-1.json"), "{}").unwrap();
        remove_dead(folder.path());
        let entries = fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let left = [
            "file.sock",
            "journal-1-1.json",
            "living.sock",
            "living.sock.lock",
            "other.sock",
        ];
        assert_eq!(names, left);
    }
}

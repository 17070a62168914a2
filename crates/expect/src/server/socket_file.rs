//! The socket in the file system: one server at a time, and nothing left behind.
//!
//! Beside the socket lies a lock file, which only root (or who else serves) may open. Who holds the
//! lock serves, and the kernel releases it with the process. So a socket whose lock is free was left
//! by one that was killed, and is replaced; two that begin at the same time cannot both see it so.

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

use crate::{Error, Result};

/// Connections that wait to be accepted; more are told at once that nobody answers.
const BACKLOG: i32 = 64;

/// The socket's file and its lock; both are removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    lock_path: PathBuf,
    /// The socket's, so that nobody else's is removed.
    inode: u64,
    _lock: Flock<File>,
}

impl SocketFile {
    /// The listening socket, non-blocking, for anybody to connect to.
    pub fn listen(path: &Path) -> Result<(Self, OwnedFd)> {
        let cannot =
            |why: String| Error::Cannot(format!("cannot listen at {}: {why}", path.display()));
        if let Some(folder) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.map_err(|error| cannot(error.to_string()))?;
        }
        let mut lock_name = OsString::from(path);
        lock_name.push(".lock");
        let lock_path = PathBuf::from(lock_name);
        let lock = take_lock(&lock_path).map_err(&cannot)?;
        // From here on the lock file is removed again.
        let mut file = Self {
            path: path.to_owned(),
            lock_path,
            inode: 0,
            _lock: lock,
        };
        file.remove_stale().map_err(&cannot)?;
        let listener = file.bind().map_err(|errno| cannot(errno.desc().into()))?;
        Ok((file, listener))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the socket of one that was killed.
    fn remove_stale(&self) -> std::result::Result<(), String> {
        let there = match fs::symlink_metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        if !there.file_type().is_socket() {
            return Err("there is something that is not a socket; move it away".into());
        }
        if somebody_listens(&self.path) {
            return Err(TAKEN.into());
        }
        fs::remove_file(&self.path).map_err(|error| error.to_string())
    }

    fn bind(&mut self) -> nix::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(&self.path)?)?;
        let made = fs::symlink_metadata(&self.path).map_err(errno)?;
        self.inode = made.ino();
        // Connecting takes the right to write, which the mask may have taken away.
        fs::set_permissions(&self.path, Permissions::from_mode(0o666)).map_err(errno)?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(socket)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |there: fs::Metadata| there.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
        // While the lock is held: who waits for it sees that the file has gone.
        let _ = fs::remove_file(&self.lock_path);
    }
}

const TAKEN: &str = "another engine serves there; end that one first";

fn take_lock(path: &Path) -> std::result::Result<Flock<File>, String> {
    loop {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| error.to_string())?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => return Err(TAKEN.into()),
            Err((_, errno)) => return Err(errno.desc().into()),
        };
        // Between opening and locking, who held it may have removed it: then the lock is of a file
        // that nobody else will find.
        let locked = lock.metadata().map_err(|error| error.to_string())?;
        if fs::symlink_metadata(path).is_ok_and(|there| there.ino() == locked.ino()) {
            return Ok(lock);
        }
    }
}

/// Without a lock: not a server of this kind, but somebody's.
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

//! The server's handle: start, query, end.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use super::serving::Serving;
use super::socket_file::SocketFile;
use super::{Client, Counts, Plan, Settings, Snapshot, User};
use crate::{Error, Result};
use nix::sys::socket::SockType;

/// Listens until it is dropped, which cancels all requests and removes its files.
pub struct Server {
    channel: Mutex<SnapshotChannel>,
    thread: Option<JoinHandle<()>>,
    file: SocketFile,
}

/// Asks the server's thread for a snapshot. The state has no lock: a preempted holder would stop the
/// server.
struct SnapshotChannel {
    /// A byte requests a snapshot; the end of the stream ends the thread.
    stream: UnixStream,
    snapshots: Receiver<Snapshot>,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error::Cannot`] if another engine listens there, the file is not a socket, or the socket cannot be
    /// created.
    pub fn start(settings: &Settings, plan: impl Plan) -> Result<Self> {
        let (file, listener) = SocketFile::listen(&settings.path, SockType::SeqPacket)?;
        let system = |what| move |source| Error::System { what, source };
        let (stream, asked) = UnixStream::pair()
            .and_then(|(stream, asked)| asked.set_nonblocking(true).map(|()| (stream, asked)))
            .map_err(system("cannot make the server's signal"))?;
        let (snapshots, received) = channel();
        let serving = Serving::new(settings, listener, (asked, snapshots), Box::new(plan))
            .map_err(|errno| system("cannot wait for clients")(errno.into()))?;
        let thread = std::thread::Builder::new()
            .name("expect-server".into())
            .spawn(|| serving.run())
            .map_err(system("cannot start the server's thread"))?;
        Ok(Self {
            channel: Mutex::new(SnapshotChannel {
                stream,
                snapshots: received,
            }),
            thread: Some(thread),
            file,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.snapshot().counts
    }

    /// Clients that are connected and welcomed.
    pub fn clients(&self) -> Vec<Client> {
        self.snapshot().clients
    }

    /// Users that are connected, or were until lately.
    pub fn users(&self) -> Vec<User> {
        self.snapshot().users
    }

    /// Empty if the thread has ended.
    fn snapshot(&self) -> Snapshot {
        // Under the lock, so that each caller reads its own answer.
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = channel.stream.write_all(b"?");
        asked
            .ok()
            .and_then(|()| channel.snapshots.recv().ok())
            .unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let channel = self
            .channel
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = channel.stream.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

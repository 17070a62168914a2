//! The server as its owner holds it: started, asked, ended.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use super::serving::Serving;
use super::socket_file::SocketFile;
use super::{Client, Counts, Plan, Seen, Settings, User};
use crate::{Error, Result};

/// Listens until it is dropped. Then the requests of its clients are cancelled, and its files are
/// gone.
pub struct Server {
    asking: Mutex<Asking>,
    thread: Option<JoinHandle<()>>,
    file: SocketFile,
}

/// How the server's thread is asked what there is. Its state is its own alone: a lock would let who
/// holds it, and does not get a CPU among busy processes, keep the thread from serving.
struct Asking {
    /// A byte asks; the end of the stream ends the thread.
    stream: UnixStream,
    seen: Receiver<Seen>,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error::Cannot`] where another engine listens there already, where what is there is not a
    /// socket, or where the socket cannot be made.
    pub fn start(settings: &Settings, plan: impl Plan) -> Result<Self> {
        let (file, listener) = SocketFile::listen(&settings.path)?;
        let system = |what| move |source| Error::System { what, source };
        let (stream, asked) = UnixStream::pair()
            .and_then(|(stream, asked)| asked.set_nonblocking(true).map(|()| (stream, asked)))
            .map_err(system("cannot make the server's signal"))?;
        let (tell, seen) = channel();
        let serving = Serving::new(settings, listener, (asked, tell), Box::new(plan))
            .map_err(|errno| system("cannot wait for clients")(errno.into()))?;
        let thread = std::thread::Builder::new()
            .name("expect-server".into())
            .spawn(|| serving.run())
            .map_err(system("cannot start the server's thread"))?;
        Ok(Self {
            asking: Mutex::new(Asking { stream, seen }),
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
        self.look().counts
    }

    /// Who is connected at present and was welcomed.
    pub fn clients(&self) -> Vec<Client> {
        self.look().clients
    }

    /// Users that are connected, or were until lately.
    pub fn users(&self) -> Vec<User> {
        self.look().users
    }

    /// Nothing where the thread has ended.
    fn look(&self) -> Seen {
        // One asks at a time, so each reads its own answer.
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = asking.stream.write_all(b"?");
        asked
            .ok()
            .and_then(|()| asking.seen.recv().ok())
            .unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let asking = self
            .asking
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = asking.stream.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

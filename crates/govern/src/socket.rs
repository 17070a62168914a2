//! The socket on which the service answers who asks: its [`Status`] as JSON, and the end.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::SockType;
use reveille_expect::server::SocketFile;
use reveille_kernel::{Error, Result};

use crate::event::Event;
use crate::status::{SCHEMA_VERSION, Status};

/// Where the service answers.
pub const SOCKET: &str = "/run/reveille/govern.sock";

/// Who does not read for that long goes without an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// From one answer to the next, so many times as long as the answer took: whoever asks in a loop takes some 5%
/// of a CPU.
const PAUSES: u32 = 19;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A status of 4,096 CPUs and 32 rules takes some 20 MB.
const BYTES_MAX: u64 = 64 << 20;

/// The thread that answers. Dropping it removes the socket.
pub struct Socket {
    over: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    _file: SocketFile,
}

impl Socket {
    /// Answers anybody from now on.
    ///
    /// # Errors
    /// [`Error::Cannot`] where another service has the socket, or it cannot be made.
    pub fn listen(path: &Path, events: Sender<Event>) -> Result<Self> {
        let (file, listener) = SocketFile::listen(path, SockType::Stream)
            .map_err(|error| Error::Cannot(error.to_string()))?;
        let over = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(Error::system("making an event descriptor"))?;
        let over = Arc::new(over);
        let seen = over.clone();
        let thread = std::thread::Builder::new().name("status".into());
        let thread = thread
            .spawn(move || answer_all(listener, &seen, &events))
            .map_err(Error::system("starting a thread"))?;
        Ok(Self {
            over,
            thread: Some(thread),
            _file: file,
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.over.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_all(listener: OwnedFd, over: &EventFd, events: &Sender<Event>) {
    let listener = UnixListener::from(listener);
    loop {
        let mut waited = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(over.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut waited, PollTimeout::NONE);
        if waited[1].any() == Some(true) {
            return;
        }
        if let Ok((client, _)) = listener.accept() {
            let began = Instant::now();
            if answer(client, events).is_none() {
                return;
            }
            let pause = began.elapsed().saturating_mul(PAUSES);
            std::thread::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX));
        }
    }
}

/// Answers one client; `None` if the service has ended.
fn answer(mut client: UnixStream, events: &Sender<Event>) -> Option<()> {
    let (ask, status) = std::sync::mpsc::sync_channel(1);
    events.send(Event::Status(ask)).ok()?;
    let status: Status = status.recv().ok()?;
    let text = serde_json::to_vec(&status).expect("a status is plain data");
    // A client that leaves or does not read has no answer.
    let _ = client.set_nonblocking(false);
    let _ = client.set_write_timeout(Some(PATIENCE));
    let _ = client.write_all(&text);
    Some(())
}

/// The status of the service at that socket.
///
/// # Errors
/// [`Error::Cannot`] where no service runs, [`Error::Failed`] where it does not answer.
pub fn ask(path: &Path) -> Result<Status> {
    let place = path.display();
    let mut stream = UnixStream::connect(path).map_err(|error| {
        Error::Cannot(format!(
            "{place}: no service answers ({error}); start it: `sudo systemctl start reveille`, or \
             `sudo reveille govern`"
        ))
    })?;
    let failed = |why: String| Error::Failed(format!("{place}: {why}"));
    let _ = stream.set_read_timeout(Some(PATIENCE * 10));
    let mut text = Vec::new();
    (&mut stream)
        .take(BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| failed(format!("no answer: {error}")))?;
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let wrong = |error| failed(format!("not an answer of reveille govern: {error}"));
    let version: Versioned = serde_json::from_slice(&text).map_err(wrong)?;
    if version.schema_version != SCHEMA_VERSION {
        return Err(failed(format!(
            "the service answers with schema version {}, and this program reads {SCHEMA_VERSION}; \
             restart the service",
            version.schema_version
        )));
    }
    serde_json::from_slice(&text).map_err(wrong)
}

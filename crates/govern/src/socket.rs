//! The socket on which the service answers who asks: its [`Status`] as JSON, and the end.

mod users;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, UnixAddr, getsockopt, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use reveille_expect::server::SocketFile;
use reveille_kernel::{Error, Result};

use self::users::Users;
use crate::event::Event;
use crate::status::{SCHEMA_VERSION, Status};

/// Where the service answers.
pub const SOCKET: &str = "/run/reveille/govern.sock";

/// Who does not read for that long goes without an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// From one turn to the next at least, and so many times as long as the turn took: all users together take some 20 %
/// of a CPU at most...
const REST_MIN: Duration = Duration::from_millis(10);
const REST_PARTS: u32 = 4;
/// ...unless a turn takes long.
const REST_MAX: Duration = Duration::from_millis(50);
/// Clients accepted in a turn.
const ACCEPTED_MAX: usize = 32;
/// Clients that read their answers, at a time; the oldest one leaves for a new one.
const READERS_MAX: usize = 256;
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
        let clients = Clients {
            listener: UnixListener::from(listener),
            users: Users::new(),
            readers: VecDeque::new(),
        };
        let thread = std::thread::Builder::new().name("status".into());
        let thread = thread
            .spawn(move || clients.answer(&seen, &events))
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

/// All clients.
struct Clients {
    listener: UnixListener,
    users: Users<UnixStream>,
    /// The oldest first.
    readers: VecDeque<Reader>,
}

/// A client that reads its answer.
struct Reader {
    client: UnixStream,
    text: Arc<[u8]>,
    sent: usize,
    until: Instant,
}

impl Clients {
    /// Answers all until `over` is written to, or the service has ended.
    fn answer(mut self, over: &EventFd, events: &Sender<Event>) {
        let mut rests_until = Instant::now();
        while !self.wait(over, rests_until) {
            let began = Instant::now();
            if began >= rests_until {
                let has_come = self.accept(began);
                let due = self.users.due(began);
                if has_come || !due.is_empty() {
                    if !due.is_empty() {
                        let Some(text) = text(events) else { return };
                        self.hand_out(&text, due, began);
                    }
                    let rest = began.elapsed().saturating_mul(REST_PARTS);
                    rests_until = Instant::now() + rest.clamp(REST_MIN, REST_MAX);
                }
            }
            let now = Instant::now();
            self.readers.retain_mut(|reader| reader.goes_on(now));
        }
    }

    /// Waits until somebody comes, is due an answer, reads, or is late; true if all is over.
    fn wait(&self, over: &EventFd, rests_until: Instant) -> bool {
        let now = Instant::now();
        let rests = rests_until > now;
        let mut waited = vec![PollFd::new(over.as_fd(), PollFlags::POLLIN)];
        if !rests {
            waited.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let readers = self.readers.iter();
        waited.extend(readers.map(|one| PollFd::new(one.client.as_fd(), PollFlags::POLLOUT)));
        let next = self.users.next().map(|next| next.max(rests_until));
        let late = self.readers.iter().map(|reader| reader.until).min();
        let until = next
            .into_iter()
            .chain(late)
            .chain(rests.then_some(rests_until));
        let left = until
            .min()
            .map(|until| until.saturating_duration_since(now));
        // Rounded up: a wait that is too short would be repeated.
        let ms = left.map(|left| u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX));
        let _ = poll(&mut waited, ms.map_or(PollTimeout::NONE, PollTimeout::from));
        waited[0].any() == Some(true)
    }

    /// Whether anybody has come.
    fn accept(&mut self, now: Instant) -> bool {
        for nth in 0..ACCEPTED_MAX {
            let Ok((client, _)) = self.listener.accept() else {
                return nth > 0;
            };
            let owner = getsockopt(&client, sockopt::PeerCredentials);
            if let (Ok(owner), Ok(())) = (owner, client.set_nonblocking(true)) {
                self.users.come(owner.uid(), client, now);
            }
        }
        true
    }

    fn hand_out(&mut self, text: &Arc<[u8]>, due: Vec<(u32, UnixStream)>, began: Instant) {
        let now = Instant::now();
        let uids = due.iter().map(|(uid, _)| *uid);
        self.users.answered(uids, now - began, now);
        for (_, client) in due {
            if self.readers.len() == READERS_MAX {
                self.readers.pop_front();
            }
            self.readers.push_back(Reader {
                client,
                text: text.clone(),
                sent: 0,
                until: now + PATIENCE,
            });
        }
    }
}

/// The status now, as JSON; `None` if the service has ended.
fn text(events: &Sender<Event>) -> Option<Arc<[u8]>> {
    let (ask, status) = std::sync::mpsc::sync_channel(1);
    events.send(Event::Status(ask)).ok()?;
    let status: Status = status.recv().ok()?;
    let text = serde_json::to_vec(&status).expect("a status is plain data");
    Some(text.into())
}

impl Reader {
    /// Writes what can be taken; false if there is no more to do.
    fn goes_on(&mut self, now: Instant) -> bool {
        match self.client.write(&self.text[self.sent..]) {
            Ok(0) => false,
            Ok(length) => {
                self.sent += length;
                self.until = now + PATIENCE;
                self.sent < self.text.len()
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock && now < self.until,
        }
    }
}

/// A user who asks often waits for two seconds.
const WAITS: u32 = 3;

/// Who does not accept for that long may be stopped: those who came before fill the queue.
fn connect(path: &Path) -> nix::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let longest = TimeVal::seconds(i64::from(WAITS));
    setsockopt(&stream, sockopt::SendTimeout, &longest)?;
    socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream.into())
}

/// The status of the service at that socket.
///
/// # Errors
/// [`Error::Cannot`] where no service runs, [`Error::Failed`] where it does not answer.
pub fn ask(path: &Path) -> Result<Status> {
    let place = path.display();
    let failed = |why: String| Error::Failed(format!("{place}: {why}"));
    let stopped = || failed("the service does not answer; it may be stopped".into());
    let mut stream = connect(path).map_err(|error| match error {
        Errno::EAGAIN => stopped(),
        Errno::ENOENT | Errno::ECONNREFUSED => Error::Cannot(format!(
            "{place}: no service answers ({error}); start it: `sudo systemctl start reveille`, or \
             `sudo reveille govern`",
            error = std::io::Error::from(error)
        )),
        // Such as of a folder that this user may not enter: whether a service runs is not known.
        error => failed(std::io::Error::from(error).to_string()),
    })?;
    let _ = stream.set_read_timeout(Some(PATIENCE * WAITS));
    let mut text = Vec::new();
    (&mut stream)
        .take(BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => stopped(),
            _ => failed(format!("no answer: {error}")),
        })?;
    if text.is_empty() {
        let why = "no answer: the service ends, or this user asks it too often";
        return Err(failed(why.into()));
    }
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

#[cfg(test)]
mod tests {
    use nix::sys::socket::{Backlog, bind, listen};

    use super::*;

    #[test]
    fn a_service_that_is_stopped_is_waited_for_briefly_also_behind_a_full_queue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        // The first one is connected, fills the queue, and has no answer.
        let began = Instant::now();
        let first = ask(&path).unwrap_err();
        let second = ask(&path).unwrap_err();
        for error in [first, second] {
            assert!(matches!(error, Error::Failed(_)), "{error}");
        }
        let longest = 3 * PATIENCE * WAITS;
        assert!(began.elapsed() < longest, "{:?}", began.elapsed());
        drop(listener);
        assert!(matches!(ask(&path), Err(Error::Cannot(_))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(ask(&path), Err(Error::Cannot(_))));
        // Whether one runs at a socket that cannot be reached is not known.
        let unreached = folder.path().join("s".repeat(200));
        assert!(matches!(ask(&unreached), Err(Error::Failed(_))));
    }
}

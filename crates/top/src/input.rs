//! Waiting for the next refresh, a key or a signal: one poll(2), so that watching causes no wake-ups
//! of its own.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEvent};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGCONT, SIGWINCH};
use signal_hook::low_level::pipe;

/// How long to wait for further keys after the first. With a timeout of 0 crossterm does not poll.
const MORE_KEYS: Duration = Duration::from_millis(5);

/// The terminal's keys and the process's signals.
pub struct Input {
    /// If standard input is not a terminal.
    terminal: Option<File>,
    /// Readable after a signal that ends the program.
    ends: UnixStream,
    /// Readable after a change of size, and when the process continues after a stop.
    changes: UnixStream,
}

/// An event during a wait.
#[derive(Debug, Clone, Copy)]
pub enum InputEvent {
    Key(KeyEvent),
    /// The screen must be redrawn: its size changed, or other programs wrote to it.
    Changed,
    /// A signal ends the program, or the terminal was closed.
    End,
}

impl Input {
    /// If there is no terminal for keys, or signal handlers cannot be installed.
    pub fn open(ended_by: &[i32]) -> io::Result<Self> {
        let terminal = match io::stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty")?),
        };
        Ok(Self {
            terminal,
            ends: readable_after(ended_by)?,
            changes: readable_after(&[SIGWINCH, SIGCONT])?,
        })
    }

    /// Waits until then, or until events come; several keys may come at once.
    pub fn wait(&mut self, until: Instant) -> io::Result<Vec<InputEvent>> {
        let stdin = io::stdin();
        let keys: BorrowedFd = match &self.terminal {
            Some(terminal) => terminal.as_fd(),
            None => stdin.as_fd(),
        };
        let wanted = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [
            wanted(self.ends.as_fd()),
            wanted(keys),
            wanted(self.changes.as_fd()),
        ];
        match poll(&mut fds, timeout(until)) {
            Ok(_) => {}
            // The signal has made one of the streams readable.
            Err(Errno::EINTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let [ended, typed, changed] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        let closed = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if !ended.is_empty() || typed.intersects(closed) {
            return Ok(vec![InputEvent::End]);
        }
        let mut happened = Vec::new();
        if !changed.is_empty() {
            let mut bytes = [0; 64];
            let _ = self.changes.read(&mut bytes)?;
            happened.push(InputEvent::Changed);
        }
        while !typed.is_empty() && event::poll(MORE_KEYS)? {
            if let Event::Key(key) = event::read()? {
                happened.push(InputEvent::Key(key));
            }
        }
        Ok(happened)
    }
}

/// A stream that becomes readable after these signals.
pub fn readable_after(signals: &[i32]) -> io::Result<UnixStream> {
    let (here, there) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, there.try_clone()?)?;
    }
    Ok(here)
}

/// The time left, rounded up: rounded down, the last millisecond would be a busy loop.
pub fn timeout(until: Instant) -> PollTimeout {
    let left = until.saturating_duration_since(Instant::now());
    let left = Duration::from_millis(left.as_micros().div_ceil(1000) as u64);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

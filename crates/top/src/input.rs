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

/// How long further keys are waited for after the first, which ends a wait. With no time at all
/// crossterm does not look.
const MORE_KEYS: Duration = Duration::from_millis(5);

/// The terminal's keys and the process's signals.
pub struct Input {
    /// Where standard input is no terminal.
    terminal: Option<File>,
    /// Readable once a signal has asked for the end.
    ends: UnixStream,
    /// Readable after a change of size, and when the process goes on after a stop.
    changes: UnixStream,
}

/// What happened meanwhile.
#[derive(Debug, Clone, Copy)]
pub enum Happened {
    Key(KeyEvent),
    /// The screen is to be drawn anew: a new size, or what others wrote meanwhile.
    Changed,
    /// A signal asks for the end, or the terminal was closed.
    End,
}

impl Input {
    /// # Errors
    /// Where there is no terminal to read keys from, or signals cannot be had.
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

    /// Waits until then, or until something happens; which may be several keys at once.
    pub fn wait(&mut self, until: Instant) -> io::Result<Vec<Happened>> {
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
            // The signal has made one of the others readable.
            Err(Errno::EINTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let [ended, typed, changed] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        let closed = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if !ended.is_empty() || typed.intersects(closed) {
            return Ok(vec![Happened::End]);
        }
        let mut happened = Vec::new();
        if !changed.is_empty() {
            let mut bytes = [0; 64];
            let _ = self.changes.read(&mut bytes)?;
            happened.push(Happened::Changed);
        }
        while !typed.is_empty() && event::poll(MORE_KEYS)? {
            if let Event::Key(key) = event::read()? {
                happened.push(Happened::Key(key));
            }
        }
        Ok(happened)
    }
}

/// A stream that the signals write to.
pub fn readable_after(signals: &[i32]) -> io::Result<UnixStream> {
    let (here, there) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, there.try_clone()?)?;
    }
    Ok(here)
}

/// The time left, rounded up: rounded down, the last millisecond would be spent in turning.
pub fn timeout(until: Instant) -> PollTimeout {
    let left = until.saturating_duration_since(Instant::now());
    let left = Duration::from_millis(left.as_micros().div_ceil(1000) as u64);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

//! The pace of printed output: every interval, until a signal, the count, or a closed output ends it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use crate::input::{readable_after, timeout};

/// The interval and the number of refreshes.
#[derive(Debug, Clone)]
pub struct Refresh {
    /// The time between refreshes.
    pub interval: Duration,
    /// The number of refreshes; `None`: until a signal or the user ends it.
    pub count: Option<u64>,
    /// Signals that end it.
    pub ended_by: Vec<i32>,
}

pub struct Pace {
    ends: UnixStream,
    interval: Duration,
    next: Instant,
    left: Option<u64>,
}

impl Pace {
    pub fn new(refresh: &Refresh) -> io::Result<Self> {
        Ok(Self {
            ends: readable_after(&refresh.ended_by)?,
            interval: refresh.interval,
            next: Instant::now() + refresh.interval,
            left: refresh.count,
        })
    }

    /// Waits for the next refresh; false at the end.
    pub fn next(&mut self) -> io::Result<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        self.left = self.left.map(|left| left - 1);
        while Instant::now() < self.next {
            let out = io::stdout();
            let mut fds = [
                PollFd::new(self.ends.as_fd(), PollFlags::POLLIN),
                // Reports only that the reader has closed it.
                PollFd::new(out.as_fd(), PollFlags::empty()),
            ];
            match poll(&mut fds, timeout(self.next)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        // After a long stop, only one of the missed refreshes.
        self.next = (self.next + self.interval).max(Instant::now());
        Ok(true)
    }
}

//! A timer of the kernel's: exact to its microseconds, where tokio's own have steps of a millisecond.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// One that is set; its [`Expiry`] sees it expire.
#[derive(Debug)]
pub struct Timer(TimerFd);

/// What waits for a timer.
pub struct Expiry(AsyncFd<OwnedFd>);

impl Timer {
    /// Not set. Within a runtime.
    ///
    /// # Errors
    /// Where the kernel gives no descriptor.
    pub fn new() -> io::Result<(Self, Expiry)> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let descriptor = timer.as_fd().try_clone_to_owned()?;
        // SAFETY: an OwnedFd is one descriptor as long as it lives.
        let expiry = unsafe { AsyncFd::register(descriptor) }?;
        Ok((Self(timer), Expiry(expiry)))
    }

    /// Expires at that instant, or at once if it is past; `None`: never.
    pub fn set(&self, at: Option<Instant>) {
        let set = match at {
            // 0 would switch the timer off.
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                let once = TimeSpec::from_duration(left.max(Duration::from_nanos(1)));
                self.0
                    .set(Expiration::OneShot(once), TimerSetTimeFlags::empty())
            }
            None => self.0.unset(),
        };
        set.expect("a timer takes any time");
    }
}

impl Expiry {
    /// The timer expires.
    ///
    /// # Errors
    /// Where the runtime ends.
    pub async fn wait(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            let read =
                ready.try_io(|timer| Ok(nix::unistd::read(timer.get_ref(), &mut expirations)?));
            // It was set anew in the meantime otherwise.
            if let Ok(Ok(_)) = read {
                return Ok(());
            }
        }
    }
}

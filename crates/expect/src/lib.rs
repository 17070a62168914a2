//! Lets an application announce when it will be needed, so that its CPU is awake then.
//!
//! An application that waits for a foreseeable event (a kernel on a GPU, a network reply) loses the time
//! that its CPU takes to wake up. It can announce when the event is due:
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use reveille_expect::Waker;
//!
//! # fn run() {}
//! # fn main() -> reveille_expect::Result<()> {
//! let mut waker = Waker::connect();
//! loop {
//!     let start = Instant::now();
//!     if let Some(next) = waker.predict("assign points") {
//!         waker.expect(start + next.early, next.late - next.early)?;
//!     }
//!     run(); // begins something elsewhere, and sleeps until it is done
//!     waker.cancel()?;
//!     waker.observe("assign points", start.elapsed())?;
//! }
//! # }
//! ```
//!
//! - [`Waker`]: asks the running `reveille anticipate` or, without one, a thread of this process.
//! - [`History`]: how long operations take, predicted from how long they took.
//! - [`Limits`], [`Refusal`]: what may be asked for.
//! - [`protocol`]: the messages on the socket.
//! - [`remote`]: hints to another machine.
//! - `server` (feature `server`): the engine's side of it.
//!
//! C programs have the crate `reveille-expect-c`.

mod budget;
mod clock;
pub mod history;
pub mod limits;
mod link;
mod own_thread;
pub mod protocol;
pub mod remote;
#[cfg(feature = "server")]
pub mod server;
mod waker;

pub use clock::monotonic_ns;
pub use history::{History, Kind, Prediction};
pub use limits::{Limits, MAX_OPEN, Refusal};
pub use waker::{Counts, Expected, Served, Waker};

/// Where the running engine listens.
pub const SOCKET: &str = "/run/reveille/anticipate.sock";

/// Why something was not done. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It may not be asked for.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// A duration that nothing can have taken.
    #[error("invalid duration of an operation: {0:?}")]
    InvalidDuration(std::time::Duration),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
}

impl Error {
    /// A failed system call, with what it was to do.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }
}

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

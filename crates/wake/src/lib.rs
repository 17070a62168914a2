//! Measuring how long a CPU takes to wake.
//!
//! A source wakes the measured CPU at a known instant, a probe sees it wake, and datapoints
//! come out. There are two probes: BPF programs in the idle loop (the feature `bpf`), and a waiting
//! thread where BPF cannot be had. [`measure`] does a whole run: characterisation, the idle
//! states in turn, and everything that was changed put back.
//!
//! Times are CLOCK_MONOTONIC, ns, throughout.

mod cost;
#[cfg(feature = "bpf")]
mod counters;
mod distance;
#[cfg(feature = "bpf")]
mod event;
mod floor;
#[cfg(feature = "bpf")]
mod kernel;
mod placement;
#[cfg(feature = "bpf")]
mod probe_cost;
mod run;
#[cfg(feature = "bpf")]
mod source;
mod user;

pub use distance::Distances;
pub use placement::available_cpus;
pub use run::{Notice, Options, Outcome, Progress, Protocol, Sink, measure, try_bpf};

/// Why a measurement could not be made. Each message is one line: what, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be meant: a CPU or state that is not there, a range upside down.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// A setting could not be read or changed.
    #[error(transparent)]
    Machine(reveille_machine::Error),
    /// The BPF side failed after it had been loaded.
    #[cfg(feature = "bpf")]
    #[error("BPF: {0}")]
    Bpf(#[from] libbpf_rs::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// The receiver of the datapoints failed (a full disk).
    #[error("{0}")]
    Sink(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<reveille_machine::Error> for Error {
    fn from(error: reveille_machine::Error) -> Self {
        match error {
            reveille_machine::Error::Usage(message) => Self::Usage(message),
            reveille_machine::Error::Cannot(message) => Self::Cannot(message),
            other => Self::Machine(other),
        }
    }
}

#[cfg(feature = "bpf")]
impl From<reveille_bpf::Error> for Error {
    fn from(error: reveille_bpf::Error) -> Self {
        match error {
            reveille_bpf::Error::Cannot(why) => Self::Cannot(why),
            reveille_bpf::Error::Bpf(error) => Self::Bpf(error),
            reveille_bpf::Error::System { what, source } => Self::System { what, source },
            error => Self::Cannot(error.to_string()),
        }
    }
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn system(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Error {
    move |errno| Error::System {
        what,
        source: errno.into(),
    }
}

//! Waking in time: a CPU is awake just before the I/O that somebody waits for is complete.

mod awake_power;
pub mod bench;
mod devices;
#[cfg(feature = "bpf")]
mod engine;
mod learnt;
#[cfg(feature = "bpf")]
mod model;
mod operation;
mod settings;

pub use awake_power::AwakePower;
pub use devices::{Announcements, BlockDevice};
#[cfg(feature = "bpf")]
pub use engine::*;
pub use learnt::{Expected, Learnt, correlation, expected};
pub use operation::Operation;
pub use settings::{MOST_DEVICES, Readiness, SLEEPS, Settings, Subject};

/// Why nothing can be anticipated. Each message is one line: what, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be meant: a device, process or cgroup that is not there.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// Something changed under a turn: its figures are not of what they were to be.
    #[error("{0}")]
    Disturbed(String),
    /// The machine could not be read.
    #[error(transparent)]
    Machine(#[from] reveille_machine::Error),
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

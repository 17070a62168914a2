//! Where the time of a suspend and a resume goes.
//!
//! [`log`] reads a kernel's log, and [`cycle`] says what is known of one suspend and its resume.
//! [`graph`] finds what waited for what in it, [`path`] the chain that set how long it took, and
//! [`what_if`] how long it would take if something were different. [`power`] lays a power meter's
//! samples beside it. [`analysis`] is all that is shown of it. [`capture`] suspends this machine and
//! keeps what its kernel tells.

pub mod analysis;
pub mod capture;
pub mod cycle;
pub mod devices;
pub mod graph;
pub mod log;
pub mod path;
pub mod power;
pub mod times;
pub mod what_if;

/// Why there is no analysis. Each message is one line: what, where, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// The system refused something that should work.
    #[error("{0}")]
    Failed(String),
    /// A capture cannot be kept.
    #[error(transparent)]
    Output(#[from] reveille_dataset::Error),
    /// Not a log or a power meter's file that this program knows, or nothing of use in it.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file as it was named.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A setting of the machine could not be read, changed or put back.
    #[error(transparent)]
    Machine(#[from] reveille_machine::Error),
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

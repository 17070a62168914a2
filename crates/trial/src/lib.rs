//! Runs one workload under several idle settings, in turns, and compares.
//!
//! [`setting::choose`] says which settings there are on a machine, [`run::run`] gives each its turn
//! in every round, in shuffled order, with a [`workload::Workload`]; [`observe`] counts meanwhile what
//! the machine does. [`result::conclude`] compares, by [`reveille_figures::rounds`], for which rounds are
//! the independent units, and [`verdict`] says which setting is best and which ones are dominated;
//! [`sentence`] puts it in words. A [`result::Trial`] is kept as `trial.json`.

pub mod observe;
pub mod place;
pub mod result;
pub mod run;
pub mod sentence;
pub mod setting;
pub mod verdict;
pub mod workload;

/// Why there is no trial. Each message is one line: what, where, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// The other side does not answer.
    #[error("{what}: none of {tries} requests was answered: {why}")]
    NoAnswer {
        /// The workload and who was asked.
        what: String,
        /// Requests that were sent.
        tries: u32,
        /// What became of the last of them.
        why: String,
    },
    /// The system refused something that should work: a command's start, a socket, a turn's first
    /// run.
    #[error("{0}")]
    Failed(String),
    /// Not a trial's file, or not one that this program knows.
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

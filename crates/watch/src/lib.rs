//! Watching without disturbing: what sleeps and what wakes it ([`live`]), what waking costs a
//! workload ([`cost`]), and where a packet's time goes ([`path`]).

pub mod cost;
pub mod live;
pub mod path;

/// Why something could not be watched. Each message is one line: what, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be meant: a CPU, process or interface that is not there.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
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

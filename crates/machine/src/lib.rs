//! What this computer has for idling, and its settings.
//!
//! Everything here reads `/sys` and `/proc` below a [`Root`], so that a recorded machine is read as
//! the running one is. What a machine does not tell is `None`, never zero.
//!
//! - [`Idle::read`]: driver, governor, and every CPU's idle states, limits and place.
//! - [`Identity::read`]: which computer and kernel this is.
//! - [`groups`]: CPUs that are alike, with their states taken together.
//! - [`boot`]: idle settings on the kernel's command line, and what a machine without a driver does.
//! - [`counters`]: residency, SMI and cycle counters of perf, and how to open them.
//! - [`interrupts`]: interrupts per CPU, and the CPU that serves the fewest.
//! - [`network`]: network interfaces, their interrupts, and what makes a packet wait there.
//! - [`pm_qos`]: latency bounds that processes hold, and who holds them.
//! - [`bounds`]: all that keeps CPUs from deep states: requests, limits, the command line.
//! - [`energy`] and [`frequency`]: RAPL, batteries, cpufreq.
//! - [`requests`]: holding a latency bound, on all CPUs or on some; [`latency`] reads one.
//! - [`limits`]: which idle states CPUs may use.
//! - [`affinity`]: which CPUs a thread may use.
//! - [`Awake`]: CPUs that do not sleep because a thread spins on them.
//! - [`Btf`] and [`capabilities`]: what the kernel has and what this process may.
//! - [`features`]: what kernel, CPU and user allow (`reveille doctor`).
//! - [`Account`] and [`RunAs`]: users, and with whose rights a user's command runs.
//! - [`Journal`]: settings that are changed for a while and put back in every case.
//!
//! ```
//! use reveille_machine::{Idle, Root};
//!
//! # fn main() -> reveille_machine::Result<()> {
//! let idle = Idle::read(&Root::default())?; // or Root::at("/tmp/recorded-machine")
//! for group in idle.groups() {
//!     for state in &group.states {
//!         println!("{:?} {} {:?} µs", group.cpus, state.name, state.exit_latency_us);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod account;
pub mod affinity;
mod awake;
pub mod boot;
pub mod bounds;
mod btf;
pub mod capabilities;
pub mod counters;
mod cpuinfo;
pub mod cpulist;
pub mod energy;
pub mod features;
pub mod frequency;
pub mod groups;
mod identity;
mod idle;
pub mod interrupts;
pub mod journal;
pub mod latency;
pub mod limits;
pub mod load;
pub mod network;
pub mod pm_qos;
pub mod requests;
mod root;
mod run_as;
mod topology;

pub use account::Account;
pub use awake::Awake;
pub use btf::Btf;
pub use identity::Identity;
pub use idle::{Cpu, Idle, IdleState};
pub use journal::{Journal, Restored};
pub use root::Root;
pub use run_as::{Inherited, RunAs};
pub use topology::CoreKind;

/// What can go wrong when a machine is read or set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file as it was opened, root and all.
        path: std::path::PathBuf,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// A file was read, but its content is not what the kernel documents.
    #[error("{path}: expected {expected}, found {found:?}")]
    Content {
        /// The file as it was read, root and all.
        path: std::path::PathBuf,
        /// What should stand there, in words.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The request cannot be meant: a CPU or state that is not there.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// A perf counter could not be opened.
    #[error(
        "cannot open the counter {counter} on CPU {cpu}: {source}{}",
        permission_hint(source)
    )]
    Counter {
        /// Its PMU and event.
        counter: String,
        /// The CPU's number.
        cpu: u32,
        /// What the kernel answered.
        source: std::io::Error,
    },
}

impl Error {
    /// A refusal for lack of permission, said as what only root may do; others as they are.
    pub(crate) fn by_root(self, what: &str) -> Self {
        match self {
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Self::Cannot(format!("{what} by root; run with sudo"))
            }
            other => other,
        }
    }
}

fn permission_hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; run as root, with CAP_PERFMON, or with kernel.perf_event_paranoid at 0 or less"
        }
        _ => "",
    }
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn what_only_root_may_do_is_said_so_and_other_errors_stay() {
        let of = |kind: ErrorKind| Error::Io {
            path: "/x".into(),
            source: kind.into(),
        };
        let refused = of(ErrorKind::PermissionDenied).by_root("it can be set");
        assert_eq!(refused.to_string(), "it can be set by root; run with sudo");
        let other = of(ErrorKind::NotFound).by_root("it can be set");
        assert!(matches!(other, Error::Io { .. }), "{other}");
    }

    #[test]
    fn a_counter_that_this_user_may_not_open_says_who_may() {
        let of = |kind: ErrorKind| {
            let (counter, cpu, source) = ("msr/smi".into(), 3, kind.into());
            let error = Error::Counter {
                counter,
                cpu,
                source,
            };
            error.to_string()
        };
        assert_eq!(
            of(ErrorKind::PermissionDenied),
            "cannot open the counter msr/smi on CPU 3: permission denied; run as root, with \
             CAP_PERFMON, or with kernel.perf_event_paranoid at 0 or less"
        );
        assert_eq!(
            of(ErrorKind::NotFound),
            format!(
                "cannot open the counter msr/smi on CPU 3: {}",
                ErrorKind::NotFound
            )
        );
    }
}

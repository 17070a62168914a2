//! The one error of the crates that touch the machine or files, and its exit codes.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why a build without the feature `bpf` cannot do what needs it.
pub const BUILT_WITHOUT_BPF: &str =
    "this program was built without BPF; install clang and libbpf-dev, and build it again";

/// What can go wrong. Each message is one line: what, where, why, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid: an unknown CPU, state, device or process, a range whose minimum is
    /// above its maximum.
    #[error("{0}")]
    Usage(String),
    /// This machine, kernel or user cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// Something changed during a run that makes its results invalid.
    #[error("{0}")]
    Disturbed(String),
    /// Something failed that should work.
    #[error("{0}")]
    Failed(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file as it was opened, root and all.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the kernel was read, but its content is not what the kernel documents.
    #[error("{path}: expected {expected}, found {found:?}")]
    Content {
        /// The file as it was read, root and all.
        path: PathBuf,
        /// What the kernel documents, as text.
        expected: &'static str,
        /// The content.
        found: String,
    },
    /// Not a file of a kind or version that this program reads.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Output is not written there: the name is taken, or the place is not trusted.
    #[error("{path}: {why}")]
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done: `running a BPF program`, ...
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// libbpf failed after the kernel had been asked what it has.
    #[cfg(feature = "bpf")]
    #[error("BPF: {0}")]
    Bpf(#[from] libbpf_rs::Error),
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
        /// The kernel's error.
        source: io::Error,
    },
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The end of messages that `reveille doctor` explains.
    pub const SEE_DOCTOR: &str = "; `reveille doctor` shows what it has";

    /// Exit code of a usage error.
    pub const USAGE: u8 = 2;
    /// Exit code where this machine, kernel or user cannot do it.
    pub const CANNOT: u8 = 3;

    /// The exit code: 2 for a usage error, 3 if the machine cannot do it, 1 for other failures. A file that
    /// is missing, is a folder or may not be opened is a usage error, unless it is the kernel's own.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Refused { .. } => Self::USAGE,
            Self::Cannot(_) => Self::CANNOT,
            _ if self.withheld().is_some() => Self::CANNOT,
            Self::Io { path, source } => match (is_kernels(path), source.kind()) {
                (true, ErrorKind::PermissionDenied) => Self::CANNOT,
                (
                    _,
                    ErrorKind::NotFound
                    | ErrorKind::PermissionDenied
                    | ErrorKind::IsADirectory
                    | ErrorKind::NotADirectory,
                ) => Self::USAGE,
                _ => 1,
            },
            _ => 1,
        }
    }

    /// A hint if the kernel's files are hidden from this process, as in a container.
    pub fn withheld(&self) -> Option<&'static str> {
        let Self::Io { path, source } = self else {
            return None;
        };
        let is_sysfs = source.kind() == ErrorKind::NotFound && path.starts_with("/sys");
        is_sysfs.then_some("is sysfs mounted at /sys, and the whole of it?")
    }

    /// A system call that failed, and what it was to do.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }

    /// A file that could not be read or written.
    pub fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |source| Self::Io {
            path,
            source: source.into(),
        }
    }

    /// As [`Error::at`], of a file that settings are changed by: a read-only file system has a hint.
    pub(crate) fn at_setting<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |source| match source.into() {
            source if source.kind() == ErrorKind::ReadOnlyFilesystem => Self::Cannot(format!(
                "{}: the file system is read-only, as in most containers: settings can be changed \
                 where /sys and /run are writable, as on the host",
                path.display()
            )),
            source => Self::Io { path, source },
        }
    }

    /// A refusal for lack of permission becomes one that names root; others stay.
    pub fn by_root(self, what: &str) -> Self {
        match self {
            Self::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                Self::Cannot(format!("{what} by root; run with sudo"))
            }
            other => other,
        }
    }
}

/// A file of sysfs, procfs or devtmpfs.
fn is_kernels(path: &Path) -> bool {
    let folders = ["/sys", "/proc", "/dev"];
    folders.into_iter().any(|folder| path.starts_with(folder))
}

fn permission_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => {
            "; run as root, with CAP_PERFMON, or with kernel.perf_event_paranoid at 0 or less"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_wrong_use_unless_it_belongs_to_the_kernel() {
        let code = |path: &str, kind: ErrorKind| Error::at(Path::new(path))(kind).exit_code();
        assert_eq!(code("result/result.json", ErrorKind::NotFound), 2);
        assert_eq!(code("/tmp/tree/sys/x", ErrorKind::NotFound), 2);
        assert_eq!(
            code("/sys/devices/system/cpu/present", ErrorKind::NotFound),
            3
        );
        assert_eq!(code("/sys/x", ErrorKind::Other), 1);
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::IsADirectory,
            ErrorKind::NotADirectory,
        ] {
            assert_eq!(code("result/result.json", kind), 2, "{kind}");
        }
        for path in ["/sys/x", "/proc/1/x", "/dev/cpu_dma_latency"] {
            assert_eq!(code(path, ErrorKind::PermissionDenied), 3, "{path}");
        }
        assert_eq!(code("result/result.json", ErrorKind::StorageFull), 1);
    }

    #[test]
    fn a_permission_error_names_root_and_other_errors_are_unchanged() {
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
    fn a_refused_counter_names_who_may_open_it() {
        let said = [ErrorKind::PermissionDenied, ErrorKind::NotFound].map(|kind| {
            let (counter, cpu, source) = ("msr/smi".into(), 3, kind.into());
            let error = Error::Counter {
                counter,
                cpu,
                source,
            };
            (kind, error)
        });
        reveille_snapshot::snapshot!("errors", said);
    }
}

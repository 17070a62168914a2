//! What is to be followed, until when, and what comes of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reveille_kernel::Root;
use reveille_kernel::workload::Subject;

use super::conclude::Measured;
use super::result::{Cost, Ended};
use crate::Result;

/// How long a workload that is no command is followed by default.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(30);

/// How often it is looked whether the end has come: the program's own wake-ups.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// What to follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Options<'a> {
    /// The workload.
    pub subject: &'a Subject,
    /// Ends after this time; `None`: when the workload ends.
    pub duration: Option<Duration>,
    /// Record the wakers' stacks, too.
    pub stacks: bool,
    /// For estimates.
    pub measured: Measured,
}

/// What ends following before its time is up.
pub trait End {
    /// Called once following has begun.
    fn start(&mut self) -> Result<()>;
    /// Waits for at most this time, `None`: for the end; why following ends, if it does.
    fn wait(&mut self, at_most: Option<Duration>) -> Result<Option<Ended>>;
}

/// The end of a workload that runs already: that of its process, or a signal to this program.
pub struct Present<'a> {
    /// Where its process is looked for.
    pub root: &'a Root,
    /// The workload.
    pub subject: &'a Subject,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
}

impl End for Present<'_> {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait(&mut self, at_most: Option<Duration>) -> Result<Option<Ended>> {
        std::thread::sleep(at_most.unwrap_or(LOOK));
        let interrupted = self.stop.load(Ordering::Relaxed);
        let gone = || self.subject.is_gone(self.root);
        Ok(match interrupted {
            true => Some(Ended::Interrupted),
            false => gone().then_some(Ended::WorkloadEnded),
        })
    }
}

/// What following gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// The result.
    pub cost: Cost,
    /// The folded stacks, if they were asked for.
    pub stacks: Option<String>,
    /// Files that wakers had mapped and that could not be opened: their functions have no names.
    pub unopened_files: usize,
}

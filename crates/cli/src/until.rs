//! How long a setting is held: while a user's command runs, or until this program is told to end.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::command::{Child, not_ignored};

/// What ends it, made ready before anything is changed.
pub enum Until {
    CommandEnds(Child),
    /// Ctrl-C, or SIGTERM, SIGHUP, SIGQUIT.
    Told(Signals),
}

impl Until {
    /// The end of that command; without one, a signal.
    ///
    /// # Errors
    /// As [`Child::prepare`].
    pub fn prepare(command: &[OsString]) -> anyhow::Result<Self> {
        Ok(match command.is_empty() {
            false => Self::CommandEnds(Child::prepare(command)?),
            true => {
                // A shell starts what it puts in the background with SIGINT ignored; a bound that
                // nothing but kill -9 could end would be worse than one that ends too readily.
                let mut ends = not_ignored(&[SIGHUP]);
                ends.extend([SIGINT, SIGTERM, SIGQUIT]);
                Self::Told(Signals::new(ends).context("signals")?)
            }
        })
    }

    /// Is a command run? Standard output is its own then.
    pub fn is_command(&self) -> bool {
        matches!(self, Self::CommandEnds(_))
    }

    /// Starts the command, if there is one, and waits: the command's exit code, or success, for
    /// being told to end is how it is meant to end.
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn over(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::CommandEnds(mut child) => {
                child.start()?;
                child.wait()
            }
            Self::Told(mut signals) => {
                signals.forever().next();
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

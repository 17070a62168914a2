//! How long a setting is held: while a user's command runs, or until this program is told to end.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use signal_hook::iterator::Signals;

use crate::command::{As, Child};
use crate::signals::ending;

/// What ends it, made ready before anything is changed.
pub enum Until {
    CommandEnds(Child),
    /// Ctrl-C, or another signal of [`ending`].
    Told(Signals),
}

impl Until {
    /// The end of that command; without one, a signal.
    ///
    /// # Errors
    /// As [`Child::prepare`].
    pub fn prepare(command: &[OsString], user: &As) -> anyhow::Result<Self> {
        Ok(match command.is_empty() {
            false => Self::CommandEnds(Child::prepare(command, &user.run_as()?)?),
            true => Self::Told(Signals::new(ending()).context("signals")?),
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

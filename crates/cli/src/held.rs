//! A setting that is held: while a user's command runs, or until a signal ends this program.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use reveille_advise::show::Statement;
use reveille_kernel::Journal;
use serde::Serialize;
use signal_hook::iterator::Signals;

use crate::command::{As, Child};
use crate::exit;
use crate::output_format::{Printed, To};
use crate::restore;
use crate::signals::ending;

/// What ends it, made ready before a setting is changed.
pub enum Until {
    CommandEnds(Child),
    /// Ctrl-C, or another signal of [`ending`].
    Signal(Signals),
}

impl Until {
    /// The end of that command; without one, a signal.
    ///
    /// # Errors
    /// As [`Child::prepare`].
    pub fn prepare(command: &[OsString], user: &As) -> anyhow::Result<Self> {
        Ok(match command.is_empty() {
            false => Self::CommandEnds(Child::prepare(command, &user.run_as()?)?),
            true => Self::Signal(Signals::new(ending()).context("signals")?),
        })
    }

    /// Prints what is set, runs the command or waits for a signal, and restores the settings. The exit
    /// code is the command's; a signal is the expected end, so success.
    ///
    /// # Errors
    /// As [`Child::start`], and where the statement cannot be written.
    pub fn hold(
        self,
        plan: &impl Serialize,
        statement: &Statement,
        printed: &Printed,
        journal: Journal,
    ) -> anyhow::Result<ExitCode> {
        restore::at_the_end(journal, self.over(plan, statement, printed))
    }

    /// As [`Until::hold`], if this program has changed no setting.
    pub fn over(
        self,
        plan: &impl Serialize,
        statement: &Statement,
        printed: &Printed,
    ) -> anyhow::Result<ExitCode> {
        match self {
            Self::CommandEnds(mut child) => {
                // Standard output is the command's.
                statement.lines.iter().for_each(exit::say);
                child.start()?;
                Ok(child.wait()?)
            }
            Self::Signal(mut signals) => {
                let print = printed.print(plan, &statement.sheet, To::Output);
                print.map_err(exit::statement_not_written)?;
                signals.forever().next();
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

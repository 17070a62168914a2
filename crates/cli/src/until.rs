//! A setting that is held: while a user's command runs, or until a signal ends this program.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use reveille_kernel::Journal;
use reveille_show::terminal;
use serde::Serialize;
use signal_hook::iterator::Signals;

use crate::command::{As, Child};
use crate::exit;
use crate::restore;
use crate::signals::ending;

/// What is set, in the forms in which it is printed; as JSON it is what it serializes to.
pub trait Statement: Serialize {
    /// As text, without the notes.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;

    /// In short, a line each.
    fn lines(&self) -> Vec<String>;

    /// What a user should know, a sentence each without its full stop.
    fn notes(&self) -> &[String];

    /// Prints it on standard output; text ends with the line `until`, if that is not empty.
    fn print(&self, json: bool, until: &str) -> io::Result<()> {
        let out = &mut terminal::stdout();
        if json {
            serde_json::to_writer_pretty(&mut *out, self).map_err(io::Error::from)?;
            writeln!(out)?;
            return out.flush();
        }
        self.write(out)?;
        if !self.notes().is_empty() {
            writeln!(out)?;
        }
        for note in self.notes() {
            writeln!(out, "Note: {note}.")?;
        }
        if !until.is_empty() {
            writeln!(out, "\n{until}")?;
        }
        out.flush()
    }
}

/// What ends it, made ready before anything is changed.
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
        set: &impl Statement,
        json: bool,
        until: &str,
        journal: Journal,
    ) -> anyhow::Result<ExitCode> {
        restore::at_the_end(journal, self.over(set, json, until))
    }

    fn over(self, set: &impl Statement, json: bool, until: &str) -> anyhow::Result<ExitCode> {
        match self {
            Self::CommandEnds(mut child) => {
                // Standard output is the command's.
                set.lines().iter().chain(set.notes()).for_each(exit::say);
                child.start()?;
                child.wait()
            }
            Self::Signal(mut signals) => {
                set.print(json, until).map_err(exit::unsaid)?;
                signals.forever().next();
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

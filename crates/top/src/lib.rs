//! The live view of [`reveille_watch::live`]: what sleeps, what wakes it and what holds it awake, again
//! and again. [`run`] shows it in a terminal, steered by keys; [`stream`] prints it as text, JSON or CSV.
//!
//! Drawing is a function of the history of snapshots, of what the user chose and of the size; it reads
//! nothing.

mod bounds;
mod csv;
mod draw;
mod grid;
mod help;
mod history;
mod idle;
mod input;
mod json;
mod look;
mod numbers;
mod pace;
mod screen;
mod sheet;
mod states;
mod tables;
mod view;
mod wakers;

#[cfg(test)]
mod pictures;

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use reveille_watch::live::Snapshot;

pub use draw::About;
pub use screen::run;

/// When figures are shown, and until when.
#[derive(Debug, Clone)]
pub struct Refresh {
    /// From one to the next.
    pub interval: Duration,
    /// Refreshes until the end; `None`: until a signal or the user ends it.
    pub count: Option<u64>,
    /// Signals that end it.
    pub ended_by: Vec<i32>,
}

/// How figures are printed where no terminal has keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Tables.
    Text,
    /// An object a line for each refresh: the snapshot as it is.
    Json,
    /// A line for each figure of each state, CPU and waker.
    Csv,
}

/// Prints what `read` gives at each refresh, until a signal, the count, or a reader that goes away ends
/// it.
///
/// # Errors
/// Of the output, and what `read` returns.
pub fn stream(
    about: About,
    refresh: &Refresh,
    form: Form,
    mut out: impl Write,
    mut read: impl FnMut() -> reveille_kernel::Result<Snapshot>,
) -> Result<()> {
    let mut tables = tables::Tables::new(about);
    let mut pace = pace::Pace::new(refresh)?;
    if form == Form::Csv {
        out.write_all(csv::HEADING.as_bytes())?;
    }
    while pace.next()? {
        let snapshot = read()?;
        match form {
            Form::Json => json::write(&snapshot, &mut out)?,
            Form::Csv => csv::write(&snapshot, &mut out)?,
            Form::Text => tables.write(&snapshot, &mut out)?,
        }
    }
    Ok(())
}

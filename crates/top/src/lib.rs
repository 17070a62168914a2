//! The live view of [`reveille_watch::live`]: what sleeps, what wakes it and what keeps it awake. [`run`]
//! shows it in a terminal and takes keys; [`stream`] prints it as text, JSON or CSV.
//!
//! Drawing depends only on the history of snapshots, the user's choices and the size; it reads nothing.

mod bounds;
mod csv;
mod draw;
mod grid;
mod help;
mod history;
mod idle;
mod input;
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

use anyhow::Result;
use reveille_watch::live::Snapshot;

pub use draw::About;
pub use pace::Refresh;
pub use screen::run;

/// The output format without a terminal view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Tables.
    Text,
    /// One object per line and refresh: the snapshot.
    Json,
    /// One line per figure of each state, CPU and waker.
    Csv,
}

/// Prints the snapshot of `read` at each refresh, until a signal, the count, or a closed output ends it.
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
            Form::Json => {
                // One write, so that lines are complete; a reader gets it at once.
                let mut line = serde_json::to_vec(&snapshot)?;
                line.push(b'\n');
                out.write_all(&line)?;
                out.flush()?;
            }
            Form::Csv => csv::write(&snapshot, &mut out)?,
            Form::Text => tables.write(&snapshot, &mut out)?,
        }
    }
    Ok(())
}

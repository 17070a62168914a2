//! Where the engine's statistics are shown while it runs.

use std::io::{self, Write};
use std::time::Duration;

use reveille_anticipate::live::{Live, show};
use reveille_show::terminal::{self, Stream};
use reveille_show::text::{self, Detail};

use crate::output_format::{Printed, To};

/// Standard output.
pub struct Screen<'a> {
    printed: &'a Printed,
    accounting: bool,
    /// A table that changes where it stands.
    table: Option<terminal::Live>,
    /// `None`: the statistics are shown at the end only.
    pub interval: Option<Duration>,
}

impl<'a> Screen<'a> {
    pub fn new(printed: &'a Printed, interval: Option<Duration>, accounting: bool) -> Self {
        let table = terminal::Live::on(Stream::Output);
        let table = Some(table).filter(|table| table.is_on() && printed.data().is_none());
        Self {
            printed,
            accounting,
            interval: match table {
                Some(_) => interval.or(Some(Duration::from_secs(1))),
                None => interval.filter(|_| printed.json),
            },
            table,
        }
    }

    /// The statistics at an interval.
    pub fn show(&mut self, live: &Live) -> anyhow::Result<()> {
        let snapshot = live.snapshot()?;
        let Some(table) = &self.table else {
            let mut out = terminal::data();
            serde_json::to_writer(&mut out, &snapshot).map_err(io::Error::from)?;
            writeln!(out)?;
            return Ok(out.flush()?);
        };
        let detail = match self.printed.all {
            true => Detail::All,
            false => Detail::Short,
        };
        let mut text = Vec::new();
        text::write(&show::sheet(&snapshot, self.accounting), detail, &mut text)?;
        table.draw(&String::from_utf8_lossy(&text));
        Ok(())
    }

    /// The statistics at the end.
    pub fn last(&mut self, live: &Live) -> anyhow::Result<()> {
        if self.printed.json && self.interval.is_some() {
            return self.show(live);
        }
        let snapshot = live.snapshot()?;
        let sheet = show::sheet(&snapshot, self.accounting);
        Ok(self.printed.print(&snapshot, &sheet, To::Output)?)
    }
}

//! Where the engine's statistics are shown while it runs.

use std::io::{self, Write};
use std::time::Duration;

use reveille_anticipate::live::{Live, show};
use reveille_show::terminal;
use reveille_show::text::{self, Detail};

use crate::output_format::{Printed, To};

/// Standard output.
pub struct Screen<'a> {
    printed: &'a Printed,
    accounting: bool,
    terminal: bool,
    /// `None`: the statistics are shown at the end only.
    pub interval: Option<Duration>,
    /// Lines shown last, to be written over.
    lines: usize,
}

impl<'a> Screen<'a> {
    pub fn new(printed: &'a Printed, interval: Option<Duration>, accounting: bool) -> Self {
        let terminal = terminal::is_live() && printed.data().is_none();
        Self {
            printed,
            accounting,
            terminal,
            interval: match terminal {
                true => interval.or(Some(Duration::from_secs(1))),
                false => interval.filter(|_| printed.json),
            },
            lines: 0,
        }
    }

    /// Is a table kept up to date?
    pub fn is_live(&self) -> bool {
        self.terminal
    }

    /// The statistics at an interval.
    pub fn show(&mut self, live: &Live) -> anyhow::Result<()> {
        match self.interval {
            // What has left the screen cannot be written over.
            Some(_) => self.draw(live, reveille_show::wrap::height()),
            None => Ok(()),
        }
    }

    /// The statistics at the end.
    pub fn last(&mut self, live: &Live) -> anyhow::Result<()> {
        self.draw(live, None)
    }

    /// Of a sheet that is taller than `height` lines the end is shown.
    fn draw(&mut self, live: &Live, height: Option<usize>) -> anyhow::Result<()> {
        let snapshot = live.snapshot()?;
        let sheet = show::sheet(&snapshot, self.accounting);
        if self.printed.json && self.interval.is_some() {
            let mut out = terminal::data();
            serde_json::to_writer(&mut out, &snapshot).map_err(io::Error::from)?;
            writeln!(out)?;
            return Ok(out.flush()?);
        }
        if !self.terminal {
            return Ok(self.printed.print(&snapshot, &sheet, To::Output)?);
        }
        let detail = match self.printed.all {
            true => Detail::All,
            false => Detail::Short,
        };
        let mut text = Vec::new();
        text::write(&sheet, detail, &mut text)?;
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let above = height.map_or(0, |height| lines.len().saturating_sub(height - 1));
        terminal::rewind(self.lines)?;
        let mut out = terminal::stdout();
        out.write_all(&lines[above..].concat())?;
        out.flush()?;
        self.lines = lines.len() - above;
        Ok(())
    }
}

//! Tables one after another, without a terminal: `reveille top | less`.

use std::io::{self, Write};
use std::time::Duration;

use reveille_kernel::driver_and_governor;
use reveille_watch::live::Snapshot;

use crate::draw::About;
use crate::history::History;
use crate::look::{Look, UNKNOWN};
use crate::view::{Pane, View};
use crate::{bounds, idle, numbers, states, wakers};

/// The number of listed wakers: the most frequent ones.
const WAKERS: usize = 20;

/// Writes the tables of each refresh.
pub struct Tables {
    about: About,
    look: Look,
    /// The notes that were written last.
    last_notes: Vec<String>,
}

impl Tables {
    pub fn new(about: About) -> Self {
        Self {
            about,
            look: Look {
                colour: false,
                ..Look::of_environment()
            },
            last_notes: Vec::new(),
        }
    }

    pub fn write(&mut self, snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
        let mut view = View::new(Duration::ZERO);
        self.line(&self.head(snapshot), out)?;
        let units = idle::rows(snapshot, &view);
        idle::grid(&units, &History::default(), &view).write(self.look, out)?;
        self.line("", out)?;
        self.line(&states::title(&snapshot.machine).join("; "), out)?;
        states::grid(&snapshot.machine).write(self.look, out)?;
        if !snapshot.wakers.is_empty() {
            view.pane = Pane::Wakers;
            let mut rows = wakers::rows(snapshot, &view);
            let all = wakers::sum(&rows);
            rows.truncate(WAKERS);
            self.line("", out)?;
            wakers::grid(&rows, all, view.list()).write(self.look, out)?;
        }
        if !snapshot.bounds.is_empty() {
            view.pane = Pane::Bounds;
            self.line("", out)?;
            bounds::grid(&bounds::rows(snapshot, &view)).write(self.look, out)?;
        }
        self.line("", out)?;
        if self.last_notes != snapshot.notes {
            for note in &snapshot.notes {
                self.line(&format!("note: {note}"), out)?;
            }
            self.line("", out)?;
            self.last_notes.clone_from(&snapshot.notes);
        }
        out.flush()
    }

    fn head(&self, snapshot: &Snapshot) -> String {
        let own = snapshot.own;
        let percent = own.cpu_percent.map(|percent| format!("{percent:.2}"));
        format!(
            "{}: {}; in {:.1} s; top itself {}% of one CPU, {} wake-ups/s",
            self.about.host.as_deref().unwrap_or("this machine"),
            driver_and_governor(snapshot.driver.as_deref(), snapshot.governor.as_deref()),
            snapshot.elapsed_s,
            percent.as_deref().unwrap_or(UNKNOWN),
            numbers::rate(own.wakeups_per_s),
        )
    }

    fn line(&self, text: &str, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.look.text(text))
    }
}

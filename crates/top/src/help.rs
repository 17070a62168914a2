//! The help: keys, and notes on this machine.

use ratatui::text::{Line, Span};
use reveille_watch::live::Snapshot;

use crate::look::Tone;
use crate::sheet::Sheet;

const KEYS: [(&str, &str); 13] = [
    ("q, Ctrl-C", "quit"),
    ("Tab, 1 2 3", "pane: idle states, wakers, bounds"),
    (
        "↑ ↓ k j PgUp PgDn Home End",
        "select a row; its details are below the list",
    ),
    ("← →", "coarser, finer: machine, package, core, CPU"),
    ("m p o c", "machine, packages, cores, CPUs"),
    ("v", "next figure of states: share, stay, uses, latency"),
    ("s, r", "sort by the next column, reverse"),
    ("/", "filter rows by text; Esc shows all"),
    ("space", "freeze the view; measuring continues"),
    ("+ -", "longer, shorter refresh interval"),
    ("Ctrl-L, Ctrl-Z", "redraw, suspend"),
    ("", ""),
    (
        "wake latency",
        "timers only: from expiry to the first instruction",
    ),
];

/// The widest entry and two blanks.
const KEYS_WIDTH: usize = 28;

pub fn draw(snapshot: Option<&Snapshot>, sheet: &mut Sheet) {
    for (keys, does) in KEYS {
        let keys = sheet.look.text(keys);
        let blanks = " ".repeat(KEYS_WIDTH.saturating_sub(Span::raw(&*keys).width()));
        let line = Line::from(vec![
            Span::styled(format!("{keys}{blanks}"), sheet.look.style(Tone::Strong)),
            Span::raw(sheet.look.text(does).into_owned()),
        ]);
        sheet.put(&line);
    }
    sheet.put(&Line::default());
    for note in snapshot.map_or(&[][..], |snapshot| &snapshot.notes) {
        for line in sheet.sentence(&format!("note: {note}"), Tone::Faint) {
            sheet.put(&line);
        }
    }
}

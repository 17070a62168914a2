//! What the keys do, and what is missing on this machine.

use ratatui::text::{Line, Span};
use reveille_watch::live::Snapshot;

use crate::look::Tone;
use crate::sheet::Sheet;

const KEYS: [(&str, &str); 13] = [
    ("q, Ctrl-C", "quit"),
    ("Tab, 1 2 3", "pane: idle states, who wakes, bounds"),
    (
        "↑ ↓ k j PgUp PgDn Home End",
        "select a row; more of it stands below the list",
    ),
    ("← →", "coarser, finer: machine, package, core, CPU"),
    ("m p o c", "machine, packages, cores, CPUs"),
    ("v", "states by share, stay, uses, wake latency in turn"),
    ("s, r", "sort by the next column, reverse"),
    ("/", "only rows with these words; Esc shows all again"),
    ("space", "freeze the view; figures go on being gathered"),
    ("+ -", "refresh more seldom, more often"),
    ("Ctrl-L, Ctrl-Z", "draw anew, suspend"),
    ("", ""),
    (
        "wake latency",
        "of timers only: from expiry to the first instruction",
    ),
];

/// The widest keys and two blanks.
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

//! `reveille top --json`: one object per line and refresh, the model.

use std::io::{self, Write};

use reveille_watch::live::Snapshot;

/// Writes one line and flushes it, so that a reader gets it at once.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    // One write, so that lines are complete.
    let mut line = serde_json::to_vec(snapshot)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

//! `reveille top --json`: an object a line for each refresh, the model as it is.

use std::io::{self, Write};

use reveille_watch::live::Snapshot;

/// Writes one line, and sends it off: a reader is to have it now.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    // One write: a line is there whole or not at all.
    let mut line = serde_json::to_vec(snapshot)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

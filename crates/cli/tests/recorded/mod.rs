//! Recorded machines, extracted into a folder.

use std::path::Path;
use std::process::Command;

/// A recorded machine; `None`, with a message, if the recordings are unavailable.
pub fn recorded(name: &str) -> Option<tempfile::TempDir> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines/lay-out");
    if !program.exists() {
        println!("skipped: no recorded machines at ../shared/machines");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    match Command::new(&program).arg(name).arg(folder.path()).status() {
        Ok(status) if status.success() => Some(folder),
        other => {
            println!("skipped: {} {name}: {other:?}", program.display());
            None
        }
    }
}

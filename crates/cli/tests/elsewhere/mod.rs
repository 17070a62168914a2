//! A result of another machine.

use std::path::Path;

/// A result, in that folder, with an idle state that no driver has.
pub fn elsewhere(folder: &Path) -> String {
    let csv = folder.join("elsewhere.csv");
    std::fs::write(&csv, "WakeLatency,IntrOff,ReqCState\n3,1,NOWHERE\n").unwrap();
    csv.to_str().unwrap().to_owned()
}

//! Text read as a log, for tests that write it as a kernel does.

use reveille_resume::cycle::Cycle;
use reveille_resume::log::{Log, read};

pub fn log(text: &str) -> Log {
    read(text.as_bytes()).unwrap()
}

/// For a log with one cycle.
pub fn one(text: &str) -> Cycle {
    let mut log = log(text);
    assert_eq!(log.cycles.len(), 1, "{:#?}", log.cycles);
    log.cycles.remove(0)
}

//! What a recording gives.

use std::collections::HashMap;

use super::process::Process;
use super::trace::Trace;

/// A trace, and whose its threads are.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// What happened.
    pub trace: Trace,
    /// By the thread's number.
    pub threads: HashMap<u32, Process>,
    /// Events that did not fit into the buffer.
    pub lost: u64,
    /// Why it ended.
    pub stopped: Stopped,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The time was up.
    Completed,
    /// By a signal.
    Interrupted,
    /// There were as many events as can be kept.
    Full,
}

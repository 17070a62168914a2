//! What the BPF programs have seen, in terms that do not need them.

use crate::live::latencies::Latencies;

/// One CPU, since the programs were attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// When it was read: CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Idle states entered.
    pub entries: u64,
    /// Idle periods that somebody ended.
    pub wakeups: u64,
    /// Of them, those by timers, and of these, those that gave a latency.
    pub by_timer: u64,
    pub latencies: u64,
    /// By the kernel's index of the state.
    pub states: Vec<SeenState>,
    pub sample: Option<Sample>,
}

/// One idle state of one CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenState {
    /// Stays that are over.
    pub uses: u64,
    /// How long those were.
    pub stays_ns: u64,
    /// The present one included, as far as it has gone.
    pub time_ns: u64,
    pub latencies: Latencies,
}

/// The hardware's counters of one CPU, as it read them itself, in the order of their opening;
/// `None` for one that cannot be read there.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub at_ns: u64,
    pub values: Vec<Option<u64>>,
}

/// What ends an idle period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    Device,
    Timer,
    CallFunction,
    Reschedule,
    Flag,
    IrqWork,
    Other,
}

/// Idle periods of one CPU that the same one ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub cpu: u32,
    pub cause: Cause,
    /// The address of the timer's function, or of what was called; 0 where there is none.
    pub function: u64,
    /// A device's interrupt.
    pub irq: u32,
    /// Who set the timer or sent the message; 0 where that is not known.
    pub pid: u32,
    /// Empty where it is not known.
    pub command: String,
    pub times: u64,
}

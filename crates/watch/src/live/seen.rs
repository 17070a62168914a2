//! The BPF programs' data, in types that do not depend on them.

use crate::live::latencies::Latencies;

/// One CPU, since the programs were attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// When it was read, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Idle states entered.
    pub entries: u64,
    /// Idle periods that an event ended.
    pub wakeups: u64,
    /// Wake-ups by timers, and those of them with a latency.
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
    /// Their total time.
    pub stays_ns: u64,
    /// Total time, including the current stay so far.
    pub time_ns: u64,
    pub latencies: Latencies,
}

/// Hardware counters, read on their CPU, in the order of their opening; `None`: not readable there.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub at_ns: u64,
    pub values: Vec<Option<u64>>,
}

/// CPUs that sleep at once, since the programs were attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenJoint {
    /// When it was read, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPUs that are online.
    pub cpus: u32,
    /// Joint sleeps that are over.
    pub times: u64,
    /// Their total time, and that of the present one so far.
    pub time_ns: u64,
    /// Their total time.
    pub ended_ns: u64,
    /// Their lengths: a histogram in units of 2^10 ns.
    pub lengths: Vec<u32>,
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

/// Idle periods of one CPU that the same waker ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub cpu: u32,
    pub cause: Cause,
    /// The address of the timer's function or of the called one; 0: none.
    pub function: u64,
    /// A device's interrupt.
    pub irq: u32,
    /// The process that set the timer or sent the message; 0: unknown.
    pub pid: u32,
    /// Empty: unknown.
    pub command: String,
    pub times: u64,
    /// Of them, those that ended a joint sleep of the machine.
    pub joint: u64,
}

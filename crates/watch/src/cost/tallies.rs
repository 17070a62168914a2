//! The BPF programs' sums as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Depth;
use super::result::{Missed, Thread, Waited};

/// Waits that met a CPU in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitSums {
    /// Waits.
    pub count: u64,
    /// Of these, those whose CPU was woken at an unknown instant: their leaving is not counted.
    pub unknown: u64,
    /// Their times.
    pub waited: Waited,
    /// Time in the idle state, from its entry to the event that ended it, ns.
    pub stay_ns: u64,
}

impl WaitSums {
    /// Adds the sums.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.unknown += other.unknown;
        self.waited.add(&other.waited);
        self.stay_ns += other.stay_ns;
    }
}

/// What issued a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A running thread.
    Task,
    /// A timer's interrupt.
    Timer,
    /// A device's interrupt, by its number.
    Device(u32),
    /// Another CPU's request.
    Call,
    /// Another kind of interrupt.
    Other,
}

/// A waker and the woken threads, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The thread's name (`comm`); empty for an interrupt.
    pub waker: String,
    /// The woken thread's name (`comm`).
    pub wakee: String,
    /// The kind of waker.
    pub cause: Cause,
}

/// Sums of a pair's wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairSums {
    /// Wake-ups.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// Their times.
    pub waited: Waited,
}

impl PairSums {
    /// Adds the sums.
    pub fn add(&mut self, other: &Self) {
        self.wakeups += other.wakeups;
        self.asleep += other.asleep;
        self.waited.add(&other.waited);
    }
}

/// Totals of the workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Followed wake-ups.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// Of these, those that met a polling CPU.
    pub polling: u64,
    /// What is missing.
    pub missed: Missed,
    /// The thread that lost most; `None` if nothing was lost.
    pub most: Option<Thread>,
}

/// The programs' cost as the kernel counts it, in windows of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// The windows together.
    pub elapsed: Duration,
    /// All wake-ups on the machine in them.
    pub machine_wakeups: u64,
    /// Run time of all programs but that for new tasks, including the kernel's counting.
    pub run_time_ns: u64,
    /// Runs of these programs.
    pub runs: u64,
    /// Forked tasks.
    pub new_tasks: u64,
    /// Run time of the program that starts to follow them, including the kernel's counting.
    pub new_tasks_ns: u64,
    /// The counted run time of a program that does nothing, per run.
    pub counting_ns: u64,
}

impl Counted {
    /// Run time without the kernel's counting.
    pub(super) fn following_ns(&self) -> u64 {
        self.run_time_ns
            .saturating_sub(self.runs * self.counting_ns)
    }

    /// Run time for new tasks without the kernel's counting.
    pub(super) fn beginning_ns(&self) -> u64 {
        self.new_tasks_ns
            .saturating_sub(self.new_tasks * self.counting_ns)
    }
}

/// A waker's stacks, and the waits of the tasks that it woke there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSums {
    /// The waker and the woken threads.
    pub pair: Pair,
    /// The waker's process; 0 for the idle task.
    pub process: u32,
    /// The place of the target CPU.
    pub place: u32,
    /// Kernel addresses, innermost first; empty if unavailable.
    pub kernel: Vec<u64>,
    /// User addresses, innermost first; empty if unavailable.
    pub user: Vec<u64>,
    /// Wake-ups from there.
    pub wakeups: u64,
    /// Total time from these wake-ups to the tasks' first instruction, ns.
    pub waited_ns: u64,
}

/// All sums.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tallies {
    /// Duration.
    pub elapsed: Duration,
    /// The idle states of the places.
    pub depth: Depth,
    /// Totals of the workload.
    pub totals: Totals,
    /// By (CPU, place).
    pub waits: BTreeMap<(u32, u32), WaitSums>,
    /// Counts of all buckets, by place.
    pub distributions: BTreeMap<u32, Vec<u64>>,
    /// By waker and woken thread; those beyond the kernel's table are in the totals only.
    pub pairs: BTreeMap<Pair, PairSums>,
    /// All wake-ups on the machine.
    pub issued: u64,
    /// The programs' cost; `None` if the kernel does not count it.
    pub counted: Option<Counted>,
    /// The kernel reports when an interrupt or flag is sent to another CPU.
    pub sees_sending: bool,
}

impl Tallies {
    /// All waits.
    pub(crate) fn all_waits(&self) -> WaitSums {
        let mut sum = WaitSums::default();
        self.waits.values().for_each(|waits| sum.add(waits));
        sum
    }

    /// The waits of one place, on all CPUs.
    pub(super) fn at_place(&self, place: u32) -> WaitSums {
        let mut sum = WaitSums::default();
        let here = self.waits.iter().filter(|((_, at), _)| *at == place);
        here.for_each(|(_, waits)| sum.add(waits));
        sum
    }
}

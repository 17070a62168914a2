//! What the kernel side summed up, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Depth;

/// Waits that met a CPU in one place; times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitSums {
    pub count: u64,
    /// Of these, where the instant of the event that woke the CPU is not known.
    pub unknown: u64,
    pub leaving_ns: u64,
    pub scheduling_ns: u64,
    pub queueing_ns: u64,
    pub longest_ns: u64,
}

impl WaitSums {
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.unknown += other.unknown;
        self.leaving_ns += other.leaving_ns;
        self.scheduling_ns += other.scheduling_ns;
        self.queueing_ns += other.queueing_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Who issued a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    Task,
    Timer,
    /// The device's interrupt, by its number.
    Device(u32),
    /// Another CPU's request.
    Call,
    Other,
}

/// A waker and what it woke, by the names of the threads; an interrupt has no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub waker: String,
    pub wakee: String,
    pub cause: Cause,
}

/// What a pair's wake-ups waited for; times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairSums {
    pub wakeups: u64,
    pub asleep: u64,
    pub leaving_ns: u64,
    pub scheduling_ns: u64,
    pub queueing_ns: u64,
    pub longest_ns: u64,
}

impl PairSums {
    pub fn add(&mut self, other: &Self) {
        self.wakeups += other.wakeups;
        self.asleep += other.asleep;
        self.leaving_ns += other.leaving_ns;
        self.scheduling_ns += other.scheduling_ns;
        self.queueing_ns += other.queueing_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// What there is one of; times in ns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    pub wakeups: u64,
    pub asleep: u64,
    pub polling: u64,
    pub moved: u64,
    pub unseen: u64,
    pub pairs_full: u64,
    pub stacks_full: u64,
    pub stacks_failed: u64,
    pub unfollowed: u64,
    pub most_ns: u64,
    pub most_pid: u32,
    pub most_name: String,
}

/// What the kernel counted of the programs that follow, in windows of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// The windows together.
    pub elapsed: Duration,
    /// All wake-ups on the machine in them.
    pub machine_wakeups: u64,
    pub run_time_ns: u64,
    pub runs: u64,
    /// Tasks that were forked, and what it took to begin to follow them: not in the run time.
    pub new_tasks: u64,
    pub new_tasks_ns: u64,
    /// What is counted for a program that does nothing, each run.
    pub counting_ns: u64,
}

impl Counted {
    /// What following took, without what counting did.
    pub(super) fn following_ns(&self) -> u64 {
        self.run_time_ns
            .saturating_sub(self.runs * self.counting_ns)
    }

    /// What beginning to follow new tasks took.
    pub(super) fn beginning_ns(&self) -> u64 {
        self.new_tasks_ns
            .saturating_sub(self.new_tasks * self.counting_ns)
    }
}

/// A waker's stacks, and what those that it woke from there waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSums {
    pub pair: Pair,
    /// The waker's process; 0 for the idle task.
    pub process: u32,
    /// The place that the target CPU was in.
    pub place: u32,
    /// Addresses, innermost first; empty where they could not be had.
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
    pub wakeups: u64,
    pub waited_ns: u64,
}

/// All that was summed up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tallies {
    pub elapsed: Duration,
    pub depth: Depth,
    pub totals: Totals,
    /// By (CPU, place).
    pub waits: BTreeMap<(u32, u32), WaitSums>,
    /// Counts of all buckets, by place.
    pub distributions: BTreeMap<u32, Vec<u64>>,
    pub pairs: BTreeMap<Pair, PairSums>,
    /// All wake-ups on the machine, whoever's.
    pub issued: u64,
    /// What the programs cost; `None` where the kernel does not count it.
    pub counted: Option<Counted>,
    /// The kernel tells when an interrupt or flag is sent to another CPU.
    pub sees_sending: bool,
}

impl Tallies {
    /// All waits.
    pub fn all_waits(&self) -> WaitSums {
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

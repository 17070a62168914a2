//! What the kernel side summed up, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Depth;

/// Waits that met a CPU in one place; times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitSums {
    /// Waits.
    pub count: u64,
    /// Of these, where the instant of the event that woke the CPU is not known.
    pub unknown: u64,
    /// For the CPU to leave its idle state, of those whose instant is known.
    pub leaving_ns: u64,
    /// For interrupt and scheduler.
    pub scheduling_ns: u64,
    /// Behind other tasks.
    pub queueing_ns: u64,
    /// The longest single time of leaving.
    pub longest_ns: u64,
    /// In the idle state, from its entry to the event that ended it.
    pub stay_ns: u64,
}

impl WaitSums {
    /// Sums up; of the longest, the longer one.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.unknown += other.unknown;
        self.leaving_ns += other.leaving_ns;
        self.scheduling_ns += other.scheduling_ns;
        self.queueing_ns += other.queueing_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.stay_ns += other.stay_ns;
    }
}

/// Who issued a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A running thread.
    Task,
    /// A timer's interrupt.
    Timer,
    /// The device's interrupt, by its number.
    Device(u32),
    /// Another CPU's request.
    Call,
    /// An interrupt of another kind.
    Other,
}

/// A waker and what it woke, by the names of the threads; an interrupt has no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The thread's name (`comm`); empty for an interrupt.
    pub waker: String,
    /// The woken thread's name (`comm`).
    pub wakee: String,
    /// By what the waker woke.
    pub cause: Cause,
}

/// What a pair's wake-ups waited for; times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairSums {
    /// Wake-ups.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// For CPUs to leave their idle states.
    pub leaving_ns: u64,
    /// For interrupt and scheduler.
    pub scheduling_ns: u64,
    /// Behind other tasks.
    pub queueing_ns: u64,
    /// The longest single time of leaving.
    pub longest_ns: u64,
}

impl PairSums {
    /// Sums up; of the longest, the longer one.
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
    /// Followed wake-ups.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// Of these, those that met a CPU that polled.
    pub polling: u64,
    /// As [`super::Missed::moved`].
    pub moved: u64,
    /// As [`super::Missed::unseen`].
    pub unseen: u64,
    /// As [`super::Missed::pairs_full`].
    pub pairs_full: u64,
    /// As [`super::Missed::stacks_full`].
    pub stacks_full: u64,
    /// As [`super::Missed::stacks_failed`].
    pub stacks_failed: u64,
    /// As [`super::Missed::unfollowed_tasks`].
    pub unfollowed: u64,
    /// What the thread that lost most waited for CPUs to leave idle states.
    pub most_ns: u64,
    /// Its number; 0 where nobody lost anything.
    pub most_pid: u32,
    /// Its name (`comm`).
    pub most_name: String,
}

/// What the kernel counted of the programs that follow, in windows of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// The windows together.
    pub elapsed: Duration,
    /// All wake-ups on the machine in them.
    pub machine_wakeups: u64,
    /// Of all programs' runs, the kernel's own counting in it.
    pub run_time_ns: u64,
    /// How often one of them ran.
    pub runs: u64,
    /// Tasks that were forked, and what it took to begin to follow them: not in the run time.
    pub new_tasks: u64,
    /// What it took to begin to follow these, the kernel's own counting in it.
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
    /// The waker and what it woke.
    pub pair: Pair,
    /// The waker's process; 0 for the idle task.
    pub process: u32,
    /// The place that the target CPU was in.
    pub place: u32,
    /// Addresses, innermost first; empty where they could not be had.
    pub kernel: Vec<u64>,
    /// Of the process, likewise.
    pub user: Vec<u64>,
    /// Wake-ups from there.
    pub wakeups: u64,
    /// From these wake-ups to the tasks' first instruction, ns, in sum.
    pub waited_ns: u64,
}

/// All that was summed up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tallies {
    /// How long was followed.
    pub elapsed: Duration,
    /// The idle states that places stand for.
    pub depth: Depth,
    /// What there is one of.
    pub totals: Totals,
    /// By (CPU, place).
    pub waits: BTreeMap<(u32, u32), WaitSums>,
    /// Counts of all buckets, by place.
    pub distributions: BTreeMap<u32, Vec<u64>>,
    /// By waker and woken thread; those beyond the kernel's table are in the totals only.
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

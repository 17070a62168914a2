//! What waking costs a workload.
//!
//! A CPU that is leaving an idle state executes nothing, so no profiler shows it. BPF programs
//! follow every wake-up of the workload's tasks and add up, in the kernel, the time between the
//! wake-up and the task's first instruction: leaving the idle state, interrupt and scheduler, or
//! queueing behind others. [`Follower`] loads them and returns [`Tallies`]; [`Cost::of`] makes the
//! result: what each idle state cost, and what forbidding it would save; [`show`] has the names of
//! its figures. The book's method chapter on it defines the terms.

#[cfg(feature = "bpf")]
mod account;
mod conclude;
mod depth;
mod distribution;
#[cfg(feature = "bpf")]
mod follower;
mod forbidding;
mod result;
pub mod show;
#[cfg(feature = "bpf")]
mod stacks;
mod tallies;

pub use conclude::About;
pub use depth::{Depth, State};
pub use distribution::{BUCKETS, Bin, Distribution};
#[cfg(feature = "bpf")]
pub use follower::Follower;
pub use result::{
    Cost, CpuCost, Ended, Estimate, FILE, Forbidding, InterruptCost, Missed, Overhead, PairCost,
    Replacement, SCHEMA_VERSION, StateCost, Subject, Thread, Waited, read,
};
#[cfg(feature = "bpf")]
pub use stacks::{Maps, fold};
pub use tallies::{Cause, Counted, Pair, PairSums, StackSums, Tallies, Totals, WaitSums};

/// Whose wake-ups are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// A process with its threads, and the processes that it forks from now on.
    Process(u32),
    /// The tasks of a cgroup and its descendants, by the inode of its folder.
    Cgroup(u64),
    /// All tasks but this program's own.
    All,
}

//! What waking costs a workload.
//!
//! A CPU that is leaving an idle state executes nothing, so no profiler shows it. BPF programs
//! follow every wake-up of the workload's tasks and add up, in the kernel, the time between the
//! wake-up and the task's first instruction: leaving the idle state, interrupt and scheduler, or
//! queueing behind others. [`run`] does a whole run: [`Follower`] loads the programs and returns
//! [`Tallies`]; [`Cost::of`] makes the result: what each idle state cost, and what forbidding it would
//! save; [`show`] has the names of its figures. The book's method chapter on it defines the terms.

#[cfg(feature = "bpf")]
mod account;
mod conclude;
mod depth;
mod distribution;
#[cfg(feature = "bpf")]
mod follower;
mod forbidding;
mod options;
mod result;
#[cfg(feature = "bpf")]
mod run;
pub mod show;
#[cfg(feature = "bpf")]
mod stacks;
mod tallies;

#[cfg(not(feature = "bpf"))]
pub use crate::without_bpf::run_cost as run;
pub use conclude::{About, Measured, read};
pub use depth::{Depth, State};
pub use distribution::{BUCKETS, Bin, Distribution};
#[cfg(feature = "bpf")]
pub use follower::Follower;
pub use options::{DEFAULT_DURATION, End, Followed, Options, Present};
pub use result::{
    Cost, CpuCost, Ended, Estimate, FILE, Forbidding, InterruptCost, Missed, Overhead, PairCost,
    Replacement, SCHEMA_VERSION, StateCost, Subject, Thread, Waited,
};
pub use reveille_kernel::workload::Workload;
#[cfg(feature = "bpf")]
pub use run::run;
pub use tallies::{Cause, Counted, Pair, PairSums, StackSums, Tallies, Totals, WaitSums};

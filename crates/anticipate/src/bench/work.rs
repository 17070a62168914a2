//! What the benchmark asks of a workload.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::Result;
use crate::bench::assist::{Account, Running};
use crate::bench::policy::{Kept, Policy};
use crate::bench::result::{Point, Workload};

/// A workload that waits again and again.
pub trait Work {
    /// What it does, for the result.
    fn describe(&self) -> Workload;

    /// Where it is measured: a point for each idle time or series.
    fn points(&self) -> &[Point];

    /// The CPU on which it waits.
    fn cpu(&self) -> u32;

    /// About how long a turn takes.
    fn expected(&self, point: usize) -> Duration;

    /// How the machine is kept under a policy.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] if this machine or user cannot, and the policy is to be left out.
    fn kept(&self, policy: Policy) -> Result<Kept>;

    /// Starts waking in time for a turn; `None` for a workload that asks for that itself.
    ///
    /// # Errors
    /// If it cannot be started.
    fn assisted(&self) -> Result<Option<Box<dyn Running>>> {
        Ok(None)
    }

    /// One turn; it ends early once `stop` is set.
    ///
    /// # Errors
    /// If a wait fails.
    fn turn(&self, point: usize, policy: Policy, round: u32, stop: &AtomicBool) -> Result<Sample>;
}

/// What a turn gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Of each wait, in any order.
    pub latencies_ns: Vec<u64>,
    /// The turn's length, ns.
    pub elapsed_ns: u64,
    /// Sleep of the workload's CPU during the turn; `None` if it is not counted.
    pub asleep_ns: Option<u64>,
    /// Time to completion of a workload that completes.
    pub run_ns: Option<u64>,
    /// Where the workload itself asks to be awake in time.
    pub account: Option<Account>,
}

//! A workload of the benchmark.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::Result;
use crate::bench::assist::{Account, Running};
use crate::bench::policy::{Policy, PolicySetting};
use crate::bench::result::{Point, Workload};

/// A workload that waits again and again.
pub trait Work {
    /// What it does, for the result.
    fn describe(&self) -> Workload;

    /// Where it is measured: a point for each idle time or series.
    fn points(&self) -> &[Point];

    /// About how long a turn takes.
    fn expected(&self, point: usize) -> Duration;

    /// The machine's setting under a policy.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] if this machine or user cannot, and the policy is to be left out.
    fn setting(&self, policy: Policy) -> Result<PolicySetting>;

    /// Starts the engine for a turn; `None` for a workload that announces its waits itself.
    fn assisted(&self) -> Result<Option<Box<dyn Running>>> {
        Ok(None)
    }

    /// One turn; it ends early once `stop` is set.
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
    /// Of a workload that announces its waits itself.
    pub account: Option<Account>,
}

//! What waking in time gains on this machine, and what it costs: `reveille anticipate bench`.
//!
//! A workload waits for something again and again, asleep, and then has it late, for its CPU has to
//! wake first. [`run::run`] gives each policy its turns, in shuffled order, round by round: the
//! machine as it is, its shallowest idle state only, no sleep, and waking in time. [`result::conclude`]
//! puts side by side what each gave (latency) and what it took (time awake, power), and
//! [`sentence`] says it in words. A [`result::Bench`] is kept as `bench.json`.
//!
//! - [`storage`]: direct reads or writes, with idle time between them. Figure 1 of Shen and others,
//!   "Software-Managed CPU Sleep" (2015), is this on one machine.
//! - [`accelerator`]: a thread that stands in for a GPU and is done after drawn times; their second
//!   case, without a GPU.
//!
//! The engine that wakes in time is reached through [`Assist`], so that this part can be tried
//! with another one, or with none.

pub mod accelerator;
mod asleep;
pub mod place;
pub mod policy;
pub mod result;
pub mod run;
pub mod sentence;
pub mod statistics;
pub mod storage;

use crate::Result;

/// A block device, as the kernel numbers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
    /// Of the whole disk, such as `vda`; `None` where /sys does not tell (a file system over
    /// several disks).
    pub disk: Option<String>,
}

/// What wakes CPUs in time for a device.
pub trait Assist {
    /// Begins to; ends when the answer is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] where this machine or user cannot: the policy is left out then, and
    /// the result says why.
    fn begin(&self, device: &Device) -> Result<Box<dyn Running>>;

    /// What it does to the machine, in words.
    fn how(&self) -> String;
}

/// An [`Assist`] at work.
pub trait Running {
    /// For how long it has kept CPUs awake so far by its own account, ns, all CPUs together; `None`
    /// where it does not count that.
    fn kept_awake_ns(&self) -> Option<u64>;
}

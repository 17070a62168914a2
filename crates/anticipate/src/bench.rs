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
//! What wakes in time is reached through [`Assist`] (the engine) and [`accelerator::Connect`] (the
//! applications' library), so that this part can be tried with another one, or with none.

pub mod accelerator;
mod asleep;
mod clock;
pub mod policy;
pub mod result;
pub mod run;
pub mod sentence;
pub mod storage;

use crate::Result;

/// A block device, as the kernel numbers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The major number; 0 where the file system is on no single device.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
    /// Of the whole disk, such as `vda`; `None` where /sys does not tell (a file system that is on
    /// no single device).
    pub disk: Option<String>,
    /// Where its requests end: itself, or the disks below one that is made of others (`dm-0`,
    /// `md0`).
    pub disks: Vec<String>,
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
    /// What it has done so far, by its own account; `None` where it does not tell.
    fn account(&self) -> Option<Account>;

    /// What it takes itself while `waits` runs; `None` where that is not counted. To count it takes
    /// time: what is timed meanwhile does not count.
    fn own_cost(&self, waits: &mut dyn FnMut()) -> Option<OwnCost> {
        let _ = waits;
        None
    }
}

/// What waking in time takes itself for each wait, ns, by the kernel's account of its BPF programs less
/// what counting takes; the time that CPUs are kept awake is not in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnCost {
    /// All programs on all CPUs.
    pub ns: f64,
    /// Of that, the programs at the issue and the completion of a request. The rest is at idle
    /// periods, switches of tasks and interrupts, of whatever the machine does meanwhile: it grows
    /// with the time between waits and with the number of CPUs.
    pub at_requests_ns: f64,
}

/// What was done to be awake in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// For how long CPUs were kept awake, ns, all of them together; `None` where that is not counted.
    pub kept_awake_ns: Option<u64>,
    /// Waits that were seen.
    pub waits: u64,
    /// Of these, those that a CPU was to be awake for.
    pub assisted: u64,
}

impl Account {
    /// What was done from an earlier account to this one.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let kept = self.kept_awake_ns.zip(before.kept_awake_ns);
        Self {
            kept_awake_ns: kept.and_then(|(after, before)| after.checked_sub(before)),
            waits: self.waits.saturating_sub(before.waits),
            assisted: self.assisted.saturating_sub(before.assisted),
        }
    }
}

//! Anticipatory wake-up for storage, as the benchmark uses it.

use crate::Result;

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of the whole disk, such as `vda`; `None` for a file system that is on no single device.
    pub disk: Option<String>,
    /// The disks that serve its requests: itself, or the disks of which it is made (`dm-0`, `md0`).
    pub disks: Vec<String>,
}

impl Device {
    /// Of what waits for something else.
    pub const NONE: Self = Self {
        disk: None,
        disks: Vec::new(),
    };
}

/// Anticipatory wake-up for a device.
pub trait Assist {
    /// Starts it; it ends when the result is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] if this machine or user cannot: the policy is then left out, and the
    /// result has the reason.
    fn begin(&self, device: &Device) -> Result<Box<dyn Running>>;

    /// What it does, in words.
    fn how(&self) -> String;
}

/// An [`Assist`] at work.
pub trait Running {
    /// What it has done since it was loaded; `None` if unknown.
    fn account(&self) -> Option<Account>;

    /// Its own cost while `waits` runs; `None` if the kernel does not count it. Counting takes time: no
    /// latency is measured meanwhile.
    fn own_cost(&self, waits: &mut dyn FnMut()) -> Option<OwnCost>;
}

/// Time that anticipatory wake-up takes for each wait, ns: the kernel's account of its BPF programs less the
/// cost of counting, without the time for which CPUs are kept awake.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnCost {
    /// All programs on all CPUs.
    pub ns: f64,
    /// Of that, the programs at the issue and the completion of a request. The rest is at idle
    /// periods, task switches and interrupts of everything that the machine does: it grows with the
    /// time between waits and with the number of CPUs.
    pub at_requests_ns: f64,
}

/// What was done for anticipatory wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Time for which CPUs were kept awake, ns, all CPUs together; `None` if it is not counted.
    pub kept_awake_ns: Option<u64>,
    /// Waits seen.
    pub waits: u64,
    /// Waits for which a CPU was to be awake.
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

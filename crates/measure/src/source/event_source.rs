//! The interface of a source.

use reveille_results::Source;

use crate::Result;
use crate::kernel::Kernel;

/// Launches events for a known instant. The probes are the same for all sources.
pub trait EventSource {
    /// As a datapoint names it.
    fn source(&self) -> Source;

    /// How launches are armed, for the result. Known after the first start.
    fn arming(&self, kernel: &Kernel) -> String;

    /// A note for readers of the result, if any, on where it launches from.
    fn reservation(&self) -> Option<String> {
        None
    }

    /// The device's interrupt that it launches, if it does.
    fn device_interrupt(&self) -> Option<u32> {
        None
    }

    /// Why it stopped by itself, if it did.
    fn gone(&self) -> Option<String> {
        None
    }

    /// Starts launching events at these distances, cyclically.
    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()>;

    /// Stops; returns when no launch is pending, or after `longest_ns`.
    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()>;
}

/// Waits until every launch is settled, but not for a CPU that is never idle.
pub(super) fn wait_until_settled(kernel: &Kernel, longest_ns: u64) {
    let end = reveille_kernel::now_ns() + longest_ns + 100_000_000;
    let settled = || kernel.counts().on_its_way() == 0;
    while !settled() && reveille_kernel::now_ns() < end {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

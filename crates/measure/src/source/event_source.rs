//! The interface of a source.

use reveille_results::Source;

use crate::Result;
use crate::kernel::Kernel;

/// Something that launches events for a known instant. The probes are the same for all sources.
pub trait EventSource {
    /// As a datapoint names it.
    fn source(&self) -> Source;

    /// How launches are armed here, in words for the result. Known after the first start.
    fn arming(&self, kernel: &Kernel) -> String;

    /// What a reader of the result has to know of where it launches from, if anything.
    fn reservation(&self) -> Option<String> {
        None
    }

    /// Why it launches no more, though nobody stopped it.
    fn gone(&self) -> Option<String> {
        None
    }

    /// Begins to launch events at these distances, round and round.
    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()>;

    /// Launches no more. Returns when none is on its way, or `longest_ns` later.
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

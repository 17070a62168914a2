//! The interface of a source.

use std::time::Duration;

use reveille_results::Source;

use crate::Result;
use crate::kernel::{Kernel, types};

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

    /// The index of the network interface through which its interrupts come, if they do.
    fn interface(&self) -> Option<u32> {
        None
    }

    /// When the event was launched, where only the source knows.
    fn launch(&self, _: &types::event) -> Launch {
        Launch::Known
    }

    /// The least time between two of its launches.
    fn slowest(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether it failed since its start: nothing more comes, and [`EventSource::stop`] returns why.
    fn has_ended(&self) -> bool {
        false
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

/// What a source knows of an event's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// The event has its time.
    Known,
    /// Its time, to within an error, and by the source's clock, ns.
    At {
        at_ns: u64,
        error_ns: u64,
        clock: u64,
    },
    /// It has no time, for this reason.
    Dropped(&'static str),
    NotYet,
}

/// Waits until every launch is settled, but not for a CPU that is never idle.
pub(super) fn wait_until_settled(kernel: &Kernel, longest_ns: u64) {
    let end = reveille_kernel::now_ns() + longest_ns + 100_000_000;
    let settled = || kernel.counts().on_its_way() == 0;
    while !settled() && reveille_kernel::now_ns() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

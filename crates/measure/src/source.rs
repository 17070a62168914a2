//! Event sources that wake the measured CPU.

mod remote;
mod timer;

use reveille_kernel::Idle;
use reveille_results::Source;

use crate::kernel::{Kernel, types};
use crate::{Error, Result};
pub use remote::Remote;
pub use timer::Timer;

/// Launches events for known instants. The probes are the same for all sources.
pub trait EventSource {
    /// The source's name in a datapoint.
    fn source(&self) -> Source;

    /// How launches are armed on this machine, for the result. Known after the first start.
    fn arming(&self, kernel: &Kernel) -> String;

    /// A note for the result if the place of the source distorts it.
    fn reservation(&self) -> Option<String> {
        None
    }

    /// Why it stopped by itself.
    fn gone(&self) -> Option<String> {
        None
    }

    /// Starts launching events at these distances, cyclically.
    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()>;

    /// Stops launching. Returns when every launch is settled, or `longest_ns` later.
    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()>;
}

/// The source of that name, waking `cpu`.
///
/// # Errors
/// [`Error::Usage`] for an unknown name; [`Error::Cannot`] if this machine lacks the source.
pub(crate) fn by_name(name: &str, cpu: u32, idle: &Idle) -> Result<Box<dyn EventSource>> {
    match name {
        "timer" => Ok(Box::new(Timer::new(cpu))),
        "remote" => Ok(Box::new(Remote::new(cpu, idle)?)),
        _ => Err(Error::Usage(format!(
            "unknown source {name:?}: choose timer or remote"
        ))),
    }
}

/// The BPF program's number for a source.
pub(crate) fn kernel_side(source: Source) -> types::source {
    match source {
        Source::Remote => types::source::SOURCE_REMOTE,
        Source::Timer | Source::Nic => types::source::SOURCE_TIMER,
    }
}

/// Waits until every launch is settled, with a limit for a CPU that is never idle.
fn wait_until_settled(kernel: &Kernel, longest_ns: u64) {
    let end = crate::placement::now_ns() + longest_ns + 100_000_000;
    let settled = || kernel.counts().on_its_way() == 0;
    while !settled() && crate::placement::now_ns() < end {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

//! Event sources that wake the measured CPU.

mod event_source;
mod remote;
mod timer;

use reveille_kernel::Idle;
use reveille_results::Source;

use crate::kernel::types;
use crate::{Error, Result};
pub use event_source::EventSource;
pub use remote::Remote;
pub use timer::Timer;

/// The source of that name, waking `cpu`.
///
/// # Errors
/// [`Error::Usage`] for an unknown name; [`Error::Cannot`] if this machine lacks the source.
pub(crate) fn by_name(name: &str, cpu: u32, idle: &Idle) -> Result<Box<dyn EventSource>> {
    match name {
        "timer" => Ok(Box::new(Timer { cpu })),
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

//! Event sources that wake the measured CPU.

mod event_source;
mod hpet;
mod phc;
mod remote;
mod timer;

use reveille_kernel::{Idle, Journal};

use crate::{Error, Result};
pub use event_source::EventSource;
pub use hpet::Hpet;
pub use remote::Remote;
pub use timer::Timer;

/// The source of that name, waking `cpu`.
///
/// # Errors
/// [`Error::Usage`] for an unknown name; [`Error::Cannot`] if this machine lacks the source.
pub(crate) fn by_name(
    name: &str,
    cpu: u32,
    idle: &Idle,
    journal: &mut Journal,
) -> Result<Box<dyn EventSource>> {
    match name {
        "timer" => Ok(Box::new(Timer { cpu })),
        "remote" => Ok(Box::new(Remote::new(cpu, idle)?)),
        "hpet" => Ok(Box::new(Hpet::new(cpu, idle, journal)?)),
        _ => Err(Error::Usage(format!(
            "unknown source {name:?}: choose timer, remote or hpet"
        ))),
    }
}

//! Event sources that wake the measured CPU.

mod event_source;
mod hpet;
mod launches;
mod nic;
mod phc;
mod remote;
mod reply;
mod thread;
mod timer;

use reveille_kernel::{Idle, Journal};

use crate::{Error, Options, Result};
pub use event_source::{EventSource, Launch};
pub use hpet::Hpet;
pub use nic::Nic;
pub use remote::Remote;
pub use reply::Reply;
pub use timer::Timer;

/// The source of that name, waking the CPU of `options`.
///
/// # Errors
/// [`Error::Usage`] for an unknown name; [`Error::Cannot`] if this machine lacks the source.
pub(crate) fn by_name(
    name: &str,
    options: &Options,
    idle: &Idle,
    journal: &mut Journal,
) -> Result<Box<dyn EventSource>> {
    let cpu = options.cpu;
    if let Some(interface) = name.strip_prefix("nic:") {
        return Ok(Box::new(Nic::new(interface, options, idle, journal)?));
    }
    if let Some(target) = name.strip_prefix("reply:") {
        return Ok(Box::new(Reply::new(target, cpu, idle, journal)?));
    }
    match name {
        "timer" => Ok(Box::new(Timer { cpu })),
        "remote" => Ok(Box::new(Remote::new(cpu, idle)?)),
        "hpet" => Ok(Box::new(Hpet::new(cpu, idle, journal)?)),
        _ => Err(Error::Usage(format!(
            "unknown source {name:?}: choose timer, remote, hpet, nic:IF or reply:IF,PEER"
        ))),
    }
}

//! Which wake-ups could wait, and what that would save.
//!
//! The wake-ups of some seconds are recorded, with who was made runnable and by what. Then the same times are taken
//! with some of them delayed ([`what_if`]).

mod group;
pub mod process;
#[cfg(feature = "bpf")]
mod record;
mod recorded;
mod result;
pub mod show;
pub mod trace;
pub mod what_if;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_kernel::{Idle, Root};
use reveille_show::progress::Bar;

use crate::Result;

pub use group::{Foreground, Group, Slept};
pub use recorded::{Recorded, Stopped};
pub use result::{FILE, Found, SCHEMA_VERSION, open, parse};

/// How long is recorded by default.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Records until the time is up or `stop` is set.
///
/// # Errors
/// [`crate::Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
#[cfg(feature = "bpf")]
pub fn record(
    root: &Root,
    idle: &Idle,
    duration: Duration,
    stop: &AtomicBool,
    bar: Option<&Bar>,
) -> Result<Recorded> {
    record::run(root, idle, duration, stop, bar)
}

/// [`crate::Error::Cannot`].
#[cfg(not(feature = "bpf"))]
pub fn record(
    _: &Root,
    _: &Idle,
    _: Duration,
    _: &AtomicBool,
    _: Option<&Bar>,
) -> Result<Recorded> {
    Err(crate::Error::Cannot(
        reveille_kernel::BUILT_WITHOUT_BPF.into(),
    ))
}

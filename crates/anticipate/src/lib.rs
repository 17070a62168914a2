//! Waking in time: a CPU is awake just before the I/O that somebody waits for is complete.

mod awake_power;
pub mod bench;
mod devices;
#[cfg(feature = "bpf")]
mod engine;
mod learnt;
#[cfg(feature = "bpf")]
mod model;
mod operation;
mod settings;

pub use awake_power::AwakePower;
pub use devices::{Announcements, BlockDevice};
#[cfg(feature = "bpf")]
pub use engine::*;
pub use learnt::{Expected, Learnt, correlation, expected};
#[cfg(feature = "bpf")]
pub use model::Model;
pub use operation::Operation;
pub use settings::{MOST_DEVICES, Readiness, SLEEPS, Settings, Subject};

pub use reveille_kernel::{Error, Result};

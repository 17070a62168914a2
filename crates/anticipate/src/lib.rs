//! Anticipatory wake-up: a CPU is awake just before the I/O that a task waits for is complete.

mod awake_power;
pub mod bench;
mod devices;
#[cfg(feature = "bpf")]
mod engine;
mod learnt;
#[cfg(feature = "bpf")]
pub mod live;
#[cfg(feature = "bpf")]
mod model;
mod operation;
mod settings;

pub use awake_power::AwakePower;
pub use devices::BlockDevice;
#[cfg(feature = "bpf")]
pub use engine::*;
pub use learnt::{Expected, Learnt, correlation, expected};
pub use operation::Operation;
pub use settings::{
    MOST_DEVICES, MOST_INTERFACES, MOST_NETS, Net, Packets, Readiness, SLEEPS, Settings, Subject,
    first_leads,
};

pub use reveille_kernel::{Error, Result};

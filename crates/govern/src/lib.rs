//! A service that holds latency bounds where rules ask for them, and lets everything else sleep.
//!
//! [`Rules`] are what a file asks for; [`judge`] is what they mean on this machine. [`service`] has
//! them in force: [`force`] holds the bounds, by a thread for each CPU, and the kernel's programs call
//! these threads when packets come. [`status`] is how all of it stands, which the service answers on a
//! [`socket`]; [`show`] has its names and words. [`bus`] takes the holds of programs.

pub mod bus;
pub mod force;
pub mod holds;
pub mod judge;
#[cfg(feature = "bpf")]
mod packets;
#[cfg(not(feature = "bpf"))]
#[path = "without_bpf.rs"]
mod packets;
pub mod rules;
pub mod service;
pub mod show;
pub mod socket;
pub mod status;

pub use rules::Rules;

//! A service that holds latency bounds where rules ask for them, and lets everything else sleep.
//!
//! [`Rules`] are what a file asks for; [`judge`] is what they mean on this machine. [`service`] has
//! them in force while their conditions hold: [`force`] holds the bounds, by a thread for each CPU, and the kernel's programs call
//! these threads when packets come; [`quiet`] is how long a bound outlasts them. [`status`] is how all of it stands, which the service answers on a
//! [`socket`]; [`show`] has its names and words; [`metrics`] is the same for Prometheus, and [`budget`] what it may cost. The holds of
//! programs come as [`event`]s from who serves the bus. [`systemd`] is what starts the service, and hears how it stands.

#[cfg(feature = "bpf")]
mod anticipation;
#[cfg(not(feature = "bpf"))]
#[path = "without_anticipation.rs"]
mod anticipation;
pub mod budget;
mod conditions;
pub mod event;
pub mod force;
pub mod holds;
pub mod judge;
pub mod metrics;
#[cfg(feature = "bpf")]
mod packets;
#[cfg(not(feature = "bpf"))]
#[path = "without_bpf.rs"]
mod packets;
pub mod quiet;
pub mod rules;
pub mod service;
pub mod show;
pub mod socket;
mod standing;
pub mod status;
pub mod systemd;
mod way;

pub use rules::Rules;
pub use standing::Standing;

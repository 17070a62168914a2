//! What activity costs in power, by any meter of `reveille-meter`.
//!
//! [`cpus`]: power against the number of busy CPUs. [`states`]: what each idle state saves, and its break-even. Turns and rounds are those of trial
//! ([`reveille_trial::rounds`]), and rounds are the independent units of every interval.

mod asleep;
mod busy;
pub mod cpus;
pub mod dwell;
pub mod states;
mod waking;

pub use reveille_kernel::{Error, Result};

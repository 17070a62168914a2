//! A service that holds latency bounds where rules ask for them, and lets everything else sleep.
//!
//! [`Rules`] are what a file asks for; [`judge`] is what they mean on this machine.

pub mod judge;
pub mod rules;

pub use rules::Rules;

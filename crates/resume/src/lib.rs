//! Where the time of a suspend and a resume goes.
//!
//! [`log`] reads a kernel's log, and [`cycle`] says what is known of one suspend and its resume.
//! [`graph`] finds what waited for what in it, [`path`] the chain that set how long it took, and
//! [`what_if`] how long it would take if something were different. [`power`] lays a power meter's
//! samples beside it. [`analysis`] is all that is shown of it. [`capture`] suspends this machine and
//! keeps what its kernel tells.

pub mod analysis;
pub mod capture;
pub mod cycle;
pub mod devices;
pub mod graph;
pub mod log;
pub mod path;
pub mod power;
pub mod show;
pub mod times;
pub mod what_if;

pub use reveille_kernel::{Error, Result};

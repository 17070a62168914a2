//! Where the time of a suspend and a resume goes.
//!
//! [`log`] reads a kernel's log into [`cycle`]s: a suspend and its resume each. [`graph`] finds what
//! waited for what in a cycle, [`path`] the critical path, and [`what_if`] how long the cycle would take
//! with something changed. [`power`] aligns a power meter's samples with the cycles. [`analysis`] is the
//! result, [`show`] its tables and charts. [`hibernation`] is what a log says of suspends to disk, [`known_as`] what
//! owners call their devices. [`capture`]
//! suspends this machine and keeps its kernel's log and trace.

pub mod analysis;
mod calendar;
pub mod capture;
pub mod cycle;
pub mod devices;
pub mod graph;
pub mod hibernation;
pub mod known_as;
pub mod log;
pub mod path;
pub mod power;
pub mod show;
pub mod times;
pub mod what_if;

pub use reveille_kernel::{Error, Result};

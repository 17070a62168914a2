//! Meters of power, whatever they are.
//!
//! [`Meter`] is what reads one: an energy counter or a value of power, with what it covers. `local` has those of
//! this machine, `dcmi`, `http` and `snmp` those beside it; [`find`] and [`named`] give them by name. How often a
//! meter has a new value is not what its maker says but what [`watch()`] sees. [`Steady`] takes the mean power of a
//! time or of a work, and records samples. [`list::Meters`] is what `reveille power meters` prints, and [`show::sheet`] what people see of it.

mod choose;
mod dcmi;
mod http;
pub mod list;
mod local;
#[cfg(test)]
mod made;
mod reading;
mod record;
pub mod show;
#[cfg(feature = "snmp")]
mod snmp;
mod steady;
mod watch;

pub use choose::{Found, find, named};
pub use reading::{About, Counts, Meter, Reading, Scope};
pub use record::Recorded;
pub use reveille_kernel::{Error, Result};
pub use steady::{Steady, pause};
pub use watch::{REFRESHES, WATCH, Watched, watch, watch_longer};

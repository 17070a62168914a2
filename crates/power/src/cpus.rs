//! Power against the number of busy CPUs: figure 3 of "Software Engagement with Sleeping CPUs" (HotOS XV, 2015) on this machine.

pub mod order;
pub mod result;
mod run;
pub mod show;

pub use order::Order;
pub use result::{Cpus, FILE, Least, SCHEMA_VERSION, Took, open, parse};
pub use run::{Options, counts, run, ways};

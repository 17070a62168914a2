//! Watching without disturbing: what sleeps and what wakes it ([`live`]), what waking costs a
//! workload ([`cost`]), and where a packet's time goes ([`path`]).

pub mod cost;
pub mod live;
pub mod path;

pub use reveille_kernel::{Error, Result};

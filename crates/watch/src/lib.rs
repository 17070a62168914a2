//! Watching without disturbing: what sleeps and what wakes it ([`live`]), what waking costs a
//! workload ([`cost`]), where a packet's time goes ([`path`]), and how idle states were used since boot
//! ([`states`]).

pub mod cost;
pub mod live;
pub mod path;
pub mod states;

pub use reveille_kernel::{Error, Result};

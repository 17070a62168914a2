//! The latency of packets that reach this machine, by stage.
//!
//! BPF programs on tracepoints follow a packet from the interrupt that announced it to its end: the
//! reply to an ICMP echo request, or the first instruction of the reader that it wakes. They record
//! a [`Packet`]; its time is divided into [`Stage`]s, each from the previous instant to its own;
//! [`Path`] summarises them by the idle state that the packet met. [`delays`] lists other causes of
//! latency: coalescing, affinity, power management. [`run`] does a whole run.
//!
//! No tracepoint has the instant at which a packet reached the card. So the figures do not include
//! the time from there to the CPU's first code, unless the sender runs on this machine.

pub mod delays;
#[cfg(feature = "bpf")]
mod follower;
mod packet;
#[cfg(feature = "bpf")]
mod run;
pub mod show;
mod stage;
mod summary;

#[cfg(not(feature = "bpf"))]
pub use crate::without_bpf::run_path as run;
#[cfg(feature = "bpf")]
pub use follower::Follower;
pub use packet::{Cause, Met, Packet, Reader, Sleep, stages, whole_ns};
#[cfg(feature = "bpf")]
pub use run::run;
pub use stage::Stage;
pub use summary::{
    Cost, Counts, Delay, Estimate, FILE, Gathered, Group, Path, ReadersPlace, SCHEMA_VERSION,
    StageFigures, Subject, read,
};

use std::time::Duration;

use reveille_kernel::network;
use reveille_results::Description;
use serde::{Deserialize, Serialize};

/// Which packets are followed, and to which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// ICMP echo requests, until the driver has taken the reply.
    Ping,
    /// Packets that wake a reader, until its first instruction.
    Socket,
}

/// The packets to follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup<'a> {
    /// Which packets, and to which end.
    pub follow: Follow,
    /// Only of this interface.
    pub interface: Option<&'a network::Interface>,
    /// Only to this TCP or UDP port; with [`Follow::Socket`].
    pub port: Option<u16>,
}

/// What to follow, and until when.
#[derive(Debug, Clone, PartialEq)]
pub struct Options<'a> {
    /// The packets to follow.
    pub setup: Setup<'a>,
    /// Ends after this time.
    pub duration: Duration,
    /// Ends after this many packets.
    pub count: u64,
    /// A result with measured latencies, for estimates of the wake-up before a packet's first code.
    pub measured: Option<&'a Description>,
}

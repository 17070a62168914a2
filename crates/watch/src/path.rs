//! Where the time of a packet goes that reaches this machine.
//!
//! BPF programs on tracepoints follow a packet from the interrupt that announced it to its end: the
//! reply to an ICMP echo request, or the first instruction of the reader that it wakes. What they
//! see is a [`Packet`]; its time falls into [`Stage`]s, each from the instant before to the one that
//! it is named for; [`Path`] sums them up by the idle state that the packet met. [`delays`] are what
//! else adds to the latency there: coalescing, affinity, power management.
//!
//! The instant at which a packet reached the card is in no tracepoint. What the CPU took to its first
//! code after that is therefore not in the figures, unless the sender runs on this machine, too.

pub mod delays;
#[cfg(feature = "bpf")]
mod follower;
#[cfg(not(feature = "bpf"))]
#[path = "path/without_bpf.rs"]
mod follower;
mod packet;
pub mod show;
mod stage;
mod summary;

pub use follower::{Follower, Setup};
pub use packet::{Cause, Met, Packet, Reader, Sleep};
pub use stage::{Stage, stages, whole_ns};
pub use summary::{
    Cost, Counts, Estimate, FILE, Gathered, Group, Path, ReadersPlace, SCHEMA_VERSION,
    StageFigures, Subject, read,
};

use serde::{Deserialize, Serialize};

/// Which packets are followed, and to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// ICMP echo requests, until the driver has taken the reply.
    Ping,
    /// Packets that wake a reader, until its first instruction.
    Socket,
}

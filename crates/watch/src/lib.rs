//! Watching without disturbing: what sleeps and what wakes it ([`live`]), what waking costs a
//! workload ([`cost`]), where a packet's time goes ([`path`]), and how idle states were used since boot
//! ([`states`]).

pub mod cost;
pub mod live;
pub mod path;
pub mod states;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

pub use reveille_kernel::{Error, Result};

/// The lower edge of a bucket of the programs' histograms (`src/bpf/histogram.h`).
fn lower_edge(bucket: usize) -> u64 {
    match bucket {
        0..8 => bucket as u64,
        _ => (8 + bucket as u64 % 8) << (bucket / 8 - 1),
    }
}

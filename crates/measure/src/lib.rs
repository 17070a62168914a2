//! Measuring how long a CPU takes to wake.
//!
//! A source wakes the measured CPU at a known instant, and a probe observes the wake-up. There are two
//! probes: BPF programs in the idle loop (the feature `bpf`), and a waiting thread if BPF is
//! unavailable. [`measure`] does a whole run: characterisation, the idle states in turn, and restoring
//! all settings; a [`Recorder`] stores the datapoints.
//!
//! Times are CLOCK_MONOTONIC, ns.

mod cost;
#[cfg(feature = "bpf")]
mod counters;
mod distance;
#[cfg(feature = "bpf")]
mod event;
mod floor;
#[cfg(feature = "bpf")]
mod kernel;
mod placement;
#[cfg(feature = "bpf")]
mod probe_cost;
mod record;
mod run;
#[cfg(feature = "bpf")]
mod source;
mod user;

pub use distance::Distances;
pub use placement::available_cpus;
pub use record::Recorder;
pub use run::{Notice, Options, Outcome, Progress, Protocol, Sink, SoFar, measure, try_bpf};

pub use reveille_kernel::{Error, Result};

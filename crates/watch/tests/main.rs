//! What `cost`, `top` and `path` observe on this kernel, and the results of two of them.

#[cfg(feature = "bpf")]
mod cost;
mod cost_result;
#[cfg(feature = "bpf")]
mod idling;
#[cfg(feature = "bpf")]
mod live;
#[cfg(feature = "bpf")]
mod path;
mod path_result;

/// One test at a time of those that watch this kernel: they would watch each other's threads, and two workloads would
/// queue behind each other.
#[cfg(feature = "bpf")]
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

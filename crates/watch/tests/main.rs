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

//! A reverse proxy that holds requests and releases them in bursts, so that the server behind it sleeps in between.
//!
//! [`Config`] has the services; [`serve::run`] serves them. What is held, and for how long, is decided in `queue.rs` and
//! `guard.rs`, which are pure; `hold.rs` is their one timer and the requests that wait, `forward.rs` a request's way. `early.rs` finds servers on
//! this machine, and `server.rs` sees by BPF that one runs for others.

pub mod bench;
mod body;
mod client;
pub mod config;
mod connector;
pub mod counts;
mod early;
mod forward;
mod guard;
mod headers;
mod hints;
mod hold;
mod idle;
mod queue;
pub mod serve;
#[cfg(feature = "bpf")]
mod server;
pub mod show;
mod stagger;
mod timer;
mod tunnel;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

pub use config::Config;
pub use forward::Say;

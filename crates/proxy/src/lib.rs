//! A reverse proxy that holds requests and releases them in bursts, so that the server behind it sleeps in between.
//!
//! [`serve::run`] serves the services of a [`Config`](reveille_stage::Config). What is held, and for how long, is decided
//! by `reveille_stage`; `hold.rs` is its one timer and the requests that wait, `forward.rs` a request's way. `early.rs`
//! finds servers on this machine, and `server.rs` sees by BPF that one runs for others. [`mod@bench`] is the proxy against itself.

pub mod bench;
mod body;
mod client;
mod connector;
mod early;
mod forward;
mod headers;
mod hints;
mod hold;
mod idle;
pub mod serve;
#[cfg(feature = "bpf")]
mod server;
mod timer;
mod tunnel;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

pub use forward::Say;

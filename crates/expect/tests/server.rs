//! The engine's side of the socket, with well-behaved and misbehaving clients.

mod fake;
mod killed;
mod limits;
mod plan;
mod raw;
mod rude;
mod socket_file;
mod wakers;

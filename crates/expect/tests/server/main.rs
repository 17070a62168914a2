//! The engine's side of the socket, with clients that behave and clients that do not.

mod fake;
mod killed;
mod limits;
mod plan;
mod raw;
mod rude;
mod socket_file;
mod wakers;

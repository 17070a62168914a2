//! The library for applications, and the server that it talks to.

mod descriptors;
mod history;
mod idle;
mod server;

//! The engine, its model of an I/O, and the pages of its results.

#[cfg(feature = "bpf")]
mod engine;
mod model;
mod page;

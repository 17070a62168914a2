//! What sleeps and what wakes it, between two readings.

mod model;

pub use model::*;

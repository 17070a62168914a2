//! Background work that can wait, so that CPUs sleep longer, and together.
//!
//! [`find`]: whose wake-ups could be delayed, and what that would save. [`hold`]: delays them, and undoes it.

pub mod find;
pub mod hold;

pub use reveille_kernel::{Error, Result};

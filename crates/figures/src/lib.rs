//! Figures from samples, and how they are written.
//!
//! Every quantile, interval, test and tail of the workspace is here, once:
//!
//! - [`quantile`]: quantiles, where a sample carries them, and moments;
//! - [`interval`]: exact intervals of shares and quantiles;
//! - [`two_samples`]: is one slower, by how much;
//! - [`rounds`]: figures and differences of settings that were tried in rounds;
//! - [`tail`]: what lies beyond the data.

pub mod interval;
mod placements;
pub mod quantile;
pub mod random;
pub mod rounds;
pub mod student;
pub mod tail;
pub mod two_samples;

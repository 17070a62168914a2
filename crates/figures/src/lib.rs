//! Statistics of samples: every quantile, interval, test and tail of the workspace.
//!
//! - [`quantile`]: quantiles, the sample sizes that they need, and moments;
//! - [`interval`]: exact intervals of shares and quantiles;
//! - [`two_samples`]: whether one sample is slower, and by how much;
//! - [`rounds`]: figures and differences of settings tried in rounds;
//! - [`holm`]: several tests at once;
//! - [`tail`]: extrapolation beyond the data;
//! - [`clock_line`]: instants of another clock, with bounds.

pub mod clock_line;
pub mod holm;
pub mod interval;
pub mod quantile;
pub mod random;
pub mod rounds;
pub mod student;
pub mod tail;
pub mod two_samples;

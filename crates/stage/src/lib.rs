//! When requests are held and released in bursts, so that the server behind them sleeps in between.
//!
//! [`Config`] has the services. What is held, and for how long, is decided in [`queue`], [`guard`] and [`stagger`], which are
//! pure. [`counts`] is the account of a service, [`show`] its words; [`mod@bench`] is the result of the comparison. The proxy
//! that does all this with requests is the crate `reveille-proxy`.

pub mod bench;
pub mod config;
pub mod counts;
pub mod guard;
pub mod queue;
pub mod show;
pub mod stagger;

pub use config::Config;

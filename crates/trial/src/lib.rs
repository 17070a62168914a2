//! Runs one workload under several idle settings, in turns, and compares.
//!
//! [`setting::choose`] says which settings there are on a machine, [`run::run`] runs a
//! [`workload::Workload`] under each; [`rounds::run`] gives everything that is compared its turns, in
//! shuffled order, round by round; [`observe`] counts meanwhile what the machine does. [`result::conclude`] compares, by [`reveille_figures::rounds`], for which rounds are
//! the independent units, and [`verdict`] says which setting is best and which ones are dominated;
//! [`sentence`] puts it in words. A [`result::Trial`] is kept as `trial.json`.

pub mod observe;
pub mod result;
pub mod rounds;
pub mod run;
pub mod sentence;
pub mod setting;
pub mod show;
pub mod verdict;
pub mod workload;

pub use reveille_kernel::{Error, Result};

//! Runs one workload under several idle settings, in turns, and compares.
//!
//! [`setting::choose`] lists the settings of a machine, [`run::run`] runs a
//! [`workload::Workload`] under each; [`rounds::run`] gives everything that is compared its turns, in
//! shuffled order, round by round; `observe` counts meanwhile what the machine does. [`result::Trial::of`]
//! compares, by [`reveille_figures::rounds`], for which rounds are the independent units, and `verdict`
//! finds which setting is best and which ones are dominated. A [`result::Trial`] is kept as `trial.json`;
//! [`show::sheet`] is what people see of it.

mod observe;
pub mod residency;
pub mod result;
pub mod rounds;
pub mod run;
pub mod setting;
pub mod show;
pub mod together;
mod verdict;
pub mod workload;

pub use reveille_kernel::{Error, Result};

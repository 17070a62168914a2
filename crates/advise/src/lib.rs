//! Which idle states a latency budget allows, by what was measured and not by the driver's table.
//!
//! A [`Question`] (a budget, a percentile, a confidence) is put to a result; the [`Advice`] is
//! whether each idle state may be allowed, with the evidence, its [`Decision`] is what is recommended, or that nothing
//! is, and the [`Setting`] is the same in the driver's own figures, for cpuidle compares a latency bound with those.
//! [`hold`] plans such a bound on this machine, by the table or by a [`MachineResult`]. [`form`] writes
//! the setting in the forms that people deploy, [`cost`] is what it costs, and [`table`] writes
//! the driver's table anew from what was measured. An [`Answer`] is all of it, and [`show`] has its names
//! and words.
//!
//! Nothing here prints, and nothing is changed on the machine.

pub mod advice;
mod answer;
pub mod cost;
mod decision;
mod finding;
pub mod form;
pub mod hold;
mod machine_result;
mod measured;
mod question;
pub mod setting;
pub mod show;
mod standing;
pub mod table;
mod target;
pub mod without_sleep;

pub use advice::Advice;
pub use answer::Answer;
pub use cost::Cost;
pub use decision::{Because, Decision, End, Leaves};
pub use finding::{Finding, SourceEvidence};
pub use form::Form;
pub use machine_result::{Figure, MachineResult, Unfit, measured_elsewhere};
pub use question::{Confidence, Demand, Latency, Percentile, Question};
pub use setting::Setting;
pub use standing::{Standing, StateAdvice};
pub use target::{Coverage, Target, machine, speaks_for, why_other_machine};
pub use without_sleep::WithoutSleep;

/// Why a result gives no advice. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The result lacks the latency that was asked for.
    #[error("holds no {0}; ask for the other one with --latency")]
    NoLatency(Latency),
    /// There is nothing to judge.
    #[error("no datapoints; measure again, and longer")]
    NoDatapoints,
    /// The driver's table is unknown.
    #[error(
        "lacks the driver's table; give the machine that was measured with --root (/ is this one)"
    )]
    NoTable,
    /// Only intel_idle takes a table.
    #[error("no table: the driver is {0}, and only intel_idle takes one on the command line")]
    NoTableTaken(String),
    /// The setting has no text in the form that was asked for.
    #[error("{0}")]
    NoForm(String),
    /// The machine that was given is not the one that was measured.
    #[error("{0}; give the machine that was measured")]
    OtherMachine(String),
    /// The machine could not be read.
    #[error(transparent)]
    Machine(#[from] reveille_kernel::Error),
    /// The driver's table cannot be written with these figures.
    #[error("{0}")]
    CannotBeWritten(String),
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

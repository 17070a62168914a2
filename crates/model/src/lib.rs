//! What sleeping servers save, and what their requests pay.
//!
//! Times are in seconds, powers in watts, rates in requests a second.
//!
//! [`service`] has the distributions of service times, [`power`] what a server draws, [`policy`] what
//! it does without work, and what comes of it. [`closed`] computes that, [`sweep`] does so over all
//! loads, and [`question`] looks for the place where something changes. [`parameters`] are a file's,
//! or the paper's. [`simulate`] has what closed forms do not give: percentiles, several servers, other
//! arrivals.

pub mod closed;
pub mod farm;
pub mod parameters;
pub mod policy;
pub mod power;
pub mod question;
pub mod seconds;
pub mod sentence;
pub mod service;
pub mod simulate;
pub mod sweep;

/// Why there is no answer. Each message is one line: what, where, why, what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// Nothing was simulated that figures could be made of.
    #[error("{0}")]
    Nothing(String),
    /// More work comes in than can be done: no steady state.
    #[error(
        "the load is {}: more work than can be done, and the queue grows for ever; it is stable below 1{hint}",
        of(*load)
    )]
    Unstable {
        /// Work that comes by what can be done: 1 and above.
        load: f64,
        /// `: with ...`: what would make it stable; empty where it is unknown.
        hint: String,
    },
}

/// Three decimals, for loads near 1 are told apart by them; of a load that is no load the size.
fn of(load: f64) -> String {
    match load < 1e6 {
        true => format!("{load:.3}"),
        false => format!("{load:.1e}"),
    }
}

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn a_load_has_three_decimals_unless_it_is_no_load() {
        for (load, said) in [
            (1.0004, "1.000"),
            (1.25, "1.250"),
            (999_999.5, "999999.500"),
            (1e6, "1.0e6"),
            (2.5e9, "2.5e9"),
        ] {
            let unstable = Error::Unstable {
                load,
                hint: ": try less".into(),
            };
            assert_eq!(
                unstable.to_string(),
                format!(
                    "the load is {said}: more work than can be done, and the queue grows for ever; it \
                     is stable below 1: try less"
                )
            );
        }
    }
}

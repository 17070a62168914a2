//! Power saved by sleeping servers, and its cost in response time.
//!
//! Times are in seconds, powers in watts, rates in requests a second.
//!
//! [`service`] has the distributions of service times, [`power`] what a server draws, [`policy`] what
//! it does when idle, and its outcome. [`closed`] computes outcomes, [`sweep`] does so over all loads,
//! and [`question`] finds where policies cross, the largest transition time and the best timeout.
//! [`parameters`] come from a file or the paper. [`simulate`] gives what closed forms do not:
//! percentiles, several servers, other arrivals; [`p99`] says how one is known, [`least`] which policy
//! is shown to draw least. [`run`], [`answers`], [`machine`] and [`comparison`] are
//! the results of the commands, [`show`] writes them for people.

/// Returns [`Error::Usage`] with this text unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        match $holds {
            true => {}
            false => return Err($crate::Error::Usage(format!($($why)+))),
        }
    };
}

pub mod answers;
pub mod closed;
pub mod comparison;
pub mod farm;
pub mod latencies;
pub mod least;
pub mod machine;
pub mod p99;
pub mod parameters;
pub mod policy;
pub mod power;
pub mod question;
pub mod run;
pub mod seconds;
pub mod service;
pub mod show;
pub mod simulate;
pub mod sweep;

/// Why there is no answer. Each message is one line: what, where, why, what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// A file is not what it should be, or lacks what is needed.
    #[error("{0}")]
    Content(String),
    /// Nothing was simulated that figures could be made of.
    #[error("{0}")]
    Nothing(String),
    /// More work comes in than can be done: no steady state.
    #[error(
        "the load is {}: more work arrives than can be done, and the queue grows without limit; it is stable below 1{hint}",
        of(*load)
    )]
    Unstable {
        /// Work that comes by what can be done: 1 and above.
        load: f64,
        /// `: with ...`: what would make it stable; empty where it is unknown.
        hint: String,
    },
}

/// Three decimals, which tell loads near 1 apart; the magnitude of a load beyond reason.
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
    fn a_load_has_three_decimals_unless_it_is_zero() {
        let said = [1.0004, 1.25, 999_999.5, 1e6, 2.5e9].map(|load| {
            let hint = ": try less".into();
            (load, Error::Unstable { load, hint })
        });
        reveille_snapshot::snapshot!("errors", said);
    }
}

//! The simulator: what closed forms do not give.
//!
//! Servers, each with a queue (first come, first served) and a policy, stand behind a dispatcher;
//! requests come by a random process or as recorded. [`simulate`] runs independent replications,
//! spread over threads, and gives means and percentiles with confidence intervals. All is
//! reproducible by the seed, whatever the number of threads, and policies that are simulated with the
//! same seed meet the same requests.
//!
//! There is no list of events. A server with one queue needs none (see `server.rs`); only dispatchers
//! that look at queues keep account of departures (`calendar.rs`). Servers that a Poisson process is
//! spread over at random do not concern each other, and are simulated one by one.

mod arrivals;
mod calendar;
mod dispatch;
mod draw;
mod outcome;
mod places;
mod plan;
mod run;
mod server;
mod setup;
mod tally;
mod trace;
mod work;

use std::ops::ControlFlow;

use crate::{Error, Result};

pub use arrivals::Arrivals;
pub use dispatch::Dispatcher;
pub use outcome::{Estimate, Percentile, Replication, Simulated};
pub use run::Request;
pub use setup::{Horizon, Setup, WarmUp};
pub use tally::{PERCENTILES, RESOLUTION};
pub use trace::Trace;
pub use work::Progress;

/// Simulates. `progress` is called some twenty times a second; when it breaks, the replications that
/// are not completed are left out; [`Simulated::replications`] counts the complete ones.
///
/// # Errors
/// [`Error::Usage`] for invalid figures, [`Error::Unstable`] where more work comes than
/// can be done (a trace is simulated, and it is noted), [`Error::Nothing`] where no replication was
/// completed, or no request came in one.
pub fn simulate(
    setup: &Setup,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Simulated> {
    let plan = plan::Plan::of(setup)?;
    let runs = work::replications(&plan, progress)?;
    if runs.is_empty() {
        return Err(Error::Nothing(
            "no replication was completed; give a shorter horizon, or more time".into(),
        ));
    }
    Simulated::of(plan, runs).ok_or_else(|| Error::Nothing(no_request(setup.horizon)))
}

/// How much has to be simulated, as far as it is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// As [`Simulated::requests_for_p99`].
    pub requests_for_p99: Option<u64>,
    /// Of all replications together, warm-ups among them.
    pub requests: u64,
}

/// The size of a simulation, also of one that is too long.
///
/// # Errors
/// As [`simulate`].
pub fn size(setup: &Setup) -> Result<Size> {
    let plan = plan::Plan::sized(setup)?;
    Ok(Size {
        requests_for_p99: plan.requests_for(tally::P99),
        requests: plan.expected(),
    })
}

/// In words, with the key of `[simulation]` that limits the measurement.
fn no_request(horizon: Horizon) -> String {
    match horizon {
        Horizon::Seconds(s) => {
            format!("horizon: no request came within {s} s of a replication; give a longer one")
        }
        Horizon::Requests(requests) => {
            format!("requests: {requests} in the mean, and none came in a replication; give more")
        }
        Horizon::Trace => {
            "trace: no request came after the warm-up; give a shorter `warm_up`".into()
        }
    }
}

/// Hands out each request of one replication, those of the warm-up too: in the order of arrival at
/// each server. They are the requests that [`simulate`] has its figures from.
///
/// # Errors
/// As [`simulate`].
pub fn follow(setup: &Setup, replication: u32, each: &mut dyn FnMut(&Request)) -> Result<()> {
    let plan = plan::Plan::of(setup)?;
    let mut each = |request: &Request, _is_measured: bool| each(request);
    let watch = run::Watch::default();
    run::servers(&plan, replication, 0..setup.servers, &mut each, &watch)?;
    Ok(())
}

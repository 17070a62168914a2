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
mod tally;
mod trace;
mod work;

use std::ops::ControlFlow;

use crate::policy::Policy;
use crate::power::Power;
use crate::service::Service;
use crate::{Error, Result};

pub use arrivals::Arrivals;
pub use dispatch::Dispatcher;
pub use outcome::{Estimate, Percentile, Replication, ShareEstimates, Simulated};
pub use run::Request;
pub use tally::PERCENTILES;
pub use trace::Trace;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Behind one dispatcher.
    pub servers: usize,
    /// One for all servers, or one for each.
    pub policies: Vec<Policy>,
    /// The rule by which requests are spread over the servers.
    pub dispatcher: Dispatcher,
    /// When requests come, to all servers together.
    pub arrivals: Arrivals,
    /// Not used where a trace brings its service times.
    pub service: Service,
    /// Of each server.
    pub power: Power,
    /// What each replication measures.
    pub horizon: Horizon,
    /// What goes before, unmeasured.
    pub warm_up: WarmUp,
    /// Independent runs, from which the intervals come.
    pub replications: u32,
    /// Of the intervals: between 0 and 1.
    pub confidence: f64,
    /// The same seed gives the same figures, on however many threads.
    pub seed: u64,
    /// 0: as many as there are CPUs.
    pub threads: usize,
}

impl Setup {
    /// One server; ten replications of 100 000 requests, with intervals of 95 %.
    pub fn new(policy: Policy, arrivals: Arrivals, service: Service, power: Power) -> Self {
        Self {
            servers: 1,
            policies: vec![policy],
            dispatcher: Dispatcher::Random,
            horizon: match arrivals {
                Arrivals::Trace(_) => Horizon::Trace,
                _ => Horizon::Requests(100_000),
            },
            arrivals,
            service,
            power,
            warm_up: WarmUp::Relaxation,
            replications: 10,
            confidence: 0.95,
            seed: 1,
            threads: 0,
        }
    }
}

/// How much is measured in each replication, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Horizon {
    /// So long.
    Seconds(f64),
    /// As many seconds as bring so many requests in the mean.
    Requests(u64),
    /// Until the last request of a trace has left.
    Trace,
}

/// What is simulated first and not measured, for servers begin awake and empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WarmUp {
    /// Five times the sum of
    ///
    /// - the relaxation time of the queue, E\[S\]/f · (I + c_s²) / (2 (1 − √ρ)²): that of M/M/1
    ///   (P. M. Morse 1958), with I, the arrivals' index of dispersion, and c_s², that of the service
    ///   times, in place of 1 and 1 (as A. R. Odoni and E. Roth, *Operations Research* 31, 1983, found
    ///   it to grow; they divide by 2.8 instead of 2);
    /// - a cycle of idle and busy periods, (1/λ + the longest transition) / (1 − ρ);
    /// - the time in which the arrival process forgets its state.
    ///
    /// It depends on the parameters only, not on what is drawn. A trace has none: it is taken as what
    /// happened.
    Relaxation,
    /// So long.
    Seconds(f64),
}

/// How far a simulation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Requests, of about those `expected`.
    pub simulated: u64,
    /// Requests in all replications, warm-ups among them, by the rate.
    pub expected: u64,
    /// Replications that are complete.
    pub replications_done: u32,
    /// Replications that were asked for.
    pub replications: u32,
}

/// Simulates. `progress` is called some twenty times a second; when it breaks, the replications that
/// are not completed are left out, and [`Simulated::replications`] says how many were.
///
/// # Errors
/// [`Error::Usage`] for figures that cannot be meant, [`Error::Unstable`] where more work comes than
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

/// In words, with the key of `[simulation]` that says how much is measured.
fn no_request(horizon: Horizon) -> String {
    match horizon {
        Horizon::Seconds(seconds) => {
            format!(
                "horizon: no request came within {seconds} s of a replication; give a longer one"
            )
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
    let watch = run::Watch::default();
    let mut each = Each(each);
    if !plan.is_alone {
        run::together(&plan, replication, &mut each, &watch)?;
        return Ok(());
    }
    for server in 0..setup.servers {
        run::alone(&plan, replication, server, &mut each, &watch)?;
    }
    Ok(())
}

struct Each<'a>(&'a mut dyn FnMut(&Request));

impl run::Follow for Each<'_> {
    fn warming(&mut self, request: &Request) {
        (self.0)(request);
    }

    fn measured(&mut self, request: &Request) {
        (self.0)(request);
    }
}

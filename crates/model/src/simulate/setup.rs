//! What is simulated, how long, and how often.

use super::arrivals::Arrivals;
use super::dispatch::Dispatcher;
use crate::policy::Policy;
use crate::power::Power;
use crate::service::Service;

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
    /// One server; ten replications of 100 000 requests, with intervals of 95%.
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
    /// This time.
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
    /// This time.
    Seconds(f64),
}

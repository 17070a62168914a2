//! The 99th percentile of the response time, and how it is known.

use reveille_figures::rounds::Estimate;
use reveille_show::sheet::Value;
use serde::Serialize;

use crate::policy::{Outcome, Policy};
use crate::service::Service;
use crate::simulate::{RESOLUTION, Replication, Simulated};

/// The 99th percentile of a policy's response time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum P99 {
    /// Exact.
    ClosedForm {
        /// Seconds.
        response_s: f64,
    },
    /// The mean over replications.
    Simulation {
        /// Seconds.
        response_s: f64,
        /// Half the width of its interval; `None` of one replication.
        half_width_s: Option<f64>,
    },
    /// Unknown: what was simulated is too short beside the time in which the queue forgets.
    NotConverged {
        /// Of each replication, with which it is known.
        requests: u64,
    },
}

/// Unknown where it has not converged.
impl From<P99> for Value {
    fn from(p99: P99) -> Self {
        match p99 {
            P99::ClosedForm { response_s } => response_s.into(),
            P99::Simulation {
                response_s,
                half_width_s,
            } => Self::Estimate(Estimate {
                estimate: response_s,
                interval: half_width_s.map(|half| (response_s - half, response_s + half)),
                rounds: 0,
            }),
            P99::NotConverged { .. } => Self::Unknown,
        }
    }
}

impl P99 {
    /// Of an M/M/1 queue, whose response time is exponential (Kleinrock, "Queueing Systems" I, 1975, section 5.4), at
    /// whatever frequency; `None` for other policies and service times.
    pub fn closed(policy: &Policy, service: &Service, outcome: &Outcome) -> Option<Self> {
        let is_ready = matches!(policy, Policy::AlwaysOn | Policy::Dvfs(_));
        let is_exponential = matches!(service, Service::Exponential { .. });
        (is_ready && is_exponential).then(|| Self::ClosedForm {
            response_s: 100_f64.ln() * outcome.response_mean,
        })
    }

    /// Of a simulation; `None` of a trace that is too short for it.
    pub fn simulated(of: &Simulated) -> Option<Self> {
        match of.p99() {
            Some(p99) => Some(Self::Simulation {
                response_s: p99.value,
                half_width_s: p99.half_width,
            }),
            None => Some(Self::NotConverged {
                requests: of.requests_for_p99?,
            }),
        }
    }

    /// By how much the simulation is above another of the same requests, `exact` seconds in truth: what both have met
    /// by chance goes out of the difference (a control variate; Lavenberg and Welch, Management Science 27, 1981). This
    /// one itself where that has no narrower interval.
    pub(crate) fn by_control(self, mine: &Simulated, other: &Simulated, exact: f64) -> Self {
        let Self::Simulation {
            half_width_s: Some(half),
            ..
        } = self
        else {
            return self;
        };
        let p99 = |run: &Replication| run.p99().unwrap_or(f64::NAN);
        match mine.above(other, mine.confidence, p99) {
            Some(above) if above.half_width.is_some_and(|narrow| narrow < half) => {
                let least = RESOLUTION * exact;
                Self::Simulation {
                    response_s: exact + above.value,
                    half_width_s: above.half_width.map(|half| half.max(least)),
                }
            }
            _ => self,
        }
    }

    /// Requests of each replication that it lacks.
    pub fn lacks(self) -> Option<u64> {
        match self {
            Self::NotConverged { requests } => Some(requests),
            Self::ClosedForm { .. } | Self::Simulation { .. } => None,
        }
    }
}

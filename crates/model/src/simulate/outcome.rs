//! What came out: figures of each replication, and what they say together.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::plan::Plan;
use super::run::Accounts;
use super::tally::{Histogram, PERCENTILES, Sums};
use crate::policy::Shares;

/// A figure, with what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean over replications.
    pub value: f64,
    /// Half the width of the confidence interval: Student's t over replications, which are
    /// independent. `None` with fewer than two.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Of one value for each replication; `None` without any.
    pub fn of(values: &[f64], confidence: f64) -> Option<Self> {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let half_width = StudentsT::new(0.0, 1.0, count - 1.0).ok().map(|student| {
            let squares = values.iter().map(|other| (other - value) * (other - value));
            let variance = squares.sum::<f64>() / (count - 1.0);
            student.inverse_cdf((1.0 + confidence) / 2.0) * (variance / count).sqrt()
        });
        (!values.is_empty()).then_some(Self { value, half_width })
    }

    /// Whether the interval has `value` in it; not without an interval.
    pub fn covers(&self, value: f64) -> bool {
        let half = self.half_width;
        half.is_some_and(|half| (self.value - value).abs() <= half)
    }
}

/// The figures of one replication. Times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Replication {
    /// That came in the window.
    pub requests: u64,
    /// Seconds.
    pub window: f64,
    /// From arrival to departure.
    pub response_mean: f64,
    /// From arrival to the beginning of service.
    pub wait_mean: f64,
    /// As [`PERCENTILES`]; `None` with fewer than ten requests beyond.
    pub response_percentiles: [Option<f64>; PERCENTILES.len()],
    /// The longest of them.
    pub response_max: f64,
    /// Of a server, in watts.
    pub power_mean: f64,
    /// Joules.
    pub energy_per_request: f64,
    /// The mean over servers.
    pub shares: Shares,
    /// Begun in the window, by all servers.
    pub naps: u64,
    /// Requests that were not served at once.
    pub waited: u64,
    /// Requests that found their server asleep, or on the way there or back.
    pub found_asleep: u64,
    /// Of each server.
    pub by_server: Vec<Shares>,
}

impl Replication {
    /// Means are NaN where no request came.
    pub(super) fn of(plan: &Plan, sums: &Sums, responses: &Histogram, accounts: &Accounts) -> Self {
        let (requests, window) = (sums.requests as f64, accounts.window);
        let servers = accounts.of.len() as f64;
        let by_server: Vec<Shares> = accounts.of.iter().map(|of| of.shares(window)).collect();
        let of_each = accounts.of.iter().enumerate();
        let energy: f64 = of_each
            .map(|(server, account)| plan.behaviour(server).energy(account))
            .sum();
        let naps: i64 = accounts.of.iter().map(|account| account.naps).sum();
        Self {
            requests: sums.requests,
            window,
            response_mean: sums.response / requests,
            wait_mean: sums.wait / requests,
            response_percentiles: PERCENTILES.map(|share| responses.percentile(share)),
            response_max: responses.max(),
            power_mean: energy / window / servers,
            energy_per_request: energy / requests,
            shares: mean(by_server.iter()),
            naps: naps.max(0) as u64,
            waited: sums.waited,
            found_asleep: sums.found_asleep,
            by_server,
        }
    }

    /// How often a second a server falls asleep, in the mean.
    pub fn naps_per_s(&self) -> f64 {
        self.naps as f64 / self.window / self.by_server.len() as f64
    }
}

fn mean<'a>(shares: impl ExactSizeIterator<Item = &'a Shares>) -> Shares {
    let count = shares.len() as f64;
    let mut mean = Shares::default();
    for each in shares {
        mean.active += each.active / count;
        mean.idle += each.idle / count;
        mean.transition += each.transition / count;
        mean.nap += each.nap / count;
    }
    mean
}

/// A percentile of the response time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentile {
    /// So large a part of the requests is not slower.
    pub share: f64,
    /// Seconds; `None` where a replication has too few requests for it.
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
}

/// Shares of a server's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareEstimates {
    /// As [`Shares::active`].
    pub active: Estimate,
    /// As [`Shares::idle`].
    pub idle: Estimate,
    /// As [`Shares::transition`].
    pub transition: Estimate,
    /// As [`Shares::nap`].
    pub nap: Estimate,
}

/// What a simulation comes to. Times are in seconds, power and naps those of a server in the mean.
#[derive(Debug, Clone, Serialize)]
pub struct Simulated {
    /// How many were simulated.
    pub servers: usize,
    /// Work that comes by what the servers can do at their frequency.
    pub load: f64,
    /// The relative frequency, where it is the same for all.
    pub frequency: Option<f64>,
    /// [`super::Setup::seed`].
    pub seed: u64,
    /// Of the intervals.
    pub confidence: f64,
    /// Completed, of those that were asked for.
    pub replications: u32,
    /// As many as were asked for.
    pub replications_asked: u32,
    /// Seconds simulated before the window, in each replication.
    #[serde(rename = "warm_up_s")]
    pub warm_up: f64,
    /// Seconds measured, in each replication (of a whole trace: in the mean).
    #[serde(rename = "window_s")]
    pub window: f64,
    /// In all windows.
    pub requests: u64,
    /// In all windows: arrivals, departures, and the beginnings and ends of naps.
    pub events: u64,
    /// From arrival to departure.
    #[serde(rename = "response_mean_s")]
    pub response_mean: Estimate,
    /// From arrival to the beginning of service.
    #[serde(rename = "wait_mean_s")]
    pub wait_mean: Estimate,
    /// As [`PERCENTILES`].
    pub response_percentiles: Vec<Percentile>,
    /// Of all replications.
    #[serde(rename = "response_max_s")]
    pub response_max: f64,
    /// Watts.
    #[serde(rename = "power_mean_w")]
    pub power_mean: Estimate,
    /// Joules.
    #[serde(rename = "energy_per_request_j")]
    pub energy_per_request: Estimate,
    /// The mean over servers.
    pub shares: ShareEstimates,
    /// How often a server falls asleep (or enters an idle state).
    pub naps_per_s: Estimate,
    /// The part of the requests that was not served at once.
    pub waited: Estimate,
    /// The part that found its server asleep, or on the way there or back.
    pub found_asleep: Estimate,
    /// Of each server, the mean over replications.
    pub by_server: Vec<Shares>,
    /// What one should know of the figures.
    pub notes: Vec<String>,
    /// What the estimates are made of.
    #[serde(skip)]
    pub runs: Vec<Replication>,
}

impl Simulated {
    /// `None` if no replication was completed, or in one of them no request came.
    pub(super) fn of(plan: Plan, runs: Vec<Replication>) -> Option<Self> {
        let confidence = plan.setup.confidence;
        let requests: u64 = runs.iter().map(|run| run.requests).sum();
        let naps: u64 = runs.iter().map(|run| run.naps).sum();
        if runs.iter().any(|run| run.requests == 0) {
            return None;
        }
        let of = |figure: &dyn Fn(&Replication) -> f64| estimate(&runs, confidence, figure);
        let part = |count: u64, run: &Replication| count as f64 / run.requests as f64;
        Some(Self {
            servers: plan.setup.servers,
            load: plan.load,
            frequency: plan.frequency(),
            seed: plan.setup.seed,
            confidence,
            replications: runs.len() as u32,
            replications_asked: plan.replications,
            warm_up: plan.from,
            window: of(&|run| run.window)?.value,
            requests,
            events: 2 * requests + 2 * naps,
            response_mean: of(&|run| run.response_mean)?,
            wait_mean: of(&|run| run.wait_mean)?,
            response_percentiles: percentiles(&runs, confidence),
            response_max: runs.iter().map(|run| run.response_max).fold(0.0, f64::max),
            power_mean: of(&|run| run.power_mean)?,
            energy_per_request: of(&|run| run.energy_per_request)?,
            shares: ShareEstimates {
                active: of(&|run| run.shares.active)?,
                idle: of(&|run| run.shares.idle)?,
                transition: of(&|run| run.shares.transition)?,
                nap: of(&|run| run.shares.nap)?,
            },
            naps_per_s: of(&Replication::naps_per_s)?,
            waited: of(&|run| part(run.waited, run))?,
            found_asleep: of(&|run| part(run.found_asleep, run))?,
            by_server: by_server(&runs),
            notes: plan.notes,
            runs,
        })
    }

    /// Any figure of the replications, with an interval of any confidence.
    pub fn estimate(
        &self,
        confidence: f64,
        figure: impl Fn(&Replication) -> f64,
    ) -> Option<Estimate> {
        estimate(&self.runs, confidence, &figure)
    }

    /// How much this has more of a figure than the other. With the same seed, arrivals and services,
    /// replications are of the same requests and are compared in pairs: the interval is then much
    /// narrower than those of the two. `None` if replications are missing.
    pub fn above(
        &self,
        other: &Self,
        confidence: f64,
        figure: impl Fn(&Replication) -> f64,
    ) -> Option<Estimate> {
        let pairs = self.runs.iter().zip(&other.runs);
        let apart: Vec<f64> = pairs
            .map(|(mine, other)| figure(mine) - figure(other))
            .collect();
        (self.runs.len() == other.runs.len()).then(|| Estimate::of(&apart, confidence))?
    }
}

fn estimate(
    runs: &[Replication],
    confidence: f64,
    figure: &dyn Fn(&Replication) -> f64,
) -> Option<Estimate> {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    Estimate::of(&values, confidence)
}

fn percentiles(runs: &[Replication], confidence: f64) -> Vec<Percentile> {
    let each = PERCENTILES.iter().enumerate();
    each.map(|(place, share)| {
        let values = runs.iter().map(|run| run.response_percentiles[place]);
        let values: Option<Vec<f64>> = values.collect();
        Percentile {
            share: *share,
            response: values.and_then(|values| Estimate::of(&values, confidence)),
        }
    })
    .collect()
}

fn by_server(runs: &[Replication]) -> Vec<Shares> {
    let servers = runs.first().map_or(0, |run| run.by_server.len());
    (0..servers)
        .map(|server| mean(runs.iter().map(|run| &run.by_server[server])))
        .collect()
}

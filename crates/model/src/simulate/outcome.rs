//! Results: the figures of each replication, and their estimates together.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::plan::Plan;
use super::run::Accounts;
use super::tally::{Histogram, P99, PERCENTILES, Sums};
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
            let squares = values.iter().map(|other| (other - value).powi(2));
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
    /// As [`PERCENTILES`]; `None` with fewer than ten requests beyond, and where the window is too short beside the
    /// time in which the queue forgets.
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
        let energies = of_each.map(|(server, account)| plan.behaviour(server).energy(account));
        let energy: f64 = energies.sum();
        let naps: i64 = accounts.of.iter().map(|account| account.naps).sum();
        Self {
            requests: sums.requests,
            window,
            response_mean: sums.response / requests,
            wait_mean: sums.wait / requests,
            response_percentiles: PERCENTILES.map(|share| {
                let has_converged = plan.has_converged(share, window);
                responses.percentile(share).filter(|_| has_converged)
            }),
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

    /// The 99th percentile of the response time, in seconds; `None` as in [`Replication::response_percentiles`].
    pub fn p99(&self) -> Option<f64> {
        let place = PERCENTILES.iter().position(|share| *share == P99)?;
        self.response_percentiles[place]
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
    /// Seconds; `None` where a replication has too few requests for it, or is too short for it to converge.
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
}

/// The result of a simulation. Times are in seconds, power and naps are the mean of a server.
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
    /// Whether anything was drawn at random; if not, the one replication has all there is.
    pub is_drawn: bool,
    /// Seconds in which a server's queue forgets what it met: percentiles need a window of many of them; 0 of a trace.
    #[serde(rename = "memory_s")]
    pub memory: f64,
    /// Requests of each replication with which the 99th percentile is known; `None` of a trace.
    pub requests_for_p99: Option<u64>,
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
    pub shares: Shares<Estimate>,
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
    /// The 99th percentile of the response time, in seconds; `None` as [`Percentile::response`].
    pub fn p99(&self) -> Option<Estimate> {
        let all = &self.response_percentiles;
        all.iter().find(|one| one.share == P99)?.response
    }

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
            is_drawn: plan.is_drawn,
            memory: plan.memory,
            requests_for_p99: plan.requests_for(P99),
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
            shares: Shares {
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
        let apart = pairs.map(|(mine, other)| figure(mine) - figure(other));
        let apart: Vec<f64> = apart.collect();
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
    let each = PERCENTILES.into_iter().enumerate();
    let percentile = |(place, share): (usize, f64)| {
        let values = runs.iter().map(|run| run.response_percentiles[place]);
        let values: Option<Vec<f64>> = values.collect();
        let response = values.and_then(|values| Estimate::of(&values, confidence));
        Percentile { share, response }
    };
    each.map(percentile).collect()
}

fn by_server(runs: &[Replication]) -> Vec<Shares> {
    let servers = 0..runs.first().map_or(0, |run| run.by_server.len());
    let mean = |server| mean(runs.iter().map(|run: &Replication| &run.by_server[server]));
    servers.map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, PowerNap};
    use crate::power::Power;
    use crate::service::Service;
    use crate::simulate::{Arrivals, Dispatcher, Setup, Trace, simulate};
    use std::ops::ControlFlow;

    /// Two servers in turn, the first napping; whole numbers of 2⁻ⁿ, so that sums are exact.
    fn by_hand() -> Setup {
        let text = b"0,1\n1,2\n4,1\n4.5,0.5\n5,2.75\n";
        let power = Power {
            active: 128.0,
            idle: 64.0,
            nap: 8.0,
            transition: 96.0,
        };
        let nap = PowerNap {
            suspend: 0.5,
            resume: 0.25,
            timeout: 1.0,
        };
        let arrivals = Arrivals::Trace(Trace::read(text).unwrap());
        let service = Service::Exponential { mean: 9.0 };
        let mut setup = Setup::new(Policy::PowerNap(nap), arrivals, service, power);
        setup.servers = 2;
        setup.policies.push(Policy::AlwaysOn);
        setup.dispatcher = Dispatcher::RoundRobin;
        setup
    }

    #[test]
    fn a_replication_matches_a_calculation_by_hand() {
        // The first server: 0 to 1, idle to 2, suspended to 2.5, woken at 4, 4.25 to 5.25, and on
        // to 8. The second: 1 to 3, and 4.5 to 5; otherwise it idles.
        let shares = |[active, idle, transition, nap]: [f64; 4]| Shares {
            active: active / 8.0,
            idle: idle / 8.0,
            transition: transition / 8.0,
            nap: nap / 8.0,
        };
        let joules = (4.75 * 128.0 + 64.0 + 0.75 * 96.0 + 1.5 * 8.0) + (2.5 * 128.0 + 5.5 * 64.0);
        let simulated = simulate(&by_hand(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(
            simulated.runs,
            [Replication {
                requests: 5,
                window: 8.0,
                response_mean: (1.0 + 2.0 + 1.25 + 0.5 + 3.0) / 5.0,
                wait_mean: (0.25 + 0.25) / 5.0,
                response_percentiles: [None; 5],
                response_max: 3.0,
                power_mean: joules / 8.0 / 2.0,
                energy_per_request: joules / 5.0,
                shares: shares([3.625, 3.25, 0.375, 0.75]),
                naps: 1,
                waited: 2,
                found_asleep: 1,
                by_server: vec![shares([4.75, 1.0, 0.75, 1.5]), shares([2.5, 5.5, 0.0, 0.0])],
            }]
        );
        assert_eq!(simulated.runs[0].naps_per_s(), 1.0 / 8.0 / 2.0);
        // 4 gaps in 5 s, for two servers; 7.25 s of work in 5 requests.
        assert!((simulated.load - 0.4 * 1.45).abs() < 1e-12);
    }

    /// A replication whose figures are all different.
    fn replication(requests: u64, scale: f64) -> Replication {
        let shares = |first: f64| Shares {
            active: scale * first,
            idle: scale * 2.0 * first,
            transition: scale * 3.0 * first,
            nap: scale * 5.0 * first,
        };
        Replication {
            requests,
            window: scale * 7.0,
            response_mean: scale * 11.0,
            wait_mean: scale * 13.0,
            response_percentiles: [0.5, 0.9, 0.95, 0.99, 0.999].map(|share| Some(scale * share)),
            response_max: scale * 17.0,
            power_mean: scale * 19.0,
            energy_per_request: scale * 23.0,
            shares: shares(0.25),
            naps: 3 * requests,
            waited: requests / 2,
            found_asleep: requests / 4,
            by_server: vec![shares(0.125), shares(0.375)],
        }
    }

    #[track_caller]
    fn close(value: f64, by_hand: f64) {
        assert!((value - by_hand).abs() < 1e-9, "{value}, {by_hand}");
    }

    /// Two values, and an interval around half: ±1 · |a − b|/√2 /√2, since t(0.75, 1) is 1.
    #[track_caller]
    fn of_two(estimate: Estimate, a: f64, b: f64) {
        close(estimate.value, (a + b) / 2.0);
        close(estimate.half_width.unwrap(), (a - b).abs() / 2.0);
    }

    fn simulated(runs: Vec<Replication>) -> Option<Simulated> {
        let mut setup = by_hand();
        (setup.confidence, setup.seed) = (0.5, 77);
        Simulated::of(Plan::of(&setup).unwrap(), runs)
    }

    #[test]
    fn replications_give_a_mean_and_an_interval() {
        let (mut few, many) = (replication(8, 1.0), replication(200, 3.0));
        few.response_percentiles[4] = None;
        // The parts of the requests, which differ.
        few.waited = 2;
        few.found_asleep = 8;
        let both = simulated(vec![few, many]).unwrap();
        let counts = (both.servers, both.seed, both.replications, both.requests);
        assert_eq!(counts, (2, 77, 2, 208));
        assert_eq!(both.replications_asked, 1);
        // An arrival, a departure, and the ends of three naps for each.
        assert_eq!(both.events, 2 * 208 + 6 * 208);
        assert_eq!((both.confidence, both.frequency), (0.5, Some(1.0)));
        assert_eq!((both.warm_up, both.window), (0.0, 14.0));
        assert_eq!(both.response_max, 51.0);
        for (estimate, of_1) in [
            (both.response_mean, 11.0),
            (both.wait_mean, 13.0),
            (both.power_mean, 19.0),
            (both.energy_per_request, 23.0),
            (both.shares.active, 0.25),
            (both.shares.idle, 0.5),
            (both.shares.transition, 0.75),
            (both.shares.nap, 1.25),
        ] {
            of_two(estimate, of_1, 3.0 * of_1);
        }
        of_two(both.naps_per_s, 24.0 / 7.0 / 2.0, 600.0 / 21.0 / 2.0);
        of_two(both.waited, 0.25, 0.5);
        of_two(both.found_asleep, 1.0, 0.25);
        for (percentile, share) in both.response_percentiles.iter().zip(PERCENTILES) {
            assert_eq!(percentile.share, share);
            match share == 0.999 {
                true => assert_eq!(percentile.response, None),
                false => of_two(percentile.response.unwrap(), share, 3.0 * share),
            }
        }
        assert_eq!(both.response_percentiles.len(), 5);
        let means = both
            .by_server
            .iter()
            .map(|of| [of.active, of.idle, of.transition, of.nap]);
        let means: Vec<[f64; 4]> = means.collect();
        assert_eq!(means, [[0.25, 0.5, 0.75, 1.25], [0.75, 1.5, 2.25, 3.75]]);
        of_two(both.estimate(0.5, |run| run.window).unwrap(), 7.0, 21.0);
        assert!(simulated(vec![replication(8, 1.0), replication(0, 1.0)]).is_none());
        assert!(simulated(Vec::new()).is_none());
    }

    #[test]
    fn differences_are_compared_in_pairs() {
        let of = |scales: &[f64]| {
            let runs = scales.iter().map(|scale| replication(8, *scale));
            simulated(runs.collect()).unwrap()
        };
        let (more, less) = (of(&[5.0, 6.0]), of(&[4.0, 3.0]));
        let window = |run: &Replication| run.window;
        of_two(more.above(&less, 0.5, window).unwrap(), 7.0, 21.0);
        of_two(less.above(&more, 0.5, window).unwrap(), -7.0, -21.0);
        assert_eq!(more.above(&of(&[4.0]), 0.5, window), None);
        assert_eq!(more.above(&of(&[4.0, 3.0, 2.0]), 0.5, window), None);
    }

    #[test]
    fn an_interval_includes_its_ends() {
        let estimate = |half_width| Estimate {
            value: 4.0,
            half_width,
        };
        for (value, is_covered) in [
            (2.75, false),
            (3.0, true),
            (4.0, true),
            (5.0, true),
            (5.25, false),
            (-4.0, false),
        ] {
            assert_eq!(estimate(Some(1.0)).covers(value), is_covered, "{value}");
            assert!(!estimate(None).covers(value));
        }
    }
}

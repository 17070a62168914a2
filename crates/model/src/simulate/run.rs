//! One replication, request by request.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::dispatch::{Choose, Dispatcher, Queues, Random, RoundRobin};
use super::draw::{Purpose, Stream, Times, stream};
use super::plan::Plan;
use super::server::{Account, Server};
use crate::Result;

/// A request and what became of it. Times are in seconds from the run's beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Where it was sent, from 0.
    pub server: usize,
    /// When it came.
    pub arrival: f64,
    /// Seconds of work at full frequency.
    pub work: f64,
    /// When its service began.
    pub start: f64,
    /// When it was served.
    pub departure: f64,
    /// The server was not asleep, nor on the way there or back.
    pub found_ready: bool,
}

/// What is shared by all that run: whether to stop, and how far they are.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) stop: AtomicBool,
    /// Requests.
    pub(super) simulated: AtomicU64,
}

impl Watch {
    /// Requests between two looks at `stop`.
    const EVERY: u64 = 1 << 16;

    /// Called for the `n`th request: whether to go on.
    #[inline(always)]
    fn goes_on(&self, n: u64) -> bool {
        !n.is_multiple_of(Self::EVERY) || self.looks(Self::EVERY)
    }

    /// Called where a run begins, which may be shorter than those.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    #[cold]
    fn looks(&self, more: u64) -> bool {
        self.simulated.fetch_add(more, Ordering::Relaxed);
        !self.is_stopped()
    }

    /// Adds the requests since the last full step, at the end.
    fn rest(&self, n: u64) {
        self.simulated.fetch_add(n % Self::EVERY, Ordering::Relaxed);
    }
}

/// What became of servers.
#[derive(Debug, Clone)]
pub(super) struct Accounts {
    pub(super) of: Vec<Account>,
    /// Seconds that each is about.
    pub(super) window: f64,
}

/// The work that requests bring.
enum Working<'a> {
    Drawn(&'a Times, Stream),
    Recorded(std::slice::Iter<'a, f64>),
}

impl<'a> Working<'a> {
    fn of(plan: &'a Plan, replication: u32, server: usize) -> Self {
        match plan.recorded() {
            Some(services) => Self::Recorded(services.iter()),
            None => {
                let stream = stream(plan.setup.seed, replication, server, Purpose::Services);
                Self::Drawn(&plan.times, stream)
            }
        }
    }

    #[inline(always)]
    fn next(&mut self) -> f64 {
        match self {
            Self::Drawn(times, stream) => times.draw(stream),
            Self::Recorded(services) => services.next().copied().unwrap_or(0.0),
        }
    }
}

/// Runs these servers: each alone, where a Poisson process is spread over them at random (what comes to one
/// is a Poisson process of its own, and nothing else of the others concerns it); else all behind the
/// dispatcher. `follow` gets each request, and whether it comes in the window. `None`: stopped.
pub(super) fn servers(
    plan: &Plan,
    replication: u32,
    servers: Range<usize>,
    follow: &mut impl FnMut(&Request, bool),
    watch: &Watch,
) -> Result<Option<Accounts>> {
    if !plan.is_alone {
        return together(plan, replication, follow, watch);
    }
    let mut all = Accounts {
        of: Vec::with_capacity(servers.len()),
        window: plan.until - plan.from,
    };
    for server in servers {
        let one = server..server + 1;
        match run(plan, replication, one, RoundRobin::over(1), follow, watch)? {
            Some(accounts) => all.of.extend(accounts.of),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

fn together(
    plan: &Plan,
    replication: u32,
    follow: &mut impl FnMut(&Request, bool),
    watch: &Watch,
) -> Result<Option<Accounts>> {
    let servers = plan.setup.servers;
    let queues = |bound| {
        let sleeps_after = (0..servers).map(|server| {
            let after = plan.behaviour(server).sleeps_after();
            after.unwrap_or(f64::INFINITY)
        });
        Queues::new(sleeps_after.collect(), plan.setup.arrivals.rate(), bound)
    };
    let all = 0..servers;
    match plan.setup.dispatcher {
        // With one server there is nothing to choose.
        _ if servers == 1 => run(plan, replication, all, RoundRobin::over(1), follow, watch),
        Dispatcher::Random => {
            let stream = stream(plan.setup.seed, replication, 0, Purpose::Dispatch);
            let random = Random { servers, stream };
            run(plan, replication, all, random, follow, watch)
        }
        Dispatcher::RoundRobin => {
            let in_turn = RoundRobin::over(servers);
            run(plan, replication, all, in_turn, follow, watch)
        }
        Dispatcher::LeastLoaded => run(plan, replication, all, queues(None), follow, watch),
        Dispatcher::Packing { bound } => {
            let queues = queues(Some(bound));
            run(plan, replication, all, queues, follow, watch)
        }
    }
}

/// These servers behind `choose`, which counts them from 0.
fn run(
    plan: &Plan,
    replication: u32,
    servers: Range<usize>,
    mut choose: impl Choose,
    follow: &mut impl FnMut(&Request, bool),
    watch: &Watch,
) -> Result<Option<Accounts>> {
    if watch.is_stopped() {
        return Ok(None);
    }
    let (setup, first) = (plan.setup, servers.start);
    let share = servers.len() as f64 / setup.servers as f64;
    let arrivals = stream(setup.seed, replication, first, Purpose::Arrivals);
    let mut arriving = setup.arrivals.stream(share, arrivals)?;
    let mut working = Working::of(plan, replication, first);
    let mut states = vec![Server::default(); servers.len()];
    let (mut at, mut n) = (arriving.next(), 0);
    for (from, until, is_measured) in [(0.0, plan.from, false), (plan.from, plan.until, true)] {
        if is_measured {
            states.iter_mut().for_each(|state| state.open(from));
        }
        while at < until {
            let place = choose.choose(at);
            let (server, work) = (first + place, working.next());
            let served = states[place].take(plan.behaviour(server), from, at, work);
            choose.sent(place, served.departure);
            let request = Request {
                server,
                arrival: at,
                work,
                start: served.start,
                departure: served.departure,
                found_ready: served.found_ready,
            };
            follow(&request, is_measured);
            at = arriving.next();
            n += 1;
            if !watch.goes_on(n) {
                return Ok(None);
            }
        }
    }
    watch.rest(n);
    // A whole trace ends when its last request is served.
    let until = match plan.until.is_finite() {
        true => plan.until,
        false => states.iter().map(|server| server.free).fold(0.0, f64::max),
    };
    let next = (servers.len() == 1 && at.is_finite()).then_some(at);
    let states = servers.zip(&states);
    let of =
        states.map(|(server, state)| state.close(plan.behaviour(server), plan.from, until, next));
    Ok(Some(Accounts {
        of: of.collect(),
        window: until - plan.from,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{CState, CStates, Choice, Policy, Shares};
    use crate::power::Power;
    use crate::service::Service;
    use crate::simulate::Arrivals;
    use crate::simulate::{Horizon, Setup, Trace, WarmUp, follow, simulate};
    use std::ops::ControlFlow;

    fn setup(arrivals: Arrivals, servers: usize, dispatcher: Dispatcher) -> Setup {
        let power = Power {
            active: 100.0,
            idle: 60.0,
            nap: 5.0,
            transition: 80.0,
        };
        let service = Service::Deterministic { mean: 0.5 };
        let mut setup = Setup::new(Policy::AlwaysOn, arrivals, service, power);
        (setup.servers, setup.dispatcher) = (servers, dispatcher);
        setup.warm_up = WarmUp::Seconds(2.0);
        setup.horizon = Horizon::Seconds(3.0);
        setup
    }

    #[test]
    fn the_window_includes_its_start_and_excludes_its_end() {
        // Requests arrive at 1, 2, 3, 4, 5 s; the window is from 2 to 5.
        let even = Arrivals::Deterministic { rate: 1.0 };
        for dispatcher in [
            Dispatcher::Random,
            Dispatcher::RoundRobin,
            Dispatcher::LeastLoaded,
            Dispatcher::Packing { bound: 1 },
        ] {
            let setup = setup(even.clone(), 1, dispatcher);
            let simulated = simulate(&setup, &mut |_| ControlFlow::Continue(())).unwrap();
            let run = &simulated.runs[0];
            assert_eq!((run.requests, run.window), (3, 3.0));
            assert_eq!((run.shares.active, run.shares.idle), (0.5, 0.5));
            assert_eq!(
                (run.response_mean, run.wait_mean, run.waited),
                (0.5, 0.0, 0)
            );
            let mut seen = Vec::new();
            follow(&setup, 0, &mut |request| seen.push(*request)).unwrap();
            let request = |arrival| Request {
                server: 0,
                arrival,
                work: 0.5,
                start: arrival,
                departure: arrival + 0.5,
                found_ready: true,
            };
            assert_eq!(seen, [1.0, 2.0, 3.0, 4.0].map(request));
        }
    }

    #[test]
    fn a_window_in_a_trace_cuts_periods_at_its_edges() {
        // Served 1 to 4 s, of which 2 are in the window from 2 to 5 s; from 4.5 s on, half a second.
        let trace = Trace::read(b"0,0\n1,3\n4.5,1\n5,1\n").unwrap();
        let setup = setup(Arrivals::Trace(trace), 1, Dispatcher::RoundRobin);
        let simulated = simulate(&setup, &mut |_| ControlFlow::Continue(())).unwrap();
        let run = &simulated.runs[0];
        assert_eq!((run.requests, run.window, run.response_mean), (1, 3.0, 1.0));
        assert_eq!((run.shares.active, run.shares.idle), (2.5 / 3.0, 0.5 / 3.0));
    }

    #[test]
    fn the_oracle_uses_the_observed_idle_period_if_its_end_is_unknown() {
        let shares_of = |arrivals, servers, from, until| {
            let mut setup = setup(arrivals, servers, Dispatcher::RoundRobin);
            setup.policies = vec![Policy::CStates(CStates {
                states: vec![CState {
                    name: "C6".into(),
                    exit_latency: 0.0,
                    power: 20.0,
                    target_residency: 3.0,
                }],
                choice: Choice::Oracle,
            })];
            setup.warm_up = WarmUp::Seconds(from);
            setup.horizon = Horizon::Seconds(until - from);
            let simulated = simulate(&setup, &mut |_| ControlFlow::Continue(())).unwrap();
            let of = |shares: &Shares| [shares.active, shares.idle, shares.transition, shares.nap];
            let of: Vec<[f64; 4]> = simulated.runs[0].by_server.iter().map(of).collect();
            of
        };
        let even = |rate| Arrivals::Deterministic { rate };
        // Requests arrive at 4 and 8 s and take 0.5 s: all idle periods last at least 3 s.
        assert_eq!(
            shares_of(even(0.25), 1, 1.0, 5.0),
            [[0.5 / 4.0, 0.0, 0.0, 3.5 / 4.0]]
        );
        // At 2 and 6 s for one, at 4 and 8 s for the other. At 5 s it is unknown that the first,
        // idle since 2.5 s, will be idle for longer than 3 s.
        assert_eq!(
            shares_of(even(0.5), 2, 3.0, 5.0),
            [[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.0, 0.5]]
        );
        // At 1 s the second is idle since 0 s, which at 4 s is known to be long enough.
        assert_eq!(
            shares_of(even(0.5), 2, 1.0, 5.0),
            [[0.125, 0.875, 0.0, 0.0], [0.125, 0.125, 0.0, 0.75]]
        );
        // It is so at 3.5 s, before any request arrives at it, and not at 2.5 s.
        assert_eq!(
            shares_of(even(0.5), 2, 1.5, 3.5),
            [[0.25, 0.75, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
        );
        assert_eq!(
            shares_of(even(0.5), 2, 0.5, 2.5),
            [[0.25, 0.75, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
        );
        // A single server that is idle since 2.5 s; the trace has no further request.
        let trace = || Arrivals::Trace(Trace::read(b"0,0.5\n2,0.5\n").unwrap());
        assert_eq!(shares_of(trace(), 1, 1.0, 5.0), [[0.125, 0.875, 0.0, 0.0]]);
        assert_eq!(shares_of(trace(), 1, 1.0, 6.0), [[0.1, 0.2, 0.0, 0.7]]);
    }

    #[test]
    fn every_65_536th_request_reports_progress_and_checks_for_a_stop() {
        let watch = Watch::default();
        let reported = || watch.simulated.load(Ordering::Relaxed);
        assert!(watch.goes_on(1) && watch.goes_on(65_535) && reported() == 0);
        assert!(watch.goes_on(65_536) && reported() == 65_536);
        assert!(!watch.is_stopped());
        watch.stop.store(true, Ordering::Relaxed);
        assert!(watch.is_stopped());
        assert!(watch.goes_on(65_537) && reported() == 65_536);
        assert!(!watch.goes_on(131_072) && reported() == 131_072);
        watch.rest(131_072 + 5);
        assert_eq!(reported(), 131_077);
    }

    #[test]
    fn the_final_progress_includes_the_warm_up() {
        for (servers, dispatcher) in [(20, Dispatcher::Random), (2, Dispatcher::RoundRobin)] {
            let mut setup = setup(Arrivals::Poisson { rate: 1e3 }, servers, dispatcher);
            setup.service = Service::Deterministic { mean: 0.0005 };
            setup.warm_up = WarmUp::Seconds(20.0);
            setup.horizon = Horizon::Seconds(80.0);
            setup.replications = 2;
            let mut requests = 0;
            for replication in 0..2 {
                follow(&setup, replication, &mut |_| requests += 1).unwrap();
            }
            let mut reported = Vec::new();
            let simulated = simulate(&setup, &mut |progress| {
                reported.push(*progress);
                ControlFlow::Continue(())
            });
            let simulated = simulated.unwrap();
            assert!(
                reported
                    .is_sorted_by_key(|reported| (reported.replications_done, reported.simulated))
            );
            let last = reported.last().unwrap();
            assert_eq!((last.simulated, last.expected), (requests, 200_000));
            assert_eq!((last.replications_done, last.replications), (2, 2));
            assert!(reported.iter().all(|reported| reported.expected == 200_000));
            let measured = simulated.requests;
            assert!(
                measured.abs_diff(160_000) < 2_000 && measured < requests,
                "{measured}"
            );
        }
    }
}

//! One replication, request by request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::arrivals::{Arrivals, Arriving};
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

/// Who looks on.
pub(super) trait Follow {
    /// A request that comes before the window.
    #[inline(always)]
    fn warming(&mut self, _request: &Request) {}
    /// A request that comes in the window.
    fn measured(&mut self, request: &Request);
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

    /// Requests that were not yet told, at the end.
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

fn arriving<'a>(
    plan: &'a Plan,
    replication: u32,
    server: usize,
    share: f64,
) -> Result<Arriving<'a>> {
    let stream = stream(plan.setup.seed, replication, server, Purpose::Arrivals);
    plan.setup.arrivals.stream(share, stream)
}

/// One of the servers that a Poisson process is spread over at random: what comes to it is a Poisson
/// process of its own, and nothing else of the others concerns it. `None`: stopped.
pub(super) fn alone<F: Follow>(
    plan: &Plan,
    replication: u32,
    server: usize,
    follow: &mut F,
    watch: &Watch,
) -> Result<Option<Account>> {
    if watch.is_stopped() {
        return Ok(None);
    }
    let behaviour = plan.behaviour(server);
    let mut arriving = arriving(plan, replication, server, 1.0 / plan.setup.servers as f64)?;
    let mut working = Working::of(plan, replication, server);
    let mut state = Server::default();
    let mut step = |state: &mut Server, at: f64| {
        let work = working.next();
        let served = state.take(behaviour, at, work);
        request(server, at, work, &served)
    };
    let (mut at, mut n) = (arriving.next(), 0);
    while at < plan.from {
        follow.warming(&step(&mut state, at));
        at = arriving.next();
        n += 1;
        if !watch.goes_on(n) {
            return Ok(None);
        }
    }
    state.open(behaviour, plan.from, Some(at));
    while at < plan.until {
        follow.measured(&step(&mut state, at));
        at = arriving.next();
        n += 1;
        if !watch.goes_on(n) {
            return Ok(None);
        }
    }
    watch.rest(n);
    Ok(Some(state.close(behaviour, plan.until, Some(at))))
}

#[inline(always)]
fn request(server: usize, arrival: f64, work: f64, served: &super::server::Served) -> Request {
    Request {
        server,
        arrival,
        work,
        start: served.start,
        departure: served.departure,
        found_ready: served.found_ready,
    }
}

/// All servers behind the dispatcher. `None`: stopped.
pub(super) fn together<F: Follow>(
    plan: &Plan,
    replication: u32,
    follow: &mut F,
    watch: &Watch,
) -> Result<Option<Accounts>> {
    if watch.is_stopped() {
        return Ok(None);
    }
    let servers = plan.setup.servers;
    let queues = |bound| {
        let sleeps_after = (0..servers).map(|server| {
            let after = plan.behaviour(server).sleeps_after();
            after.unwrap_or(f64::INFINITY)
        });
        Queues::new(sleeps_after.collect(), plan.setup.arrivals.rate(), bound)
    };
    match plan.setup.dispatcher {
        Dispatcher::Random if servers > 1 => {
            let stream = stream(plan.setup.seed, replication, 0, Purpose::Dispatch);
            dispatched(plan, replication, Random { servers, stream }, follow, watch)
        }
        Dispatcher::LeastLoaded if servers > 1 => {
            dispatched(plan, replication, queues(None), follow, watch)
        }
        Dispatcher::Packing { bound } if servers > 1 => {
            dispatched(plan, replication, queues(Some(bound)), follow, watch)
        }
        _ => dispatched(
            plan,
            replication,
            RoundRobin { servers, next: 0 },
            follow,
            watch,
        ),
    }
}

fn dispatched<C: Choose, F: Follow>(
    plan: &Plan,
    replication: u32,
    mut choose: C,
    follow: &mut F,
    watch: &Watch,
) -> Result<Option<Accounts>> {
    let mut arriving = arriving(plan, replication, 0, 1.0)?;
    let mut working = Working::of(plan, replication, 0);
    let mut servers = vec![Server::default(); plan.setup.servers];
    let mut step = |servers: &mut [Server], at: f64| {
        let server = choose.choose(at);
        let work = working.next();
        let served = servers[server].take(plan.behaviour(server), at, work);
        choose.sent(server, served.departure);
        request(server, at, work, &served)
    };
    let (mut at, mut n) = (arriving.next(), 0);
    while at < plan.from {
        follow.warming(&step(&mut servers, at));
        at = arriving.next();
        n += 1;
        if !watch.goes_on(n) {
            return Ok(None);
        }
    }
    let next = |at: f64| (plan.setup.servers == 1).then_some(at);
    for (server, state) in servers.iter_mut().enumerate() {
        state.open(plan.behaviour(server), plan.from, next(at));
    }
    while at < plan.until {
        follow.measured(&step(&mut servers, at));
        at = arriving.next();
        n += 1;
        if !watch.goes_on(n) {
            return Ok(None);
        }
    }
    watch.rest(n);
    // A whole trace ends when its last request is served.
    let until = match plan.until.is_finite() {
        true => plan.until,
        false => servers.iter().map(|server| server.free).fold(0.0, f64::max),
    };
    let next = next(at).filter(|at| at.is_finite());
    let states = servers.iter().enumerate();
    let of = states.map(|(server, state)| state.close(plan.behaviour(server), until, next));
    Ok(Some(Accounts {
        of: of.collect(),
        window: until - plan.from,
    }))
}

/// Whether each server can be simulated alone.
pub(super) fn is_alone(arrivals: &Arrivals, dispatcher: Dispatcher, servers: usize) -> bool {
    matches!(arrivals, Arrivals::Poisson { .. })
        && (dispatcher == Dispatcher::Random || servers == 1)
}

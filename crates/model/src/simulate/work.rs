//! Replications, spread over threads. What comes out does not depend on how many there are.

use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::outcome::Replication;
use super::plan::Plan;
use super::run::{self, Accounts, Request, Watch};
use super::tally::{Histogram, Sums, Tally};
use crate::Result;

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

/// Receives the progress and decides whether to go on.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// A part of a replication: some of its servers, or all.
#[derive(Debug, Clone)]
struct Part {
    replication: u32,
    servers: Range<usize>,
}

struct Done {
    part: usize,
    accounts: Accounts,
    tally: Tally,
}

/// The replications that were completed, in order.
pub(super) fn replications(plan: &Plan, tell: Tell) -> Result<Vec<Replication>> {
    let parts = parts(plan);
    let watch = Watch::default();
    let next = AtomicUsize::new(0);
    let threads = threads(plan).min(parts.len());
    std::thread::scope(|scope| {
        // Few wait to be gathered: each has a histogram.
        let (sender, receiver) = sync_channel(threads);
        for _ in 0..threads {
            let (sender, parts, watch, next) = (sender.clone(), &parts, &watch, &next);
            scope.spawn(move || work(plan, parts, next, watch, &sender));
        }
        drop(sender);
        gather(plan, &parts, &receiver, &watch, tell)
    })
}

fn threads(plan: &Plan) -> usize {
    match plan.setup.threads {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

fn parts(plan: &Plan) -> Vec<Part> {
    const FEWEST_SERVERS: usize = 8;
    const MOST_PARTS: usize = 1 << 10;
    let servers = plan.setup.servers;
    let size = match plan.is_alone {
        true => FEWEST_SERVERS.max(servers.div_ceil(MOST_PARTS)),
        false => servers,
    };
    let of = |replication| {
        let starts = (0..servers).step_by(size);
        starts.map(move |start| Part {
            replication,
            servers: start..servers.min(start + size),
        })
    };
    (0..plan.replications).flat_map(of).collect()
}

fn work(
    plan: &Plan,
    parts: &[Part],
    next: &AtomicUsize,
    watch: &Watch,
    sender: &SyncSender<Result<Done>>,
) {
    loop {
        let part = next.fetch_add(1, Ordering::Relaxed);
        let Some(what) = parts.get(part) else { return };
        let mut tally = Tally::default();
        let mut count = |request: &Request, is_measured| {
            if is_measured {
                tally.add(request);
            }
        };
        let servers = what.servers.clone();
        let done = match run::servers(plan, what.replication, servers, &mut count, watch) {
            Ok(None) => return,
            Ok(Some(accounts)) => Ok(Done {
                part,
                accounts,
                tally,
            }),
            Err(error) => Err(error),
        };
        // Nobody gathers any more after an error.
        if sender.send(done).is_err() {
            return;
        }
    }
}

/// A replication of which some parts are there.
struct Open {
    parts: Vec<Option<(Accounts, Sums)>>,
    missing: usize,
    responses: Histogram,
}

impl Open {
    fn of(parts: usize) -> Self {
        Self {
            parts: vec![None; parts],
            missing: parts,
            responses: Histogram::default(),
        }
    }

    fn add(&mut self, place: usize, done: Done) {
        self.responses.merge(&done.tally.responses);
        self.parts[place] = Some((done.accounts, done.tally.sums));
        self.missing -= 1;
    }

    fn closed(self, plan: &Plan) -> Replication {
        let mut sums = Sums::default();
        let mut accounts = Accounts {
            of: Vec::new(),
            window: 0.0,
        };
        for (part, its) in self.parts.into_iter().flatten() {
            sums.merge(&its);
            accounts.of.extend(part.of);
            accounts.window = part.window;
        }
        Replication::of(plan, &sums, &self.responses, &accounts)
    }
}

fn gather(
    plan: &Plan,
    parts: &[Part],
    receiver: &Receiver<Result<Done>>,
    watch: &Watch,
    tell: Tell,
) -> Result<Vec<Replication>> {
    const LOOK: Duration = Duration::from_millis(50);
    let each = parts.len() / plan.replications as usize;
    let mut open: Vec<Option<Open>> = (0..plan.replications).map(|_| None).collect();
    let mut closed: Vec<Option<Replication>> = vec![None; open.len()];
    let mut progress = Progress {
        simulated: 0,
        expected: plan.expected(),
        replications_done: 0,
        replications: plan.replications,
    };
    loop {
        let received = receiver.recv_timeout(LOOK);
        match received {
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Err(error)) => {
                watch.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            Ok(Ok(done)) => {
                let replication = parts[done.part].replication as usize;
                let place = done.part % each;
                let filled = open[replication].get_or_insert_with(|| Open::of(each));
                filled.add(place, done);
                if filled.missing == 0
                    && let Some(filled) = open[replication].take()
                {
                    closed[replication] = Some(filled.closed(plan));
                    progress.replications_done += 1;
                }
            }
        }
        progress.simulated = watch.simulated.load(Ordering::Relaxed);
        if tell(&progress).is_break() {
            watch.stop.store(true, Ordering::Relaxed);
        }
    }
    Ok(closed.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::power::Power;
    use crate::service::Service;
    use crate::simulate::{Arrivals, Dispatcher, Horizon, Setup};

    fn setup(servers: usize, dispatcher: Dispatcher) -> Setup {
        let power = Power {
            active: 100.0,
            idle: 60.0,
            nap: 5.0,
            transition: 80.0,
        };
        let service = Service::Deterministic { mean: 0.001 };
        let arrivals = Arrivals::Poisson { rate: 1.0 };
        let mut setup = Setup::new(Policy::AlwaysOn, arrivals, service, power);
        (setup.servers, setup.dispatcher) = (servers, dispatcher);
        setup.horizon = Horizon::Seconds(10.0);
        setup.replications = 2;
        setup
    }

    #[test]
    fn a_replication_of_independent_servers_is_cut_into_parts() {
        let of = |servers, dispatcher| {
            let setup = setup(servers, dispatcher);
            let parts = parts(&Plan::of(&setup).unwrap());
            let parts = parts
                .into_iter()
                .map(|part| (part.replication, part.servers));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(
            of(20, Dispatcher::Random),
            [
                (0, 0..8),
                (0, 8..16),
                (0, 16..20),
                (1, 0..8),
                (1, 8..16),
                (1, 16..20)
            ]
        );
        assert_eq!(of(8, Dispatcher::Random), [(0, 0..8), (1, 0..8)]);
        assert_eq!(of(20, Dispatcher::LeastLoaded), [(0, 0..20), (1, 0..20)]);
        // At most 1024: of 98 servers each, and the remainder.
        let many = of(100_000, Dispatcher::Random);
        assert_eq!(many.len(), 2 * 1021);
        assert_eq!(many[1020], (0, 99_960..100_000));
        assert_eq!(many[1021..1023], [(1, 0..98), (1, 98..196)]);
    }

    #[test]
    fn threads_are_as_many_as_requested_or_as_cpus() {
        let of = |asked| {
            let mut setup = setup(1, Dispatcher::Random);
            setup.threads = asked;
            threads(&Plan::of(&setup).unwrap())
        };
        assert_eq!((of(1), of(3)), (1, 3));
        assert_eq!(of(0), std::thread::available_parallelism().unwrap().get());
    }
}

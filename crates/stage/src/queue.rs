//! Which requests are held, and when they are released: pure, with the time given.
//!
//! A [`Machine`] is a computer that answers requests of one or several services. Its requests are released together, when
//! the first of them must go to keep its deadline: at the earliest of deadline − time of the burst, by each service's
//! [`Guard`]. While it has requests to answer it is awake, so others go at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::guard::Guard;

/// Requests that are held at most, on a machine; one more releases all.
const HELD_MAX: usize = 4096;
/// By how much the proxy itself may be late: its timer, and its turn on a CPU.
const LAG: Duration = Duration::from_millis(1);
/// The share of its time that a machine answers from which on nothing is held.
const BUSY: f64 = 0.8;
/// The time over which that share is taken: about as long as any hold.
const BUSY_OVER: Duration = Duration::from_secs(1);

/// How requests are released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// At once.
    Direct,
    /// At the multiples of this time, whatever the deadlines.
    Grid(Duration),
    /// When the first one must go.
    Staged,
}

/// Why a request was not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// The mode, or the user.
    Exempt,
    /// Too little is known of the server.
    Learning,
    /// The machine answers another request, which has time left, so it is awake.
    Awake,
    /// Holding it would break its deadline.
    Deadline,
    /// The machine is busy for most of its time.
    Busy,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes at once, as a burst of that number.
    Pass(Passed, u64),
    /// It is held, under this number.
    Hold(u64),
}

/// A request that is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// Its number.
    pub request: u64,
    /// That of its burst, for [`Machine::answered`].
    pub burst: u64,
}

/// A burst that is being answered.
#[derive(Debug)]
struct Burst {
    number: u64,
    service: usize,
    /// With what the machine had to answer already.
    size: usize,
    open: usize,
    /// When it had to go; it may have gone later.
    due: Instant,
    /// The last deadline of its requests: one that takes longer waits for something, and its server may sleep.
    until: Instant,
    times: Vec<Duration>,
}

#[derive(Debug)]
struct Service {
    guard: Guard,
    /// By deadline: the first one on top.
    held: BinaryHeap<Reverse<(Instant, u64)>>,
}

/// A machine, its services, and the requests that are held for it.
#[derive(Debug)]
pub struct Machine {
    mode: Mode,
    /// Of the grid.
    began: Instant,
    /// When the first of the held ones came.
    first: Instant,
    services: Vec<Service>,
    bursts: Vec<Burst>,
    /// Requests that it has to answer.
    open: usize,
    /// Of the next request, and of the next burst.
    number: u64,
    busy: Busy,
    /// It is awake for requests of others.
    runs_for_others: bool,
}

/// The share of time in which a machine answers, faded.
#[derive(Debug)]
struct Busy {
    share: f64,
    since: Instant,
}

impl Busy {
    /// Goes on to `now`; up to then it was busy or not.
    fn goes_on(&mut self, now: Instant, was_busy: bool) {
        let time = now.saturating_duration_since(self.since).as_secs_f64();
        let left = (-time / BUSY_OVER.as_secs_f64()).exp();
        self.share = self.share * left + f64::from(u8::from(was_busy)) * (1.0 - left);
        self.since = now;
    }
}

impl Machine {
    /// One without requests; `shares` are those of the services' requests that must keep to their deadlines.
    pub fn new(mode: Mode, shares: &[f64], now: Instant) -> Self {
        let service = |share: &f64| Service {
            guard: Guard::new(*share),
            held: BinaryHeap::new(),
        };
        Self {
            mode,
            began: now,
            first: now,
            services: shares.iter().map(service).collect(),
            bursts: Vec::new(),
            open: 0,
            number: 0,
            busy: Busy {
                share: 0.0,
                since: now,
            },
            runs_for_others: false,
        }
    }

    /// Whether its servers are awake for requests that did not come this way.
    pub fn runs_for_others(&mut self, runs: bool) {
        self.runs_for_others = runs;
    }

    /// A request of that service comes, which must be answered by `deadline`. If it is held, [`Machine::due`] may have
    /// changed.
    pub fn comes(&mut self, service: usize, deadline: Instant, now: Instant) -> Verdict {
        match self.passes(service, deadline, now) {
            Some(why) => Verdict::Pass(why, self.sent(service, 1, now, deadline, now)),
            None => {
                self.number += 1;
                if self.held() == 0 {
                    self.first = now;
                }
                let held = &mut self.services[service].held;
                held.push(Reverse((deadline, self.number)));
                Verdict::Hold(self.number)
            }
        }
    }

    fn passes(&mut self, service: usize, deadline: Instant, now: Instant) -> Option<Passed> {
        match self.mode {
            Mode::Direct => return Some(Passed::Exempt),
            Mode::Grid(_) => return None,
            Mode::Staged => {}
        }
        let is_awake = self.is_awake(now);
        self.busy.goes_on(now, is_awake);
        if self.busy.share > BUSY {
            return Some(Passed::Busy);
        }
        if is_awake || self.runs_for_others {
            return Some(Passed::Awake);
        }
        let size = self.held() + 1;
        let guard = &self.services[service].guard;
        match guard.time_of(size) {
            None => Some(Passed::Learning),
            Some(time) => (now + time + LAG >= deadline).then_some(Passed::Deadline),
        }
    }

    /// Does it answer a request, as far as its responses tell?
    fn is_awake(&self, now: Instant) -> bool {
        self.bursts.iter().any(|burst| burst.until > now)
    }

    /// Requests that are held.
    pub fn held(&self) -> usize {
        self.services.iter().map(|service| service.held.len()).sum()
    }

    /// Requests that it has to answer.
    pub fn open(&self) -> usize {
        self.open
    }

    /// When all held ones must be released; `None`: none is held.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let size = self.held();
        if size == 0 {
            return None;
        }
        if size >= HELD_MAX {
            return Some(now);
        }
        if let Mode::Grid(step) = self.mode {
            let step = step.as_nanos().max(1);
            let steps = self.first.saturating_duration_since(self.began).as_nanos() / step + 1;
            let next = u64::try_from(steps.saturating_mul(step)).unwrap_or(u64::MAX);
            return Some(self.began + Duration::from_nanos(next));
        }
        let first = self.services.iter().filter_map(|service| {
            let Reverse((deadline, _)) = service.held.peek()?;
            let is_large = size >= service.guard.largest();
            let time = service.guard.time_of(size).filter(|_| !is_large);
            Some(
                time.and_then(|time| deadline.checked_sub(time + LAG))
                    .unwrap_or(now),
            )
        });
        first.min()
    }

    /// How long a burst of the held ones takes, as far as that is known.
    pub fn takes(&self) -> Duration {
        let size = self.held();
        let times = self
            .services
            .iter()
            .filter_map(|one| one.guard.time_of(size));
        times.max().unwrap_or_default()
    }

    /// Releases all held ones, those with the first deadlines first. `due` is when they had to go.
    pub fn release(&mut self, due: Instant, now: Instant) -> Vec<Released> {
        let mut all: Vec<(Instant, Released)> = Vec::new();
        for service in 0..self.services.len() {
            let held = std::mem::take(&mut self.services[service].held);
            if held.is_empty() {
                continue;
            }
            let until = held.iter().map(|Reverse((deadline, _))| *deadline).max();
            let until = until.expect("it is not empty");
            let burst = self.sent(service, held.len(), due, until, now);
            let released = |Reverse((deadline, request))| (deadline, Released { request, burst });
            all.extend(held.into_iter().map(released));
        }
        all.sort_unstable_by_key(|(deadline, of)| (*deadline, of.request));
        all.into_iter().map(|(_, released)| released).collect()
    }

    /// The client of a held request is gone.
    pub fn gone(&mut self, service: usize, request: u64) {
        let held = &mut self.services[service].held;
        held.retain(|Reverse((_, held))| *held != request);
    }

    fn sent(
        &mut self,
        service: usize,
        count: usize,
        due: Instant,
        until: Instant,
        now: Instant,
    ) -> u64 {
        self.busy.goes_on(now, self.is_awake(now));
        self.open += count;
        self.number += 1;
        self.bursts.push(Burst {
            number: self.number,
            service,
            size: self.open,
            open: count,
            due,
            until,
            times: Vec::with_capacity(count),
        });
        self.number
    }

    /// A request of that burst is answered, or failed: then nothing is learnt of its time.
    pub fn answered(&mut self, burst: u64, now: Instant, is_answer: bool) {
        self.busy.goes_on(now, self.is_awake(now));
        let of = self.bursts.iter().position(|one| one.number == burst);
        let Some(nth) = of else { return };
        self.open -= 1;
        let of = &mut self.bursts[nth];
        of.open -= 1;
        if is_answer {
            of.times.push(now.saturating_duration_since(of.due));
        }
        if of.open == 0 {
            let of = self.bursts.swap_remove(nth);
            self.services[of.service].guard.learn(of.size, of.times);
        }
    }

    /// A request of that service missed its deadline because it was held.
    pub fn missed(&mut self, service: usize) {
        self.services[service].guard.missed();
    }

    /// The guard of a service.
    pub fn guard(&self, service: usize) -> &Guard {
        &self.services[service].guard
    }
}

#[cfg(test)]
mod tests;

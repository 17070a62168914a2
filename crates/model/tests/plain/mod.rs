//! A second simulator, as simple as possible: a heap of events, processed one after the other,
//! servers that change their state as documented for the policies, and dispatchers that search all
//! servers. It shares no code with the first.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use reveille_model::policy::{CStates, Choice, Policy, PowerNap};
use reveille_model::power::Power;
use reveille_model::simulate::Dispatcher;

/// The simulated system.
pub struct Farm {
    /// One for each server.
    pub policies: Vec<Policy>,
    /// Relative frequencies, for DVFS.
    pub frequencies: Vec<f64>,
    pub dispatcher: Dispatcher,
    pub power: Power,
    /// Mean seconds between requests for one server.
    pub gap: f64,
    /// Times and energy are summed over this window.
    pub window: (f64, f64),
}

/// A request: instant, work, and server, if drawn.
#[derive(Clone, Copy)]
pub struct Asked {
    pub arrival: f64,
    pub work: f64,
    pub server: Option<usize>,
}

#[derive(Clone, Copy, Default)]
pub struct Got {
    pub server: usize,
    pub start: f64,
    pub departure: f64,
    pub found_ready: bool,
}

/// Seconds of all servers in the window, and their energy.
#[derive(Default)]
pub struct Sums {
    pub active: f64,
    pub idle: f64,
    pub transition: f64,
    pub nap: f64,
    pub joules: f64,
    /// The integral of the number of requests, over all time.
    pub requests: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Ready,
    Suspending,
    Napping,
    Resuming,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Arrival(usize),
    Finish(usize),
    /// The timeout of a server ends, if it is still the same idle period.
    Timeout(usize, u64),
    Suspended(usize),
    Resumed(usize),
}

#[derive(PartialEq)]
struct Event {
    at: f64,
    number: usize,
    what: What,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest is the greatest; among equals the first inserted.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, its) = (other.at, self.at);
        mine.total_cmp(&its).then(other.number.cmp(&self.number))
    }
}

struct Server {
    state: State,
    queue: VecDeque<usize>,
    serving: bool,
    /// Counts idle periods.
    period: u64,
    /// The start of its current state.
    since: f64,
    /// The start of its current idle period.
    empty: f64,
}

pub struct Plain<'a> {
    farm: &'a Farm,
    asked: &'a [Asked],
    servers: Vec<Server>,
    events: BinaryHeap<Event>,
    numbers: usize,
    turn: usize,
    robin: usize,
    now: f64,
    pub got: Vec<Got>,
    pub sums: Sums,
}

impl<'a> Plain<'a> {
    pub fn run(farm: &'a Farm, asked: &'a [Asked]) -> Self {
        let server = || Server {
            state: State::Ready,
            queue: VecDeque::new(),
            serving: false,
            period: 0,
            since: 0.0,
            empty: 0.0,
        };
        let mut plain = Self {
            farm,
            asked,
            servers: farm.policies.iter().map(|_| server()).collect(),
            events: BinaryHeap::new(),
            numbers: 0,
            turn: 0,
            robin: 0,
            now: 0.0,
            got: vec![Got::default(); asked.len()],
            sums: Sums::default(),
        };
        (0..plain.servers.len()).for_each(|server| plain.emptied(server));
        for (number, asked) in asked.iter().enumerate() {
            plain.at(asked.arrival, What::Arrival(number));
        }
        while let Some(event) = plain.events.pop() {
            plain.happens(&event);
        }
        // Its state lasts until the window ends; the oracle does not know what follows.
        plain.now = farm.window.1;
        for (server, policy) in farm.policies.iter().enumerate() {
            if let Policy::CStates(states) = policy {
                plain.enters_in_hindsight(server, states);
            }
            plain.account(server);
        }
        plain
    }

    fn at(&mut self, at: f64, what: What) {
        self.numbers += 1;
        self.events.push(Event {
            at,
            number: self.numbers,
            what,
        });
    }

    fn happens(&mut self, event: &Event) {
        let inside: usize = self.servers.iter().map(|server| server.queue.len()).sum();
        self.sums.requests += inside as f64 * (event.at - self.now);
        self.now = event.at;
        match event.what {
            What::Arrival(request) => self.arrives(request),
            What::Finish(server) => self.finishes(server),
            What::Timeout(server, period) => {
                let its = &self.servers[server];
                if its.period == period && its.queue.is_empty() {
                    self.falls_asleep(server);
                }
            }
            What::Suspended(server) => {
                self.becomes(server, State::Napping);
                if !self.servers[server].queue.is_empty() {
                    self.wakes(server);
                }
            }
            What::Resumed(server) => {
                self.becomes(server, State::Ready);
                self.serves(server);
            }
        }
    }

    fn arrives(&mut self, request: usize) {
        let server = self.chosen(request);
        self.got[request].server = server;
        self.got[request].found_ready = self.servers[server].state == State::Ready;
        let was_empty = self.servers[server].queue.is_empty();
        if was_empty && let Policy::CStates(states) = &self.farm.policies[server] {
            self.enters_in_hindsight(server, states);
            self.got[request].found_ready = self.servers[server].state == State::Ready;
        }
        if !self.servers[server].serving {
            // The idle period ends here, if it is one.
            self.account(server);
        }
        self.servers[server].queue.push_back(request);
        match self.servers[server].state {
            State::Ready if was_empty => self.serves(server),
            State::Napping if was_empty => self.wakes(server),
            _ => {}
        }
    }

    /// The oracle now knows the length of the idle period.
    fn enters_in_hindsight(&mut self, server: usize, states: &CStates) {
        if states.choice == Choice::Oracle {
            let idle = self.now - self.servers[server].empty;
            if states.fitting(idle).is_some() {
                self.servers[server].state = State::Napping;
            }
        }
    }

    fn finishes(&mut self, server: usize) {
        self.account(server);
        let its = &mut self.servers[server];
        its.serving = false;
        its.queue.pop_front();
        match its.queue.is_empty() {
            true => self.emptied(server),
            false => self.serves(server),
        }
    }

    fn emptied(&mut self, server: usize) {
        let now = self.now;
        let its = &mut self.servers[server];
        its.period += 1;
        its.empty = now;
        let period = its.period;
        match &self.farm.policies[server] {
            Policy::PowerNap(nap) if nap.timeout == 0.0 => self.falls_asleep(server),
            Policy::PowerNap(nap) if nap.timeout.is_finite() => {
                self.at(now + nap.timeout, What::Timeout(server, period));
            }
            Policy::CStates(states)
                if states.choice != Choice::Oracle
                    && states.state(0.0, self.farm.gap).is_some() =>
            {
                self.becomes(server, State::Napping);
            }
            _ => {}
        }
    }

    fn falls_asleep(&mut self, server: usize) {
        self.becomes(server, State::Suspending);
        let suspend = self.nap(server).map_or(0.0, |nap| nap.suspend);
        self.at(self.now + suspend, What::Suspended(server));
    }

    fn wakes(&mut self, server: usize) {
        let latency = match &self.farm.policies[server] {
            Policy::PowerNap(nap) => nap.resume,
            Policy::CStates(states) => states.states[self.entered(server, states)].exit_latency,
            _ => unreachable!("only sleepers wake"),
        };
        self.becomes(server, State::Resuming);
        self.at(self.now + latency, What::Resumed(server));
    }

    fn entered(&self, server: usize, states: &CStates) -> usize {
        let idle = self.now - self.servers[server].empty;
        states.state(idle, self.farm.gap).expect("it is in a state")
    }

    fn nap(&self, server: usize) -> Option<&PowerNap> {
        match &self.farm.policies[server] {
            Policy::PowerNap(nap) => Some(nap),
            _ => None,
        }
    }

    fn serves(&mut self, server: usize) {
        self.account(server);
        let request = self.servers[server].queue[0];
        self.servers[server].serving = true;
        let end = self.now + self.asked[request].work / self.farm.frequencies[server];
        self.got[request].start = self.now;
        self.got[request].departure = end;
        self.at(end, What::Finish(server));
    }

    fn becomes(&mut self, server: usize, state: State) {
        self.account(server);
        self.servers[server].state = state;
    }

    /// Adds the time since the server entered its state.
    fn account(&mut self, server: usize) {
        let its = &mut self.servers[server];
        let (from, until) = self.farm.window;
        let seconds = (self.now.min(until) - its.since.max(from)).max(0.0);
        its.since = self.now;
        let power = &self.farm.power;
        let frequency = self.farm.frequencies[server];
        let its = &self.servers[server];
        let (sum, watts) = match (&self.farm.policies[server], its.state, its.serving) {
            (Policy::Dvfs(dvfs), _, true) => {
                (&mut self.sums.active, dvfs.active_power(power, frequency))
            }
            (Policy::Dvfs(dvfs), _, false) => {
                (&mut self.sums.idle, dvfs.idle_power(power, frequency))
            }
            (_, _, true) => (&mut self.sums.active, power.active),
            (_, State::Ready, false) => (&mut self.sums.idle, power.idle),
            (Policy::CStates(states), State::Napping, _) => {
                let idle = self.now - its.empty;
                let state = states.state(idle, self.farm.gap).expect("it is in a state");
                (&mut self.sums.nap, states.states[state].power)
            }
            (_, State::Napping, _) => (&mut self.sums.nap, power.nap),
            (_, State::Suspending | State::Resuming, _) => {
                (&mut self.sums.transition, power.transition)
            }
        };
        *sum += seconds;
        self.sums.joules += seconds * watts;
    }

    fn chosen(&mut self, request: usize) -> usize {
        let servers = self.servers.len();
        match self.farm.dispatcher {
            Dispatcher::Random => self.asked[request].server.expect("a drawn server"),
            Dispatcher::RoundRobin => {
                self.robin += 1;
                (self.robin - 1) % servers
            }
            Dispatcher::LeastLoaded => self.least_loaded(),
            Dispatcher::Packing { bound } => {
                let is_open = |server: &usize| {
                    self.is_awake(*server) && self.servers[*server].queue.len() < bound as usize
                };
                let first = (0..servers).find(is_open);
                let asleep = || (0..servers).find(|server| !self.is_awake(*server));
                first.or_else(asleep).unwrap_or_else(|| self.least_loaded())
            }
        }
    }

    fn is_awake(&self, server: usize) -> bool {
        let its = &self.servers[server];
        // It is in transition, or asleep: the dispatcher does not have the oracle's knowledge.
        let may_sleep = match &self.farm.policies[server] {
            Policy::CStates(states) => {
                states.choice == Choice::Oracle || its.state == State::Napping
            }
            _ => its.state != State::Ready,
        };
        !its.queue.is_empty() || !may_sleep
    }

    fn least_loaded(&mut self) -> usize {
        let servers = self.servers.len();
        let around = (0..servers).map(|step| (self.turn + step) % servers);
        let least = around.min_by_key(|server| self.servers[*server].queue.len());
        let least = least.expect("a server");
        self.turn = (least + 1) % servers;
        least
    }
}

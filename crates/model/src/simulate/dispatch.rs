//! Which server a request goes to.

use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::draw::{self, Stream};
use super::places::Places;

/// The rule by which requests are spread over servers. Each is sent on when it comes, and stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Dispatcher {
    /// Any, each as likely as another.
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests (join the shortest queue); among equals the next in turn.
    LeastLoaded,
    /// The first awake server with fewer than `bound` requests; if there is none, the first that
    /// sleeps is woken; if none sleeps, as [`Dispatcher::LeastLoaded`]. A server counts as asleep from
    /// the beginning of its suspend to the next request that it gets.
    Packing {
        /// Requests that a server may have, the one in service among them: 1 or above.
        bound: u32,
    },
}

/// Chooses a server for each request, and learns when it will leave.
pub(super) trait Choose {
    /// The server for a request that comes at `at`, not before the one before it.
    fn choose(&mut self, at: f64) -> usize;
    /// That request will leave the server at `departure`.
    #[inline(always)]
    fn sent(&mut self, _server: usize, _departure: f64) {}
}

pub(super) struct Random {
    pub(super) servers: usize,
    pub(super) stream: Stream,
}

impl Choose for Random {
    #[inline(always)]
    fn choose(&mut self, _at: f64) -> usize {
        draw::below(&mut self.stream, self.servers)
    }
}

pub(super) struct RoundRobin {
    servers: usize,
    next: usize,
}

impl RoundRobin {
    pub(super) fn over(servers: usize) -> Self {
        Self { servers, next: 0 }
    }
}

impl Choose for RoundRobin {
    #[inline(always)]
    fn choose(&mut self, _at: f64) -> usize {
        let server = self.next;
        self.next += 1;
        if self.next == self.servers {
            self.next = 0;
        }
        server
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Departure(u32),
    /// The server has had no work for as long as it waits before it sleeps, if it still has none.
    Sleep(u32),
}

/// How many requests each server has, and who sleeps.
pub(super) struct Queues {
    lengths: Vec<u32>,
    /// When each server's last request leaves.
    free: Vec<f64>,
    /// Seconds without work until each server sleeps; infinite: never.
    sleeps_after: Vec<f64>,
    events: Calendar<Event>,
    due: Vec<(f64, Event)>,
    by_length: ByLength,
    packing: Option<Packing>,
}

/// What [`Dispatcher::Packing`] looks at.
struct Packing {
    bound: u32,
    /// Awake, with fewer than `bound` requests.
    open: Places,
    asleep: Places,
}

impl Queues {
    /// `rate`: requests a second to all. `bound`: that of packing.
    pub(super) fn new(sleeps_after: Vec<f64>, rate: f64, bound: Option<u32>) -> Self {
        const ENTRIES_A_SERVER: usize = 8;
        let servers = sleeps_after.len();
        let mut queues = Self {
            lengths: vec![0; servers],
            free: vec![0.0; servers],
            sleeps_after,
            events: Calendar::new(rate, servers * ENTRIES_A_SERVER),
            due: Vec::new(),
            by_length: ByLength::new(servers),
            packing: bound.map(|bound| Packing {
                bound,
                open: Places::none(servers),
                asleep: Places::none(servers),
            }),
        };
        // At time 0 all are awake, and have just run out of work.
        (0..servers).for_each(|server| queues.emptied(server, 0.0));
        queues
    }

    fn settle(&mut self, now: f64) {
        let mut due = std::mem::take(&mut self.due);
        self.events.take(now, &mut due);
        for (_, event) in due.drain(..) {
            match event {
                Event::Departure(server) => self.left(server as usize, now),
                Event::Sleep(server) => self.may_sleep(server as usize, now),
            }
        }
        self.due = due;
    }

    #[inline]
    fn left(&mut self, server: usize, now: f64) {
        let length = self.lengths[server] - 1;
        self.lengths[server] = length;
        self.by_length.moved(server, length + 1, length);
        if length == 0 {
            self.emptied(server, now);
        } else if let Some(packing) = &mut self.packing
            && length < packing.bound
        {
            packing.open.insert(server);
        }
    }

    fn emptied(&mut self, server: usize, now: f64) {
        let Some(packing) = &mut self.packing else {
            return;
        };
        packing.open.insert(server);
        let sleeps = self.free[server] + self.sleeps_after[server];
        if sleeps <= now {
            self.may_sleep(server, now);
        } else if sleeps.is_finite() {
            self.events.insert(sleeps, Event::Sleep(server as u32));
        }
    }

    /// Unless it has had work since.
    fn may_sleep(&mut self, server: usize, now: f64) {
        let sleeps = self.free[server] + self.sleeps_after[server];
        if let Some(packing) = &mut self.packing
            && self.lengths[server] == 0
            && sleeps <= now
        {
            packing.open.remove(server);
            packing.asleep.insert(server);
        }
    }
}

impl Choose for Queues {
    #[inline]
    fn choose(&mut self, at: f64) -> usize {
        self.settle(at);
        let packing = self.packing.as_ref();
        let packed = packing.and_then(|all| all.open.first().or_else(|| all.asleep.first()));
        packed.unwrap_or_else(|| self.by_length.shortest(&self.lengths))
    }

    #[inline]
    fn sent(&mut self, server: usize, departure: f64) {
        let length = self.lengths[server] + 1;
        self.lengths[server] = length;
        self.free[server] = departure;
        self.by_length.moved(server, length - 1, length);
        self.events
            .insert(departure, Event::Departure(server as u32));
        if let Some(packing) = &mut self.packing {
            packing.asleep.remove(server);
            match length < packing.bound {
                true => packing.open.insert(server),
                false => packing.open.remove(server),
            }
        }
    }
}

/// Servers by the number of their requests.
struct ByLength {
    sets: Vec<Places>,
    /// How many are in each set, for a look into an empty one costs as much as into another.
    sizes: Vec<u32>,
    /// Where the search among equals begins; past the last it begins with the first.
    turn: usize,
}

/// Longer queues than this are in no set: where all are so long, they are looked through.
const LENGTHS: usize = 64;

impl ByLength {
    fn new(servers: usize) -> Self {
        let mut sets = vec![Places::none(servers); LENGTHS];
        let mut sizes = vec![0; LENGTHS];
        (0..servers).for_each(|server| sets[0].insert(server));
        sizes[0] = servers as u32;
        Self {
            sets,
            sizes,
            turn: 0,
        }
    }

    #[inline]
    fn moved(&mut self, server: usize, from: u32, to: u32) {
        let (from, to) = (from as usize, to as usize);
        if from < LENGTHS {
            self.sets[from].remove(server);
            self.sizes[from] -= 1;
        }
        if to < LENGTHS {
            self.sets[to].insert(server);
            self.sizes[to] += 1;
        }
    }

    #[inline]
    fn shortest(&mut self, lengths: &[u32]) -> usize {
        let server = match self.sizes.iter().position(|size| *size > 0) {
            Some(length) => self.sets[length].next(self.turn).expect("it is not empty"),
            None => shortest_of_all(lengths, self.turn),
        };
        self.turn = server + 1;
        server
    }
}

/// The first with the shortest queue from `turn` on, around.
fn shortest_of_all(lengths: &[u32], turn: usize) -> usize {
    let around = (turn..lengths.len()).chain(0..turn);
    around.min_by_key(|server| lengths[*server]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dispatches requests: each arrives, has an expected server, and leaves it.
    #[track_caller]
    fn goes(choose: &mut impl Choose, requests: &[(f64, usize, f64)]) {
        for (at, server, departure) in requests {
            assert_eq!(choose.choose(*at), *server, "at {at}");
            choose.sent(*server, *departure);
        }
    }

    #[test]
    fn random_dispatch_is_uniform() {
        let stream = draw::stream(3, 0, 0, draw::Purpose::Dispatch);
        let mut random = Random { servers: 3, stream };
        let mut counts = [0u32; 3];
        (0..30_000).for_each(|_| counts[random.choose(1.0)] += 1);
        // Each count has a standard deviation of 82.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 350),
            "{counts:?}"
        );
    }

    #[test]
    fn round_robin_dispatch_takes_turns() {
        let mut in_turn = RoundRobin {
            servers: 3,
            next: 0,
        };
        goes(
            &mut in_turn,
            &[0, 1, 2, 0, 1, 2, 0].map(|server| (1.0, server, 9.0)),
        );
    }

    #[test]
    fn the_shortest_queue_counts_requests_that_have_not_left() {
        let mut queues = Queues::new(vec![f64::INFINITY; 3], 0.5, None);
        goes(
            &mut queues,
            &[
                (1.0, 0, 30.0),
                (1.5, 1, 6.0),
                (2.0, 2, 6.5),
                // Among equals the next in turn.
                (2.5, 0, 31.0),
                (3.0, 1, 33.0),
                (3.5, 2, 34.0),
                // A request that leaves at this instant is gone.
                (6.0, 1, 35.0),
                (6.5, 2, 36.0),
                // One has left the first: it has 1, the others 2; then all have 2.
                (30.0, 0, 40.0),
                (30.25, 1, 41.0),
                (30.5, 2, 42.0),
                (30.75, 0, 43.0),
            ],
        );
    }

    #[test]
    fn packing_prefers_awake_servers_then_wakes_one_then_takes_the_shortest() {
        // The first never sleeps, the second after 2 s, the third at once.
        let mut queues = Queues::new(vec![f64::INFINITY, 2.0, 0.0], 1.0, Some(2));
        goes(
            &mut queues,
            &[
                (0.5, 0, 10.0),
                (0.75, 0, 11.0),
                // The first has two: the second is awake until 2.
                (1.0, 1, 1.5),
                // It had work, and is awake until 3.5; likewise below.
                (2.5, 1, 3.0),
                (4.75, 1, 5.0),
                // From 7 on it sleeps. Of two sleeping servers the first is woken,
                (7.0, 1, 20.0),
                (7.125, 1, 21.0),
                // then the other.
                (7.25, 2, 22.0),
                (7.375, 2, 23.0),
                // All have two: the shortest queue, in turn.
                (7.5, 0, 12.0),
                (7.625, 1, 24.0),
                (7.75, 2, 25.0),
                (7.875, 0, 13.0),
                // One of four has left the first: three each.
                (10.0, 1, 26.0),
                // It has two again, which is not fewer than two, but the smallest number.
                (11.0, 0, 14.0),
                // Two more have left.
                (13.0, 0, 27.0),
                // The first has one left; then it is full, and the second has one left.
                (25.0, 0, 40.0),
                (25.5, 1, 41.0),
            ],
        );
    }
}

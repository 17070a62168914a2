//! The server's thread: one poll(2) over all clients, and what they say.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockFlag, accept4};

use super::account::Accounts;
use super::client::{Connection, Heard, Open};
use super::{Counts, Plan, Settings, State, Ticket, lock};
use crate::budget::Rate;
use crate::clock::monotonic_ns;
use crate::limits::{Refusal, Window};
use crate::protocol::{Answer, Farewell, Request, VERSION};

/// Messages that one client is heard in a turn; then the others are.
const IN_A_TURN: usize = 16;
/// Connections taken per second, and at once: who connects again and again costs no more than that.
const ARRIVALS_PER_SECOND: u32 = 1_000;
const ARRIVALS_AT_ONCE: u32 = 100;
/// Where this process has no descriptor left, it is tried again after that, ns.
const NO_DESCRIPTOR_NS: u64 = 1_000_000_000;

pub(super) struct Serving<P: Plan> {
    settings: Settings,
    listener: OwnedFd,
    /// Readable when the server is to stop.
    stopped: UnixStream,
    state: Arc<Mutex<State>>,
    plan: P,
    accounts: Accounts,
    connections: Vec<Connection>,
    arrivals: Rate,
    /// Nobody is let in before then, ns of CLOCK_MONOTONIC.
    listen_again_ns: Option<u64>,
    counts: Counts,
}

/// What poll(2) says.
#[derive(Default)]
struct Ready {
    stop: bool,
    arrival: bool,
    /// By connection, in their order.
    connections: Vec<Call>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Nothing,
    Message,
    Gone,
}

/// What is to become of a connection.
#[derive(PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

impl<P: Plan> Serving<P> {
    pub fn new(
        settings: &Settings,
        listener: OwnedFd,
        stopped: UnixStream,
        state: Arc<Mutex<State>>,
        plan: P,
    ) -> Self {
        Self {
            settings: settings.clone(),
            listener,
            stopped,
            state,
            plan,
            accounts: Accounts::default(),
            connections: Vec::new(),
            arrivals: Rate::new(ARRIVALS_PER_SECOND, ARRIVALS_AT_ONCE, monotonic_ns()),
            listen_again_ns: None,
            counts: Counts::default(),
        }
    }

    /// Serves until it is stopped.
    pub fn run(mut self) {
        loop {
            let ready = self.wait();
            if ready.stop {
                return;
            }
            for (place, call) in ready.connections.iter().enumerate().rev() {
                let fate = match call {
                    Call::Nothing => Fate::Stays,
                    Call::Message => self.listen_to(place),
                    Call::Gone => Fate::Ends,
                };
                if fate == Fate::Ends {
                    self.end(place);
                }
            }
            if ready.arrival {
                self.let_in();
            }
            self.publish();
        }
    }

    /// Waits for something to do; for an instant only where somebody is held back.
    fn wait(&mut self) -> Ready {
        let now_ns = monotonic_ns();
        let passed = |until: Option<u64>| until.filter(|&until_ns| until_ns > now_ns);
        self.listen_again_ns = passed(self.listen_again_ns);
        for connection in &mut self.connections {
            connection.held_until_ns = passed(connection.held_until_ns);
        }
        let held = self.connections.iter().filter_map(|one| one.held_until_ns);
        let timeout =
            held.chain(self.listen_again_ns)
                .min()
                .map_or(PollTimeout::NONE, |until_ns| {
                    let ms = (until_ns - now_ns).div_ceil(1_000_000);
                    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
                });

        let unless = |held: Option<u64>| match held {
            None => PollFlags::POLLIN,
            // That it has gone is told in any case.
            Some(_) => PollFlags::empty(),
        };
        let mut polled = vec![
            PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), unless(self.listen_again_ns)),
        ];
        for connection in &self.connections {
            let events = unless(connection.held_until_ns);
            polled.push(PollFd::new(connection.socket(), events));
            if let Some(process) = connection.process() {
                polled.push(PollFd::new(process, PollFlags::POLLIN));
            }
        }
        if poll(&mut polled, timeout).is_err() {
            // Interrupted; or there is no memory at the moment.
            return Ready::default();
        }
        let mut events = polled
            .iter()
            .map(|polled| polled.revents().unwrap_or(PollFlags::POLLERR));
        let mut next = || events.next().unwrap_or(PollFlags::empty());
        Ready {
            stop: !next().is_empty(),
            arrival: next().contains(PollFlags::POLLIN),
            connections: self
                .connections
                .iter()
                .map(|connection| {
                    let socket = next();
                    let ended = connection.process().is_some() && !next().is_empty();
                    if ended || socket.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                        Call::Gone
                    } else if socket.is_empty() {
                        Call::Nothing
                    } else {
                        Call::Message
                    }
                })
                .collect(),
        }
    }

    /// Takes the connections that wait.
    fn let_in(&mut self) {
        loop {
            let now_ns = monotonic_ns();
            if let Err(until_ns) = self.arrivals.take(now_ns) {
                self.listen_again_ns = Some(until_ns);
                return;
            }
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            match accept4(self.listener.as_raw_fd(), flags) {
                Ok(descriptor) => {
                    // SAFETY: the kernel has just opened it, for us alone.
                    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
                    self.welcome(socket, now_ns);
                }
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(Errno::EAGAIN) => {
                    self.arrivals.put_back();
                    return;
                }
                Err(_) => {
                    self.listen_again_ns = Some(now_ns + NO_DESCRIPTOR_NS);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd, now_ns: u64) {
        let Some(connection) = Connection::new(socket) else {
            return;
        };
        let full = self.connections.len() >= self.settings.clients as usize;
        if full || !self.accounts.open(&self.settings, connection.owner, now_ns) {
            send_away(&connection, Farewell::Full, &mut self.counts);
            return;
        }
        self.connections.push(connection);
    }

    /// Hears a client, a turn long.
    fn listen_to(&mut self, place: usize) -> Fate {
        for _ in 0..IN_A_TURN {
            let owner = self.connections[place].owner;
            if let Err(until_ns) = self.accounts.message(owner, monotonic_ns()) {
                self.connections[place].held_until_ns = Some(until_ns);
                self.counts.held_back += 1;
                return Fate::Stays;
            }
            let done = match self.connections[place].hear() {
                Heard::Nothing => {
                    self.accounts.no_message(owner);
                    return Fate::Stays;
                }
                Heard::Gone => return Fate::Ends,
                Heard::Rubbish => Err(Farewell::Rubbish),
                Heard::Request(request) => self.answer(place, request),
            };
            if let Err(why) = done {
                send_away(&self.connections[place], why, &mut self.counts);
                return Fate::Ends;
            }
        }
        Fate::Stays
    }

    /// Does what is asked for, and answers.
    fn answer(&mut self, place: usize, request: Request) -> Result<(), Farewell> {
        let connection = &mut self.connections[place];
        let answer = match request {
            Request::Hello { .. } if connection.welcomed => return Err(Farewell::Rubbish),
            Request::Hello { version: VERSION } => {
                connection.welcomed = true;
                self.counts.clients += 1;
                Answer::Welcome {
                    version: VERSION,
                    limits: self.settings.limits,
                }
            }
            Request::Hello { .. } => return Err(Farewell::Version),
            _ if !connection.welcomed => return Err(Farewell::Rubbish),
            Request::Cancel { id } => {
                self.cancel(place, id);
                return Ok(());
            }
            Request::Expect {
                id,
                at_ns,
                window_ns,
                cpu,
            } => {
                let now_ns = monotonic_ns();
                connection
                    .open
                    .retain(|open| open.window.left_ns(now_ns) > 0);
                if connection.open.iter().any(|open| open.id == id) {
                    return Err(Farewell::Rubbish);
                }
                self.expect(place, now_ns, id, cpu, (at_ns, window_ns))
            }
        };
        if !self.connections[place].say(&answer) {
            self.counts.unheard += 1;
        }
        Ok(())
    }

    fn expect(
        &mut self,
        place: usize,
        now_ns: u64,
        id: u64,
        cpu: u32,
        wanted: (u64, u64),
    ) -> Answer {
        let planned = self.plan(place, now_ns, cpu, wanted);
        let connection = &mut self.connections[place];
        match planned {
            Ok((window, ticket)) => {
                connection.accepted += 1;
                connection.asked_ns += window.length_ns;
                connection.open.push(Open { id, window, ticket });
                self.counts.accepted += 1;
                Answer::Accepted { id }
            }
            Err(why) => {
                connection.refused += 1;
                self.counts.refused[why.index()] += 1;
                Answer::Refused { id, why }
            }
        }
    }

    fn plan(
        &mut self,
        place: usize,
        now_ns: u64,
        cpu: u32,
        (at_ns, window_ns): (u64, u64),
    ) -> Result<(Window, Ticket), Refusal> {
        let limits = &self.settings.limits;
        let connection = &self.connections[place];
        if connection.open.len() >= limits.open as usize {
            return Err(Refusal::Limit);
        }
        let window = limits.window(now_ns, at_ns, window_ns)?;
        let owner = connection.owner;
        self.accounts.take(owner, now_ns, window)?;
        let planned = self.plan.expect(cpu, window.at_ns, window.length_ns, owner);
        if planned.is_err() {
            self.accounts.give_back(owner, now_ns, window);
        }
        planned.map(|ticket| (window, ticket))
    }

    fn cancel(&mut self, place: usize, id: u64) {
        let connection = &mut self.connections[place];
        let Some(which) = connection.open.iter().position(|open| open.id == id) else {
            return;
        };
        let open = connection.open.remove(which);
        if self.take_back(place, &open) {
            self.counts.cancelled += 1;
        }
    }

    /// Whether there was something to take back.
    fn take_back(&mut self, place: usize, open: &Open) -> bool {
        let now_ns = monotonic_ns();
        let left_ns = open.window.left_ns(now_ns);
        if left_ns == 0 {
            return false;
        }
        self.plan.cancel(open.ticket);
        let connection = &mut self.connections[place];
        connection.asked_ns = connection.asked_ns.saturating_sub(left_ns);
        self.accounts
            .give_back(connection.owner, now_ns, open.window);
        true
    }

    /// Ends a connection, and with it what it has asked for.
    fn end(&mut self, place: usize) {
        for open in std::mem::take(&mut self.connections[place].open) {
            if self.take_back(place, &open) {
                self.counts.orphaned += 1;
            }
        }
        let connection = self.connections.remove(place);
        self.accounts.close(connection.owner);
    }

    fn publish(&self) {
        let now_ns = monotonic_ns();
        let welcomed = self.connections.iter().filter(|one| one.welcomed);
        let mut state = lock(&self.state);
        state.counts = self.counts;
        state.clients.clear();
        state.clients.extend(welcomed.map(|one| one.client(now_ns)));
    }
}

fn send_away(connection: &Connection, why: Farewell, counts: &mut Counts) {
    connection.say_last(&Answer::Closing { why });
    counts.sent_away[why as usize] += 1;
}

impl<P: Plan> Drop for Serving<P> {
    fn drop(&mut self) {
        while let Some(last) = self.connections.len().checked_sub(1) {
            self.end(last);
        }
        self.publish();
    }
}

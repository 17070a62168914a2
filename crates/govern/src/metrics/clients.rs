//! Clients of the metrics: any number may come, and each may be hostile.
//!
//! The thread works in turns: it accepts, reads and writes what it can. In a turn the text is made at most once, and then it
//! rests for [`REST_MIN`]. So there are 50 scrapes a second at most. The CPU time that the service took meanwhile is paid from
//! a [`Budget`], of which it gets one [part in 20](PARTS) of the time: what was saved between two scrapes pays a text that takes
//! long at once, and whatever clients do, they get 5% of one CPU in the long run. Nobody waits for anybody: a
//! client that is slow has a place, and loses it to a new one when all are taken.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{MsgFlags, SockFlag, accept4, recv, send};
use nix::time::{ClockId, clock_gettime};

use super::http::{self, Answer, REQUEST_MAX};
use super::listener::Listener;
use crate::budget::Budget;

/// A client has that long to ask, and then to take a part of the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients at a time; with a descriptor each.
const MOST: usize = 64;
/// Clients accepted in a turn: one that has just come stays for the next turn, too.
const ACCEPTED_MAX: usize = MOST / 2;
/// One of so many parts of the time is the clients': 5% of a CPU.
const PARTS: u32 = 20;
/// At most 50 texts a second.
const REST_MIN: Duration = Duration::from_millis(20);

/// Those that are connected.
pub struct Clients {
    listeners: Vec<Listener>,
    /// The oldest first.
    clients: VecDeque<Client>,
}

struct Client {
    socket: OwnedFd,
    state: State,
    /// Until when it has to do something.
    until: Instant,
}

enum State {
    /// What it has asked so far.
    Asks(Vec<u8>),
    /// Its answer, and how much of it was sent.
    Answered(Arc<[u8]>, usize),
}

/// The service has ended.
struct Ended;

impl Clients {
    /// Nobody yet.
    pub fn new(listeners: Vec<Listener>) -> Self {
        Self {
            listeners,
            clients: VecDeque::new(),
        }
    }

    /// Serves all until `over` is written to, or until there is no more text.
    pub fn serve(mut self, over: &EventFd, mut text: impl FnMut() -> Option<String>) {
        let mut budget = Budget::full(PARTS, Instant::now());
        loop {
            if self.wait(over) {
                return;
            }
            let begin = cpu_time();
            let Ok(made_text) = self.turn(&mut text) else {
                return;
            };
            let took = cpu_time().saturating_sub(begin);
            let rest = budget.pay(took, Instant::now());
            let rest = if made_text { rest.max(REST_MIN) } else { rest };
            if !rest.is_zero() && is_written(over, Some(rest)) {
                return;
            }
        }
    }

    /// Waits until somebody comes, asks, reads or is late; true if all is over.
    fn wait(&self, over: &EventFd) -> bool {
        let mut waited = vec![PollFd::new(over.as_fd(), PollFlags::POLLIN)];
        let coming = self.listeners.iter();
        waited.extend(coming.map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        waited.extend(self.clients.iter().map(|client| {
            let flags = match client.state {
                State::Asks(_) => PollFlags::POLLIN,
                State::Answered(..) => PollFlags::POLLOUT,
            };
            PollFd::new(client.socket.as_fd(), flags)
        }));
        let until = self.clients.iter().map(|client| client.until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let _ = poll(&mut waited, timeout(left));
        waited[0].any() == Some(true)
    }

    /// Whether a text was made.
    fn turn(&mut self, text: &mut impl FnMut() -> Option<String>) -> Result<bool, Ended> {
        self.accept();
        // Made for the first who asks, and the same for all in this turn.
        let mut metrics: Option<(Arc<[u8]>, usize)> = None;
        let mut made = || -> Result<(Arc<[u8]>, usize), Ended> {
            if metrics.is_none() {
                let (bytes, head) = http::metrics(&text().ok_or(Ended)?);
                metrics = Some((bytes.into(), head));
            }
            metrics.clone().ok_or(Ended)
        };
        let mut stay = VecDeque::with_capacity(MOST);
        for mut client in self.clients.drain(..) {
            if client.go_on(&mut made)? && Instant::now() < client.until {
                stay.push_back(client);
            }
        }
        self.clients = stay;
        Ok(metrics.is_some())
    }

    /// Takes up new clients, in the place of the oldest ones where there are too many.
    fn accept(&mut self) {
        let until = Instant::now() + PATIENCE;
        for listener in &self.listeners {
            for _ in 0..ACCEPTED_MAX / self.listeners.len() {
                let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
                let Ok(socket) = accept4(listener.as_fd().as_raw_fd(), flags) else {
                    break;
                };
                if self.clients.len() == MOST {
                    self.clients.pop_front();
                }
                self.clients.push_back(Client {
                    // SAFETY: it is new, and nobody else has its number.
                    socket: unsafe { OwnedFd::from_raw_fd(socket) },
                    state: State::Asks(Vec::new()),
                    until,
                });
            }
        }
    }
}

impl Client {
    /// Reads what has come and writes what can be taken; false if there is no more to do.
    fn go_on(
        &mut self,
        metrics: &mut impl FnMut() -> Result<(Arc<[u8]>, usize), Ended>,
    ) -> Result<bool, Ended> {
        if let State::Asks(request) = &mut self.state {
            let mut bytes = [0; REQUEST_MAX];
            let room = &mut bytes[request.len()..];
            match recv(self.socket.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Ok(false),
                Ok(length) => request.extend_from_slice(&room[..length]),
                Err(errno) => return Ok(errno == Errno::EAGAIN),
            }
            let answer: Arc<[u8]> = match http::answer(request) {
                None => return Ok(true),
                Some(Answer::Metrics) => metrics()?.0,
                Some(Answer::Head) => {
                    let (bytes, head) = metrics()?;
                    bytes[..head].into()
                }
                Some(Answer::Refusal(status, why)) => http::refusal(status, why).into(),
            };
            self.state = State::Answered(answer, 0);
        }
        Ok(self.write())
    }

    /// Writes what can be taken; false if there is no more.
    fn write(&mut self) -> bool {
        let State::Answered(bytes, sent) = &mut self.state else {
            return true;
        };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.socket.as_raw_fd(), &bytes[*sent..], flags) {
            Ok(length) => {
                *sent += length;
                self.until = Instant::now() + PATIENCE;
                *sent < bytes.len()
            }
            Err(errno) => errno == Errno::EAGAIN,
        }
    }
}

/// Of all threads: the service's own makes a part of the text.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Waits for `over`, for that long at most; was it written to?
fn is_written(over: &EventFd, time: Option<Duration>) -> bool {
    let mut waited = [PollFd::new(over.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut waited, timeout(time));
    waited[0].any() == Some(true)
}

/// Rounded up: a wait that is too short would be repeated.
fn timeout(time: Option<Duration>) -> PollTimeout {
    let ms = time.map(|time| u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX));
    ms.map_or(PollTimeout::NONE, PollTimeout::from)
}

#[cfg(test)]
#[path = "clients/tests.rs"]
mod tests;

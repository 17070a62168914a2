//! Lets an application announce when it will be needed.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;

use crate::clock::{instant_ns, monotonic_ns, whole_ns};
use crate::history::{History, Kind, Prediction};
use crate::limits::{Limits, MAX_OPEN, Refusal};
use crate::link::{Link, Received, Sent};
use crate::own_thread::OwnThread;
use crate::protocol::{Answer, Request};
use crate::{Error, Result, SOCKET};

/// What keeps CPUs awake for a [`Waker`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Served {
    /// The running engine.
    ByEngine,
    /// A thread of this process, for there is no engine: why.
    ByThread(String),
    /// No CPU is kept awake, for this reason.
    ByNobody(String),
}

/// A request that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expected(u64);

impl Expected {
    /// Its number, from 1: for C.
    pub fn number(self) -> u64 {
        self.0
    }

    /// What [`Expected::number`] gave.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// What became of the requests of a [`Waker`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of [`Waker::expect`].
    pub asked: u64,
    /// As far as the engine has answered yet.
    pub accepted: u64,
    /// Cancelled before their window was over.
    pub cancelled: u64,
    refused: [u64; Refusal::ALL.len()],
}

impl Counts {
    /// Refused for that reason, at once or by the engine's answer.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why.index()]
    }

    /// Refused for whatever reason.
    pub fn refused_in_all(&self) -> u64 {
        self.refused.iter().sum()
    }

    fn refuse(&mut self, why: Refusal) {
        self.refused[why.index()] += 1;
    }
}

/// Announces when the application will be needed, and learns how long operations take.
///
/// It uses the running engine (`reveille anticipate`) or, without one, a thread of this process. Dropping
/// it cancels its requests. A child created by fork(2) must connect again.
#[derive(Debug)]
pub struct Waker {
    source: Source,
    history: History,
    /// Not over and not cancelled, as far as this side knows.
    open: Vec<Open>,
    last_id: u64,
    /// Requests that the engine has not answered yet.
    unanswered: u64,
    counts: Counts,
}

#[derive(Debug)]
enum Source {
    Engine(Link),
    Thread(Box<OwnThread>, String),
    Nobody(String),
}

#[derive(Debug)]
struct Open {
    id: u64,
    end_ns: u64,
}

impl Waker {
    /// Connects to the engine at [`SOCKET`], waiting a second at most, or starts a thread of this process.
    /// [`Waker::served`] reports which.
    pub fn connect() -> Self {
        Self::connect_to(Path::new(SOCKET))
    }

    /// As [`Waker::connect`], for an engine that listens elsewhere.
    pub fn connect_to(path: &Path) -> Self {
        let source = match Link::connect(path) {
            Ok(link) => Source::Engine(link),
            Err(why) => Source::thread(why),
        };
        Self::of(source)
    }

    /// Starts a thread of this process, whether there is an engine or not.
    pub fn alone() -> Self {
        Self::of(Source::thread("no engine was requested".into()))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            history: History::new(),
            open: Vec::with_capacity(MAX_OPEN as usize),
            last_id: 0,
            unanswered: 0,
            counts: Counts::default(),
        }
    }

    /// What keeps CPUs awake now. If the engine ends, a thread of this process takes over at the next
    /// request.
    pub fn served(&self) -> Served {
        match &self.source {
            Source::Engine(_) => Served::ByEngine,
            Source::Thread(_, why) => Served::ByThread(why.clone()),
            Source::Nobody(why) => Served::ByNobody(why.clone()),
        }
    }

    /// What may be asked for.
    pub fn limits(&self) -> Limits {
        match &self.source {
            Source::Engine(link) => link.limits,
            Source::Thread(own, _) => own.limits,
            Source::Nobody(_) => Limits::default(),
        }
    }

    /// Keeps the calling thread's CPU awake from that instant on, for that long. A window that has
    /// already begun is shortened.
    ///
    /// It does not wait. What the engine refuses later is counted in [`Waker::counts`].
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Cannot`] where there is neither an engine nor a thread.
    pub fn expect(&mut self, at: Instant, window: Duration) -> Result<Expected> {
        self.expect_ns(instant_ns(at), whole_ns(window))
    }

    /// As [`Waker::expect`], in ns of CLOCK_MONOTONIC.
    pub fn expect_ns(&mut self, at_ns: u64, window_ns: u64) -> Result<Expected> {
        let cpu = sched_getcpu().map_err(Error::of("cannot determine the current CPU"))?;
        self.expect_on(cpu as u32, at_ns, window_ns)
    }

    /// As [`Waker::expect_ns`], for another CPU.
    pub fn expect_on(&mut self, cpu: u32, at_ns: u64, window_ns: u64) -> Result<Expected> {
        self.counts.asked += 1;
        let done = self.request(cpu, at_ns, window_ns);
        if let Err(Error::Refused(why)) = done {
            self.counts.refuse(why);
        }
        done
    }

    fn request(&mut self, cpu: u32, at_ns: u64, window_ns: u64) -> Result<Expected> {
        self.receive();
        let now_ns = monotonic_ns();
        let limits = self.limits();
        let window = limits.window(now_ns, at_ns, window_ns)?;
        self.open.retain(|open| open.end_ns > now_ns);
        if self.open.len() >= limits.open.min(MAX_OPEN) as usize {
            return Err(Refusal::Limit.into());
        }
        self.last_id += 1;
        let id = self.last_id;
        if let Source::Engine(link) = &self.source {
            let request = Request::Expect {
                id,
                at_ns: window.at_ns,
                window_ns: window.length_ns,
                cpu,
            };
            match link.send(&request) {
                Sent::Yes => self.unanswered += 1,
                Sent::Busy => return Err(Refusal::Limit.into()),
                Sent::Gone => self.fall_back(),
            }
        }
        match &mut self.source {
            Source::Engine(_) => {}
            Source::Thread(own, _) => {
                own.expect(id, cpu, window)?;
                self.counts.accepted += 1;
            }
            Source::Nobody(why) => return Err(Error::Cannot(why.clone())),
        }
        self.open.push(Open {
            id,
            end_ns: window.end_ns(),
        });
        Ok(Expected(id))
    }

    /// Cancels all requests.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Refusal::Limit`] if the engine does not read now; the windows then pass.
    pub fn cancel(&mut self) -> Result<()> {
        while let Some(open) = self.open.pop() {
            self.end(&open)?;
        }
        Ok(())
    }

    /// Cancels a request; without effect if it is over, cancelled or refused.
    ///
    /// # Errors
    /// As [`Waker::cancel`].
    pub fn cancel_one(&mut self, expected: Expected) -> Result<()> {
        match self.open.iter().position(|open| open.id == expected.0) {
            Some(place) => {
                let open = self.open.remove(place);
                self.end(&open)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, open: &Open) -> Result<()> {
        // A window that is over needs no message.
        if open.end_ns <= monotonic_ns() {
            return Ok(());
        }
        match &mut self.source {
            Source::Engine(link) => match link.send(&Request::Cancel { id: open.id }) {
                Sent::Yes => {}
                Sent::Busy => return Err(Refusal::Limit.into()),
                // With the engine its windows went, too.
                Sent::Gone => self.fall_back(),
            },
            Source::Thread(own, _) => own.cancel(open.id),
            Source::Nobody(_) => {}
        }
        self.counts.cancelled += 1;
        Ok(())
    }

    /// Waits until the engine has answered all requests; false if it has not within that time. A thread
    /// of this process answers at once.
    pub fn wait_for_answers(&mut self, timeout: Duration) -> bool {
        let until_ns = monotonic_ns().saturating_add(whole_ns(timeout));
        loop {
            self.receive();
            match &self.source {
                Source::Engine(link) if self.unanswered > 0 => {
                    if !link.wait(until_ns) {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// What became of the requests so far.
    pub fn counts(&mut self) -> Counts {
        self.receive();
        self.counts
    }

    /// Time for which this process's own thread has kept CPUs awake; `None` if an engine serves.
    pub fn awake(&self) -> Option<Duration> {
        match &self.source {
            Source::Thread(own, _) => Some(Duration::from_nanos(own.awake_ns())),
            _ => None,
        }
    }

    /// How much before a window this process's own thread wakes, as learned from its lateness; `None` if
    /// an engine serves.
    pub fn lead(&self) -> Option<Duration> {
        match &self.source {
            Source::Thread(own, _) => Some(Duration::from_nanos(own.lead_ns())),
            _ => None,
        }
    }

    /// An operation of this kind has just ended, after that time.
    ///
    /// # Errors
    /// As [`History::observe`].
    pub fn observe(&mut self, kind: impl Into<Kind>, duration: Duration) -> Result<()> {
        self.history.observe(kind, duration)
    }

    /// How long an operation of this kind will take if it begins now, as far as that is known.
    pub fn predict(&self, kind: impl Into<Kind>) -> Option<Prediction> {
        self.history.predict(kind)
    }

    /// What was observed.
    pub fn history(&mut self) -> &mut History {
        &mut self.history
    }

    /// Reads the answers received so far.
    fn receive(&mut self) {
        while self.unanswered > 0 {
            let Source::Engine(link) = &self.source else {
                return;
            };
            match link.receive() {
                Received::Nothing => return,
                Received::Answer(Answer::Accepted { .. }) => {
                    self.unanswered -= 1;
                    self.counts.accepted += 1;
                }
                Received::Answer(Answer::Refused { id, why }) => {
                    self.unanswered -= 1;
                    self.counts.refuse(why);
                    self.open.retain(|open| open.id != id);
                }
                Received::Answer(Answer::Welcome { .. } | Answer::Closing { .. })
                | Received::Gone => {
                    self.fall_back();
                }
            }
        }
    }

    /// The engine has ended, and its plans with it.
    fn fall_back(&mut self) {
        self.source = Source::thread("the engine has ended".into());
        self.open.clear();
        self.unanswered = 0;
    }
}

impl Source {
    fn thread(why: String) -> Self {
        match OwnThread::start() {
            Ok(own) => Self::Thread(Box::new(own), why),
            Err(error) => Self::Nobody(format!("{why}, and no thread can be started: {error}")),
        }
    }
}

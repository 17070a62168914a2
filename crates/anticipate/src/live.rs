//! The engine with the socket of applications, as `reveille anticipate` runs it.

mod applications;
mod hints;
pub mod show;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use reveille_expect::Refusal;
use reveille_expect::server::{self, Owner, Plan, Server, Ticket};
use reveille_kernel::{Root, Uevents};
use serde::Serialize;

use self::applications::Applications;
use self::hints::Hearing;
pub use self::hints::Hints;
use crate::{Announcer, Engine, Error, Result, Settings, Statistics, Unplanned};

impl Plan for Announcer {
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal> {
        let process = u32::try_from(owner.pid).unwrap_or_default();
        let ticket = Self::expect(self, cpu, at_ns, window_ns, process, owner.uid);
        ticket.map(Ticket).map_err(|why| match why {
            Unplanned::Cpu => Refusal::Cpu,
            Unplanned::Past => Refusal::Past,
            Unplanned::Budget => Refusal::Budget,
            Unplanned::User | Unplanned::Full | Unplanned::Reader => Refusal::Slots,
        })
    }

    fn cancel(&self, ticket: Ticket) {
        Self::cancel(self, ticket.0);
    }
}

/// The engine and, if applications are served, the server of their socket.
pub struct Live {
    // Ended first: it plans in the engine.
    server: Option<Server>,
    hearing: Option<Hearing>,
    engine: Engine,
}

/// What a run reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The run is to end.
    End,
    /// A device came or went.
    Devices,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// [`Event::End`], or the end of its time.
    Requested,
    /// All of its disks and interfaces are gone.
    NoDisks,
}

/// What the engine and the server have done so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// The engine's statistics.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// `None` if no hints are taken.
    pub hints: Option<Hints>,
    /// `None` if applications are not served.
    pub applications: Option<Applications>,
}

/// Where to send [`Event::End`], and the events for [`Live::run`]. If the kernel announces no changes of
/// devices to this user, `run` sees them at the next interval.
pub fn events() -> (Sender<Event>, Receiver<Event>) {
    let (sender, events) = channel();
    let changes = sender.clone();
    if let Ok(uevents) = Uevents::open() {
        // It ends with the process.
        std::thread::spawn(
            move || {
                while uevents.wait().is_ok() && changes.send(Event::Devices).is_ok() {}
            },
        );
    }
    (sender, events)
}

/// Whether there is an interface of that number, whatever its name is now.
fn is_interface(number: u32) -> bool {
    reveille_kernel::network::name_here(number).is_some()
}

impl Live {
    /// Starts the engine.
    pub fn start(settings: &Settings) -> Result<Self> {
        let engine = Engine::start(settings)?;
        Ok(Self {
            server: None,
            hearing: None,
            engine,
        })
    }

    /// Serves applications.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the socket cannot be made, or another engine has it.
    pub fn serve(&mut self, settings: &server::Settings) -> Result<()> {
        let server = Server::start(settings, self.engine.announcer());
        self.server = Some(server.map_err(|error| Error::Cannot(error.to_string()))?);
        Ok(())
    }

    /// Takes hints of clients at that address; the engine's settings have their networks.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the address is unavailable.
    pub fn hear(&mut self, at: SocketAddr, allowed: server::Allowed) -> Result<()> {
        self.hearing = Some(Hearing::start(&self.engine, at, allowed)?);
        Ok(())
    }

    /// Where hints are taken.
    pub fn hears_at(&self) -> Option<SocketAddr> {
        self.hearing.as_ref().map(|hearing| hearing.at)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What was done so far.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let statistics = self.engine.statistics()?;
        let outcome = statistics.hints.unwrap_or_default();
        Ok(Snapshot {
            hints: self
                .hearing
                .as_ref()
                .map(|hearing| hearing.hints(&self.engine, &outcome)),
            statistics,
            applications: self.server.as_ref().map(Applications::of),
        })
    }

    /// Runs for that time, or until an event ends it. Calls `show` at each interval, and `gone` with the name of each disk
    /// or interface that went. Without an interval nothing wakes up meanwhile.
    pub fn run<E>(
        &self,
        events: &Receiver<Event>,
        duration: Option<Duration>,
        interval: Option<Duration>,
        mut gone: impl FnMut(&str),
        mut show: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<Ended, E> {
        let until = duration.map(|duration| Instant::now() + duration);
        let mut next = interval.map(|interval| Instant::now() + interval);
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let mut missing = Vec::new();
        loop {
            let wait = until.into_iter().chain(next).min().map(left);
            match events.recv_timeout(wait.unwrap_or(Duration::MAX)) {
                Err(RecvTimeoutError::Timeout) | Ok(Event::Devices) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if until.is_some_and(|until| left(until).is_zero()) {
                break;
            }
            // One that returns under its number is anticipated again.
            let settings = self.engine.settings();
            let disks = settings.devices.iter();
            let disks = disks.filter(|disk| !disk.is_there(&Root::default()));
            let interfaces = settings.packets.interfaces.iter();
            let interfaces = interfaces.filter(|(_, number)| !is_interface(*number));
            let now = disks.map(|disk| disk.name.as_str());
            let now = now.chain(interfaces.map(|(name, _)| name.as_str()));
            let before = std::mem::replace(&mut missing, now.collect::<Vec<&str>>());
            let new = missing.iter().filter(|name| !before.contains(name));
            new.for_each(|name| gone(name));
            let all = settings.devices.len() + settings.packets.interfaces.len();
            if !missing.is_empty() && missing.len() == all {
                return Ok(Ended::NoDisks);
            }
            if let (Some(at), Some(interval)) = (next, interval)
                && left(at).is_zero()
            {
                next = Some(Instant::now() + interval);
                show()?;
            }
        }
        Ok(Ended::Requested)
    }
}

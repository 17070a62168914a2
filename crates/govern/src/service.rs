//! The service: rules, what is in force by them, and what changes that.
//!
//! One thread reacts to [`Event`]s and waits for the next: without events nothing runs, not once a second.
//! What has to be quick, packets, it leaves to the kernel's programs and the CPUs' threads
//! ([`crate::force`]).

mod in_force;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::{Instant, SystemTime};

use reveille_kernel::{Result, Root, journal};
use reveille_results::kept;

use self::in_force::InForce;
use crate::holds::Holds;
use crate::rules::Rules;
use crate::socket::Socket;
use crate::status::{Own, SCHEMA_VERSION, Status};
use crate::systemd;

/// What the service needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The rules.
    pub file: PathBuf,
    /// Where it answers.
    pub socket: PathBuf,
    /// Count bounds that come too late, and what the programs take.
    pub accounting: bool,
}

/// What the service reacts to.
#[derive(Debug)]
pub enum Event {
    /// It is to end.
    End,
    /// The rules' file may have changed.
    Reload,
    /// A device came or went.
    Devices,
    /// Somebody asks for the status.
    Status(SyncSender<Status>),
}

/// Where to send events, and the events for [`run`].
pub fn events() -> (Sender<Event>, Receiver<Event>) {
    channel()
}

/// Runs until [`Event::End`]. `say` gets lines for the log. systemd hears when the rules are in force.
///
/// # Errors
/// Those of reading the rules; [`reveille_kernel::Error::Cannot`] where the service cannot work here.
pub fn run(
    options: &Options,
    (sender, events): (Sender<Event>, Receiver<Event>),
    mut say: impl FnMut(&str),
) -> Result<()> {
    let rules = Rules::read(&options.file)?;
    let mut service = Service {
        options,
        root: Root::default(),
        started: Instant::now(),
        in_force: InForce::start(rules, &Root::default(), options.accounting)?,
        read: SystemTime::now(),
        refused: None,
        holds: Holds::default(),
    };
    let socket = Socket::listen(&options.socket, sender.clone())?;
    watch::file(&options.file, sender.clone());
    watch::devices(sender);
    service
        .in_force
        .problems
        .iter()
        .for_each(|problem| say(problem));
    service.in_force.update(&service.holds);
    systemd::ready();
    for event in events {
        match event {
            Event::End => break,
            Event::Reload => {
                systemd::reloading();
                service.reload(&mut say)?;
                systemd::ready();
            }
            Event::Devices => service.in_force.update(&service.holds),
            Event::Status(asks) => {
                // Who asked may have left.
                let _ = asks.send(service.status());
            }
        }
    }
    systemd::stopping();
    drop(socket);
    for complaint in service.in_force.end() {
        say(&complaint);
    }
    Ok(())
}

struct Service<'a> {
    options: &'a Options,
    root: Root,
    started: Instant,
    in_force: InForce,
    read: SystemTime,
    refused: Option<String>,
    holds: Holds,
}

impl Service<'_> {
    /// Reads the rules again; a file with an error changes nothing.
    fn reload(&mut self, say: &mut impl FnMut(&str)) -> Result<()> {
        let rules = match Rules::read(&self.options.file) {
            Ok(rules) => rules,
            Err(error) => {
                let why = error.to_string();
                if self.refused.as_ref() != Some(&why) {
                    say(&format!("{why}; the rules before stay in force"));
                }
                self.refused = Some(why);
                return Ok(());
            }
        };
        self.refused = None;
        self.read = SystemTime::now();
        let before = std::mem::replace(&mut self.in_force, InForce::nothing());
        for complaint in before.end() {
            say(&complaint);
        }
        self.in_force = InForce::start(rules, &self.root, self.options.accounting)?;
        self.in_force
            .problems
            .iter()
            .for_each(|problem| say(problem));
        self.in_force.update(&self.holds);
        let rules = self.in_force.rules.rules.len();
        let file = self.options.file.display();
        say(&format!("{file}: {rules} rules in force"));
        Ok(())
    }

    fn status(&self) -> Status {
        Status {
            schema_version: SCHEMA_VERSION,
            tool: kept::tool(),
            pid: std::process::id(),
            running_s: self.started.elapsed().as_secs_f64(),
            file: self.options.file.clone(),
            read: kept::instant(self.read),
            refused: self.refused.clone(),
            problems: self.in_force.problems.clone(),
            wake_latency: self.in_force.rules.wake_latency,
            rules: self.in_force.rule_statuses(),
            holds: self.in_force.hold_statuses(&self.holds),
            cpus: self.in_force.cpu_statuses(&self.holds),
            own: Own::now(),
            accounted: self.in_force.accounted(),
        }
    }
}

/// The journal's folder of the running machine.
fn journal_folder() -> &'static Path {
    Path::new(journal::FOLDER)
}

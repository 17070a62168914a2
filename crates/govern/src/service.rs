//! The service: rules, what is in force by them, and what changes that.
//!
//! One thread reacts to [`Event`]s and waits for the next: without events nothing runs, not once a second.
//! What has to be quick, packets, it leaves to the kernel's programs and the CPUs' threads
//! ([`crate::force`]).

mod in_force;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Instant, SystemTime};

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use reveille_kernel::{Error, Result, Root, requests};
use reveille_results::kept;
use reveille_show::quantity::counted;

use self::in_force::InForce;
use crate::Standing;
use crate::event::Event;
use crate::holds::{Asked, Holds, Refused};
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

/// Where to send events, and the events for [`run`].
pub fn events() -> (Sender<Event>, Receiver<Event>) {
    channel()
}

/// Gets how the service stands, at each change.
pub type Publish = Box<dyn Fn(Standing)>;

/// Gets how all of it stands when the rules are in force.
pub type Started = Box<dyn FnOnce(&Status)>;

/// For [`run`]: answers nobody.
///
/// # Errors
/// None.
pub fn unheard(_: Sender<Event>) -> Result<Publish> {
    Ok(Box::new(|_| ()))
}

/// Runs until [`Event::End`]. `say` gets lines for the log. `publish` makes who answers others, on the bus;
/// what it returns is dropped before the bounds are taken back. systemd hears when the rules are in force, and
/// then `started`, if it is there.
///
/// # Errors
/// Those of reading the rules, and of `publish`; [`reveille_kernel::Error::Cannot`] where the service cannot work here.
pub fn run(
    options: &Options,
    (sender, events): (Sender<Event>, Receiver<Event>),
    publish: impl FnOnce(Sender<Event>) -> Result<Publish>,
    mut say: impl FnMut(&str),
    started: Option<Started>,
) -> Result<()> {
    let rules = Rules::read(&options.file)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
    let epoll = Arc::new(epoll.map_err(Error::system("waiting for changes"))?);
    let mut service = Service {
        options,
        root: Root::default(),
        started: Instant::now(),
        in_force: InForce::start(&Root::default(), options.accounting)?,
        epoll: epoll.clone(),
        read: SystemTime::now(),
        refused: None,
        holds: Holds::default(),
        bus_problem: None,
        unwatched: watch::file(&options.file, sender.clone()),
    };
    let socket = Socket::listen(&options.socket, sender.clone())?;
    watch::devices(sender.clone());
    let cpus = service.in_force.cpus().iter();
    let settings = cpus.map(|cpu| service.root.path(&requests::file_of(cpu.number)));
    watch::settings(settings, sender.clone());
    let conditions = sender.clone();
    let publish = publish(sender)?;
    service
        .in_force
        .take_up(rules, &mut service.holds, &epoll)?;
    watch::conditions(epoll, conditions);
    service.problems().iter().for_each(|one| say(one));
    publish(service.standing());
    systemd::ready();
    if let Some(started) = started {
        service.in_force.wait_for_threads();
        started(&service.status());
    }
    for event in events {
        match event {
            Event::End => break,
            Event::Reload => {
                systemd::reloading();
                service.reload(&mut say);
                publish(service.standing());
                systemd::ready();
            }
            Event::Devices(_seen) => {
                service.in_force.devices(&service.holds);
                service.machine(&mut say);
                publish(service.standing());
            }
            Event::Settings(_seen) => service.in_force.look_at_settings(),
            Event::Conditions(_seen) => {
                service.conditions(&mut say);
                publish(service.standing());
            }
            Event::Status(asks) => {
                // No kernel announces another governor.
                service.machine(&mut say);
                publish(service.standing());
                // Who asked may have left.
                service.in_force.look_at_settings();
                service.in_force.wait_for_threads();
                let _ = asks.send(service.status());
            }
            Event::Hold(asked, answer) => {
                let number = service.hold(asked);
                // Who asked may have left.
                if let (false, Ok(number)) = (answer.send(number), number) {
                    service.unhold(number);
                }
                publish(service.standing());
            }
            Event::Unhold(number) => {
                service.unhold(number);
                publish(service.standing());
            }
            Event::Bus(problem) => {
                if problem != service.bus_problem {
                    say(problem.as_deref().unwrap_or("D-Bus is served"));
                }
                service.bus_problem = problem;
                publish(service.standing());
            }
        }
    }
    systemd::stopping();
    drop(socket);
    drop(publish);
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
    /// Of the descriptors that announce changes of conditions.
    epoll: Arc<Epoll>,
    read: SystemTime,
    refused: Option<String>,
    holds: Holds,
    bus_problem: Option<String>,
    /// Why a change of the file is not seen.
    unwatched: Option<String>,
}

impl Service<'_> {
    fn hold(&mut self, asked: Asked) -> std::result::Result<u64, Refused> {
        let in_force = &self.in_force;
        let number = self.holds.add(asked, |asked| in_force.judge(asked))?;
        self.in_force.update(&self.holds);
        Ok(number)
    }

    fn unhold(&mut self, number: u64) {
        self.holds.remove(number);
        self.in_force.update(&self.holds);
    }

    fn standing(&self) -> Standing {
        let rules = self.in_force.rules.rules.iter();
        let holds = self.holds.iter();
        Standing {
            judged: self.in_force.number,
            upower_qos: self.in_force.rules.upower_qos,
            rules: rules.map(|rule| rule.name.clone()).collect(),
            problems: self.problems(),
            holds: holds.map(|(number, hold)| (number, hold.clone())).collect(),
            cpus: self.in_force.cpus().to_vec(),
        }
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.in_force.problems().into_iter();
        let own = self.bus_problem.iter().chain(&self.unwatched);
        problems.chain(own.cloned()).collect()
    }

    /// Reads the rules again; a file with an error changes nothing.
    fn reload(&mut self, say: &mut impl FnMut(&str)) {
        match Rules::read(&self.options.file) {
            Err(error) => self.refuse(&error, say),
            Ok(rules) => {
                self.refused = None;
                self.read = SystemTime::now();
                // Programs that write files announce one change several times.
                if rules != self.in_force.rules {
                    self.take_up(rules, say);
                }
            }
        }
    }

    /// Judges the rules anew on a machine with other CPUs, or another governor.
    fn machine(&mut self, say: &mut impl FnMut(&str)) {
        if !self.in_force.is_of_this_machine() {
            self.take_up(self.in_force.rules.clone(), say);
        }
    }

    /// Takes up what was announced; a result that came or went judges the rules anew.
    fn conditions(&mut self, say: &mut impl FnMut(&str)) {
        if self.in_force.catch_up(&self.holds) {
            self.take_up(self.in_force.rules.clone(), say);
        }
    }

    /// Puts rules in force instead of those before, which stay if that fails.
    fn take_up(&mut self, rules: Rules, say: &mut impl FnMut(&str)) {
        let taken = self.in_force.take_up(rules, &mut self.holds, &self.epoll);
        if let Err(error) = taken {
            return self.refuse(&error, say);
        }
        self.in_force.problems().iter().for_each(|one| say(one));
        let rules = counted(self.in_force.rules.rules.len() as u64, "rule");
        let file = self.options.file.display();
        say(&format!("{file}: {rules} in force"));
    }

    fn refuse(&mut self, error: &Error, say: &mut impl FnMut(&str)) {
        let why = error.to_string();
        if self.refused.as_ref() != Some(&why) {
            say(&format!("{why}; the rules before stay in force"));
        }
        self.refused = Some(why);
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
            problems: self.problems(),
            wake_latency: self.in_force.rules.wake_latency,
            rules: self.in_force.rule_statuses(),
            holds: self.in_force.hold_statuses(&self.holds),
            cpus: self.in_force.cpu_statuses(&self.holds),
            own: Own::now(),
            accounted: self.in_force.accounted(),
        }
    }
}

//! A network card wakes the measured CPU: its interrupt for the reply to a ping.
//!
//! Any card will do that timestamps what it receives by its hardware clock. A thread on another CPU pings a
//! neighbour, one ping at a time. The reply's timestamp is the launch time, by the line from the card's clock to
//! CLOCK_MONOTONIC; that clock is read after each reply, a launch distance before the next. Neither CPU nor
//! governor knows when the reply comes.

mod card;
mod echo;
mod vector;

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use reveille_figures::clock_line::{self, ClockLine, Dropped, Sample};
use reveille_kernel::bpf::{Shared, word};
use reveille_kernel::{Idle, Journal, Root, affinity, now_ns};
use reveille_results::Source;

use self::card::{Card, Target};
use self::echo::Echo;
use self::vector::{Came, Finder};
use super::event_source::{EventSource, Launch, wait_until_settled};
use super::launches::{Launches, lock};
use super::phc::Phc;
use super::thread::Thread;
use crate::kernel::{Kernel, types};
use crate::placement::Elsewhere;
use crate::user::sleep_until;
use crate::{Error, Result};

/// Pings are at least this far apart, ns, to be bearable for any neighbour and link.
const SHORTEST_NS: u64 = 500_000;
/// The first pings: the neighbour's address is resolved, and interrupts move.
const PROBES: usize = 5;
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
const MOVES_WITHIN: Duration = Duration::from_secs(3);
/// A reply is lost after this, or eight times the longest way that was seen, if that is shorter.
const LONGEST_WAY: Duration = Duration::from_millis(200);
const SHORTEST_PATIENCE: Duration = Duration::from_millis(20);
/// Without a stamped reply for so long, the neighbour or the card's setting has gone.
const SILENT: Duration = Duration::from_secs(5);
/// The clock's rate is known after this.
const RATE_TAKES: Duration = Duration::from_millis(600);
const RATE_PAUSE: Duration = Duration::from_millis(50);

pub struct Reply {
    target: Target,
    card: Card,
    clock: u32,
    /// The interrupt, and how /proc/interrupts describes it.
    interrupt: (u32, String),
    elsewhere: Elsewhere,
    pings: Arc<Mutex<Pings>>,
    launches: Arc<Mutex<Launches>>,
    thread: Thread,
    gone: Arc<OnceLock<String>>,
}

/// What the thread needs from one turn to the next.
struct Pings {
    echo: Echo,
    sequence: u16,
    patience: Duration,
    /// Since the latest stamped reply, without other sources' turns.
    silent: Duration,
    phc: Phc,
    line: ClockLine,
    /// The newest reading of the clock.
    before: Vec<Sample>,
}

impl Reply {
    /// Prepares the card, and has the interrupt that brings the replies come to that CPU. `target` is `IF,PEER`.
    ///
    /// # Errors
    /// [`Error::Usage`] or [`Error::Cannot`] if the target is wrong, the card cannot be used, or the neighbour does
    /// not answer.
    pub fn new(target: &str, cpu: u32, idle: &Idle, journal: &mut Journal) -> Result<Self> {
        let target = Target::parse(target)?;
        let (name, peer) = (&*target.interface, target.peer);
        let card = Card::of(&Root::default(), name)?;
        let elsewhere = Elsewhere::than(cpu, idle);
        if elsewhere.cpus.is_empty() {
            return Err(Error::Cannot(
                "source reply: a second CPU must send the pings, and no other CPU is usable".into(),
            ));
        }
        let echo = Echo::open(name, card.interface.index, peer)?;
        if echo.sender() == Some(peer) {
            return Err(Error::Usage(format!(
                "source reply: {peer} is this machine's own address; name a neighbour's"
            )));
        }
        let mut phc = Phc::open("reply", card.clock, &card.driver)?;
        card.timestamp(journal)?;
        let mut probe = Probe {
            finder: Finder::load(card.interface.index)?,
            echo,
            sequence: 0,
            longest_way: Duration::ZERO,
        };
        probe.wait_for_stamps(name, peer)?;
        let number = probe.interrupt_of(&card, peer)?;
        let affinity = format!("/proc/irq/{number}/smp_affinity_list");
        journal.set(&affinity, &cpu.to_string())?;
        probe.wait_for_interrupts_on(cpu, number)?;

        let mut line = phc.line()?;
        let end = Instant::now() + RATE_TAKES;
        let mut before = phc.burst()?;
        while Instant::now() < end {
            // A step is followed.
            let _ = line.add(&before);
            std::thread::sleep(RATE_PAUSE);
            before = phc.burst()?;
        }
        let described = card.interface.interrupts.iter();
        let described = described.filter(|one| one.number == number);
        let described = described.filter_map(|one| one.name.clone()).next();
        Ok(Self {
            clock: phc.number,
            interrupt: (number, described.unwrap_or_default()),
            elsewhere,
            pings: Arc::new(Mutex::new(Pings {
                echo: probe.echo,
                sequence: probe.sequence,
                silent: Duration::ZERO,
                patience: (8 * probe.longest_way).clamp(SHORTEST_PATIENCE, LONGEST_WAY),
                phc,
                line,
                before,
            })),
            launches: Arc::default(),
            thread: Thread::default(),
            gone: Arc::default(),
            target,
            card,
        })
    }
}

/// Pings before anything is measured.
struct Probe {
    finder: Finder,
    echo: Echo,
    sequence: u16,
    longest_way: Duration,
}

impl Probe {
    /// One ping: its reply and what brought it; `None` without a reply.
    fn ping(&mut self) -> Result<Option<(echo::Reply, Option<Came>)>> {
        std::thread::sleep(PROBE_PAUSE);
        self.sequence = self.sequence.wrapping_add(1);
        self.finder.expect(self.echo.number(self.sequence));
        let sent = Instant::now();
        // An error is one of the neighbour's or the link's, as is silence.
        let reply = self
            .echo
            .send(self.sequence)
            .and_then(|()| self.echo.reply(self.sequence, LONGEST_WAY));
        let Ok(Some(reply)) = reply else {
            return Ok(None);
        };
        self.longest_way = self.longest_way.max(sent.elapsed());
        Ok(Some((reply, self.finder.came())))
    }

    fn wait_for_stamps(&mut self, interface: &str, peer: IpAddr) -> Result<()> {
        let end = Instant::now() + ANSWERS_WITHIN;
        let mut answered = false;
        while Instant::now() < end {
            match self.ping()? {
                Some((reply, _)) if reply.stamp_ns.is_some() => {
                    // The first one had the address resolved.
                    self.longest_way = Duration::ZERO;
                    return Ok(());
                }
                reply => answered |= reply.is_some(),
            }
        }
        Err(Error::Cannot(match answered {
            true => format!(
                "source reply: {interface} does not timestamp the replies of {peer}, though its driver says it would"
            ),
            false => format!(
                "source reply: {peer} does not answer pings through {interface}: is it on, does its firewall allow \
                 them, and has {interface} an address in its network?"
            ),
        }))
    }

    /// The interrupt that brings most replies.
    fn interrupt_of(&mut self, card: &Card, peer: IpAddr) -> Result<u32> {
        let mut seen = Vec::new();
        for _ in 0..PROBES {
            seen.extend(self.ping()?.and_then(|(_, came)| came));
        }
        let name = &card.interface.name;
        let of_card = card.interface.interrupts.iter().map(|one| one.number);
        let times = |number: &u32| seen.iter().filter(|one| one.interrupt == *number).count();
        let most = of_card.max_by_key(times);
        most.filter(|number| times(number) > 0).ok_or_else(|| {
            Error::Cannot(format!(
                "source reply: no interrupt of {name} brings the replies of {peer}: something polls the card \
                 (net.core.busy_poll, an application)"
            ))
        })
    }

    fn wait_for_interrupts_on(&mut self, cpu: u32, number: u32) -> Result<()> {
        let end = Instant::now() + MOVES_WITHIN;
        let mut elsewhere = None;
        while Instant::now() < end {
            match self.ping()?.and_then(|(_, came)| came) {
                Some(came) if came.cpu == cpu => return Ok(()),
                came => elsewhere = came.or(elsewhere),
            }
        }
        Err(Error::Cannot(match elsewhere {
            Some(came) => format!(
                "source reply: interrupt {number} goes to CPU {}, not to CPU {cpu}: the interrupt controller or \
                 another program (irqbalance) decides so",
                came.cpu
            ),
            None => format!("source reply: no reply came after interrupt {number} was moved"),
        }))
    }
}

impl EventSource for Reply {
    fn source(&self) -> Source {
        Source::Reply
    }

    fn arming(&self, _: &Kernel) -> String {
        let Card {
            interface, driver, ..
        } = &self.card;
        let (number, described) = &self.interrupt;
        let sleep = match &interface.link_states {
            Some(states) if states.is_empty() => "off".to_owned(),
            Some(states) => states.join(" "),
            None => "unknown".to_owned(),
        };
        format!(
            "pings of {} through {} ({driver}), interrupt {number} ({described}); the launch time is the reply's \
             timestamp by the card's clock, /dev/ptp{}; {}; ASPM {sleep}",
            self.target.peer,
            interface.name,
            self.clock,
            self.card.moderation()
        )
    }

    fn reservation(&self) -> Option<String> {
        self.card.reservation()
    }

    fn device_interrupt(&self) -> Option<u32> {
        Some(self.interrupt.0)
    }

    fn interface(&self) -> Option<u32> {
        Some(self.card.interface.index)
    }

    fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    fn gone(&self) -> Option<String> {
        self.gone.get().cloned()
    }

    fn launch(&self, event: &types::event) -> Launch {
        let known = lock(&self.launches).take(event.number);
        known.unwrap_or(match self.thread.is_started() {
            true => Launch::NotYet,
            false => Launch::Dropped(UNSTAMPED),
        })
    }

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        lock(&self.launches).clear();
        let pinger = Pinger {
            pings: self.pings.clone(),
            launches: self.launches.clone(),
            shared: kernel.shared().clone(),
            distances: distances.to_vec(),
            elsewhere: self.elsewhere.clone(),
            target: self.target.clone(),
            gone: self.gone.clone(),
        };
        self.thread.start("pinger", move |stop| pinger.run(stop))
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        self.thread.end()?;
        wait_until_settled(kernel, longest_ns.min(10_000_000));
        Ok(())
    }
}

const UNSTAMPED: &str = "its reply has no timestamp";
const STEPPED: &str = "a clock was set";

/// Pings, and tells when replies arrived.
struct Pinger {
    pings: Arc<Mutex<Pings>>,
    launches: Arc<Mutex<Launches>>,
    shared: Arc<Shared<types::bss>>,
    distances: Vec<u64>,
    elsewhere: Elsewhere,
    target: Target,
    gone: Arc<OnceLock<String>>,
}

impl Pinger {
    fn run(self, stop: &AtomicBool) -> Result<()> {
        self.elsewhere.go()?;
        // Without the priority, pings are later than planned; timestamps stay correct.
        affinity::be_prompt();
        let mut pings = lock(&self.pings);
        // Nothing was read while other sources had their turns.
        pings.before = pings.phc.burst()?;
        let mut since = Instant::now();
        let mut failure = Failure::Silent;
        for &distance in self.distances.iter().cycle() {
            let armed_at = now_ns();
            sleep_until(armed_at + distance.max(SHORTEST_NS));
            if stop.load(Relaxed) {
                break;
            }
            match self.ping(&mut pings, armed_at)? {
                Ok(Some(reply)) if reply.stamp_ns.is_some() => {
                    (pings.silent, since) = (Duration::ZERO, Instant::now());
                }
                Ok(Some(_)) => failure = Failure::Unstamped,
                Ok(None) => failure = Failure::Silent,
                Err(errno) => failure = Failure::Unsent(errno),
            }
            if pings.silent + since.elapsed() > SILENT {
                let _ = self.gone.set(failure.words(&self.target));
                break;
            }
        }
        pings.silent += since.elapsed();
        Ok(())
    }

    /// The reply, if it came, or why the ping was not sent.
    fn ping(&self, pings: &mut Pings, armed_at: u64) -> Result<nix::Result<Option<echo::Reply>>> {
        let place = self.shared.at(0);
        let awaited = word!(place, types::bss, awaited);
        pings.sequence = pings.sequence.wrapping_add(1);
        let (sequence, number) = (pings.sequence, pings.echo.number(pings.sequence));
        word!(place, types::bss, device_armed_at).store(armed_at, Relaxed);
        awaited.store(number, Release);
        let reply = pings.echo.send(sequence);
        let reply = reply.and_then(|()| pings.echo.reply(sequence, pings.patience));
        // The BPF program clears it in the same way when it has seen the reply.
        if awaited.swap(0, AcqRel) != 0 {
            word!(place, types::bss, unanswered).fetch_add(1, Relaxed);
        }
        let before = std::mem::replace(&mut pings.before, pings.phc.burst()?);
        let stamp = reply.ok().flatten();
        let launch = match stamp.and_then(|reply| reply.stamp_ns) {
            None => Launch::Dropped(UNSTAMPED),
            Some(stamp) => match pings.launch(&before, stamp) {
                Ok(instant) => Launch::At {
                    at_ns: instant.at_ns,
                    error_ns: instant.error_ns,
                    clock: stamp,
                },
                Err(Dropped::Stepped | Dropped::Outside) => Launch::Dropped(STEPPED),
                Err(Dropped::NoSample) => Launch::Dropped("the card's clock could not be read"),
            },
        };
        lock(&self.launches).add(number, launch);
        Ok(reply)
    }
}

impl Pings {
    /// When the card saw the reply that it stamped so, between the burst before the ping and the newest one.
    fn launch(
        &mut self,
        before: &[Sample],
        stamp: u64,
    ) -> std::result::Result<clock_line::Instant, Dropped> {
        let Self {
            phc,
            line,
            before: after,
            ..
        } = self;
        phc.launch(line, before, stamp, after)
    }
}

/// Why the latest ping was of no use.
enum Failure {
    Silent,
    Unstamped,
    Unsent(Errno),
}

impl Failure {
    fn words(&self, target: &Target) -> String {
        let Target { interface, peer } = target;
        match self {
            Self::Silent => format!("{peer} no longer answers pings"),
            Self::Unstamped => format!(
                "{interface} no longer timestamps the replies of {peer}: another program (ptp4l?) has changed its \
                 setting, or the card was reset"
            ),
            Self::Unsent(errno) => {
                format!("{peer} no longer answers pings: {}", errno.desc())
            }
        }
    }
}

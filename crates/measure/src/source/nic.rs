//! A network card wakes the measured CPU: its interrupt at a target time of its own clock.
//!
//! The card keeps its driver and its traffic. A thread on another CPU asks the driver for target times
//! ([`perout`]), as for an output on a pin; the interrupt comes with each edge. The launch time is the target time, by
//! the line from the card's clock to CLOCK_MONOTONIC: that clock is read before the launch is armed and after its
//! interrupt, never near it, since a read wakes the card's link. Where launches are periodic (igc), another CPU's
//! message wakes the measured CPU a launch distance ahead, so that it then sleeps for that.

mod card;
mod output;
mod perout;

use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use reveille_figures::clock_line::{ClockLine, Dropped, Sample};
use reveille_kernel::bpf::{Shared, word};
use reveille_kernel::interrupts::{Interrupts, Line};
use reveille_kernel::{Idle, Journal, Root, affinity, now_ns};
use reveille_results::Source;

use self::card::Card;
use self::perout::{Request, Rule};
use super::event_source::{EventSource, Launch, wait_until_settled};
use super::launches::{Launches, lock};
use super::phc::Phc;
use super::remote::dummy_event;
use super::thread::Thread;
use crate::kernel::{Kernel, types};
use crate::placement::Elsewhere;
use crate::user::sleep_until;
use crate::{Error, Options, Result};

/// The clock's rate is known after this.
const RATE_TAKES: Duration = Duration::from_millis(600);
const RATE_PAUSE: Duration = Duration::from_millis(50);
/// Launches that show which interrupt is theirs.
const PROBES: usize = 3;
const PROBE_AHEAD_NS: u64 = 5_000_000;
/// For a hypervisor; less than from one periodic launch to the next.
const PROBE_WAITS_NS: u64 = 50_000_000;
/// Periodic launches take two seconds to begin anew.
const MOVES_WITHIN: Duration = Duration::from_secs(10);
const FOUND_WITHIN: Duration = Duration::from_secs(10);
/// The clock is read no earlier than this after a launch, ns, so that it disturbs no wake-up.
const AFTER_NS: u64 = 100_000;
/// How often the thread looks whether an interrupt came, ns.
const LOOK_NS: u64 = 100_000;
/// After this a launch is lost: no interrupt takes so long, other than a hypervisor's.
const LOST_AFTER_NS: u64 = 300_000_000;
/// So many lost ones in a row end the run.
const LOST_MOST: u32 = 20;
/// From the choice of a periodic launch to the beginning of its distance, at least, ns.
const PREPARED_NS: u64 = 500_000;
/// How often the thread looks whether it should end while it waits for a periodic launch, ns.
const PATIENCE_NS: u64 = 20_000_000;

pub struct Nic {
    card: Card,
    clock: u32,
    interrupt: Line,
    number: u32,
    elsewhere: Elsewhere,
    pacing: Arc<Mutex<Pacing>>,
    launches: Arc<Mutex<Launches>>,
    thread: Thread,
    gone: Arc<OnceLock<String>>,
}

/// What the thread needs from one turn to the next.
struct Pacing {
    rule: Rule,
    phc: Phc,
    line: ClockLine,
    /// The periodic launches that the card makes.
    running: Option<Request>,
    /// The card's clock at the latest look.
    latest: u64,
    /// The latest launch's; not 0.
    number: u32,
    /// Launches without an interrupt, the latest in a row.
    lost: u32,
    /// Reading it sends the measured CPU a message.
    kick: File,
}

/// Counts around a launch.
struct Probe<T> {
    before: T,
    after: T,
    /// The launches before and after it were outside.
    is_of_one_launch: bool,
}

/// A launch to come.
struct Aim {
    /// The card's clock.
    target: u64,
    /// CLOCK_MONOTONIC, and how far off that may be, ns.
    at: u64,
    error_ns: u64,
    /// Since when the CPU may sleep for it.
    armed_at: u64,
}

impl Aim {
    /// Whether it is the only launch between these two times, if launches are so far apart.
    fn is_alone(&self, from: u64, to: u64, interval_ns: u64) -> bool {
        from + self.error_ns < self.at && to + self.error_ns < self.at + interval_ns
    }
}

impl Nic {
    /// Switches the pin, finds the card's interrupt, and has it come to the measured CPU.
    ///
    /// # Errors
    /// [`Error::Usage`] or [`Error::Cannot`] if the card cannot be used.
    pub fn new(name: &str, options: &Options, idle: &Idle, journal: &mut Journal) -> Result<Self> {
        let cpu = options.cpu;
        let (card, phc) = Card::of(&Root::default(), name, options.nic_pin.as_deref())?;
        if let Some(longest) = card.rule.longest_ns()
            && options.distances.max_ns > longest
        {
            return Err(Error::Usage(format!(
                "source nic: {name} (driver {}) launches at most {} ms ahead; shorten --distance",
                card.driver,
                longest / 1_000_000
            )));
        }
        let elsewhere = Elsewhere::than(cpu, idle);
        if elsewhere.cpus.is_empty() {
            return Err(Error::Cannot(
                "source nic: a second CPU must set the target times, and no other CPU is usable"
                    .into(),
            ));
        }
        let kick = dummy_event(cpu).map_err(|error| {
            Error::Cannot(format!("source nic: no perf event on CPU {cpu} ({error})"))
        })?;
        card.switch_pin(phc.number, journal)?;
        let clock = phc.number;
        let mut pacing = Pacing::of(card.rule, phc, kick.into())?;
        let number = pacing.interrupt_of(&card)?;
        journal.set(
            &format!("/proc/irq/{number}/smp_affinity_list"),
            &cpu.to_string(),
        )?;
        pacing.wait_for_interrupts_on(cpu, number)?;
        Ok(Self {
            clock,
            interrupt: listed(number).unwrap_or(Line {
                name: number.to_string(),
                counts: Vec::new(),
                description: String::new(),
            }),
            number,
            elsewhere,
            pacing: Arc::new(Mutex::new(pacing)),
            launches: Arc::default(),
            thread: Thread::default(),
            gone: Arc::default(),
            card,
        })
    }
}

impl EventSource for Nic {
    fn source(&self) -> Source {
        Source::Nic
    }

    fn arming(&self, _: &Kernel) -> String {
        let Card {
            interface,
            driver,
            rule,
            pin,
        } = &self.card;
        let shared = match self.interrupt.description.contains(',') {
            true => "shared with other devices",
            false => "not shared",
        };
        let when = match rule {
            Rule::EachLaunch => "a target time for each launch",
            Rule::Periodic => {
                "a launch each 70 ms, and another CPU's message a launch distance ahead of it"
            }
        };
        format!(
            "network card of {} ({driver}), interrupt {} ({}), {shared}; {when}, by the card's clock, /dev/ptp{}, and \
             its pin {pin}; ASPM {}",
            interface.name,
            self.number,
            self.interrupt.description,
            self.clock,
            self.card.link_sleep()
        )
    }

    fn reservation(&self) -> Option<String> {
        let sleeps = self.card.interface.link_states.as_ref();
        let sleeps = sleeps.is_some_and(|states| !states.is_empty());
        let link = match sleeps {
            true => "; the card's link may sleep (ASPM), which delays its interrupt",
            false => "",
        };
        Some(format!(
            "source nic: no real card has been measured with it yet, only a made-up one; compare its floor with that \
             of hpet (--source hpet,nic:{}){link}",
            self.card.interface.name
        ))
    }

    fn device_interrupt(&self) -> Option<u32> {
        Some(self.number)
    }

    fn gone(&self) -> Option<String> {
        self.gone.get().cloned()
    }

    fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    fn slowest(&self) -> Duration {
        Duration::from_nanos(self.card.rule.least_ns())
    }

    fn launch(&self, event: &types::event) -> Launch {
        let known = lock(&self.launches).take(event.number);
        known.unwrap_or(match self.thread.is_started() {
            true => Launch::NotYet,
            false => Launch::Dropped(UNREAD),
        })
    }

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        lock(&self.launches).clear();
        let pacer = Pacer {
            pacing: self.pacing.clone(),
            launches: self.launches.clone(),
            shared: kernel.shared().clone(),
            distances: distances.to_vec(),
            elsewhere: self.elsewhere.clone(),
            name: self.card.interface.name.clone(),
            gone: self.gone.clone(),
        };
        self.thread.start("pacer", move |stop| pacer.run(stop))
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        self.thread.end()?;
        wait_until_settled(kernel, longest_ns.min(10_000_000));
        Ok(())
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.thread));
        // The journal does that, too.
        let _ = output::switch_off(lock(&self.pacing).phc.device());
    }
}

const UNREAD: &str = "its launch time is not known";
const STEPPED: &str = "a clock was set";
const TOO_LATE: &str = "armed too late";

/// The interrupt of that number in /proc/interrupts.
fn listed(number: u32) -> Option<Line> {
    let all = Interrupts::read(&Root::default())?.lines;
    all.into_iter().find(|line| line.name == number.to_string())
}

/// How often an interrupt came, on all CPUs together.
fn of_all_cpus(all: &Interrupts, number: u32) -> Option<u64> {
    let number = number.to_string();
    let line = all.lines.iter().find(|line| line.name == number)?;
    Some(line.counts.iter().sum())
}

/// Which interrupt came once with most probes, by how often each did. Of two the first: the drivers have those for
/// packets after it.
fn with_most(once: &[usize]) -> Option<usize> {
    let most = once.iter().copied().max()?;
    let first = once.iter().position(|times| *times == most);
    first.filter(|_| 2 * most > PROBES)
}

impl Pacing {
    fn of(rule: Rule, mut phc: Phc, kick: File) -> Result<Self> {
        let mut line = phc.line()?;
        let end = Instant::now() + RATE_TAKES;
        while Instant::now() < end {
            // A step is followed.
            let _ = line.add(&phc.burst()?);
            std::thread::sleep(RATE_PAUSE);
        }
        Ok(Self {
            rule,
            phc,
            line,
            running: None,
            latest: 0,
            number: 0,
            lost: 0,
            kick,
        })
    }

    /// The card's interrupt that comes once with each of some launches.
    fn interrupt_of(&mut self, card: &Card) -> Result<u32> {
        let numbers: Vec<u32> = card
            .interface
            .interrupts
            .iter()
            .map(|one| one.number)
            .collect();
        let counts = || {
            let all = Interrupts::read(&Root::default()).unwrap_or_default();
            let count = |number: &u32| of_all_cpus(&all, *number).unwrap_or(0);
            numbers.iter().map(count).collect::<Vec<_>>()
        };
        let name = &card.interface.name;
        let end = Instant::now() + FOUND_WITHIN;
        let mut once = vec![0; numbers.len()];
        let mut probes = 0;
        let mut why = format!(
            "{name}'s launches cannot be told apart, as its clock or /proc/interrupts takes too long to read; try again \
             when the machine is idle"
        );
        loop {
            let probe = self.probe(counts)?;
            if probe.is_of_one_launch {
                probes += 1;
                for (at, times) in once.iter_mut().enumerate() {
                    *times += usize::from(probe.after[at] == probe.before[at] + 1);
                }
            }
            if probes == PROBES {
                if let Some(found) = with_most(&once) {
                    return Ok(numbers[found]);
                }
                if once.iter().all(|times| *times == 0) {
                    // The driver may have moved the start of periodic launches: they are begun anew.
                    self.running = None;
                }
                once.fill(0);
                probes = 0;
                why = format!(
                    "no interrupt of {name} came once at its target times; if the card is busy, try again without its \
                     traffic"
                );
            }
            if Instant::now() > end {
                return Err(Error::Cannot(format!("source nic: {why}")));
            }
        }
    }

    /// Some controllers move an interrupt only when it next comes.
    fn wait_for_interrupts_on(&mut self, cpu: u32, number: u32) -> Result<()> {
        let counts = || {
            let all = Interrupts::read(&Root::default()).unwrap_or_default();
            (
                all.count(&number.to_string(), cpu),
                of_all_cpus(&all, number),
            )
        };
        let end = Instant::now() + MOVES_WITHIN;
        while Instant::now() < end {
            let probe = self.probe(counts)?;
            let (before, after) = (probe.before, probe.after);
            if after.0 > before.0 {
                return Ok(());
            }
            if probe.is_of_one_launch && after.1 == before.1 {
                // The card was reset: periodic launches are begun anew.
                self.running = None;
            }
        }
        Err(Error::Cannot(format!(
            "source nic: interrupt {number} does not come to CPU {cpu}: the interrupt controller or another program \
             (irqbalance) decides so"
        )))
    }

    /// A launch that nobody observes; returns after its interrupt.
    fn probe<T>(&mut self, count: impl Fn() -> T) -> Result<Probe<T>> {
        let readings = self.phc.burst()?;
        let aim = self.aim(&readings, PROBE_AHEAD_NS)?;
        sleep_until(aim.armed_at);
        // Of the launches before. Reading the clock may have taken longer than from one to the next.
        let before = count();
        self.arm(&aim)?;
        let armed = now_ns();
        sleep_until(aim.at + PROBE_WAITS_NS);
        let after = count();
        Ok(Probe {
            before,
            after,
            is_of_one_launch: aim.is_alone(armed, now_ns(), self.rule.interval_ns()),
        })
    }

    /// The next launch that is so far ahead. `before`: the newest readings of the clock.
    fn aim(&mut self, before: &[Sample], distance: u64) -> Result<Aim> {
        // A step since the launch before is none of this one.
        let _ = self.line.add(before);
        let newest = before.last().expect("a burst has readings");
        let latest = std::mem::replace(&mut self.latest, newest.foreign_ns);
        self.running = self
            .running
            .filter(|running| !running.was_set_back(latest, newest.foreign_ns));
        let clock_at = |time: u64| newest.foreign_ns + time.saturating_sub(newest.after_ns);
        let target = match self.rule {
            Rule::EachLaunch => clock_at(now_ns()) + distance,
            Rule::Periodic => {
                let running = match self.running {
                    Some(running) => running,
                    None => {
                        let request = self.rule.request(clock_at(now_ns()), 0);
                        output::arm(self.phc.device(), &request)?;
                        *self.running.insert(request)
                    }
                };
                running.edge(clock_at(now_ns()) + distance + PREPARED_NS)
            }
        };
        let instant = self.line.extrapolate(target);
        let (at, error_ns) = instant.map_or((0, 0), |instant| (instant.at_ns, instant.error_ns));
        Ok(Aim {
            target,
            at,
            error_ns,
            armed_at: match self.rule {
                Rule::EachLaunch => now_ns(),
                Rule::Periodic => at.saturating_sub(distance),
            },
        })
    }

    /// Sets the target time, or, of a periodic launch, has the CPU begin to sleep for it.
    fn arm(&mut self, aim: &Aim) -> Result<()> {
        match self.rule {
            Rule::EachLaunch => output::arm(self.phc.device(), &self.rule.request(0, aim.target)),
            Rule::Periodic => {
                let read = self.kick.read_exact(&mut [0; 8]);
                read.map_err(|error| Error::Cannot(format!("source nic: a perf event: {error}")))
            }
        }
    }
}

/// Sets target times, and tells when launches were.
struct Pacer {
    pacing: Arc<Mutex<Pacing>>,
    launches: Arc<Mutex<Launches>>,
    shared: Arc<Shared<types::bss>>,
    distances: Vec<u64>,
    elsewhere: Elsewhere,
    name: String,
    gone: Arc<OnceLock<String>>,
}

impl Pacer {
    fn run(self, stop: &AtomicBool) -> Result<()> {
        self.elsewhere.go()?;
        // Without the priority, launches may be armed too late; those are dropped.
        affinity::be_prompt();
        let mut pacing = lock(&self.pacing);
        for &distance in self.distances.iter().cycle() {
            match self.launch(&mut pacing, distance, stop)? {
                None => break,
                Some(true) => pacing.lost = 0,
                Some(false) => pacing.lost += 1,
            }
            if pacing.lost >= LOST_MOST {
                let name = &self.name;
                let _ = self
                    .gone
                    .set(format!("the card of {name} no longer interrupts"));
                break;
            }
        }
        if pacing.rule == Rule::EachLaunch {
            // Half a period after the latest launch, another would come.
            output::switch_off(pacing.phc.device())?;
        }
        Ok(())
    }

    /// Whether the interrupt came; `None` at the end.
    fn launch(
        &self,
        pacing: &mut Pacing,
        distance: u64,
        stop: &AtomicBool,
    ) -> Result<Option<bool>> {
        let before = pacing.phc.burst()?;
        let aim = pacing.aim(&before, distance)?;
        // The first of periodic launches may be seconds ahead.
        while aim.armed_at > now_ns() + PATIENCE_NS && !stop.load(Relaxed) {
            sleep_until(now_ns() + PATIENCE_NS / 2);
        }
        if stop.load(Relaxed) {
            return Ok(None);
        }
        // The periodic launch before this one may come until then.
        sleep_until(aim.armed_at);
        let place = self.shared.at(0);
        let awaited = word!(place, types::bss, awaited);
        pacing.number = pacing.number.checked_add(1).unwrap_or(1);
        word!(place, types::bss, device_armed_at).store(aim.armed_at, Relaxed);
        awaited.store(pacing.number, Release);
        pacing.arm(&aim)?;
        let is_late = now_ns() + aim.error_ns >= aim.at;
        sleep_until(aim.at + AFTER_NS);
        while awaited.load(Acquire) != 0 && now_ns() < aim.at + LOST_AFTER_NS {
            sleep_until(now_ns() + LOOK_NS);
        }
        // The BPF program clears it in the same way.
        let is_lost = awaited.swap(0, AcqRel) != 0;
        let after = pacing.phc.burst()?;
        pacing.latest = after.last().map_or(0, |newest| newest.foreign_ns);
        let Pacing { phc, line, .. } = &mut *pacing;
        let instant = phc.launch(line, &before, aim.target, &after);
        if is_lost {
            word!(place, types::bss, unanswered).fetch_add(1, Relaxed);
        }
        if is_lost || instant.is_err() {
            // The card was reset, or its clock set: periodic launches are begun anew.
            pacing.running = None;
        }
        let launch = match instant {
            _ if is_late => Launch::Dropped(TOO_LATE),
            Ok(instant) => Launch::At {
                at_ns: instant.at_ns,
                error_ns: instant.error_ns,
                clock: aim.target,
            },
            Err(Dropped::Stepped | Dropped::Outside) => Launch::Dropped(STEPPED),
            Err(Dropped::NoSample) => Launch::Dropped(UNREAD),
        };
        lock(&self.launches).add(pacing.number, launch);
        Ok(Some(!is_lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_of_one_launch_if_the_others_are_outside() {
        let aim = Aim {
            target: 0,
            at: 1_000,
            error_ns: 10,
            armed_at: 0,
        };
        assert!(aim.is_alone(989, 1_059, 70));
        assert!(!aim.is_alone(990, 1_059, 70));
        assert!(!aim.is_alone(989, 1_060, 70));
    }

    #[test]
    fn the_interrupt_that_comes_with_most_probes_is_the_cards() {
        assert_eq!(with_most(&[3, 0, 0]), Some(0));
        assert_eq!(with_most(&[0, 2]), Some(1));
        // Packets, now and then, and as often.
        assert_eq!(with_most(&[0, 1, 1]), None);
        assert_eq!(with_most(&[2, 3]), Some(1));
        assert_eq!(with_most(&[3, 3]), Some(0));
        assert_eq!(with_most(&[]), None);
    }
}

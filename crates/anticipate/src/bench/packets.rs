//! Packets that arrive periodically, or that a hint announces, at a socket of this machine.
//!
//! A thread on another CPU sends them, each with the time of its sending, and the one that waits reads
//! them: a latency is from just before the sending until the reader has the packet. Both go by one
//! clock. The sender is awake when it sends, whatever the policy.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reveille_expect::remote::{Announced, Hint, Sender, Service};
use reveille_kernel::affinity::{self, Binding};
use reveille_kernel::asleep::Counts;
use reveille_trial::setting::Machine;

use crate::bench::assist::{Assist, Device, Running};
use crate::bench::clock;
use crate::bench::policy::{Policy, PolicySetting};
use crate::bench::result::{Plan, Point, Workload};
use crate::bench::work::{Sample, Work};
use crate::{Error, Result};

/// The packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// From one packet to the next, ns; with hints the mean of an exponential distribution.
    pub gaps_ns: Vec<u64>,
    /// Each packet is early or late by a time that is uniform up to this, ns.
    pub jitter_ns: u64,
    /// So long before each packet its hint is sent, ns; `None`: they are periodic.
    pub hint_ns: Option<u64>,
}

/// Packets before those that count, at most: enough to learn a period.
const WARM_UP: u64 = 64;

/// An engine for packets.
pub trait AssistPackets: Assist {
    /// Where it takes hints.
    fn hints_at(&self) -> Option<SocketAddr>;
}

/// The workload.
pub struct Packets<'a> {
    machine: &'a Machine,
    assist: Option<&'a dyn AssistPackets>,
    points: Vec<Point>,
    pattern: Pattern,
}

/// What both threads share.
struct Pattern {
    options: Options,
    plan: Plan,
    counts: Counts,
    sender_cpu: u32,
    reader: UdpSocket,
    sender: UdpSocket,
}

/// The sender stays awake for this time before it sends, so that its own wake-up is not in the latency; ns.
const AWAKE_NS: u64 = 300_000;

/// The last datagram of a turn.
const END: u64 = 0;
/// In the interface `lo`.
const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

impl<'a> Packets<'a> {
    /// # Errors
    /// [`Error::Cannot`] on a machine of one CPU, or without sockets.
    pub fn new(
        machine: &'a Machine,
        mut options: Options,
        plan: Plan,
        assist: Option<&'a dyn AssistPackets>,
    ) -> Result<Self> {
        options.gaps_ns.sort_unstable();
        options.gaps_ns.dedup();
        let allowed = affinity::allowed();
        let sender_cpu = allowed.into_iter().find(|cpu| *cpu != plan.cpu);
        let sender_cpu = sender_cpu.ok_or_else(|| {
            Error::Cannot("packets need two CPUs: one sends, and one waits".into())
        })?;
        let (reader, sender) = (UdpSocket::bind(LOOPBACK), UdpSocket::bind(LOOPBACK));
        let (reader, sender) = (reader.map_err(failed)?, sender.map_err(failed)?);
        sender
            .connect(reader.local_addr().map_err(failed)?)
            .map_err(failed)?;
        reader
            .set_read_timeout(Some(Duration::from_secs(1)))
            .map_err(failed)?;
        Ok(Self {
            points: options.gaps_ns.iter().copied().map(Point::idle).collect(),
            machine,
            assist,
            pattern: Pattern {
                counts: Counts::of(&machine.root, &machine.idle, plan.cpu),
                options,
                plan,
                sender_cpu,
                reader,
                sender,
            },
        })
    }
}

impl Pattern {
    fn warm_up(&self) -> u64 {
        self.plan.warm_up.min(WARM_UP)
    }

    /// Sends until the turn is over.
    fn send(&self, gap_ns: u64, seed: u64, hints: Option<Sender>, stop: &AtomicBool) -> Result<()> {
        let sent = self.send_all(gap_ns, seed, hints, stop);
        let ended = self.sender.send(&END.to_ne_bytes()).map_err(failed);
        sent.and(ended.map(|_| ()))
    }

    fn send_all(
        &self,
        gap_ns: u64,
        seed: u64,
        mut hints: Option<Sender>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let bound = Binding::here(self.sender_cpu)?;
        clock::exact_timers();
        let mut random = fastrand::Rng::with_seed(seed);
        let service = Service::udp(self.reader.local_addr().map_err(failed)?.port());
        let mut at_ns = clock::now_ns();
        let mut end_ns = u64::MAX;
        for nth in 0..self.warm_up() + self.plan.waits {
            if nth == self.warm_up() {
                end_ns = at_ns + (self.plan.turn_s * 1e9) as u64;
            }
            at_ns += match self.options.hint_ns {
                Some(lead_ns) => lead_ns + (-(1.0 - random.f64()).ln() * gap_ns as f64) as u64,
                None => gap_ns,
            };
            let jitter_ns = random.u64(0..=2 * self.options.jitter_ns);
            let due_ns = (at_ns + jitter_ns).saturating_sub(self.options.jitter_ns);
            if stop.load(Ordering::Relaxed) || due_ns > end_ns {
                break;
            }
            if let (Some(sender), Some(lead_ns)) = (&mut hints, self.options.hint_ns) {
                clock::sleep_until(due_ns - lead_ns.min(due_ns));
                let after = Duration::from_nanos(lead_ns);
                let announced = Announced {
                    after,
                    within: after / 10,
                };
                // One that is lost, or that nobody takes, is a packet without a hint.
                let _ = sender.send(&Hint { service, announced });
            }
            clock::sleep_until(due_ns.saturating_sub(AWAKE_NS));
            clock::spin_until(due_ns);
            let now = clock::now_ns().to_ne_bytes();
            self.sender.send(&now).map_err(failed)?;
        }
        bound.holds()
    }

    fn read(&self, stop: &AtomicBool) -> Result<Sample> {
        let bound = Binding::here(self.plan.cpu)?;
        let mut sample = Sample::default();
        let mut before = None;
        let mut seen = 0;
        loop {
            let mut sent = [0; 8];
            match self.reader.recv(&mut sent) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    match stop.load(Ordering::Relaxed) {
                        true => break,
                        false => continue,
                    }
                }
                Err(error) => return Err(failed(error)),
            }
            let now = clock::now_ns();
            let sent = u64::from_ne_bytes(sent);
            if sent == END {
                break;
            }
            if before.is_some() {
                sample.latencies_ns.push(now.saturating_sub(sent));
            }
            seen += 1;
            if seen >= self.warm_up().max(1) && before.is_none() {
                before = Some((self.counts.read(), clock::now_ns()));
            }
        }
        if let Some((reading, began)) = before {
            sample.elapsed_ns = clock::now_ns() - began;
            sample.asleep_ns = self.counts.read().since(&reading);
        }
        bound.holds()?;
        Ok(sample)
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::System {
        what: "packets of the benchmark",
        source,
    }
}

impl Work for Packets<'_> {
    fn describe(&self) -> Workload {
        let what = match self.pattern.options.hint_ns {
            Some(lead_ns) => format!(
                "packets at random times on lo, each announced {} before",
                Point::idle(lead_ns).name
            ),
            None => match self.pattern.options.jitter_ns {
                0 => "periodic packets on lo".to_owned(),
                ns => format!("periodic packets on lo, jitter {}", Point::idle(ns).name),
            },
        };
        Workload {
            kind: "packets".into(),
            what,
            waits_for: "packet".into(),
            ..Workload::default()
        }
    }

    fn points(&self) -> &[Point] {
        &self.points
    }

    fn expected(&self, point: usize) -> Duration {
        let gap_ns =
            self.pattern.options.gaps_ns[point] + self.pattern.options.hint_ns.unwrap_or(0);
        let turn = Duration::from_secs_f64(self.pattern.plan.turn_s);
        Duration::from_nanos(self.pattern.warm_up() * gap_ns)
            + Duration::from_nanos(self.pattern.plan.waits * gap_ns).min(turn)
    }

    fn setting(&self, policy: Policy) -> Result<PolicySetting> {
        match policy {
            Policy::AsIs => Ok(PolicySetting::as_is("nothing is changed")),
            Policy::Shallowest => {
                PolicySetting::shallowest(&self.machine.idle, self.pattern.plan.cpu)
            }
            Policy::NoSleep => PolicySetting::no_sleep(&self.machine.idle),
            Policy::Poll => Err(Error::Cannot(
                "a thread that polls for packets never sleeps: see `no sleep`".into(),
            )),
            Policy::Anticipate => {
                let assist = self
                    .assist
                    .ok_or_else(|| Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()))?;
                drop(assist.begin(&Device::NONE)?);
                Ok(PolicySetting::as_is(&assist.how()))
            }
        }
    }

    fn assisted(&self) -> Result<Option<Box<dyn Running>>> {
        let begun = self.assist.map(|assist| assist.begin(&Device::NONE));
        begun.transpose()
    }

    fn turn(&self, point: usize, policy: Policy, round: u32, stop: &AtomicBool) -> Result<Sample> {
        let gap_ns = self.pattern.options.gaps_ns[point];
        // Every policy has the same times in a round.
        let seed = self.pattern.plan.seed ^ u64::from(round).rotate_left(48) ^ point as u64;
        let hints = match (self.pattern.options.hint_ns, policy, self.assist) {
            (Some(_), Policy::Anticipate, Some(assist)) => assist.hints_at(),
            _ => None,
        };
        let hints = hints.map(|at| Sender::new(at, None)).transpose();
        let hints = hints.map_err(failed)?;
        let pattern = &self.pattern;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| pattern.read(stop));
            let sender = scope.spawn(|| pattern.send(gap_ns, seed, hints, stop));
            let sent = sender.join();
            let sample = reader.join();
            let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let sample = sample.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent.and(sample)
        })
    }
}

#[cfg(test)]
mod tests {
    use reveille_kernel::Root;

    use super::*;

    fn plan(cpu: u32) -> Plan {
        Plan {
            rounds: 1,
            waits: 20,
            turn_s: 5.0,
            warm_up: 5,
            seed: 1,
            cpu,
        }
    }

    #[test]
    fn each_packet_after_the_warm_up_is_a_latency() {
        let allowed = affinity::allowed();
        let [cpu, _, ..] = allowed.as_slice() else {
            println!("skipped: packets need two CPUs");
            return;
        };
        let machine = Machine::read(Root::default()).unwrap();
        let options = Options {
            gaps_ns: vec![2_000_000],
            jitter_ns: 100_000,
            hint_ns: None,
        };
        let work = Packets::new(&machine, options, plan(*cpu), None).unwrap();
        let stop = AtomicBool::new(false);
        let sample = work.turn(0, Policy::AsIs, 0, &stop).unwrap();
        assert_eq!(sample.latencies_ns.len(), 20);
        assert!(sample.latencies_ns.iter().all(|ns| *ns > 0));
        // 20 gaps of 2 ms, less the jitter; beside other load the first packets may be late.
        assert!(sample.elapsed_ns > 20_000_000, "{}", sample.elapsed_ns);
        stop.store(true, Ordering::Relaxed);
        let sample = work.turn(0, Policy::AsIs, 1, &stop).unwrap();
        assert_eq!(sample.latencies_ns.len(), 0);
    }
}

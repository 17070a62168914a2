//! Requests to a host, by what a user asks for.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use reveille_kernel::affinity::{self, Binding};
use reveille_kernel::asleep::Counts;
use reveille_kernel::{Idle, Root};
use reveille_show::quantity;

use super::echo::{Echo, Transport};
use super::ping::{self, Ping};
use super::requests::{Exchange, Pace, Requests};
use super::rhythm::Rhythm;
use super::server::PORT;
use super::{BurstsDescription, Description, NANOSECONDS, PaceDescription, Workload, message};
use crate::{Error, Result};

/// A longer pause could not be interrupted soon.
const INTERVAL_MAX_S: f64 = 10.0;

/// Who sends requests, how often and how large ones.
#[derive(Debug, Clone)]
pub struct Client {
    /// How often.
    pub pace: Pace,
    /// Bytes of payload in a request; `None` for the usual size.
    pub size: Option<usize>,
    /// The CPU that sends and waits; `None`: the scheduler chooses.
    pub cpu: Option<u32>,
    /// Seed of the pauses.
    pub seed: u64,
}

impl Client {
    /// Pings `host`.
    ///
    /// # Errors
    /// [`Error::Usage`] if size, pace or CPU is invalid or the host is unknown; [`Error::Cannot`] if this
    /// user may not ping.
    pub fn ping(&self, host: &str) -> Result<Box<dyn Workload>> {
        let size = self.size(56, ping::MIN_SIZE, ping::MAX_SIZE)?;
        let address = resolve(host, 0)?.ip();
        let bound = bind(self.cpu)?;
        let mut notes = Vec::new();
        if is_local(address) {
            notes.push(format!(
                "{address} is this machine: its reply needs no other CPU and no interrupt, so the figure \
                 has only the way there from sleep."
            ));
        }
        let name = named(host, &address.to_string());
        let description = self.description("ping", format!("ping {name}"), size, notes);
        self.requests(Ping::new(address, size)?, bound, size, description)
    }

    /// Asks a `reveille trial --serve`; `self` is a thread of this process on another CPU.
    pub fn echo(&self, server: &str, transport: Transport) -> Result<Box<dyn Workload>> {
        let size = self.size(64, message::MIN_SIZE, message::MAX_SIZE)?;
        let mut notes = Vec::new();
        let (echo, bound, name) = if server == "self" {
            let (here, there) = two_cpus(self.cpu);
            if let Some((here, there)) = here.zip(there) {
                notes.push(format!(
                    "CPU {here} asks, CPU {there} answers: each wakes the other, over loopback."
                ));
            }
            let bound = bind(here)?;
            let echo = Echo::with_own_server(transport, size, there)?;
            (echo, bound, "itself".to_owned())
        } else {
            let address = resolve_server(server)?;
            let echo = Echo::new(address, transport, size);
            (echo, bind(self.cpu)?, named(server, &address.to_string()))
        };
        let by = match transport {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        };
        let what = format!("echo from {name} by {by}");
        let description = self.description("echo", what, size, notes);
        self.requests(echo, bound, size, description)
    }

    fn requests<E: Exchange + 'static>(
        &self,
        exchange: E,
        bound: Option<Binding>,
        size: usize,
        mut description: Description,
    ) -> Result<Box<dyn Workload>> {
        let Pace {
            rhythm, timeout, ..
        } = self.pace;
        let is_invalid = |time: Duration| time.is_zero() || time.as_secs_f64() > INTERVAL_MAX_S;
        if matches!(rhythm, Rhythm::Even(interval) if is_invalid(interval)) {
            let why = "--interval: must be above 0 and at most 10s";
            return Err(Error::Usage(why.into()));
        }
        // The kernel counts a socket's timeout in its ticks.
        if timeout.as_millis() == 0 || timeout.as_secs_f64() > INTERVAL_MAX_S {
            return Err(Error::Usage("--timeout: must be from 1ms to 10s".into()));
        }
        // The CPU that answers, or else the one that waits for the answer.
        let cpu = exchange.bound().or(bound).map(|bound| bound.cpu());
        description.pace = Some(self.pace_description(size, cpu));
        let counts = match (rhythm, cpu) {
            (Rhythm::Bursts(_), Some(cpu)) => {
                let root = Root::default();
                Some(Counts::of(&root, &Idle::read(&root)?, cpu))
            }
            _ => None,
        };
        description.notes.extend(burst_notes(rhythm, cpu));
        let (pace, seed) = (self.pace, self.seed);
        let requests = Requests::new(exchange, bound, counts, pace, description, seed);
        Ok(Box::new(requests))
    }

    fn description(
        &self,
        kind: &str,
        what: String,
        size: usize,
        notes: Vec<String>,
    ) -> Description {
        let (bursts, figure) = match self.pace.rhythm {
            Rhythm::Even(_) => (String::new(), "round trip"),
            Rhythm::Bursts(bursts) => {
                let [length, pause] = [bursts.length(), bursts.pause()]
                    .map(|time| quantity::duration(time.as_nanos() as f64));
                let per_s = bursts.per_s();
                let bursts = format!(", {per_s}/s in bursts of {length}, pauses of {pause}");
                (bursts, "round trip within bursts")
            }
        };
        Description {
            kind: kind.into(),
            what: format!("{what}, {size} bytes{bursts}"),
            figure: figure.into(),
            unit: NANOSECONDS.into(),
            higher_is_better: false,
            pace: None,
            notes,
        }
    }

    fn pace_description(&self, size: usize, cpu: Option<u32>) -> PaceDescription {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (interval_ms, bursts) = match self.pace.rhythm {
            Rhythm::Even(interval) => (Some(ms(interval)), None),
            Rhythm::Bursts(bursts) => {
                let bursts = BurstsDescription {
                    per_s: bursts.per_s(),
                    requests: bursts.requests(),
                    length_ms: ms(bursts.length()),
                    pause_ms: ms(bursts.pause()),
                    cpu,
                };
                (None, Some(bursts))
            }
        };
        PaceDescription {
            requests_per_round: self.pace.requests,
            interval_ms,
            bursts,
            timeout_ms: ms(self.pace.timeout),
            size_bytes: size,
        }
    }

    fn size(&self, default: usize, min: usize, max: usize) -> Result<usize> {
        let size = self.size.unwrap_or(default);
        match (min..=max).contains(&size) {
            true => Ok(size),
            false => Err(Error::Usage(format!(
                "--size {size}: must be from {min} to {max} bytes"
            ))),
        }
    }
}

/// What a reader must know of figures in bursts.
fn burst_notes(rhythm: Rhythm, cpu: Option<u32>) -> Option<String> {
    matches!(rhythm, Rhythm::Bursts(_)).then(|| {
        let asleep = match cpu {
            Some(cpu) => format!("`asleep` is CPU {cpu}'s share of the pauses."),
            None => "`asleep`, in the pauses, needs --cpu.".to_owned(),
        };
        format!("`first` is each burst's first request, which the other columns omit; {asleep}")
    })
}

/// Binds this thread to that CPU, if one is given.
fn bind(cpu: Option<u32>) -> Result<Option<Binding>> {
    cpu.map(Binding::here).transpose()
}

/// The CPU that asks and another one that answers; the same one twice is `None` for the second.
fn two_cpus(asks: Option<u32>) -> (Option<u32>, Option<u32>) {
    let allowed = affinity::allowed();
    let asks = asks.or_else(|| allowed.first().copied());
    // The farthest by number: threads of one core are neighbours, or half of all CPUs apart.
    let answers = allowed.iter().rev().copied().find(|cpu| Some(*cpu) != asks);
    (asks, answers)
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let unknown = |why: String| Error::Usage(format!("{host}: unknown host: {why}"));
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| unknown("it has no address".into()))
}

/// `host`, `host:port`, `10.0.0.1`, `::1`, `[::1]:7177`.
fn resolve_server(server: &str) -> Result<SocketAddr> {
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Ok(address);
    }
    let is_ipv6 = server
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_ipv6());
    match server.rsplit_once(':').filter(|_| !is_ipv6) {
        None => resolve(server, PORT),
        Some((host, port)) => {
            let port = port.parse().map_err(|_| {
                Error::Usage(format!(
                    "--echo {server}: {port:?} is not a port; write HOST:PORT"
                ))
            })?;
            resolve(host, port)
        }
    }
}

fn named(given: &str, address: &str) -> String {
    match given == address {
        true => address.to_owned(),
        false => format!("{given} ({address})"),
    }
}

/// Can a socket be bound to it? Then it is one of this machine's.
fn is_local(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_in_every_usual_way() {
        for (server, address) in [
            ("127.0.0.1", "127.0.0.1:7177"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("::1", "[::1]:7177"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(resolve_server(server).unwrap().to_string(), address);
        }
        assert!(resolve_server("127.0.0.1:http!").is_err());
    }

    fn client(rhythm: &str) -> Client {
        let rhythm = Rhythm::Bursts(rhythm.parse().unwrap());
        Client {
            pace: Pace {
                requests: rhythm.requests(None),
                rhythm,
                timeout: Duration::from_secs(1),
            },
            size: None,
            cpu: None,
            seed: 1,
        }
    }

    #[test]
    fn the_sleep_in_the_pauses_is_that_of_the_cpu_that_answers() {
        // The binding of the asking thread ends with it.
        std::thread::spawn(|| {
            let cpus = two_cpus(None);
            let echo = client("1k/s,20ms,30ms").echo("self", Transport::Udp);
            let echo = echo.unwrap();
            let description = echo.description();
            assert_eq!(
                description.what,
                "echo from itself by UDP, 64 bytes, 1000/s in bursts of 20 ms, pauses of 30 ms"
            );
            let pace = description.pace.as_ref().unwrap();
            let bursts = pace.bursts.as_ref().unwrap();
            assert_eq!((pace.requests_per_round, bursts.requests), (200, 20));
            assert_eq!((bursts.length_ms, bursts.pause_ms), (20.0, 30.0));
            assert_eq!(bursts.cpu, cpus.1.or(cpus.0));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_answer_comes_from_another_cpu_if_available() {
        let (asks, answers) = two_cpus(None);
        assert!(asks.is_some());
        assert!(answers.is_none() || answers != asks);
    }
}

//! What the engine anticipates, for whom, and what that may cost.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use reveille_kernel::{Cpu, Idle};

use crate::{AwakePower, BlockDevice, Error, Result};

/// Whose requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subject {
    /// Every process's.
    #[default]
    Anybody,
    /// A process, with its threads.
    Process(u32),
    /// A cgroup of version 2 and those below it: the number of its folder, and how far below the
    /// root it is.
    Cgroup {
        /// The folder's inode number.
        id: u64,
        /// 0 for the root.
        level: i32,
    },
}

/// How a CPU is kept ready for the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// Awake, or in naps where they are seen to cost little; awake by a thread where the kernel
    /// can.
    #[default]
    Chosen,
    /// Awake, in a kernel thread that gives way at once to anything that is to run. Linux 6.10 and
    /// later.
    Thread,
    /// Awake, in a timer's softirq that ends at any interrupt.
    Softirq,
    /// In naps: the governor chooses a shallow state, for a timer soon expires.
    Napping,
}

impl std::str::FromStr for Readiness {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "chosen" => Ok(Self::Chosen),
            "thread" => Ok(Self::Thread),
            "softirq" => Ok(Self::Softirq),
            "naps" => Ok(Self::Napping),
            _ => Err("not a way to be ready: chosen, thread, softirq, naps".to_owned()),
        }
    }
}

/// Whose packets are anticipated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packets {
    /// Interfaces of this network namespace, name and number; at most [`MOST_INTERFACES`], none: all.
    pub interfaces: Vec<(String, u32)>,
    /// Flows that arrive periodically are anticipated.
    pub periodic: bool,
    /// Clients may announce their requests.
    pub hinted: bool,
    /// Networks of the clients that may; at most [`MOST_NETS`].
    pub clients: Vec<Net>,
}

/// Addresses of which the first bits are these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    /// One of them.
    pub address: IpAddr,
    /// How many bits.
    pub bits: u8,
}

impl Net {
    /// This machine's own addresses of both families.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            bits: 8,
        },
        Self {
            address: IpAddr::V6(Ipv6Addr::LOCALHOST),
            bits: 128,
        },
    ];
}

impl std::str::FromStr for Net {
    type Err = String;

    /// `192.0.2.0/24`, `2001:db8::1`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: Option<IpAddr> = address.parse().ok();
        let most = if address.is_some_and(|address| address.is_ipv4()) {
            32
        } else {
            128
        };
        let bits = bits.map_or(Some(most), |bits| {
            bits.parse().ok().filter(|bits| *bits <= most)
        });
        let net = address
            .zip(bits)
            .map(|(address, bits)| match address.to_canonical() {
                // ::ffff:192.0.2.0/120: what IPv4 clients have at IPv6 sockets.
                IpAddr::V4(four) if address.is_ipv6() && bits >= 96 => Self {
                    address: four.into(),
                    bits: bits - 96,
                },
                _ => Self { address, bits },
            });
        net.ok_or_else(|| "not an address or network, such as 192.0.2.0/24 or 2001:db8::1".into())
    }
}

impl Packets {
    /// Are packets looked at?
    pub fn any(&self) -> bool {
        self.periodic || self.hinted
    }
}

/// Settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// At most [`MOST_DEVICES`]; none: only what applications announce is anticipated.
    pub devices: Vec<BlockDevice>,
    /// Are reads anticipated?
    pub reads: bool,
    /// Are writes anticipated?
    pub writes: bool,
    /// Whose requests are anticipated.
    pub subject: Subject,
    /// Which packets are.
    pub packets: Packets,
    /// The share of each CPU's time that it may be kept awake, above 0 and at most 1.
    pub budget: f64,
    /// The same for all CPUs' time together.
    pub budget_in_all: f64,
    /// The share of requests that are left alone at random, to compare with; from 0 to 1.
    pub control: f64,
    /// So long before the completion the CPU is woken; `None`: learnt from how late timers come.
    pub lead: Option<Duration>,
    /// Until something is learnt: how late the CPU comes after a sleep of at least 2^index µs, in
    /// ns.
    pub first_lead_ns: [u64; SLEEPS],
    /// How a CPU is kept ready.
    pub readiness: Readiness,
    /// The length of a nap.
    pub nap: Duration,
    /// The power of a CPU awake beyond one asleep, by which energy is computed; `None` if unknown.
    pub awake_power: Option<AwakePower>,
}

/// Classes of lengths of sleep: powers of two of a µs.
pub const SLEEPS: usize = 20;

/// Devices that can be followed at a time.
pub const MOST_DEVICES: usize = 16;

/// Networks whose clients may announce requests.
pub const MOST_NETS: usize = 16;

/// Network interfaces that can be followed at a time.
pub const MOST_INTERFACES: usize = 16;

impl Default for Settings {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            reads: true,
            writes: true,
            subject: Subject::Anybody,
            packets: Packets::default(),
            budget: 0.05,
            budget_in_all: 0.05,
            control: 0.05,
            lead: None,
            first_lead_ns: [20_000; SLEEPS],
            readiness: Readiness::Chosen,
            nap: Duration::from_micros(10),
            awake_power: None,
        }
    }
}

/// The time from a timer to its task, beyond the driver's exit latency: interrupt, softirq.
const BEYOND_EXIT_NS: u64 = 5_000;

/// [`Settings::first_lead_ns`] of a machine: the latency of the deepest state for each length of sleep, on the
/// CPU with the most states among those that `is_of` accepts; by `measured_ns`, otherwise by the driver.
pub fn first_leads(
    idle: &Idle,
    is_of: impl Fn(&Cpu) -> bool,
    measured_ns: impl Fn(&str) -> Option<u64>,
) -> [u64; SLEEPS] {
    let mut leads = Settings::default().first_lead_ns;
    let cpus = idle.cpus.iter().filter(|cpu| cpu.online && is_of(cpu));
    let Some(cpu) = cpus.max_by_key(|cpu| cpu.states.len()) else {
        return leads;
    };
    for (log, lead) in leads.iter_mut().enumerate() {
        let fits = cpu.states.iter().filter(|state| {
            state.disabled != Some(true) && state.target_residency_us.unwrap_or(0) <= 1 << log
        });
        let Some(state) = fits.max_by_key(|state| state.index) else {
            continue;
        };
        let by_driver = state.exit_latency_us.map(|us| us * 1000 + BEYOND_EXIT_NS);
        *lead = match measured_ns(&state.name) {
            Some(ns) => ns,
            None => by_driver.map_or(*lead, |ns| ns.max(*lead)),
        };
    }
    leads
}

impl Settings {
    /// # Errors
    /// [`Error::Usage`] for a figure out of its range, or too many devices.
    pub fn check(&self) -> Result<()> {
        let share = |what: &str, share: f64, least: f64| match share >= least && share <= 1.0 {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "{what} of {}% is not a share of time: it is above 0% and at most 100%",
                share * 100.0
            ))),
        };
        share("a budget", self.budget, 1e-4)?;
        share("a budget", self.budget_in_all, 1e-4)?;
        share("a control group", self.control, 0.0)?;
        if self.devices.len() > MOST_DEVICES {
            return Err(Error::Usage(format!(
                "{} block devices are too many: at most {MOST_DEVICES} at a time; choose some with \
                 --device",
                self.devices.len()
            )));
        }
        if self.packets.interfaces.len() > MOST_INTERFACES {
            return Err(Error::Usage(format!(
                "{} network interfaces are too many: at most {MOST_INTERFACES} at a time",
                self.packets.interfaces.len()
            )));
        }
        if self.packets.clients.len() > MOST_NETS {
            return Err(Error::Usage(format!(
                "{} networks of clients are too many: at most {MOST_NETS}",
                self.packets.clients.len()
            )));
        }
        if !self.reads && !self.writes {
            return Err(Error::Usage(
                "neither reads nor writes are chosen".to_owned(),
            ));
        }
        if let Some(lead) = self.lead
            && (lead.is_zero() || lead > Duration::from_millis(10))
        {
            return Err(Error::Usage(format!(
                "a lead of {lead:?} is out of range: above zero and at most 10 ms"
            )));
        }
        if self.nap < Duration::from_micros(2) || self.nap > Duration::from_millis(1) {
            return Err(Error::Usage(format!(
                "a nap of {:?} is out of range: 2 µs to 1 ms",
                self.nap
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reveille_kernel::Root;

    use super::*;

    #[test]
    fn a_network_is_an_address_with_bits() {
        let net = |text: &str| {
            let net = text.parse::<Net>();
            net.map(|net| (net.address.to_string(), net.bits))
        };
        assert_eq!(net("192.0.2.1"), Ok(("192.0.2.1".into(), 32)));
        assert_eq!(net("192.0.2.0/24"), Ok(("192.0.2.0".into(), 24)));
        assert_eq!(net("2001:db8::/32"), Ok(("2001:db8::".into(), 32)));
        assert_eq!(net("::ffff:192.0.2.0/120"), Ok(("192.0.2.0".into(), 24)));
        assert_eq!(net("::/0"), Ok(("::".into(), 0)));
        for wrong in ["", "192.0.2.0/33", "::/129", "192.0.2.0/", "a/8"] {
            assert!(net(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_lead_is_that_of_the_deepest_state_that_fits_the_sleep() {
        let folder = tempfile::tempdir().unwrap();
        let system = folder.path().join("sys/devices/system/cpu");
        for (index, (name, latency, residency)) in
            [("C1", 2, 2), ("C6", 133, 600)].iter().enumerate()
        {
            let state = system.join(format!("cpu0/cpuidle/state{index}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("name"), name).unwrap();
            fs::write(state.join("latency"), format!("{latency}\n")).unwrap();
            fs::write(state.join("residency"), format!("{residency}\n")).unwrap();
        }
        for list in ["present", "online"] {
            fs::write(system.join(list), "0\n").unwrap();
        }
        let idle = Idle::read(&Root::at(folder.path())).unwrap();
        let leads = first_leads(&idle, |_| true, |_| None);
        // At 512 µs C1, whose exit latency is below the default; at 1024 µs C6.
        assert_eq!((leads[9], leads[10]), (20_000, 138_000));
        let measured = |state: &str| (state == "C1").then_some(3_000);
        let leads = first_leads(&idle, |_| true, measured);
        assert_eq!((leads[0], leads[9], leads[10]), (20_000, 3_000, 138_000));
        let none = first_leads(&idle, |_| false, measured);
        assert_eq!(none, Settings::default().first_lead_ns);
    }
}

//! Packets that a rule waits for.

use std::net::IpAddr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::value;

/// Packets that an interface receives.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// `eth0`; it may be missing, and appear later.
    #[serde(deserialize_with = "interface")]
    pub interface: String,
    /// Either end's; `None`: any.
    #[serde(default, deserialize_with = "port")]
    pub port: Option<u16>,
    /// `None`: any.
    pub protocol: Option<Protocol>,
    /// Either end's; `None`: any.
    pub address: Option<Net>,
    /// So many on one CPU within [`Traffic::window`] are traffic.
    #[serde(default = "one", deserialize_with = "packets")]
    pub packets: u32,
    /// See [`Traffic::packets`].
    #[serde(default = "usual_window", deserialize_with = "window")]
    pub window: Duration,
    /// Hold the bound on the CPUs of the tasks that the packets wake, too.
    #[serde(default = "yes")]
    pub readers: bool,
}

impl Traffic {
    pub(super) fn check(&self) -> Result<(), String> {
        let has_ports = |protocol| matches!(protocol, Protocol::Tcp | Protocol::Udp);
        match (self.port, self.protocol) {
            (Some(_), Some(protocol)) if !has_ports(protocol) => {
                Err(format!("`when.traffic`: {} has no ports", protocol.name()))
            }
            _ => Ok(()),
        }
    }
}

/// A protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// ICMP of IPv6.
    Icmpv6,
}

impl Protocol {
    /// Its number (include/uapi/linux/in.h, in6.h).
    pub fn number(self) -> u32 {
        match self {
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Icmpv6 => 58,
        }
    }

    /// `tcp`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmpv6 => "icmpv6",
        }
    }
}

/// An address, or a network: `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    /// Its address.
    pub address: IpAddr,
    /// Bits of the address that count.
    pub prefix: u8,
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.prefix == bits(self.address) {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let parse = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text.as_str(), None),
            };
            let address: IpAddr = address.parse().ok()?;
            let most = bits(address);
            let prefix = prefix.map_or(Some(most), |prefix| prefix.parse().ok())?;
            (prefix <= most).then_some(Self { address, prefix })
        };
        parse().ok_or_else(|| D::Error::custom("not an address or network, such as 10.0.0.0/8"))
    }
}

impl std::fmt::Display for Traffic {
    /// `packets of tcp port 22 on eth0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.packets {
            1 => f.write_str("packets")?,
            packets => {
                let window = humantime::format_duration(self.window);
                write!(f, "{packets} packets in {window}")?;
            }
        }
        let of = [
            self.protocol.map(|protocol| protocol.name().to_owned()),
            self.port.map(|port| format!("port {port}")),
            self.address.map(|net| format!("address {net}")),
        ];
        let of: Vec<String> = of.into_iter().flatten().collect();
        if !of.is_empty() {
            write!(f, " of {}", of.join(" "))?;
        }
        write!(f, " on {}", self.interface)
    }
}

/// Names of interfaces have at most 15 letters (IFNAMSIZ), no slash and no space.
fn interface<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let is_wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let is_valid = (1..16).contains(&name.len()) && !name.contains(is_wrong);
    match is_valid && name != "." && name != ".." {
        true => Ok(name),
        false => Err(D::Error::custom("not the name of a network interface")),
    }
}

fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    let number = i64::deserialize(from)?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| D::Error::custom("not a port, from 1 to 65535"))?;
    Ok(Some(port))
}

fn packets<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = i64::deserialize(from)?;
    let packets = u32::try_from(number).ok().filter(|count| *count > 0);
    packets.ok_or_else(|| D::Error::custom("not a number of packets above zero"))
}

fn window<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let (least, most) = (Duration::from_micros(1), Duration::from_secs(3600));
    value::time(from, "100ms", least, most)
}

fn one() -> u32 {
    1
}

fn usual_window() -> Duration {
    Duration::from_millis(100)
}

fn yes() -> bool {
    true
}

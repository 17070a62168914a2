//! ICMP echo: what `ping` does, with the figures kept.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{self, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, sockopt};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};

use reveille_kernel::network::icmp::{self, Version};

use super::requests::{Answer, Exchange};
use crate::{Error, Result};

/// Payload bytes of a request, at least: its key.
pub const MIN_SIZE: usize = icmp::KEY;
/// At most, so that the packet fits into one of IPv4.
pub const MAX_SIZE: usize = 65_507 - icmp::HEADER;
/// The longest header of IPv4, which a raw socket hands over too.
const IPV4_HEADER_MAX: usize = 60;

/// A host that is pinged.
pub struct Ping {
    socket: OwnedFd,
    version: Version,
    /// A raw socket of IPv4 hands over the IP header.
    with_ip_header: bool,
    sequence: u16,
    key: [u8; icmp::KEY],
    request: Vec<u8>,
    answer: Vec<u8>,
    timeout: Duration,
}

impl Ping {
    /// Pings `host` with that many bytes of payload, [`MIN_SIZE`] to [`MAX_SIZE`].
    ///
    /// # Errors
    /// [`Error::Cannot`] where this user may open neither kind of socket.
    pub fn new(host: IpAddr, size: usize) -> Result<Self> {
        let version = match host {
            IpAddr::V4(_) => Version::V4,
            IpAddr::V6(_) => Version::V6,
        };
        let (socket, raw) = open(version)?;
        let wrong = |what: &str, errno: Errno| {
            Error::Failed(format!("ping {host}: {what}: {}", errno.desc()))
        };
        // Only what comes from there is handed over.
        let number = socket.as_raw_fd();
        match host {
            IpAddr::V4(host) => {
                socket::connect(number, &SockaddrIn::from(SocketAddrV4::new(host, 0)))
            }
            IpAddr::V6(host) => {
                let address = SocketAddrV6::new(host, 0, 0, 0);
                socket::connect(number, &SockaddrIn6::from(address))
            }
        }
        .map_err(|errno| wrong("no route", errno))?;
        // Without stamps the figure is the same; only its split is missing.
        let _ = socket::setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
        let length = icmp::HEADER + size;
        Ok(Self {
            socket,
            version,
            with_ip_header: raw && version == Version::V4,
            sequence: 0,
            key: fastrand::u64(..).to_ne_bytes(),
            request: (0..length).map(|byte| byte as u8).collect(),
            answer: vec![0; length + IPV4_HEADER_MAX],
            timeout: Duration::ZERO,
        })
    }

    fn wait_at_most(&mut self, timeout: Duration) -> nix::Result<()> {
        if self.timeout != timeout {
            let value = TimeVal::new(
                timeout.as_secs() as i64,
                i64::from(timeout.subsec_micros()).max(1),
            );
            socket::setsockopt(&self.socket, sockopt::ReceiveTimeout, &value)?;
            self.timeout = timeout;
        }
        Ok(())
    }

    /// The next packet: when the reader had it, whether it is the reply, how long it lay.
    fn receive(&mut self) -> nix::Result<(Instant, bool, Option<f64>)> {
        let mut room = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut parts = [IoSliceMut::new(&mut self.answer)];
        let message = socket::recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut room),
            MsgFlags::empty(),
        )?;
        let came = Instant::now();
        let now = clock_gettime(ClockId::CLOCK_REALTIME);
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                _ => None,
            })
        });
        let bytes = message.bytes;
        let lay = now
            .ok()
            .zip(stamp)
            .map(|(now, stamp)| {
                Duration::from(now).as_nanos() as f64 - Duration::from(stamp).as_nanos() as f64
            })
            // Somebody may have set the clock meanwhile.
            .filter(|lay| *lay >= 0.0);
        let packet = &self.answer[..bytes];
        let packet = match self.with_ip_header {
            true => icmp::after_ipv4_header(packet).unwrap_or_default(),
            false => packet,
        };
        let is_reply = icmp::is_reply(packet, self.version, self.sequence, self.key);
        Ok((came, is_reply, lay))
    }

    fn exchange(&mut self, timeout: Duration) -> nix::Result<Option<(f64, Option<f64>)>> {
        self.wait_at_most(timeout)?;
        self.sequence = self.sequence.wrapping_add(1);
        icmp::write_request(&mut self.request, self.version, self.sequence, self.key);
        let sent = Instant::now();
        socket::send(self.socket.as_raw_fd(), &self.request, MsgFlags::empty())?;
        loop {
            let (came, is_reply, lay) = match self.receive() {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(errno),
            };
            if is_reply {
                return Ok(Some((came.duration_since(sent).as_nanos() as f64, lay)));
            }
            // A raw socket also gets the others' packets, and each begins the wait anew.
            if sent.elapsed() >= timeout {
                return Ok(None);
            }
        }
    }
}

impl Exchange for Ping {
    fn ask(&mut self, timeout: Duration) -> Answer {
        match self.exchange(timeout) {
            Ok(answer) => answer.ok_or_else(|| super::no_answer_within(timeout)),
            Err(errno) => Err(errno.desc().to_lowercase()),
        }
    }
}

/// A datagram socket of ICMP where this user may have one (net.ipv4.ping_group_range), else a raw
/// one; and which it is. Source: icmp(7).
fn open(version: Version) -> Result<(OwnedFd, bool)> {
    let (family, protocol) = match version {
        Version::V4 => (AddressFamily::Inet, SockProtocol::Icmp),
        Version::V6 => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    let open = |kind| socket::socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol);
    if let Ok(socket) = open(SockType::Datagram) {
        return Ok((socket, false));
    }
    match open(SockType::Raw) {
        Ok(socket) => Ok((socket, true)),
        Err(Errno::EPERM | Errno::EACCES) => Err(Error::Cannot(
            "ping: this user may not open a socket for ICMP; run with sudo, or allow it by \
             net.ipv4.ping_group_range"
                .into(),
        )),
        Err(errno) => Err(Error::Cannot(format!(
            "ping: ICMP sockets are unavailable: {}",
            errno.desc()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_answers_itself_by_both_versions() {
        for host in ["127.0.0.1", "::1"] {
            let mut ping = match Ping::new(host.parse().unwrap(), 56) {
                Ok(ping) => ping,
                Err(error) => {
                    println!("skipped: ping {host}: {error}");
                    continue;
                }
            };
            for _ in 0..3 {
                let answer = ping.ask(Duration::from_secs(2));
                let (round_trip_ns, reading_ns) = answer.expect(host);
                assert!(round_trip_ns > 0.0);
                assert!(
                    reading_ns.is_none_or(|lay| lay <= round_trip_ns),
                    "{reading_ns:?}"
                );
            }
        }
    }
}

//! Pings through one interface, and the card's timestamps of their replies.

use std::ffi::OsString;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    self, AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrIn, SockaddrIn6, SockaddrStorage, TimestampingFlag, Timestamps, sockopt,
};
use reveille_kernel::network::icmp::{self, Version};

use crate::{Error, Result};

/// The key alone: the shorter the packet, the sooner after its timestamp the card has it whole.
const LENGTH: usize = icmp::HEADER + icmp::KEY;
/// With the longest header of IPv4, which a raw socket hands over, too.
const ANSWER: usize = LENGTH + 60;

/// A neighbour that is pinged.
#[derive(Debug)]
pub struct Echo {
    socket: OwnedFd,
    version: Version,
    key: [u8; icmp::KEY],
}

/// A reply that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// When it arrived, by the card's clock, ns; `None`: the card has not timestamped it.
    pub stamp_ns: Option<u64>,
}

impl Echo {
    /// Pings `peer` through that interface, of that index.
    ///
    /// # Errors
    /// [`Error::Cannot`] if this user may not, or there is no way to the peer through the interface.
    pub fn open(interface: &str, index: u32, peer: IpAddr) -> Result<Self> {
        let (family, protocol, version) = match peer {
            IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, Version::V4),
            IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, Version::V6),
        };
        let socket = socket::socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol);
        let socket = socket.map_err(|errno| {
            let what_to_do = match errno {
                Errno::EPERM | Errno::EACCES => "; run as root (sudo)",
                _ => "",
            };
            Error::Cannot(format!(
                "source reply: no raw socket for pings: {}{what_to_do}",
                errno.desc()
            ))
        })?;
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE;
        socket::setsockopt(&socket, sockopt::BindToDevice, &OsString::from(interface))
            .and_then(|()| socket::setsockopt(&socket, sockopt::Timestamping, &stamps))
            .map_err(Error::system("preparing a socket for pings"))?;
        // Only what comes from there is handed over.
        let number = socket.as_raw_fd();
        match peer {
            IpAddr::V4(peer) => {
                socket::connect(number, &SockaddrIn::from(SocketAddrV4::new(peer, 0)))
            }
            IpAddr::V6(peer) => {
                let scope = if peer.is_unicast_link_local() {
                    index
                } else {
                    0
                };
                let address = SocketAddrV6::new(peer, 0, 0, scope);
                socket::connect(number, &SockaddrIn6::from(address))
            }
        }
        .map_err(|errno| match errno {
            // It is sent to with SO_BROADCAST only.
            Errno::EACCES => Error::Usage(format!(
                "source reply: {peer} is a broadcast address; name one neighbour"
            )),
            errno => Error::Cannot(format!(
                "source reply: no way to {peer} through {interface}: {}; give {interface} an address in its network",
                errno.desc()
            )),
        })?;
        let mut key = fastrand::u64(..).to_ne_bytes();
        // The identifier, which is not 0.
        key[0] |= 1;
        Ok(Self {
            socket,
            version,
            key,
        })
    }

    /// The address from which it pings. That of the neighbour: it is this machine's own, and no card has part in that.
    pub fn sender(&self) -> Option<IpAddr> {
        let from = socket::getsockname::<SockaddrStorage>(self.socket.as_raw_fd()).ok()?;
        let v4 = from.as_sockaddr_in().map(|from| from.ip().into());
        v4.or_else(|| from.as_sockaddr_in6().map(|from| from.ip().into()))
    }

    /// Identifier and number of a ping, as BPF programs know its reply.
    pub fn number(&self, sequence: u16) -> u32 {
        let identifier = u16::from_be_bytes([self.key[0], self.key[1]]);
        u32::from(identifier) << 16 | u32::from(sequence)
    }

    /// Sends the ping of that number.
    pub fn send(&self, sequence: u16) -> nix::Result<()> {
        let mut packet = [0; LENGTH];
        icmp::write_request(&mut packet, self.version, sequence, self.key);
        socket::send(self.socket.as_raw_fd(), &packet, MsgFlags::empty()).map(drop)
    }

    /// Waits for its reply, so long at most.
    pub fn reply(&self, sequence: u16, patience: Duration) -> nix::Result<Option<Reply>> {
        let end = Instant::now() + patience;
        loop {
            match self.next() {
                Ok((number, reply)) if number == Some(sequence) => return Ok(Some(reply)),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let left_ms = left.as_micros().div_ceil(1000) as u16;
                    let mut waited = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
                    // A signal ends it early, which costs a turn.
                    let _ = poll(&mut waited, PollTimeout::from(left_ms));
                }
                Err(errno) => return Err(errno),
            }
            if Instant::now() >= end {
                return Ok(None);
            }
        }
    }

    /// The next packet, if there is one: the number of the ping that it replies to, if it does.
    fn next(&self) -> nix::Result<(Option<u16>, Reply)> {
        let mut bytes = [0; ANSWER];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut room = nix::cmsg_space!(Timestamps);
        let number = self.socket.as_raw_fd();
        let message =
            socket::recvmsg::<()>(number, &mut parts, Some(&mut room), MsgFlags::MSG_DONTWAIT)?;
        let stamp = message.cmsgs()?.find_map(|one| match one {
            ControlMessageOwned::ScmTimestampsns(stamps) => Some(stamps.hw_raw),
            _ => None,
        });
        let ns = stamp.map(|stamp| Duration::from(stamp).as_nanos() as u64);
        let length = message.bytes;
        let packet = &bytes[..length];
        let packet = match self.version {
            Version::V4 => icmp::after_ipv4_header(packet).unwrap_or_default(),
            Version::V6 => packet,
        };
        let sequence = packet
            .get(6..8)
            .map(|two| u16::from_be_bytes([two[0], two[1]]));
        let answers = |sequence: &u16| icmp::is_reply(packet, self.version, *sequence, self.key);
        Ok((
            sequence.filter(answers),
            Reply {
                stamp_ns: ns.filter(|ns| *ns > 0),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This machine by itself, or a reason why not.
    fn own(peer: &str) -> std::result::Result<Echo, String> {
        let index = reveille_kernel::network::index_here("lo").ok_or("no loopback")?;
        Echo::open("lo", index, peer.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_reply_to_the_ping_is_taken_and_loopback_does_not_timestamp_it() {
        for peer in ["127.0.0.1", "::1"] {
            let echo = match own(peer) {
                Ok(echo) => echo,
                Err(why) => {
                    println!("skipped: {peer}: {why}");
                    continue;
                }
            };
            assert_eq!(echo.sender(), Some(peer.parse().unwrap()));
            echo.send(7).unwrap();
            echo.send(8).unwrap();
            let come = |number| echo.reply(number, Duration::from_secs(5)).unwrap();
            assert_eq!(come(8), Some(Reply { stamp_ns: None }), "{peer}");
            assert_eq!(echo.reply(9, Duration::from_millis(5)).unwrap(), None);
            assert_eq!(echo.number(8) as u16, 8);
            assert_ne!(echo.number(8) >> 16, 0);
        }
    }
}

//! Interrupt coalescing and Energy-Efficient Ethernet of a network card, as in ethtool(8).
//!
//! Source: include/uapi/linux/ethtool.h of the kernel.

use std::io;

use nix::libc;
use serde::{Deserialize, Serialize};

use super::request;

const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GEEE: u32 = 0x44;

/// Of struct ethtool_cmd's port.
const PORT_TP: u32 = 0;

/// Interrupt coalescing of received packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// How long the card may delay an interrupt after a packet, µs.
    pub rx_usecs: u32,
    /// Packets after which the interrupt comes earlier; 0: none.
    pub rx_frames: u32,
    /// The driver changes both by itself.
    pub adaptive_rx: bool,
}

/// Energy-Efficient Ethernet: the link sleeps between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSleep {
    /// Both ends have agreed on it.
    pub active: bool,
    /// It may sleep once both ends agree.
    pub enabled: bool,
}

/// The driver's coalescing; `None` where it has none.
///
/// # Errors
/// If there is no such interface, or it is not permitted.
pub fn coalescing(interface: &str) -> io::Result<Option<Coalescing>> {
    // struct ethtool_coalesce: cmd and 22 figures.
    const WORDS: usize = 23;
    Ok(ask::<WORDS>(interface, ETHTOOL_GCOALESCE)?.map(|answer| Coalescing::of(&answer)))
}

/// Whether the link sleeps; `None` where the driver does not report it.
///
/// # Errors
/// As [`coalescing`].
pub fn link_sleep(interface: &str) -> io::Result<Option<LinkSleep>> {
    // struct ethtool_eee: cmd, three masks, three switches, a timer, two reserved.
    const WORDS: usize = 10;
    Ok(ask::<WORDS>(interface, ETHTOOL_GEEE)?.map(|answer| LinkSleep::of(&answer)))
}

/// Whether the connector is for copper (RJ45); `None` where the driver does not report it.
///
/// # Errors
/// As [`coalescing`].
pub fn is_copper(interface: &str) -> io::Result<Option<bool>> {
    // struct ethtool_cmd: cmd, two masks, then speed, duplex and port in one, and seven more.
    const WORDS: usize = 11;
    Ok(ask::<WORDS>(interface, ETHTOOL_GSET)?.map(|answer| answer[3] >> 24 == PORT_TP))
}

impl Coalescing {
    /// From struct ethtool_coalesce.
    fn of(answer: &[u32]) -> Self {
        Self {
            rx_usecs: answer[1],
            rx_frames: answer[2],
            adaptive_rx: answer[10] != 0,
        }
    }
}

impl LinkSleep {
    /// From struct ethtool_eee.
    fn of(answer: &[u32]) -> Self {
        Self {
            active: answer[4] != 0,
            enabled: answer[5] != 0,
        }
    }
}

/// Runs an ethtool command whose struct has that many 32-bit words, the command first. `None` if the
/// driver does not support it.
pub(super) fn ask<const WORDS: usize>(
    interface: &str,
    question: u32,
) -> io::Result<Option<[u32; WORDS]>> {
    let mut words = [0_u32; WORDS];
    words[0] = question;
    let answered = request::send(interface, libc::SIOCETHTOOL as u32, &mut words);
    Ok(request::if_supported(answered)?.map(|()| words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_a_card_reports_nothing() {
        match coalescing("lo") {
            Ok(reported) => assert_eq!(reported, None),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return println!("skipped: ethtool's questions: {error}");
            }
        }
        assert_eq!(link_sleep("lo").unwrap(), None);
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        assert!(coalescing("there-is-no-such-interface").is_err());
        assert!(coalescing("nosuchif").is_err());
        assert!(link_sleep("nosuchif").is_err());
    }

    /// The offsets of the fields in include/uapi/linux/ethtool.h.
    #[test]
    fn each_value_is_read_from_its_offset_in_the_answer() {
        let mut answer = [0; 23];
        (answer[1], answer[2]) = (50, 32);
        let expected = |adaptive_rx| Coalescing {
            rx_usecs: 50,
            rx_frames: 32,
            adaptive_rx,
        };
        assert_eq!(Coalescing::of(&answer), expected(false));
        answer[10] = 1;
        assert_eq!(Coalescing::of(&answer), expected(true));
        let sleep = |active, enabled| LinkSleep { active, enabled };
        let mut answer = [0; 10];
        assert_eq!(LinkSleep::of(&answer), sleep(false, false));
        answer[4] = 1;
        assert_eq!(LinkSleep::of(&answer), sleep(true, false));
        (answer[4], answer[5]) = (0, 1);
        assert_eq!(LinkSleep::of(&answer), sleep(false, true));
    }
}

//! Hardware timestamps of a network card: which packets it can stamp, and which it does.
//!
//! Source: Documentation/networking/timestamping.rst, include/uapi/linux/net_tstamp.h and ethtool.h of
//! the kernel.

use std::io;
use std::path::Path;

use super::request::{if_supported, send};
use super::{Interface, ethtool, name_here, namespace};
use crate::{Error, Result};

const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCSHWTSTAMP: u32 = 0x89b0;
const SIOCGHWTSTAMP: u32 = 0x89b1;
const SOF_TIMESTAMPING_RX_HARDWARE: u32 = 1 << 2;
const SOF_TIMESTAMPING_RAW_HARDWARE: u32 = 1 << 6;

/// No received packet is stamped (`HWTSTAMP_FILTER_NONE`).
pub const NONE: u32 = 0;
/// Every received packet is stamped (`HWTSTAMP_FILTER_ALL`).
pub const ALL: u32 = 1;

/// What a card can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It can stamp every received packet.
    pub every_packet: bool,
    /// N of /dev/ptpN, its clock.
    pub clock: Option<u32>,
}

/// What a card is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Which packets are stamped when they are sent (`enum hwtstamp_tx_types`).
    pub sent: u32,
    /// Which are when they are received (`enum hwtstamp_rx_filters`).
    pub received: u32,
}

/// What the card can stamp; `None` where the driver does not say.
///
/// # Errors
/// If there is no such interface.
pub fn abilities(interface: &str) -> io::Result<Option<Abilities>> {
    // struct ethtool_ts_info: cmd, what sockets may ask for, the clock, two masks with three reserved words
    // each.
    const WORDS: usize = 11;
    Ok(ethtool::ask::<WORDS>(interface, ETHTOOL_GET_TS_INFO)?.map(|answer| Abilities::of(&answer)))
}

/// What it is set to; `None` where the driver does not say.
///
/// # Errors
/// If there is no such interface.
pub fn setting(interface: &str) -> io::Result<Option<Setting>> {
    // struct hwtstamp_config: flags, tx_type, rx_filter.
    let mut words = [0_u32; 3];
    let answered = if_supported(send(interface, SIOCGHWTSTAMP, &mut words))?;
    Ok(answered.map(|()| Setting {
        sent: words[1],
        received: words[2],
    }))
}

fn set(interface: &str, setting: Setting) -> io::Result<()> {
    send(
        interface,
        SIOCSHWTSTAMP,
        &mut [0, setting.sent, setting.received],
    )
}

impl Abilities {
    /// From struct ethtool_ts_info.
    fn of(answer: &[u32]) -> Self {
        let wanted = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
        Self {
            every_packet: answer[1] & wanted == wanted && answer[7] >> ALL & 1 == 1,
            // -1: it has none.
            clock: (answer[2] as i32 >= 0).then_some(answer[2]),
        }
    }
}

impl Setting {
    /// As the journal has it.
    pub fn text(self) -> String {
        format!("{} {}", self.sent, self.received)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sent, received) = text.split_once(' ')?;
        let number = |word: &str| word.parse().ok().filter(|_| !word.starts_with('+'));
        Some(Self {
            sent: number(sent)?,
            received: number(received)?,
        })
    }
}

/// Before the number of the network namespace in the setting's path.
const FOLDER: &str = "hwtstamp@";

/// The setting's path for [`crate::Journal::set`]: no file, since the kernel has none for it. Its last two parts are
/// the numbers of the network namespace and of the interface, whose name may change.
///
/// # Errors
/// Where /proc does not list this network namespace.
pub fn path(interface: &Interface) -> Result<String> {
    let Interface { name, index, .. } = interface;
    Ok(format!(
        "/sys/class/net/{name}/{FOLDER}{}/{index}",
        namespace()?
    ))
}

/// The present name of the path's interface.
fn name_of(path: &Path) -> Option<String> {
    name_here(path.file_name()?.to_str()?.parse().ok()?)
}

fn is_here(path: &Path) -> Result<bool> {
    let of = path
        .parent()
        .and_then(|folder| folder.file_name()?.to_str());
    Ok(of.and_then(|name| name.strip_prefix(FOLDER)) == Some(&*namespace()?.to_string()))
}

fn here(path: &Path) -> Result<String> {
    let cannot = |why| Error::Cannot(format!("{}: {why}", path.display()));
    match is_here(path)? {
        true => name_of(path).ok_or_else(|| cannot("there is no such interface any more")),
        false => Err(cannot("of another network namespace")),
    }
}

/// The present value.
pub(crate) fn read_at(path: &Path) -> Result<String> {
    let present = setting(&here(path)?).map_err(Error::at_setting(path))?;
    let present = present.ok_or_else(|| {
        Error::Cannot(format!(
            "{}: the driver does not tell the present setting",
            path.display()
        ))
    })?;
    Ok(present.text())
}

pub(crate) fn write_at(path: &Path, value: &str) -> Result<()> {
    let wanted = Setting::parse(value).ok_or_else(|| Error::Content {
        path: path.to_owned(),
        expected: "two numbers",
        found: value.to_owned(),
    })?;
    set(&here(path)?, wanted).map_err(Error::at_setting(path))
}

/// Whether the interface has left this network namespace, and its setting with it.
pub(crate) fn is_gone(path: &Path) -> bool {
    is_here(path).is_ok_and(|here| here && name_of(path).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn each_ability_is_read_from_its_place_in_the_answer() {
        let mut answer = [0; 11];
        answer[1] = 0x44;
        answer[2] = 3;
        answer[7] = 0b11;
        let every = |every_packet, clock| Abilities {
            every_packet,
            clock,
        };
        assert_eq!(Abilities::of(&answer), every(true, Some(3)));
        // Only PTP's packets.
        answer[7] = 0b1_0000_0000_0001;
        assert_eq!(Abilities::of(&answer), every(false, Some(3)));
        // Software's stamps, and no clock.
        (answer[1], answer[2], answer[7]) = (0x18, u32::MAX, 0b10);
        assert_eq!(Abilities::of(&answer), every(false, None));
    }

    #[test]
    fn an_interface_without_a_card_stamps_nothing() {
        match abilities("lo") {
            Ok(said) => assert!(said.is_none_or(|can| !can.every_packet), "{said:?}"),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return println!("skipped: ethtool's questions: {error}");
            }
        }
        assert_eq!(setting("lo").unwrap(), None);
        assert!(abilities("nosuchif").is_err());
    }

    #[test]
    fn a_setting_is_two_numbers() {
        let setting = Setting {
            sent: 1,
            received: 12,
        };
        assert_eq!(setting.text(), "1 12");
        assert_eq!(Setting::parse("1 12"), Some(setting));
        for wrong in ["", "1", "1 2 3", "-1 2", "a b", "1  2", "+1 2"] {
            assert_eq!(Setting::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_setting_is_its_interfaces_by_number_whatever_its_name_is() {
        let lo = Interface::read(&Root::default(), "lo");
        let Some(lo) = lo.filter(Interface::is_here) else {
            return println!("skipped: /sys shows no loopback of this network namespace");
        };
        let renamed = Interface {
            name: "old".into(),
            ..lo.clone()
        };
        let path = path(&renamed).unwrap();
        assert_eq!(here(Path::new(&path)).unwrap(), "lo");
        assert!(!is_gone(Path::new(&path)));
        let gone = Interface {
            index: u32::MAX >> 1,
            ..lo
        };
        let path = super::path(&gone).unwrap();
        assert!(is_gone(Path::new(&path)));
        let error = read_at(Path::new(&path)).unwrap_err();
        assert!(error.to_string().contains("no such interface"), "{error}");
    }

    #[test]
    fn a_setting_of_another_network_namespace_is_left_alone() {
        let others = Path::new("/sys/class/net/lo/hwtstamp@7/1");
        assert!(!is_gone(others));
        let error = read_at(others).unwrap_err();
        assert!(error.to_string().contains("another network namespace"));
        assert!(write_at(others, "0 0").is_err());
    }
}

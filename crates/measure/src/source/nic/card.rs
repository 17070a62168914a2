//! Whether a card can interrupt at a target time of its clock.

use reveille_kernel::network::{self, Interface, ethtool};
use reveille_kernel::{Journal, Root};

use super::perout::Rule;
use crate::source::phc::Phc;
use crate::{Error, Result};

/// The function of a pin that is free, and of one that puts out channel 0.
const UNUSED: &str = "0 0";
const OUTPUT: &str = "2 0";

/// A card whose driver takes target times.
#[derive(Debug)]
pub struct Card {
    pub interface: Interface,
    pub driver: String,
    pub rule: Rule,
    pub pin: String,
}

impl Card {
    /// Looks whether the card can be used, and opens its clock; changes nothing.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such interface or pin, or none is named; [`Error::Cannot`] if the card cannot
    /// be used.
    pub fn of(root: &Root, name: &str, pin: Option<&str>) -> Result<(Self, Phc)> {
        let cannot = |why: String| Error::Cannot(format!("source nic: {name} {why}"));
        let Some(interface) = Interface::read(root, name).filter(Interface::is_here) else {
            return Err(Error::Usage(format!(
                "source nic: there is no network interface {name:?}; `ip link` lists them"
            )));
        };
        let Some(driver) = network::driver(root, name) else {
            return Err(cannot("has no card; name a card's interface".into()));
        };
        let clock = network::clock(root, name);
        let of_clock = |file: &str| root.number(&format!("sys/class/ptp/ptp{}/{file}", clock?));
        let has_pps = clock.is_none() || of_clock("pps_available") == Some(1);
        let rule = Rule::of(&driver, has_pps).map_err(|why| {
            cannot(format!(
                "cannot interrupt at a chosen time: its driver {driver} {why}; `hpet` needs no card, \
                 `reply:IF,PEER` only one that timestamps"
            ))
        })?;
        let Some(clock) = clock else {
            return Err(cannot(
                "has no hardware clock by /sys: the kernel has no CONFIG_PTP_1588_CLOCK".into(),
            ));
        };
        if of_clock("n_periodic_outputs").unwrap_or(0) == 0 {
            return Err(cannot(format!(
                "cannot interrupt at a chosen time: this version of its driver {driver} puts nothing out by its clock"
            )));
        }
        if let Some(why) = not_ready(root, &interface) {
            return Err(cannot(why));
        }
        let is_copper = ethtool::is_copper(name).map_err(Error::system("ETHTOOL_GSET"))?;
        if is_copper == Some(false) {
            return Err(cannot(
                "is no copper port (fibre, SerDes): there the card's pins may drive the optics, and are left alone"
                    .into(),
            ));
        }
        let phc = Phc::open("nic", clock, &driver)?;
        if let Some(user) = other_user(phc.number) {
            return Err(cannot(format!(
                "is in use: {user} has its clock, /dev/ptp{}, open, and may set it; end that first",
                phc.number
            )));
        }
        let pin = chosen(root, name, phc.number, pin)?;
        Ok((
            Self {
                interface,
                driver,
                rule,
                pin,
            },
            phc,
        ))
    }

    /// Makes the pin an output, and has the output switched off in the end, all through the journal.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn switch_pin(&self, clock: u32, journal: &mut Journal) -> Result<()> {
        let folder = format!("/sys/class/ptp/ptp{clock}");
        journal.set(&format!("{folder}/pins/{}", self.pin), OUTPUT)?;
        journal.will_switch_off(&format!("{folder}/period"))
    }

    /// Which ASPM states its link may enter.
    pub fn link_sleep(&self) -> String {
        match &self.interface.link_states {
            Some(states) if states.is_empty() => "off".to_owned(),
            Some(states) => states.join(" "),
            None => "unknown".to_owned(),
        }
    }
}

/// Why its interrupt would not come.
fn not_ready(root: &Root, interface: &Interface) -> Option<String> {
    let name = &interface.name;
    if network::is_up(root, name) == Some(false) {
        return Some(format!(
            "is down, and its driver has no interrupt then; `ip link set {name} up`"
        ));
    }
    let power = interface.runtime_power.as_ref();
    let sleeps = power.is_some_and(|power| power.control == "auto");
    if sleeps && network::has_link(root, name) == Some(false) {
        return Some(format!(
            "has no link, and its driver suspends it then; connect it, or `echo on >{}`",
            power?.control_file
        ));
    }
    interface
        .interrupts
        .is_empty()
        .then(|| "has no interrupt of its own by /sys".into())
}

/// Another program that has that clock open: `ptp4l (PID 123)`.
fn other_user(clock: u32) -> Option<String> {
    let device = format!("/dev/ptp{clock}");
    let own = std::process::id();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid): Option<u32> = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if pid == own {
            continue;
        }
        let open = std::fs::read_dir(process.path().join("fd"));
        let mut open = open.into_iter().flatten().flatten();
        let is_it = |file: std::fs::DirEntry| {
            std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == &*device)
        };
        if open.any(is_it) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (PID {pid})", name.trim()));
        }
    }
    None
}

/// The pin that the user allows to switch.
fn chosen(root: &Root, name: &str, clock: u32, pin: Option<&str>) -> Result<String> {
    let folder = format!("sys/class/ptp/ptp{clock}/pins");
    let mut pins = root.names(&folder).unwrap_or_default();
    pins.sort();
    let cannot = |why: String| Error::Cannot(format!("source nic: {name} {why}"));
    if pins.is_empty() {
        return Err(cannot(
            "has no pin, and without one its driver takes no target time".into(),
        ));
    }
    let function = |pin: &str| root.line(&format!("{folder}/{pin}")).unwrap_or_default();
    let pin = match pin {
        Some(pin) if pins.iter().any(|one| one == pin) => pin,
        Some(pin) => {
            return Err(Error::Usage(format!(
                "source nic: {name} has no pin {pin:?}, only {}",
                pins.join(", ")
            )));
        }
        None => {
            return Err(Error::Usage(format!(
                "source nic: {name} interrupts at a chosen time only if a pin of the card is an electrical output, \
                 which toggles with each launch; if nothing is connected to it, name one: --nic-pin {}",
                pins.join("|")
            )));
        }
    };
    // What it puts out there could not be restored: the driver does not tell.
    if let Some(other) = pins.iter().find(|one| function(one) == OUTPUT) {
        return Err(cannot(format!(
            "puts out its first channel on pin {other} already: another program uses it; free it: `echo {UNUSED} \
             >/{folder}/{other}`"
        )));
    }
    match function(pin) {
        free if free == UNUSED => Ok(pin.to_owned()),
        used => Err(cannot(format!(
            "uses pin {pin} for something else (function and channel {used}); free it: `echo {UNUSED} \
             >/{folder}/{pin}`, or name another"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(pins: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let of_pins = folder.path().join("sys/class/ptp/ptp0/pins");
        std::fs::create_dir_all(&of_pins).unwrap();
        for (pin, function) in pins {
            std::fs::write(of_pins.join(pin), format!("{function}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn a_pin_is_switched_only_if_it_is_named_and_free() {
        let (_folder, root) = root(&[("SDP0", "0 0"), ("SDP1", "1 0"), ("SDP2", "0 0")]);
        let pin = |pin| chosen(&root, "eth0", 0, pin).map_err(|error| error.to_string());
        assert_eq!(pin(Some("SDP0")), Ok("SDP0".into()));
        assert!(pin(None).unwrap_err().contains("--nic-pin SDP0|SDP1|SDP2"));
        assert!(pin(Some("SDP9")).unwrap_err().contains("no pin \"SDP9\""));
        assert!(pin(Some("SDP1")).unwrap_err().contains("channel 1 0"));
    }

    #[test]
    fn a_channel_that_is_on_another_pin_is_in_use() {
        let (_folder, root) = root(&[("SDP0", "0 0"), ("SDP1", "2 0"), ("SDP2", "2 1")]);
        let pin = |pin| chosen(&root, "eth0", 0, Some(pin)).map_err(|error| error.to_string());
        for named in ["SDP0", "SDP1"] {
            let error = pin(named).unwrap_err();
            assert!(error.contains("on pin SDP1 already"), "{named}: {error}");
        }
    }

    #[test]
    fn a_card_without_pins_is_refused() {
        let (_folder, root) = root(&[]);
        let error = chosen(&root, "eth0", 0, Some("SDP0")).unwrap_err();
        assert!(error.to_string().contains("has no pin"), "{error}");
    }
}

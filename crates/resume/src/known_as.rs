//! What owners call their devices: `3-1` is a "USB 10/100/1000 LAN", driven by `r8152`, and the interface `eth0`.
//!
//! A callback's lines name a device as its bus does. Other lines of the same log, and sysfs in a capture, say
//! what it is.

use std::collections::HashMap;

use crate::cycle::Name;
use crate::devices::{Device, of_usb_interface};

/// More devices than this have no other names.
const DEVICES_MAX: usize = 20_000;
/// Of one device.
const NAMES_MAX: usize = 3;
const BYTES_MAX: usize = 80;

/// Other names of devices, in the order in which the log gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownAs(HashMap<Name, Vec<Name>>);

impl KnownAs {
    /// The other names of a device.
    pub fn names(&self, device: &str) -> &[Name] {
        self.0.get(device).map_or(&[], Vec::as_slice)
    }

    /// Takes what a message says of a device; most say nothing.
    pub(crate) fn hears(&mut self, message: &[u8]) -> Option<()> {
        let at = memchr::memmem::find(message, b": ").filter(|&at| at <= BYTES_MAX)?;
        let head = str::from_utf8(&message[..at]).ok()?;
        let text = || str::from_utf8(&message[at + 2..]).ok();
        let mut split = head.split(' ');
        let words: [&str; 4] = std::array::from_fn(|_| split.next().unwrap_or_default());
        match words {
            // `input: AT Translated Set 2 keyboard as /devices/platform/i8042/serio0/input/input3`
            ["input", "", "", ""] => {
                let (name, path) = text()?.split_once(" as /devices/")?;
                let mut parts = path.trim_end().rsplit('/');
                self.add(parts.next()?, name);
                self.add(parts.nth(1)?, name);
            }
            ["usb", device, "", ""] => self.add(device, text()?.strip_prefix("Product: ")?),
            ["nvme", name, "", ""] => self.add(text()?.strip_prefix("pci function ")?, name),
            ["scsi", device, "", ""] if text()?.contains(" PQ: ") => {
                // The type, the maker and the model have 17, 8 and 16 letters.
                let (maker, model) = (text()?.get(18..26)?.trim(), text()?.get(27..43)?.trim());
                self.add(
                    device,
                    format!("{maker} {model}").trim_start_matches("ATA "),
                );
            }
            ["sd" | "sr" | "st", device, "", ""] => {
                let (disk, _) = text()?.strip_prefix('[')?.split_once(']')?;
                self.add(device, disk);
            }
            [driver, device, "", ""] => self.add(&of_usb_interface(device)?, driver),
            // `r8152 3-1:1.0 enx00e04c680001: renamed from eth0`
            [driver, device, interface, ""] if is_place(device) => {
                if let Some(old) = text()?.strip_prefix("renamed from ") {
                    self.renames(device, old.trim(), interface);
                }
                if let Some(usb) = of_usb_interface(device) {
                    self.add(&usb, driver);
                    self.add(&usb, interface);
                }
                self.add(device, interface);
            }
            _ => {}
        }
        Some(())
    }

    /// Takes what sysfs says: which drivers a USB device's interfaces have, and the network's interfaces and disks.
    pub(crate) fn add_sysfs(&mut self, devices: &[Device]) {
        for one in devices {
            let parent = one.parent.and_then(|parent| devices.get(parent));
            let (Some(parent), Some(kind)) = (parent, &one.driver) else {
                continue;
            };
            if of_usb_interface(&one.name).as_deref() == Some(&*parent.name) {
                self.add(&parent.name, kind);
            }
            if matches!(&**kind, "net" | "block") {
                self.add(&parent.name, &one.name);
                if let Some(usb) = of_usb_interface(&parent.name) {
                    self.add(&usb, &one.name);
                }
            }
        }
    }

    fn add(&mut self, device: &str, name: &str) {
        let name = name.trim();
        // Every USB device has these.
        let says_nothing = matches!(name, "" | "usb" | "hub") || name == device;
        let is_room = self.0.len() < DEVICES_MAX || self.0.contains_key(device);
        if says_nothing || !is_room || name.len().max(device.len()) > BYTES_MAX {
            return;
        }
        let names = self.0.entry(device.into()).or_default();
        if names.len() < NAMES_MAX && !names.iter().any(|one| &**one == name) {
            names.push(name.into());
        }
    }

    fn renames(&mut self, device: &str, old: &str, new: &str) {
        let usb = of_usb_interface(device);
        for device in [Some(device), usb.as_deref()].into_iter().flatten() {
            let names = self.0.get_mut(device).into_iter().flatten();
            names
                .filter(|name| &***name == old)
                .for_each(|name| *name = new.into());
        }
    }
}

/// The name of a place on a bus.
fn is_place(device: &str) -> bool {
    let has = |is: fn(&u8) -> bool| device.as_bytes().iter().any(is);
    has(u8::is_ascii_digit) && has(|byte| matches!(byte, b':' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> KnownAs {
        let mut known = KnownAs::default();
        for line in lines {
            known.hears(line.as_bytes());
        }
        known
    }

    fn names<'a>(known: &'a KnownAs, device: &str) -> Vec<&'a str> {
        known.names(device).iter().map(|name| &**name).collect()
    }

    #[test]
    fn a_usb_device_is_known_by_product_driver_and_interface() {
        let known = of(&[
            "usb 3-1: new SuperSpeed USB device number 2 using xhci_hcd",
            "usb 3-1: Product: USB 10/100/1000 LAN",
            "hub 3-2:1.0: USB hub found",
            "r8152 3-1:1.0 eth0: v1.12.13",
            "r8152 3-1:1.0 enx00e04c680001: renamed from eth0",
            "usb-storage 2-1.4:1.0: USB Mass Storage device detected",
        ]);
        assert_eq!(
            names(&known, "3-1"),
            ["USB 10/100/1000 LAN", "r8152", "enx00e04c680001"]
        );
        assert_eq!(names(&known, "3-1:1.0"), ["enx00e04c680001"]);
        assert_eq!(names(&known, "2-1.4"), ["usb-storage"]);
        assert!(known.names("3-2").is_empty());
    }

    #[test]
    fn disks_network_cards_and_inputs_are_known() {
        let known = of(&[
            "scsi 2:0:0:0: Direct-Access     ATA      Samsung SSD 850  1B6Q PQ: 0 ANSI: 5",
            "sd 2:0:0:0: [sda] 500118192 512-byte logical blocks: (256 GB/238 GiB)",
            "e1000e 0000:00:1f.6 eth0: (PCI Express:2.5GT/s:Width x1) 8c:16:45:00:00:01",
            "e1000e 0000:00:1f.6 enp0s31f6: renamed from eth0",
            "nvme nvme0: pci function 0000:01:00.0",
            "input: AT Translated Set 2 keyboard as /devices/platform/i8042/serio0/input/input3",
            "systemd[1]: Mounted a disk",
            "audit: type=1400 audit(1.0:2): apparmor",
            "input: no path",
            "scsi 9:0:0:0: short PQ: 0",
        ]);
        assert_eq!(names(&known, "2:0:0:0"), ["Samsung SSD 850", "sda"]);
        assert_eq!(names(&known, "0000:00:1f.6"), ["enp0s31f6"]);
        assert_eq!(names(&known, "0000:01:00.0"), ["nvme0"]);
        assert_eq!(names(&known, "serio0"), ["AT Translated Set 2 keyboard"]);
        assert_eq!(names(&known, "input3"), names(&known, "serio0"));
        assert_eq!(known.0.len(), 5);
    }

    #[test]
    fn sysfs_names_the_drivers_of_interfaces() {
        let device = |name: &str, driver: &str, parent: Option<usize>| Device {
            name: name.into(),
            driver: Some(driver.into()),
            parent,
            suppliers: Vec::new(),
        };
        let mut known = KnownAs::default();
        known.add_sysfs(&[
            device("3-1", "usb", None),
            device("3-1:1.0", "r8152", Some(0)),
            device("eth0", "net", Some(1)),
            device("3-1:1.1", "usb", Some(0)),
        ]);
        assert_eq!(names(&known, "3-1"), ["r8152", "eth0"]);
        assert_eq!(names(&known, "3-1:1.0"), ["eth0"]);
    }

    #[test]
    fn no_log_fills_the_memory() {
        let mut known = KnownAs::default();
        for number in 0..DEVICES_MAX + 10 {
            known.hears(format!("usb 1-{number}: Product: x").as_bytes());
        }
        for number in 0..9 {
            known.hears(format!("usb 1-1: Product: {number}").as_bytes());
        }
        known.hears(format!("usb 1-2: Product: {}", "y".repeat(BYTES_MAX + 1)).as_bytes());
        assert_eq!(known.0.len(), DEVICES_MAX);
        assert_eq!(known.names("1-1").len(), NAMES_MAX);
        assert_eq!(names(&known, "1-2"), ["x"]);
    }
}

//! The machine's devices as sysfs has them: what each lies below, and which others supply it.
//!
//! A log names the parent of a device that has a callback, by its name alone, and no supplier at all.
//! Source: Documentation/driver-api/device_link.rst, Documentation/ABI/testing/sysfs-class-devlink.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reveille_kernel::Root;
use serde::{Deserialize, Serialize};

/// A name that many calls share.
pub type Name = Arc<str>;

/// More are not read. Large servers have some ten thousand.
const DEVICES_MAX: usize = 100_000;
/// Folders one below the other. Real ones are some twenty deep.
const DEEPEST: usize = 64;

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its folder's name in sysfs, which is also the kernel's in its log.
    pub name: Name,
    /// Its driver, or its bus or class where it has none: what the kernel writes before the name.
    pub driver: Option<Name>,
    /// Its place in the list.
    pub parent: Option<usize>,
    /// Places of the devices that it waits for besides in a resume, and that wait for it in a suspend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppliers: Vec<usize>,
}

/// The devices below /sys/devices, each parent before its children; none where sysfs cannot be read.
pub fn read(root: &Root) -> Vec<Device> {
    let mut reading = Reading::default();
    if let Ok(top) = root.path("sys/devices").canonicalize() {
        reading.folder(&top, None, 0);
    }
    reading.join_suppliers();
    reading.devices
}

#[derive(Default)]
struct Reading {
    devices: Vec<Device>,
    places: HashMap<PathBuf, usize>,
    /// Each consumer's place, and the link to its supplier.
    links: Vec<(usize, PathBuf)>,
}

impl Reading {
    fn folder(&mut self, folder: &Path, parent: Option<usize>, depth: usize) {
        if depth > DEEPEST || self.devices.len() >= DEVICES_MAX {
            return;
        }
        // A folder without it only holds others together: those of a class, or of a bus.
        let is_device = folder.join("uevent").exists();
        let device = is_device.then(|| self.device(folder, parent));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = entry.file_name();
            let is_link = name.as_encoded_bytes().starts_with(b"supplier:");
            if kind.is_dir() {
                self.folder(&entry.path(), device.or(parent), depth + 1);
            } else if let (Some(device), true) = (device, is_link) {
                self.links.push((device, entry.path()));
            }
        }
    }

    fn device(&mut self, folder: &Path, parent: Option<usize>) -> usize {
        let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into());
        let named = |link: &str| std::fs::read_link(folder.join(link)).ok();
        let driver = named("driver").or_else(|| named("subsystem"));
        let place = self.devices.len();
        self.places.insert(folder.to_owned(), place);
        self.devices.push(Device {
            name: last(folder).unwrap_or_else(|| "".into()),
            driver: driver.and_then(|path| last(&path)),
            parent,
            suppliers: Vec::new(),
        });
        place
    }

    /// The kernel waits for the supplier of a link unless the link is dormant or is there for probing
    /// alone (dpm_wait_for_suppliers in drivers/base/power/main.c, device_link_flag_is_sync_state_only
    /// in drivers/base/core.c).
    fn join_suppliers(&mut self) {
        for (consumer, link) in std::mem::take(&mut self.links) {
            let state = |name: &str| std::fs::read_to_string(link.join(name)).unwrap_or_default();
            if state("status").trim() == "dormant" || state("sync_state_only").trim() == "1" {
                continue;
            }
            let supplier = link.join("supplier").canonicalize().ok();
            let supplier = supplier.and_then(|path| self.places.get(&path).copied());
            self.devices[consumer].suppliers.extend(supplier);
        }
    }
}

/// The USB device of an interface, by the interface's name: of `2-3.1:1.0`, which is interface 0 in
/// configuration 1, it is `2-3.1`, and of the root hub's `2-0:1.0` it is `usb2`. Source:
/// usb_set_configuration in drivers/usb/core/message.c.
pub(crate) fn of_usb_interface(name: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let (device, interface) = name.split_once(':')?;
    let (configuration, number) = interface.split_once('.')?;
    let (bus, ports) = device.split_once('-')?;
    let is_one =
        [bus, configuration, number].into_iter().all(is_number) && ports.split('.').all(is_number);
    match ports {
        _ if !is_one => None,
        "0" => Some(format!("usb{bus}")),
        _ => Some(device.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn devices_parents_and_suppliers_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let at = |path: &str| folder.path().join("sys").join(path);
        let device = |path: &str, link: &str, to: &str| {
            fs::create_dir_all(at(path)).unwrap();
            fs::write(at(path).join("uevent"), "").unwrap();
            symlink(Path::new("/somewhere").join(to), at(path).join(link)).unwrap();
        };
        device("devices/pci0", "subsystem", "bus/pci");
        device("devices/pci0/00:1f.2", "driver", "drivers/ahci");
        // A device that is neither has no kind with a name in the kernel; `net` only groups
        // interfaces.
        device("devices/pci0/00:1f.2/net/eth0", "subsystem", "class/net");
        device("devices/platform/clock", "firmware_node", "clock");
        for (name, status, supplier) in [
            ("a", "active", "platform/clock"),
            ("b", "dormant", "pci0"),
            ("c", "available", "pci0"),
        ] {
            let link = format!("devices/virtual/devlink/{name}");
            device(&link, "subsystem", "class/devlink");
            fs::write(at(&link).join("status"), format!("{status}\n")).unwrap();
            let only = if name == "c" { "1\n" } else { "0\n" };
            fs::write(at(&link).join("sync_state_only"), only).unwrap();
            let supplier = Path::new("../../..").join(supplier);
            symlink(supplier, at(&link).join("supplier")).unwrap();
            let consumer = at("devices/pci0/00:1f.2").join(format!("supplier:platform:{name}"));
            symlink(Path::new("../../virtual/devlink").join(name), consumer).unwrap();
        }
        let devices = read(&root);
        let of = |name: &str| devices.iter().find(|one| &*one.name == name).unwrap();
        let named = |place: usize| &*devices[place].name;
        let disk = of("00:1f.2");
        assert_eq!(disk.driver.as_deref(), Some("ahci"));
        assert_eq!(disk.parent.map(named), Some("pci0"));
        assert_eq!(
            disk.suppliers
                .iter()
                .map(|&one| named(one))
                .collect::<Vec<_>>(),
            ["clock"]
        );
        assert_eq!(of("pci0").parent, None);
        assert_eq!(of("eth0").parent.map(named), Some("00:1f.2"));
        assert_eq!(of("eth0").driver.as_deref(), Some("net"));
        assert_eq!((of("clock").parent, &of("clock").driver), (None, &None));
        assert_eq!(devices.len(), 7);
        assert!(read(&Root::at(folder.path().join("nothing"))).is_empty());
    }

    #[test]
    fn a_tree_is_read_down_to_its_depth_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = folder.path().join("sys/devices");
        for depth in 1..DEEPEST + 5 {
            at.push(format!("d{depth}"));
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("uevent"), "").unwrap();
        }
        let devices = read(&Root::at(folder.path()));
        assert_eq!(devices.len(), DEEPEST);
        assert_eq!(&*devices[DEEPEST - 1].name, format!("d{DEEPEST}"));
        assert_eq!(devices[DEEPEST - 1].parent, Some(DEEPEST - 2));
    }

    #[test]
    fn a_usb_interface_is_named_with_its_device() {
        let of = |name| of_usb_interface(name);
        assert_eq!(of("2-3:1.0").as_deref(), Some("2-3"));
        assert_eq!(of("1-4.2.1:2.10").as_deref(), Some("1-4.2.1"));
        assert_eq!(of("2-0:1.0").as_deref(), Some("usb2"));
        for other in [
            "0:0:0:0",
            "pci0000:00",
            "0000:00:1f.2",
            "target12:0:0",
            "a-1:1.0",
            "1-:1.0",
            "1-1:1",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

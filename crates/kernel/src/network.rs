//! Network interfaces: their interrupts, and settings that delay packets.

pub mod ethtool;
pub mod icmp;
mod request;
pub mod timestamps;

use std::ffi::{CStr, CString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::interrupts::Interrupts;
use crate::{Error, Result, Root, cpulist};

const CLASS: &str = "sys/class/net";

/// One network interface. Unknown fields are `None` or empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// `eth0`, ...
    pub name: String,
    /// `ifindex`: the kernel's number of it.
    pub index: u32,
    /// It has a device.
    pub physical: bool,
    /// The interrupts of its device, or of the controller that the device is on.
    pub interrupts: Vec<Interrupt>,
    /// Packet steering (RPS): receive queues whose packets other CPUs handle.
    pub steering: Vec<Steering>,
    /// Poll intervals to wait with interrupts off after a poll (`napi_defer_hard_irqs`).
    pub defer_hard_irqs: Option<u64>,
    /// How long, ns (`gro_flush_timeout`).
    pub gro_flush_timeout_ns: Option<u64>,
    /// Packets are polled by a kernel thread, not by the softirq.
    pub threaded: Option<bool>,
    /// The device's; `None` where it has none.
    pub runtime_power: Option<RuntimePower>,
    /// ASPM states that are enabled on its PCI link (`l1`, `l0s`, `l1_1`...); `None` where the
    /// kernel does not report it.
    pub link_states: Option<Vec<String>>,
}

/// One interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// As /proc/interrupts numbers it.
    pub number: u32,
    /// Chip and handler, as /proc/interrupts has it.
    pub name: Option<String>,
    /// CPUs that may serve it.
    pub allowed: Option<Vec<u32>>,
    /// CPUs that serve it, if reported.
    pub effective: Option<Vec<u32>>,
}

/// A receive queue whose packets are handed to other CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// N of the folder `rx-N`.
    pub queue: u32,
    /// Those of `rps_cpus`, ascending; never empty.
    pub cpus: Vec<u32>,
}

/// Runtime power management of the device.
/// Source: Documentation/ABI/testing/sysfs-devices-power of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimePower {
    /// The file that sets it.
    pub control_file: String,
    /// `auto` or `on`.
    pub control: String,
    /// `active`, `suspended`, `unsupported`...
    pub status: Option<String>,
    /// Idle time before it is suspended, ms; negative: never.
    pub autosuspend_delay_ms: Option<i64>,
}

/// Names of the interfaces below `root`, in order.
pub fn names(root: &Root) -> Vec<String> {
    let mut names = root.names(CLASS).unwrap_or_default();
    // bonding_masters is a file there.
    names.retain(|name| root.path(&format!("{CLASS}/{name}/ifindex")).exists());
    names
}

/// The number of the network namespace that this process is in.
///
/// # Errors
/// Where /proc does not list it.
pub fn namespace() -> Result<u32> {
    let path = PathBuf::from("/proc/thread-self/ns/net");
    match std::fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.ino() as u32),
        Err(source) => Err(Error::Io { path, source }),
    }
}

/// The driver of the interface's device.
pub fn driver(root: &Root, name: &str) -> Option<String> {
    let link = root.path(&format!("{CLASS}/{name}/device/driver"));
    let target = std::fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// N of /dev/ptpN, the clock of the interface's device.
pub fn clock(root: &Root, name: &str) -> Option<u32> {
    let names = root.names(&format!("{CLASS}/{name}/device/ptp"))?;
    let mut numbers = names.iter().filter_map(|name| name.strip_prefix("ptp"));
    numbers.find_map(|number| number.parse().ok())
}

/// Whether the interface is up, with or without a link.
pub fn is_up(root: &Root, name: &str) -> Option<bool> {
    const IFF_UP: u64 = 1;
    let flags = root.line(&format!("{CLASS}/{name}/flags"))?;
    let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
    Some(flags & IFF_UP != 0)
}

/// Whether an interface that is up has a link.
pub fn has_link(root: &Root, name: &str) -> Option<bool> {
    let carrier = root.number(&format!("{CLASS}/{name}/carrier"))?;
    Some(carrier != 0)
}

/// The ASPM policy in force, and those there are: the one in brackets of
/// /sys/module/pcie_aspm/parameters/policy. `None` where the kernel has none.
pub fn aspm_policy(root: &Root) -> Option<(String, Vec<String>)> {
    let text = root.line("sys/module/pcie_aspm/parameters/policy")?;
    let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
    let present = text.split_whitespace().find(|word| word.starts_with('['))?;
    Some((bare(present), text.split_whitespace().map(bare).collect()))
}

impl Interface {
    /// Whether this process's network namespace has it: see [`index_here`].
    pub fn is_here(&self) -> bool {
        index_here(&self.name) == Some(self.index)
    }

    /// The interface that `--nic` names.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none of that name, or only in another network namespace.
    pub fn named(root: &Root, name: &str) -> Result<Self> {
        let interface = Self::read(root, name).ok_or_else(|| {
            Error::Usage(format!(
                "--nic: no interface {name:?}; this machine has {}",
                names(root).join(", ")
            ))
        })?;
        match interface.is_here() {
            true => Ok(interface),
            false => Err(Error::Usage(format!(
                "--nic: {name} is in /sys, but not in this network namespace; enter one with \
                 `ip netns exec NAME`, which brings its /sys along"
            ))),
        }
    }

    /// The interface of that name; `None` where there is none.
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        let folder = format!("{CLASS}/{name}");
        let number = |file: &str| root.number(&format!("{folder}/{file}"));
        let index = u32::try_from(number("ifindex")?).ok()?;
        let device = device(root, &folder);
        let below = |file: &str| {
            let path = device.as_ref()?.join(file);
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        };
        Some(Self {
            name: name.to_owned(),
            index,
            physical: device.is_some(),
            interrupts: device
                .as_deref()
                .map_or_else(Vec::new, |device| interrupts(root, device)),
            steering: steering(root, &folder),
            defer_hard_irqs: number("napi_defer_hard_irqs"),
            gro_flush_timeout_ns: number("gro_flush_timeout"),
            threaded: number("threaded").map(|threaded| threaded != 0),
            runtime_power: below("power/control").map(|control| RuntimePower {
                control_file: device
                    .as_deref()
                    .map(|device| shown(root, &device.join("power/control")))
                    .unwrap_or_default(),
                control,
                status: below("power/runtime_status"),
                // Unreadable if autosuspend is not used.
                autosuspend_delay_ms: below("power/autosuspend_delay_ms")
                    .and_then(|text| text.parse().ok()),
            }),
            link_states: device.as_deref().and_then(link_states),
        })
    }
}

/// The interface's index in this process's network namespace; `/sys` may show another namespace's
/// interfaces (after `nsenter --net` alone).
pub fn index_here(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` is a string that ends with a zero and outlives the call.
    match unsafe { nix::libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// The name of the interface of that index in this process's network namespace.
pub fn name_here(index: u32) -> Option<String> {
    // nix 0.31 takes the end of this call without a name for one with an empty name.
    let mut name = [0; nix::libc::IFNAMSIZ];
    // SAFETY: there is room for the longest name and the zero that ends it.
    if unsafe { nix::libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return None;
    }
    let bytes: Vec<u8> = name.iter().map(|letter| letter.cast_unsigned()).collect();
    let name = CStr::from_bytes_until_nul(&bytes).ok()?;
    name.to_str().ok().map(str::to_owned)
}

/// The device with the interface's interrupts: the device or its first ancestor that has any (a virtio or
/// USB device has none), else the device.
fn device(root: &Root, folder: &str) -> Option<PathBuf> {
    let own = root.path(&format!("{folder}/device")).canonicalize().ok()?;
    let top = root.path("sys/devices").canonicalize().ok()?;
    let ancestors = own.ancestors().take_while(|path| path.starts_with(&top));
    let mut with_interrupts = ancestors.filter(|path| !numbers(path).is_empty());
    with_interrupts.next().map(Path::to_owned).or(Some(own))
}

/// The path on the machine itself.
fn shown(root: &Root, path: &Path) -> String {
    let top = root.path("").canonicalize().unwrap_or_default();
    let below = path.strip_prefix(&top).unwrap_or(path);
    format!("/{}", below.display())
}

/// Numbers of a device's interrupts: `msi_irqs`, or the one of `irq`.
fn numbers(device: &Path) -> Vec<u32> {
    if let Ok(entries) = std::fs::read_dir(device.join("msi_irqs")) {
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut numbers: Vec<u32> = names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        return numbers;
    }
    let irq = std::fs::read_to_string(device.join("irq")).unwrap_or_default();
    match irq.trim().parse() {
        Ok(0) | Err(_) => Vec::new(),
        Ok(irq) => vec![irq],
    }
}

fn interrupts(root: &Root, device: &Path) -> Vec<Interrupt> {
    let all = Interrupts::read(root).unwrap_or_default();
    let list = |number: u32, file: &str| {
        let text = root.line(&format!("proc/irq/{number}/{file}"))?;
        cpulist::parse(&text)
    };
    let interrupt = |number: u32| Interrupt {
        number,
        name: all
            .lines
            .iter()
            .find(|line| line.name == number.to_string())
            .map(|line| line.description.clone()),
        allowed: list(number, "smp_affinity_list"),
        effective: list(number, "effective_affinity_list"),
    };
    numbers(device).into_iter().map(interrupt).collect()
}

/// Queues with a steering mask that is not empty: hexadecimal words, the highest first.
fn steering(root: &Root, folder: &str) -> Vec<Steering> {
    let mut steering = Vec::new();
    for queue in 0.. {
        let path = format!("{folder}/queues/rx-{queue}/rps_cpus");
        let Some(mask) = root.line(&path) else {
            break;
        };
        let cpus = cpus_of_mask(&mask).unwrap_or_default();
        if !cpus.is_empty() {
            steering.push(Steering { queue, cpus });
        }
    }
    steering
}

/// `00000000,0000000c` is CPUs 2 and 3.
fn cpus_of_mask(mask: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (place, word) in mask.split(',').rev().enumerate() {
        let word = u32::from_str_radix(word.trim(), 16).ok()?;
        let first = 32 * place as u32;
        let bits = (0..32).filter(|bit| word >> bit & 1 == 1);
        cpus.extend(bits.map(|bit| first + bit));
    }
    Some(cpus)
}

/// `link/l1_aspm` and its like, each 0 or 1.
fn link_states(device: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(device.join("link")).ok()?;
    let mut enabled = Vec::new();
    let mut reported = false;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(state) = name.strip_suffix("_aspm") else {
            continue;
        };
        reported = true;
        if std::fs::read_to_string(entry.path()).is_ok_and(|text| text.trim() == "1") {
            enabled.push(state.to_owned());
        }
    }
    enabled.sort();
    reported.then_some(enabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine with eth5 (an I211 with two queues), lo and veth1.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let pci = "sys/devices/pci0000:00/0000:03:00.0";
        put(&format!("{pci}/irq"), "16\n");
        put(&format!("{pci}/msi_irqs/152"), "msix\n");
        put(&format!("{pci}/msi_irqs/153"), "msix\n");
        put(&format!("{pci}/power/control"), "auto\n");
        put(&format!("{pci}/power/runtime_status"), "active\n");
        put(&format!("{pci}/link/l1_aspm"), "1\n");
        put(&format!("{pci}/link/l1_2_aspm"), "0\n");
        // A virtio device on the PCI one.
        put(&format!("{pci}/virtio0/vendor"), "0x1af4\n");
        put("proc/irq/152/smp_affinity_list", "0-3\n");
        put("proc/irq/152/effective_affinity_list", "2\n");
        put(
            "proc/interrupts",
            "      CPU0 CPU1\n152:  0 111  IR-PCI-MSI 2621441-edge eth5-rx-0\n",
        );
        let class = |name: &str, index: u32| {
            put(&format!("{CLASS}/{name}/ifindex"), &format!("{index}\n"));
        };
        class("eth5", 3);
        put(&format!("{CLASS}/eth5/napi_defer_hard_irqs"), "2\n");
        put(&format!("{CLASS}/eth5/gro_flush_timeout"), "20000\n");
        put(&format!("{CLASS}/eth5/queues/rx-0/rps_cpus"), "0\n");
        put(
            &format!("{CLASS}/eth5/queues/rx-1/rps_cpus"),
            "1,0000000c\n",
        );
        symlink(
            "../../../devices/pci0000:00/0000:03:00.0/virtio0",
            folder.path().join(CLASS).join("eth5/device"),
        )
        .unwrap();
        class("lo", 1);
        class("veth1", 8);
        put(&format!("{CLASS}/bonding_masters"), "\n");
        put(
            "sys/module/pcie_aspm/parameters/policy",
            "default performance [powersave] powersupersave\n",
        );
        folder
    }

    #[test]
    fn an_interface_has_its_devices_interrupts_and_power() {
        let folder = machine();
        let root = Root::at(folder.path());
        let eth5 = Interface::read(&root, "eth5").unwrap();
        assert_eq!((eth5.index, eth5.physical), (3, true));
        let numbers: Vec<u32> = eth5.interrupts.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [152, 153]);
        let first = &eth5.interrupts[0];
        assert_eq!(first.allowed.as_deref(), Some(&[0, 1, 2, 3][..]));
        assert_eq!(first.effective.as_deref(), Some(&[2][..]));
        assert!(first.name.as_deref().unwrap().ends_with("eth5-rx-0"));
        assert_eq!(eth5.interrupts[1].allowed, None);
        let steering = Steering {
            queue: 1,
            cpus: vec![2, 3, 32],
        };
        assert_eq!(eth5.steering, [steering]);
        assert_eq!(eth5.defer_hard_irqs, Some(2));
        let power = eth5.runtime_power.unwrap();
        assert_eq!(power.control, "auto");
        assert_eq!(
            power.control_file,
            "/sys/devices/pci0000:00/0000:03:00.0/power/control"
        );
        assert_eq!(power.autosuspend_delay_ms, None);
        assert_eq!(eth5.link_states, Some(vec!["l1".to_owned()]));
    }

    #[test]
    fn an_interface_without_a_device_is_virtual_and_has_no_interrupts() {
        let folder = machine();
        let veth = Interface::read(&Root::at(folder.path()), "veth1").unwrap();
        assert!(!veth.physical && veth.interrupts.is_empty());
        assert_eq!((veth.runtime_power, veth.link_states), (None, None));
    }

    #[test]
    fn other_names_are_no_interfaces() {
        let folder = machine();
        let root = Root::at(folder.path());
        assert_eq!(names(&root), ["eth5", "lo", "veth1"]);
        for name in ["", "eth6", "bonding_masters", "../net/lo", ".", ".."] {
            assert_eq!(Interface::read(&root, name), None, "{name:?}");
        }
        assert_eq!(names(&Root::at("/nonexistent")), [""; 0]);
    }

    #[test]
    fn the_kernel_knows_an_interface_by_its_name() {
        assert_eq!(index_here("nosuchif"), None);
        assert_eq!(index_here("a\0b"), None);
        let root = Root::default();
        for name in names(&root) {
            let index = Interface::read(&root, &name).map(|interface| interface.index);
            assert_eq!(index_here(&name), index, "{name}");
        }
    }

    #[test]
    fn the_policy_in_brackets_is_in_force() {
        let folder = machine();
        let (present, all) = aspm_policy(&Root::at(folder.path())).unwrap();
        assert_eq!(present, "powersave");
        assert_eq!(all.len(), 4);
        assert_eq!(aspm_policy(&Root::at("/nonexistent")), None);
    }

    #[test]
    fn a_name_that_leaves_the_folder_is_no_interface() {
        let folder = machine();
        let root = Root::at(folder.path());
        // The folder of interfaces, and its parent, taken as interfaces.
        for above in ["sys/class/net/ifindex", "sys/class/ifindex"] {
            fs::write(root.path(above), "7\n").unwrap();
        }
        for name in ["", ".", "..", "lo/../lo", "./lo", "/lo"] {
            assert_eq!(Interface::read(&root, name), None, "{name:?}");
        }
        assert!(Interface::read(&root, "lo").is_some());
    }

    #[test]
    fn an_interface_is_threaded_if_its_file_is_not_zero() {
        let folder = machine();
        let root = Root::at(folder.path());
        let threaded = || Interface::read(&root, "lo").unwrap().threaded;
        assert_eq!(threaded(), None);
        for (text, expected) in [("0\n", false), ("1\n", true)] {
            fs::write(root.path("sys/class/net/lo/threaded"), text).unwrap();
            assert_eq!(threaded(), Some(expected));
        }
    }

    #[test]
    fn the_link_of_the_namespace_gives_its_number() {
        let link = fs::read_link("/proc/self/ns/net").unwrap();
        let number = format!("net:[{}]", namespace().unwrap());
        assert_eq!(link, Path::new(&number));
    }
}

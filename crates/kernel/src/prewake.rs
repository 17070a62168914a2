//! C-state pre-wake of Intel's server processors: the CPU begins to wake ahead of its own timer.
//!
//! Bit 30 of MSR_POWER_CTL (0x1FC) switches it off. Source: PowerCtl.py of intel/pepc.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::cpuinfo::Processor;
use crate::{Root, cpuinfo};

/// Whether the processor wakes ahead of its own timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreWake {
    /// Its own timer finds it awake earlier than another interrupt would.
    On,
    /// It wakes for its timer as for any interrupt.
    Off,
    /// The register cannot be read, with the reason.
    Unknown(String),
}

const POWER_CTL: u64 = 0x1fc;
const DISABLED: u64 = 1 << 30;

/// Families and models, from Ivy Bridge to Granite and Diamond Rapids; clients and Atoms have the bit without effect.
const SERVERS: [(u32, &[u32]); 2] = [
    (
        6,
        &[
            0x3e, 0x3f, 0x4f, 0x56, 0x55, 0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae,
        ],
    ),
    (19, &[0x01]),
];

/// Of the first CPU's package, as the firmware sets all alike. `None` where the processor has no pre-wake; a guest's
/// hypervisor hides it.
pub fn read(root: &Root) -> Option<PreWake> {
    let text = root.text("proc/cpuinfo")?;
    let processors = cpuinfo::parse(&text);
    let first = processors.first()?;
    (has(first) && !first.has_flag("hypervisor")).then(|| match power_ctl(root, first.number) {
        Ok(value) if value & DISABLED != 0 => PreWake::Off,
        Ok(_) => PreWake::On,
        Err(error) => PreWake::Unknown(why(&error)),
    })
}

fn has(processor: &Processor) -> bool {
    let number = |key| processor.number_of(key);
    processor.get("vendor_id") == Some("GenuineIntel")
        && number("cpu family")
            .zip(number("model"))
            .is_some_and(|(family, model)| {
                let mut servers = SERVERS.iter();
                servers.any(|(of, models)| *of == family && models.contains(&model))
            })
}

fn power_ctl(root: &Root, cpu: u32) -> io::Result<u64> {
    let mut value = [0; 8];
    let file = File::open(root.path(&format!("dev/cpu/{cpu}/msr")))?;
    file.read_exact_at(&mut value, POWER_CTL)?;
    Ok(u64::from_le_bytes(value))
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the kernel's module msr is not loaded (modprobe msr)".into(),
        io::ErrorKind::PermissionDenied => "only root may read MSR 0x1FC".into(),
        _ => format!("MSR 0x1FC: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of that processor, with the register's value.
    fn with(model: u32, flags: &str, power_ctl: Option<u64>) -> Option<PreWake> {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("proc")).unwrap();
        std::fs::create_dir_all(root.path("dev/cpu/0")).unwrap();
        let cpuinfo = format!(
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\nflags : {flags}\n"
        );
        std::fs::write(root.path("proc/cpuinfo"), cpuinfo).unwrap();
        if let Some(value) = power_ctl {
            let file = File::create(root.path("dev/cpu/0/msr")).unwrap();
            file.write_all_at(&value.to_le_bytes(), POWER_CTL).unwrap();
        }
        read(&root)
    }

    #[test]
    fn bit_30_switches_pre_wake_off() {
        assert_eq!(with(0x8f, "fpu", Some(0x1 << 30)), Some(PreWake::Off));
        assert_eq!(with(0x8f, "fpu", Some(!(1 << 30))), Some(PreWake::On));
    }

    #[test]
    fn without_the_register_it_is_unknown_on_a_server_and_absent_elsewhere() {
        let unknown = with(0x8f, "fpu", None);
        assert!(
            matches!(&unknown, Some(PreWake::Unknown(why)) if why.contains("modprobe msr")),
            "{unknown:?}"
        );
        // A client, and a guest.
        assert_eq!(with(0x9e, "fpu", Some(0)), None);
        assert_eq!(with(0x8f, "fpu hypervisor", Some(0)), None);
    }
}

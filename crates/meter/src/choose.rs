//! Meters by their names.

use reveille_kernel::{Error, Identity, Result, Root};

use crate::dcmi::Dcmi;
use crate::http::{Kind, Socket};
use crate::local;
use crate::reading::{Counts, Meter};
#[cfg(feature = "snmp")]
use crate::snmp::Pdu;

/// The meters of a machine.
#[derive(Default)]
pub struct Found {
    /// Those that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// Why others cannot: a sentence each.
    pub missing: Vec<String>,
}

/// The meters that are found without a name.
pub fn find(root: &Root) -> Found {
    let (mut meters, mut missing) = local::meters(root);
    if root.is_live() {
        match Dcmi::find("ipmitool") {
            Ok(meter) => meters.push(Box::new(meter)),
            Err(why) => missing.push(why.to_string()),
        }
    }
    if meters.is_empty()
        && let Some(hypervisor) = Identity::read(root).hypervisor
    {
        missing.push(format!(
            "This is a virtual machine ({hypervisor}); its host can measure, or a socket in the wall: \
             --meter shelly:HOST, tasmota:HOST, snmp:HOST,OID"
        ));
    }
    Found { meters, missing }
}

/// The meter of that name: one that [`find`] finds, or `shelly:HOST[/CHANNEL][,energy]`,
/// `tasmota:HOST[/CHANNEL][,energy]`, `snmp:HOST,OID[,SCALE]`.
///
/// # Errors
/// [`Error::Usage`] if there is none; those of [`Meter::read`] if it does not answer.
pub fn named(root: &Root, name: &str) -> Result<Box<dyn Meter>> {
    let socket = |kind, words: &str| {
        let (host, counts) = match words.split_once(',') {
            None => (words, Counts::Power),
            Some((host, "energy")) => (host, Counts::Energy),
            Some((_, other)) => {
                let why = format!("{name}: after the host only `energy` can follow, not {other:?}");
                return Err(Error::Usage(why));
            }
        };
        Ok(Box::new(Socket::find(name, kind, host, counts)?) as Box<dyn Meter>)
    };
    match name.split_once(':') {
        Some((_, "")) => Err(Error::Usage(format!("{name}: no host"))),
        Some(("shelly", words)) => socket(Kind::Shelly, words),
        Some(("tasmota", words)) => socket(Kind::Tasmota, words),
        #[cfg(feature = "snmp")]
        Some(("snmp", words)) => Ok(Box::new(Pdu::find(name, words)?)),
        #[cfg(not(feature = "snmp"))]
        Some(("snmp", _)) => Err(Error::Cannot(format!(
            "{name}: this build has no SNMP; `make build` builds it"
        ))),
        _ if name == "dcmi" => Ok(Box::new(Dcmi::find("ipmitool")?)),
        _ => {
            let (mut meters, missing) = local::meters(root);
            let names: Vec<_> = meters.iter().map(|one| one.about().name.clone()).collect();
            match names.iter().position(|one| one == name) {
                Some(place) => Ok(meters.swap_remove(place)),
                None if names.is_empty() => Err(Error::Cannot(format!(
                    "{name}: no such meter here ({})",
                    missing.join("; ")
                ))),
                None => Err(Error::Usage(format!(
                    "{name}: no such meter here; there are {}, and dcmi, shelly:HOST, tasmota:HOST, snmp:HOST,OID",
                    names.join(", ")
                ))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_which_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let said = |name: &str| named(&root, name).err().unwrap().to_string();
        assert!(said("rapl:package-0").contains("no such meter here (RAPL by powercap"));
        assert!(said("shelly:h,volts").contains("only `energy`"));
        assert!(said("shelly:").contains("no host"));
        let chip = folder.path().join("sys/class/hwmon/hwmon0");
        std::fs::create_dir_all(&chip).unwrap();
        std::fs::write(chip.join("power1_input"), "5000000").unwrap();
        assert!(
            said("x").contains("there are hwmon:hwmon0:power1, and dcmi"),
            "{}",
            said("x")
        );
        let mut meter = named(&root, "hwmon:hwmon0:power1").unwrap();
        assert_eq!(meter.read().unwrap(), 5.0);
        assert_eq!(find(&root).meters.len(), 1);
    }
}

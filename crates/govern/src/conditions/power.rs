//! Where the machine's power comes from, and its batteries' charge, by sysfs.
//!
//! As UPower has it: supplies of devices (`scope` Device: a mouse, headphones) are left out, and the machine
//! is on battery if a battery discharges and no mains or USB supply is online.

use reveille_kernel::Root;

use crate::rules::Source;

/// Documentation/ABI/testing/sysfs-class-power.
const FOLDER: &str = "/sys/class/power_supply";

/// What sysfs has of the machine's power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Where it comes from.
    pub source: Source,
    /// Is there any supply?
    pub is_known: bool,
    /// Of all batteries together, %; `None` without batteries, or where they do not give it.
    pub charge: Option<f64>,
}

impl Power {
    /// As it is now.
    pub fn read(root: &Root) -> Self {
        let names = root.names(FOLDER).unwrap_or_default();
        let folders = names.iter().map(|name| format!("{FOLDER}/{name}"));
        let folders: Vec<String> = folders
            .filter(|folder| is(root, folder, "type", |_| true))
            .filter(|folder| !is(root, folder, "scope", |scope| scope == "Device"))
            .collect();
        let of_type = |wanted: fn(&str) -> bool| {
            let of = move |folder: &&String| is(root, folder, "type", wanted);
            folders.iter().filter(of)
        };
        let mut lines = of_type(|of| of == "Mains" || of.starts_with("USB"));
        let is_online = lines.any(|line| is(root, line, "online", |online| online != "0"));
        let batteries = of_type(|of| of == "Battery");
        let batteries: Vec<&String> = batteries
            .filter(|battery| !is(root, battery, "present", |present| present == "0"))
            .collect();
        let mut all = batteries.iter();
        let discharges = all.any(|one| is(root, one, "status", |status| status == "Discharging"));
        Self {
            source: match discharges && !is_online {
                true => Source::Battery,
                false => Source::Ac,
            },
            is_known: !folders.is_empty(),
            charge: charge(root, &batteries),
        }
    }
}

fn is(root: &Root, folder: &str, file: &str, wanted: impl Fn(&str) -> bool) -> bool {
    let line = root.line(&format!("{folder}/{file}"));
    line.is_some_and(|line| wanted(&line))
}

/// Of the batteries together, %: by their energy, or their electric charge, where all of them give it; else
/// the mean of their own figures.
fn charge(root: &Root, batteries: &[&String]) -> Option<f64> {
    let number = |battery: &str, file: &str| {
        let number = root.number(&format!("{battery}/{file}"))?;
        Some(number as f64)
    };
    let sum = |file| {
        let each = batteries.iter().map(|battery| number(battery, file));
        each.sum::<Option<f64>>()
    };
    let share = |of, whole| Some(sum(of)? / sum(whole).filter(|whole| *whole > 0.0)? * 100.0);
    let together =
        share("energy_now", "energy_full").or_else(|| share("charge_now", "charge_full"));
    match batteries {
        [] => None,
        [one] => number(one, "capacity").or(together),
        _ => together.or_else(|| Some(sum("capacity")? / batteries.len() as f64)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(supplies: &[(&str, &[(&str, &str)])]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path(FOLDER)).unwrap();
        for (name, files) in supplies {
            let supply = root.path(FOLDER).join(name);
            fs::create_dir(&supply).unwrap();
            for (file, text) in *files {
                fs::write(supply.join(file), format!("{text}\n")).unwrap();
            }
        }
        (folder, root)
    }

    fn power(supplies: &[(&str, &[(&str, &str)])]) -> Power {
        Power::read(&machine(supplies).1)
    }

    const OFF: (&str, &[(&str, &str)]) = ("AC", &[("type", "Mains"), ("online", "0")]);
    const ON: (&str, &[(&str, &str)]) = ("AC", &[("type", "Mains"), ("online", "1")]);
    const DISCHARGING: (&str, &[(&str, &str)]) = (
        "BAT0",
        &[
            ("type", "Battery"),
            ("status", "Discharging"),
            ("capacity", "29"),
        ],
    );

    #[test]
    fn a_machine_without_supplies_is_on_ac() {
        let unknown = Power {
            source: Source::Ac,
            is_known: false,
            charge: None,
        };
        assert_eq!(power(&[]), unknown);
        assert_eq!(Power::read(&Root::at("/nowhere")), unknown);
    }

    #[test]
    fn a_battery_that_discharges_without_mains_is_on_battery() {
        let on = power(&[OFF, DISCHARGING]);
        assert_eq!((on.source, on.charge), (Source::Battery, Some(29.0)));
        assert_eq!(power(&[ON, DISCHARGING]).source, Source::Ac);
        let full: (&str, &[(&str, &str)]) = ("BAT0", &[("type", "Battery"), ("status", "Full")]);
        assert_eq!(power(&[OFF, full]).source, Source::Ac);
        let usb: (&str, &[(&str, &str)]) = ("U", &[("type", "USB_PD"), ("online", "1")]);
        assert_eq!(power(&[OFF, usb, DISCHARGING]).source, Source::Ac);
    }

    #[test]
    fn supplies_of_devices_and_absent_batteries_do_not_count() {
        let mouse: (&str, &[(&str, &str)]) = (
            "hid",
            &[
                ("type", "Battery"),
                ("scope", "Device"),
                ("status", "Discharging"),
                ("capacity", "5"),
            ],
        );
        let only = power(&[mouse]);
        assert_eq!(
            (only.source, only.is_known, only.charge),
            (Source::Ac, false, None)
        );
        let absent: (&str, &[(&str, &str)]) = (
            "BAT1",
            &[("type", "Battery"), ("present", "0"), ("capacity", "0")],
        );
        assert_eq!(power(&[OFF, DISCHARGING, absent, mouse]).charge, Some(29.0));
        let system: (&str, &[(&str, &str)]) = (
            "BAT0",
            &[
                ("type", "Battery"),
                ("scope", "System"),
                ("status", "Discharging"),
            ],
        );
        assert_eq!(power(&[system]).source, Source::Battery);
    }

    #[test]
    fn two_batteries_count_by_what_they_hold() {
        let battery = |now, full| {
            [
                ("type", "Battery"),
                ("energy_now", now),
                ("energy_full", full),
            ]
        };
        let (large, small) = (battery("30", "90"), battery("10", "10"));
        let both = power(&[("BAT0", &large), ("BAT1", &small)]);
        assert_eq!(both.charge, Some(40.0));
        let plain = |capacity| [("type", "Battery"), ("capacity", capacity)];
        let both = power(&[("BAT0", &plain("20")), ("BAT1", &plain("40"))]);
        assert_eq!(both.charge, Some(30.0));
        let both = power(&[("BAT0", &plain("20")), ("BAT1", &[("type", "Battery")])]);
        assert_eq!(both.charge, None);
    }
}

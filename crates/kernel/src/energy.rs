//! Meters of power: the processor's energy counters (RAPL), sensors of chips, and batteries.
//!
//! Sources: Documentation/power/powercap/powercap.rst and Documentation/ABI/testing/
//! sysfs-class-power of the kernel.

mod hwmon;

use serde::{Deserialize, Serialize};

use crate::Root;
pub use hwmon::{Sensor, sensors};

const POWERCAP: &str = "sys/class/powercap";
const SUPPLIES: &str = "sys/class/power_supply";

/// What a RAPL zone measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// A whole package.
    Package,
    /// Its cores.
    Cores,
    /// The rest of the package: graphics on most.
    Uncore,
    /// Its memory.
    Dram,
    /// The platform (`psys`), as defined by the processor's maker.
    Platform,
}

/// One RAPL zone: an energy counter that wraps around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// As the kernel names it: `package-0`, `core`, `dram`, `psys`.
    pub name: String,
    /// What the counter covers.
    pub domain: Domain,
    /// The package that it belongs to; `None` for the platform, and where it is unknown.
    pub package: Option<u32>,
    /// The counter's file, below the root.
    file: String,
    /// `max_energy_range_uj`: the counter goes from there to zero.
    wraps_at_uj: Option<u64>,
}

impl Meter {
    /// The counter, µJ; `None` where it cannot be read (it is root's).
    pub fn read_uj(&self, root: &Root) -> Option<u64> {
        root.number(&self.file)
    }

    /// The counter's largest value, µJ.
    pub fn range_uj(&self) -> Option<u64> {
        self.wraps_at_uj
    }

    /// The energy between two readings, µJ; `None` if the counter wrapped around at an unknown value. Two
    /// wraps look like one; they take at least a minute.
    pub fn between_uj(&self, before: u64, after: u64) -> Option<u64> {
        match after.checked_sub(before) {
            Some(used) => Some(used),
            None => (self.wraps_at_uj?.checked_sub(before)?).checked_add(after),
        }
    }
}

/// The RAPL zones below `root`, packages first and their parts after each; empty where there are
/// none.
pub fn meters(root: &Root) -> Vec<Meter> {
    let mut zones = root.names(POWERCAP).unwrap_or_default();
    // Not the control types themselves (`intel-rapl`).
    zones.retain(|zone| zone.contains(':'));
    // The same package's counter, by another way.
    if zones.iter().any(|zone| zone.starts_with("intel-rapl:")) {
        zones.retain(|zone| zone.starts_with("intel-rapl:"));
    }
    let mut meters: Vec<Meter> = zones.iter().filter_map(|zone| meter(root, zone)).collect();
    // A part's own name does not include its package.
    meters.sort_by_key(|meter| (meter.package.unwrap_or(u32::MAX), meter.file.clone()));
    meters
}

/// The energy counters of all processor packages together.
#[derive(Debug, Clone)]
pub struct Packages {
    root: Root,
    meters: Vec<Meter>,
}

/// One reading of them, µJ each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagesReading(Vec<Option<u64>>);

impl Packages {
    /// `None` where there is no counter of a package.
    pub fn of(root: &Root) -> Option<Self> {
        let mut meters = meters(root);
        meters.retain(|meter| meter.domain == Domain::Package);
        (!meters.is_empty()).then(|| Self {
            root: root.clone(),
            meters,
        })
    }

    /// Reads the counters, for [`Packages::between_j`].
    pub fn read(&self) -> PackagesReading {
        let meters = self.meters.iter();
        PackagesReading(meters.map(|meter| meter.read_uj(&self.root)).collect())
    }

    /// The energy of all packages between two readings, J; `None` if one is unknown.
    pub fn between_j(&self, before: &PackagesReading, after: &PackagesReading) -> Option<f64> {
        let readings = before.0.iter().zip(&after.0);
        let used = self.meters.iter().zip(readings);
        let used_uj = used.map(|(meter, (before, after))| meter.between_uj((*before)?, (*after)?));
        Some(used_uj.sum::<Option<u64>>()? as f64 / 1e6)
    }
}

/// Of a zone: `intel-rapl:0`, `intel-rapl:0:1`, and of other drivers likewise.
fn meter(root: &Root, zone: &str) -> Option<Meter> {
    let folder = format!("{POWERCAP}/{zone}");
    let name = root.line(&format!("{folder}/name"))?;
    let file = format!("{folder}/energy_uj");
    if !root.path(&file).exists() {
        return None;
    }
    // `intel-rapl:0:1` is a part of `intel-rapl:0`.
    let whole = match zone.matches(':').count() {
        0 | 1 => name.clone(),
        _ => {
            let parent = zone.rsplit_once(':').map_or(zone, |(parent, _)| parent);
            root.line(&format!("{POWERCAP}/{parent}/name"))?
        }
    };
    Some(Meter {
        domain: domain(&name)?,
        package: package(&whole),
        wraps_at_uj: root.number(&format!("{folder}/max_energy_range_uj")),
        name,
        file,
    })
}

fn domain(name: &str) -> Option<Domain> {
    match name {
        "core" => Some(Domain::Cores),
        "uncore" => Some(Domain::Uncore),
        "dram" => Some(Domain::Dram),
        "psys" => Some(Domain::Platform),
        _ => package(name).map(|_| Domain::Package),
    }
}

/// The number in `package-0` or `package-0-die-1`.
fn package(name: &str) -> Option<u32> {
    name.strip_prefix("package-")?
        .split('-')
        .next()?
        .parse()
        .ok()
}

/// A discharging battery.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Discharge {
    /// Such as `BAT0`.
    pub battery: String,
    /// By `power_now`, or `current_now` × `voltage_now`.
    pub watts: f64,
}

/// The batteries below `root` that are discharging and report their power, except those of devices such
/// as mice (`scope` Device).
pub fn discharging(root: &Root) -> Vec<Discharge> {
    let discharge = |battery: String| {
        let file = |name: &str| format!("{SUPPLIES}/{battery}/{name}");
        let is = |name: &str, value: &str| root.line(&file(name)).as_deref() == Some(value);
        if !is("type", "Battery") || !is("status", "Discharging") || is("scope", "Device") {
            return None;
        }
        // Some drivers give discharging currents a sign.
        let micro = |name: &str| {
            let value: f64 = root.line(&file(name))?.parse().ok()?;
            Some(value.abs() / 1e6)
        };
        let by_current = || Some(micro("current_now")? * micro("voltage_now")?);
        let watts = micro("power_now").or_else(by_current)?;
        Some(Discharge { battery, watts })
    };
    let supplies = root.names(SUPPLIES).unwrap_or_default();
    supplies.into_iter().filter_map(discharge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join("sys/class").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn a_domain_belongs_to_its_package_and_a_duplicate_counter_is_omitted() {
        let (_folder, root) = machine(&[
            ("powercap/intel-rapl/enabled", "1"),
            ("powercap/intel-rapl:1/name", "package-0"),
            ("powercap/intel-rapl:1/energy_uj", "500"),
            ("powercap/intel-rapl:1:0/name", "core"),
            ("powercap/intel-rapl:1:0/energy_uj", "7"),
            ("powercap/intel-rapl:0/name", "package-1-die-0"),
            ("powercap/intel-rapl:0/energy_uj", "9"),
            ("powercap/intel-rapl:2/name", "psys"),
            ("powercap/intel-rapl:2/energy_uj", "11"),
            ("powercap/intel-rapl-mmio:0/name", "package-0"),
            ("powercap/intel-rapl-mmio:0/energy_uj", "500"),
        ]);
        let meters = meters(&root);
        let listed: Vec<_> = meters
            .iter()
            .map(|meter| (meter.name.as_str(), meter.domain, meter.package))
            .collect();
        assert_eq!(
            listed,
            [
                ("package-0", Domain::Package, Some(0)),
                ("core", Domain::Cores, Some(0)),
                ("package-1-die-0", Domain::Package, Some(1)),
                ("psys", Domain::Platform, None),
            ]
        );
        assert_eq!(meters[0].read_uj(&root), Some(500));
    }

    #[test]
    fn a_wrapped_counter_continues() {
        let (_folder, root) = machine(&[
            ("powercap/intel-rapl:0/name", "package-0"),
            ("powercap/intel-rapl:0/energy_uj", "10"),
            ("powercap/intel-rapl:0/max_energy_range_uj", "1000"),
            ("powercap/intel-rapl:1/name", "package-1"),
            ("powercap/intel-rapl:1/energy_uj", "10"),
        ]);
        let meters = meters(&root);
        assert_eq!(meters[0].between_uj(400, 900), Some(500));
        assert_eq!(meters[0].between_uj(900, 10), Some(110));
        assert_eq!(meters[1].between_uj(900, 10), None, "the range is unknown");
    }

    #[test]
    fn packages_are_counted_together_or_not_at_all() {
        let (folder, root) = machine(&[
            ("powercap/intel-rapl:0/name", "package-0"),
            ("powercap/intel-rapl:0/energy_uj", "1000000"),
            ("powercap/intel-rapl:0:0/name", "core"),
            ("powercap/intel-rapl:0:0/energy_uj", "7"),
            ("powercap/intel-rapl:1/name", "package-1"),
            ("powercap/intel-rapl:1/energy_uj", "5000000"),
        ]);
        let now = |zone: &str, uj: &str| {
            let file = format!("sys/class/powercap/{zone}/energy_uj");
            std::fs::write(folder.path().join(file), uj).unwrap();
        };
        let packages = Packages::of(&root).unwrap();
        let before = packages.read();
        now("intel-rapl:0", "1500000");
        now("intel-rapl:0:0", "90000000");
        now("intel-rapl:1", "7000000");
        let after = packages.read();
        assert_eq!(packages.between_j(&before, &after), Some(2.5));
        now("intel-rapl:1", "unreadable");
        assert_eq!(packages.between_j(&before, &packages.read()), None);
        let (_folder, root) = machine(&[
            ("powercap/intel-rapl:0/name", "psys"),
            ("powercap/intel-rapl:0/energy_uj", "1"),
        ]);
        assert!(Packages::of(&root).is_none());
    }

    #[test]
    fn a_battery_counts_only_while_discharging() {
        let battery = |status: &str, more: &[(&str, &str)]| {
            let mut files = vec![("power_supply/BAT0/type", "Battery")];
            files.push(("power_supply/BAT0/status", status));
            files.extend(more);
            let (_folder, root) = machine(&files);
            discharging(&root).first().map(|battery| battery.watts)
        };
        let power = ("power_supply/BAT0/power_now", "7500000");
        let current = ("power_supply/BAT0/current_now", "-500000");
        let voltage = ("power_supply/BAT0/voltage_now", "12000000");
        assert_eq!(battery("Discharging", &[power]), Some(7.5));
        assert_eq!(battery("Discharging", &[current, voltage]), Some(6.0));
        assert_eq!(battery("Discharging", &[current]), None);
        assert_eq!(battery("Charging", &[power]), None);
        let mouse = ("power_supply/BAT0/scope", "Device");
        assert_eq!(battery("Discharging", &[power, mouse]), None);
    }

    #[test]
    fn a_machine_without_meters_has_none() {
        let (_folder, root) = machine(&[]);
        assert!(meters(&root).is_empty() && discharging(&root).is_empty());
    }

    #[test]
    fn each_domain_has_its_name() {
        let names = [
            "core",
            "uncore",
            "dram",
            "psys",
            "package-0",
            "package-1-die-0",
            "gpu",
        ];
        let (cores, uncore, dram) = (Domain::Cores, Domain::Uncore, Domain::Dram);
        assert_eq!(
            names.map(domain),
            [
                Some(cores),
                Some(uncore),
                Some(dram),
                Some(Domain::Platform),
                Some(Domain::Package),
                Some(Domain::Package),
                None
            ]
        );
        assert_eq!(package("package-12-die-1"), Some(12));
    }
}

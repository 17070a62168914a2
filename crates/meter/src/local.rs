//! Meters of this machine: RAPL by powercap and by perf, sensors of chips, batteries.

use std::os::fd::OwnedFd;

use reveille_kernel::energy::{self, Domain, Sensor};
use reveille_kernel::{Error, Result, Root, counters};

use crate::reading::{About, Continued, Counts, Meter, Scope};

/// A µJ or a µW.
const MICRO: f64 = 1e-6;

/// Those below `root` that can be read, and why others cannot.
pub fn meters(root: &Root) -> (Vec<Box<dyn Meter>>, Vec<String>) {
    let (mut found, mut missing): (Vec<Box<dyn Meter>>, _) = (Vec::new(), Vec::new());
    let zones = energy::meters(root);
    let unreadable = zones.iter().filter(|zone| zone.read_uj(root).is_none());
    match (zones.len(), unreadable.count()) {
        (0, _) => missing.push("RAPL by powercap: this kernel has no zone".to_owned()),
        (_, 0) => {}
        (all, unreadable) => missing.push(format!(
            "RAPL by powercap: {unreadable} of {all} counters cannot be read; run as root"
        )),
    }
    let readable = zones
        .into_iter()
        .filter(|zone| zone.read_uj(root).is_some());
    found.extend(readable.map(|zone| Box::new(Zone::of(root, zone)) as Box<dyn Meter>));
    if root.is_live() {
        by_perf(root, &mut found, &mut missing);
    }
    let sensors = energy::sensors(root);
    if sensors.is_empty() {
        missing.push("hwmon: no chip has a sensor of energy or power".to_owned());
    }
    for sensor in sensors {
        let chip = Chip::of(root, sensor, &found);
        found.push(Box::new(chip));
    }
    let batteries = energy::discharging(root);
    if batteries.is_empty() {
        missing.push("battery: none is discharging with a report of its power".to_owned());
    }
    found.extend(batteries.into_iter().map(|one| {
        let about = about(
            format!("battery:{}", one.battery),
            Scope::Battery,
            Counts::Power,
        );
        Box::new(Battery {
            root: root.clone(),
            battery: one.battery,
            about,
        }) as Box<dyn Meter>
    }));
    (found, missing)
}

fn by_perf(root: &Root, found: &mut Vec<Box<dyn Meter>>, missing: &mut Vec<String>) {
    let counters = counters::energy(root);
    if counters.is_empty() {
        missing.push("RAPL by perf: this kernel has no PMU `power`".to_owned());
    }
    for (counter, unit_j) in counters {
        for (package, &cpu) in counter.counted_on.iter().enumerate() {
            match counter.open(cpu) {
                Ok(opened) => found.push(Box::new(Perf {
                    opened,
                    unit_j,
                    continued: Continued::default(),
                    about: About {
                        resolution: Some(unit_j),
                        ..about(
                            format!("perf:{}-{package}", counter.event),
                            of_event(&counter.event),
                            Counts::Energy,
                        )
                    },
                })),
                Err(why) => missing.push(format!("RAPL by perf: {why}")),
            }
        }
    }
}

fn about(name: String, scope: Scope, counts: Counts) -> About {
    About {
        name,
        scope,
        counts,
        resolution: Some(MICRO),
        range_j: None,
    }
}

fn of_event(event: &str) -> Scope {
    match event {
        "energy-pkg" => Scope::Package,
        "energy-cores" => Scope::Cores,
        "energy-ram" => Scope::Dram,
        "energy-psys" => Scope::Platform,
        _ => Scope::Other,
    }
}

fn gone(name: &str) -> Error {
    Error::Disturbed(format!("{name}: it cannot be read any more"))
}

struct Zone {
    root: Root,
    meter: energy::Meter,
    continued: Continued,
    about: About,
}

impl Zone {
    fn of(root: &Root, meter: energy::Meter) -> Self {
        let scope = match meter.domain {
            Domain::Package => Scope::Package,
            Domain::Cores => Scope::Cores,
            Domain::Dram => Scope::Dram,
            Domain::Platform => Scope::Platform,
            Domain::Uncore => Scope::Other,
        };
        // A part's own name does not include its package.
        let name = match (meter.domain, meter.package) {
            (Domain::Package, _) | (_, None) => format!("rapl:{}", meter.name),
            (_, Some(package)) => format!("rapl:{}-{package}", meter.name),
        };
        Self {
            root: root.clone(),
            continued: Continued::default(),
            about: About {
                range_j: meter.range_uj().map(|range| range as f64 * MICRO),
                ..about(name, scope, Counts::Energy)
            },
            meter,
        }
    }
}

impl Meter for Zone {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let name = &self.about.name;
        let uj = self.meter.read_uj(&self.root).ok_or_else(|| gone(name))?;
        let grown = |before, after| self.meter.between_uj(before, after);
        self.continued.add_j(name, uj, MICRO, grown)
    }
}

struct Perf {
    opened: OwnedFd,
    unit_j: f64,
    continued: Continued,
    about: About,
}

impl Meter for Perf {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let name = &self.about.name;
        let counts = counters::read(&self.opened).map_err(|_| gone(name))?;
        let grown = |before, after: u64| after.checked_sub(before);
        self.continued.add_j(name, counts, self.unit_j, grown)
    }
}

struct Chip {
    root: Root,
    sensor: Sensor,
    continued: Continued,
    about: About,
}

impl Chip {
    fn of(root: &Root, sensor: Sensor, found: &[Box<dyn Meter>]) -> Self {
        let scope = match (&*sensor.chip, &*sensor.label) {
            ("power_meter", _) => Scope::Platform,
            (_, label) if label.starts_with("Esocket") => Scope::Package,
            (_, label) if label.starts_with("Ecore") => Scope::Cores,
            _ => Scope::Other,
        };
        let counts = match sensor.is_energy {
            true => Counts::Energy,
            false => Counts::Power,
        };
        let name = format!("hwmon:{}:{}", sensor.chip, sensor.label);
        let is_taken = |name: &String| found.iter().any(|one| one.about().name == *name);
        let more = (2..).map(|number| format!("{name}#{number}"));
        let mut names = std::iter::once(name.clone()).chain(more);
        let name = names.find(|name| !is_taken(name)).unwrap_or(name);
        Self {
            root: root.clone(),
            sensor,
            continued: Continued::default(),
            about: about(name, scope, counts),
        }
    }
}

impl Meter for Chip {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let name = &self.about.name;
        let value = self.sensor.read(&self.root).ok_or_else(|| gone(name))?;
        match self.sensor.is_energy {
            true => {
                let grown = |before, after: u64| after.checked_sub(before);
                self.continued.add_j(name, value, MICRO, grown)
            }
            false => Ok(value as f64 * MICRO),
        }
    }
}

struct Battery {
    root: Root,
    battery: String,
    about: About,
}

impl Meter for Battery {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let mut batteries = energy::discharging(&self.root).into_iter();
        let this = batteries.find(|one| one.battery == self.battery);
        this.map(|one| one.watts).ok_or_else(|| {
            let name = &self.about.name;
            Error::Disturbed(format!("{name}: it does not discharge any more"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_of_a_recorded_machine_have_names_scopes_and_continue_over_a_wrap() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = folder.path().join("sys/class").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("powercap/intel-rapl:0/name", "package-0");
        put("powercap/intel-rapl:0/energy_uj", "261000000000");
        put("powercap/intel-rapl:0/max_energy_range_uj", "261000000500");
        put("powercap/intel-rapl:0:0/name", "dram");
        put("powercap/intel-rapl:0:0/energy_uj", "n/a");
        for chip in ["hwmon0", "hwmon1"] {
            put(&format!("hwmon/{chip}/name"), "ina226");
            put(&format!("hwmon/{chip}/power1_input"), "2500000");
        }
        put("power_supply/BAT0/type", "Battery");
        put("power_supply/BAT0/status", "Discharging");
        put("power_supply/BAT0/power_now", "7500000");
        let root = Root::at(folder.path());
        let (mut found, missing) = meters(&root);
        let names: Vec<_> = found
            .iter()
            .map(|one| (one.about().name.as_str(), one.about().scope))
            .collect();
        assert_eq!(
            names,
            [
                ("rapl:package-0", Scope::Package),
                ("hwmon:ina226:power1", Scope::Other),
                ("hwmon:ina226:power1#2", Scope::Other),
                ("battery:BAT0", Scope::Battery),
            ]
        );
        assert!(
            missing[0].contains("1 of 2 counters cannot be read"),
            "{missing:?}"
        );
        assert_eq!(found[0].about().range_j, Some(261_000.000_5));
        assert_eq!(found[0].read().unwrap(), 0.0);
        put("powercap/intel-rapl:0/energy_uj", "1500");
        assert!((found[0].read().unwrap() - 0.002).abs() < 1e-12);
        put("powercap/intel-rapl:0/energy_uj", "1000");
        let why = found[0].read().unwrap_err().to_string();
        assert!(why.contains("jumped"), "a jump back is no wrap: {why}");
        put("powercap/intel-rapl:0/energy_uj", "broken");
        assert!(
            found[0]
                .read()
                .unwrap_err()
                .to_string()
                .contains("cannot be read any more")
        );
        assert_eq!(found[1].read().unwrap(), 2.5);
        assert_eq!(found[3].read().unwrap(), 7.5);
        put("power_supply/BAT0/status", "Charging");
        assert!(
            found[3]
                .read()
                .unwrap_err()
                .to_string()
                .contains("does not discharge")
        );
    }

    #[test]
    fn a_machine_without_meters_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let (found, missing) = meters(&Root::at(folder.path()));
        assert!(found.is_empty());
        assert_eq!(missing.len(), 3, "{missing:?}");
    }
}

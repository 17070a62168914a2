//! Sensors of energy and power that chips have (Documentation/hwmon/sysfs-interface.rst of the kernel).

use crate::Root;

const HWMON: &str = "sys/class/hwmon";

/// A sensor of a chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// The chip's driver: `amd_energy`, `power_meter`.
    pub chip: String,
    /// What it measures, as the chip labels it; else the sensor's file without its end: `power1`.
    pub label: String,
    /// An energy counter, µJ; otherwise power, µW.
    pub is_energy: bool,
    file: String,
}

impl Sensor {
    /// µJ or µW; `None` where it cannot be read.
    pub fn read(&self, root: &Root) -> Option<u64> {
        root.number(&self.file)
    }
}

/// The sensors below `root`, by chip. A sensor of power with a present and an average value has the present one.
pub fn sensors(root: &Root) -> Vec<Sensor> {
    let mut sensors: Vec<Sensor> = Vec::new();
    for chip in root.names(HWMON).unwrap_or_default() {
        let folder = format!("{HWMON}/{chip}");
        let files = root.names(&folder).unwrap_or_default();
        for file in &files {
            let Some((sensor, end)) = file.split_once('_') else {
                continue;
            };
            let is_energy = is_numbered(sensor, "energy") && end == "input";
            let is_power = is_numbered(sensor, "power")
                && (end == "input"
                    || end == "average" && !files.contains(&format!("{sensor}_input")));
            if is_energy || is_power {
                let label = root.line(&format!("{folder}/{sensor}_label"));
                sensors.push(Sensor {
                    chip: root.line(&format!("{folder}/name")).unwrap_or(chip.clone()),
                    label: label.unwrap_or_else(|| sensor.to_owned()),
                    is_energy,
                    file: format!("{folder}/{file}"),
                });
            }
        }
    }
    sensors
}

fn is_numbered(sensor: &str, kind: &str) -> bool {
    let number = sensor.strip_prefix(kind);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensor_has_its_label_and_the_present_value_comes_before_the_average() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("hwmon0/name", "amd_energy"),
            ("hwmon0/energy2_input", "7000000"),
            ("hwmon0/energy2_label", "Esocket0"),
            ("hwmon1/name", "power_meter"),
            ("hwmon1/power1_average", "90000000"),
            ("hwmon1/power1_average_interval", "1000"),
            ("hwmon2/name", "ina226"),
            ("hwmon2/power1_input", "5"),
            ("hwmon2/power1_average", "6"),
            ("hwmon2/temp1_input", "40000"),
        ];
        for (file, text) in files {
            let path = folder.path().join(HWMON).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        let found = sensors(&root);
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.chip.as_str(),
                    one.label.as_str(),
                    one.is_energy,
                    one.read(&root),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("amd_energy", "Esocket0", true, Some(7_000_000)),
                ("power_meter", "power1", false, Some(90_000_000)),
                ("ina226", "power1", false, Some(5)),
            ]
        );
    }
}

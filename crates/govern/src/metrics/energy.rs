//! The processors' energy counters, as counters that do not wrap around.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reveille_kernel::Root;
use reveille_kernel::energy::{Domain, Meter, meters};

/// What a counter is about: what it covers, and its package if it has one.
pub type Part = (&'static str, Option<u32>);

/// Only root may read these counters: read often enough they give away what other users compute
/// (CVE-2020-8694). So whoever asks sees one reading a second at most.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The counters.
pub struct Energy {
    counters: Vec<Counted>,
    read: Option<Instant>,
    parts: BTreeMap<Part, Option<f64>>,
}

struct Counted {
    meter: Meter,
    /// The last reading, µJ.
    last_uj: Option<u64>,
    /// µJ.
    total_uj: u64,
}

impl Energy {
    /// Those of a machine.
    pub fn of(root: &Root) -> Self {
        let counted = |meter| Counted {
            meter,
            last_uj: None,
            total_uj: 0,
        };
        Self {
            counters: meters(root).into_iter().map(counted).collect(),
            read: None,
            parts: BTreeMap::new(),
        }
    }

    /// J of each part, as of a second ago at most; a package's dies count together, or not at all if one
    /// cannot be read. Each begins with what the kernel has at the first reading. A counter that wraps
    /// around twice between two readings has lost one turn.
    pub fn read_j(&mut self, root: &Root, now: Instant) -> &BTreeMap<Part, Option<f64>> {
        if self
            .read
            .is_some_and(|read| now.duration_since(read) < READ_AGAIN)
        {
            return &self.parts;
        }
        self.read = Some(now);
        self.parts.clear();
        for counted in &mut self.counters {
            let part = (name(counted.meter.domain), counted.meter.package);
            let total_j = counted.go_on(root);
            let sum = self.parts.entry(part).or_insert(Some(0.0));
            *sum = sum.zip(total_j).map(|(sum, total_j)| sum + total_j);
        }
        &self.parts
    }
}

impl Counted {
    /// Reads it: J so far.
    fn go_on(&mut self, root: &Root) -> Option<f64> {
        let now = self.meter.read_uj(root)?;
        self.total_uj += match self.last_uj {
            None => now,
            Some(last) => self.meter.between_uj(last, now).unwrap_or(now),
        };
        self.last_uj = Some(now);
        Some(self.total_uj as f64 / 1e6)
    }
}

fn name(domain: Domain) -> &'static str {
    match domain {
        Domain::Package => "package",
        Domain::Cores => "cores",
        Domain::Uncore => "uncore",
        Domain::Dram => "dram",
        Domain::Platform => "platform",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_goes_on_and_dies_count_together() {
        let folder = tempfile::tempdir().unwrap();
        let put = |zone: &str, file: &str, text: &str| {
            let zone = folder.path().join("sys/class/powercap").join(zone);
            std::fs::create_dir_all(&zone).unwrap();
            std::fs::write(zone.join(file), text).unwrap();
        };
        for (zone, name) in [
            ("intel-rapl:0", "package-0-die-0"),
            ("intel-rapl:1", "package-0-die-1"),
        ] {
            put(zone, "name", name);
            put(zone, "energy_uj", "9000000");
            put(zone, "max_energy_range_uj", "10000000");
        }
        put("intel-rapl:2", "name", "psys");
        put("intel-rapl:2", "energy_uj", "500000");
        let root = Root::at(folder.path());
        let mut energy = Energy::of(&root);
        let begin = Instant::now();
        let later = begin + READ_AGAIN;
        let first = energy.read_j(&root, begin);
        assert_eq!(first[&("package", Some(0))], Some(18.0));
        assert_eq!(first[&("platform", None)], Some(0.5));
        put("intel-rapl:0", "energy_uj", "1000000");
        put("intel-rapl:1", "energy_uj", "9500000");
        let mut package = |now| energy.read_j(&root, now)[&("package", Some(0))];
        let soon = later - Duration::from_millis(1);
        assert_eq!(package(soon), Some(18.0), "one reading a second");
        assert_eq!(package(later), Some(20.5));
        put("intel-rapl:1", "energy_uj", "unreadable");
        assert_eq!(package(later + READ_AGAIN), None);
    }
}

//! In which order CPUs become busy.

use reveille_kernel::{CoreKind, Cpu, Idle};
use serde::{Deserialize, Serialize};

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Core by core with all its threads, package by package.
    Fill,
    /// One package after the other in turn, and a core's second thread when every core has one.
    Spread,
    /// Package by package, and a core's second thread when every core has one.
    SiblingsLast,
    /// As [`Order::Fill`], with the cores of the kind that takes least power first.
    EfficientFirst,
}

impl Order {
    /// As `--order` takes them.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Fill, "fill"),
        (Self::Spread, "spread"),
        (Self::SiblingsLast, "siblings-last"),
        (Self::EfficientFirst, "efficient-first"),
    ];

    /// As `--order` takes it.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter().filter(|(order, _)| *order == self);
        all.next().map_or("", |(_, name)| name)
    }

    /// The CPUs of `allowed` that are online, in this order.
    pub fn cpus(self, idle: &Idle, allowed: &[u32]) -> Vec<u32> {
        let there = |cpu: &&Cpu| cpu.online && allowed.contains(&cpu.number);
        let cpus: Vec<&Cpu> = idle.cpus.iter().filter(there).collect();
        // Where the kernel names no cores, each CPU is one.
        let core = |cpu: &Cpu| (cpu.package.unwrap_or(0), cpu.core.unwrap_or(cpu.number));
        let mut cores: Vec<(u32, u32)> = cpus.iter().map(|cpu| core(cpu)).collect();
        cores.sort_unstable();
        cores.dedup();
        let key = |cpu: &Cpu| {
            let of = core(cpu);
            let before = |other: &&&Cpu| core(other) == of && other.number < cpu.number;
            let thread = cpus.iter().filter(before).count();
            let in_package = cores
                .iter()
                .filter(|one| one.0 == of.0 && **one < of)
                .count();
            let package = of.0 as usize;
            let kind = cpu.kind.as_ref().map_or(0, CoreKind::power_rank);
            match self {
                Self::Fill => (0, package, in_package, thread),
                Self::Spread => (0, thread, in_package, package),
                Self::SiblingsLast => (0, thread, package, in_package),
                Self::EfficientFirst => (kind, package, in_package, thread),
            }
        };
        let mut sorted: Vec<_> = cpus.iter().map(|cpu| (key(cpu), cpu.number)).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, number)| number).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use reveille_kernel::Root;

    use super::*;

    /// Two packages of two cores of two threads: CPUs 0 to 3 are the cores', 4 to 7 their second threads.
    pub fn machine() -> Idle {
        let folder = tempfile::tempdir().unwrap();
        let cpus = folder.path().join("sys/devices/system/cpu");
        for cpu in 0..8 {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            let (package, core) = (cpu % 4 / 2, cpu % 2);
            std::fs::write(topology.join("physical_package_id"), package.to_string()).unwrap();
            std::fs::write(topology.join("core_id"), core.to_string()).unwrap();
        }
        std::fs::write(cpus.join("present"), "0-7").unwrap();
        std::fs::write(cpus.join("online"), "0-7").unwrap();
        Idle::read(&Root::at(folder.path())).unwrap()
    }

    #[test]
    fn each_order_takes_packages_cores_and_siblings_in_its_way() {
        let idle = machine();
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(Order::Fill.cpus(&idle, &all), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(Order::Spread.cpus(&idle, &all), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(
            Order::SiblingsLast.cpus(&idle, &all),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!(Order::Fill.cpus(&idle, &[5, 6]), [5, 6]);
        assert_eq!(Order::SiblingsLast.name(), "siblings-last");
        assert_eq!(
            Order::EfficientFirst.cpus(&idle, &all),
            Order::Fill.cpus(&idle, &all)
        );
    }

    #[test]
    fn efficient_cores_come_first() {
        let mut idle = machine();
        for cpu in &mut idle.cpus {
            cpu.kind = Some(match cpu.number {
                2 | 3 => CoreKind::Efficient,
                7 => CoreKind::LowPowerEfficient,
                _ => CoreKind::Performance,
            });
        }
        let cpus = Order::EfficientFirst.cpus(&idle, &(0..8).collect::<Vec<_>>());
        assert_eq!(cpus, [7, 2, 3, 0, 4, 1, 5, 6]);
    }
}

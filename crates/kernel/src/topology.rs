//! A CPU's package, core and siblings, and its kind of core on a hybrid machine.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Root, cpuinfo, cpulist};

const CPU: &str = "sys/devices/system/cpu";

/// Highest frequencies that differ by less than this share belong to one kind of core: cores
/// favoured for turbo (Intel's Turbo Boost Max 3.0, AMD's preferred cores) differ by up to about
/// 10%, hybrid kinds by 25% and more.
const SAME_KIND_SHARE: f64 = 0.15;

/// The kind of a core on a hybrid machine, by the best available figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// Intel's performance core: listed in `/sys/devices/cpu_core/cpus`.
    Performance,
    /// Intel's efficient core: listed in `/sys/devices/cpu_atom/cpus`.
    Efficient,
    /// Intel's efficient core outside the ring: listed in `/sys/devices/cpu_lowpower/cpus`, or in `cpu_atom/cpus` and
    /// without the L3 cache that other cores have.
    LowPowerEfficient,
    /// `cpu_capacity`: 1024 is the machine's strongest.
    Capacity(u32),
    /// The highest frequency of the fastest core of the kind, kHz: for lack of a better figure.
    MaxFrequencyKhz(u64),
}

impl CoreKind {
    /// Less for a kind whose cores take less power than those of another kind of the same machine.
    pub fn power_rank(&self) -> u64 {
        match self {
            Self::LowPowerEfficient => 0,
            Self::Efficient => 1,
            Self::Performance => 2,
            Self::Capacity(capacity) => (*capacity).into(),
            Self::MaxFrequencyKhz(khz) => *khz,
        }
    }
}

impl fmt::Display for CoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Performance => f.write_str("performance cores"),
            Self::Efficient => f.write_str("efficient cores"),
            Self::LowPowerEfficient => f.write_str("low-power efficient cores"),
            Self::Capacity(capacity) => write!(f, "cores of capacity {capacity}"),
            Self::MaxFrequencyKhz(khz) => {
                write!(f, "cores up to {:.1} GHz", *khz as f64 / 1e6)
            }
        }
    }
}

/// A CPU's place.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Place {
    pub package: Option<u32>,
    pub core: Option<u32>,
    /// As the kernel lists them; `None` where it does not.
    pub siblings: Option<Vec<u32>>,
}

/// The place of every CPU that has one: from `topology/`, else from /proc/cpuinfo.
pub(crate) fn places(root: &Root, cpus: &[u32]) -> HashMap<u32, Place> {
    let number = |cpu: u32, file: &str| {
        // -1 where firmware does not report it.
        let text = root.text(&format!("{CPU}/cpu{cpu}/topology/{file}"))?;
        text.parse().ok()
    };
    let mut places: HashMap<u32, Place> = HashMap::new();
    for &cpu in cpus {
        let siblings = |file: &str| {
            let list = root.text(&format!("{CPU}/cpu{cpu}/topology/{file}"))?;
            cpulist::parse(&list).filter(|list| list.contains(&cpu))
        };
        let place = Place {
            package: number(cpu, "physical_package_id"),
            core: number(cpu, "core_id"),
            // The second name is the older one of the same list.
            siblings: siblings("core_cpus_list").or_else(|| siblings("thread_siblings_list")),
        };
        if place != Place::default() {
            places.insert(cpu, place);
        }
    }
    if places.is_empty() {
        let text = root.text("proc/cpuinfo").unwrap_or_default();
        for processor in cpuinfo::parse(&text) {
            let place = Place {
                package: processor.number_of("physical id"),
                core: processor.number_of("core id"),
                siblings: None,
            };
            if cpus.contains(&processor.number) && place != Place::default() {
                places.insert(processor.number, place);
            }
        }
    }
    places
}

/// The kind of every CPU's core; empty where all cores are alike, as far as is known.
pub(crate) fn kinds(root: &Root, cpus: &[u32]) -> HashMap<u32, CoreKind> {
    let listed = [
        ("cpu_core", CoreKind::Performance),
        ("cpu_atom", CoreKind::Efficient),
        ("cpu_lowpower", CoreKind::LowPowerEfficient),
    ];
    let mut kinds = HashMap::new();
    for (pmu, kind) in listed {
        let list = root.text(&format!("sys/devices/{pmu}/cpus"));
        for cpu in list
            .and_then(|list| cpulist::parse(&list))
            .unwrap_or_default()
        {
            kinds.insert(cpu, kind.clone());
        }
    }
    if !kinds.is_empty() {
        let has_l3 = |cpu: u32| has_l3(root, cpu);
        if kinds.keys().any(|&cpu| has_l3(cpu) == Some(true)) {
            let efficient = kinds.iter_mut();
            let efficient = efficient.filter(|(_, kind)| **kind == CoreKind::Efficient);
            efficient
                .filter(|(cpu, _)| has_l3(**cpu) == Some(false))
                .for_each(|(_, kind)| *kind = CoreKind::LowPowerEfficient);
        }
        return kinds;
    }
    let number = |cpu: u32, file: &str| root.number(&format!("{CPU}/cpu{cpu}/{file}"));
    let capacities: HashMap<u32, CoreKind> = cpus
        .iter()
        .filter_map(|&cpu| Some((cpu, CoreKind::Capacity(number(cpu, "cpu_capacity")? as u32))))
        .collect();
    if differ(&capacities) {
        return capacities;
    }
    let frequencies: Vec<(u32, u64)> = cpus
        .iter()
        .filter_map(|&cpu| {
            let own = number(cpu, "cpufreq/cpuinfo_max_freq");
            let policy = || root.number(&format!("{CPU}/cpufreq/policy{cpu}/cpuinfo_max_freq"));
            Some((cpu, own.or_else(policy)?))
        })
        .collect();
    by_frequency(&frequencies)
}

/// `None` where the CPU's caches are not shown, as of one that is offline.
fn has_l3(root: &Root, cpu: u32) -> Option<bool> {
    let level = |index: u32| root.number(&format!("{CPU}/cpu{cpu}/cache/index{index}/level"));
    level(0)?;
    Some((0..8).map_while(level).any(|level| level == 3))
}

/// Kinds by highest frequency: a new kind begins where the next lower frequency is more than
/// [`SAME_KIND_SHARE`] below.
fn by_frequency(frequencies: &[(u32, u64)]) -> HashMap<u32, CoreKind> {
    let mut sorted = frequencies.to_vec();
    sorted.sort_by_key(|&(cpu, khz)| (std::cmp::Reverse(khz), cpu));
    let mut kinds = HashMap::new();
    let (mut fastest, mut previous) = (0, 0);
    for (cpu, khz) in sorted {
        if (khz as f64) < previous as f64 * (1.0 - SAME_KIND_SHARE) || fastest == 0 {
            fastest = khz;
        }
        previous = khz;
        kinds.insert(cpu, CoreKind::MaxFrequencyKhz(fastest));
    }
    if differ(&kinds) {
        kinds
    } else {
        HashMap::new()
    }
}

fn differ(kinds: &HashMap<u32, CoreKind>) -> bool {
    let mut values = kinds.values();
    let first = values.next();
    values.any(|kind| Some(kind) != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_far_apart_are_kinds_of_cores() {
        let kinds = by_frequency(&[(0, 4_600_000), (1, 4_400_000), (8, 3_400_000)]);
        assert_eq!(kinds[&0], CoreKind::MaxFrequencyKhz(4_600_000));
        assert_eq!(kinds[&1], kinds[&0]);
        assert_eq!(kinds[&8], CoreKind::MaxFrequencyKhz(3_400_000));
    }

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn the_kernels_kinds_override_inferred_ones() {
        let (_folder, root) = machine(&[
            ("sys/devices/cpu_core/cpus", "0-1"),
            ("sys/devices/cpu_atom/cpus", "2"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "1024"),
            ("sys/devices/system/cpu/cpu2/cpu_capacity", "600"),
        ]);
        let kinds = kinds(&root, &[0, 1, 2]);
        assert_eq!(kinds[&1], CoreKind::Performance);
        assert_eq!(kinds[&2], CoreKind::Efficient);
    }

    #[test]
    fn an_efficient_core_without_the_l3_of_others_is_a_low_power_one() {
        let level = |cpu: u32, index: u32| {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/level");
            (file, ["1", "1", "2", "3"][index as usize])
        };
        let kinds_of = |with_l3: &[u32], without: &[u32]| {
            let with_l3 = with_l3
                .iter()
                .flat_map(|&cpu| (0..4).map(move |index| level(cpu, index)));
            let without = without
                .iter()
                .flat_map(|&cpu| (0..3).map(move |index| level(cpu, index)));
            let files: Vec<(String, &str)> = with_l3.chain(without).collect();
            let mut files: Vec<(&str, &str)> = files
                .iter()
                .map(|(file, text)| (file.as_str(), *text))
                .collect();
            files.extend([
                ("sys/devices/cpu_core/cpus", "0"),
                ("sys/devices/cpu_atom/cpus", "1-3"),
            ]);
            let (_folder, root) = machine(&files);
            let kinds = kinds(&root, &[0, 1, 2, 3]);
            [1, 2, 3].map(|cpu| kinds[&cpu].clone())
        };
        let (efficient, low) = (CoreKind::Efficient, CoreKind::LowPowerEfficient);
        let all = |kind: &CoreKind| [kind.clone(), kind.clone(), kind.clone()];
        // CPU 2 is offline: its caches are not shown.
        assert_eq!(
            kinds_of(&[0, 1], &[3]),
            [efficient.clone(), efficient.clone(), low.clone()]
        );
        assert_eq!(kinds_of(&[0], &[1, 2, 3]), all(&low));
        // No CPU has one that is shown, as in some virtual machines.
        assert_eq!(kinds_of(&[], &[0, 1, 2, 3]), all(&efficient));
        assert_eq!(kinds_of(&[], &[]), all(&efficient));
    }

    #[test]
    fn different_capacities_are_kinds() {
        let capacity = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        let (zero, one) = (capacity(0), capacity(1));
        let (_folder, root) = machine(&[(&zero, "1024"), (&one, "446")]);
        assert_eq!(kinds(&root, &[0, 1])[&1], CoreKind::Capacity(446));
        let (_folder, root) = machine(&[(&zero, "1024"), (&one, "1024")]);
        assert!(kinds(&root, &[0, 1]).is_empty());
    }

    #[test]
    fn favoured_cores_are_not_a_separate_kind() {
        assert!(by_frequency(&[(0, 5_800_000), (1, 5_500_000), (2, 5_300_000)]).is_empty());
        assert!(by_frequency(&[(0, 0), (1, 0)]).is_empty());
    }

    #[test]
    fn each_kind_has_a_name() {
        let words = |kind: CoreKind| kind.to_string();
        assert_eq!(words(CoreKind::Performance), "performance cores");
        assert_eq!(words(CoreKind::Efficient), "efficient cores");
        assert_eq!(
            words(CoreKind::LowPowerEfficient),
            "low-power efficient cores"
        );
        assert_eq!(words(CoreKind::Capacity(446)), "cores of capacity 446");
        assert_eq!(
            words(CoreKind::MaxFrequencyKhz(3_450_000)),
            "cores up to 3.5 GHz"
        );
    }

    #[test]
    fn topology_comes_from_the_folders_or_entirely_from_cpuinfo() {
        let cpuinfo = "processor: 0\nphysical id: 1\ncore id: 4\n\nprocessor: 1\n\n\
            processor: 2\nphysical id: 1\n\nprocessor: 9\ncore id: 3";
        let (_folder, root) = machine(&[("proc/cpuinfo", cpuinfo)]);
        let place = |package, core, siblings: Option<&[u32]>| Place {
            package,
            core,
            siblings: siblings.map(<[u32]>::to_vec),
        };
        let found = places(&root, &[0, 1, 2]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[&0], place(Some(1), Some(4), None));
        assert_eq!(found[&2], place(Some(1), None, None));

        let (_folder, root) = machine(&[
            ("proc/cpuinfo", cpuinfo),
            ("sys/devices/system/cpu/cpu2/topology/core_id", "7"),
            (
                "sys/devices/system/cpu/cpu2/topology/physical_package_id",
                "-1",
            ),
            ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0-1"),
            (
                "sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
                "2-3",
            ),
        ]);
        let found = places(&root, &[0, 1, 2]);
        // A list without the CPU itself does not belong to it.
        assert_eq!(found.len(), 1);
        assert_eq!(found[&2], place(None, Some(7), Some(&[2, 3])));
    }

    #[test]
    fn frequencies_15_percent_apart_are_one_kind() {
        let kinds = |lower| by_frequency(&[(0, 4_000_000), (1, lower)]).len();
        assert_eq!((kinds(3_400_000), kinds(3_399_999)), (0, 2));
    }
}

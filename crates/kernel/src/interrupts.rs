//! Interrupts per CPU: `/proc/interrupts`.

use std::time::Duration;

use crate::{Root, load};

/// Per-CPU timers that some architectures list among the numbered interrupts.
const PER_CPU_TIMERS: [&str; 2] = ["arch_timer", "riscv-timer"];

/// Counts since boot, of the CPUs that are online.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interrupts {
    /// The columns' CPUs.
    pub cpus: Vec<u32>,
    /// In the order of /proc/interrupts.
    pub lines: Vec<Line>,
}

/// One interrupt's counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// `24` for a device's, `LOC`, `NMI`, `RES`... for the architecture's own.
    pub name: String,
    /// In the order of [`Interrupts::cpus`].
    pub counts: Vec<u64>,
    /// Chip and device, or what the architecture's interrupt is for.
    pub description: String,
}

impl Line {
    /// Whether it is a device's interrupt (not a per-CPU timer's or the architecture's own).
    pub fn is_device(&self) -> bool {
        let numbered = self.name.bytes().all(|byte| byte.is_ascii_digit());
        numbered
            && !PER_CPU_TIMERS
                .iter()
                .any(|timer| self.description.contains(timer))
    }
}

impl Interrupts {
    /// The counts below `root`; `None` where they are not listed.
    pub fn read(root: &Root) -> Option<Self> {
        let interrupts = Self::parse(&root.text("proc/interrupts")?);
        (!interrupts.cpus.is_empty()).then_some(interrupts)
    }

    /// Reads a /proc/interrupts text, without lines that have no count per CPU (`ERR`, `MIS`); any other
    /// text has no CPUs.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default();
        let cpu = |word: &str| word.strip_prefix("CPU")?.parse().ok();
        let cpus: Option<Vec<u32>> = heading.split_whitespace().map(cpu).collect();
        let Some(cpus) = cpus else {
            return Self::default();
        };
        let lines = lines.filter_map(|line| Line::parse(line, cpus.len()));
        let lines = lines.collect();
        Self { cpus, lines }
    }

    /// A CPU's count of the interrupt of that name (`NMI`, `LOC`); `None` where it is not listed.
    pub fn count(&self, name: &str, cpu: u32) -> Option<u64> {
        let column = self.cpus.iter().position(|&number| number == cpu)?;
        let line = self.lines.iter().find(|line| line.name == name)?;
        line.counts.get(column).copied()
    }

    /// How many device interrupts a CPU served; `None` for a CPU that is not listed.
    fn device_interrupts(&self, cpu: u32) -> Option<u64> {
        let column = self.cpus.iter().position(|&number| number == cpu)?;
        let lines = self.lines.iter().filter(|line| line.is_device());
        let counts = lines.map(|line| line.counts[column]);
        Some(counts.fold(0, u64::saturating_add))
    }
}

impl Line {
    fn parse(line: &str, cpus: usize) -> Option<Self> {
        let (name, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let counts = words.by_ref().take(cpus).map(|word| word.parse().ok());
        let counts: Vec<u64> = counts.collect::<Option<_>>()?;
        if counts.len() < cpus {
            return None;
        }
        let description = words.collect::<Vec<_>>().join(" ");
        let name = name.trim().to_owned();
        Some(Self {
            name,
            counts,
            description,
        })
    }
}

/// How long interrupts and idle time are counted for [`quiet_cpu`]: some 25 ticks.
const QUIET_LOOK: Duration = Duration::from_millis(250);

/// The mostly idle candidate that serves the fewest device interrupts within a quarter of a second; `None`
/// if the counts are unavailable.
pub fn quiet_cpu(root: &Root, candidates: &[u32]) -> Option<u32> {
    let (before, ticks) = (Interrupts::read(root)?, load::idle_ticks(root)?);
    std::thread::sleep(QUIET_LOOK);
    let (after, later) = (Interrupts::read(root)?, load::idle_ticks(root)?);
    let idled = |cpu: &u32| Some(later.get(cpu)?.saturating_sub(*ticks.get(cpu)?));
    let most = candidates.iter().filter_map(idled).max()?;
    let idle = candidates.iter().copied();
    let idle = idle.filter(|cpu| idled(cpu) >= Some(most / 2));
    quietest_cpu(&before, &after, &idle.collect::<Vec<_>>())
}

/// [`quiet_cpu`], or else the last candidate: the machine's own work gathers on the first CPU.
pub fn quiet_cpu_or_last(root: &Root, candidates: &[u32]) -> Option<u32> {
    quiet_cpu(root, candidates).or_else(|| candidates.last().copied())
}

/// The candidate that served the fewest device interrupts between two readings; of equals, the one with
/// fewer since boot, then the one with the higher number: the machine's own work gathers on the first
/// CPU. `None` if no candidate is in both readings.
pub fn quietest_cpu(before: &Interrupts, after: &Interrupts, candidates: &[u32]) -> Option<u32> {
    let load = |&cpu: &u32| {
        let since_boot = after.device_interrupts(cpu)?;
        let between = since_boot.saturating_sub(before.device_interrupts(cpu)?);
        Some((between, since_boot, std::cmp::Reverse(cpu)))
    };
    let (_, _, std::cmp::Reverse(cpu)) = candidates.iter().filter_map(load).min()?;
    Some(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2       \n 24:  1  0  IO-APIC   5-edge  ACPI:Ged\n \
        31:  0  247 PCI-MSIX-0000:00:01.0   3-edge      virtio0-stats\nLOC:  33545  28807   Local \
        timer interrupts\nERR:  0\n 11:  900  800  GICv3 27 Level  arch_timer\n";

    #[test]
    fn counts_belong_to_the_cpus_of_the_header() {
        let interrupts = Interrupts::parse(TEXT);
        assert_eq!(interrupts.cpus, [0, 2]);
        assert_eq!(interrupts.lines.len(), 4);
        assert_eq!(
            interrupts.lines[1].description,
            "PCI-MSIX-0000:00:01.0 3-edge virtio0-stats"
        );
        assert_eq!(interrupts.count("LOC", 2), Some(28807));
        assert_eq!(interrupts.count("ERR", 0), None);
        assert_eq!(interrupts.count("LOC", 1), None);
    }

    #[test]
    fn without_counts_the_last_candidate_is_the_quiet_cpu() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(quiet_cpu_or_last(&root, &[0, 3]), Some(3));
        assert_eq!(quiet_cpu(&root, &[0, 3]), None);
        assert_eq!(quiet_cpu_or_last(&root, &[]), None);
    }

    #[test]
    fn only_devices_count_as_devices() {
        let interrupts = Interrupts::parse(TEXT);
        assert_eq!(interrupts.device_interrupts(0), Some(1));
        assert_eq!(interrupts.device_interrupts(2), Some(247));
        assert_eq!(interrupts.device_interrupts(7), None);
    }

    #[test]
    fn the_quietest_cpu_currently_serves_the_fewest_interrupts() {
        let text = |a: u64, b: u64, c: u64| format!("CPU0 CPU1 CPU2\n5: {a} {b} {c} chip device\n");
        let reading = |a, b, c| Interrupts::parse(&text(a, b, c));
        let (before, after) = (reading(1, 900, 50), reading(11, 902, 60));
        assert_eq!(quietest_cpu(&before, &after, &[0, 1, 2]), Some(1));
        assert_eq!(
            quietest_cpu(&before, &after, &[0, 2]),
            Some(0),
            "fewer since boot"
        );
        let even = reading(3, 3, 3);
        assert_eq!(
            quietest_cpu(&even, &even, &[0, 1, 2]),
            Some(2),
            "the last of equals"
        );
        assert_eq!(quietest_cpu(&even, &even, &[9]), None);
        assert_eq!(quietest_cpu(&even, &Interrupts::default(), &[0]), None);
    }

    #[test]
    fn other_text_has_no_cpus() {
        for text in ["", "hello\nCPU0", "CPUx\n1: 2", "\0\0"] {
            assert!(Interrupts::parse(text).lines.is_empty(), "{text}");
        }
        assert!(Interrupts::read(&Root::at("/nonexistent")).is_none());
    }

    #[test]
    fn counts_are_read_below_a_root_and_unknown_without_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(Interrupts::read(&root), None);
        let file = folder.path().join("proc/interrupts");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, TEXT).unwrap();
        assert_eq!(Interrupts::read(&root), Some(Interrupts::parse(TEXT)));
        std::fs::write(&file, "no interrupts\n").unwrap();
        assert_eq!(Interrupts::read(&root), None);
    }
}

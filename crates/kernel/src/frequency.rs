//! Frequencies of CPUs, as cpufreq reports them.
//!
//! Sources: Documentation/admin-guide/pm/{cpufreq,intel_pstate,amd-pstate}.rst of the kernel.

use serde::Serialize;

use crate::Root;

const CPU: &str = "sys/devices/system/cpu";

/// A CPU's frequencies, MHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Range {
    /// `cpuinfo_min_freq` and `cpuinfo_max_freq`.
    pub min_mhz: Option<f64>,
    /// `cpuinfo_max_freq`: the highest, turbo included.
    pub max_mhz: Option<f64>,
    /// Without turbo: `base_frequency` (intel_pstate).
    pub base_mhz: Option<f64>,
}

impl Range {
    /// From the CPU's cpufreq folder; `None` for a missing file or 0.
    pub fn read(root: &Root, cpu: u32) -> Self {
        let mhz = |file: &str| mhz(root, cpu, file);
        Self {
            min_mhz: mhz("cpuinfo_min_freq"),
            max_mhz: mhz("cpuinfo_max_freq"),
            base_mhz: mhz("base_frequency"),
        }
    }
}

/// `scaling_cur_freq`, MHz: on x86 the mean over the last tick in which the CPU ran, elsewhere the last
/// request. Reading it wakes no CPU.
pub fn current_mhz(root: &Root, cpu: u32) -> Option<f64> {
    mhz(root, cpu, "scaling_cur_freq")
}

/// Whether turbo is allowed; `None` if no driver reports it.
pub fn turbo(root: &Root) -> Option<bool> {
    let off = root.number(&format!("{CPU}/intel_pstate/no_turbo"));
    let on = || root.number(&format!("{CPU}/cpufreq/boost"));
    off.map(|off| off == 0).or_else(|| Some(on()? != 0))
}

fn mhz(root: &Root, cpu: u32, file: &str) -> Option<f64> {
    let khz = root.number(&format!("{CPU}/cpu{cpu}/cpufreq/{file}"));
    // 0 if the hardware does not report it.
    khz.filter(|&khz| khz > 0).map(|khz| khz as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(CPU).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn cpufreq_values_are_in_mhz_and_missing_ones_are_unknown() {
        let (_folder, root) = machine(&[
            ("cpu3/cpufreq/scaling_cur_freq", "2400000"),
            ("cpu3/cpufreq/cpuinfo_max_freq", "4800000"),
            ("cpu4/cpufreq/scaling_cur_freq", "0"),
        ]);
        assert_eq!(current_mhz(&root, 3), Some(2400.0));
        let range = Range::read(&root, 3);
        assert_eq!((range.max_mhz, range.base_mhz), (Some(4800.0), None));
        assert_eq!(current_mhz(&root, 4), None);
        assert_eq!(turbo(&root), None);
    }

    #[test]
    fn no_turbo_disables_turbo_and_boost_enables_it() {
        let (_folder, root) = machine(&[("intel_pstate/no_turbo", "1")]);
        assert_eq!(turbo(&root), Some(false));
        let (_folder, root) = machine(&[("cpufreq/boost", "1")]);
        assert_eq!(turbo(&root), Some(true));
    }
}

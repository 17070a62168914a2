//! Hardware counters that show where idle time went: perf's cstate and msr PMUs.
//!
//! The kernel describes them below `/sys/bus/event_source/devices`: a type per PMU, an encoding per
//! event (Documentation/ABI/testing/sysfs-bus-event_source-devices-events of the kernel).

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::libc;
use serde::Serialize;

use crate::{Error, Result, Root, cpulist};

const DEVICES: &str = "sys/bus/event_source/devices";

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Cycles at the TSC's rate: divide by the TSC's own to get a share of time.
    TscCycles,
    /// Cycles that the core really ran.
    CoreCycles,
    /// Events.
    Count,
}

/// What shares one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Nothing: each CPU has its own.
    Cpu,
    /// The CPUs of a core.
    Core,
    /// Cores that share a cache (Intel's modules of efficient cores).
    Module,
    /// All CPUs of a package.
    Package,
}

/// One counter that can be opened for a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counter {
    /// The name of its column in a result: `cc6_percent` and `pc6_percent` for the residency in
    /// core and package states, `cc0_percent` for MPERF, `smi_count`, `aperf`, `tsc`.
    pub column: String,
    /// As the kernel names it: `cstate_core`, `c6-residency`.
    pub pmu: String,
    /// The event's name within the PMU.
    pub event: String,
    /// In which its value is.
    pub unit: Unit,
    /// Which CPUs see the same value.
    pub scope: Scope,
    /// CPUs that the PMU counts on (its `cpumask`), one per core or package; empty if each CPU has its own.
    /// A package's event is readable on all its CPUs, a core's only on the listed one until kernel 6.12.
    pub counted_on: Vec<u32>,
    /// perf_event_attr: `type`, `config`, `config1`, `config2`.
    pub pmu_type: u32,
    /// The event as the PMU encodes it, from its `events` and `format` files.
    pub config: [u64; 3],
}

/// The idle, SMI and cycle counters of the machine below `root`, in the order of their columns:
/// core states, module states, package states, then the msr PMU's. Empty where there are none.
pub fn discover(root: &Root) -> Vec<Counter> {
    let pmus = [
        ("cstate_core", Scope::Core),
        ("cstate_module", Scope::Module),
        ("cstate_pkg", Scope::Package),
        ("msr", Scope::Cpu),
    ];
    pmus.iter()
        .flat_map(|(pmu, scope)| events(root, pmu, *scope))
        .collect()
}

fn events(root: &Root, pmu: &str, scope: Scope) -> Vec<Counter> {
    let folder = format!("{DEVICES}/{pmu}");
    let Some(pmu_type) = root.number(&format!("{folder}/type")) else {
        return Vec::new();
    };
    let mask = root.text(&format!("{folder}/cpumask"));
    let counted_on = mask
        .and_then(|mask| cpulist::parse(&mask))
        .unwrap_or_default();
    let format = |term: &str| root.text(&format!("{folder}/format/{term}"));
    let events = root.names(&format!("{folder}/events")).unwrap_or_default();
    let mut counters: Vec<Counter> = events
        .into_iter()
        .filter_map(|event| {
            let (column, unit) = column(scope, &event)?;
            let terms = root.text(&format!("{folder}/events/{event}"))?;
            Some(Counter {
                column,
                pmu: pmu.to_owned(),
                event,
                unit,
                scope,
                counted_on: counted_on.clone(),
                pmu_type: u32::try_from(pmu_type).ok()?,
                config: encode(&terms, &format)?,
            })
        })
        .collect();
    // C10 after C9, not after C1.
    counters.sort_by_key(|counter| (counter.column.len(), counter.column.clone()));
    counters
}

/// The energy counters of perf's PMU `power` (RAPL), each with the J of one count. perf's counts do not wrap
/// around. Empty where there are none.
pub fn energy(root: &Root) -> Vec<(Counter, f64)> {
    let folder = format!("{DEVICES}/power");
    let text = |file: &str| root.text(&format!("{folder}/{file}"));
    let format = |term: &str| text(&format!("format/{term}"));
    let names = root.names(&format!("{folder}/events")).unwrap_or_default();
    let event = |event: String| {
        let terms = text(&format!("events/{event}"))?;
        // Beside an event's own file there are its `.scale` and `.unit`.
        let scale = text(&format!("events/{event}.scale"))?.parse().ok()?;
        let unit = text(&format!("events/{event}.unit"))?;
        let counter = Counter {
            column: event.replace('-', "_"),
            pmu: "power".to_owned(),
            event,
            unit: Unit::Count,
            scope: Scope::Package,
            counted_on: cpulist::parse(&text("cpumask")?)?,
            pmu_type: text("type")?.parse().ok()?,
            config: encode(&terms, &format)?,
        };
        (unit == "Joules").then_some((counter, scale))
    };
    names.into_iter().filter_map(event).collect()
}

/// The column of an event and its unit; `None` for an event that is of no use here.
fn column(scope: Scope, event: &str) -> Option<(String, Unit)> {
    let state = event
        .strip_prefix('c')
        .and_then(|rest| rest.strip_suffix("-residency"));
    let state = state.filter(|state| state.bytes().all(|byte| byte.is_ascii_digit()));
    let column = match (scope, event) {
        (Scope::Core, _) => format!("cc{}_percent", state?),
        (Scope::Module, _) => format!("mc{}_percent", state?),
        (Scope::Package, _) => format!("pc{}_percent", state?),
        // MPERF runs at the TSC's rate while the core is in C0.
        (Scope::Cpu, "mperf") => "cc0_percent".to_owned(),
        (Scope::Cpu, "aperf") => return Some(("aperf".to_owned(), Unit::CoreCycles)),
        (Scope::Cpu, "smi") => return Some(("smi_count".to_owned(), Unit::Count)),
        (Scope::Cpu, "tsc") => "tsc".to_owned(),
        (Scope::Cpu, _) => return None,
    };
    Some((column, Unit::TscCycles))
}

/// Puts an event's terms (`event=0x02,umask=1`) into config, config1 and config2 as the PMU's
/// format files describe (`config:0-7,32-35`); `None` for other text.
fn encode(terms: &str, format: &dyn Fn(&str) -> Option<String>) -> Option<[u64; 3]> {
    let mut config = [0; 3];
    for term in terms.trim().split(',').filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let mut value = match value.trim().strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.trim().parse().ok()?,
        };
        let format = format(name.trim())?;
        let (word, ranges) = format.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            let bits = last - first + 1;
            let mask = u64::MAX >> (64 - bits);
            config[word] |= (value & mask) << first;
            value = value.checked_shr(bits).unwrap_or(0);
        }
        // The format cannot hold the value.
        if value != 0 {
            return None;
        }
    }
    Some(config)
}

/// The head of `struct perf_event_attr` up to `config2` (PERF_ATTR_SIZE_VER1, kernel 2.6.33), which
/// every kernel takes; include/uapi/linux/perf_event.h.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    /// `sample_period` to `bp_type`.
    unused: [u64; 5],
    config1: u64,
    config2: u64,
}

/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

impl Counter {
    /// Opens this counter for a CPU and starts it, for [`read`] or a BPF perf-event array.
    ///
    /// # Errors
    /// If it is not permitted (without root, CAP_PERFMON or `kernel.perf_event_paranoid` of at most 0), the
    /// CPU is offline or missing, or the hardware lacks the counter.
    pub fn open(&self, cpu: u32) -> Result<OwnedFd> {
        let attributes = Attributes {
            kind: self.pmu_type,
            size: size_of::<Attributes>() as u32,
            config: self.config[0],
            config1: self.config[1],
            config2: self.config[2],
            ..Attributes::default()
        };
        let (every_process, no_group) = (-1, -1);
        // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call, and
        // keeps no reference to them.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                every_process as libc::pid_t,
                cpu as libc::c_int,
                no_group as libc::c_int,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(Error::Counter {
                counter: format!("{}/{}", self.pmu, self.event),
                cpu,
                source: std::io::Error::last_os_error(),
            });
        }
        // SAFETY: the kernel has just made this descriptor for us, and it has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// The present value of an open counter.
///
/// # Errors
/// If the kernel refuses the read, or the event could not be scheduled.
pub fn read(counter: &OwnedFd) -> std::io::Result<u64> {
    let mut value = [0; 8];
    // A second handle on the same open file: a File closes what it owns.
    let mut file = File::from(counter.try_clone()?);
    file.read_exact(&mut value)?;
    Ok(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmu(root: &std::path::Path, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(DEVICES).join(name).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn an_energy_counter_has_its_scale() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("type", "20"),
            ("cpumask", "0,24"),
            ("format/event", "config:0-7"),
            ("events/energy-pkg", "event=0x02"),
            ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
            ("events/energy-pkg.unit", "Joules"),
            ("events/energy-ram", "event=0x03"),
        ];
        pmu(folder.path(), "power", &files);
        let found = energy(&Root::at(folder.path()));
        let [(counter, scale)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (counter.event.as_str(), counter.config[0]),
            ("energy-pkg", 2)
        );
        assert_eq!(
            (&counter.counted_on[..], *scale),
            (&[0, 24][..], 0.5_f64.powi(32))
        );
    }

    #[test]
    fn residency_counters_are_ordered_by_depth() {
        let folder = tempfile::tempdir().unwrap();
        let format = ("format/event", "config:0-63");
        pmu(
            folder.path(),
            "cstate_pkg",
            &[
                ("type", "12"),
                ("cpumask", "0,16"),
                format,
                ("events/c10-residency", "event=0x06"),
                ("events/c2-residency", "event=0x00"),
            ],
        );
        pmu(
            folder.path(),
            "msr",
            &[("type", "10"), format, ("events/smi", "event=0x04")],
        );
        let counters = discover(&Root::at(folder.path()));
        let columns: Vec<&str> = counters
            .iter()
            .map(|counter| counter.column.as_str())
            .collect();
        assert_eq!(columns, ["pc2_percent", "pc10_percent", "smi_count"]);
        assert_eq!(counters[1].config, [6, 0, 0]);
        assert_eq!(
            (counters[1].pmu_type, counters[1].scope),
            (12, Scope::Package)
        );
        assert_eq!(counters[1].counted_on, [0, 16]);
        assert_eq!(counters[2].unit, Unit::Count);
    }

    #[test]
    fn a_term_goes_to_the_bits_of_its_format() {
        let format = |term: &str| match term {
            "event" => Some("config:0-7,32-35".to_owned()),
            "umask" => Some("config1:8-15".to_owned()),
            "odd" => Some("config:9-3".to_owned()),
            "flag" => Some("config2:63".to_owned()),
            _ => None,
        };
        assert_eq!(
            encode("event=0x1ff,umask=2", &format),
            Some([0x1_0000_00ff, 0x200, 0])
        );
        assert_eq!(encode("flag", &format), Some([0, 0, 1 << 63]));
        assert_eq!(encode("event=0xffff", &format), None, "it does not fit");
        for terms in ["event=x", "other=1", "odd=1"] {
            assert_eq!(encode(terms, &format), None, "{terms}");
        }
    }

    #[test]
    fn unused_events_are_omitted() {
        assert_eq!(column(Scope::Cpu, "pperf"), None);
        assert_eq!(column(Scope::Core, "cx-residency"), None);
        assert_eq!(column(Scope::Cpu, "mperf").unwrap().0, "cc0_percent");
    }

    #[test]
    fn the_tsc_of_this_machine_runs() {
        let counters = discover(&Root::default());
        let Some(tsc) = counters.iter().find(|counter| counter.column == "tsc") else {
            return println!("skipped: this machine has no perf counter msr/tsc");
        };
        let open = match tsc.open(0) {
            Ok(open) => open,
            Err(error) => return println!("skipped: {error}"),
        };
        let first = read(&open).unwrap();
        assert!(read(&open).unwrap() > first);
    }

    #[test]
    fn a_missing_cpu_is_one_error_line() {
        let counters = discover(&Root::default());
        let Some(counter) = counters.first() else {
            return println!("skipped: this machine has no counters");
        };
        let error = counter.open(60_000).unwrap_err().to_string();
        assert!(
            error.contains("CPU 60000") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn a_counter_counts_everything_on_its_cpu() {
        // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK: time in ns, on every kernel with perf events.
        let clock = Counter {
            column: "clock".to_owned(),
            pmu: "software".to_owned(),
            event: "cpu-clock".to_owned(),
            unit: Unit::Count,
            scope: Scope::Cpu,
            counted_on: Vec::new(),
            pmu_type: 1,
            config: [0; 3],
        };
        let open = match clock.open(0) {
            Ok(open) => open,
            Err(Error::Counter { source, .. }) => {
                // No rights, no such event, CPU 0 offline, no perf events.
                let expected = [
                    libc::EACCES,
                    libc::EPERM,
                    libc::ENOENT,
                    libc::ENODEV,
                    libc::ENOSYS,
                ];
                let is_expected = source
                    .raw_os_error()
                    .is_some_and(|errno| expected.contains(&errno));
                assert!(is_expected, "{source}");
                return println!("skipped: perf events: {source}");
            }
            Err(error) => panic!("{error}"),
        };
        let before = read(&open).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let counted = read(&open).unwrap() - before;
        assert!(counted >= 10_000_000, "{counted} ns in 20 ms");
    }
}

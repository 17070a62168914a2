//! Counters of residency, SMIs, cycles and energy.

use std::io;

use super::{Facts, Feature, Group, Presence, absent, names};
use crate::counters::{self, Counter};
use crate::{Error, Root};

const DEVICES: &str = "sys/bus/event_source/devices";
const BARE_METAL: &str = "a kernel with CONFIG_PERF_EVENTS_INTEL_CSTATE on an Intel CPU that has \
                          these counters, not behind a hypervisor";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let root = facts.root;
    let counters = counters::discover(root);
    let chosen = |pmu: &str, chosen: &dyn Fn(&&Counter) -> bool| {
        counted(facts, pmu, counters.iter().filter(chosen).collect())
    };
    let msr = |column: &str| chosen("msr", &|counter| counter.column == column);
    let residency = |pmu: &str| chosen(pmu, &|counter| counter.pmu == pmu);
    table! { Counters;
        names::CORE_RESIDENCY, residency("cstate_core") =>
            "whether the core reached the state that was requested is unknown", BARE_METAL;
        names::PACKAGE_RESIDENCY, residency("cstate_pkg") =>
            "whether the whole package slept is unknown", BARE_METAL;
        names::SMI, msr("smi_count") =>
            "datapoints that a system management interrupt delays are not recognized",
            "an Intel CPU and a kernel with the msr PMU (CONFIG_PERF_EVENTS_INTEL_MSR or built in)";
        "MPERF", msr("cc0_percent") =>
            "the share of time that the CPU was awake is unknown",
            "a CPU with APERF and MPERF, not behind a hypervisor";
        "APERF", msr("aperf") =>
            "the frequency that the CPU woke at is unknown",
            "a CPU with APERF and MPERF, not behind a hypervisor";
        "energy by perf (RAPL)", energy_by_perf(root) =>
            "what an idle state saves is not measured",
            "an Intel or AMD CPU with RAPL, not behind a hypervisor";
        "energy by powercap (RAPL)", energy_by_powercap(facts) =>
            "what an idle state saves is not measured where perf has no energy events",
            "a kernel with CONFIG_INTEL_RAPL, and root to read the counters";
    }
}

/// Counters of one PMU, tried on the first CPU that is online.
fn counted(facts: &Facts, pmu: &str, counters: Vec<&Counter>) -> Presence {
    let root = facts.root;
    if counters.is_empty() {
        return match root.path(&format!("{DEVICES}/{pmu}")).is_dir() {
            true => Presence::No(format!("perf's PMU {pmu} does not count it on this CPU")),
            false => absent(root, format!("perf has no PMU {pmu} here")),
        };
    }
    let columns = counters.iter().map(|counter| counter.column.as_str());
    let columns = columns.collect::<Vec<_>>().join(", ");
    if !root.is_live() {
        return Presence::Unknown(format!("{columns}: could be tried on the machine itself"));
    }
    let idle = facts.idle.as_ref().ok();
    let first = idle.and_then(|idle| idle.cpus.iter().find(|cpu| cpu.online));
    let cpu = first.map_or(0, |cpu| cpu.number);
    let refused = counters.iter().find_map(|counter| counter.open(cpu).err());
    opened(facts, &columns, cpu, refused)
}

/// What came of opening counters: the first refusal.
pub(super) fn opened(facts: &Facts, columns: &str, cpu: u32, refused: Option<Error>) -> Presence {
    match refused {
        None => Presence::Yes(format!("{columns} (opened on CPU {cpu})")),
        Some(Error::Counter { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            facts.refused(format!("{columns}: this user may not open perf counters"))
        }
        Some(error) => Presence::No(error.to_string()),
    }
}

fn energy_by_perf(root: &Root) -> Presence {
    let Some(events) = root.names(&format!("{DEVICES}/power/events")) else {
        return absent(root, "perf has no PMU power here".to_owned());
    };
    let domains: Vec<&str> = events
        .iter()
        .filter_map(|event| event.strip_prefix("energy-"))
        // `energy-pkg.unit`, `energy-pkg.scale` describe `energy-pkg`.
        .filter(|domain| !domain.contains('.'))
        .collect();
    match domains.is_empty() {
        true => Presence::No("perf's PMU power counts nothing here".to_owned()),
        false => Presence::Yes(domains.join(", ")),
    }
}

fn energy_by_powercap(facts: &Facts) -> Presence {
    let root = facts.root;
    const FOLDER: &str = "sys/class/powercap";
    let Some(mut zones) = root.names(FOLDER) else {
        return absent(root, format!("no /{FOLDER}"));
    };
    zones.retain(|name| name.contains("rapl:"));
    let readable = |zone: &String| root.number(&format!("{FOLDER}/{zone}/energy_uj")).is_some();
    match zones.iter().any(readable) {
        true => Presence::Yes(zones.join(", ")),
        false if zones.is_empty() => Presence::No("powercap has no RAPL zone".to_owned()),
        false => facts.refused("this user may not read its counters".to_owned()),
    }
}

//! The clock that everything is timed by, and the timers that wake CPUs.

use super::{Facts, Feature, Group, Presence, recorded};
use crate::{PreWake, Root, cpuinfo};

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let root = facts.root;
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let processors = cpuinfo::parse(&cpuinfo);
    let x86 = processors
        .first()
        .filter(|processor| processor.get("flags").is_some());
    let flag = |name: &str| match x86.is_some_and(|processor| processor.has_flag(name)) {
        true => Presence::Yes(String::new()),
        false => Presence::No("not among the flags in /proc/cpuinfo".to_owned()),
    };
    let other = "another CPU or hypervisor";
    let flags = table! { Clock;
        "constant_tsc", flag("constant_tsc") =>
            "the TSC's rate changes with the frequency: times are wrong after a change", other;
        "nonstop_tsc", flag("nonstop_tsc") =>
            "the TSC stops in deep idle states: it cannot time them", other;
        "tsc_deadline_timer", flag("tsc_deadline_timer") =>
            "the local timer is armed in coarser units; its rounding is in the latency", other;
        "HPET", hpet(root) =>
            "no source `hpet`: nothing outside of the CPUs wakes one at a known instant",
            "a machine that has one, and firmware and kernel that leave it on";
    };
    let others = table! { Clock;
        "clock source", clock_source(root, x86.is_some()) =>
            "reading the time takes about a microsecond in place of some 20 ns: probes cost more \
             and see less",
            "a stable TSC (see the kernel's log for why it was given up), or tsc=reliable at boot";
        "timers leave idle CPUs", timer_migration(root) =>
            "other programs' timers wake idle CPUs that they could spare",
            "sysctl kernel.timer_migration=1";
    };
    let pre_wake = facts.identity.c_state_pre_wake.as_ref().map(|pre_wake| {
        let presence = match pre_wake {
            PreWake::Off => Presence::Yes("bit 30 of MSR 0x1FC is set".to_owned()),
            PreWake::On => Presence::No("bit 30 of MSR 0x1FC is clear".to_owned()),
            PreWake::Unknown(why) => Presence::Unknown(why.clone()),
        };
        table! { Clock;
            "C-state pre-wake off", presence =>
                "the CPU begins to wake ahead of its own timer: the source `timer` may report less than other \
                 interrupts meet",
                "measuring with --source timer,remote or timer,hpet, too", Distorts;
        }
    });
    let flags = flags.into_iter().filter(|_| x86.is_some());
    flags
        .chain(others)
        .chain(pre_wake.into_iter().flatten())
        .collect()
}

fn clock_source(root: &Root, is_x86: bool) -> Presence {
    let Some(current) = root.text(&format!("{CLOCK}/current_clocksource")) else {
        return match root.is_live() {
            true => Presence::Unknown(format!("/{CLOCK} cannot be read")),
            false => recorded(),
        };
    };
    let available = root.text(&format!("{CLOCK}/available_clocksource"));
    let available = available.unwrap_or_default();
    let words = super::with_others(&current, available.split_whitespace());
    // Clocks that are read without leaving the CPU; the guests' are the TSC with an offset.
    let by_tsc = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&current.as_str());
    match by_tsc || !is_x86 {
        true => Presence::Yes(words),
        false => Presence::No(words),
    }
}

/// Opening it would take one of its timers.
fn hpet(root: &Root) -> Presence {
    match root.path("dev/hpet").exists() {
        true => {
            Presence::Yes("/dev/hpet; only opening it shows whether a timer is free".to_owned())
        }
        false if root.is_live() => Presence::No("no /dev/hpet".to_owned()),
        false => recorded(),
    }
}

fn timer_migration(root: &Root) -> Presence {
    match root.text("proc/sys/kernel/timer_migration").as_deref() {
        Some("0") => Presence::No("kernel.timer_migration is 0".to_owned()),
        Some(value) => Presence::Yes(format!("kernel.timer_migration is {value}")),
        None if root.is_live() => Presence::Unknown("no kernel.timer_migration".to_owned()),
        None => recorded(),
    }
}

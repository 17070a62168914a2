//! `capture.json`: what a capture did, beside the kernel's log and trace.

use std::collections::BTreeMap;

use reveille_kernel::{Identity, Root};
use serde::{Deserialize, Serialize};

use super::Mode;
use crate::cycle::{Firmware, Us};
use crate::devices::Device;

/// The kernel's log, as `dmesg` prints it: `[seconds.micros] text`.
pub const DMESG: &str = "dmesg.txt";
/// The kernel's trace, in its own text; empty where it could not be traced.
pub const TRACE: &str = "trace.txt";
/// A [`Record`].
pub const RECORD: &str = "capture.json";

/// [`Record::format`].
pub const FORMAT: &str = "reveille-capture";
/// [`Record::version`], one more where a reader of the older one would err.
pub const VERSION: u32 = 1;

/// One capture: what was asked for, on which machine, and what became of each cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `reveille-capture`.
    pub format: String,
    /// Of the format.
    pub version: u32,
    /// RFC 3339, UTC.
    pub started: String,
    /// The machine that was suspended.
    pub machine: Identity,
    /// The machine's maker and model as its firmware names them.
    pub model: Option<String>,
    /// As it was asked for, or what the machine does by default.
    pub mode: Mode,
    /// What was written to /sys/power/state.
    pub state: String,
    /// `deep`, `s2idle` or `shallow`, as /sys/power/mem_sleep names it.
    pub sleep: String,
    /// The clock whose alarm woke it: `rtc0`.
    pub alarm: String,
    /// From the suspend's request to the alarm, s.
    pub wake_after_s: u64,
    /// How many cycles were asked for.
    pub cycles_asked: usize,
    /// What became of each.
    pub cycles: Vec<CycleRecord>,
    /// Fewer cycles than asked for: it was interrupted.
    pub interrupted: bool,
    /// What the kernel cannot log or trace, and why; what limits the sleep.
    pub notes: Vec<String>,
    /// /sys/power/suspend_stats before the first cycle; empty where the kernel has none.
    pub suspend_stats_before: BTreeMap<String, String>,
    /// The same after the last one.
    pub suspend_stats_after: BTreeMap<String, String>,
    /// Settings that could not be restored, with the reason.
    pub left_changed: Vec<String>,
    /// The machine's devices before the first cycle; empty in older captures.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// One cycle, as it is seen from outside of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CycleRecord {
    /// From 1.
    pub number: usize,
    /// When the suspend was requested: RFC 3339, UTC, to the microsecond.
    pub started: String,
    /// From then until it came back, without the time asleep (CLOCK_MONOTONIC): suspend and resume.
    /// With s2idle, the kernel may count a part of the time asleep as time awake.
    pub awake_us: i64,
    /// By how much CLOCK_BOOTTIME went on meanwhile beyond that. Where nothing but the real-time
    /// clock runs on during sleep, this is known to its second only.
    pub asleep_us: i64,
    /// Why the kernel did not suspend, or broke it off.
    pub error: Option<String>,
    /// The time of the alarm had come: false if something else woke it. `None`: the clock could not
    /// be read.
    pub alarm_rang: Option<bool>,
    /// The number of the interrupt that woke it, where the kernel knows one.
    pub wakeup_irq: Option<u32>,
    /// By the firmware's own clock, where it keeps one and the machine was suspended to RAM.
    #[serde(default)]
    pub firmware: Option<Firmware>,
    /// Records of the kernel's log in `dmesg.txt`.
    pub log_records: u64,
    /// Records that were written over before they could be read.
    pub log_lost: u64,
    /// Events in `trace.txt`.
    pub trace_events: u64,
    /// Events that were written over before they could be read.
    pub trace_lost: u64,
}

impl Record {
    /// What a reader of its logs must know, a sentence each.
    pub(crate) fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        for cycle in &self.cycles {
            let number = cycle.number;
            if cycle.log_lost > 0 {
                notes.push(format!(
                    "cycle {number}: {} records of the kernel's log were overwritten before they could \
                     be read",
                    cycle.log_lost
                ));
            }
            if cycle.trace_lost > 0 {
                notes.push(format!(
                    "cycle {number}: {} events of the trace were overwritten",
                    cycle.trace_lost
                ));
            }
            if cycle.alarm_rang == Some(false) && cycle.error.is_none() {
                notes.push(format!(
                    "cycle {number}: something else woke the machine before the alarm"
                ));
            }
        }
        notes
    }
}

/// What firmware took of the last suspend to RAM, and how many of these it has counted. Linux 5.12 and later have
/// it, if the firmware's table FPDT does.
/// Source: Documentation/ABI/testing/sysfs-firmware-acpi.
pub(super) fn firmware(root: &Root) -> Option<(u64, Firmware)> {
    let figure = |name: &str| root.number(&format!("sys/firmware/acpi/fpdt/{name}"));
    let us = |ns: u64| Us::try_from(ns / 1000).ok();
    let suspend = figure("suspend/suspend_start_ns").zip(figure("suspend/suspend_end_ns"));
    let suspend = suspend.and_then(|(start, end)| end.checked_sub(start));
    let firmware = Firmware {
        suspend_us: us(suspend.unwrap_or(0))?,
        resume_us: us(figure("resume/resume_prev_ns")?)?,
    };
    Some((figure("resume/resume_count")?, firmware))
}

pub(super) fn suspend_stats(root: &Root) -> BTreeMap<String, String> {
    const FOLDER: &str = "sys/power/suspend_stats";
    let names = root.names(FOLDER).unwrap_or_default().into_iter();
    let known = names.filter_map(|name| {
        let value = root.line(&format!("{FOLDER}/{name}"))?;
        Some((name, value))
    });
    known.collect()
}

pub(super) fn model(root: &Root) -> Option<String> {
    let dmi = |name: &str| root.line(&format!("sys/class/dmi/id/{name}"));
    match (dmi("sys_vendor"), dmi("product_name")) {
        (Some(maker), Some(name)) => Some(format!("{maker} {name}")),
        (maker, name) => name
            .or(maker)
            // Where there is no DMI: ARM and RISC-V.
            .or_else(|| root.line("proc/device-tree/model")),
    }
}

//! A capture in words, while it runs and at its end.

use std::path::Path;

use reveille_show::quantity::{count, counted};

use super::{CycleRecord, Progress, Record};
use crate::cycle::time;

/// What there is to print, a line each.
pub fn progress(progress: &Progress<'_>) -> Vec<String> {
    match progress {
        Progress::Suspending { record, number: 1 } => {
            let times = match record.cycles_asked {
                1 => "once".to_owned(),
                several => format!("{} times", count(several as u64)),
            };
            let mut lines = record.notes.clone();
            lines.push(format!(
                "suspending this machine ({}) {times}; the alarm of {} wakes it after {}",
                record.sleep,
                record.alarm,
                time(record.wake_after_s as i64 * 1_000_000)
            ));
            lines
        }
        Progress::Suspending { .. } => Vec::new(),
        Progress::Awake(cycle) => vec![awake(cycle)],
    }
}

fn awake(cycle: &CycleRecord) -> String {
    let number = cycle.number;
    if let Some(error) = &cycle.error {
        return format!("cycle {number}: the kernel did not suspend: {error}");
    }
    let woken = match (cycle.alarm_rang, cycle.wakeup_irq) {
        (Some(false), Some(irq)) => format!(", woken before the alarm by interrupt {irq}"),
        (Some(false), None) => ", woken before the alarm by something else".to_owned(),
        _ => String::new(),
    };
    format!(
        "cycle {number}: asleep {}{woken}; {} to suspend and resume",
        time(cycle.asleep_us),
        time(cycle.awake_us)
    )
}

/// What was lost or left changed, and where the capture is, a line each.
pub fn conclusion(record: &Record, folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let sum = |of: fn(&CycleRecord) -> u64| record.cycles.iter().map(of).sum::<u64>();
    match sum(|cycle| cycle.log_lost) {
        0 => {}
        lost => lines.push(format!(
            "{} of the kernel's log overwritten before they could be read; log_buf_len=16M on the \
             kernel's command line makes it larger",
            counted(lost, "record")
        )),
    }
    match sum(|cycle| cycle.trace_lost) {
        0 => {}
        lost => lines.push(format!(
            "{} of the trace overwritten",
            counted(lost, "event")
        )),
    }
    for setting in &record.left_changed {
        lines.push(format!(
            "{setting}; it could not be restored, `sudo reveille restore` tries again"
        ));
    }
    if record.interrupted {
        lines.push(format!(
            "ended after {} of {}",
            record.cycles.len(),
            counted(record.cycles_asked as u64, "cycle")
        ));
    }
    lines.push(format!("kept in {}", folder.display()));
    lines
}

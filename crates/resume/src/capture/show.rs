//! A capture in words, while it runs and at its end.

use std::path::Path;
use std::time::Duration;

use reveille_show::progress::announcement;
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
            let asleep = Duration::from_secs(record.wake_after_s);
            let all = asleep.saturating_mul(record.cycles_asked.try_into().unwrap_or(u32::MAX));
            lines.extend(announcement("this takes at least", all));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn first_lines(wake_after_s: u64, cycles: usize) -> Vec<String> {
        let record = serde_json::json!({
            "format": "reveille-capture", "version": 1, "started": "", "machine": {}, "model": null,
            "mode": "mem", "state": "mem", "sleep": "deep", "alarm": "rtc0",
            "wake_after_s": wake_after_s, "cycles_asked": cycles, "cycles": [], "interrupted": false,
            "notes": [], "suspend_stats_before": {}, "suspend_stats_after": {}, "left_changed": [],
        });
        let record: Record = serde_json::from_value(record).unwrap();
        progress(&Progress::Suspending {
            record: &record,
            number: 1,
        })
    }

    #[test]
    fn a_long_capture_says_first_how_long_it_takes() {
        let lines = first_lines(5, 13);
        assert!(
            lines[0].contains("13 times; the alarm of rtc0"),
            "{lines:?}"
        );
        assert!(lines.len() == 2 && lines[1].contains("1m 5s"), "{lines:?}");
        assert_eq!(first_lines(5, 12).len(), 1);
    }
}

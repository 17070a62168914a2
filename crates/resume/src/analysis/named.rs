//! Words for kinds: stages, links, reasons.

use super::{CycleResult, LinkKind, LinkResult};
use crate::cycle::{StageKind, stage_words, time};
use crate::graph::{DeviceTimes, Half};
use crate::path::Why;

/// `suspend` or `resume`.
pub fn half_name(half: Half) -> &'static str {
    half.of("suspend", "resume")
}

/// Why single devices are unknown in a half, and what to do; `None` if they are known.
pub fn no_devices(cycle: &CycleResult, half: Half) -> Option<String> {
    let half_name = half_name(half);
    if let Some(one) = cycle.unreturned(half).next() {
        return Some(format!(
            "The {half_name} does not end in this log: {} never returned. There is no critical \
             path, and what a change would save is unknown.",
            one.call.device
        ));
    }
    let of = match cycle.has(Half::Suspend) == cycle.has(Half::Resume) {
        true => String::new(),
        false => format!(" of the {half_name}"),
    };
    match cycle.has(half) {
        DeviceTimes::Ordered => None,
        DeviceTimes::Unordered => Some(format!(
            "This log has the times of devices in the {half_name}, but not what they waited for: \
             the critical path and what a removal would save are unknown. Linux 3.6 and later log \
             both with 1 in /sys/power/pm_print_times."
        )),
        DeviceTimes::Missing => Some(format!(
            "The log has no device times{of}: the devices are unknown. The kernel \
             logs them after `echo 1 > /sys/power/pm_print_times` (stages: pm_debug_messages); \
             `reveille resume capture` does both."
        )),
    }
}

/// Why the length of a half is unknown; `None` where it is known. A half of unknown length has no savings.
pub fn no_length(cycle: &CycleResult, half: Half) -> Option<String> {
    let name = half_name(half);
    if cycle.us_of(half).is_some() {
        return None;
    }
    let has_suspend = cycle.stages.iter().any(|one| Half::Suspend.has(one.stage));
    let there = half.of(has_suspend, cycle.resume_start_us.is_some());
    let word = half.of(cycle.words.first, cycle.words.after_sleep);
    let bound = half.of("ended", "began");
    let is_begun = half == Half::Resume || cycle.words.first.is_some();
    if let Some(last) = cycle.last_message(half) {
        return Some(format!(
            "The log has nothing of the suspend after \u{201c}{last}\u{201d}"
        ));
    }
    Some(match (cycle.stamped, there, cycle.cut) {
        (false, ..) => "The log's timestamps are not the kernel's".to_owned(),
        (true, false, _) if word.is_some() => {
            format!("The log does not show when the {name} {bound}")
        }
        (true, false, _) => format!("No {name} in the log"),
        (true, true, true) if is_begun => format!("The log lacks the end of the {name}"),
        (true, true, true) => format!("The log starts after the {name} does"),
        (true, true, false) if cycle.resolution_us > 1 && cycle.at_least_us_of(half).is_none() => {
            format!(
                "The {name} took less than {} and the log's timestamps are {} apart",
                time(2 * cycle.resolution_us),
                time(cycle.resolution_us)
            )
        }
        (true, true, false) if half == Half::Suspend && word.is_some() => {
            format!("The log does not show when the {name} {bound}")
        }
        (true, true, false) => format!("The log does not show where the {name} starts or ends"),
    })
}

/// Of what a path is, behind its name: the half, or what the log has of it.
pub fn extent(cycle: &CycleResult, half: Half) -> &'static str {
    // The log may go on with other cycles.
    match no_length(cycle, half) {
        None => "",
        Some(_) => " as far as the log has it",
    }
}

/// Why a link of the path could not begin earlier, for people.
pub fn why_words(why: Why) -> &'static str {
    match why {
        Why::Begins => "first",
        Why::StageBefore => "after the stage before",
        Why::StageBegins => "its stage begins",
        Why::Parent => "waits for its parent",
        Why::Children => "waits for its children",
        Why::Supplier => "waits for its supplier",
        Why::Consumers => "waits for what it supplies",
        Why::SameWorker => "same worker",
        Why::JustAfter => "just after it, reason unknown",
        Why::CpuBefore => "one CPU at a time",
        Why::WaitsForAll => "waits for all calls",
        Why::Follows => "follows",
    }
}

/// A silence of the kernel, by the messages at both its ends.
pub fn silence(before: &str, after: Option<&str>) -> String {
    match after.filter(|after| !after.is_empty()) {
        Some(after) => format!("from: {before} to: {after}"),
        None => format!("after: {before}"),
    }
}

impl LinkResult {
    /// What the time went to, for people.
    pub fn words(&self) -> String {
        let device = self.device.as_deref().unwrap_or("a device");
        match self.what {
            LinkKind::Call => device.to_owned(),
            LinkKind::Cpu => match self.cpu {
                Some(cpu) => format!("CPU {cpu}"),
                None => "more CPUs".to_owned(),
            },
            LinkKind::BeforeCall => format!("before {device}"),
            LinkKind::Printing => format!("printing, {device}"),
            LinkKind::Unexplained => format!("before {device}, unexplained"),
            LinkKind::BeforeCpu => match self.cpu {
                Some(cpu) => format!("before CPU {cpu}"),
                None => "before a CPU".to_owned(),
            },
            LinkKind::BeforeStage => match self.stage {
                StageKind::Sync | StageKind::Freeze => "before freezing".to_owned(),
                StageKind::Thaw => "thawing and after it".to_owned(),
                _ => "between stages".to_owned(),
            },
            LinkKind::Stage => stage_words(self.stage).to_owned(),
            LinkKind::Silence => match &self.message {
                Some(message) => silence(message, self.ended_by.as_deref()),
                None => "silence".to_owned(),
            },
        }
    }
}

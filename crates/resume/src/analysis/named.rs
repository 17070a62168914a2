//! Words for what the model tells by kind.

use super::{CycleResult, LinkKind, LinkResult};
use crate::cycle::StageKind;
use crate::graph::{DeviceTimes, Half};
use crate::path::Why;

/// `suspend` or `resume`.
pub fn half_name(half: Half) -> &'static str {
    match half {
        Half::Suspend => "suspend",
        Half::Resume => "resume",
    }
}

/// Why nothing can be said of single devices in a half, and what to do; `None` where it can.
pub fn no_devices(cycle: &CycleResult, half: Half) -> Option<String> {
    let half_name = half_name(half);
    if let Some(one) = cycle.unreturned(half).next() {
        return Some(format!(
            "The {half_name} does not end in this log: {} never returned, so that there is no critical \
             path, and nothing can be said of what a change would save.",
            one.call.device
        ));
    }
    match cycle.has(half) {
        DeviceTimes::Told => None,
        DeviceTimes::Unordered => Some(format!(
            "This log tells how long devices took in the {half_name}, and not what they waited for: \
             which of them the {half_name} waited for is not known, nor what one's removal would save. \
             Linux 3.6 and later tell, with 1 in /sys/power/pm_print_times."
        )),
        DeviceTimes::Missing => Some(format!(
            "The log has no device times of the {half_name}, so that nothing can be said of single \
             devices. It has them after `echo 1 > /sys/power/pm_print_times` (stages: \
             pm_debug_messages), or by `reveille resume capture`."
        )),
    }
}

/// In the JSON's spelling.
pub fn stage_name(stage: StageKind) -> &'static str {
    match stage {
        StageKind::Freeze => "freeze",
        StageKind::Prepare => "prepare",
        StageKind::Suspend => "suspend",
        StageKind::SuspendLate => "suspend_late",
        StageKind::SuspendNoirq => "suspend_noirq",
        StageKind::CpusOff => "cpus_off",
        StageKind::Platform => "platform",
        StageKind::Idle => "idle",
        StageKind::Test => "test",
        StageKind::CpusOn => "cpus_on",
        StageKind::ResumeNoirq => "resume_noirq",
        StageKind::ResumeEarly => "resume_early",
        StageKind::Resume => "resume",
        StageKind::Complete => "complete",
        StageKind::Thaw => "thaw",
    }
}

/// For people.
pub fn stage_words(stage: StageKind) -> &'static str {
    match stage {
        StageKind::Freeze => "freeze processes",
        StageKind::Prepare => "prepare",
        StageKind::Suspend => "suspend devices",
        StageKind::SuspendLate => "suspend late",
        StageKind::SuspendNoirq => "suspend noirq",
        StageKind::CpusOff => "CPUs off",
        StageKind::Platform => "firmware",
        StageKind::Idle => "suspended to idle",
        StageKind::Test => "wait of pm_test",
        StageKind::CpusOn => "CPUs on",
        StageKind::ResumeNoirq => "resume noirq",
        StageKind::ResumeEarly => "resume early",
        StageKind::Resume => "resume devices",
        StageKind::Complete => "complete",
        StageKind::Thaw => "thaw processes",
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
        Why::JustAfter => "just after it, not told why",
        Why::CpuBefore => "one CPU at a time",
        Why::WaitsForAll => "waits for all calls",
        Why::Follows => "follows",
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
            LinkKind::NotTold => format!("before {device}, not told"),
            LinkKind::BeforeCpu => match self.cpu {
                Some(cpu) => format!("before CPU {cpu}"),
                None => "before a CPU".to_owned(),
            },
            LinkKind::BeforeStage => "between stages".to_owned(),
            LinkKind::Stage => stage_words(self.stage).to_owned(),
            LinkKind::Silence => match &self.message {
                Some(message) => format!("after: {message}"),
                None => "silence".to_owned(),
            },
        }
    }
}

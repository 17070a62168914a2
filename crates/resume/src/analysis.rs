//! The analysis of logs: one model between reading and showing.
//!
//! [`Analysis`] is the JSON of `reveille resume analyze --json`, version [`VERSION`]. Fields are
//! `snake_case` with their unit at the end; instants are microseconds of the log's own clock without
//! the time asleep; what the log does not have is `null`.

mod across;
mod answer;
mod assemble;
mod check;
mod failed;
mod inputs;
mod named;
mod stopped;
mod what_if;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cycle::{
    Call, CpuStep, Failure, Firmware, Gap, Name, Said, StageKind, Stop, Us, Words, carries, one,
    yes,
};
use crate::graph::{self, DeviceTimes, Half};
use crate::hibernation::Hibernation;
use crate::path::Why;
use crate::power::align::Power;
use crate::what_if::Deferred;

pub use crate::cycle::{stage_name, stage_words};
pub use crate::what_if::{Next, Removal};
pub use assemble::{Input, Question, analyse};
pub use check::read;
pub use failed::Failed;
pub use inputs::inputs;
pub use named::{extent, half_name, no_devices, no_length, silence, why_words};

/// Value of the JSON's field `format`.
pub const FORMAT: &str = "reveille-resume";

/// The name under which `reveille report` finds the JSON.
pub const FILE: &str = "resume.json";

/// Of the JSON. A reader refuses a higher one. 2: stages `idle` and `test`, links `silence`, and what
/// the suspend has. 3: a stage's length may be unknown. 4: the stage `sync`, and bounds of unknown times.
pub const VERSION: u32 = 4;

/// How a cycle sleeps that only stands for suspends to disk.
const DISK: &str = "disk";

/// The result of an analysis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// `reveille 0.1.0`.
    pub tool: String,
    /// In the order of the command line.
    pub machines: Vec<Machine>,
}

/// A machine, or one of its configurations: a log, or a folder of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the log's file or the capture's folder, or what the command line calls it.
    pub name: String,
    /// Where its cycles come from.
    pub source: Source,
    /// Of all cycles that have their suspend whole; `null` where none has, as for the next two.
    pub suspend_us: Option<Spread>,
    /// Of all cycles whose time asleep the kernel reports.
    pub asleep_us: Option<Spread>,
    /// Of all cycles that have their resume whole.
    pub resume_us: Option<Spread>,
    /// In the order of a cycle; without those whose length is unknown in every cycle.
    pub stages: Vec<StageSpread>,
    /// Those of the resume that took longest, over all cycles, the longest first.
    pub devices: Vec<DeviceSpread>,
    /// The number of the cycle that stands for the others: the one that was asked for, or the one
    /// whose resume is nearest to the median.
    pub shown: usize,
    /// In the order of the log.
    pub cycles: Vec<CycleResult>,
    /// Suspends to disk, in the order of the log.
    #[serde(default)]
    pub hibernations: Vec<Hibernation>,
    /// The effect of the changes, if the command line has any.
    pub what_if: Option<WhatIf>,
    /// Those of the suspend that took longest, over all cycles, the longest first.
    #[serde(default)]
    pub suspend_devices: Vec<SuspendDevice>,
    /// Single devices whose absence shortens the shown cycle's resume, the best first.
    pub removals: Vec<Removal>,
    /// The same of its suspend.
    #[serde(default)]
    pub suspend_removals: Vec<Removal>,
    /// The best removal, then the best after it, and so on.
    pub steps: Vec<Removal>,
    /// By a meter; `None` without one.
    pub power: Option<Power>,
    /// Other names that the log or sysfs has for its devices: drivers, interfaces, products.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known_as: BTreeMap<Name, Vec<Name>>,
    /// What a reader must know, a sentence each.
    pub notes: Vec<String>,
    /// What matters most of it.
    #[serde(default)]
    pub answer: Answer,
}

/// What matters most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What failed, or kept the machine from sleeping, in words.
    pub failed: Option<String>,
    /// The half of the shown cycle that most of the time goes to; `None` if the cycle ended with a failure.
    pub half: Option<Half>,
    /// Its path shows what that time went to.
    pub by_path: bool,
    /// If it does not, the stage that takes longest, if that is much.
    pub stage: Option<StageKind>,
    /// Or else the longest time in it without a message of the kernel, if that is much.
    pub gap: Option<Gap>,
}

/// Where a machine's cycles come from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Source {
    /// As they were named.
    pub files: Vec<String>,
    /// Lines in all of them.
    pub lines: u64,
    /// Bytes in all of them.
    pub bytes: u64,
    /// What of the log is not in the analysis, by reason, and how often.
    pub left_out: Vec<(String, u64)>,
    /// As a capture noted it.
    pub kernel: Option<String>,
}

/// One suspend and its resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleResult {
    /// From 1, in the order of the log.
    pub number: usize,
    /// What the kernel was asked for: `deep`, `s2idle`, `shallow`.
    pub sleep: Option<String>,
    /// The wall clock at its beginning, as the log has it.
    pub at: Option<String>,
    /// The log does not have all of it.
    pub cut: bool,
    /// It never slept.
    pub aborted: bool,
    /// From the start to the kernel's last message before the sleep.
    pub suspend_us: Option<Us>,
    /// Where that is `None`, a lower bound.
    #[serde(default)]
    pub suspend_at_least_us: Option<Us>,
    /// From the kernel's last message to its first one, by the log's clock, without the sleep.
    pub platform_us: Option<Us>,
    /// As the kernel reports it.
    pub asleep_us: Option<Us>,
    /// Where that is `None`, an upper bound by the log's clock, in suspend to idle.
    #[serde(default)]
    pub asleep_at_most_us: Option<Us>,
    /// From the kernel's first message after the sleep to the end.
    pub resume_us: Option<Us>,
    /// Where that is `None`, a lower bound.
    #[serde(default)]
    pub resume_at_least_us: Option<Us>,
    /// By the firmware's own clock, where the log has it: it is in none of the other times.
    #[serde(default)]
    pub firmware: Option<Firmware>,
    /// What woke the machine, as the kernel names it, in the order of the log.
    #[serde(default)]
    pub woken: Vec<String>,
    /// The kernel's words that bound it where no stage does.
    #[serde(default)]
    pub words: Words,
    /// Where the log's lines of it stop, if processes do not run again in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// By the log's clock: its beginning.
    pub start_us: Us,
    /// By the log's clock: its end.
    pub end_us: Us,
    /// The start of the resume.
    pub resume_start_us: Option<Us>,
    /// In the order of time.
    pub stages: Vec<StageResult>,
    /// CPUs taken off and brought on, in the order of time.
    pub cpus: Vec<CpuStep>,
    /// In the order of their beginnings.
    pub calls: Vec<CallResult>,
    /// What failed, in the order of time.
    pub failures: Vec<Failure>,
    /// The critical path of the resume; its links' times add up to `resume_us`. Where that is `None`
    /// because the log is cut, it is the path to the log's end.
    pub path: Vec<LinkResult>,
    /// The same of the suspend, to the kernel's last message; its links' times add up to `suspend_us`, or are
    /// what the log has of it.
    pub suspend_path: Vec<LinkResult>,
    /// Of the resume's graph.
    pub left_out: graph::LeftOut,
    /// What the log has of devices in the suspend and in the resume.
    #[serde(default)]
    pub suspend_has: DeviceTimes,
    /// What the log has of devices in the resume.
    #[serde(default)]
    pub resume_has: DeviceTimes,
    /// False: the log's timestamps are not the kernel's, and only the lengths of stages are known.
    #[serde(default = "yes")]
    pub stamped: bool,
    /// The step of the log's timestamps, µs. Where it is more than 1 no length below two steps is known but
    /// by the kernel's word, and instants are as coarse.
    #[serde(default = "one")]
    pub resolution_us: Us,
    /// The longest times without a message of the kernel, in their order.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// What the kernel said of a device while a callback of that device ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
}

/// A part of a cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageResult {
    /// Which part.
    pub stage: StageKind,
    /// By the log's clock.
    pub start_us: Us,
    /// By the log's timestamps; where those are coarse, as the kernel reports it. `None` if neither is known.
    pub duration_us: Option<Us>,
    /// As the kernel gives it.
    pub says_us: Option<Us>,
    /// Devices' callbacks in it.
    pub calls: usize,
    /// The sum of its calls' durations: what it would take one after the other.
    pub calls_us: Us,
}

/// A device's callback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// As the log has it.
    #[serde(flatten)]
    pub call: Call,
    /// By the kernel's own figure, where it differs much from the timestamps of its lines or where one of
    /// those is missing; `None` if neither is known.
    pub duration_us: Option<Us>,
    /// How much longer it could take without the suspend or the resume getting longer; `null` where
    /// the log has not both its ends.
    pub slack_us: Option<Us>,
}

/// A piece of the critical path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// What the time went to.
    pub what: LinkKind,
    /// The stage that it lies in.
    pub stage: StageKind,
    /// The call's number in `calls`, where it is one, or the wait is before one.
    pub call: Option<usize>,
    /// Of the call, where there is one.
    pub device: Option<Name>,
    /// Of that device; `None` if the log does not have it.
    pub driver: Option<Name>,
    /// The CPU that comes on or goes.
    pub cpu: Option<u32>,
    /// By the log's clock.
    pub start_us: Us,
    /// How long this piece is.
    pub duration_us: Us,
    /// Why it could not begin earlier.
    pub why: Why,
    /// Of a silence: the kernel's last message before it.
    #[serde(default)]
    pub message: Option<String>,
    /// Of a silence: the message that ends it.
    #[serde(default)]
    pub ended_by: Option<String>,
}

/// Kinds of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// A device's callback.
    Call,
    /// A CPU comes on or goes.
    Cpu,
    /// The kernel's own work before a call.
    BeforeCall,
    /// A wait before a call that the log does not explain.
    #[serde(rename = "not_told")]
    Unexplained,
    /// A call's first line was printed before it started.
    Printing,
    /// The kernel's own work before a CPU comes on or goes.
    BeforeCpu,
    /// Between the stage before and this one.
    BeforeStage,
    /// The stage's own work, or one that has no calls.
    Stage,
    /// A long time of either without a message of the kernel; the one before it hints at
    /// the cause.
    Silence,
}

/// A stage over all cycles of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSpread {
    /// Which part.
    pub stage: StageKind,
    /// By the log's timestamps.
    pub duration_us: Spread,
}

/// A device over all cycles of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceSpread {
    /// As the kernel names it: `0000:00:1f.6`.
    pub device: Name,
    /// Of the device; `None` if the log does not have it.
    pub driver: Option<Name>,
    /// The sum of its calls in a resume.
    pub resume_us: Spread,
    /// The sum of its calls in a suspend.
    pub suspend_us: Option<Spread>,
    /// In how many cycles its longest call in the resume is on the critical path.
    pub on_path: usize,
    /// Of its longest call in the resume: how much longer it could take.
    pub slack_us: Option<Spread>,
}

/// A device in the suspends of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuspendDevice {
    /// As the kernel names it: `0000:00:1f.6`.
    pub device: Name,
    /// Of the device; `None` if the log does not have it.
    pub driver: Option<Name>,
    /// The sum of its calls in a suspend.
    pub suspend_us: Spread,
    /// In how many cycles its longest call is on the critical path.
    pub on_path: usize,
    /// Of its longest call: how much longer it could take.
    pub slack_us: Option<Spread>,
}

/// Figures of several cycles, µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle; of an even number the mean of the two there.
    pub median: Us,
    /// The least.
    pub min: Us,
    /// The largest.
    pub max: Us,
    /// How many figures.
    pub count: usize,
}

/// `None` where there is no figure.
pub(crate) fn spread(mut figures: Vec<Us>) -> Option<Spread> {
    figures.sort_unstable();
    let count = figures.len();
    let (low, high) = (figures.get(count.checked_sub(1)? / 2)?, figures[count / 2]);
    Some(Spread {
        median: low.midpoint(high),
        min: figures[0],
        max: figures[count - 1],
        count,
    })
}

/// What the resume would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// The cycle that was replayed.
    pub cycle: usize,
    /// The resume of that cycle, as it was.
    pub measured_us: Us,
    /// One for each change, together with those before it.
    pub replays: Vec<Replay>,
    /// With all changes, over all cycles.
    pub all_cycles_us: Option<Spread>,
    /// The critical path with all changes.
    pub path: Vec<LinkResult>,
    /// Changes that match nothing here.
    pub unmet: Vec<String>,
}

/// One change more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// `without snd*`, `defer usb*`, `ata1=50ms`, `4 CPUs`.
    pub change: String,
    /// Of the resume, with this change and those before it.
    pub total_us: Us,
    /// Against the total before this change.
    pub saves_us: Us,
    /// Devices that this change removes.
    pub removed: Vec<Name>,
    /// Devices that this change defers, with the time from the start of the resume at which each is
    /// ready, in this replay.
    pub deferred: Vec<Deferred>,
}

impl CycleResult {
    /// The critical path of a half.
    pub fn path_of(&self, half: Half) -> &[LinkResult] {
        half.of(&self.suspend_path, &self.path)
    }

    /// How long a half took.
    pub(crate) fn us_of(&self, half: Half) -> Option<Us> {
        half.of(self.suspend_us, self.resume_us)
    }

    /// Where that is `None`, a lower bound.
    pub(crate) fn at_least_us_of(&self, half: Half) -> Option<Us> {
        half.of(self.suspend_at_least_us, self.resume_at_least_us)
    }

    /// What the kernel said of a device within that time: the last error, or else the last message.
    pub fn said_of(&self, device: &Name, within: std::ops::RangeInclusive<Us>) -> Option<&Said> {
        let said = self.said.iter();
        let said = said.filter(|said| said.device == *device && within.contains(&said.at));
        said.max_by_key(|said| (said.is_error, said.at))
    }

    /// What the log has of devices in a half.
    pub fn has(&self, half: Half) -> DeviceTimes {
        half.of(self.suspend_has, self.resume_has)
    }

    /// From the cycle's beginning to this stage's; `None` if it is unknown.
    pub fn begins_us(&self, stage: &StageResult) -> Option<Us> {
        let us = stage.start_us - self.start_us;
        let first = self.stages.first();
        let is_first = first.is_some_and(|first| first.stage == stage.stage);
        let is_known = is_first || carries(self.resolution_us, us);
        (self.stamped && is_known).then_some(us)
    }

    /// The calls of a half.
    pub fn calls_of(&self, half: Half) -> impl Iterator<Item = (usize, &CallResult)> {
        let calls = self.calls.iter().enumerate();
        calls.filter(move |(_, one)| half.has(one.call.stage))
    }

    /// Calls of a half that had not returned when the log ended: nothing of a later stage is there.
    pub fn unreturned(&self, half: Half) -> impl Iterator<Item = &CallResult> {
        let last = self.last_stage();
        let calls = self.calls_of(half).map(|(_, one)| one);
        calls.filter(move |one| {
            let is_open = one.call.start.is_some() && one.call.end.is_none();
            self.cut && is_open && Some(one.call.stage) == last
        })
    }

    /// The half ends in the log, as far as its calls show.
    pub(crate) fn returns(&self, half: Half) -> bool {
        self.unreturned(half).next().is_none()
    }

    /// Of which anything is there.
    fn last_stage(&self) -> Option<StageKind> {
        let stages = self.stages.iter().map(|stage| stage.stage);
        let calls = self.calls.iter().map(|one| one.call.stage);
        stages.chain(calls).max()
    }

    /// Its last instant in the log.
    pub fn until_us(&self) -> Us {
        let calls = self.calls.iter();
        let calls = calls.filter_map(|one| one.call.end.or(one.call.start));
        let gaps = self.gaps.iter().map(|gap| gap.end);
        let failures = self.failures.iter().map(|failure| failure.at);
        let all = calls.chain(gaps).chain(failures);
        all.fold(self.end_us, Us::max)
    }

    /// It stands for suspends to disk, of which a log has nothing but these.
    pub(crate) fn is_to_disk(&self) -> bool {
        self.sleep.as_deref() == Some(DISK)
    }

    pub(crate) fn has_more_than_its_entry(&self) -> bool {
        let has_both_ends = self.words.first.is_some() && self.words.last.is_some();
        let is_told = has_both_ends || self.stalls() || self.boots() || self.is_to_disk();
        // Its lines were read later, and there are several: their stages are not known.
        let is_told = is_told || !self.stamped;
        !self.stages.is_empty() || !self.has_little() || is_told
    }

    /// Nothing but the sync of file systems.
    fn has_little(&self) -> bool {
        let mut stages = self.stages.iter();
        let is_silent = stages.all(|stage| stage.stage == StageKind::Sync);
        let has_words = !self.failures.is_empty() || !self.woken.is_empty();
        is_silent && self.calls.is_empty() && !has_words && self.asleep_us.is_none()
    }

    /// It began, and nothing shows that processes were frozen, although the log goes on.
    pub(crate) fn stalls(&self) -> bool {
        const LEAST_US: Us = 1_000_000;
        let is_open = self.words.first.is_some() && self.words.after_sleep.is_none();
        let goes_on = |stop: &Stop| !stop.boots && stop.after_us.is_none();
        is_open
            && self.stop.as_ref().is_some_and(goes_on)
            && self.has_little()
            && self.until_us() - self.start_us >= LEAST_US
    }

    /// The last one before the log stops, if it does before the resume.
    pub(crate) fn last_message(&self, half: Half) -> Option<&str> {
        let stop = self.stop.as_ref().filter(|_| !self.aborted);
        let has_resumed = self.stages.iter().any(|one| Half::Resume.has(one.stage));
        let is_open = self.words.after_sleep.is_none() && !has_resumed;
        let is_of_suspend = half == Half::Resume && is_open;
        stop.filter(|_| is_of_suspend).map(|stop| &*stop.message)
    }

    /// The machine boots next.
    pub(crate) fn boots(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.boots)
    }

    /// From the first word of it to the last one by the log's clock, which may have stood still in the sleep, where
    /// neither half of it is known.
    pub fn whole_us(&self) -> Option<Us> {
        let (first, last) = self.words.first.zip(self.words.last)?;
        let is_known = self.suspend_us.or(self.resume_us).is_some();
        (!is_known && carries(self.resolution_us, last - first)).then_some(last - first)
    }

    /// Are all its times known, and did it sleep?
    pub fn is_whole(&self) -> bool {
        !self.cut && !self.aborted && self.resume_us.is_some()
    }
}

impl Machine {
    /// Single devices whose absence shortens that half of the shown cycle.
    pub fn removals_of(&self, half: Half) -> &[Removal] {
        half.of(&self.suspend_removals, &self.removals)
    }

    /// A device's driver and its other names.
    pub fn names<'a>(&'a self, device: &Name, driver: Option<&'a Name>) -> Vec<&'a str> {
        let known = self.known_as.get(device).into_iter().flatten();
        // That it is on the bus of USB its name says.
        let driver = driver.filter(|driver| &***driver != "usb" || known.clone().next().is_none());
        let names = driver.into_iter().chain(known);
        names.map(|name| &**name).collect()
    }

    /// A device with its driver and its other names: `3-1 (USB 10/100/1000 LAN, r8152)`.
    pub fn called(&self, device: &Name, driver: Option<&Name>) -> String {
        let names = self.names(device, driver);
        match names.is_empty() {
            true => device.to_string(),
            false => format!("{device} ({})", names.join(", ")),
        }
    }

    /// The stages of the shown cycle and of those that it stands for, in their order, with their lengths
    /// in all of these as far as they are known.
    pub fn all_stages(&self) -> Vec<(StageKind, Option<Spread>)> {
        let mut all: BTreeMap<StageKind, Option<Spread>> = BTreeMap::new();
        all.extend(self.shown().stages.iter().map(|one| (one.stage, None)));
        let stages = self.stages.iter();
        all.extend(stages.map(|one| (one.stage, Some(one.duration_us))));
        all.into_iter().collect()
    }

    /// The cycle that stands for the others.
    pub fn shown(&self) -> &CycleResult {
        let shown = self.cycles.iter().find(|cycle| cycle.number == self.shown);
        shown.expect("a machine is made with the cycle that it shows")
    }
}

//! What is known of a suspend and the resume after it.
//!
//! Instants are microseconds of the log's own clock, as its lines have them; they are only ever
//! subtracted from each other. What is not in a log is `None`, never zero.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::devices::Device;
use crate::known_as::KnownAs;

pub use crate::devices::Name;

/// An instant of the log's clock or a time between two, in microseconds.
pub type Us = i64;

/// 300 years from 1970: sums and differences of instants do not overflow below it.
pub(crate) const INSTANT_MAX: Us = 10_000_000_000_000_000;

/// In the unit that fits, for sentences and charts.
pub(crate) fn time(us: Us) -> String {
    let seconds = (us + 500_000) / 1_000_000;
    let minutes = (seconds + 30) / 60;
    match seconds {
        _ if us == 0 => "0 s".to_owned(),
        3600.. if minutes % 60 == 0 => format!("{} h", minutes / 60),
        3600.. => format!("{} h {} min", minutes / 60, minutes % 60),
        120.. if seconds % 60 == 0 => format!("{} min", seconds / 60),
        120.. => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => reveille_show::quantity::duration(us as f64 * 1e3),
    }
}

/// One suspend and its resume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cycle {
    /// From 1, in the order of the log.
    pub number: usize,
    /// What the kernel was asked for: `deep`, `s2idle`, `shallow`, as /sys/power/mem_sleep names it.
    pub sleep: Option<String>,
    /// The wall clock at its beginning, as the log's prefix has it.
    pub at: Option<String>,
    /// In the order of time. No stage is in it twice.
    pub stages: Vec<Stage>,
    /// CPUs taken off and brought on, in the order of time.
    pub cpus: Vec<CpuStep>,
    /// In the order of their beginnings; where that is not known, of their ends.
    pub calls: Vec<Call>,
    /// The time asleep as the kernel reports it (`Timekeeping suspended for …`), or between its messages
    /// (suspend to idle). It is not in the other times, though the log's clock may go on meanwhile.
    pub asleep_us: Option<Us>,
    /// What is added to the log's timestamps at the cycle's end: its clock goes on in sleep, or was set.
    pub shift_us: Us,
    /// What failed, in the kernel's own text: a device that refused, an aborted suspend, a watchdog.
    pub failures: Vec<Failure>,
    /// Missing at its beginning or its end: the log is cut there.
    pub cut: bool,
    /// The timestamps are the kernel's, or of a logger that wrote its lines at once. Otherwise
    /// (amd_s2idle.py copies them after the resume) only what the kernel reports of its stages is known,
    /// and `start` and `end` give only their lengths.
    #[serde(default = "yes")]
    pub stamped: bool,
    /// The step of the timestamps of its lines, µs: a million where they are of whole seconds.
    #[serde(default = "one")]
    pub resolution_us: Us,
    /// The kernel's first message after the sleep, where its last one before it is missing (an excerpt);
    /// otherwise a stage ends there.
    pub woke: Option<Us>,
    /// What bounds it where no stage does.
    pub words: Words,
    /// What woke the machine, in the order of the log: `IRQ 9`.
    pub woken: Vec<String>,
    /// By the firmware's own clock, if the log has it.
    pub firmware: Option<Firmware>,
    /// The longest times without a message of the kernel, in their order; at most [`GAPS`].
    pub gaps: Vec<Gap>,
    /// What the kernel said of devices while a callback of theirs ran, in its order; at most [`SAID`].
    pub said: Vec<Said>,
    /// Where the log's lines of it stop, if processes do not run again in it.
    pub stop: Option<Stop>,
    /// All devices of the machine, if a capture kept them.
    #[serde(skip)]
    pub devices: Arc<[Device]>,
    /// Other names of them.
    #[serde(skip)]
    pub known_as: Arc<KnownAs>,
}

/// The kernel's words that bound the halves of a cycle. Between two of them and the stages lies time of no
/// stage: notifiers, or stages of which the log has not both ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// Its first one (`PM: suspend entry`).
    pub first: Option<Us>,
    /// The last one that is certainly of the suspend: the suspend lasts until then at least.
    pub before_sleep: Option<Us>,
    /// The first one that is certainly of the resume: it has begun by then.
    pub after_sleep: Option<Us>,
    /// The one after which processes run again.
    pub thawing: Option<Us>,
    /// Its last one (`PM: suspend exit`).
    pub last: Option<Us>,
}

/// Where the log stops within a cycle: the machine went down, or lines are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The kernel's last message of the cycle.
    pub message: String,
    /// The machine boots next; otherwise it suspends again, or the log ends.
    pub boots: bool,
    /// From that message to the next boot or suspend; `None` at the end of the log, and where its clock
    /// begins anew.
    pub after_us: Option<Us>,
}

/// What firmware takes of a cycle, µs, from the ACPI table FPDT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firmware {
    /// From the kernel's last act to the sleep.
    pub suspend_us: Us,
    /// From the wake-up to the kernel's first act.
    pub resume_us: Us,
}

impl Cycle {
    /// Does the log's clock resolve a time of this length? Not one below two of its steps, if those are
    /// coarse.
    pub fn carries(&self, us: Us) -> bool {
        carries(self.resolution_us, us)
    }

    /// How long one of its calls took, in µs: [`Call::took_us`], but by the kernel's figure where the
    /// timestamps are coarse; `None` if it is unknown.
    pub fn took_us(&self, call: &Call) -> Option<Us> {
        match self.resolution_us {
            ..=1 => call.took_us(),
            _ => call
                .reported_us()
                .or_else(|| call.took_us().filter(|&us| self.carries(us))),
        }
    }

    /// [`Call::printing_us`], as far as the timestamps resolve it.
    pub fn printing_us(&self, call: &Call) -> Us {
        let us = call.printing_us();
        if self.carries(us) { us } else { 0 }
    }

    /// Suspend to idle; before Linux 4.14 it is called freeze.
    pub fn is_idle(&self) -> bool {
        matches!(self.sleep.as_deref(), Some("s2idle" | "freeze"))
    }

    /// Something failed, or aborted the suspend, before the machine could sleep.
    pub fn suspend_failed(&self) -> bool {
        self.failures.iter().any(Failure::is_of_suspend)
    }
}

impl Failure {
    /// Did it keep the machine from sleeping? A device that fails to resume does not, and what a crash of the
    /// kernel leads to is not known.
    pub fn is_of_suspend(&self) -> bool {
        let is_before = self.stage.is_none_or(|stage| stage < StageKind::Platform);
        is_before && !is_crash(self.message.as_bytes())
    }
}

/// Does the kernel report a fault of its own? x86, then ARM.
pub(crate) fn is_crash(message: &[u8]) -> bool {
    const WORDS: [&[u8]; 9] = [
        b"BUG: kernel NULL pointer",
        b"BUG: unable to handle",
        b"kernel BUG at",
        b"general protection fault",
        b"Oops",
        b"Kernel panic - not syncing",
        b"Unable to handle kernel",
        b"Internal error: ",
        b"Bad mode in ",
    ];
    WORDS.iter().any(|words| message.starts_with(words))
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn one() -> Us {
    1
}

/// Does a clock with this resolution resolve a time of this length? Two timestamps in one step may be as
/// good as a step apart.
pub(crate) fn carries(resolution_us: Us, us: Us) -> bool {
    resolution_us <= 1 || us >= resolution_us.saturating_mul(2)
}

/// Gaps kept of a cycle.
pub const GAPS: usize = 64;

/// Shorter times without a message are not kept, µs.
pub const GAP_US: Us = 5_000;

/// A time without a message of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last message before it.
    pub start: Us,
    /// The next message.
    pub end: Us,
    /// The last one before it, without its stamp.
    pub message: String,
    /// The one that ends it.
    #[serde(default)]
    pub ended_by: String,
}

/// Messages kept of a cycle's calls.
pub const SAID: usize = 256;

/// A message of the kernel on a device, while a callback of that device ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// As the callback's lines name it.
    pub device: Name,
    /// Its stamp.
    pub at: Us,
    /// Without the device.
    pub message: String,
    /// It speaks of an error or a time-out.
    pub is_error: bool,
}

/// The parts of a cycle, in their order.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// File systems are synced.
    Sync,
    /// Processes are frozen.
    #[default]
    Freeze,
    /// Devices' `prepare` callbacks.
    Prepare,
    /// Devices' main suspend.
    Suspend,
    /// Devices' `suspend_late` callbacks.
    SuspendLate,
    /// Devices' `suspend_noirq` callbacks, interrupts being off.
    SuspendNoirq,
    /// All CPUs but one go offline.
    CpusOff,
    /// From the last message of the kernel to its first one, without the sleep: the last CPU goes to sleep and
    /// comes back. The kernel's clock stands still for most of it, so firmware's time is not in it.
    Platform,
    /// Suspended to idle: the kernel sleeps, and firmware has no part in it.
    Idle,
    /// /sys/power/pm_test waits, and nothing sleeps.
    Test,
    /// They come online again.
    CpusOn,
    /// Devices' `resume_noirq` callbacks, interrupts being off.
    ResumeNoirq,
    /// Devices' `resume_early` callbacks.
    ResumeEarly,
    /// The devices' main resume.
    Resume,
    /// Devices' `complete` callbacks.
    Complete,
    /// Processes run again.
    Thaw,
}

/// Every stage with its name in JSON and in words.
pub(crate) const STAGES: [(StageKind, &str, &str); 16] = [
    (StageKind::Sync, "sync", "sync filesystems"),
    (StageKind::Freeze, "freeze", "freeze processes"),
    (StageKind::Prepare, "prepare", "prepare"),
    (StageKind::Suspend, "suspend", "suspend devices"),
    (StageKind::SuspendLate, "suspend_late", "suspend late"),
    (StageKind::SuspendNoirq, "suspend_noirq", "suspend noirq"),
    (StageKind::CpusOff, "cpus_off", "CPUs off"),
    (StageKind::Platform, "platform", "around the sleep"),
    (StageKind::Idle, "idle", "suspended to idle"),
    (StageKind::Test, "test", "wait of pm_test"),
    (StageKind::CpusOn, "cpus_on", "CPUs on"),
    (StageKind::ResumeNoirq, "resume_noirq", "resume noirq"),
    (StageKind::ResumeEarly, "resume_early", "resume early"),
    (StageKind::Resume, "resume", "resume devices"),
    (StageKind::Complete, "complete", "complete"),
    (StageKind::Thaw, "thaw", "thaw processes"),
];

/// The stages in which devices' callbacks are called.
pub(crate) const WITH_CALLS: [StageKind; 8] = [
    StageKind::Prepare,
    StageKind::Suspend,
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
    StageKind::Resume,
    StageKind::Complete,
];

/// In the JSON's spelling.
pub fn stage_name(stage: StageKind) -> &'static str {
    STAGES[stage as usize].1
}

/// For people.
pub fn stage_words(stage: StageKind) -> &'static str {
    STAGES[stage as usize].2
}

impl StageKind {
    /// Between suspend and resume.
    pub(crate) fn is_rest(self) -> bool {
        (StageKind::Platform..=StageKind::Test).contains(&self)
    }
}

/// One part of a cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Which part.
    pub kind: StageKind,
    /// When it began.
    pub start: Us,
    /// When it ended.
    pub end: Us,
    /// The time that the kernel gives it (`… of devices complete after 4.955 msecs`).
    pub says_us: Option<Us>,
}

/// A CPU taken off or brought on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuStep {
    /// N of `CPU N`.
    pub cpu: u32,
    /// Brought on; else taken off.
    pub on: bool,
    /// The end of the step before it, if the log does not show when this one started.
    pub start: Us,
    /// When it was on, or off.
    pub end: Us,
}

/// A device's callback in one stage.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// As the kernel names it: `0000:00:1f.6`.
    pub device: Name,
    /// What the kernel writes before the device's name: its driver, or its bus or class.
    pub driver: Option<Name>,
    /// The parent device; `None` if the log does not have it.
    pub parent: Option<Name>,
    /// Without offset and length.
    pub function: Option<Name>,
    /// Which stage called it.
    pub stage: StageKind,
    /// `None`: the log has only its end, and not how long it took.
    pub start: Option<Us>,
    /// `None`: it did not return before the log or the cycle ended.
    pub end: Option<Us>,
    /// As the kernel reports it. Before Linux 5.11 or so its "usecs" are 1024 ns.
    pub says_us: Option<Us>,
    /// The process or kernel thread that ran it.
    pub worker: Option<u32>,
    /// 0, or a negative error number.
    pub result: Option<i32>,
}

/// Stamps and the kernel's figure may differ by this much, and by a twentieth: a line has to be written, and
/// old kernels count microseconds of 1024 ns.
const APART_US: Us = 100;

impl Call {
    /// How long it took, in µs. By the timestamps of its lines, unless the kernel's own figure differs much:
    /// a line is printed after its stamp was taken, which on a slow console takes longer than most calls.
    pub fn took_us(&self) -> Option<Us> {
        let stamps = self.start.zip(self.end).map(|(start, end)| end - start);
        match (stamps, self.reported_us()) {
            (Some(stamps), Some(reported)) => {
                let differ = (stamps - reported).abs() > APART_US.max(reported / 20);
                Some(if differ || stamps < 0 {
                    reported
                } else {
                    stamps
                })
            }
            (stamps, reported) => stamps.or(reported),
        }
    }

    /// The kernel's own figure, in µs.
    fn reported_us(&self) -> Option<Us> {
        // The form without a function's name has 1024 ns for a microsecond.
        self.says_us.map(|us| match self.function {
            None => us.saturating_mul(128) / 125,
            Some(_) => us,
        })
    }

    /// From the stamp of its first line to its own beginning, in µs: that line was printed, or something
    /// interrupted it. Its last line is stamped as it ends.
    pub fn printing_us(&self) -> Us {
        let stamps = self.start.zip(self.end).map(|(start, end)| end - start);
        let longer = stamps.zip(self.took_us());
        longer.map_or(0, |(stamps, took)| (stamps - took).max(0))
    }
}

/// What failed, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// When the kernel reported it.
    pub at: Us,
    /// The device that it names.
    pub device: Option<Name>,
    /// Of that device, if the line has it.
    #[serde(default)]
    pub driver: Option<Name>,
    /// The stage in which it failed.
    pub stage: Option<StageKind>,
    /// In the kernel's own text.
    pub message: String,
}

//! What a line reports of a suspend or a resume, in any kind of log.

use crate::cycle::{StageKind, Us};

/// What one line reports. Names are bytes of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// The kernel starts: no cycle spans it.
    Boot,
    /// A suspend begins; `deep`, `s2idle` and the like where the line names it.
    Begin {
        sleep: Option<&'a [u8]>,
        /// No other line of the suspend comes before this one.
        first: bool,
    },
    /// File systems are about to be synced: the first message of kernels before Linux 4.12.
    Syncing,
    /// They were synced in this time.
    Synced(Us),
    /// Processes are about to be frozen; to Linux 6.2 those of users are, and the line has how long that took
    /// from its stamp on.
    Freezing {
        took_us: Option<Us>,
    },
    /// Processes are frozen; how long it took, if the line gives it from its stamp on, or to it for those of users.
    Frozen {
        after_us: Option<Us>,
        took_us: Option<Us>,
    },
    /// Devices follow; `mem`, `freeze` and the like where the line names it.
    Suspending {
        sleep: Option<&'a [u8]>,
    },
    /// ftrace: a stage begins.
    StageBegin(StageKind),
    StageEnd {
        kind: StageKind,
        says_us: Option<Us>,
        /// It did not get to its end.
        aborted: bool,
    },
    /// `PM: suspend devices took 0.300 seconds`: the stage's end, if no other line has it.
    DevicesTook {
        kind: StageKind,
        us: Us,
    },
    Call(Call<'a>),
    Return(Return<'a>),
    /// `PM: resume of drv:sd dev:3:0:0:0 complete after 7928.413 msecs`.
    Took {
        stage: StageKind,
        driver: &'a [u8],
        device: &'a [u8],
        us: Us,
    },
    /// CPUs are about to be taken off (`false`) or brought on.
    Cpus {
        on: bool,
    },
    /// One begins.
    CpuBegin {
        cpu: u32,
        on: bool,
    },
    CpuEnd {
        cpu: u32,
        on: bool,
    },
    /// An interrupt leaves a CPU that goes off.
    CpuLoses,
    /// A message of the kernel with the CPUs off, before sleep or after it.
    Message {
        awake: bool,
    },
    /// A message from between the devices' noirq stages, before the sleep or after it, which is neither the
    /// last one there nor the first.
    Around {
        awake: bool,
    },
    /// What woke the machine.
    Woken(&'a [u8]),
    /// The kernel idles until it is woken (s2idle), or is done with that.
    Idle {
        ends: bool,
    },
    Asleep(Us),
    /// /sys/power/pm_test: the kernel waits instead of sleeping.
    Test(Us),
    /// Freezing gave up.
    NotFrozen {
        message: &'a [u8],
    },
    Failure {
        device: Option<&'a [u8]>,
        driver: Option<&'a [u8]>,
        message: &'a [u8],
    },
    /// The kernel reports a fault of its own.
    Crash {
        message: &'a [u8],
    },
    /// Devices are done; processes are about to run.
    Thawing,
    Thawed,
    /// The suspend is over, with or without success.
    Exit,
    /// To disk.
    Hibernation {
        ends: bool,
    },
    /// A callback of a hibernation.
    HibernationCall,
    /// `done.` on a line of its own: another message came between it and its beginning.
    Done,
}

impl Event<'_> {
    /// How long file systems were synced, to its stamp.
    pub(super) fn synced_us(&self) -> Us {
        match self {
            Self::Synced(us) => *us,
            _ => 0,
        }
    }
}

/// A device's callback begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Call<'a> {
    pub(super) device: &'a [u8],
    pub(super) driver: Option<&'a [u8]>,
    pub(super) parent: Option<&'a [u8]>,
    pub(super) function: Option<&'a [u8]>,
    pub(super) worker: Option<u32>,
    /// If the line has it.
    pub(super) stage: Option<StageKind>,
}

/// It ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Return<'a> {
    pub(super) device: &'a [u8],
    pub(super) driver: Option<&'a [u8]>,
    pub(super) function: Option<&'a [u8]>,
    pub(super) worker: Option<u32>,
    pub(super) result: Option<i32>,
    pub(super) says_us: Option<Us>,
    /// The kernel's microseconds are of 1024 ns: always where the line is of the old form.
    pub(super) of_1024_ns: bool,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    Event(Event<'a>),
    /// Nothing about suspend and resume.
    Nothing,
    /// It starts as a known line, and is damaged.
    Torn,
}

/// The stage in a function's name, and whether it suspends; `None` if it has neither.
///
/// A name without `noirq`, `late` or `early` may be of any stage of its direction: one function may
/// serve several (`pm_runtime_force_suspend`).
pub(super) fn stage_of_name(function: &[u8]) -> Option<(Option<StageKind>, bool)> {
    let (mut suspends, mut resumes) = (false, false);
    let (mut is_late, mut is_early) = (function.ends_with(b"_late"), function.ends_with(b"_early"));
    // Both words have this letter once, and little else has it in a name: each call's is searched.
    for at in memchr::memchr_iter(b'u', function) {
        let (before, behind) = function.split_at(at);
        if behind.starts_with(b"uspend") && before.ends_with(b"s") {
            suspends = true;
            is_late |= before.ends_with(b"late_s");
        } else if behind.starts_with(b"ume") && before.ends_with(b"res") {
            resumes = true;
            is_early |= before.ends_with(b"early_res");
        }
    }
    if suspends == resumes {
        return None;
    }
    let is_noirq = memchr::memchr_iter(b'q', function).any(|at| function[..at].ends_with(b"noir"));
    let stage = match suspends {
        true if is_noirq => Some(StageKind::SuspendNoirq),
        false if is_noirq => Some(StageKind::ResumeNoirq),
        true if is_late => Some(StageKind::SuspendLate),
        false if is_early => Some(StageKind::ResumeEarly),
        _ => None,
    };
    Some((stage, suspends))
}

/// Of `freeze`, `thaw`, `poweroff` and `restore`: to disk and back.
pub(super) fn is_of_hibernation(function: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(function, word).is_some();
    let mut words = [&b"_freeze"[..], b"_thaw", b"_poweroff", b"_restore"].into_iter();
    stage_of_name(function).is_none() && words.any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_name_may_give_stage_and_direction() {
        use StageKind as K;
        let name = |name: &'static str| stage_of_name(name.as_bytes());
        for (function, stage) in [
            ("pci_pm_suspend_noirq", K::SuspendNoirq),
            ("acpi_subsys_noirq_suspend", K::SuspendNoirq),
            ("pci_pm_suspend_late", K::SuspendLate),
            ("acpi_lpss_late_suspend", K::SuspendLate),
        ] {
            assert_eq!(name(function), Some((Some(stage), true)), "{function}");
        }
        for (function, stage) in [
            ("pci_pm_resume_noirq", K::ResumeNoirq),
            ("pci_pm_resume_early", K::ResumeEarly),
            ("acpi_lpss_early_resume", K::ResumeEarly),
        ] {
            assert_eq!(name(function), Some((Some(stage), false)), "{function}");
        }
        // `late` and `early` count at the end, or before the direction.
        for function in ["usb_dev_suspend", "late_init_suspend", "suspend_early"] {
            assert_eq!(name(function), Some((None, true)), "{function}");
        }
        for function in ["usb_dev_resume", "early_init_resume", "resume_late"] {
            assert_eq!(name(function), Some((None, false)), "{function}");
        }
        for function in ["usb_dev_prepare", "suspend_or_resume", ""] {
            assert_eq!(name(function), None, "{function}");
        }
    }

    #[test]
    fn a_hibernation_function_differs_from_a_suspend_function() {
        for (function, is) in [
            ("usb_dev_freeze", true),
            ("pci_pm_thaw_noirq", true),
            ("pci_pm_poweroff_late", true),
            ("pci_pm_restore", true),
            ("usb_dev_prepare", false),
            ("freeze", false),
            // One function for both: it may belong to a suspend.
            ("nvme_suspend_freeze", false),
        ] {
            assert_eq!(is_of_hibernation(function.as_bytes()), is, "{function}");
        }
    }
}

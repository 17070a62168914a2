//! A kernel's log becomes [`Cycle`]s.
//!
//! Read are dmesg and syslog or journal texts of Linux 3.6 to today with any prefix, in UTF-8 or UTF-16,
//! as they are or packed (gzip, xz, zstd), and ftrace's
//! text with the events `power:suspend_resume` and `power:device_pm_callback_*`. Everything else in
//! between is ignored. What was cut, damaged or ambiguous is counted in [`LeftOut`].
//!
//! What there is to see depends on the kernel's settings: `/sys/power/pm_print_times` (or
//! `initcall_debug`) for the devices, `/sys/power/pm_debug_messages` for the stages since Linux 4.13.
//! Without the latter, stages run from their first call to the end of their last one.
//!
//! Lines of one stream are taken in their order. Where printk and ftrace saw the same cycle, it is
//! given once: ftrace's instants, for it sees every call and its clock is not held up by printing,
//! with what only printk has (the functions, the time asleep, failures in words).

mod both;
mod cycles;
mod event;
mod journal;
mod lines;
mod message;
mod names;
mod packed;
mod prefix;
mod reader;
mod stages;
mod stamp;
mod trace;

use std::path::Path;

use crate::cycle::{Cycle, Us};
use crate::hibernation::Hibernation;
use crate::{Error, Result};
pub use reader::{read, read_files};
use reveille_show::quantity::counted;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// In the order of the log. None where it has no suspend.
    pub cycles: Vec<Cycle>,
    /// Suspends to disk, in the order of the log.
    pub hibernations: Vec<Hibernation>,
    /// Of all inputs.
    pub lines: u64,
    /// Of all inputs, unpacked.
    pub bytes: u64,
    /// Lines that are about a suspend or a resume.
    pub event_lines: u64,
    /// The coarsest stamp among these, in microseconds: a million means whole seconds (`dmesg -T`, a
    /// syslog without the kernel's stamps), and nothing shorter is known.
    pub resolution_us: Option<Us>,
    /// What was not understood.
    pub left_out: LeftOut,
    /// The form of lines about a suspend whose times are not read.
    pub unread: Option<Unread>,
}

/// A form whose messages are recognised and whose times are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// `dmesg --json`
    DmesgJson,
    /// `journalctl -o verbose`, or an export without the times of its entries.
    JournalFields,
}

impl Unread {
    /// The form of a line without a stamp, and its message.
    fn of(line: &[u8]) -> Option<(Self, &[u8])> {
        const NAME: &[u8] = b"\"msg\":";
        let line = line.trim_ascii();
        if let Some(at) = memchr::memmem::find(line, NAME) {
            let quoted = line[at + NAME.len()..].trim_ascii_start();
            let message = quoted.strip_prefix(b"\"")?;
            let end = message.iter().rposition(|&byte| byte == b'"')?;
            return Some((Self::DmesgJson, &message[..end]));
        }
        let message = line.strip_prefix(b"MESSAGE=")?;
        Some((Self::JournalFields, message))
    }

    fn words(self) -> &'static str {
        match self {
            Self::DmesgJson => "`dmesg --json`",
            Self::JournalFields => "`journalctl -o verbose`",
        }
    }
}

/// What was not understood, and how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Of more than 64 KiB.
    pub long_lines: u64,
    /// About a suspend, and without a time.
    pub lines_without_stamp: u64,
    /// Damaged.
    pub torn_lines: u64,
    /// Kept, with an end only: its start is its end less the duration that the kernel reports.
    pub returns_without_call: u64,
    /// Of these, those whose duration the kernel does not report: without a start.
    pub calls_without_start: u64,
    /// Kept, without an end.
    pub calls_without_end: u64,
    /// Calls whose stage is known only from the stage of their device before.
    pub guessed_stages: u64,
    /// The clock was set within a cycle: no time passes there.
    pub clock_jumps: u64,
    /// Cycles that a logger stamped by its wall clock after their sleep, in which it was frozen.
    pub late_stamps: u64,
    /// Suspends to disk, of which no stages are read.
    pub hibernations: u64,
    /// Cycles that the log has twice (kern.log and messages).
    pub repeated_cycles: u64,
    /// Lines that stand there twice, one behind the other (two consoles).
    pub repeated_lines: u64,
    /// Events that ftrace lost, by its own count.
    pub lost_events: u64,
    /// Calls, CPUs, failures, silences and cycles beyond what a machine can have: the log has no end to a
    /// cycle, or nothing but cycles.
    pub too_many: u64,
    /// Lines of devices that resume when processes run again.
    pub late_calls: u64,
    /// Lines of a log that has the newest one first.
    pub backward_lines: u64,
}

impl LeftOut {
    /// Each count, its noun, and what follows the noun.
    fn counts(&mut self) -> [(&mut u64, &'static str, &'static str); 16] {
        [
            (&mut self.long_lines, "line", " of more than 64 KiB"),
            (&mut self.lines_without_stamp, "line", " without a time"),
            (&mut self.torn_lines, "damaged line", ""),
            (
                &mut self.returns_without_call,
                "call",
                " with only an end in the log; their start is from the kernel's duration",
            ),
            (
                &mut self.calls_without_start,
                "call",
                " without a start, and without a duration",
            ),
            (&mut self.calls_without_end, "call", " without an end"),
            (
                &mut self.guessed_stages,
                "call",
                " in a guessed stage: no line marks the end of stages (/sys/power/pm_debug_messages)",
            ),
            (
                &mut self.clock_jumps,
                "jump",
                " of the clock within a cycle: no time passes there",
            ),
            (
                &mut self.late_stamps,
                "cycle",
                " whose lines a logger stamped later: suspend and resume are unknown, and the time asleep is at \
                 most what is shown (`dmesg` and `journalctl -k -o json` have the kernel's stamps)",
            ),
            (&mut self.hibernations, "suspend", " to disk"),
            (
                &mut self.repeated_cycles,
                "cycle",
                " that the log has twice",
            ),
            (&mut self.repeated_lines, "line", " that the log has twice"),
            (
                &mut self.lost_events,
                "event",
                " that the tracing buffer lost",
            ),
            (
                &mut self.too_many,
                "item",
                " beyond what is kept: 100,000 calls of a cycle, 1,000,000 calls and 100,000 cycles of a log",
            ),
            (
                &mut self.late_calls,
                "line",
                " on devices that resume when processes run again",
            ),
            (
                &mut self.backward_lines,
                "line",
                " turned round, for the newest stands first",
            ),
        ]
    }

    /// Each reason that is there, with its count, as a phrase behind the number.
    pub fn reasons(mut self) -> Vec<(u64, String)> {
        let there = self.counts().into_iter().filter(|(count, ..)| **count > 0);
        let reason = |(count, noun, rest): (&mut u64, _, _)| {
            let plural = if *count == 1 { "" } else { "s" };
            (*count, format!("{noun}{plural}{rest}"))
        };
        there.map(reason).collect()
    }

    fn add(&mut self, mut other: Self) {
        for (own, more) in self.counts().into_iter().zip(other.counts()) {
            *own.0 += *more.0;
        }
    }
}

impl Log {
    /// Itself, if it has a cycle.
    ///
    /// # Errors
    /// [`Error::Unreadable`] with `path` and one line on what was looked for and what is there.
    pub fn or_no_suspend(self, path: &Path) -> Result<Self> {
        if !self.cycles.is_empty() || !self.hibernations.is_empty() {
            return Ok(self);
        }
        let untimed = self.left_out.lines_without_stamp;
        let why = if let Some(form) = self.unread.filter(|_| untimed > 0) {
            format!(
                "its form, {}, is not read; use `dmesg`, or `journalctl -k` with `-o json` or `-o export`",
                form.words()
            )
        } else if untimed > 0 {
            format!(
                "its {} about a suspend {} no time; boot with printk.time=1, or use `dmesg` or \
                 `journalctl -k -o json`",
                counted(untimed, "line"),
                if untimed == 1 { "has" } else { "have" }
            )
        } else if self.lines == 0 {
            "it is empty; expected a dmesg, a syslog or an ftrace text".to_owned()
        } else {
            format!(
                "no suspend is in its {}; expected lines such as `PM: suspend entry (deep)` \
                 (dmesg, syslog, journal) or `suspend_resume: dpm_resume[16] begin` (ftrace); \
                 `reveille resume capture` makes such a log",
                counted(self.lines, "line")
            )
        };
        Err(Error::Unreadable {
            path: path.to_owned(),
            why,
        })
    }
}

#[cfg(test)]
mod tests;

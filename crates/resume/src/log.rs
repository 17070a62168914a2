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
    /// What prints lines as those about a suspend are, of which times are not read.
    pub unread: Option<&'static str>,
}

/// The counts of what was not understood: each with its noun and what follows the noun.
macro_rules! left_out {
    ($($(#[$more:meta])* $count:ident: $noun:literal, $rest:literal;)*) => {
        /// What was not understood, and how often.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct LeftOut {
            $(
                #[doc = concat!("Counts each ", $noun, $rest, ".")]
                $(#[$more])*
                pub $count: u64,
            )*
        }

        impl LeftOut {
            /// Each reason that is there, with its count, as a phrase behind the number.
            pub fn reasons(self) -> Vec<(u64, String)> {
                let all = [$((self.$count, $noun, $rest)),*].into_iter();
                let there = all.filter(|&(count, ..)| count > 0);
                let phrase = |(count, noun, rest): (u64, &str, &str)| {
                    let plural = if count == 1 { "" } else { "s" };
                    (count, format!("{noun}{plural}{rest}"))
                };
                there.map(phrase).collect()
            }

            fn add(&mut self, other: Self) {
                $(self.$count += other.$count;)*
            }
        }
    };
}

left_out! {
    long_lines: "line", " of more than 64 KiB";
    /// It is about a suspend.
    lines_without_stamp: "line", " without a time";
    torn_lines: "damaged line", "";
    /// Its start is its end less that duration.
    returns_without_call: "call", " with only an end in the log; their start is from the kernel's duration";
    calls_without_start: "call", " without a start, and without a duration";
    calls_without_end: "call", " without an end";
    /// It is known only from the stage of the device before.
    guessed_stages: "call", " in a guessed stage: no line marks the end of stages (/sys/power/pm_debug_messages)";
    clock_jumps: "jump", " of the clock within a cycle: no time passes there";
    /// Its logger was frozen, and has the wall clock.
    late_stamps: "cycle", " whose lines a logger stamped later: suspend and resume are unknown, and a time \
        asleep is an upper bound (`dmesg` and `journalctl -k -o json` have the kernel's stamps)";
    hibernations: "suspend", " to disk";
    /// As kern.log and messages together have it.
    repeated_cycles: "cycle", " that the log has twice";
    /// One behind the other: two consoles.
    repeated_lines: "line", " that the log has twice";
    lost_events: "event", " that the tracing buffer lost";
    /// CPUs, failures and silences, too: the log has no end to a cycle, or nothing but cycles.
    too_many: "item", " beyond what is kept: 100,000 calls of a cycle, 1,000,000 calls and 100,000 cycles of a log";
    late_calls: "line", " on devices that resume when processes run again";
    backward_lines: "line", " turned round, for the newest stands first";
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
        let why = if self.unread == Some("pm_trace") {
            "a boot after a resume that hung; its lines with `hash matches` name the device, and it has no \
             times of a suspend"
                .to_owned()
        } else if let Some(form) = self.unread.filter(|_| untimed > 0) {
            format!(
                "its form, `{form}`, is not read; use `dmesg`, or `journalctl -k` with `-o json` or `-o export`"
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
                "no suspend begins in its {}; expected lines such as `PM: suspend entry (deep)` \
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

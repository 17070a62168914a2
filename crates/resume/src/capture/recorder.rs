//! Makes the kernel log and trace its suspends, and reads both.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reveille_kernel::{Identity, Journal, Root};

use super::kernel_log::{Drained, KernelLog};
use super::sleep_state::SleepState;
use super::tracer::Tracer;
use crate::{Error, Result};

pub(super) const PRINT_TIMES: &str = "sys/power/pm_print_times";
const DEBUG_MESSAGES: &str = "sys/power/pm_debug_messages";
const MEM_SLEEP: &str = "sys/power/mem_sleep";
const PRINTK: &str = "proc/sys/kernel/printk";

/// Messages of this level and below are shown on the console: warnings and worse. Those of a suspend
/// have levels 6 and 7, and a serial console would print a line for as long as a device resumes.
/// Source: Documentation/core-api/printk-basics.rst.
const CONSOLE_LEVEL: u32 = 5;

/// The kernel's log and trace, with the settings that make it write them.
pub struct Recorder {
    kmsg: PathBuf,
    log: KernelLog,
    tracer: Option<Tracer>,
    journal: Journal,
    /// What the kernel cannot log or trace, and why.
    pub notes: Vec<String>,
}

impl Recorder {
    /// Changes the settings, each in the journal; on drop all are restored.
    pub fn start(root: &Root, target: &SleepState, journals: &Path) -> Result<Self> {
        let kmsg = root.path("dev/kmsg");
        let log = KernelLog::open(root)
            .map_err(|error| Error::Cannot(format!("{}: {error}", kmsg.display())))?;
        let mut journal = Journal::new(root, journals);
        let mut notes = Vec::new();
        let prints = root.path(PRINT_TIMES).exists();
        for (path, what) in [
            (PRINT_TIMES, "devices are only in the trace"),
            (DEBUG_MESSAGES, "some phases are only in the trace"),
        ] {
            match root.path(path).exists() {
                true => journal.set(path, "1")?,
                false => notes.push(format!("this kernel has no /{path}: {what}")),
            }
        }
        if let Some(depth) = target.mem_sleep {
            journal.set(MEM_SLEEP, depth)?;
        }
        if let Some(quieter) = quieter(&root.text(PRINTK).unwrap_or_default()) {
            journal.set(PRINTK, &quieter)?;
        }
        let cpus = Identity::read(root).cpus_online.unwrap_or(1);
        let tracer = match Tracer::start(root, &mut journal, cpus as usize) {
            Ok(tracer) => Some(tracer),
            Err(why) if prints => {
                notes.push(format!("no trace: {why}"));
                None
            }
            Err(why) => {
                return Err(Error::Cannot(format!(
                    "this kernel logs no devices: it has no /{PRINT_TIMES} (it needs \
                     CONFIG_PM_SLEEP_DEBUG), and {why}"
                )));
            }
        };
        Ok(Self {
            kmsg,
            log,
            tracer,
            journal,
            notes,
        })
    }

    /// Writes a line to the kernel's log before a cycle. Records are counted from its number on, so that
    /// missing ones are noticed.
    pub fn mark(&mut self, number: usize, of: usize) {
        let line = format!("<6>reveille: cycle {number} of {of}\n");
        // Without it only losses at the start of the log go unnoticed.
        let _ = OpenOptions::new()
            .write(true)
            .open(&self.kmsg)
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }

    /// Writes what is new in the kernel's log and trace since the last time.
    pub fn drain(
        &mut self,
        log: &mut impl Write,
        trace: &mut impl Write,
    ) -> io::Result<(Drained, Drained)> {
        let logged = self.log.drain(log)?;
        let traced = match &mut self.tracer {
            Some(tracer) => tracer.drain(trace)?,
            None => Drained::default(),
        };
        Ok((logged, traced))
    }

    /// Restores all settings; returns those that could not be restored, with the reason.
    pub fn stop(mut self) -> Vec<String> {
        let restored = self.journal.restore();
        let failed = restored.failed.iter();
        let failed = failed.map(|(change, why)| format!("{}: {why}", change.path.display()));
        failed.chain(restored.refused).collect()
    }
}

/// The levels with a console that shows only warnings and worse; `None` where it shows no more.
fn quieter(levels: &str) -> Option<String> {
    let mut levels: Vec<&str> = levels.split_whitespace().collect();
    let console: u32 = levels.first()?.parse().ok()?;
    let quiet = CONSOLE_LEVEL.to_string();
    levels[0] = &quiet;
    // As the kernel shows them.
    (console > CONSOLE_LEVEL).then(|| levels.join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_console_that_shows_more_than_warnings_is_made_quieter() {
        assert_eq!(quieter("7\t4\t1\t7").as_deref(), Some("5\t4\t1\t7"));
        assert_eq!(quieter("4\t4\t1\t7"), None);
        assert_eq!(quieter(""), None);
    }
}

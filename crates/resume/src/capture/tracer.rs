//! The kernel's tracer: what it says of suspends and of devices' callbacks, in an instance of ours.
//! Source: Documentation/trace/ftrace.rst.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use reveille_machine::{Journal, Root};

use super::kernel_log::Drained;

/// Where it is found: mounted by itself, or in debugfs.
pub(super) const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Phases, and the devices' callbacks in them.
pub(super) const EVENTS: [&str; 3] = [
    "power/suspend_resume",
    "power/device_pm_callback_start",
    "power/device_pm_callback_end",
];

/// For all CPUs together: an event takes about 100 bytes, and a machine with 1000 devices tells
/// some 20 000 in a cycle. Most of them are on few CPUs.
const BUFFERS_KIB: usize = 64 << 10;
const BUFFER_KIB_MIN: usize = 256;
const BUFFER_KIB_MAX: usize = 8 << 10;

/// An instance of the tracer; the journal takes it down.
pub struct Tracer {
    instance: PathBuf,
    has_head: bool,
}

impl Tracer {
    /// Begins to trace, in the clock of the kernel's log.
    ///
    /// # Errors
    /// In words, why there is no trace.
    pub fn start(root: &Root, journal: &mut Journal, cpus: usize) -> Result<Self, String> {
        let instances = PLACES
            .iter()
            .map(|place| format!("{place}/instances"))
            .find(|instances| root.path(instances).is_dir())
            .ok_or("tracefs is not mounted at /sys/kernel/tracing")?;
        let folder = format!("{instances}/reveille-{}", std::process::id());
        journal
            .make_folder(&folder)
            .map_err(|error| error.to_string())?;
        let instance = root.path(&folder);
        let write = |file: &str, value: &str| {
            let written = std::fs::write(instance.join(file), value);
            written.map_err(|error| format!("{file} of the tracer: {error}"))
        };
        let kib = (BUFFERS_KIB / cpus.max(1)).clamp(BUFFER_KIB_MIN, BUFFER_KIB_MAX);
        write("buffer_size_kb", &kib.to_string())?;
        // It goes on where `local` may jump between CPUs, and is the clock of printk otherwise.
        write("trace_clock", "global")?;
        for event in EVENTS {
            write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(Self {
            instance,
            has_head: false,
        })
    }

    /// Writes what was traced since the last time, under one head.
    ///
    /// # Errors
    /// Where `out` cannot be written, or the trace not be read.
    pub fn drain(&mut self, out: &mut impl Write) -> io::Result<Drained> {
        let path = self.instance.join("trace");
        let bytes = std::fs::read(&path)?;
        // Opening it to be written over empties it.
        File::create(&path)?;
        let mut drained = Drained::default();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(b"#") {
                drained.lost += lost(line).unwrap_or(0);
                if self.has_head {
                    continue;
                }
            } else {
                drained.kept += 1;
            }
            out.write_all(line)?;
        }
        self.has_head = true;
        Ok(drained)
    }
}

/// `# entries-in-buffer/entries-written: 4072/4100   #P:2`: how many were written over.
fn lost(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, counts) = line.split_once("entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    let (kept, written): (u64, u64) = (kept.parse().ok()?, written.parse().ok()?);
    written.checked_sub(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_tells_how_many_events_were_written_over() {
        assert_eq!(
            lost(b"# entries-in-buffer/entries-written: 4072/4100   #P:2\n"),
            Some(28)
        );
        assert_eq!(lost(b"# tracer: nop\n"), None);
    }

    #[test]
    fn a_trace_that_is_read_in_parts_has_one_head() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let mut tracer = Tracer {
            instance: folder.path().to_owned(),
            has_head: false,
        };
        let mut out = Vec::new();
        for event in ["one", "two"] {
            let head = "# tracer: nop\n# entries-in-buffer/entries-written: 1/3   #P:2\n";
            std::fs::write(&trace, format!("{head} sh-1 [000] 1.0: {event}\n")).unwrap();
            let drained = tracer.drain(&mut out).unwrap();
            assert_eq!(drained, Drained { kept: 1, lost: 2 });
            assert_eq!(std::fs::read(&trace).unwrap(), b"");
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("# tracer").count(), 1);
        assert!(text.ends_with(" sh-1 [000] 1.0: one\n sh-1 [000] 1.0: two\n"));
    }
}

//! The kernel's tracer: its events on suspends and devices' callbacks, in an instance of its own.
//! Source: Documentation/trace/ftrace.rst.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::libc::O_NONBLOCK;
use reveille_kernel::{Journal, Root};

use super::kernel_log::Drained;

/// Where it is found: mounted by itself, or in debugfs.
pub(super) const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Phases, and the devices' callbacks in them.
pub(super) const EVENTS: [&str; 3] = [
    "power/suspend_resume",
    "power/device_pm_callback_start",
    "power/device_pm_callback_end",
];

/// For all CPUs together: an event takes about 100 bytes, and a machine with 1000 devices has
/// some 20 000 in a cycle. Most of them are on few CPUs.
const BUFFERS_KIB: usize = 64 << 10;
const BUFFER_KIB_MIN: usize = 256;
const BUFFER_KIB_MAX: usize = 8 << 10;

/// An instance of the tracer; the journal removes it.
pub struct Tracer {
    instance: PathBuf,
}

impl Tracer {
    /// Starts tracing, with the clock of the kernel's log.
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
        Ok(Self { instance })
    }

    /// Writes what was traced since the last time, and takes it out of the buffers: an event that comes
    /// meanwhile is in this part or in the next one.
    pub fn drain(&mut self, out: &mut impl Write) -> io::Result<Drained> {
        // Closed again each time: an instance in use cannot be removed.
        let mut pipe = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(self.instance.join("trace_pipe"))?;
        let mut drained = Drained::default();
        let mut block = vec![0; BLOCK_BYTES];
        let mut line = Vec::new();
        loop {
            let read = match pipe.read(&mut block) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nothing more for now.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            out.write_all(&block[..read])?;
            for byte in &block[..read] {
                match byte {
                    b'\n' => drained.count(&std::mem::take(&mut line)),
                    byte if line.len() < LINE_BYTES_MAX => line.push(*byte),
                    _ => {}
                }
            }
        }
        Ok(drained)
    }
}

/// What is read at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// Enough of a line to recognise an event.
const LINE_BYTES_MAX: usize = 64;

impl Drained {
    fn count(&mut self, line: &[u8]) {
        match lost(line) {
            Some(lost) => self.lost += lost,
            None => self.kept += u64::from(!line.starts_with(b"#")),
        }
    }
}

/// `CPU:1 [LOST 28 EVENTS]`: this many were overwritten; without a number if it is unknown.
fn lost(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, lost) = line.strip_prefix("CPU:")?.split_once("[LOST ")?;
    let count = lost.strip_suffix("EVENTS]")?.trim();
    Some(count.parse().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    #[test]
    fn the_trace_counts_overwritten_events() {
        assert_eq!(lost(b"CPU:1 [LOST 28 EVENTS]"), Some(28));
        assert_eq!(lost(b"CPU:0 [LOST EVENTS]"), Some(1));
        assert_eq!(lost(b" sh-1 [000] 1.0: suspend_resume: LOST"), None);
    }

    /// A pipe, like the kernel's: reading consumes, and what arrives between two reads stays.
    #[test]
    fn an_event_that_arrives_while_the_trace_is_read_is_in_the_next_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace_pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut kernel = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut tracer = Tracer {
            instance: folder.path().to_owned(),
        };
        /// Arrives while a part of the trace is written.
        struct Late<'a>(&'a mut std::fs::File, Vec<u8>);
        impl Write for Late<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if !self.1.ends_with(b"late\n") && !bytes.ends_with(b"late\n") {
                    self.0.write_all(b" sh-1 [000] 2.0: late\n")?;
                }
                self.1.extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        kernel
            .write_all(b"CPU:0 [LOST 2 EVENTS]\n sh-1 [000] 1.0: one\n")
            .unwrap();
        let mut out = Late(&mut kernel, Vec::new());
        let mut all = Drained::default();
        for _ in 0..2 {
            let drained = tracer.drain(&mut out).unwrap();
            all.kept += drained.kept;
            all.lost += drained.lost;
        }
        assert_eq!(all, Drained { kept: 2, lost: 2 });
        let text = String::from_utf8(out.1).unwrap();
        assert!(
            text.ends_with("1.0: one\n sh-1 [000] 2.0: late\n"),
            "{text}"
        );
    }
}

//! Latency bounds that this process requests, on all CPUs or on some.
//!
//! Sources: Documentation/power/pm_qos_interface.rst and Documentation/admin-guide/pm/cpuidle.rst
//! of the kernel.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::pm_qos::{self, DEVICE};
pub use crate::pm_qos::{file_of, is_within, text_of};
use crate::{Error, Idle, Journal, Result, Root};

/// A latency bound on all CPUs. The kernel drops it when the process ends, in whatever way.
#[derive(Debug)]
pub struct Request {
    /// The request lives as long as the device is open.
    _device: File,
}

impl Request {
    /// Requests that no CPU take longer than `bound_us` to wake, µs; zero: that none sleep. The tightest
    /// request of all processes counts.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the device is missing, or this user may not open it.
    pub fn hold(bound_us: u32) -> Result<Self> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Cannot(format!(
                "{DEVICE}: a latency bound can only be held by root; run with sudo"
            )),
            io::ErrorKind::NotFound => Error::Cannot(format!(
                "{DEVICE}: no such device (a container without it?)"
            )),
            _ => Error::Io {
                path: DEVICE.into(),
                source,
            },
        };
        let mut device = OpenOptions::new()
            .write(true)
            .open(DEVICE)
            .map_err(refused)?;
        if !is_the_kernels(&device.metadata().map_err(refused)?) {
            return Err(Error::Cannot(format!(
                "{DEVICE}: is another device here (/dev/null?), and holds no latency bound"
            )));
        }
        let bound = i32::try_from(bound_us)
            .map_err(|_| Error::Usage(format!("{bound_us} µs is beyond what {DEVICE} takes")))?;
        device.write_all(&bound.to_ne_bytes()).map_err(refused)?;
        // Reading may not be permitted.
        if let Ok(held) = pm_qos::current_bound_us()
            && held.is_none_or(|held| held > bound_us)
        {
            return Err(Error::Cannot(format!(
                "{DEVICE}: the kernel did not take the bound of {bound_us} µs"
            )));
        }
        Ok(Self { _device: device })
    }
}

/// Whether it is a device of the driver "misc" (Documentation/admin-guide/devices.txt: major number 10).
fn is_the_kernels(device: &Metadata) -> bool {
    const MISC: u64 = 10;
    device.file_type().is_char_device() && nix::sys::stat::major(device.rdev()) == MISC
}

/// Bounds the latency of these CPUs, µs; zero: they do not sleep. The bound outlives the process, so it is
/// set through the journal. Of several bounds the tightest stays.
///
/// # Errors
/// [`Error::Cannot`] if a CPU has no such setting, or this user may not change it; earlier changes are in
/// the journal.
pub fn bound_cpus(journal: &mut Journal, root: &Root, cpus: &[u32], bound_us: u32) -> Result<()> {
    if let Some(cpu) = cpus.iter().find(|&&cpu| root.text(&file_of(cpu)).is_none()) {
        return Err(Error::Cannot(format!(
            "{}: CPU {cpu} has no separate latency bound on this kernel; hold one on all CPUs, \
             without --cpu",
            root.path(&file_of(*cpu)).display()
        )));
    }
    let changes = cpus.iter().map(|&cpu| (file_of(cpu), text_of(bound_us)));
    let set = journal.set_all(&changes.collect::<Vec<_>>());
    set.map_err(|error| error.by_root("a CPU's latency bound can only be set"))
}

/// Whether latency bounds have an effect: it takes a cpuidle driver and a governor. Without them the
/// kernel's default idle routine ignores bounds.
pub fn honoured(idle: &Idle) -> bool {
    idle.driver.is_some() && idle.governor.is_some()
}

/// Whether the governor honours this bound, µs; haltpoll honours only 0.
/// Source: drivers/cpuidle/governors/haltpoll.c of the kernel.
pub fn is_kept_to(idle: &Idle, bound_us: u32) -> bool {
    bound_us == 0 || idle.governor.as_deref() != Some("haltpoll")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(bounds: &[&str]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, bound) in bounds.iter().enumerate() {
            let file = folder.path().join(&file_of(cpu as u32)[1..]);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{bound}\n")).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn bounds(root: &Root, count: u32) -> Vec<String> {
        (0..count)
            .map(|cpu| root.text(&file_of(cpu)).unwrap())
            .collect()
    }

    #[test]
    fn a_cpus_bound_is_restored_and_zero_is_written_in_the_kernels_notation() {
        let (folder, root) = machine(&["0", "0", "0"]);
        let mut journal = Journal::new(&root, &folder.path().join("run"));
        bound_cpus(&mut journal, &root, &[0], 100).unwrap();
        bound_cpus(&mut journal, &root, &[2], 0).unwrap();
        assert_eq!(bounds(&root, 3), ["100", "0", "n/a"]);
        drop(journal);
        assert_eq!(bounds(&root, 3), ["0", "0", "0"]);
    }

    #[test]
    fn a_tighter_bound_is_not_loosened() {
        let (folder, root) = machine(&["20", "n/a", "500"]);
        let mut journal = Journal::new(&root, &folder.path().join("run"));
        bound_cpus(&mut journal, &root, &[0, 1, 2], 100).unwrap();
        assert_eq!(bounds(&root, 3), ["20", "n/a", "100"]);
    }

    #[test]
    fn a_cpu_without_the_setting_is_reported_and_the_others_are_restored() {
        let (folder, root) = machine(&["0"]);
        let mut journal = Journal::new(&root, &folder.path().join("run"));
        let error = bound_cpus(&mut journal, &root, &[0, 1], 100).unwrap_err();
        assert!(matches!(&error, Error::Cannot(why) if why.contains("CPU 1")));
        drop(journal);
        assert_eq!(bounds(&root, 1), ["0"]);
    }

    #[test]
    fn the_kernel_sees_a_request_until_its_holder_ends() {
        let request = match Request::hold(1234) {
            Ok(request) => request,
            Err(error) => {
                println!("skipped: the_kernel_sees_a_request_until_its_holder_ends: {error}");
                return;
            }
        };
        // Another process may hold a tighter one.
        let held = crate::pm_qos::current_bound_us().unwrap();
        assert!(held.is_some_and(|held| held <= 1234), "{held:?}");
        drop(request);
        assert_ne!(crate::pm_qos::current_bound_us().unwrap(), Some(1234));
    }
}

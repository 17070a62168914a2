//! PM QoS requests: latency bounds that processes hold on all CPUs through `/dev/cpu_dma_latency`.
//!
//! Source: Documentation/power/pm_qos_interface.rst of the kernel.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

/// The device that a process keeps open to hold a request.
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// The kernel's "no bound": 2000 s in µs (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
pub(crate) const NO_BOUND_US: i32 = 2_000_000_000;

/// A process that has the device open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// As /proc numbers it.
    pub pid: u32,
    /// `comm`: at most 15 characters.
    pub name: String,
    /// Its command line; empty for one that has none.
    pub command: String,
}

/// The lowest bound that processes and drivers request now, µs; `None` if there is none.
///
/// # Errors
/// If the device is missing, or this user may not open it.
pub fn current_bound_us() -> io::Result<Option<u32>> {
    // Opening it makes a request of "no bound", which ends with the descriptor.
    let mut value = [0; 4];
    File::open(DEVICE)?.read_exact(&mut value)?;
    Ok(bound(i32::from_ne_bytes(value)))
}

fn bound(value: i32) -> Option<u32> {
    (value != NO_BOUND_US).then_some(value.max(0).unsigned_abs())
}

/// The setting that holds a CPU's own bound.
pub fn file_of(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us")
}

/// The text of a bound in a CPU's own setting: `0` means "no bound", `n/a` that no latency is tolerated.
pub fn text_of(bound_us: u32) -> String {
    match bound_us {
        0 => "n/a".to_owned(),
        bound => bound.to_string(),
    }
}

/// A latency bound as the kernel takes it, µs; zero allows no sleep.
///
/// # Errors
/// One line: a fraction of a microsecond, or 2000 s and more, the kernel's "no bound".
pub fn bound_us(time: Duration) -> Result<u32, String> {
    let us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    if us >= NO_BOUND_US.unsigned_abs() {
        return Err("beyond what the kernel takes: it must be less than 2000s".into());
    }
    if !time.subsec_nanos().is_multiple_of(1000) {
        return Err("a fraction of a microsecond; the kernel takes whole ones".into());
    }
    Ok(us)
}

/// Other processes that have the device open, and whether all processes could be examined: other users'
/// need root.
///
/// # Errors
/// If the folder of processes cannot be listed.
pub fn holders(proc_folder: &Path) -> io::Result<(Vec<Holder>, bool)> {
    let mut holders = Vec::new();
    let mut saw_all = true;
    for entry in fs::read_dir(proc_folder)? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        match has_device_open(&entry.path()) {
            Ok(true) => holders.push(holder(pid, &entry.path())),
            Ok(false) => {}
            // It has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => saw_all = false,
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    Ok((holders, saw_all))
}

fn has_device_open(process: &Path) -> io::Result<bool> {
    for descriptor in fs::read_dir(process.join("fd"))? {
        // One that was closed meanwhile points nowhere.
        let target = fs::read_link(descriptor?.path());
        if target.is_ok_and(|target| target == Path::new(DEVICE)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holder(pid: u32, process: &Path) -> Holder {
    let text = |file: &str| {
        let bytes = fs::read(process.join(file)).unwrap_or_default();
        // Arguments end in NUL; a process may write what it likes there, also control characters.
        let text = String::from_utf8_lossy(&bytes).replace(char::is_control, " ");
        text.trim().to_owned()
    };
    Holder {
        pid,
        name: text("comm"),
        command: text("cmdline"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_whole_number_of_microseconds_below_the_kernels_no_bound() {
        let bound = |ns| bound_us(Duration::from_nanos(ns));
        assert_eq!(bound(0), Ok(0));
        assert_eq!(bound(1_500_000), Ok(1500));
        assert_eq!(bound(1_999_999_999_000), Ok(1_999_999_999));
        assert!(bound(1500).unwrap_err().contains("fraction"));
        assert!(bound(2_000_000_000_000).unwrap_err().contains("2000s"));
        let longest = bound_us(Duration::MAX);
        assert!(longest.unwrap_err().contains("2000s"));
    }

    #[test]
    fn the_kernels_default_is_not_a_bound() {
        assert_eq!(bound(NO_BOUND_US), None);
        assert_eq!(bound(0), Some(0));
        assert_eq!(bound(50), Some(50));
    }

    #[test]
    fn a_process_with_the_device_open_is_a_holder() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("4000123");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), "tuned\n").unwrap();
        fs::write(
            process.join("cmdline"),
            "python3\0/usr/sbin/tuned\0-l\x1b[0m\0",
        )
        .unwrap();
        std::os::unix::fs::symlink("/dev/null", process.join("fd/0")).unwrap();
        assert_eq!(holders(folder.path()).unwrap(), (vec![], true));
        std::os::unix::fs::symlink(DEVICE, process.join("fd/5")).unwrap();
        fs::create_dir_all(folder.path().join("sys")).unwrap();
        let (found, saw_all) = holders(folder.path()).unwrap();
        assert!(saw_all);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pid, found[0].name.as_str()), (4_000_123, "tuned"));
        assert_eq!(found[0].command, "python3 /usr/sbin/tuned -l [0m");
    }

    #[test]
    fn an_unreadable_process_is_reported_as_unseen() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("77")).unwrap();
        fs::write(folder.path().join("77/fd"), "no folder").unwrap();
        assert_eq!(holders(folder.path()).unwrap(), (vec![], false));
    }

    #[test]
    fn an_ended_process_is_not_unseen() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("78")).unwrap();
        assert_eq!(holders(folder.path()).unwrap(), (vec![], true));
    }

    #[test]
    fn a_held_bound_is_the_current_one() {
        use std::io::Write;
        use std::os::unix::fs::FileExt;
        let device = fs::OpenOptions::new().read(true).write(true).open(DEVICE);
        let mut device = match device {
            Ok(device) => device,
            Err(error) => return println!("skipped: {DEVICE}: {error}"),
        };
        // A second restricts no state.
        device.write_all(&1_000_000_i32.to_ne_bytes()).unwrap();
        // Other processes hold and release tighter ones meanwhile.
        let lowest = || {
            let mut us = [0; 4];
            device.read_exact_at(&mut us, 0).unwrap();
            i32::from_ne_bytes(us)
        };
        let at_rest = (0..1000).find_map(|_| {
            let (before, bound, after) = (lowest(), current_bound_us().unwrap(), lowest());
            (before == after).then_some((before, bound))
        });
        let (lowest, bound) = at_rest.expect("no process changes the bound a thousand times");
        assert!((0..=1_000_000).contains(&lowest), "{lowest}");
        assert_eq!(bound, Some(lowest as u32));
    }
}

//! PM QoS requests: latency bounds that processes hold on all CPUs through `/dev/cpu_dma_latency` and, since Linux 6.19,
//! `/dev/cpu_wakeup_latency`. The latter also bounds the states of suspend to idle.
//!
//! Source: Documentation/power/pm_qos_interface.rst of the kernel.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

/// The device that a process keeps open to hold a request.
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// Another one, of kernels with `CONFIG_PM_QOS_CPU_SYSTEM_WAKEUP`. Governors keep to the lowest bound of both.
/// Source: `cpuidle_governor_latency_req()` of the kernel.
pub const WAKEUP_DEVICE: &str = "/dev/cpu_wakeup_latency";

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
    /// [`DEVICE`] or [`WAKEUP_DEVICE`].
    #[serde(skip)]
    pub device: &'static str,
}

/// The lowest bound that processes and drivers request now through either device, µs; `None` if there is none.
///
/// # Errors
/// If [`DEVICE`] is missing, or this user may not open it or the other one.
pub fn current_bound_us() -> io::Result<Option<u32>> {
    lowest(read(DEVICE)?, read(WAKEUP_DEVICE))
}

/// The bound of [`WAKEUP_DEVICE`] alone, µs; `None` where there is none, or it cannot be read.
pub fn wakeup_bound_us() -> Option<u32> {
    read(WAKEUP_DEVICE).ok().flatten()
}

fn lowest(bound: Option<u32>, of_wakeup: io::Result<Option<u32>>) -> io::Result<Option<u32>> {
    let of_wakeup = match of_wakeup {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => read?,
    };
    Ok(bound.into_iter().chain(of_wakeup).min())
}

fn read(device: &str) -> io::Result<Option<u32>> {
    // Opening it makes a request of "no bound", which ends with the descriptor.
    let mut value = [0; 4];
    File::open(device)?.read_exact(&mut value)?;
    Ok(bound(i32::from_ne_bytes(value)))
}

/// The wake-up device has no bound at the highest number.
fn bound(value: i32) -> Option<u32> {
    (value < NO_BOUND_US).then_some(value.max(0).unsigned_abs())
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

/// Whether a CPU's own setting with this text keeps to a bound.
pub fn is_within(text: &str, bound_us: u32) -> bool {
    match text {
        "n/a" => true,
        "0" => false,
        us => us.parse().is_ok_and(|us: u32| us <= bound_us),
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

/// The kernel numbers its first PID namespace alike everywhere.
/// Source: include/linux/proc_ns.h of the kernel.
pub(crate) const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Processes that could not be examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// All were.
    None,
    /// Other users' need root.
    OfOtherUsers,
    /// This PID namespace is not the first: /proc has no others' processes.
    OfOtherNamespaces,
}

/// Other processes that have the device open, and which could not be examined.
///
/// # Errors
/// If the folder of processes cannot be listed.
pub fn holders(proc_folder: &Path) -> io::Result<(Vec<Holder>, Unseen)> {
    let mut holders = Vec::new();
    let namespace = fs::read_link(proc_folder.join("self/ns/pid"));
    let mut unseen = match namespace {
        Ok(namespace) if namespace != Path::new(FIRST_PID_NAMESPACE) => Unseen::OfOtherNamespaces,
        _ => Unseen::None,
    };
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
        match device_open(&entry.path()) {
            Ok(Some(device)) => holders.push(holder(pid, &entry.path(), device)),
            Ok(None) => {}
            // It has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => unseen = Unseen::OfOtherUsers,
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    Ok((holders, unseen))
}

fn device_open(process: &Path) -> io::Result<Option<&'static str>> {
    for descriptor in fs::read_dir(process.join("fd"))? {
        // One that was closed meanwhile points nowhere.
        let target = fs::read_link(descriptor?.path()).unwrap_or_default();
        let mut devices = [DEVICE, WAKEUP_DEVICE].into_iter();
        if let Some(device) = devices.find(|device| target == Path::new(device)) {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn holder(pid: u32, process: &Path, device: &'static str) -> Holder {
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
        device,
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
        assert_eq!(bound(i32::MAX), None);
    }

    #[test]
    fn the_lower_bound_of_both_devices_is_in_force() {
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(lowest(Some(20), missing()).unwrap(), Some(20));
        assert_eq!(lowest(Some(20), Ok(Some(0))).unwrap(), Some(0));
        assert_eq!(lowest(None, Ok(Some(7))).unwrap(), Some(7));
        assert_eq!(lowest(Some(3), Ok(None)).unwrap(), Some(3));
        assert_eq!(lowest(None, Ok(None)).unwrap(), None);
        let denied = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(lowest(Some(20), denied).is_err());
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
        assert_eq!(holders(folder.path()).unwrap(), (vec![], Unseen::None));
        std::os::unix::fs::symlink(DEVICE, process.join("fd/5")).unwrap();
        fs::create_dir_all(folder.path().join("sys")).unwrap();
        let (found, unseen) = holders(folder.path()).unwrap();
        assert_eq!(unseen, Unseen::None);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pid, found[0].name.as_str()), (4_000_123, "tuned"));
        assert_eq!(found[0].command, "python3 /usr/sbin/tuned -l [0m");
        assert_eq!(found[0].device, DEVICE);
        fs::remove_file(process.join("fd/5")).unwrap();
        std::os::unix::fs::symlink(WAKEUP_DEVICE, process.join("fd/6")).unwrap();
        assert_eq!(holders(folder.path()).unwrap().0[0].device, WAKEUP_DEVICE);
    }

    #[test]
    fn an_unreadable_process_is_reported_as_unseen() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("77")).unwrap();
        fs::write(folder.path().join("77/fd"), "no folder").unwrap();
        assert_eq!(
            holders(folder.path()).unwrap(),
            (vec![], Unseen::OfOtherUsers)
        );
    }

    #[test]
    fn processes_outside_of_this_pid_namespace_are_unseen() {
        let in_namespace = |namespace: &str| {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("self/ns")).unwrap();
            std::os::unix::fs::symlink(namespace, folder.path().join("self/ns/pid")).unwrap();
            holders(folder.path()).unwrap().1
        };
        assert_eq!(in_namespace(FIRST_PID_NAMESPACE), Unseen::None);
        assert_eq!(in_namespace("pid:[4026532177]"), Unseen::OfOtherNamespaces);
    }

    #[test]
    fn an_ended_process_is_not_unseen() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("78")).unwrap();
        assert_eq!(holders(folder.path()).unwrap(), (vec![], Unseen::None));
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

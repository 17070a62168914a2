//! The settings known to the journal: nothing else is written, whatever the file names.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::network::timestamps;
use crate::{Error, Result, cpulist, cpuset, freezer, timer_slack};

/// What a setting holds, and how its claims resolve: to the last one, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// 0 or 1.
    Switch,
    /// A CPU's `online`, 0 or 1. It is restored before interrupts, which cannot go to an offline CPU.
    Online,
    /// A CPU's latency bound: the tightest counts, that of others included.
    Bound,
    /// The CPUs of an interrupt. The kernel changes them when a CPU goes offline: a claim to the original ones
    /// leaves the present ones, and restores them in the end.
    Interrupt,
    /// /proc/sys/kernel/printk: four numbers (proc(5)).
    Levels,
    /// A way to suspend (`s2idle`, `shallow`, `deep`).
    Word,
    /// Seconds since 1970, or nothing where no alarm is set.
    Alarm,
    /// A folder that exists as long as it has a claim.
    Folder,
    /// Which packets a network card stamps ([`timestamps`]).
    Timestamps,
    /// The function of a pin of a card's clock, and its channel.
    Pin,
    /// What a card's clock puts out on channel 0: its driver does not tell. A claim writes nothing
    /// ([`super::Journal::will_switch_off`]).
    Output,
    /// Whether threads have the timer slack that the path names ([`timer_slack`]). A claim writes nothing.
    Slack,
    /// Whether the cgroup that the path names is frozen ([`freezer`]). A claim writes nothing.
    Frozen,
    /// The CPUs of the cgroup that the path names ([`cpuset`]).
    Cpuset,
}

/// Every setting that is changed, below the root; `#` stands for a number, `*` for a network interface.
const KNOWN: [(&str, Kind); 18] = [
    (
        "sys/devices/system/cpu/cpu#/cpuidle/state#/disable",
        Kind::Switch,
    ),
    ("sys/devices/system/cpu/cpu#/online", Kind::Online),
    (
        "sys/devices/system/cpu/cpu#/power/pm_qos_resume_latency_us",
        Kind::Bound,
    ),
    ("proc/irq/#/smp_affinity_list", Kind::Interrupt),
    ("proc/sys/kernel/timer_migration", Kind::Switch),
    ("proc/sys/kernel/printk", Kind::Levels),
    ("sys/power/pm_print_times", Kind::Switch),
    ("sys/power/pm_debug_messages", Kind::Switch),
    ("sys/power/mem_sleep", Kind::Word),
    ("sys/class/rtc/rtc#/wakealarm", Kind::Alarm),
    ("sys/kernel/tracing/instances/reveille-#", Kind::Folder),
    (
        "sys/kernel/debug/tracing/instances/reveille-#",
        Kind::Folder,
    ),
    ("sys/class/net/*/hwtstamp@#/#", Kind::Timestamps),
    ("sys/class/ptp/ptp#/pins/SDP#", Kind::Pin),
    ("sys/class/ptp/ptp#/period", Kind::Output),
    ("proc/timer_slack@#", Kind::Slack),
    ("sys/fs/cgroup/frozen@#", Kind::Frozen),
    ("sys/fs/cgroup/cpuset@#", Kind::Cpuset),
];

/// The kind of the setting at this path below the root; `None` for one that is not known.
pub(super) fn of(path: &str) -> Option<Kind> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let known = KNOWN.iter().find(|(pattern, _)| fits(path, pattern))?;
    Some(known.1)
}

fn fits(path: &str, pattern: &str) -> bool {
    path.split('/').count() == pattern.split('/').count()
        && path
            .split('/')
            .zip(pattern.split('/'))
            .all(|(element, pattern)| match pattern.strip_suffix('#') {
                Some(letters) => element.strip_prefix(letters).is_some_and(is_number),
                None if pattern == "*" => is_interface(element),
                None => element == pattern,
            })
}

/// As the kernel allows (dev_valid_name()), of ASCII.
fn is_interface(name: &str) -> bool {
    (1..16).contains(&name.len())
        && ![".", ".."].contains(&name)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b':')
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Kind {
    /// Whether this is a valid value.
    pub fn takes(self, value: &str) -> bool {
        let short_word = || (1..=32).contains(&value.len());
        match self {
            Self::Switch | Self::Online => matches!(value, "0" | "1"),
            Self::Bound => value == "n/a" || is_number(value),
            Self::Interrupt => cpulist::parse(value).is_some(),
            Self::Cpuset => value.is_empty() || cpulist::parse(value).is_some(),
            Self::Levels => {
                let mut levels = value.split_whitespace();
                levels.all(is_number) && value.split_whitespace().count() == 4
            }
            Self::Word => short_word() && value.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Self::Alarm => value.is_empty() || is_number(value),
            Self::Folder => matches!(value, ABSENT | PRESENT),
            Self::Timestamps => timestamps::Setting::parse(value).is_some(),
            Self::Pin => value.split(' ').count() == 2 && value.split(' ').all(is_number),
            Self::Output | Self::Slack | Self::Frozen => matches!(value, OFF | ON),
        }
    }

    /// Whether the setting no longer exists, with its device.
    pub fn is_gone(self, path: &Path) -> bool {
        match self {
            Self::Interrupt | Self::Pin | Self::Output => !path.exists(),
            Self::Timestamps => timestamps::is_gone(path),
            Self::Cpuset => cpuset::is_gone(number(path)),
            _ => false,
        }
    }

    /// Whether it keeps a value that was written until somebody writes another: an alarm rings, the kernel moves
    /// interrupts, and of some a claim writes nothing.
    pub fn stays(self) -> bool {
        !matches!(
            self,
            Self::Alarm | Self::Interrupt | Self::Output | Self::Slack | Self::Frozen
        )
    }

    /// The value to write: `original` is from before the claims. `None`: leave the present value.
    pub fn wanted(self, original: &str, claims: &[&str]) -> Option<String> {
        let last = claims.last().copied();
        match self {
            Self::Interrupt if last == Some(original) => None,
            // Its owner switches it.
            Self::Slack | Self::Frozen if last.is_some() => None,
            Self::Bound => {
                let all = std::iter::once(original).chain(claims.iter().copied());
                let tightest = all.min_by_key(|text| tightness(text).unwrap_or(u64::MAX));
                tightest.map(str::to_owned)
            }
            _ => Some(last.unwrap_or(original).to_owned()),
        }
    }

    /// The present value; of a list of choices (`s2idle [deep]`) the chosen one.
    pub fn read(self, path: &Path) -> Result<String> {
        if self == Self::Folder {
            let there = fs::symlink_metadata(path).is_ok();
            return Ok(if there { PRESENT } else { ABSENT }.to_owned());
        }
        if self == Self::Timestamps {
            return timestamps::read_at(path);
        }
        if self == Self::Output {
            let there = fs::symlink_metadata(path).map_err(Error::at_setting(path));
            return there.map(|_| ON.to_owned());
        }
        if self == Self::Cpuset {
            return cpuset::read(number(path));
        }
        let on = match self {
            Self::Slack => Some(timer_slack::has(folder(path), number(path))?),
            Self::Frozen => Some(freezer::is_frozen(number(path))?),
            _ => None,
        };
        if let Some(on) = on {
            return Ok(if on { ON } else { OFF }.to_owned());
        }
        let text = fs::read_to_string(path).map_err(Error::at_setting(path))?;
        let text = text.trim_end();
        let mut chosen = text
            .split(' ')
            .filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Ok(match (chosen.next(), chosen.next()) {
            (Some(only), None) => only.to_owned(),
            _ => text.to_owned(),
        })
    }

    /// Takes back what else a claim has left on a setting that has its value.
    pub fn leave(self, path: &Path) {
        if self == Self::Frozen {
            freezer::unmark(number(path));
        }
    }

    /// Writes the value; [`Error::Content`] if the setting then has another one.
    pub fn write(self, path: &Path, value: &str) -> Result<()> {
        match (self, value) {
            (Self::Folder, ABSENT) => fs::remove_dir(path).map_err(Error::at_setting(path))?,
            (Self::Folder, _) => fs::create_dir(path).map_err(Error::at_setting(path))?,
            (Self::Timestamps, _) => timestamps::write_at(path, value)?,
            (Self::Output, _) => return write(path, NO_OUTPUT),
            // A thread that has it afterwards gave it to itself.
            (Self::Slack, _) => return timer_slack::lower(folder(path), number(path)),
            (Self::Frozen, _) => freezer::thaw(number(path))?,
            (Self::Cpuset, _) => cpuset::write(number(path), value)?,
            _ => write(path, value)?,
        }
        let present = settled(value, self.looks(), || self.read(path))?;
        match present == value {
            true => Ok(()),
            false => Err(Error::Content {
                path: path.to_owned(),
                expected: "the value just written to stay",
                found: present,
            }),
        }
    }
}

impl Kind {
    /// How often a value is read until it is that written. While the kernel moves an interrupt, at its next one, it
    /// shows the CPUs before.
    /// Source: kernel/irq/migration.c, irq_move_masked_irq(); kernel/irq/proc.c, show_irq_affinity().
    fn looks(self) -> u32 {
        match self {
            Self::Interrupt => 20,
            _ => 1,
        }
    }
}

/// The value that `read` returns once it is `value`, or at the last of some looks.
fn settled(value: &str, looks: u32, mut read: impl FnMut() -> Result<String>) -> Result<String> {
    let mut present = read()?;
    for _ in 1..looks {
        if present == value {
            break;
        }
        thread::sleep(LOOK);
        present = read()?;
    }
    Ok(present)
}

/// Between two of these looks.
const LOOK: Duration = Duration::from_millis(10);

/// Values of a folder's claim and its original.
const ABSENT: &str = "absent";
pub(super) const PRESENT: &str = "present";
/// Values of an output's claim and its original.
pub(super) const ON: &str = "on";
pub(super) const OFF: &str = "off";
/// Channel, start and period, s and ns.
/// Source: Documentation/ABI/testing/sysfs-ptp, period.
const NO_OUTPUT: &str = "0 0 0 0 0";

fn write(path: &Path, value: &str) -> Result<()> {
    // Not fs::write, which creates a missing file.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(Error::at_setting(path))?;
    // An empty write does not reach the kernel; 0 unsets.
    // Source: Documentation/ABI/testing/sysfs-class-rtc, wakealarm.
    let written = if value.is_empty() { "0" } else { value };
    file.write_all(written.as_bytes())
        .map_err(Error::at_setting(path))
}

/// The number after the last `@`; paths of these kinds have one.
fn number(path: &Path) -> u64 {
    let path = path.to_string_lossy();
    let number = path.rsplit('@').next();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// A CPU's latency bound, µs: `0` means no bound (`None`), `n/a` that no latency is tolerated.
/// Source: Documentation/ABI/testing/sysfs-devices-power, pm_qos_resume_latency_us.
fn tightness(text: &str) -> Option<u64> {
    match text {
        "n/a" => Some(0),
        "0" => None,
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_files_are_settings() {
        for known in [
            "/sys/devices/system/cpu/cpu12/cpuidle/state3/disable",
            "/sys/devices/system/cpu/cpu0/online",
            "/sys/devices/system/cpu/cpu7/power/pm_qos_resume_latency_us",
            "/proc/irq/24/smp_affinity_list",
            "/proc/sys/kernel/timer_migration",
            "sys/power/mem_sleep",
            "/sys/class/rtc/rtc0/wakealarm",
            "/sys/kernel/tracing/instances/reveille-77",
            "/sys/kernel/debug/tracing/instances/reveille-77",
            "/sys/class/ptp/ptp0/pins/SDP3",
            "/sys/class/ptp/ptp0/period",
            "/sys/class/net/enp1s0f0/hwtstamp@4026531840/2",
            "/proc/timer_slack@99999617",
            "/sys/fs/cgroup/frozen@4711",
            "/sys/fs/cgroup/cpuset@4711",
        ] {
            assert!(of(known).is_some(), "{known}");
        }
        for unknown in [
            "/etc/passwd",
            "/sys/devices/system/cpu/cpu0/cpuidle/state0/disable/..",
            "/sys/devices/system/cpu/cpu/online",
            "/sys/devices/system/cpu/cpu1/../cpu2/online",
            "/sys/devices/system/cpu/cpu١/online",
            "/sys//devices/system/cpu/cpu0/online",
            "/sys/kernel/tracing/instances/reveille-",
            "/sys/kernel/tracing/instances/reveille-1/..",
            "/sys/kernel/tracing/instances/others",
            "/proc/irq/default_smp_affinity",
            "/sys/class/ptp/ptp0/pins/U.FL1",
            "/sys/class/ptp/ptp0/fifo",
            "/sys/class/net/../hwtstamp@1/2",
            "/sys/class/net//hwtstamp@1/2",
            "/sys/class/net/a:b/hwtstamp@1/2",
            "/sys/class/net/sixteen-letters-/hwtstamp@1/2",
            "/sys/class/net/eth0/hwtstamp@1",
            "/sys/class/net/eth0/hwtstamp@1/lo",
            "/sys/class/net/eth0/mtu",
            "/proc/sys/kernel/core_pattern",
            "/proc/timer_slack@",
            "/proc/timer_slack@7/8",
            "/sys/fs/cgroup/frozen@-1",
            "",
        ] {
            assert!(of(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn values_match_their_kind() {
        let takes = |path: &str, value: &str| of(path).unwrap().takes(value);
        assert!(takes("/sys/class/ptp/ptp0/pins/SDP0", "2 0"));
        assert!(!takes("/sys/class/ptp/ptp0/pins/SDP0", "2 0 1"));
        assert!(!takes("/sys/class/ptp/ptp0/pins/SDP0", "2"));
        assert!(!takes("/sys/class/ptp/ptp0/period", "0 0 0 1 0"));
        assert!(takes("/sys/power/mem_sleep", "s2idle"));
        assert!(!takes("/sys/power/mem_sleep", "a b"));
        assert!(takes("/proc/sys/kernel/printk", "4\t4\t1\t7"));
        assert!(!takes("/proc/sys/kernel/printk", "4 4 1"));
        assert!(takes("/proc/irq/1/smp_affinity_list", "0-3,8"));
        assert!(!takes("/proc/irq/1/smp_affinity_list", "zero"));
        assert!(!takes("/sys/devices/system/cpu/cpu0/online", "2"));
        assert!(takes("/sys/class/net/eth0/hwtstamp@1/2", "0 1"));
        assert!(!takes("/sys/class/net/eth0/hwtstamp@1/2", "1"));
    }

    #[test]
    fn the_tightest_bound_and_otherwise_the_last_claim_applies() {
        let wanted = |kind: Kind, original, claims: &[&str]| kind.wanted(original, claims);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(wanted(Kind::Bound, "0", &["100", "50"]), some("50"));
        assert_eq!(wanted(Kind::Bound, "0", &["50", "100"]), some("50"));
        assert_eq!(wanted(Kind::Bound, "20", &["50"]), some("20"));
        assert_eq!(wanted(Kind::Bound, "20", &["n/a"]), some("n/a"));
        assert_eq!(wanted(Kind::Bound, "0", &[]), some("0"));
        assert_eq!(wanted(Kind::Online, "1", &["0", "1"]), some("1"));
        assert_eq!(wanted(Kind::Interrupt, "0-1", &["0-1"]), None);
        assert_eq!(wanted(Kind::Interrupt, "0-1", &["0"]), some("0"));
        assert_eq!(wanted(Kind::Interrupt, "0-1", &[]), some("0-1"));
    }

    #[test]
    fn a_value_that_shows_late_is_waited_for() {
        assert!(Kind::Interrupt.looks() > 1);
        assert_eq!(Kind::Switch.looks(), 1);
        let looked = |values: &[&str]| {
            let mut values = values.iter();
            let found = settled("1", 3, || Ok((*values.next().unwrap()).to_owned()));
            (found.unwrap(), values.len())
        };
        assert_eq!(looked(&["1"]), ("1".into(), 0));
        assert_eq!(looked(&["0-1", "0-1", "1"]), ("1".into(), 0));
        assert_eq!(looked(&["0-1", "1", "0-1"]), ("1".into(), 1));
        assert_eq!(looked(&["0-1", "0", "2", "1"]), ("2".into(), 1));
    }

    #[test]
    fn the_chosen_item_of_a_list_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mem_sleep");
        let kind = of("/sys/power/mem_sleep").unwrap();
        fs::write(&file, "s2idle [deep]\n").unwrap();
        assert_eq!(kind.read(&file).unwrap(), "deep");
        fs::write(&file, "[a] [b]\n").unwrap();
        assert_eq!(kind.read(&file).unwrap(), "[a] [b]");
    }
}

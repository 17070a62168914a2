//! The alarm of the real-time clock, which wakes the machine.
//!
//! Its time is the clock's own, whether that is UTC or local time: it is only compared with what
//! the same clock shows.
//! Source: Documentation/ABI/testing/sysfs-class-rtc.

use std::path::Path;
use std::time::{Duration, SystemTime};

use reveille_kernel::{Journal, Root};

use crate::{Error, Result};

const CLOCKS: &str = "sys/class/rtc";

/// A clock whose alarm wakes this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// `rtc0`.
    pub name: String,
}

/// An alarm that was set, and is cleared with this.
pub(super) struct Armed {
    alarm: Alarm,
    at: u64,
    journal: Journal,
}

impl Alarm {
    /// The first clock whose alarm can wake this machine and is not in use.
    pub fn find(root: &Root) -> Result<Self> {
        let cannot = |why: String| Err(Error::Cannot(why));
        let mut names = root.names(CLOCKS).unwrap_or_default();
        if names.is_empty() {
            return cannot(
                "this machine has no real-time clock (/sys/class/rtc is empty): nothing would wake \
                 it"
                .into(),
            );
        }
        let listed = names.join(", ");
        // The kernel shows the file where the clock has an alarm that its device can wake by.
        let with_alarm =
            |name: &String| Self { name: name.clone() }.path(root, "wakealarm").exists();
        names.retain(with_alarm);
        if names.is_empty() {
            return cannot(format!(
                "no alarm can wake this machine: of {listed} none has a wakealarm"
            ));
        }
        let wakes = |name: &&String| {
            let wakeup = root.text(&format!("{CLOCKS}/{name}/device/power/wakeup"));
            wakeup.as_deref() == Some("enabled")
        };
        let Some(name) = names.iter().find(wakes) else {
            let name = &names[0];
            return cannot(format!(
                "the alarm of {name} may not wake this machine; `echo enabled \
                 >/sys/class/rtc/{name}/device/power/wakeup` allows it"
            ));
        };
        let alarm = Self { name: name.clone() };
        alarm.refuse_used(root)?;
        Ok(alarm)
    }

    fn path(&self, root: &Root, file: &str) -> std::path::PathBuf {
        root.path(&format!("{CLOCKS}/{}/{file}", self.name))
    }

    fn number(&self, root: &Root, file: &str) -> Option<u64> {
        root.number(&format!("{CLOCKS}/{}/{file}", self.name))
    }

    /// Whose alarm it is, the kernel does not know; there is only one, so that it would be lost.
    fn refuse_used(&self, root: &Root) -> Result<()> {
        let (set, now) = (self.number(root, "wakealarm"), self.now(root)?);
        match set {
            Some(at) if at > now => {
                let name = &self.name;
                let when = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
                Err(Error::Cannot(format!(
                    "{name} has an alarm already, for {} by its own time (in {} s), which would be \
                     lost; wait for it, or clear it: echo 0 >/sys/class/rtc/{name}/wakealarm",
                    humantime::format_rfc3339_seconds(when),
                    at - now
                )))
            }
            _ => Ok(()),
        }
    }

    /// What the clock shows, as seconds since 1970.
    fn now(&self, root: &Root) -> Result<u64> {
        self.number(root, "since_epoch")
            .ok_or_else(|| Error::Cannot(format!("the clock {} cannot be read", self.name)))
    }

    /// Sets the alarm to ring after that time, or up to a second later: the clock counts seconds,
    /// and the present one has begun. What the clock then shows as its alarm is compared with it.
    pub(super) fn arm(&self, root: &Root, after: Duration, journals: &Path) -> Result<Armed> {
        self.refuse_used(root)?;
        let path = self.path(root, "wakealarm");
        if self.number(root, "wakealarm").is_some() {
            // It was for a time that is over: another would be refused as long as it stands.
            std::fs::write(&path, "0")
                .map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
        }
        let at = self.now(root)? + after.as_secs() + 1;
        let mut journal = Journal::new(root, journals);
        let setting = format!("{CLOCKS}/{}/wakealarm", self.name);
        journal.set(&setting, &at.to_string()).map_err(|error| {
            Error::Cannot(format!(
                "{} takes no alarm in {} s: {error}",
                self.name,
                after.as_secs()
            ))
        })?;
        Ok(Armed {
            alarm: self.clone(),
            at,
            journal,
        })
    }
}

impl Armed {
    /// Has the time of the alarm come? `None`: the clock cannot be read.
    pub(super) fn rang(&self, root: &Root) -> Option<bool> {
        let now = self.alarm.now(root).ok()?;
        Some(now >= self.at)
    }

    /// Clears it, where something else woke the machine before.
    pub(super) fn clear(mut self) {
        self.journal.restore();
    }
}

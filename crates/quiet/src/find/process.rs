//! Which process a thread is of, and whether it may wait.

use std::collections::{BTreeMap, HashMap};

use reveille_kernel::{Root, workload};
use serde::{Deserialize, Serialize};

/// Why a process must not be delayed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The kernel's own thread.
    Kernel,
    /// A thread with a real-time policy.
    RealTime,
    /// It plays or records sound.
    Audio,
    /// It reads keys, pointers and the like.
    Input,
    /// It keeps a watchdog from resetting the machine.
    Watchdog,
    /// Process 1.
    Init,
    /// This program.
    Reveille,
    /// It is in a PID namespace that this program does not see.
    Elsewhere,
    /// It is what others wait for.
    Foreground,
    /// It has chosen a timer slack, which it keeps.
    OwnSlack,
    /// Others are woken by it, at many of its wake-ups: this one most often.
    Wakes(String),
}

impl Reason {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Kernel => "kernel".to_owned(),
            Self::RealTime => "real-time".to_owned(),
            Self::Audio => "audio".to_owned(),
            Self::Input => "input".to_owned(),
            Self::Watchdog => "watchdog".to_owned(),
            Self::Init => "process 1".to_owned(),
            Self::Reveille => "reveille".to_owned(),
            Self::Elsewhere => "another PID namespace".to_owned(),
            Self::Foreground => "foreground".to_owned(),
            Self::OwnSlack => "its own timer slack".to_owned(),
            Self::Wakes(whom) => format!("wakes {whom}"),
        }
    }
}

/// Devices whose users must not be delayed.
const DEVICES: [(&str, Reason); 5] = [
    ("/dev/snd/", Reason::Audio),
    ("/dev/input/", Reason::Input),
    ("/dev/uinput", Reason::Input),
    ("/dev/hidraw", Reason::Input),
    ("/dev/watchdog", Reason::Watchdog),
];

/// The most descriptors of a process that are looked at.
const MOST_DESCRIPTORS: usize = 65_536;

/// The numbers of SCHED_FIFO, SCHED_RR and SCHED_DEADLINE (<linux/sched.h>).
const REAL_TIME: [u32; 3] = [1, 2, 6];

/// A thread as the programs saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its process.
    pub process: u32,
    /// Its process's name.
    pub name: String,
    /// Its cgroup's number.
    pub cgroup: u64,
    /// A kernel thread.
    pub kernel: bool,
    /// Its scheduling policy.
    pub policy: u32,
}

/// Where a thread belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its cgroup, from the root of cgroup2 on; `None` if unknown.
    pub cgroup: Option<String>,
    /// Why it must not be delayed.
    pub reason: Option<Reason>,
}

/// The processes that were seen, looked at when they are seen first: later they may have ended.
pub struct Processes {
    root: Root,
    known: HashMap<u32, Process>,
    cgroups: BTreeMap<u64, String>,
}

impl Processes {
    /// None yet.
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: HashMap::new(),
            cgroups: workload::cgroups(root),
        }
    }

    /// Looks at a thread's process, if it was not yet.
    pub fn look(&mut self, thread: &Seen) {
        let known = self.known.entry(thread.process);
        let found = known.or_insert_with(|| {
            if !self.cgroups.contains_key(&thread.cgroup) {
                // One that is new.
                self.cgroups = workload::cgroups(&self.root);
                // One that was removed meanwhile is looked for once.
                self.cgroups.entry(thread.cgroup).or_default();
            }
            let cgroup = self.cgroups.get(&thread.cgroup);
            Process {
                number: thread.process,
                name: thread.name.clone(),
                cgroup: cgroup.filter(|name| !name.is_empty()).cloned(),
                reason: match thread.process {
                    _ if thread.kernel => Some(Reason::Kernel),
                    1 => Some(Reason::Init),
                    number if number == std::process::id() => Some(Reason::Reveille),
                    number => uses(&self.root, number),
                },
            }
        });
        // Another one by now, after an exec.
        if found.name != thread.name {
            found.name.clone_from(&thread.name);
        }
        // A process may have one thread with a real-time policy.
        if found.reason.is_none() && REAL_TIME.contains(&thread.policy) {
            found.reason = Some(Reason::RealTime);
        }
    }

    /// The process of that number.
    pub fn of(&self, number: u32) -> Option<&Process> {
        self.known.get(&number)
    }
}

/// What the process has open that must not be delayed.
fn uses(root: &Root, process: u32) -> Option<Reason> {
    let entries = std::fs::read_dir(root.path(&format!("proc/{process}/fd"))).ok()?;
    let links = entries.take(MOST_DESCRIPTORS).flatten();
    let mut open = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    open.find_map(|path| {
        let path = path.to_str()?;
        let device = DEVICES.iter().find(|(device, _)| path.starts_with(device));
        device.map(|(_, reason)| reason.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_what_it_has_open_and_by_its_threads() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("proc/7/fd");
        std::fs::create_dir_all(&open).unwrap();
        std::os::unix::fs::symlink("/dev/null", open.join("0")).unwrap();
        std::os::unix::fs::symlink("/dev/snd/pcmC0D0p", open.join("3")).unwrap();
        let mut processes = Processes::new(&Root::at(folder.path()));
        let seen = |process, kernel, policy| Seen {
            process,
            name: "x".to_owned(),
            kernel,
            policy,
            ..Seen::default()
        };
        for one in [
            seen(7, false, 0),
            seen(8, false, 0),
            seen(9, true, 1),
            seen(1, false, 0),
        ] {
            processes.look(&one);
        }
        let reason = |processes: &Processes, number| processes.of(number).unwrap().reason.clone();
        assert_eq!(reason(&processes, 7), Some(Reason::Audio));
        assert_eq!(reason(&processes, 9), Some(Reason::Kernel));
        assert_eq!(reason(&processes, 1), Some(Reason::Init));
        assert_eq!(reason(&processes, 8), None);
        // Another of its threads.
        processes.look(&seen(8, false, 2));
        assert_eq!(reason(&processes, 8), Some(Reason::RealTime));
        assert_eq!(processes.of(4711), None);
    }
}
